"""What notebooks show of results: real numbers, valid markup, and hostile names as text."""

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
import torch

import softkin
from places import EXAMPLES
from softkin import calibrators, decisions, metrics, predictions
from softkin._core import notebooks


@pytest.fixture(scope="module")
def rows():
    return predictions.load(EXAMPLES / "digits-test.npz")


def text_of(html):
    """The words of markup, which must be well-formed once attributes are quoted as browsers read them."""
    quoted = re.sub(r"=([^\s'\">/]+)(?=[\s>])", r'="\1"', html)
    return " ".join(ET.fromstring(f"<div>{quoted}</div>").itertext())


def places(html):
    return [float(x) for x in re.findall(r"(?:x1|x2|cx)=([\d.]+)", html)]


def test_a_whisker_draws_its_numbers_in_their_order():
    zero, again, low, high, dot = places(notebooks.whisker(0.3, 0.2, 0.5))
    assert zero == again == notebooks.EDGE
    assert low < dot < high == notebooks.WIDTH - notebooks.EDGE
    zero, _, low, high, dot = places(notebooks.whisker(-0.1, -0.2, 0.1))
    assert low < dot < zero < high
    assert notebooks.whisker(math.inf, 0, math.inf) == ""
    assert notebooks.whisker(0, 0, 0) == ""


def test_intervals_and_comparisons(rows):
    interval = metrics.ece_hist(rows.probabilities, rows.labels, confidence=0.95)
    words = text_of(interval._repr_html_())
    assert f"{interval.value:.4g}" in words
    assert f"{interval.low:.4g} to {interval.high:.4g} (95 %)" in words
    compared = metrics.compare(rows.probabilities, rows.probabilities.roll(1, 0), rows.labels, metric="accuracy")
    words = text_of(compared._repr_html_())
    assert f"{compared.difference:+.4g}" in words


def test_calibrators_rules_outcomes_and_checks(rows):
    scaling = calibrators.TemperatureScaling()
    assert "not fitted yet" in text_of(scaling._repr_html_())
    scaling.fit(rows.logits, rows.labels)
    assert "797 rows, 10 classes" in text_of(scaling._repr_html_())
    rule = decisions.PredictionSets(0.9).fit(rows.logits, rows.labels)
    assert "A set holds the true class" in text_of(rule._repr_html_())
    outcome = rule.evaluate(rows.logits, rows.labels)
    assert f"{outcome['coverage'].value:.4g}" in text_of(outcome._repr_html_())
    checked = softkin.check(rows, max={"gap": "3%"})
    assert "✗" in text_of(checked._repr_html_())
    assert "within ±3 %" in text_of(checked._repr_html_())


def test_names_are_text(rows):
    hostile = "<script>alert(1)</script>"
    named = replace(rows, class_names=[hostile, *rows.class_names[1:]], labels=torch.zeros_like(rows.labels))
    html = named._repr_html_()
    assert "<script" not in html
    assert hostile in text_of(html)
    assert "797 samples, 10 classes" in text_of(html)

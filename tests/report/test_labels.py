"""Several labels per sample: the page's numbers are those of each column alone, of all, and their mean."""

import json

import numpy as np
import pytest
import torch

from command_line import run
from softkin import metrics, report
from softkin.evaluation import many_labels
from softkin.metrics.measurement import Settings
from softkin.metrics.scopes import Claims

NAMES = ["news", "sport", "money"]


def claims(power=2.0, n=1500):
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(n, 3, generator=generator, dtype=torch.float64)
    truth = torch.stack([p[:, 0], p[:, 1], p[:, 2] ** power], dim=1)
    return Claims(p, (torch.rand(n, 3, generator=generator) < truth).to(torch.float64), exclusive=False)


def page_of(made):
    return report.build_labels(many_labels.evaluated(made, NAMES, "labels.npz", Settings(resamples=100)), made)


def test_labels_stand_for_themselves_and_together():
    made = claims()
    page = page_of(made)
    p, y = made.probabilities, made.labels.bool()
    each = [metrics.ece_hist(p[:, k], y[:, k]) for k in range(3)]
    rows = {row["method"]: row["cells"]["ece_hist"]["value"] for row in page["table"]["rows"]}
    for k in range(3):
        assert rows[f"l{k}"] == pytest.approx(each[k])
        assert page["curves"][f"l{k}"]["prediction"]["ece"]["15"] == [pytest.approx(each[k])]
    assert rows["mean"] == pytest.approx(sum(each) / 3)
    assert rows["together"] == pytest.approx(metrics.ece_hist(p.reshape(-1), y.reshape(-1)))
    assert page["curves"]["together"]["prediction"]["ece"]["15"] == [pytest.approx(rows["together"])]
    shown = page["overview"]["groups"][0]["rows"]
    assert [row["error"] for row in shown] == sorted((row["error"] for row in shown), reverse=True)
    money = shown[0]
    assert (money["method"], money["kind"]) == ("l2", "over")
    assert money["right"] == pytest.approx(float(y[:, 2].double().mean()))
    assert money["sure"] == pytest.approx(float(p[:, 2].mean()))


def test_the_headline_names_the_worst_label_and_only_a_wrong_one():
    assert page_of(claims())["overview"]["headline"] == "The probabilities of 1 of 3 labels are off, most of all money"
    calm = page_of(claims(power=1.0))["overview"]
    assert calm["headline"] == "No sign that any of the 3 labels is wrong about its probability"
    assert (calm["kind"], calm["choices"]) == ("fine", [])


def test_evaluate_writes_the_page(tmp_path, capsys):
    made = claims()
    np.savez(tmp_path / "labels.npz", probs=made.probabilities.numpy(), labels=made.labels.numpy().astype(int))
    code, output, _ = run(
        capsys,
        "evaluate",
        tmp_path / "labels.npz",
        "--multi-label",
        "--resamples",
        100,
        "--report",
        tmp_path / "p.html",
    )
    assert code == 0
    assert "Wrote" in output
    assert json.loads((tmp_path / "p.json").read_text())["subject"] == "labels"

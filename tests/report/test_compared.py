"""What the first screen of a comparison says follows from its p-values."""

import re

import pytest

from softkin import report
from softkin.report import compared


def comparison(p_values, ties=(False, False)):
    cells = [{"value": 0.1, "best": True, "tie": False, "p_value": None}]
    cells += [{"value": 0.2, "best": False, "tie": t, "p_value": p} for p, t in zip(p_values, ties, strict=True)]
    return {
        "name": "x", "num_samples": 10, "num_classes": 2,
        "methods": [{"key": key, "name": key.upper()} for key in "abc"],
        "table": {"columns": [{"key": "ece_hist", "title": "Hist P", "percent": True}],
                  "rows": [{"method": key, "cells": {"ece_hist": cell}, "chosen": None} for key, cell in zip("abc", cells, strict=True)]},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("p_values", "ties", "words"),
    [
        ((0.01, 0.02), (False, False), "Best calibrated prediction: A, significantly ahead of all others."),
        ((None, None), (False, False), "Best calibrated prediction: A; whether it is better than others is not known."),
        ((0.01, None), (False, False), "Best calibrated prediction: A; whether it is better than others is not known."),
        ((0.01, 0.5), (False, True), "Best calibrated prediction: A, not significantly better than C."),
    ],
)
def test_ahead_of_all_others_only_with_p_values(p_values, ties, words):
    data = report.build_comparison(comparison(p_values, ties))
    sentences = [re.sub("<[^>]+>", "", line) for line in compared.findings(data)]
    assert words in sentences
    headline = re.sub("<[^>]+>", "", compared.headline(data))
    assert headline.startswith("Best calibrated") == (None not in p_values)

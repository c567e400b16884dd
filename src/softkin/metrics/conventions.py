"""Presets that match the numbers of other sources: their options, and where it matters their arithmetic.

=================  ==================================================================================================
``"paper"``        Liu and JaJa 2021: 15 bins (lo, hi], a sum for each sample; KDE with h = 1.06 σ n^(−1/5). Their text
                   does not say whether the KDE is mirrored at 0 and 1: ``boundary`` stays free
``"guo2017"``      Guo et al. 2017, reference code: 15 bins (lo, hi], confidences and edges in float32; prediction only
``"kull2019"``     Kull et al. 2019, experiments: 15 bins (lo, hi]; "output" (their ECE2) is a mean over all N·K scores;
                   class-wise a sum over classes, in 14 bins [lo, hi) and a 15th for exactly 1; Brier divided by N·K
``"mix-n-match"``  Zhang et al. 2020, reference code: 15 bins of equal mass, the extra scores in the last; KDE with
                   kernel radius 3h, h = σ(correct) (2N)^(−1/5). With two classes both look at class 1 only
``"torchmetrics"`` torchmetrics: 15 bins [lo, hi), a confidence of exactly 1 in a 16th, edges in float32
``"netcal"``       netcal: 10 bins [lo, hi), 1 in the last
=================  ==================================================================================================

``mce`` takes a convention's bins, those of its ``ece_hist``, and the largest gap over them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin._core.names import did_you_mean
from softkin.metrics import binning
from softkin.metrics.binning import Bins

CONVENTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "paper": {
        "ece_hist": {"per": "sample", "binning": "width", "norm": 1, "n_bins": 15},
        "ece_kde": {"per": "sample", "bandwidth": "paper"},
    },
    "guo2017": {
        "ece_hist": {"scope": "prediction", "binning": "width", "norm": 1, "n_bins": 15, "rule": "float32"},
    },
    "kull2019": {
        "ece_hist": {"per": "score", "binning": "width", "norm": 1, "n_bins": 15},
        "classwise_ece": {"reduction": "sum", "binning": "width", "norm": 1, "n_bins": 15, "rule": "digitised"},
        "brier": {"per": "score"},
    },
    "mix-n-match": {
        "ece_hist": {"scope": "prediction", "binning": "mass", "norm": 1, "n_bins": 15, "rule": "mix-n-match"},
        "ece_kde": {
            "scope": "prediction",
            "per": "sample",
            "bandwidth": "mix-n-match",
            "boundary": "reflect",
            "rule": "mix-n-match",
        },
    },
    "torchmetrics": {
        "ece_hist": {"scope": "prediction", "binning": "width", "n_bins": 15, "rule": "torchmetrics"},
    },
    "netcal": {
        "ece_hist": {"scope": "prediction", "binning": "width", "n_bins": 10, "rule": "netcal"},
    },
}

FREE = {"n_bins"}  # may be set with a convention, because the sources let their callers choose it too

DEFAULTS: Mapping[str, Any] = {
    "scope": "prediction",
    "per": "sample",
    "n_bins": 15,
    "binning": "width",
    "norm": 1,
    "reduction": "mean",
    "bandwidth": "paper",
    "boundary": "reflect",
}
"""Defaults of options that neither the caller nor a convention sets"""


def resolve(convention: str | None, metric: str, **options: Any) -> dict[str, Any]:
    """The options to use: those that the caller set (not None), else the convention's, else the default."""
    preset: Mapping[str, Any] = {}
    if convention is not None:
        if convention not in CONVENTIONS:
            known = ", ".join(repr(name) for name in CONVENTIONS)
            guess = did_you_mean(str(convention), CONVENTIONS)
            raise ValueError(f"`convention` must be one of {known}, got {convention!r}{guess}")
        source = "ece_hist" if metric == "mce" else metric
        if source not in CONVENTIONS[convention]:
            covered = " and ".join(CONVENTIONS[convention])
            raise ValueError(f"the convention {convention!r} says nothing about `{metric}`; it covers {covered}.")
        preset = CONVENTIONS[convention][source]
        if metric == "mce":  # options that scale a sum do not affect the largest gap
            preset = {name: value for name, value in preset.items() if name not in ("norm", "per")}
    chosen: dict[str, Any] = {"rule": preset.get("rule")}
    for name, value in options.items():
        if name in preset and name not in FREE and value not in (None, preset[name]):
            raise ValueError(
                f"the convention {convention!r} means {name}={preset[name]!r}, got {name}={value!r}; "
                "leave one of the two out."
            )
        chosen[name] = value if value is not None else preset.get(name, DEFAULTS[name])
    return chosen


def bins(rule: str, scores: Tensor, n_bins: int) -> Bins:
    """The bins of a source whose edges are not exactly m/M."""
    if rule == "float32":
        return Bins(torch.linspace(0, 1, n_bins + 1))
    if rule == "torchmetrics":  # an edge above 1 makes the extra bin
        return Bins(torch.cat([torch.linspace(0, 1, n_bins + 1), torch.tensor([torch.inf])]), closed="left")
    if rule == "netcal":
        return Bins(torch.from_numpy(np.linspace(0, 1, n_bins + 1)), closed="left")
    if rule == "digitised":
        edges = torch.from_numpy(np.append(np.linspace(0, 1, n_bins), np.inf))
        return Bins(edges, closed="left")
    if rule == "mix-n-match":
        ordered = scores.to(torch.float32).sort().values.cpu()
        places = ((torch.arange(n_bins) + 1) * (len(ordered) // n_bins)).clamp(max=len(ordered) - 1)
        edges = torch.cat([torch.zeros(1), ordered[places]])
        edges[-1] = 1
        return Bins(edges, from_scores=True)
    return binning.equal_width(n_bins)

"""Models that several tests of pages show."""

import numpy as np
import pytest
import torch

from calibration_data import toy_predictions
from softkin import calibrators, report
from softkin.predictions import Predictions


@pytest.fixture(scope="module")
def answered():
    points = np.random.default_rng(0).normal(size=(6, 3))
    d = np.linalg.norm(points[:, None] - points[None], axis=2)
    names = ["cat", "dog", "<i>fox</i>", "wolf", "owl", "bee"]
    preds = toy_predictions(n=1500, class_names=names, name="toy")
    data = report.build(
        preds, distances=d, source="my file's.npz", candidates=[calibrators.VectorScaling()], resamples=100
    )
    return preds, data


@pytest.fixture(scope="module")
def several():
    first = toy_predictions(n=600, name="one")
    generator = torch.Generator().manual_seed(1)
    noisy = first.logits + 2 * torch.randn(first.logits.shape, generator=generator)
    ids = [f"s{row}" for row in range(600)]
    mixed = torch.randperm(600, generator=generator)
    return [
        Predictions(first.logits, first.labels, name="one", sample_ids=ids),
        Predictions(noisy[mixed], first.labels[mixed], name="two", sample_ids=[ids[row] for row in mixed.tolist()]),
        Predictions(first.logits / 3, first.labels, name="three", sample_ids=ids),
    ]

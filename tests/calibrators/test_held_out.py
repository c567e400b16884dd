"""Folds, and predictions of each row by a fit on the others."""

import torch

from calibration_data import drawn
from softkin.calibrators import (
    TemperatureScaling,
)
from softkin.calibrators.held_out import cross_fit, folds_of


def test_folds_cover_all_samples_once():
    parts = folds_of(13, 5, 0)
    assert sorted(torch.cat(parts).tolist()) == list(range(13))
    assert sorted(len(part) for part in parts) == [2, 2, 3, 3, 3]
    assert len(folds_of(3, 5, 0)) == 3


def test_cross_fitting_by_hand():
    z, y = drawn()
    calibrated = cross_fit(TemperatureScaling(), z, y, folds=3, from_probabilities=False, seed=1)
    held = folds_of(300, 3, 1)[2]
    rest = [i for i in range(300) if i not in set(held.tolist())]
    t = TemperatureScaling().fit(z[rest], y[rest]).temperature_
    torch.testing.assert_close(calibrated[held], torch.softmax(z[held] / t, dim=1))

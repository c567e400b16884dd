"""A model that several tests of evaluations measure."""

import pytest
import torch

from softkin.predictions import Predictions


@pytest.fixture(scope="module")
def over_confident():
    """400 samples of 7 classes."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(7, (400,), generator=generator)
    logits = torch.randn(400, 7, generator=generator)
    logits[torch.arange(400), labels] += 1.5
    return Predictions(3 * logits, labels, name="over")

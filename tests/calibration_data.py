"""Toy logits and labels that tests of calibrators and reports share."""

import torch

from softkin.predictions import Predictions


def drawn(seed=0, n=300, k=4, factor=2.0, scale=3.0):
    """Over-confident logits: labels are drawn at T = ``factor``."""
    generator = torch.Generator().manual_seed(seed)
    z = scale * torch.randn(n, k, generator=generator, dtype=torch.float64)
    return z, torch.multinomial(torch.softmax(z / factor, dim=1), 1, generator=generator)[:, 0]


def toy_predictions(n=400, k=6, seed=0, sharp=3.0, **about):
    """Predictions of a model that is right more often than not, and over-confident."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(k, (n,), generator=generator)
    logits = torch.randn(n, k, generator=generator)
    logits[torch.arange(n), labels] += 1.0
    return Predictions(sharp * logits, labels, **about)

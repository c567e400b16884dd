"""A small network and its rows, which the tests of Bayesian networks share."""

import torch
from torch import nn


def rows(n=40, d=5, k=3, seed=0, batch=16):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator)
    y = torch.randint(0, k, (n,), generator=generator)
    return [(x[start : start + batch], y[start : start + batch]) for start in range(0, n, batch)]


def network(*, norm=False, dropout=0.3, seed=0):
    torch.manual_seed(seed)
    parts = [nn.Linear(5, 8), *([nn.BatchNorm1d(8)] if norm else []), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 3)]
    return nn.Sequential(*parts)

"""Rows of an over-confident model, and the scores of prediction sets from their definitions."""

import math

import numpy as np
import torch


def drawn(n, k, seed):
    """Logits and labels of a model that is somewhat over-confident."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, k))
    return z, (z + 1.5 * rng.gumbel(size=(n, k))).argmax(1)


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def twin_score(name, p, k, u, penalty, k_reg):
    """The score of class k of one row, from its definition."""
    if name == "lac":
        return 1 - p[k]
    order = _run(p) if name == "ordinal" else sorted(range(len(p)), key=lambda j: (-p[j], j))
    rank = order.index(k) + 1
    total = math.fsum(p[j] for j in order[:rank]) - u * p[k]
    return total + (penalty * max(0, rank - k_reg) if name == "raps" else 0)


def _run(p):
    """Classes in the order in which they join a run of neighbours that begins with the winner."""
    run = [int(np.argmax(p))]
    while len(run) < len(p):
        beside = [j for j in (min(run) - 1, max(run) + 1) if 0 <= j < len(p)]
        run.append(max(beside, key=lambda j: (p[j], -j)))
    return run


def rows_of_softmax(n=600, k=6, seed=0):
    """Logits and labels drawn from their softmax."""
    generator = torch.Generator().manual_seed(seed)
    z = 2.5 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    u = torch.rand(n, 1, generator=generator, dtype=torch.float64)
    return z, (z.softmax(1).cumsum(1) < u).sum(1).clamp(max=k - 1)


def calibrated_rows(rng, n, k, sharpness=2.0):
    """Logits, and labels drawn from their own softmax."""
    z = torch.from_numpy(sharpness * rng.normal(size=(n, k)))
    return z, torch.distributions.Categorical(logits=z).sample()

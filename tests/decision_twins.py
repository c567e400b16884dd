"""Rows of an over-confident model, and the scores of prediction sets from their definitions."""

import math

import numpy as np


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
    order = sorted(range(len(p)), key=lambda j: (-p[j], j))
    rank = order.index(k) + 1
    total = math.fsum(p[j] for j in order[:rank]) - u * p[k]
    return total + (penalty * max(0, rank - k_reg) if name == "raps" else 0)

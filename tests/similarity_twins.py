"""Class distances for tests, and the similarity that they give, as plainly as it can be written."""

import math

import numpy as np


def brute_force(D, beta):
    """The definition, entry by entry, in plain Python."""
    k = len(D)
    S = [[0.0] * k for _ in range(k)]
    for i in range(k):
        others = [float(D[i][j]) for j in range(k) if j != i]
        mean = sum(others) / len(others)
        sd = math.sqrt(sum((d - mean) ** 2 for d in others) / len(others))
        if sd <= 1e-9 * max(others):
            weights = {j: 1.0 for j in range(k) if j != i}
        else:
            weights = {j: math.exp(-beta * (float(D[i][j]) - mean) / sd) for j in range(k) if j != i}
        for j, weight in weights.items():
            S[i][j] = weight / sum(weights.values())
    return np.array(S)


def random_distances(k, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    D = rng.random((k, k)) * scale
    return D + D.T

"""Every formula again, as plainly as it can be written: loops and numpy, nothing shared with the library."""

import numpy as np
import torch
from scipy.integrate import trapezoid


def random_case(seed, n=200, k=5, sharpness=2.0):
    """(N, K) probabilities and labels that follow them loosely."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k)) * sharpness
    p = np.exp(logits)
    p /= p.sum(1, keepdims=True)
    tempered = p**0.6 / (p**0.6).sum(1, keepdims=True)
    labels = np.array([rng.choice(k, p=row) for row in tempered])
    return p, labels


def case(seed, n):
    """Scores, 0, ½ and 1 among them, and hits that follow them loosely; the same as tensors."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(0.4, 0.4, n)
    scores[: min(n, 5)] = [0, 1, 0.5, 1, 1 / 3][: min(n, 5)]
    hit = rng.random(n) < scores**1.3
    return scores, hit, torch.from_numpy(scores), torch.from_numpy(hit).nonzero()[:, 0]


def pooled(p, labels, scope):
    """Lists of (score, hit)."""
    pairs = []
    for row, label in zip(p, labels, strict=True):
        if scope == "prediction":
            winner = int(np.argmax(row))
            pairs.append((float(row[winner]), int(winner == label)))
        else:
            pairs.extend((float(score), int(k == label)) for k, score in enumerate(row))
    return pairs


def bin_of(score, m):
    """The bin ((i)/m, (i+1)/m] by comparison with each edge."""
    for i in range(m):
        if score <= (i + 1) / m:
            return i
    return m - 1


def ece(pairs, n, m=15, norm=1, bins=None):
    """Over equal-width bins, or those that ``bins`` maps each score to."""
    groups = {}
    for score, hit in pairs:
        groups.setdefault(bins(score) if bins else bin_of(score, m), []).append((score, hit))
    gaps = [(len(g), abs(np.mean([s for s, _ in g]) - np.mean([h for _, h in g]))) for g in groups.values()]
    if norm == "max":
        return max(gap for _, gap in gaps)
    return sum(size / n * gap**norm for size, gap in gaps) ** (1 / norm)


def triweight(u):
    return np.where(np.abs(u) < 1, 35 / 32 * (1 - u**2) ** 3, 0.0)


def kde_ece(pairs, n, h, boundary, nodes=200_001):
    """The integral by a fine trapezoid over kernels summed one by one."""
    x = np.linspace(0, 1, nodes)
    d = np.zeros(nodes)
    for score, hit in pairs:
        centres = [score] if boundary == "none" else [score, -score if score < 0.5 else 2 - score]
        for centre in centres:
            lo, hi = np.searchsorted(x, [centre - h, centre + h])
            part = x[lo:hi]
            d[lo:hi] += triweight((part - centre) / h) / h * (part - hit)
    return trapezoid(np.abs(d), x) / n


def smooth_ece(pairs, sigma, nodes=4001):
    t = np.linspace(0, 1, nodes)
    total = np.zeros(nodes)
    for score, hit in pairs:
        for m in range(-3, 4):
            for centre in (score + 2 * m, -score + 2 * m):
                total += (score - hit) * np.exp(-((t - centre) ** 2) / (2 * sigma**2)) / (sigma * np.sqrt(2 * np.pi))
    return trapezoid(np.abs(total), t) / len(pairs)


def aurc(confidence, wrong):
    """Without ties."""
    order = np.argsort(-np.asarray(confidence))
    errors = np.cumsum(np.asarray(wrong, dtype=float)[order])
    return float(np.mean(errors / np.arange(1, len(errors) + 1)))

"""Class distances for the page: small enough for 1,000 classes, exact enough for labels to 1e-6."""

import base64

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from softkin import diagrams, similarity
from softkin._core import checks
from softkin._core.checks import Array
from softkin.report.data import NearMistakes, Similarity

MOST_CLASSES = 2000  # their codes make a page of 21 MB


def encoded(
    distances: Array, *, num_classes: int, source: str | None, alpha: float, beta: float, asymmetric: bool
) -> Similarity:
    """(K, K) distances as whole numbers of 32 bits: d(k, j) = low[k] + step[k] · code[k, j].

    Each row has a scale of its own, so the rounding is 2^-33 of the row's range. The label of a class takes β times
    the distance in standard deviations of its row, and range/σ is at most √(2(K−1)): for 1,000 classes and β = 10 that
    is an error of 5e-8 of a label's entry.
    """
    d = checks.square(distances, "distances", without_diagonal=True)
    if len(d) != num_classes:
        raise ValueError(f"`distances` must cover the {num_classes} classes of the predictions, got {len(d)}.")
    if len(d) > MOST_CLASSES:
        raise ValueError(
            f"`distances` must cover at most {MOST_CLASSES:,} classes to fit on a page, got {len(d):,}; leave them out."
        )
    if not asymmetric:
        checks.symmetric(d, "distances")
    rows = d.numpy()
    other = ~np.eye(len(rows), dtype=bool)
    low = np.where(other, rows, np.inf).min(axis=1)
    step = (np.where(other, rows, -np.inf).max(axis=1) - low) / (2**32 - 1)
    codes = np.rint(np.where(other, rows - low[:, None], 0) / np.where(step > 0, step, 1)[:, None]).astype("<u4")
    return {
        "source": source,
        "alpha": checks.alpha(alpha),
        "beta": checks.beta(beta),
        "low": low.tolist(),
        "step": step.tolist(),
        "codes": base64.b64encode(codes.tobytes()).decode("ascii"),
        "order": diagrams.clustered(similarity.from_distances(d, 2.0, asymmetric=True)),
    }


NEAREST = 5


def near_mistakes(distances: Array, p: Tensor, y: Tensor) -> NearMistakes:
    """How many wrong answers are among the classes nearest to the true one, and the share expected by chance."""
    d = checks.square(distances, "distances", without_diagonal=True).clone()
    d.fill_diagonal_(float("inf"))
    answer = p.argmax(dim=1)
    wrong = answer != y
    nearest = max(1, min(NEAREST, (len(d) - 1) // 2))  # at most half of the others: all of them would say nothing
    near = d.argsort(dim=1, stable=True)[:, :nearest]
    hits = (near[y[wrong]] == answer[wrong, None]).any(dim=1)
    return {"nearest": nearest, "wrong": int(wrong.sum()), "near": int(hits.sum()), "chance": nearest / (len(d) - 1)}


def decoded(content: Similarity) -> NDArray[np.float64]:
    """The (K, K) distances that ``encoded`` wrote, with a zero diagonal."""
    codes = np.frombuffer(base64.b64decode(content["codes"]), dtype="<u4").reshape(len(content["low"]), -1)
    values: NDArray[np.float64] = np.array(content["low"])[:, None] + np.array(content["step"])[:, None] * codes
    np.fill_diagonal(values, 0)
    return values

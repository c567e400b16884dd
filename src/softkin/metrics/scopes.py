"""Which of the N·K scores a calibration metric uses, and labels redrawn from them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks

Scope = Literal["prediction", "output"]
Per = Literal["sample", "score"]
PERS = ("sample", "score")

TIES_AT_ONCE = 2**15  # scores searched for ties at a time, so that the copies stay in the cache


def winners(probabilities: Tensor) -> Tensor:
    """The winning class of each row; of equal scores the first wins."""
    if _numpy_is_faster(probabilities):
        return torch.from_numpy(probabilities.numpy().argmax(axis=1))
    return probabilities.argmax(dim=1)


def _numpy_is_faster(probabilities: Tensor) -> bool:
    return probabilities.device.type == "cpu" and probabilities.dtype in (torch.float32, torch.float64)


def wins(probabilities: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The winning score of each row, and whether it is the true class's; of equal scores the first class wins."""
    winning = probabilities.amax(dim=1)  # much faster than an argmax
    # Two equal scores that win are at most half a row each: only there an earlier class can have the same score.
    if not _numpy_is_faster(probabilities):
        right = probabilities.gather(1, labels[:, None])[:, 0] == winning
        doubtful = (right & (winning <= 0.51)).nonzero()[:, 0]
        right[doubtful] = winners(probabilities.index_select(0, doubtful)) == labels[doubtful]
        return winning, right
    p, y, best = probabilities.numpy(), labels.numpy(), winning.numpy()
    same = p.reshape(-1).take(true_class_places(probabilities, labels).numpy()) == best
    rows = np.flatnonzero(same & (best <= 0.51))
    step = max(1, TIES_AT_ONCE // p.shape[1])
    for start in range(0, len(rows), step):
        tied = rows[start : start + step]
        same[tied] = p.take(tied, axis=0).argmax(axis=1) == y[tied]
    return winning, torch.from_numpy(same)


def true_class_places(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The indices of the true classes' scores among all N·K."""
    n, k = probabilities.shape
    return torch.arange(0, n * k, k, device=labels.device) + labels


def true_places(mask: Tensor) -> Tensor:
    """The indices at which an (N,) mask is true."""
    if mask.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(mask.numpy()))  # a fraction of the time that torch takes
    return mask.nonzero()[:, 0]


@dataclass(frozen=True)
class Pool:
    """The scores that a metric uses, flat, and which of them belong to the true class."""

    scores: Tensor
    """(n,) or (n·K,)"""
    hits: Tensor
    """The indices of the hits among ``scores``"""
    num_samples: int
    columns: int
    """The number of scores of each sample: 1 for prediction, K for output"""
    winners: bool = False
    """Whether they are the winning scores of the rows"""

    def denominator(self, per: Per) -> int:
        """The number that sums over scores are divided by."""
        return self.num_samples if per == "sample" else len(self.scores)

    @property
    def rows(self) -> Tensor:
        """The scores as (N, columns)."""
        return self.scores.view(self.num_samples, self.columns)

    @property
    def is_hit(self) -> Tensor:
        """A float64 matrix (N, columns) with 1 for hits."""
        mask = torch.zeros(len(self.scores), dtype=torch.float64, device=self.scores.device)
        mask[self.hits] = 1
        return mask.view(self.num_samples, self.columns)

    def redrawn(self, generator: np.random.Generator, times: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Labels drawn from the scores, ``times`` times: (column drawn, whether a hit), in (r, N) blocks.

        For prediction a hit comes with the probability that the winning score claims. For output each row's label is
        drawn from the row (from the row over its sum, where that is a rounding away from 1).
        """
        n, device = self.num_samples, self.scores.device
        rows = self.rows.to("cpu", torch.float64)
        if self.columns == 1:
            # Random 32-bit integers below 2^32·p: a third of the time that floats take, and exact to 2^-32.
            threshold = (rows[:, 0] * 2**32).clamp(max=2**32 - 1).numpy().astype(np.uint32)
            column = torch.zeros(1, 1, dtype=torch.int64, device=device)
            for count in blocks(times, n):
                hit = generator.integers(0, 2**32, (count, n), dtype=np.uint32) < threshold
                yield column.expand(count, n), torch.from_numpy(hit).to(device)
            return
        cumulative = rows.cumsum(dim=1)
        always = torch.ones(1, 1, dtype=torch.bool, device=device)
        for count in blocks(times, n):
            u = torch.from_numpy(generator.random((n, count))) * cumulative[:, -1:]
            drawn = torch.searchsorted(cumulative, u, right=True).clamp_(max=self.columns - 1)
            yield drawn.T.to(device), always.expand(count, n)


@dataclass(frozen=True)
class Claims:
    """The claims of a model about N samples, and what turned out to be true."""

    probabilities: Tensor
    """(N, K), checked"""
    labels: Tensor
    """(N,) true classes, on the same device"""

    @classmethod
    def of(cls, probabilities: Any, labels: Any) -> Self:
        """Claims from arrays of any kind, which are checked."""
        return cls(*checked(probabilities, labels))

    @property
    def num_samples(self) -> int:
        """N."""
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """K."""
        return self.probabilities.shape[1]

    def pool(self, scope: Scope) -> Pool:
        """The winning scores ("prediction") or all of them ("output")."""
        return pool(self.probabilities, self.labels, scope)


ONE_WINNER = Pool(torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.int64), 1, 1, winners=True)
"""The pool of one sample; a metric that accepts it needs only winning scores"""


def blocks(times: int, size: int) -> list[int]:
    """``times`` split into portions such that portion × size numbers fit the cache, but at least 16 at once."""
    step = min(times, max(16, 2**19 // size))
    return [min(step, times - start) for start in range(0, times, step)]


def pool(probabilities: Tensor, labels: Tensor, scope: Scope) -> Pool:
    """The winning scores ("prediction") or all of them ("output")."""
    checks.option(scope, "scope", ("prediction", "output"))
    n, k = probabilities.shape
    if scope == "output":
        return Pool(probabilities.reshape(-1), true_class_places(probabilities, labels), n, k)
    winning, right = wins(probabilities, labels)
    return Pool(winning, true_places(right), n, 1, winners=True)


def checked(probabilities: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Checked probabilities and labels on one device."""
    if getattr(probabilities, "ndim", 2) == 1 and getattr(labels, "ndim", 1) == 2:  # as make_scorer calls a metric
        raise ValueError(
            "`probabilities` must come first and `labels` second, got them the other way round; for scikit-learn's "
            "`scoring` take softkin.sklearn.scorers()."
        )
    p = checks.probabilities(probabilities)
    y = checks.class_labels(labels, num_samples=len(p), num_classes=p.shape[1])
    return p, y.to(p.device)

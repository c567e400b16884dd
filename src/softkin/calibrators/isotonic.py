"""Isotonic regression: the non-decreasing map of least squared error.

Labels are 0 and 1, and among the scores of a class only its own samples are 1. So the pool-adjacent-violators pass
needs no loop over samples: between two of a class's own samples there are only zeros, and each own sample is pooled at
once with the zeros that follow it. There remains one segment to merge for each own sample, n over all classes.
"""

from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin._core import checks
from softkin.calibrators.certificate import Solution
from softkin.calibrators.one_vs_rest import TIE_BREAK, Floats, OneVsRest, comparable, interpolated


def steps(ordered: Floats, own: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """The isotonic fit of 0/1 labels: for each step its first and last score, its level, and its number of scores.

    Args:
        ordered: (N,) all scores, ascending.
        own: The scores of the samples whose label is 1, ascending; each is among ``ordered``.
    """
    values, hits = np.unique(own, return_counts=True)
    starts = np.searchsorted(ordered, values, side="left")
    if not len(starts) or starts[0] > 0:  # the zeros before the first own sample
        starts, hits = np.concatenate([[0], starts]), np.concatenate([[0], hits])
    sizes = np.diff(np.append(starts, len(ordered)))
    kept: list[tuple[int, int]] = []  # (hits, size) of the steps so far
    places: list[int] = []
    for place, hit, size in zip(starts.tolist(), hits.tolist(), sizes.tolist(), strict=True):
        while kept and kept[-1][0] * size >= hit * kept[-1][1]:  # not below the next: merge them
            before_hit, before_size = kept.pop()
            hit, size, place = hit + before_hit, size + before_size, places.pop()
        kept.append((hit, size))
        places.append(place)
    first = np.array(places)
    hit_array, size_array = np.array(kept, dtype=np.float64).T
    last = np.append(first[1:], len(ordered)) - 1
    return ordered[first], ordered[last], hit_array / size_array, size_array


def weighted_steps(scores: Floats, hits: Floats, weights: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """``steps`` of (N,) scores in any order, with (N,) hits from 0 to 1 and weights; those of weight 0 are left out."""
    scores, hits, weights = (part[weights > 0] for part in (scores, hits, weights))
    values, which = np.unique(scores, return_inverse=True)
    sizes, sums = np.bincount(which, weights), np.bincount(which, weights * hits)
    kept: list[tuple[float, float]] = []
    places: list[int] = []
    for place, (hit, size) in enumerate(zip(sums.tolist(), sizes.tolist(), strict=True)):
        start = place
        while kept and kept[-1][0] * size >= hit * kept[-1][1]:
            before_hit, before_size = kept.pop()
            hit, size, start = hit + before_hit, size + before_size, places.pop()
        kept.append((hit, size))
        places.append(start)
    first = np.array(places)
    hit_array, size_array = np.array(kept, dtype=np.float64).T
    return values[first], values[np.append(first[1:], len(values)) - 1], hit_array / size_array, size_array


class IsotonicCalibration(OneVsRest, name="isotonic", candidates=({"classes": "pooled"},), quick=True):
    r"""Isotonic regression of the labels on the scores, with one map for each class or one for all.

    A map is constant on each step of the fit, linear between the last score of a step and the first of the next, and
    constant beyond the ends, as scikit-learn's. Rows are normalised.

    Args:
        classes: "separate": one-vs-rest, a map for each class. "pooled": one map for the scores of all classes, the
            multi-class form of Mix-n-Match; where several classes of a row share a step, the raw score decides
            between them, so that the winning class hardly ever changes.

    Attributes:
        knots_: (M,) scores, concatenated over the maps.
        levels_: (M,) their values.
        offsets_: The index at which each map begins, and M.

    References:
        Zadrozny and Elkan, Transforming Classifier Scores into Accurate Multiclass Probability Estimates, 2002.
        Zhang et al., Mix-n-Match, 2020, arXiv:2003.07329, Sec. 3.2.
    """

    kept = ("knots_", "levels_", "offsets_")
    takes_weights = True
    knots_: Tensor
    levels_: Tensor
    offsets_: Tensor

    def __init__(self, *, classes: Literal["separate", "pooled"] = "separate") -> None:
        self.classes = classes
        self.check_options()

    def check_options(self) -> None:
        checks.option(self.classes, "classes", ("separate", "pooled"))

    def fit_rows(self, z: Tensor, y: Tensor, weights: Tensor | None = None) -> Solution:
        p, labels = comparable(torch.softmax(z, dim=1)).numpy(), y.numpy()
        n, k = p.shape
        if weights is not None:
            return self._keep([weighted_steps(*parts) for parts in self._weighted_maps(p, labels, weights.numpy())])
        mine = p[np.arange(n), labels]
        if self.classes == "pooled":
            maps = [(np.sort(p, axis=None), np.sort(mine))]
        else:
            ordered = np.sort(np.ascontiguousarray(p.T), axis=1)
            order = np.lexsort((mine, labels))
            bounds = np.searchsorted(labels[order], np.arange(k + 1))
            maps = [(ordered[j], mine[order[bounds[j] : bounds[j + 1]]]) for j in range(k)]
        return self._keep([steps(scores, own) for scores, own in maps])

    def _weighted_maps(self, p: Floats, labels: NDArray[Any], weights: Floats) -> list[tuple[Floats, Floats, Floats]]:
        """Scores, hits and weights of each map."""
        n, k = p.shape
        hits = np.zeros_like(p)
        hits[np.arange(n), labels] = 1
        if self.classes == "pooled":
            return [(p.reshape(-1), hits.reshape(-1), weights.repeat(k))]
        return [(p[:, j], hits[:, j], weights) for j in range(k)]

    def _keep(self, fits: list[tuple[Floats, Floats, Floats, Floats]]) -> Solution:
        """Keep the knots of each map."""
        knots, levels, offsets = [], [], [0]
        for first, last, level, _ in fits:
            x, v = np.stack([first, last], axis=1).reshape(-1), np.repeat(level, 2)
            keep = np.append(True, np.diff(x) > 0)  # a step of one score needs one knot
            knots.append(x[keep])
            levels.append(v[keep])
            offsets.append(offsets[-1] + int(keep.sum()))
        self.knots_ = torch.from_numpy(np.concatenate(knots))
        self.levels_ = torch.from_numpy(np.concatenate(levels))
        self.offsets_ = torch.tensor(offsets)
        return Solution()

    def scores(self, z: Tensor) -> Tensor:
        p = comparable(torch.softmax(z, dim=1))
        knots, levels, offsets = self.knots_.numpy(), self.levels_.numpy(), self.offsets_.tolist()
        if len(offsets) == 2:
            shared = torch.from_numpy(interpolated(p.numpy(), knots, levels))
            return shared + TIE_BREAK * p
        columns = np.ascontiguousarray(p.T.numpy())
        mapped = np.empty_like(columns)
        for j, (a, b) in enumerate(pairwise(offsets)):
            mapped[j] = interpolated(columns[j], knots[a:b], levels[a:b])
        return torch.from_numpy(mapped).T.contiguous()

    def summary(self) -> str:
        return f"{len(self.knots_):,} knots in {len(self.offsets_) - 1} maps"

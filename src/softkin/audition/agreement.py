"""Ranks and largest entries that a candidate and the confusions have in common, also under renamed classes."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from softkin.audition.fits import Fit, Floats, Problem

TOP = 5  # number of largest entries whose overlap is counted
TOGETHER = 8  # renamings that are multiplied at once, so that the candidates' rows are read less often


class Agreement:
    """The rank agreement between the rows of each candidate and of the confusions, also under renamed classes."""

    def __init__(self, problem: Problem, fits: Sequence[Fit]) -> None:
        others = torch.ones(problem.target.shape, dtype=torch.bool)
        others[problem.line, problem.kept] = False
        k = problem.target.shape[1]
        self.k, self.kept = k, problem.kept

        def parted(matrix: Tensor) -> Tensor:
            return matrix[others].view(len(problem.kept), k - 1)

        def back(rows: Floats) -> Tensor:
            full = torch.zeros(problem.target.shape, dtype=torch.float32)
            full[others] = torch.from_numpy(rows.astype(np.float32)).reshape(-1)
            return full

        ranks, tops = [], []
        for fit in fits:
            nearness = -parted(problem.mixed(fit.direction)).numpy()
            ranks.append(back(_standardised_ranks(nearness)))
            tops.append(back(top_membership(nearness, TOP)))
        seen = parted(problem.target).numpy()
        self.ranks, self.tops = torch.stack(ranks), torch.stack(tops)
        self.energies = torch.stack([problem.mixed(fit.weights).to(torch.float32) for fit in fits])
        self.seen_ranks, self.seen_tops = back(_standardised_ranks(seen)), back(top_membership(seen, TOP))
        self.target = problem.target.to(torch.float32)

    @property
    def correlations(self) -> Floats:
        """(candidates, n) Spearman correlations of the rows."""
        return (self.ranks * self.seen_ranks).sum(dim=2).double().numpy()

    @property
    def overlaps(self) -> Floats:
        """(candidates, n) shares of the five largest entries that both have in common."""
        return (self.tops * self.seen_tops).sum(dim=2).double().numpy() / min(TOP, self.k - 1)

    def controls(self, permutations: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """(candidates, permutations) mean energies, correlations and overlaps after renaming the classes.

        Renaming the confusions' classes inversely is equivalent, and is done once for all candidates.
        """
        n, k = len(self.kept), self.k
        count = len(self.ranks)
        results = tuple(np.empty((count, permutations)) for _ in range(3))
        parts = [part.view(count, -1) for part in (self.energies, self.ranks, self.tops)]
        scales = (n, n, n * min(TOP, k - 1))
        for start in range(0, permutations, TOGETHER):
            orders = [torch.from_numpy(rng.permutation(n)) for _ in range(min(TOGETHER, permutations - start))]
            renamed = torch.empty(len(orders), n, k)
            for result, part, seen, scale in zip(
                results, parts, (self.target, self.seen_ranks, self.seen_tops), scales, strict=True
            ):
                for place, order in enumerate(orders):
                    # Only counted classes are permuted; the others keep their places, because they have no row.
                    columns = torch.arange(k)
                    columns[self.kept] = self.kept[order]
                    torch.index_select(seen.index_select(0, order), 1, columns, out=renamed[place])
                products = part @ renamed.view(len(orders), -1).T
                result[:, start : start + len(orders)] = products.double().numpy() / scale
        energies, correlations, overlaps = results
        return energies, correlations, overlaps


def _standardised_ranks(rows: Floats) -> Floats:
    """Ranks of each row (ties share the mean), at mean 0 and unit length; 0 if all entries are equal."""
    from scipy.stats import rankdata

    ranks = rankdata(rows, axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    length = np.linalg.norm(ranks, axis=1, keepdims=True)
    standard: Floats = ranks / np.where(length > 0, length, 1.0)
    return standard


def top_membership(rows: Floats, m: int) -> Floats:
    """The probability of each entry to be among the m largest of its row, with ties broken at random."""
    m = min(m, rows.shape[1])
    last = -np.partition(-rows, m - 1, axis=1)[:, m - 1 : m]
    above, equal = rows > last, rows == last
    left = m - above.sum(axis=1, keepdims=True)
    members: Floats = above + equal * (left / equal.sum(axis=1, keepdims=True))
    return members

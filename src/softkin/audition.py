r"""Rank similarity sources, before anything is trained, by how well they predict observed confusions.

Row k of the confusions, :math:`c_k(j)`, is the share of class j among the classes that class k is taken for. A source
with normalised distances z (rows of mean 0 and deviation 1 over the other classes) predicts it by
:math:`s_k(j) \propto \exp(-\beta z_k(j))`, and is judged by

- the cross-entropy of rows, :math:`-\frac1K \sum_k \sum_j c_k(j) \ln s_k(j)` in nats, at a β that was fitted to other
  classes (cross-validation over classes); a uniform similarity has ln(K−1),
- the mean rank correlation of s_k and c_k, and the mean overlap of their five largest entries.

Each statistic has a bootstrap interval over classes, and a control: its value after renaming the source's classes at
random. A mixture of all sources, :math:`\exp(-\sum_m w_m z_m)` with w ≥ 0, is fitted in the same way, which is a convex
problem.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin import auto_alpha, checks, similarity
from softkin.checks import Array
from softkin.files import number

TOP = 5  # number of largest entries whose overlap is counted
LARGEST_WEIGHT = 50.0
FEW = 10  # minimum number of classes with confusions for cross-validation
MIXTURE = "mixture"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Confusions:
    """Observed confusions between classes, and their origin.

    They are made by ``confusions_of_outputs``, ``confusions_of_labels`` or ``confusions_of_counts``.
    """

    shares: Tensor
    """(K, K) float64: row k sums to 1 over the classes that k is taken for, or is 0 if nothing is known of class k"""
    source: str
    """A description of their origin"""
    gap: float | None = None
    """Mean confidence − accuracy, for a model's outputs"""
    gap_deviation: float | None = None


def confusions_of_outputs(probabilities: Array, labels: Array, *, source: str = "a model's outputs") -> Confusions:
    """Confusions from a baseline's outputs (N, K) on held-out rows with labels (N,)."""
    p = checks.probabilities(probabilities).to("cpu", torch.float64)
    y = checks.class_labels(labels, num_samples=len(p), num_classes=p.shape[1]).cpu()
    confidence, predicted = p.max(dim=1)
    excess = confidence - (predicted == y).to(p.dtype)
    return Confusions(
        _shares(similarity.wrong_mass(p, y)),
        source,
        float(excess.mean()),
        float(excess.std() / len(y) ** 0.5) if len(y) > 1 else None,
    )


def confusions_of_labels(true: Array, assigned: Array, *, num_classes: int, source: str = "human labels") -> Confusions:
    """Confusions of people who labelled samples of known classes; both arguments are (N,)."""
    first = checks.class_labels(true, num_samples=len(true), num_classes=num_classes).cpu()
    second = checks.class_labels(assigned, num_samples=len(first), num_classes=num_classes).cpu()
    counts = torch.bincount(first * num_classes + second, minlength=num_classes**2).view(num_classes, num_classes)
    return confusions_of_counts(counts, source=source)


def confusions_of_counts(counts: Array, *, source: str = "a confusion matrix") -> Confusions:
    """Confusions from a confusion matrix (K, K): rows are true classes, columns the classes they were taken for."""
    return Confusions(_shares(checks.square(counts, "counts", without_diagonal=True)), source)


def _shares(wrong: Tensor) -> Tensor:
    mass = wrong.fill_diagonal_(0).sum(dim=1, keepdim=True)
    return wrong / torch.where(mass > 0, mass, 1.0)


@dataclass(frozen=True)
class Judged:
    """A statistic of a source: its value, its interval over classes, and its value for renamed classes."""

    value: float
    low: float
    high: float
    control: float
    """Mean over renamings"""
    p_value: float
    """Share of renamings that do at least as well, counting the source itself"""


@dataclass(frozen=True)
class Candidate:
    """A source, or the mixture, and how well it predicts the confusions."""

    name: str
    weights: Mapping[str, float]
    """β of each source; the mixture has several entries"""
    cross_entropy: Judged
    """Cross-validated nats per row; smaller is better"""
    rank_correlation: Judged
    overlap: Judged
    wins: float
    """Share of bootstrap resamples of the classes in which no other single source has a lower cross-entropy"""
    rows: Floats
    """(n,) cross-entropies of the classes with confusions"""

    @property
    def beta(self) -> float:
        """The sharpness; for the mixture, the sum of its weights."""
        return sum(self.weights.values())


@dataclass(frozen=True)
class Audition:
    """The candidates, best first, and a suggestion."""

    candidates: list[Candidate]
    uniform: float
    """The cross-entropy of a uniform similarity, ln(K−1)"""
    chosen: Candidate
    similarity: Tensor
    """S of the chosen candidate, (K, K)"""
    alpha: float | str
    """The suggested α to start with, from the baseline's gap, or "auto\""""
    words: list[str]
    """The suggestion and its certainty, in sentences"""
    confusions: Confusions
    num_classes: int
    num_rows: int
    """Number of classes with known confusions"""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""

        def judged(statistic: Judged) -> dict[str, Any]:
            return {
                "value": number(statistic.value),
                "low": number(statistic.low),
                "high": number(statistic.high),
                "control": number(statistic.control),
                "p_value": statistic.p_value,
            }

        return {
            "against": self.confusions.source,
            "classes": self.num_classes,
            "rows": self.num_rows,
            "uniform": self.uniform,
            "candidates": [
                {
                    "name": candidate.name,
                    "beta": candidate.beta,
                    "weights": dict(candidate.weights),
                    "cross_entropy": judged(candidate.cross_entropy),
                    "rank_correlation": judged(candidate.rank_correlation),
                    "overlap": judged(candidate.overlap),
                    "wins": candidate.wins,
                }
                for candidate in self.candidates
            ],
            "chosen": self.chosen.name,
            "beta": self.chosen.beta,
            "alpha": self.alpha,
            "suggestion": self.words,
        }

    def save(self, path: str | Path, *, class_names: Sequence[str], sources: Mapping[str, str] | None = None) -> None:
        """Write the chosen similarity with the suggestion, for ``train``, ``compare`` and ``from_file``.

        Args:
            path: A path that ends in .safetensors.
            class_names: The names of the classes, in the order of the confusions.
            sources: A description of each source's origin, by its name.
        """
        similarity.save(
            path,
            self.similarity,
            class_names=class_names,
            source=self.source(sources or {}),
            about={"alpha": self.alpha, "beta": self.chosen.beta, "audition": self.to_dict()},
        )

    def source(self, sources: Mapping[str, str]) -> str:
        """The provenance of the chosen similarity, in words."""
        parts = [
            f"{weight:.4g} × {name}" + (f" ({sources[name]})" if name in sources else "")
            for name, weight in self.chosen.weights.items()
            if weight > 0
        ]
        return f"audition against {self.confusions.source}: {' + '.join(parts) or 'uniform'}"


def audition(
    sources: Mapping[str, Array],
    confusions: Confusions,
    *,
    mixture: bool = True,
    folds: int = 5,
    resamples: int = 1000,
    permutations: int = 100,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audition:
    """Rank sources of class similarity by how well they predict observed confusions.

    Args:
        sources: Distances (K, K) by name; they may be asymmetric.
        confusions: The confusions to predict, of the same classes in the same order. A source must not come from the
            rows on which these were counted: a model's outputs predict themselves.
        mixture: Also learn a mixture of all sources, if there are several.
        folds: Number of folds of the classes; the rows of a fold are predicted with the β or weights of the others.
        resamples: Number of bootstrap resamples of the classes, for the intervals.
        permutations: Number of random renamings of the classes, for the controls.
        confidence: The level of the intervals.
        seed: Seed for folds, resamples and renamings.

    Example:
        >>> D = torch.rand(12, 12, generator=torch.Generator().manual_seed(0)).fill_diagonal_(0)
        >>> confused = Confusions(similarity.from_distances(D, 1.5, asymmetric=True), "a toy")
        >>> result = audition({"right": D, "wrong": D.roll(1, 0).roll(1, 1)}, confused, permutations=20)
        >>> result.chosen.name, round(result.chosen.beta, 2)
        ('right', 1.5)
    """
    shares = checks.square(confusions.shares, "confusions", without_diagonal=True)
    k = len(shares)
    if not sources:
        raise ValueError("`sources` must hold at least one matrix of distances, got none.")
    if MIXTURE in sources:
        raise ValueError(f"`sources` must not be called {MIXTURE!r}: that is what is learned from them.")
    matrices = {name: checks.square(d, f"sources[{name!r}]", without_diagonal=True) for name, d in sources.items()}
    for name, d in matrices.items():
        if len(d) != k:
            raise ValueError(f"`sources[{name!r}]` covers {len(d)} classes but the confusions cover {k}.")
    kept = (shares.sum(dim=1) > 0).nonzero()[:, 0]
    if len(kept) < FEW:
        raise ValueError(
            f"the confusions must cover at least {FEW} classes to be cross-validated over them, and {len(kept)} of {k} "
            "have any; take data with more mistakes, or more classes."
        )
    folds = checks.count(folds, "folds", least=2, most=len(kept))
    checks.count(resamples, "resamples", least=100, most=1_000_000)
    checks.count(permutations, "permutations", least=1, most=1_000_000)
    tail = (1 - checks.level(confidence)) / 2
    rng = np.random.default_rng(seed)
    problem = _Problem(matrices, shares, kept, rng.permutation(len(kept)) % folds, folds)
    names = list(matrices)
    fits = {name: problem.fit([place]) for place, name in enumerate(names)}
    if mixture and len(names) > 1:
        fits[MIXTURE] = problem.fit(list(range(len(names))))
    rows = np.stack([fit.rows for fit in fits.values()])
    counts = rng.multinomial(len(kept), np.full(len(kept), 1 / len(kept)), size=resamples) / len(kept)
    draws = counts @ rows.T  # (resamples, candidates)
    alike = _Agreement(problem, list(fits.values()))
    correlations, overlaps = alike.correlations, alike.overlaps
    controls = alike.controls(permutations, rng)
    candidates = []
    for place, (name, fit) in enumerate(fits.items()):
        rivals = [other for other in range(len(names)) if other != place]
        wins = draws[:, [place]] <= draws[:, rivals] if rivals else np.ones((resamples, 1), dtype=bool)
        energies, permuted_correlations, permuted_overlaps = (part[place] for part in controls)
        candidates.append(
            Candidate(
                name,
                dict(zip(names, fit.weights.tolist(), strict=True)) if name == MIXTURE else {name: float(fit.beta)},
                _judged(fit.rows, draws[:, place], tail, fit.control(energies), larger=False),
                _judged(correlations[place], counts @ correlations[place], tail, permuted_correlations, larger=True),
                _judged(overlaps[place], counts @ overlaps[place], tail, permuted_overlaps, larger=True),
                float(wins.all(axis=1).mean()),
                fit.rows,
            )
        )
    order = sorted(range(len(candidates)), key=lambda place: candidates[place].cross_entropy.value)
    uniform = math.log(k - 1)
    chosen, words = _suggestion([candidates[place] for place in order], draws[:, order], uniform, tail)
    alpha, about_alpha = _starting_alpha(confusions)
    weights = [chosen.weights.get(name, 0.0) for name in names]
    return Audition(
        [candidates[place] for place in order],
        uniform,
        chosen,
        similarity.mixture(list(matrices.values()), weights),
        alpha,
        [*words, about_alpha],
        confusions,
        k,
        len(kept),
    )


def _judged(rows: Floats, draws: Floats, tail: float, control: Floats, *, larger: bool) -> Judged:
    value = float(rows.mean())
    low, high = (float(end) for end in np.quantile(draws, [tail, 1 - tail]))
    as_good = control >= value if larger else control <= value
    return Judged(value, low, high, float(control.mean()), float((1 + as_good.sum()) / (1 + len(control))))


# Fits


@dataclass(frozen=True)
class _Fit:
    weights: Floats
    """(M,) weights over all sources, fitted to all classes; 0 for sources that are not included"""
    direction: Floats
    """(M,) the weights, or equal weights of the included sources if all are 0, since ranks need no sharpness"""
    rows: Floats
    """(n,) cross-entropies, each with the weights from the other folds"""
    mean_log_sum: Callable[[float], float]
    """The function t → mean over rows of ln Σ exp(−t·z), with z the mixed distances of ``weights``"""

    @property
    def beta(self) -> float:
        return float(self.weights.sum())

    def control(self, energies: Floats) -> Floats:
        """The cross-entropies of renamed classes at their best sharpness, from their mean distances ``energies``.

        Renaming the classes of a source changes only Σ c·z: the sums of exponentials are those of the same rows in
        another order. So each cross-entropy is the minimum over t of t·energy + mean_log_sum(t).
        """
        grid = np.array([0.0, 0.02, 0.05, 0.1, 0.15, 0.25, 0.4, 0.7, 1.0]) / max(self.beta, 1e-12)
        if self.beta <= 0:
            return np.full(len(energies), self.mean_log_sum(0.0))
        sums = np.array([self.mean_log_sum(float(t)) for t in grid])
        lowest: Floats = (grid[:, None] * energies + sums[:, None]).min(axis=0)
        return lowest


class _Problem:
    """The normalised distances of all sources, the confusions to predict, and the folds."""

    def __init__(
        self, matrices: Mapping[str, Tensor], shares: Tensor, kept: Tensor, fold: NDArray[np.int64], folds: int
    ) -> None:
        self.kept, self.target = kept, shares[kept]
        self.line = torch.arange(len(kept))
        self.z = torch.stack([similarity.normalised_rows(d[kept], kept) for d in matrices.values()])
        self.energy = torch.einsum("nk,mnk->mn", self.target, self.z)  # Σ_j c_k(j) z_k(j)
        self.fold, self.folds = torch.from_numpy(fold), folds

    def fit(self, places: list[int]) -> _Fit:
        """Fit the weights of the sources at ``places``, with all others 0, on all classes and cross-validated."""
        z, energy = self.z[places], self.energy[places]
        start = np.full(len(places), 1.0 / len(places))
        whole = self._weights(z, energy, torch.ones(len(self.kept), dtype=torch.float64), start)
        rows = np.empty(len(self.kept))
        for fold in range(self.folds):
            inside = self.fold == fold
            w = torch.from_numpy(self._weights(z, energy, (~inside).to(torch.float64), whole))
            part = _mixed(w, z[:, inside])
            rows[inside.numpy()] = (w @ energy[:, inside] + self._log_sum(part, self.kept[inside])).numpy()
        weights = np.zeros(len(self.z))
        weights[places] = whole
        direction = weights.copy()
        if whole.sum() <= 0:
            direction[places] = 1.0
        mixed = _mixed(torch.from_numpy(whole), z)
        return _Fit(weights, direction, rows, lambda t: float(self._log_sum(t * mixed, self.kept).mean()))

    @staticmethod
    def _log_sum(mixed: Tensor, own: Tensor) -> Tensor:
        """(n,) ln Σ_{j≠k} exp(−mixed)."""
        mixed = mixed.clone()
        mixed[torch.arange(len(own)), own] = float("inf")
        return torch.logsumexp(-mixed, dim=1)

    def _weights(self, z: Tensor, energy: Tensor, counted: Tensor, start: Floats) -> Floats:
        """The non-negative weights that minimise the mean cross-entropy of the counted rows."""
        from scipy.optimize import minimize

        total, chosen = float(counted.sum()), counted > 0
        z, energy, own = z[:, chosen], energy[:, chosen].sum(dim=1), self.kept[chosen]
        line = torch.arange(len(own))

        def loss(w: Floats) -> tuple[float, Floats]:
            weights = torch.from_numpy(w)
            mixed = _mixed(weights, z)
            mixed[line, own] = float("inf")
            log_sum = torch.logsumexp(-mixed, dim=1, keepdim=True)
            predicted = torch.exp(-mixed - log_sum)
            gradient = energy - z.reshape(len(z), -1) @ predicted.view(-1)
            value = float(weights @ energy + log_sum.sum())
            return value / total, (gradient / total).numpy()

        bounds = [(0.0, LARGEST_WEIGHT)] * len(start)
        result = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-10})
        solution: Floats = result.x
        return solution


def _mixed(weights: Tensor, z: Tensor) -> Tensor:
    """(n, K) weighted sum of the distances (M, n, K)."""
    return (weights @ z.reshape(len(z), -1)).view(z.shape[1:])


# Ranks, overlaps and controls


class _Agreement:
    """The rank agreement between the rows of each candidate and of the confusions, also under renamed classes."""

    def __init__(self, problem: _Problem, fits: "Sequence[_Fit]") -> None:
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
            mixed = _mixed(torch.from_numpy(fit.direction), problem.z)
            nearness = -parted(mixed).numpy()
            ranks.append(back(_standardised_ranks(nearness)))
            tops.append(back(top_membership(nearness, TOP)))
        seen = parted(problem.target).numpy()
        self.ranks, self.tops = torch.stack(ranks), torch.stack(tops)
        self.energies = torch.stack(
            [_mixed(torch.from_numpy(fit.weights), problem.z).to(torch.float32) for fit in fits]
        )
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
        energies, correlations, overlaps = (np.empty((count, permutations)) for _ in range(3))
        flat = [part.view(count, -1) for part in (self.energies, self.ranks, self.tops)]
        size = min(TOP, k - 1)
        for renaming in range(permutations):
            order = torch.from_numpy(rng.permutation(n))
            # Only counted classes are permuted; the others keep their places, because they have no row.
            columns = torch.arange(k)
            columns[self.kept] = self.kept[order]
            for result, part, seen, scale in zip(
                (energies, correlations, overlaps),
                flat,
                (self.target, self.seen_ranks, self.seen_tops),
                (n, n, n * size),
                strict=True,
            ):
                renamed = seen.index_select(0, order).index_select(1, columns)
                result[:, renaming] = (part @ renamed.view(-1)).double().numpy() / scale
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


# Suggestion


def _suggestion(ordered: list[Candidate], draws: Floats, uniform: float, tail: float) -> tuple[Candidate, list[str]]:
    """The best single source, or the mixture if it is surely better, and sentences that explain the choice."""
    single = next(place for place, candidate in enumerate(ordered) if candidate.name != MIXTURE)
    chosen = single
    words = []
    mixed = next((place for place, candidate in enumerate(ordered) if candidate.name == MIXTURE), None)
    if mixed is not None:
        gain = draws[:, single] - draws[:, mixed]
        low, high = np.quantile(gain, [tail, 1 - tail])
        value = ordered[single].cross_entropy.value - ordered[mixed].cross_entropy.value
        if low > 0:
            chosen = mixed
        words.append(
            f"The mixture is {value:+.3f} nats a row better than {ordered[single].name} ({low:+.3f} to {high:+.3f})"
            f"{': take it' if low > 0 else ', which may be chance: take the single source'}."
        )
    best = ordered[chosen]
    gain_value = uniform - best.cross_entropy.value
    if best.cross_entropy.high >= uniform or best.cross_entropy.p_value > 0.05:
        words.insert(
            0,
            f"No source predicts these confusions surely better than none at all (best: {best.name}, "
            f"{gain_value:+.3f} nats a row): uniform smoothing will do as well.",
        )
    else:
        words.insert(
            0,
            f"Use {best.name} with β = {best.beta:.2g}: {best.cross_entropy.value:.3f} nats a row, {gain_value:.3f} "
            f"better than no similarity.",
        )
    rivals = [place for place, candidate in enumerate(ordered) if candidate.name not in (MIXTURE, ordered[single].name)]
    if rivals:
        second = ordered[rivals[0]]
        low, high = np.quantile(draws[:, rivals[0]] - draws[:, single], [tail, 1 - tail])
        words.append(
            f"Of the single sources {ordered[single].name} is best in {100 * ordered[single].wins:.0f} % of resamples; "
            f"{second.name} is behind by {second.cross_entropy.value - ordered[single].cross_entropy.value:.3f} "
            f"({low:+.3f} to {high:+.3f})."
        )
    return best, words


def _starting_alpha(confusions: Confusions) -> tuple[float | str, str]:
    if confusions.gap is None or confusions.gap_deviation is None:
        return "auto", "These confusions do not say how much to smooth: alpha='auto' finds out during training."
    words = auto_alpha.what_a_gap_implies(confusions.gap, confusions.gap_deviation)
    if abs(confusions.gap) <= 2 * confusions.gap_deviation or confusions.gap < 0:
        return 0.0, f"The baseline is {words}."
    return round(max(auto_alpha.SHARE * confusions.gap, 0.01), 3), f"The baseline is {words}."

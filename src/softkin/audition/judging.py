"""What an audition counts and concludes: confusions, how a candidate agrees with them, and which one is suggested.

Also: β of a source, or the weights of a mixture, fitted to the confusions and cross-validated over classes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin import similarity
from softkin._core import checks
from softkin._core.checks import Array
from softkin._io.files import number
from softkin.losses import soft_labels

LARGEST_WEIGHT = 50.0
CONVERGED = 1e-11  # nats per row that the next step would still gain
MOST_STEPS = 100
ELEMENTS = 2**17  # numbers in a block of rows: 1 MB stays in a processor's cache

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """The weights of one candidate: a source or the mixture."""

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


@dataclass(frozen=True)
class Moments:
    """For each of n rows, at some weights: the cross-entropy and its first two derivatives by the weights."""

    values: Floats
    """(n,) w·e + ln Σ exp(−w·z), with e the mean distances of what is confused"""
    slopes: Floats
    """(n, M) e less the mean of z under the prediction"""
    curvatures: Floats
    """(n, M, M) the covariance of z under the prediction"""

    def of(self, rows: NDArray[np.bool_]) -> "Moments":
        return Moments(self.values[rows], self.slopes[rows], self.curvatures[rows])


class Problem:
    """The normalised distances of all sources, the confusions to predict, and the folds."""

    def __init__(
        self, matrices: Mapping[str, Tensor], shares: Tensor, kept: Tensor, fold: NDArray[np.int64], folds: int
    ) -> None:
        self.kept, self.target = kept, shares[kept]
        self.line = torch.arange(len(kept))
        self.z = torch.empty(len(kept), len(matrices), shares.shape[1], dtype=torch.float64)
        for place, d in enumerate(matrices.values()):
            self.z[:, place] = similarity.normalised_rows(d[kept], kept)
        self.energy = torch.bmm(self.z, self.target[:, :, None])[:, :, 0].numpy()  # (n, M) Σ_j c_k(j) z_k(j)
        self.fold, self.folds = fold, folds

    def mixed(self, weights: Floats) -> Tensor:
        """(n, K) weighted sum of the distances."""
        return torch.matmul(torch.from_numpy(weights), self.z)

    def fit(self, places: list[int]) -> Fit:
        """Fit the weights of the sources at ``places``, with all others 0, on all classes and cross-validated."""
        everything = np.ones(len(self.kept), dtype=bool)
        start = np.full(len(places), 1.0 / len(places))
        whole = self._weights(places, everything, start, self._moments(places, everything, start))
        at_whole = self._moments(places, everything, whole)
        rows = np.empty(len(self.kept))
        for fold in range(self.folds):
            inside = self.fold == fold
            w = self._weights(places, ~inside, whole, at_whole.of(~inside))
            rows[inside] = self._moments(places, inside, w).values
        weights = np.zeros(self.z.shape[1])
        weights[places] = whole
        direction = weights.copy()
        if whole.sum() <= 0:
            direction[places] = 1.0
        mixed = self.mixed(weights)
        mixed[self.line, self.kept] = float("inf")

        def mean_log_sum(t: float) -> float:
            # 0 times infinity is not a number: at t = 0 each of the other classes adds 1
            return float(torch.logsumexp(-t * mixed, dim=1).mean()) if t > 0 else float(np.log(mixed.shape[1] - 1))

        return Fit(weights, direction, rows, mean_log_sum)

    def _moments(self, places: list[int], rows: NDArray[np.bool_], w: Floats) -> Moments:
        """The moments of the rows of a mask, for the sources at ``places``, computed in blocks."""
        chosen = np.flatnonzero(rows)
        many, k = len(places), self.z.shape[2]
        energy = self.energy[chosen][:, places]
        values, slopes, curvatures = energy @ w, energy, np.empty((len(chosen), many, many))
        weights = torch.from_numpy(w)
        step = max(1, ELEMENTS // (many * k))
        for start in range(0, len(chosen), step):
            part = slice(start, start + step)
            numbers = torch.from_numpy(chosen[part])
            z = self.z[numbers] if many == self.z.shape[1] else self.z[numbers[:, None], torch.tensor(places)]
            scores = -torch.matmul(weights, z)
            scores[torch.arange(len(numbers)), self.kept[numbers]] = -float("inf")
            values[part] += torch.logsumexp(scores, dim=1).numpy()
            predicted = torch.softmax(scores, dim=1)[:, None]
            weighted = z * predicted
            mean = weighted.sum(dim=2)
            slopes[part] -= mean.numpy()
            second = torch.bmm(weighted, z.transpose(1, 2))
            curvatures[part] = (second - mean[:, :, None] * mean[:, None, :]).numpy()
        return Moments(values, slopes, curvatures)

    def _weights(self, places: list[int], rows: NDArray[np.bool_], w: Floats, at_w: Moments) -> Floats:
        """The weights from 0 to 50 that minimise the mean cross-entropy of the rows of a mask, from ``w`` on.

        The problem is convex. Each step goes to the minimum of the quadratic model within the bounds, or as far towards
        it as the cross-entropy falls.
        """
        for _ in range(MOST_STEPS):
            value, slope = at_w.values.mean(), at_w.slopes.mean(axis=0)
            direction = _bounded_minimum(w, slope, at_w.curvatures.mean(axis=0)) - w
            gain = -float(slope @ direction)
            if gain <= CONVERGED:
                return np.clip(w + direction, 0, LARGEST_WEIGHT)
            length = 1.0
            while True:
                trial = np.clip(w + length * direction, 0, LARGEST_WEIGHT)
                at_trial = self._moments(places, rows, trial)
                if at_trial.values.mean() <= value - 1e-4 * length * gain or length < 1e-6:
                    break
                length /= 2
            w, at_w = trial, at_trial
        return w


def _bounded_minimum(w: Floats, slope: Floats, curvature: Floats) -> Floats:
    """The v within the bounds that minimises slope·(v−w) + ½ (v−w)·curvature·(v−w)."""
    from scipy.optimize import lsq_linear

    ridge = 1e-10 * (float(np.trace(curvature)) / len(w) + 1e-6)  # for sources that are constant or the same
    root = np.linalg.cholesky(curvature + ridge * np.eye(len(w)))
    result = lsq_linear(root.T, root.T @ w - np.linalg.solve(root, slope), (0.0, LARGEST_WEIGHT), method="bvls")
    solution: Floats = result.x
    return solution


@dataclass(frozen=True)
class Confusions:
    """Observed confusions between classes, and their origin.

    They are made by ``confusions_of_outputs``, ``confusions_of_labels``, ``confusions_of_votes`` or
    ``confusions_of_counts``.
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


def confusions_of_votes(votes: Array, *, labels: Array | None = None, source: str = "human votes") -> Confusions:
    """Confusions from the votes of several people on each sample, as in CIFAR-10H.

    Args:
        votes: (N, K) number, or share, of the people who chose each class.
        labels: (N,) true classes; by default the class that most people chose.
        source: A description of their origin.
    """
    chosen = checks.as_tensor(votes, "votes").to("cpu", torch.float64)
    if chosen.ndim != 2 or chosen.shape[1] < 2 or not bool((chosen >= 0).all() & torch.isfinite(chosen).all()):
        raise ValueError(f"`votes` must have shape (N, K) and hold numbers of people, got shape {tuple(chosen.shape)}.")
    k = chosen.shape[1]
    true = chosen.argmax(dim=1) if labels is None else labels
    first = checks.class_labels(true, num_samples=len(chosen), num_classes=k).cpu()
    return confusions_of_counts(torch.zeros(k, k, dtype=torch.float64).index_add_(0, first, chosen), source=source)


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


TOP = 5  # number of largest entries whose overlap is counted, fewer than the classes of any audition
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
        return (self.tops * self.seen_tops).sum(dim=2).double().numpy() / TOP

    def controls(self, permutations: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """(candidates, permutations) mean energies, correlations and overlaps after renaming the classes.

        Renaming the confusions' classes inversely is equivalent, and is done once for all candidates.
        """
        n, k = len(self.kept), self.k
        count = len(self.ranks)
        results = tuple(np.empty((count, permutations)) for _ in range(3))
        parts = [part.view(count, -1) for part in (self.energies, self.ranks, self.tops)]
        scales = (n, n, n * TOP)
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


MIXTURE = "mixture"
SAME = 0.0005
"""A smaller difference in nats is printed as 0"""


def suggestion(ordered: list[Candidate], draws: Floats, uniform: float, tail: float) -> tuple[Candidate, list[str]]:
    """The best single source, or the mixture if it is clearly better, and sentences that explain the choice."""
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
            f"The mixture is no other than {ordered[single].name}."
            if abs(value) < SAME
            else f"The mixture is {abs(value):.3f} nats per row {'better' if value > 0 else 'worse'} than "
            f"{ordered[single].name} (gain {low:+.3f} to {high:+.3f})"
            f"{': take it' if low > 0 else ', which sampling noise may explain' if high >= 0 else ''}"
            f"{'' if low > 0 else ': take the single source'}."
        )
    best = ordered[chosen]
    gain_value = uniform - best.cross_entropy.value
    if best.cross_entropy.high >= uniform or best.cross_entropy.p_value > 0.05:
        words.insert(
            0,
            f"No source predicts these confusions clearly better than no similarity (best: {best.name}, "
            f"{gain_value:+.3f} nats per row): uniform smoothing will do as well.",
        )
    else:
        words.insert(
            0,
            f"Use {best.name} with β = {best.beta:.2g}: {best.cross_entropy.value:.3f} nats per row, {gain_value:.3f} "
            f"better than no similarity.",
        )
    rivals = [place for place, candidate in enumerate(ordered) if candidate.name not in (MIXTURE, ordered[single].name)]
    if rivals:
        second = ordered[rivals[0]]
        low, high = np.quantile(draws[:, rivals[0]] - draws[:, single], [tail, 1 - tail])
        words.append(
            f"Of the single sources {ordered[single].name} is best in {100 * ordered[single].wins:.0f} % of resamples; "
            f"{second.name} is worse by {second.cross_entropy.value - ordered[single].cross_entropy.value:.3f} "
            f"({low:+.3f} to {high:+.3f})."
        )
    return best, words


def starting_alpha(confusions: Confusions) -> tuple[float | str, str]:
    """The α to start with and the sentence that explains it, from the baseline's gap."""
    if confusions.gap is None or confusions.gap_deviation is None:
        return "auto", "These confusions do not say how much to smooth: alpha='auto' finds out during training."
    words = soft_labels.what_a_gap_implies(confusions.gap, confusions.gap_deviation)
    if abs(confusions.gap) <= 2 * confusions.gap_deviation or confusions.gap < 0:
        return 0.0, f"The baseline is {words}."
    return round(max(soft_labels.SHARE * confusions.gap, 0.01), 3), f"The baseline is {words}."

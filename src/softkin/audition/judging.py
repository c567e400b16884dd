"""What an audition counts and concludes: confusions, how a candidate agrees with them, and which one is suggested."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin import similarity
from softkin._core import checks
from softkin._core.checks import Array
from softkin._io.files import number
from softkin.audition.fits import Fit, Floats, Problem
from softkin.losses import auto_alpha


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
            f"The mixture is {value:+.3f} nats per row better than {ordered[single].name} ({low:+.3f} to {high:+.3f})"
            f"{': take it' if low > 0 else ', which sampling noise may explain: take the single source'}."
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
    words = auto_alpha.what_a_gap_implies(confusions.gap, confusions.gap_deviation)
    if abs(confusions.gap) <= 2 * confusions.gap_deviation or confusions.gap < 0:
        return 0.0, f"The baseline is {words}."
    return round(max(auto_alpha.SHARE * confusions.gap, 0.01), 3), f"The baseline is {words}."

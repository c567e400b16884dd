"""A binary model by the probability of its positive class: where that is wrong, in words and numbers.

The winning class hides half of what a binary model says: 75 % and 37 % of a rare class look like 75 % and 63 % of
confidence. Terminal, JSON and pages therefore share one verdict, that of the positive class.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from softkin._io.files import number
from softkin.evaluation import results
from softkin.evaluation.results import PositiveData, Verdict
from softkin.metrics.measurement import Measured
from softkin.metrics.scopes import Pool, effective

STATED_BINS = 10  # of the headline: steps of ten points, as people round; the first picture of the page draws the same
LEAST_IN_BIN = 20  # samples of a bin that the headline may quote; the exact test decides whether they suffice
LEAST_GAP = 0.02
TAIL = 0.05


@dataclass(frozen=True)
class PositiveClass:
    """The probability of the positive class, and how far it is from what happens."""

    name: str
    cells: Mapping[str, Sequence[float]]
    """The sums of its probabilities in 300 cells"""
    error: Measured
    """Its calibration error, ``ece_positive``"""
    certainty: float = 1.0
    """The number of rows of equal weight that say as much as one row"""

    def to_dict(self) -> PositiveData:
        """Plain data."""
        n = sum(self.cells["count"])
        return {
            "name": self.name,
            "share": number(sum(self.cells["hit_sum"]) / n),
            "expected": number(sum(self.cells["score_sum"]) / n),
        }


def name_of(name: str) -> str:
    """A class in a sentence: a number alone would read as one of the counts.

    Example:
        >>> name_of("fraud"), name_of("1")
        ('fraud', 'class 1')
    """
    return f"class {name}" if re.fullmatch(r"[-+]?\d+(\.\d+)?", name) else name


def of(pool: Pool, class_names: Sequence[str] | None, error: Measured) -> PositiveClass:
    """The positive class of a binary model.

    Args:
        pool: The claims about it.
        class_names: The names of both classes.
        error: Its ``ece_positive``.
    """
    name = "class 1" if class_names is None else name_of(class_names[1])
    certainty = effective(pool.weights, pool.num_samples) / pool.num_samples
    return PositiveClass(name, results.cells(pool), error, certainty)


def verdict(answers: Verdict, positive: PositiveClass, auroc: float | None) -> Verdict:
    """The verdict on a binary model: of the probability of its positive class first, of its answers second.

    If low probabilities are too low and high ones too high, the model is too extreme; the reverse is too cautious.

    Args:
        answers: The verdict on the winning class.
        positive: The positive class.
        auroc: How well the probability ranks, if known.
    """
    name, cells = positive.name, positive.cells
    num_samples = sum(cells["count"])
    expected, share = (sum(cells[part]) / num_samples for part in ("score_sum", "hit_sum"))
    told = "" if auroc is None else f" It tells {name} from the rest in {results.percent(auroc)} of pairs (AUROC)."
    detail = f"It expects {results.percent(expected)} {name}, and {results.percent(share)} are.{told}"
    kind, headline = _in_words(positive, num_samples)
    beside = f" As answers: {answers['detail'][0].lower()}{answers['detail'][1:]}"
    if not headline.startswith("Too cautious"):  # one class is claimed too often: no temperature mends that
        beside = beside.removesuffix(results.SMOOTH)
    return {**answers, "kind": kind, "headline": headline, "detail": detail + beside}


Kind = Literal["over", "under", "mixed", "unknown", "calibrated"]


def _in_words(positive: PositiveClass, num_samples: float) -> tuple[Kind, str]:
    name, error = positive.name, positive.error
    bins = _off(positive)
    said = {m: f"{100 * claimed:.0f} %, {100 * true:.0f} %" for m, (claimed, true, _) in bins.items()}
    off = {m: count * (claimed - true) for m, (claimed, true, count) in bins.items()}
    ends = [[m for m, (claimed, _, _) in bins.items() if (claimed >= 0.5) == high] for high in (False, True)]
    low, high = (max(end, key=lambda m: abs(off[m]), default=None) for end in ends)
    if low is not None and high is not None and (off[low] < 0) != (off[high] < 0):
        how, kind = ("extreme", "over") if off[low] < 0 else ("cautious", "under")
        return kind, f"Too {how}: where it says {said[low]} are {name}, and where it says {said[high]}"  # type: ignore[return-value]
    if off:
        worst = max(off, key=lambda m: abs(off[m]))
        return "over" if off[worst] > 0 else "under", f"Where it says {said[worst]} are {name}"
    if error.low is not None and error.low > 0 and error.value >= results.VISIBLE:
        return "mixed", f"Its probability of {name} is off by {results.points(error.value)} on average"
    low_gap, high_gap = _reach(positive, num_samples)
    if max(-low_gap, high_gap) >= results.TELLING:
        reach = f"{results.signed_points(low_gap)} to {results.signed_points(high_gap)} points"
        return "unknown", f"No evidence either way: what it expects of {name} may be off by {reach}"
    return "calibrated", f"What it says of {name} comes true, as far as {num_samples:,.0f} samples show"


def _reach(positive: PositiveClass, num_samples: float) -> tuple[float, float]:
    """The mean probability minus the share of positives, with what chance adds at 95 % given the probabilities."""
    cells = positive.cells
    gap = (sum(cells["score_sum"]) - sum(cells["hit_sum"])) / num_samples
    variance = sum(s * (1 - s / n) for n, s in zip(cells["count"], cells["score_sum"], strict=True) if n)
    chance = NormalDist().inv_cdf(1 - TAIL / 2) * math.sqrt(max(0.0, variance) / positive.certainty) / num_samples
    return gap - chance, gap + chance


def _off(positive: PositiveClass) -> dict[int, tuple[float, float, float]]:
    """The bins beyond chance: (mean probability, share of positives, count), each tested with its share of 5 %."""
    each = results.CELLS // STATED_BINS
    found = {}
    for m in range(STATED_BINS):
        parts = ("count", "score_sum", "hit_sum")
        count, scores, hits = (sum(positive.cells[part][m * each : (m + 1) * each]) for part in parts)
        seen = count * positive.certainty
        if seen < LEAST_IN_BIN or abs(scores - hits) < LEAST_GAP * count:
            continue
        if _p_value(round(hits * positive.certainty), round(seen), scores / count) <= TAIL / STATED_BINS:
            found[m] = (scores / count, hits / count, count)
    return found


def _p_value(hits: int, count: int, claimed: float) -> float:
    """Of the exact binomial test of a bin, two-sided."""
    from scipy.special import bdtr, bdtrc

    above = bdtrc(hits - 1, count, claimed) if hits else 1.0
    return float(min(1.0, 2 * min(bdtr(hits, count, claimed), above)))

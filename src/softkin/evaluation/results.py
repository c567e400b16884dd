"""The plain data that an evaluation returns and ``softkin evaluate --json`` prints, and the verdict in plain words."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from softkin._io.files import Plain, from_number
from softkin.metrics import Interval, binning
from softkin.metrics.measurement import MeasuredData
from softkin.metrics.scopes import Pool


class Verdict(TypedDict):
    """A model in plain words."""

    doubts: list[str]
    """Why the file may not be what it was read as; to be read before the headline"""
    kind: Literal["over", "under", "mixed", "unknown", "calibrated"]
    headline: str
    detail: str
    at: int | None
    """The confidence in percent that the detail mentions"""


class Reliability(TypedDict):
    """The winning scores in bins."""

    edges: list[float]
    count: list[int]
    mean_confidence: list[Plain]
    share_right: list[Plain]


class SettingsData(TypedDict):
    """The options that the numbers depend on."""

    n_bins: int
    confidence: float
    resamples: int
    seed: int
    draws: int
    slow: bool
    ordered: bool
    """Whether the classes were stated to be ordered as they are given"""
    resampled: str
    """What was resampled: rows, or groups of rows"""


class Detection(TypedDict):
    """How well a score detects out-of-distribution samples."""

    auroc: Plain
    fpr_at_95: Plain


class Unknown(TypedDict):
    """A set of out-of-distribution samples, with the detection by each score."""

    name: str | None
    num_samples: int
    scores: dict[str, Detection]


class Disagreement(TypedDict):
    """The mutual information of label and members: its mean, and how well each score detects wrong answers."""

    mean: Plain
    auroc_of_errors: dict[str, Plain]


class Described(TypedDict):
    """The result in words and in bins."""

    verdict: Verdict
    reliability: Reliability


class PositiveData(TypedDict):
    """A binary model by the probability of its positive class."""

    name: str
    share: Plain
    """Of the samples that are positive"""
    expected: Plain
    """The mean probability; ``ece_positive`` is the calibration error"""


class Evaluation(Described):
    """Everything about one model."""

    name: str | None
    num_samples: int
    num_classes: int
    """K; 1 for pairs of a confidence and an outcome"""
    kind: NotRequired[Literal["classes", "pairs", "labels"]]
    calibrated_by: NotRequired[str]
    """What calibrated the file, such as "beta calibrator"; "softkin" if only that is known"""
    class_names: list[str] | None
    digest: str | None
    """Of scores and labels; None if there were too many rows to keep"""
    settings: SettingsData
    metrics: dict[str, MeasuredData]
    positive: NotRequired[PositiveData]
    """Of two classes: what the verdict speaks of"""
    mutual_information: NotRequired[Disagreement]
    out_of_distribution: NotRequired[list[Unknown]]
    abstention: NotRequired[dict[str, Any]]
    groups: NotRequired["GroupsData"]
    people: NotRequired["People"]
    warnings: NotRequired[list[str]]


class AgainstData(TypedDict):
    """A method of a study minus another one: its 95 % interval, its p-value, and what the study would have seen."""

    value: Plain
    low: Plain
    high: Plain
    p_value: float
    least: Plain
    by_rows: float
    same: bool


class People(TypedDict):
    """How much people disagree about the samples."""

    entropy: Plain
    """Of their votes, in nats: the mean over samples"""
    entropy_of_model: Plain
    """Of the model's probabilities"""
    unanimous: Plain
    """The share of samples on which all agree"""


class GroupData(TypedDict):
    """One group of rows."""

    name: str
    num_samples: int
    metrics: dict[str, MeasuredData]
    """With simultaneous intervals: all of them hold the truth together at the level of the evaluation"""
    threshold: NotRequired[dict[str, Any]]
    """The threshold on the confidence that keeps an error rate among the answers, with its guarantee; ``observed`` is
    the most lenient one that keeps it among these rows, without a guarantee"""


class GroupsData(TypedDict):
    """The groups of rows, and whether they differ."""

    column: str
    level: float
    """Of all intervals of a metric together"""
    groups: list[GroupData]
    worst: dict[str, str]
    """The group with the worst value of each metric"""
    differ: dict[str, float]
    """The p-value, for each metric, of the hypothesis that all groups have the same value"""
    curves_differ: float | None
    """The p-value of the hypothesis that confidence means the same in all groups"""


class CellData(MeasuredData, total=False):
    """A cell of a table: a metric of a model, or of a method with its mean over seeds."""

    std: Plain
    n: int
    values: list[Plain]
    best: bool
    tie: bool
    p_value: float | None
    against: dict[str, AgainstData]


class Difference(TypedDict):
    """A metric of one model minus that of another, on the same samples."""

    difference: Plain
    low: Plain
    high: Plain


class Compared(Difference):
    """A paired comparison of two models in one metric."""

    metric: str
    a: str
    b: str
    p_value: float
    significant: bool


class SampleSet(TypedDict):
    """The samples that something was fitted or measured on."""

    name: str | None
    num_samples: int
    digest: str


class HeldOut(TypedDict):
    """What was fitted on one set of samples and measured on another."""

    fitted_on: SampleSet
    measured_on: SampleSet
    confidence: float
    """Of all intervals"""
    warnings: list[str]


class CalibratorLine(TypedDict):
    """One calibrator, measured; or why it ``failed``."""

    method: str
    code: str | None
    """None: no calibrator"""
    metrics: NotRequired[dict[str, MeasuredData]]
    seconds: NotRequired[float]
    warnings: NotRequired[list[str]]
    failed: NotRequired[str]


class ComparedCalibrators(HeldOut):
    """Calibrators side by side, the best first."""

    metric: str
    """The metric that orders them"""
    methods: list[CalibratorLine]
    winner: str
    recommended: str
    """The simplest of the winner and those that are ``level`` with it"""
    level: list[str]
    comparisons: list[Compared]
    """The winner with each of the others"""


class RuleLine(TypedDict):
    """One rule, measured; or why it ``failed``."""

    rule: str
    kind: str
    code: str
    num_samples: NotRequired[int]
    measures: NotRequired[dict[str, MeasuredData]]
    details: NotRequired[dict[str, Any]]
    guarantee: NotRequired[str]
    promised: NotRequired[float]
    """The share that the guarantee bounds: of wrong answers, or of sets with the true class"""
    seconds: NotRequired[float]
    warnings: NotRequired[list[str]]
    failed: NotRequired[str]


class ComparedRules(HeldOut):
    """Rules of decision side by side."""

    rules: list[RuleLine]


CELLS = 300  # cells of the sums: a window of ten points is a whole number of them
ENOUGH = 30  # answers in a window: fewer are not worth a sentence
TELLING = 0.03  # an interval of the gap that reaches further from 0 could hide a gap that matters
SMOOTHED = 0.02  # a smaller gap below 0 has no cause that is worth a sentence
VISIBLE = 0.0005  # a gap that is printed as 0.0 points does not count, however certain it is


SMOOTH = (
    " Label smoothing, mixup, strong weight decay and short training do this: fit a temperature, and do not smooth "
    "further."
)


def already(calibrated_by: str, kind: str) -> str:
    """The sentence about a file that was calibrated before: a second calibrator on top is no advice.

    Example:
        >>> print(already("beta calibrator", "calibrated"))
        Calibrated already, by the beta calibrator.
    """
    by = calibrated_by if calibrated_by == "softkin" else f"the {calibrated_by}"
    advice = "to remove what is left, fit a new calibrator to more of the model's own scores, not a second one on top"
    again = f"; {advice}" if kind in ("over", "under", "mixed") else ""
    return f"Calibrated already, by {by}{again}."


MOSTLY_WRONG = " Most of its answers are wrong, whatever their confidence: calibration does not change that."
MOSTLY_FALSE = " Most of these did not come true, whatever the confidence: calibration does not change that."
HALF = 0.495
"""A smaller share is printed as less than 50 %"""


def verdict(
    gap: Interval,
    ece: Interval,
    cells: Mapping[str, Sequence[float]],
    doubts: Sequence[str] = (),
    *,
    trained: bool = False,
    calibrated_by: str | None = None,
    answered: bool = True,
) -> Verdict:
    """The headline, and a sentence that explains it.

    The model is called over- or under-confident only if the gap's interval excludes 0. If neither interval shows a
    fault, the headline depends on how large a gap the interval allows: "no evidence either way" if three points or
    more, else "no sign that the confidences are wrong". If the answers at about 90 % (or the nearest confidence with
    enough of them) are clearly wrong in the other direction, the headline says so.

    Args:
        gap: Mean confidence minus accuracy (``signed_gap``), with its interval.
        ece: The histogram ECE of the prediction, with its interval.
        cells: The sums of ``cells``.
        doubts: Reasons to look at the file first.
        trained: Whether the scores are those of a classifier: if it is under-confident, its training is why.
        calibrated_by: What calibrated the scores, if anything is known to have.
        answered: Whether each row is an answer, right or wrong. If most are wrong, headline and sentence say so first:
            honest confidence does not make an answer right.

    Returns:
        ``doubts``, ``kind`` ("over", "under", "mixed", "unknown" or "calibrated"), ``headline``, ``detail``, and
        ``at``, the confidence in percent that the detail mentions.
    """
    n, hits, scores = sum(cells["count"]), sum(cells["hit_sum"]), sum(cells["score_sum"])
    sure, right = scores / n, hits / n
    detail = f"On average {percent(sure)} sure and {percent(right)} right"
    near = window(cells)
    if near is not None:
        at, share, _ = near
        detail += f": of the answers given at about {at} %, {percent(share, 0)} are right"
    reach = f"{signed_points(gap.low)} to {signed_points(gap.high)} points"
    kind: Literal["over", "under", "mixed", "unknown", "calibrated"]
    if (gap.low > 0 or gap.high < 0) and abs(gap) >= VISIBLE:
        kind = "over" if gap > 0 else "under"
        headline = f"{kind.capitalize()}-confident by {points(abs(gap))}"
        if near is not None and _contradicts(kind, cells, near):
            headline += f" on average, but too {'sure' if kind == 'under' else 'modest'} at {near[0]} %"
    elif ece.low > 0 and ece >= VISIBLE:
        kind, headline = "mixed", f"Right on average, but off by {points(ece)} from one answer to the next"
    elif max(-gap.low, gap.high) >= TELLING:
        kind, headline = "unknown", "No evidence either way"
        detail += f". {n:,.0f} samples cannot tell: the gap may be anywhere from {reach}"
    else:
        kind, headline = "calibrated", "No sign that the confidences are wrong"
        detail += f". If there is a gap, it is within {reach}"
    about = None if near is None else near[0]
    cause = SMOOTH if trained and kind == "under" and gap <= -SMOOTHED else ""
    if calibrated_by is not None:
        cause = f" The file is c{already(calibrated_by, kind)[1:-1]}."
    if answered and right < HALF:
        headline = f"Right in {percent(right, 0)}; {headline[0].lower()}{headline[1:]}"
        cause = f"{MOSTLY_WRONG if trained else MOSTLY_FALSE}{cause}"
    return {"doubts": list(doubts), "kind": kind, "headline": headline, "detail": f"{detail}.{cause}", "at": about}


def by_group(evaluated: "Evaluation") -> Verdict:
    """The verdict; of pairs whose groups differ, its headline counts the groups that claim too much or too little."""
    whole, groups = evaluated["verdict"], evaluated.get("groups")
    p_value = None if groups is None else groups["differ"].get("signed_gap")
    if groups is None or evaluated.get("kind") != "pairs" or p_value is None or p_value > 1 - groups["level"]:
        return whole
    gaps = {group["name"]: group["metrics"]["signed_gap"] for group in groups["groups"]}
    over = [name for name, gap in gaps.items() if from_number(gap["low"]) > 0]
    under = [name for name, gap in gaps.items() if from_number(gap["high"]) < 0]
    if not over and not under:
        return whole
    counts = [(len(over), "too much"), (len(under), "too little")]
    (first, how), *other = [(n, how) for n, how in counts if n]
    headline = f"{first} of {len(gaps)} groups claim{'s' * (first == 1)} {how}"
    headline += "".join(f", {n} {too}" for n, too in other)
    worst = max(over + under, key=lambda name: abs(from_number(gaps[name]["value"])))
    headline += f"; furthest off is {worst}, by {points(abs(from_number(gaps[worst]['value'])))}"
    return {**whole, "kind": "mixed" if other else "over" if over else "under", "headline": headline}


def doubted(evaluated: "Evaluation") -> Verdict:
    """The verdict of a page, whose doubts also hold what a terminal is warned of."""
    verdict = by_group(evaluated)
    return {**verdict, "doubts": [*evaluated.get("warnings", []), *verdict["doubts"]]}


def cells(pool: Pool) -> dict[str, list[float]]:
    """The sums of winning scores in 300 cells, for ``verdict``."""
    curve = pool.curve(binning.equal_width(CELLS))
    return {part: getattr(curve, part).tolist() for part in ("count", "score_sum", "hit_sum")}


def window(cells: Mapping[str, Sequence[float]]) -> tuple[int, float, float] | None:
    """Confidence in %, share right and number of answers around 90 %, or the nearest multiple of 10 with enough.

    The window reaches 5 points to either side: 85 to 95 % are exactly the cells 256 to 285 of 300.
    """
    for at in (90, 80, 70, 60, 50, 40, 30, 20):
        cut = slice((at - 5) * CELLS // 100, (at + 5) * CELLS // 100)
        count = sum(cells["count"][cut])
        if count >= ENOUGH:
            return at, sum(cells["hit_sum"][cut]) / count, count
    return None


def _contradicts(kind: str, cells: Mapping[str, Sequence[float]], near: tuple[int, float, float]) -> bool:
    """Whether the answers of the window are wrong in the other direction, clearly and beyond chance."""
    at, share, count = near
    claimed = sum(cells["score_sum"][(at - 5) * CELLS // 100 : (at + 5) * CELLS // 100]) / count
    gap = claimed - share if kind == "under" else share - claimed
    return gap > max(TELLING, 3 * math.sqrt(share * (1 - share) / count))


def points(share: float) -> str:
    """A difference of shares in percentage points."""
    shown = f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.1f}"
    return f"{shown} point{'' if shown in ('1', '1.0') else 's'}"


def signed_points(share: float) -> str:
    """A difference of shares in percentage points, with its sign and without the unit."""
    text = f"{100 * share:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def percent(share: float, digits: int = 1) -> str:
    """A share in percent."""
    return f"{100 * share:.{digits}f} %"

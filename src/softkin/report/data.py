"""The form of a page's data, which the JSON file beside the page holds; docs/report.md says what each field means.

``types.d.ts``, by which the page's script is checked, is made from these types: ``python scripts/page_types.py``. A
change of meaning raises ``VERSION``.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal, NotRequired, TypedDict, cast

import torch
from torch import Tensor

from softkin._io.files import Plain, number
from softkin.decisions.thresholds import Threshold, select
from softkin.evaluation.results import CellData, Compared, Detection, Difference, Disagreement, Unknown, Verdict
from softkin.metrics.catalogue import MetricData
from softkin.metrics.measurement import MeasuredData

__all__ = [
    "CellData",
    "Cells",
    "ClassesOfModel",
    "Compared",
    "ComparisonPage",
    "Detection",
    "Difference",
    "Disagreement",
    "InspectionPage",
    "MeasuredData",
    "MetricData",
    "ModelPage",
    "MonitorPage",
    "ResultsPage",
    "Unknown",
    "Variant",
    "Verdict",
]


class Sums(TypedDict):
    """Sums over the scores of each bin or cell."""

    count: list[int]
    score_sum: list[float]
    hit_sum: list[int]


class Cells(Sums):
    """Sums in 300 cells, which add up to bins."""

    exact: NotRequired[dict[str, Sums]]
    """Of a number of bins that does not divide 300"""
    bands: NotRequired[dict[str, list[list[Plain]]]]
    """For each number of bins the low and the high ends"""


class Rule(TypedDict):
    """A threshold on the confidence."""

    threshold: float
    answered: int
    wrong: int
    coverage: float
    risk: float
    bound: float


class GroupThreshold(TypedDict):
    """The threshold of one group of rows."""

    risk: float
    confidence: float
    chosen: Rule | None
    """The certified one"""
    observed: Rule | None
    """The most lenient one that keeps the rate among these rows, without a guarantee"""


class GroupShown(TypedDict):
    """One group of rows."""

    name: str
    num_samples: int
    right: float
    sure: float
    gap: MeasuredData
    error: MeasuredData
    auroc: MeasuredData | None
    bins: list[list[float]]
    """Of the reliability of the answers, or of the positive class: each as bin, count, sum of the scores, hits"""
    threshold: NotRequired[GroupThreshold]


class GroupsShown(TypedDict):
    """The groups of rows, the largest gap first, and whether they differ."""

    column: str
    level: float
    """Of all intervals together"""
    rows: list[GroupShown]
    gaps_differ: float | None
    """The p-value of the hypothesis that all groups have the same gap"""
    curves_differ: float | None


class Abstention(TypedDict):
    """The certified threshold, if there is one."""

    rule: Rule | None
    least: float | None
    """If there is none: the least whole percent of errors that a threshold keeps"""
    text: str


class Certified(TypedDict):
    """The threshold that is certified for an error rate, if there is one."""

    target: float
    rule: Rule | None
    is_least: bool
    """Whether this is the least whole percent that a threshold keeps, found with the same samples"""


class RiskCoverage(TypedDict):
    """The numbers of answered and of wrong samples at each threshold."""

    threshold: list[float]
    answered: list[int]
    wrong: list[int]


class ClassesOfModel(TypedDict):
    """Class by class: the answers, the class's own reliability, its confusions and its surest mistakes."""

    answered: list[int]
    score_sum: list[float]
    right: list[int]
    ece: list[float]
    bins: list[list[list[float]]]
    """Of each class its bins as bin, count, score_sum, hits"""
    instead: list[list[list[int]]]
    truly: list[list[list[int]]]
    mistakes: list[list[list[float]]]


class Mistake(TypedDict):
    """A wrong answer."""

    row: int
    answer: int
    confidence: float
    truth: float
    best: list[list[float]]
    """The best classes with their scores"""


class Positive(TypedDict):
    """A binary model by the probability of its positive class."""

    cells: Cells
    error: MeasuredData
    """The calibration error of that probability"""
    threshold: list[float]
    alarms: list[int]
    """How many samples score at least the threshold"""
    caught: list[int]
    """How many of these are positive"""
    auroc: float | None
    average_precision: float | None
    certified: list[Certified]
    """By share of false alarms among the alarms"""


class Binary(TypedDict):
    """The classes of a binary model."""

    positive: str
    negative: str
    positives: int


class About(TypedDict):
    """What a variant is: the model as it is, or after a calibrator."""

    key: Literal["raw", "temperature", "best"]
    name: str
    note: str | None
    code: NotRequired[str]
    temperature: NotRequired[Plain]


class Variant(About):
    """One set of probabilities of the model."""

    verdict: Verdict
    metrics: dict[str, MeasuredData]
    against_raw: NotRequired[dict[str, Difference]]
    against_temperature: NotRequired[dict[str, Difference]]
    prediction: Cells
    output: Cells
    risk_coverage: RiskCoverage
    abstention: Abstention | None
    certified: list[Certified]
    positive: Positive | None
    classes: ClassesOfModel
    mistakes: list[Mistake]


class Sample(TypedDict):
    """A sample that the page can show."""

    label: int
    id: NotRequired[str | int]
    text: NotRequired[str]
    image: NotRequired[str]


class NearMistakes(TypedDict):
    """How many wrong answers are among the classes nearest to the true one."""

    nearest: int
    wrong: int
    near: int
    chance: float


class Similarity(TypedDict):
    """Class distances in a compact form, and the values with which the page starts."""

    source: str | None
    alpha: float
    beta: float
    low: list[float]
    step: list[float]
    codes: str
    order: list[int]
    name: NotRequired[str]
    as_it_is: NotRequired[bool]
    mistakes: NotRequired[NearMistakes]


class RowsOfVariant(TypedDict):
    """The best classes of each row and their scores, packed."""

    best: str | None
    score: str


class ModelRows(TypedDict):
    """All samples in a compact form."""

    count: int
    most: int
    steps: int
    label: str
    ids: list[str | int] | None
    variants: list[RowsOfVariant]


class Target(TypedDict):
    """The error rate that the threshold must keep."""

    target: float | None
    confidence: float
    asked: bool


class SampledRows(TypedDict):
    """How many rows the page's charts are made from, drawn at random."""

    rows: int
    of: int
    images: NotRequired[int]
    """Of how many images the rows are pixels"""


class UnknownSeen(TypedDict):
    """Samples of none of the classes: their confidence, and how many the certified threshold would answer."""

    name: str
    num_samples: int
    count: list[int]
    """Their winning scores in the 300 cells"""
    answered: int | None


class Page(TypedDict):
    """What every page has."""

    format: Literal["softkin report"]
    version: int
    softkin: str
    name: str
    source: str | None
    num_classes: int
    class_names: list[str]


class TriedCalibrator(TypedDict):
    """A calibrator, cross-fitted in two halves of the file; or why it ``failed``."""

    name: str
    code: str
    metrics: NotRequired[dict[str, Plain]]
    warnings: NotRequired[list[str]]
    failed: NotRequired[str]


class DecisionLevel(TypedDict, total=False):
    """A rule at one rate of errors: its measures, each as value, low, high; or why it ``failed``."""

    measures: dict[str, list[Plain]]
    samples: list[Any]
    """The answer of each sample that is shown: a node or −1; or classes of its set, then minus the number of others"""
    answers: str
    """The node of each measured row, plus 1, packed"""
    nodes: list[list[float]]
    """Each as node, rows, share of them that is right"""
    failed: str


class DecisionRule(TypedDict):
    """A rule of decision at every rate of errors."""

    title: str
    about: str
    levels: list[DecisionLevel]


class TreeShown(TypedDict):
    """A tree of classes: the parent of each node, and its name."""

    parents: list[int]
    names: list[str]


class Decisions(TypedDict):
    """What rules would decide, fitted on one half of the rows and measured on the other."""

    errors: list[float]
    confidence: float
    fitted_on: int
    measured_on: int
    measured: list[int] | None
    """The rows measured, if there are few enough to list"""
    rules: list[DecisionRule]
    tree: TreeShown | None
    samples: list[int]
    """The rows of those that are shown"""
    labels: list[int]


class ModelPage(Page):
    """The page of one model."""

    kind: Literal["model"]
    num_samples: int
    bins: list[int]
    metrics: list[MetricData]
    are_probabilities: bool
    pairs: bool
    """Whether these are pairs of a confidence and an outcome, with groups of rows in the place of classes"""
    binary: Binary | None
    """For two classes, and for pairs, where the outcome "right" is the positive class"""
    class_sizes: list[int]
    level: float
    quantile: float
    class_quantile: float
    """That of intervals of all classes together, by Bonferroni's correction"""
    resamples: int
    n_bins: int
    abstain: Target
    class_bins: int
    variants: list[Variant]
    calibrators: list[TriedCalibrator]
    """By rising NLL; those that failed last"""
    samples: dict[str, Sample]
    rows: ModelRows
    ids_called: NotRequired[str | None]
    """The column that the ids of the samples are from; None: they have none, or it is not known"""
    similarity: Similarity | None
    out_of_distribution: list[Unknown]
    unknown: list[UnknownSeen]
    groups: GroupsShown | None
    sampled: SampledRows | None
    calibrated_by: NotRequired[str | None]
    """What calibrated the file that was read, if anything is known to have"""
    votes: NotRequired[bool]
    """Whether the labels are votes, of which the charts take one for each sample"""
    mutual_information: Disagreement | None
    decisions: Decisions | None


class Column(TypedDict):
    """A column of the table."""

    key: str
    title: str
    percent: NotRequired[bool]
    signed: NotRequired[bool]
    larger_is_better: NotRequired[bool | None]
    explained: NotRequired[str]


class TableRow(TypedDict):
    """A method or a model."""

    method: str
    cells: dict[str, CellData]
    chosen: str | None
    target: str | None


class TableData(TypedDict):
    """The table."""

    columns: list[Column]
    rows: list[TableRow]


class Method(TypedDict):
    """A method or a model."""

    key: str
    name: str
    short: NotRequired[str]


class PooledCells(Cells):
    """Cells of all seeds, and the ECE of each seed for each number of bins."""

    ece: dict[str, list[float]]


class Curves(TypedDict):
    """The reliability of one method."""

    num_samples: int
    prediction: PooledCells
    output: PooledCells


class SweepPoint(TypedDict):
    """A set of values that a method tried, with its validation metrics."""

    method: str
    values: dict[str, float]
    epochs: int
    validation: dict[str, Plain]
    seeds: int
    chosen: int


class Sweep(TypedDict):
    """All values that were tried."""

    letters: NotRequired[dict[str, str]]
    points: list[SweepPoint]


class UnknownOfMethods(TypedDict):
    """An out-of-distribution set: the scores of each method in cells, and how well they detect it."""

    name: str
    count: dict[str, list[int]]
    mean: dict[str, float]
    auroc: dict[str, float]
    fpr_at_95: dict[str, float]
    auroc_mutual_information: NotRequired[dict[str, float]]


class History(TypedDict):
    """The curves of one training."""

    method: str
    seed: int
    epochs: list[int]
    values: dict[str, list[Plain]]


class ClassesOfModels(TypedDict):
    """For each class, how many samples each model gets right, which one leads, and whether that is beyond chance."""

    size: list[int]
    right: dict[str, list[int]]
    best: list[int | None]
    beyond_chance: list[bool]


class Agreement(TypedDict):
    """For every two models, the share of samples with the same answer, and with the same wrong answer."""

    same: list[list[float]]
    same_mistake: list[list[float]]
    all_right: float
    all_wrong: float


class AfterScaling(TypedDict):
    """A model after temperature scaling, cross-fitted."""

    sure: float
    error: float
    nll: Plain
    temperature: Plain


class OverviewRow(TypedDict):
    """A method or a model in the first picture."""

    method: str
    right: float
    sure: float
    kind: Literal["over", "under", "fine"]
    """Whether it is surer than right, or less sure, beyond chance"""
    error: float
    """Its calibration error"""
    dots: list[float]
    """The calibration error of each seed"""
    low: NotRequired[Plain]
    high: NotRequired[Plain]
    """The interval of the calibration error, for a model"""
    chance: float | None
    """The calibration error that chance alone would show"""
    nll: Plain
    cost: str | None
    """What it takes, in a few letters, such as 0.6×, + s"""
    after: NotRequired[AfterScaling]
    calibrated_by: NotRequired[str]
    """What calibrated the model's file, which needs no second calibrator"""


class OverviewGroup(TypedDict):
    """Rows that belong together, such as methods for which one has to do the same."""

    title: str
    rows: list[OverviewRow]


class Choice(TypedDict):
    """What to do under one constraint."""

    kind: Literal["recommended", "option", "avoid"]
    title: str
    text: str
    code: str | None


class OverviewWords(TypedDict):
    """What dots and ticks of the first picture are."""

    right: str
    sure: str
    note: str
    rows: int | None
    """Of binary models: how many rows each is judged by, those that it is surest of"""
    positive: str | None


class Overview(TypedDict):
    """The first screen of several methods or models."""

    headline: str
    kind: Literal["over", "under", "fine"]
    detail: str
    groups: list[OverviewGroup]
    choices: list[Choice]
    chosen: str | None
    """The method that is recommended"""
    baseline: str | None
    """The method with which each row's reliability is compared"""
    words: NotRequired[OverviewWords]


class ComparisonPage(Page):
    """The page of a study's methods, or of several models."""

    kind: Literal["comparison"]
    sampled: SampledRows | None
    subject: Literal["methods", "models", "labels"]
    num_samples: int
    bins: list[int]
    metrics: list[MetricData]
    notes: list[str]
    recommendation: list[str]
    seeds: list[int]
    methods: list[Method]
    overview: Overview | None
    table: TableData
    curves: dict[str, Curves] | None
    sweep: Sweep | None
    ood: list[UnknownOfMethods] | None
    histories: list[History] | None
    similarity: list[Similarity] | None
    verdicts: dict[str, Verdict] | None
    pairs: list[Compared] | None
    classes: ClassesOfModels | None
    agreement: Agreement | None


class Oddity(TypedDict):
    """Something that looks wrong in a row of a similarity."""

    kind: str
    k: int
    words: str


class LearnedPair(TypedDict):
    """What a network found similar, epoch by epoch."""

    a: int
    b: int
    shares: list[float | None]
    """For each epoch, the share that labels of a give to b; None where it was not among those listed"""


class InspectionPage(Page):
    """The page of a similarity."""

    kind: Literal["similarity"]
    similarity: Similarity
    merges: list[Any]
    """Each as first group, second group, height"""
    oddities: list[Oddity]
    closest: list[list[float]]
    """The most similar pairs, each as class, class, mean similarity of both directions"""
    rows: list[dict[str, float]]
    uniform_epsilon: float
    fixes: dict[str, list[str]]
    """What each class was corrected to be like"""
    learned: list[LearnedPair]
    """The pairs that lead after the last epoch, if a network learned the similarity"""


class ResultCell(TypedDict, total=False):
    """A measure with its interval."""

    value: Plain
    low: Plain
    high: Plain
    chance: Plain


class LimitShown(TypedDict):
    """A limit that a number must keep."""

    kind: Literal["max", "min", "within"]
    metric: str
    """Its key: limits of one metric are drawn on one scale"""
    value: float
    percent: bool


class ResultRow(TypedDict):
    """A calibrator, a rule, a source of similarity, or a limit."""

    name: str
    cells: dict[str, ResultCell]
    mark: Literal["best", "worse", "kept", "open", "broken"] | None
    note: str
    limit: NotRequired[LimitShown]
    reference: NotRequired[dict[str, Plain]]
    """By column: what a row is to be compared with"""


class ReferenceLine(TypedDict):
    """A value with which all rows are to be compared."""

    value: float
    title: str


class ResultsPage(Page):
    """The page of what a command compares."""

    kind: Literal["results"]
    subject: Literal["calibrators", "rules", "sources", "limits"]
    headline: str
    tone: Literal["good", "bad", "plain"]
    detail: str
    columns: list[Column]
    rows: list[ResultRow]
    chart: list[str]
    """The columns that are drawn"""
    lines: dict[str, ReferenceLine]
    notes: list[str]


class WindowShown(TypedDict):
    """Rows of a log that follow one another: what they claimed, and what came true."""

    name: str
    rows: int
    first: int
    """Counted from 1"""
    last: int
    claimed: float
    right: ResultCell
    gap: ResultCell


class AlarmShown(TypedDict):
    """The row at which the evidence sufficed, and how the claims are wrong."""

    row: int
    direction: str
    time: str | None


class MonitorPage(Page):
    """The page of a log that is watched."""

    kind: Literal["monitor"]
    headline: str
    tone: Literal["good", "bad", "plain"]
    detail: str
    rows: int
    alarm: AlarmShown | None
    needed: float
    """The evidence at which the alarm is raised"""
    tolerance: float
    windows: list[WindowShown]
    course: list[tuple[int, float]]
    """The evidence after some of the rows"""
    notes: list[str]


PAGES = (ModelPage, ComparisonPage, InspectionPage, ResultsPage, MonitorPage)
"""All kinds of pages"""


VERSION = 4
"""Version of the data format; it rises when a field is removed or changes its meaning"""


def rule(threshold: Threshold | None) -> Rule | None:
    """A threshold for the page; the one that answers everything is 0, as no score is below it."""
    if threshold is None:
        return None
    return cast(Rule, {**asdict(threshold), "threshold": max(0.0, threshold.threshold)})


def certified(scores: Tensor, hits: Tensor, rates: Sequence[float], confidence: float) -> list[Certified]:
    """The certified thresholds of ``rates``, and of the least whole percent that one keeps, from lenient to strict."""
    strictest = select(scores, hits, risk=0.01, confidence=confidence)
    least = strictest.least if strictest.chosen is None else 0.01
    offered = sorted({*rates, *([] if least is None else [least])}, reverse=True)
    found = {rate: select(scores, hits, risk=rate, confidence=confidence).chosen for rate in offered}
    return [{"target": rate, "rule": rule(chosen), "is_least": rate == least} for rate, chosen in found.items()]


def numbers(values: Tensor, digits: int | None = None) -> list[Plain]:
    """A one-dimensional tensor as a list: integers stay integers, floats become what ``number`` returns."""
    if not values.is_floating_point():
        return list(values.tolist())
    return [number(value, digits) for value in values.tolist()]


def floats(values: Tensor, digits: int | None = None) -> list[float]:
    """A one-dimensional tensor of finite numbers as a list."""
    return [value if digits is None else round(value, digits) for value in values.to(torch.float64).tolist()]


def whole(values: Tensor) -> list[int]:
    """Counts that are stored as floats, as integers."""
    return [round(value) for value in values.tolist()]

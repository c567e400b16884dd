"""The plain data that an evaluation returns and ``softkin evaluate --json`` prints."""

from typing import Any, Literal, NotRequired, TypedDict

from softkin._io.files import Plain
from softkin.metrics.measurement import MeasuredData


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


class Evaluation(Described):
    """Everything about one model."""

    name: str | None
    num_samples: int
    num_classes: int
    """K; 1 for pairs of a confidence and an outcome"""
    kind: NotRequired[Literal["classes", "pairs", "labels"]]
    class_names: list[str] | None
    digest: str | None
    """Of scores and labels; None if there were too many rows to keep"""
    settings: SettingsData
    metrics: dict[str, MeasuredData]
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

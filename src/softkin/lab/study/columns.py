"""The methods that a study can compare: training methods, class-similarity smoothing by distance source, calibrators.

Nothing is declared here: the methods are those of ``training.METHODS``, ``distances.SOURCES``, ``calibrators.REGISTRY``
and ``HEADS`` below. A study calls each by its title in lower case, which for the paper's methods are the paper's names
(ts, ets, dir-odir, l1, l2, ae, we); every other spelling that a registry knows is accepted.

``HEADS`` read features besides logits: a second head on frozen features, with kin and, as its control, without. A head
is fitted after a training like a calibrator, but to training rows as well, and only data of features have it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from torch import Tensor

from softkin import calibrators, distances, similarity
from softkin._core.names import Registry
from softkin.calibrators import Calibrator, KinHead
from softkin.distances import DistanceSource
from softkin.lab.training.methods import METHODS, SIMILARITY, TrainingMethod, Value
from softkin.lab.training.training_run import Rows, Unknown
from softkin.predictions import Predictions
from softkin.predictions.container import TINY

if TYPE_CHECKING:
    from softkin.distances import ClassDistances
    from softkin.lab.data import Samples


PAPER = ("one-hot", "ts", "uniform", "mixup", "dir-odir", "ets", "l1", "l2", "ae", "we")
"""The columns of the paper's tables, in their order"""
ONE_HOT = "one-hot"
LEARNED = "learned"
"""Labels that the network learns; before the name of a distance, with that similarity as their prior"""
BASELINES = (ONE_HOT, "ts")
"""What every other method is compared with: plain training, and the same with a temperature, the rival to beat"""


@dataclass(frozen=True)
class StudyMethod:
    """One way to obtain probabilities: a training method, a distance source for smooth labels, or a calibrator."""

    name: str
    """Its name in studies: the title in lower case"""
    title: str
    """Its name in tables"""
    training: TrainingMethod | None = None
    source: DistanceSource | None = None
    learned: bool = False
    """Whether the network learns its labels, and the similarity by distances is their prior"""
    calibrator: type[Calibrator] | None = None
    head: Callable[..., KinHead] | None = None

    @property
    def kind(self) -> Literal["training", "similarity", "calibrator"]:
        """Whether it has its own loss or labels, labels from class distances, or is fitted after another's network."""
        return "calibrator" if self.calibrator or self.head else "similarity" if self.source else "training"


def known() -> Registry[StudyMethod]:
    """All methods, including those that a program or notebook has declared."""
    return _collected(METHODS.changes, distances.SOURCES.changes, calibrators.REGISTRY.changes)


@lru_cache(maxsize=1)
def _collected(*changes: int) -> Registry[StudyMethod]:
    methods: Registry[StudyMethod] = Registry("method")

    def add(method: StudyMethod, registry: Registry[Any], name: str, before: str = "") -> None:
        spellings = [before + spelling for spelling in registry.spellings if registry.canonical(spelling) == name]
        methods.add(
            method.name,
            method,
            aliases=[spelling for spelling in spellings if spelling != method.name and spelling not in methods],
        )

    for name, training in METHODS.items():
        if not training.from_distances:  # a study has one column for each distance source instead
            add(StudyMethod(training.title.lower(), training.title, training=training), METHODS, name)
    for name, source in distances.SOURCES.items():
        add(StudyMethod(source.title.lower(), source.title, source=source), distances.SOURCES, name)
    for name, source in distances.SOURCES.items():
        title = f"{METHODS[LEARNED].title}-{source.title}"
        leaning = StudyMethod(title.lower(), title, source=source, learned=True)
        add(leaning, distances.SOURCES, name, before=f"{LEARNED}-")
    for name, fitted in calibrators.REGISTRY.items():
        add(StudyMethod(fitted.title.lower(), fitted.title, calibrator=fitted), calibrators.REGISTRY, name)
    for name, made in HEADS.items():
        methods.add(name, StudyMethod(name, name.capitalize(), head=made))
    return methods


def by_default(names: Sequence[str]) -> tuple[str, ...]:
    """These methods, each that trains its own network also followed by temperature scaling, and learned labels.

    The α of learned labels is chosen for what a temperature makes of them, so they have no column without one.
    """
    scaled = f"+{known().canonical('ts')}"
    columns = tuple(
        part
        for name in names
        for part in ((name, name + scaled) if named(name).kind != "calibrator" and name != ONE_HOT else (name,))
    )
    return (*columns, LEARNED + scaled)


def named(name: str) -> StudyMethod:
    """The method of this name."""
    return known()[name]


def parts(name: str) -> tuple[str, str | None]:
    """The training method and the calibrator after it: "ts" is ("one-hot", "ts"), "we+ts" is ("we", "ts")."""
    base, plus, calibrator = name.partition("+")
    if plus:
        return base, calibrator
    return (ONE_HOT, name) if named(name).kind == "calibrator" else (name, None)


def title(name: str) -> str:
    """The title of a method in tables."""
    return "+".join(named(part).title for part in name.split("+"))


def check(name: object) -> str:
    """A method's canonical name in studies; an unknown name is refused with the nearest known one."""
    if not isinstance(name, str):
        raise TypeError(f"`methods` must hold names, got {name!r}.")
    registry = known()
    base, plus, calibrator = name.partition("+")
    if base == SIMILARITY.name:
        sources = ", ".join(method.name for method in registry.values() if method.source and not method.learned)
        raise ValueError(f"`methods` must name class-similarity smoothing by its distance ({sources}), got {name!r}.")
    if registry.find(base) is None:
        several = registry.without(method.name for method in registry.values() if method.learned)
        several.refuse(base, "methods", also=f"{LEARNED}- before a distance such as {LEARNED}-we")
    base = registry.canonical(base, "methods")
    if not plus:
        return base
    if registry[base].kind == "calibrator":
        raise ValueError(f"method {name!r} must be a training method + a calibrator, but {base} is a calibrator.")
    if calibrator in HEADS:
        return f"{base}+{calibrator}"
    fitted = calibrators.REGISTRY[calibrators.REGISTRY.canonical(calibrator, "methods")]
    return f"{base}+{fitted.title.lower()}"


NEEDS = "features"
"""The kind of data that has heads"""
NAMES, MEANS = "we", "cm"
"""The distances that kin are measured by: class names; class means where names have no vectors"""


@dataclass(frozen=True)
class Head:
    """What a head is made from, besides the predictions of its network."""

    rows: Rows
    distances: str | None
    """The digest of the run that has the class distances; None without kin"""
    beta: Value
    """β of the similarity; "auto" is fitted to what the network confuses on validation rows"""
    ood: Unknown

    def samples(self) -> "dict[str, Samples]":
        """The training rows, and those of all predictions by the names of their files."""
        parts = self.rows.split(progress=False)
        own: dict[str, Samples] = {"train": parts.train, "validation": parts.validation, "test": parts.test}
        return own | self.ood.load(parts.train, progress=False)

    def kin(self, measured: "ClassDistances", validation: Predictions) -> Tensor:
        """The class similarity from measured distances."""
        outputs = validation.probabilities, validation.known_labels
        beta = similarity.best_beta(measured.matrix, *outputs) if self.beta == "auto" else self.beta
        return similarity.from_distances(measured.matrix, float(beta))


def kin_head(kin: Tensor | None) -> KinHead:
    """A discriminant on features whose class means lean on similar classes, blended with the network's scores."""
    return KinHead(kin)


def head(_kin: Tensor | None) -> KinHead:
    """The control of kin-head: the same discriminant without similar classes."""
    return KinHead()


HEADS: dict[str, Callable[[Tensor | None], KinHead]] = {"kin-head": kin_head, "head": head}
"""The heads by their names in studies"""
USES_KIN = "kin-head"
TWO_NETWORKS = "ensemble+ts"


def controls(names: Sequence[str]) -> tuple[str, ...]:
    """What a kin head must be seen beside: the same head without kin, and two networks averaged.

    Example:
        >>> controls(("one-hot", "kin-head"))
        ('head', 'ensemble+ts')
    """
    kin = [name for name in names if parts(name)[1] == USES_KIN]
    wanted = (*(name.removesuffix(USES_KIN) + "head" for name in kin), TWO_NETWORKS) if kin else ()
    ensembles = [name for name in names if parts(name)[0] == parts(TWO_NETWORKS)[0]]
    return tuple(name for name in wanted if name not in names and not (name == TWO_NETWORKS and ensembles))


def fit(unfitted: KinHead, validation: Predictions, samples: "dict[str, Samples]") -> KinHead:
    """A head fitted to training and validation rows."""
    train = samples["train"]
    assert train.labels is not None
    return unfitted.fit(
        validation.logits,
        validation.known_labels,
        features=_features(validation, samples["validation"]),
        train_features=train.values,
        train_labels=train.labels,
        class_names=train.class_names,
    )


def applied(fitted: KinHead, predicted: Predictions, samples: "Samples") -> Predictions:
    """The same rows with the probabilities of a head."""
    p = fitted.predict_proba(predicted.logits.double(), features=_features(predicted, samples))
    return replace(predicted, logits=p.clamp_min(TINY).log(), exact_probabilities=p, members=None)


def _features(predicted: Predictions, samples: "Samples") -> Any:
    """The features of predicted rows, which must be the same rows."""
    if len(predicted.logits) != len(samples) or (
        samples.labels is not None and not np.array_equal(predicted.known_labels.numpy(), samples.labels)
    ):
        raise ValueError("the predictions of the network are of other rows than the features; was the data changed?")
    return samples.values

"""The methods that a study can compare: training methods, class-similarity smoothing by distance source, calibrators.

Nothing is declared here: the methods are those of ``training.METHODS``, ``distances.SOURCES``,
``calibrators.REGISTRY`` and ``heads.HEADS``. A study calls each by its title in lower case, which for the paper's
methods are the paper's names (ts, ets, dir-odir, l1, l2, ae, we); every other spelling that a registry knows is
accepted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from softkin import calibrators, distances
from softkin._core.names import Registry
from softkin.calibrators import Calibrator, KinHead
from softkin.distances import DistanceSource
from softkin.lab.study.heads import HEADS
from softkin.lab.training.methods import METHODS, SIMILARITY, TrainingMethod

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
    """These methods, and each method that trains its own network also followed by temperature scaling."""
    scaled = f"+{known().canonical('ts')}"
    return tuple(
        part
        for name in names
        for part in ((name, name + scaled) if named(name).kind != "calibrator" and name != ONE_HOT else (name,))
    )


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
    if base not in registry and base.lower() not in registry:
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

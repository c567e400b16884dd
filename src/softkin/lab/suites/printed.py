"""The paper's tables and figures as data: the printed values, and the studies that reproduce them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.names import require
from softkin._io import files
from softkin.lab import models
from softkin.lab.data.ood import NOISE
from softkin.lab.study import StudySpec
from softkin.lab.study.columns import check as check_method
from softkin.lab.suites.listed import StudySuite, load_studies
from softkin.metrics import catalogue

KINDS = ("table", "sweep", "ood", "reliability")
SCALES = ("full", "small")
"""The scales that every table and figure has"""
TRIAL = "trial"
"""An optional scale of tables: one seed at fixed values, for a first look"""
METRICS = {metric.key: metric.short for metric in catalogue.shown("paper")}
"""The rows of the paper's tables: their names in records, and in the tables"""
PARAMETERS = ("alpha", "beta")
KEYS = {
    "table": {"methods", "paper"},
    "sweep": {"methods", "parameter"},
    "ood": {"methods", "sets"},
    "reliability": {"groups"},
}
"""The keys of each kind, besides name, kind, title, reference and the scales"""
SCALE_KEYS = {
    "table": {"networks", "study"},
    "sweep": {"networks", "study", "values"},
    "ood": {"networks", "study"},
    "reliability": {"parts"},
}
NOTES = {"notes", "claims"}  # may be left out
RECORDED = "recorded"
"""What we measured at a scale of a table, by row and metric in %, for readers who have not run it; may be left out"""


@dataclass(frozen=True)
class Part:
    """One study of a table or a figure."""

    row: str
    """The network of the paper that it corresponds to: DN, RN or WRN"""
    study: StudySpec
    value: float | None = None
    """The value of a sweep's parameter"""
    known_as: str = ""
    """A digest of the study that does not depend on the path of its data; part of the folder's name"""

    @property
    def folder(self) -> str:
        """A name from the study's content: a study that two figures share runs once, and a changed spec starts anew."""
        return f"{self.study.name}-{self.known_as}"


@dataclass(frozen=True)
class PaperSpec:
    """A table or a figure of the paper."""

    name: str
    kind: str
    title: str
    reference: str
    methods: tuple[str, ...]
    scales: Mapping[str, Mapping[str, Any]]
    values: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    """Row of the paper → metric → ECE in %, in the order of ``methods``"""
    networks: Mapping[str, str] = field(default_factory=dict)
    """Row of the paper → the network as the paper calls it"""
    parameter: str | None = None
    sets: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    claims: tuple[str, ...] = ()
    """The paper's statements about a figure that prints no numbers"""
    notes: tuple[str, ...] = ()
    beside: Path | None = None
    """The folder of specs that this one refers to; None: softkin's own"""
    trust_model: tuple[str, ...] = ()
    """The networks as code that files in that folder may name"""

    def value(self, row: str, metric: str, method: str) -> float | None:
        """The paper's value in %; None if it prints none."""
        printed = self.values.get(row, {}).get(metric)
        return None if printed is None else printed[self.methods.index(method)]

    def recorded(self, scale: str, row: str, metric: str, method: str) -> float | None:
        """The value in % that we measured at this scale; None if there is none."""
        known = self._scale(scale).get(RECORDED, {}).get(row, {}).get(metric)
        return None if known is None else float(known[self.methods.index(method)])

    def about(self, scale: str) -> str:
        """A description of what is trained at this scale."""
        return str(self._scale(scale)["about"])

    def _scale(self, scale: str) -> Mapping[str, Any]:
        return self.scales[require(scale, list(self.scales), f"scale of {self.name}")]

    def parts(
        self,
        scale: str,
        *,
        data: Mapping[str, str] | None = None,
        rows: Sequence[str] | None = None,
        vectors: str | None = None,
        seeds: Any = None,
    ) -> list[Part]:
        """The studies of this scale.

        Args:
            scale: "full", "small", or "trial" if the spec has one.
            data: Paths of data sets by their names in the spec; others are found by name.
            rows: Only use these networks of the paper, such as ("WRN",).
            vectors: A file of word vectors instead of GloVe, the paper's kind.
            seeds: The number of seeds, or a list of seeds, instead of the spec's.
        """
        about = self._scale(scale)
        paths = dict(data or {})
        if self.kind == "reliability":
            parts = [self._shared(reference, scale, paths, vectors, seeds) for reference in about["parts"]]
        else:
            changes = {key: value for key, value in (("vectors", vectors), ("seeds", seeds)) if value is not None}
            parts = [
                self._part(row, model, about, value, paths, changes)
                for row, model in about["networks"].items()
                for value in about.get("values", [None])
            ]
        for name in paths:
            require(name, sorted(self.sources(scale)), "data set")
        if rows is not None:
            all_rows = list(dict.fromkeys(part.row for part in parts))
            wanted = [require(row, all_rows, f"row of {self.name} at scale {scale}") for row in rows]
            if not wanted:
                raise ValueError(f"`rows` must name some of {', '.join(all_rows)}, got none.")
            parts = [part for part in parts if part.row in wanted]
        return parts

    def sources(self, scale: str) -> set[str]:
        """The data sets that a scale names."""
        about = self.scales[scale]
        if self.kind == "reliability":
            return {name for reference in about["parts"] for name in self._named(reference["spec"]).sources(scale)}
        return {about["study"]["data"], *self.sets} - set(NOISE)

    def _part(
        self,
        row: str,
        model: str,
        about: Mapping[str, Any],
        value: float | None,
        paths: Mapping[str, str],
        changes: Mapping[str, Any],
    ) -> Part:
        settings = dict(about["study"])
        source = settings.pop("data")
        name = f"{source}-{row.lower()}"
        if value is not None:
            settings[str(self.parameter)] = value
            name += f"-{self.parameter}-{value:g}"
        values = {"name": name, "model": model, "methods": list(self.methods), **settings, **changes}
        named = StudySpec.from_dict({**values, "data": source, "ood": list(self.sets)})
        local = {
            "data": paths.get(source, source),
            "ood": [paths.get(source_name, source_name) for source_name in self.sets],
        }
        study = StudySpec.from_dict({**values, **local})
        if study.vectors is None and study.looks_up_words:
            study = replace(study, vectors="glove")  # the paper's kind; folders keep the name that they had without it
        return Part(row, study, value, named.digest[:8])

    def _named(self, name: str) -> "PaperSpec":
        if self.beside is None:
            return load_paper(name)
        return load_paper(self.beside / f"{name}.toml", trust_model=self.trust_model)

    def _shared(
        self, reference: Mapping[str, str], scale: str, paths: Mapping[str, str], vectors: str | None, seeds: Any
    ) -> Part:
        other = self._named(reference["spec"])
        own = {name: path for name, path in paths.items() if name in other.sources(scale)}
        part = other.parts(scale, data=own, rows=[reference["row"]], vectors=vectors, seeds=seeds)[0]
        return replace(part, row=f"{reference['spec']} {reference['row']}")

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All methods, in order."""
        return self.methods or tuple(method for group in self.groups for method in group)


def names() -> list[str]:
    """The tables and figures that softkin has."""
    order = {kind: place for place, kind in enumerate(KINDS)}
    specs = [load_paper(file.name.removesuffix(".toml")) for file in _folder().iterdir() if file.name.endswith(".toml")]
    return [spec.name for spec in sorted(specs, key=lambda spec: (order[spec.kind], spec.name))]


def _folder() -> Any:
    return resources.files("softkin.lab.suites")


def load(name: str | Path, *, trust_model: str | Sequence[str] = ()) -> "PaperSpec | StudySuite":
    """A table or figure by name, or from a .toml file; or the suite of studies in such a file.

    Args:
        name: One of ``names()``, or the file.
        trust_model: A "package.module:callable" that the file may name as a network: building that runs code.

    Raises:
        ValueError: The name is unknown.
        SoftkinError: The file cannot be read, or is not a valid spec.
    """
    path = Path(name)
    if path.suffix == ".toml":
        content = files.read_toml(path, "a table or figure")
        if content.get("kind") == "studies":
            return load_studies(path)
    return load_paper(name, trust_model=trust_model)


def load_paper(name: str | Path, *, trust_model: str | Sequence[str] = ()) -> PaperSpec:
    """``load`` for a table or figure."""
    path = Path(name)
    if path.suffix == ".toml":
        content = files.read_toml(path, "a table or figure")
        beside: Path | None = path.parent
    else:
        there = [file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml")]
        require(str(name), sorted(there), "table or figure")
        content = files.parse_toml((_folder() / f"{name}.toml").read_bytes(), name, "a table or figure")
        beside = None
    try:
        return _checked(content, beside, (trust_model,) if isinstance(trust_model, str) else tuple(trust_model), name)
    except RecursionError as error:
        raise SoftkinError(f"{name} names itself, or a spec that names it.") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SoftkinError(f"{name}: {files.cause(error)}.") from error


def _checked(
    content: Mapping[str, Any], beside: Path | None, trust_model: tuple[str, ...], name: str | Path
) -> PaperSpec:
    kind = require(str(_needed(content, "kind")), KINDS, "kind")
    due = {"name", "kind", "title", "reference", *SCALES, *KEYS[kind]}
    for key in content:
        require(key, sorted(due | NOTES | {TRIAL}), "key")
    for key in sorted(due):
        _needed(content, key)
    methods = tuple(check_method(method) for method in content.get("methods", ()))
    values: dict[str, dict[str, tuple[float, ...]]] = {}
    networks: dict[str, str] = {}
    for row, printed in content.get("paper", {}).items():
        networks[row] = str(_needed(printed, "network", f"paper.{row}"))
        values[row] = {}
        for metric in METRICS:
            values[row][metric] = _each(_needed(printed, metric, f"paper.{row}"), methods, f"paper.{row}.{metric}")
    groups = tuple(tuple(check_method(method) for method in group) for group in content.get("groups", ()))
    if kind == "sweep":
        require(content["parameter"], PARAMETERS, "parameter")
    scales = {scale: content[scale] for scale in (*SCALES, TRIAL) if scale in content}
    for scale, about in scales.items():
        for key in sorted({"about", *SCALE_KEYS[kind]}):
            _needed(about, key, scale)
        for key in about:
            require(key, sorted({"about", *SCALE_KEYS[kind]} | ({RECORDED} if networks else set())), f"key of {scale}")
        for row, measured in about.get(RECORDED, {}).items():
            for metric, numbers in measured.items():
                _each(numbers, methods, f"{scale}.{RECORDED}.{row}.{metric}")
        for row in about.get("networks", {}):
            if networks:
                require(row, list(networks), f"row of {scale}.networks")
    spec = PaperSpec(
        name=str(content["name"]),
        kind=kind,
        title=str(content["title"]),
        reference=str(content["reference"]),
        methods=methods,
        scales=scales,
        values=values,
        networks=networks,
        parameter=content.get("parameter"),
        sets=tuple(content.get("sets", ())),
        groups=groups,
        claims=tuple(content.get("claims", ())),
        notes=tuple(content.get("notes", ())),
        beside=beside,
        trust_model=trust_model,
    )
    for scale in scales:
        for part in spec.parts(scale):  # refuses invalid studies
            if beside is not None and part.study.model is not None:
                models.require_trust(part.study.model, trust_model, where=str(name))
    return spec


def _each(numbers: Sequence[float], methods: Sequence[str], where: str) -> tuple[float, ...]:
    """A number of at least 0 for each method."""
    if len(numbers) != len(methods):
        raise ValueError(f"{where} must hold a number for each of {len(methods)} methods, got {len(numbers)}.")
    return tuple(checks.at_least_zero(number, where) for number in numbers)


def _needed(content: Mapping[str, Any], key: str, where: str = "") -> Any:
    if key not in content:
        raise ValueError(f"`{where}{'.' if where else ''}{key}` is missing.")
    return content[key]

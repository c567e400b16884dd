"""A suite of studies without printed values: what docs/results.md is made of, as one file.

::

    name = "results"
    kind = "studies"

    [shared.features]                  # settings that several studies use: keys of a study
    model = "mlp"
    [variants.fixed]                   # settings that replace some of a study's
    alpha = 0.1
    [studies.banking77]                # a study; its folder has this name
    group = "intents"
    use = ["features"]
    before = ["baseline", "glove"]     # what is made first
    variants = ["fixed"]               # and the same study again, as banking77-fixed
    data = "FOLDER/features/banking77" # FOLDER is that of the suite; other capitals are paths that the user gives

``before``: "baseline" trains the study's network once more, one-hot and with a seed of its own, and names its
validation predictions as ``outputs``; "glove" measures GloVe's distances between the class names, and names them as
``matrix``.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softkin import SoftkinError, distances
from softkin._core.names import require
from softkin._io import files
from softkin.lab import study
from softkin.lab.study import StudySpec
from softkin.lab.training.session import RECORD, Session
from softkin.lab.training.training_run import Rows

SEED = 1000  # of baselines: no study's, so that what a network confuses is not what the same network is taught
BEFORE = ("baseline", "glove")
KEYS = ("name", "kind", "title", "reference", "shared", "variants", "studies")


@dataclass(frozen=True)
class Listed:
    """One study of a suite."""

    name: str
    """The name of its folder"""
    group: str
    base: str
    """The study that it is a variant of, or its own name"""
    settings: Mapping[str, Any]
    before: tuple[str, ...] = ()

    def study(self, folder: Path | str, paths: Mapping[str, str] | None) -> StudySpec:
        """The study, with the paths of this machine; None leaves the words that stand for them."""
        settings = dict(self.settings)
        made = {"baseline": ("outputs", "baseline/validation"), "glove": ("matrix", "glove/distances")}
        files_made = {
            option: f"FOLDER/{self.base}-{file}.safetensors" for option, file in (made[kind] for kind in self.before)
        }
        if files_made:
            settings["sources"] = {**settings.get("sources", {}), **files_made}
        values = {"name": self.base, **settings}
        if paths is not None:
            values = _placed(values, {"FOLDER": str(folder), **paths})
        return StudySpec.from_dict(values)


def _placed(value: Any, paths: Mapping[str, str]) -> Any:
    """The value with the first part of each path, if it is a word in capitals, replaced."""
    if isinstance(value, Mapping):
        return {key: _placed(item, paths) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_placed(item, paths) for item in value]
    if isinstance(value, str) and (found := re.match(r"([A-Z]+)(?=/)", value)):
        word = found.group()
        if word not in paths:
            raise ValueError(f"the suite needs the path {word}: pass --data {word}=PATH.")
        return paths[word] + value[len(word) :]
    return value


@dataclass(frozen=True)
class StudySuite:
    """Several studies, run one after another by the same engine as every other."""

    name: str
    title: str
    reference: str
    studies: tuple[Listed, ...]

    def chosen(self, rows: Sequence[str] | None) -> list[Listed]:
        """The studies of these names or groups; None: all."""
        known = [*dict.fromkeys(word for item in self.studies for word in (item.group, item.base, item.name))]
        for row in rows or ():
            require(row, known, f"study of {self.name}")
        return [item for item in self.studies if rows is None or {item.name, item.base, item.group} & set(rows)]

    def run(
        self,
        folder: Path,
        *,
        data: Mapping[str, str] | None = None,
        rows: Sequence[str] | None = None,
        seeds: Any = None,
        device: str | None = None,
        tell: Callable[[str], None] | None = None,
        **how: Any,
    ) -> list[str]:
        """Run or resume the studies in folders below ``folder``; returns their names.

        Args:
            folder: The folder of the suite.
            data: Paths by the words in capitals that stand for them.
            rows: Names or groups of studies; None: all.
            seeds: The number of seeds, or a list of seeds, instead of the suite's.
            device: The device to train on.
            tell: Called with a line about each study before it runs.
            how: Other options of ``study.run``.
        """
        chosen = self.chosen(rows)
        for item in chosen:
            spec = item.study(folder, data or {})
            if seeds is not None:
                spec = dataclasses.replace(spec, seeds=seeds)
            for kind in item.before:
                (_baseline if kind == "baseline" else _glove)(spec, folder / f"{item.base}-{kind}", device)
            if tell is not None:
                tell(f"{item.name}: {spec.data}, {len(spec.methods)} methods, {len(spec.seeds)} seeds")
            # With more seeds or methods than before, a study goes on in its folder and keeps the runs that both have.
            study.run(spec, folder / item.name, device=device, force=True, **how)
        return [item.name for item in chosen]


def _baseline(spec: StudySpec, output: Path, device: str | None) -> None:
    if (output / RECORD).exists():
        return
    recipe = dict(spec.recipe)
    options = ",".join(f"{name}={value!r}" for name, value in spec.model_options.items())
    session = Session(
        spec.data,
        model=None if spec.model is None else f"{spec.model}({options})" if options else spec.model,
        validation=spec.validation,
        test=spec.test,
        max_per_class=spec.max_per_class,
        size=spec.size,
        recipe=recipe.pop("name", None),
        recipe_changes=recipe,
        seed=SEED,
        device=device,
        output=output,
    )
    session.check()
    session.run()


def _glove(spec: StudySpec, output: Path, device: str | None) -> None:
    path = output / "distances.safetensors"
    if path.exists():
        return
    rows = Rows(spec.data, SEED, spec.max_per_class, spec.validation, spec.test, spec.size).split(progress=False).train
    measured = distances.measure("words", rows, vectors="glove", aliases=spec.aliases)
    distances.save(path, measured.matrix, class_names=rows.class_names, source=measured.how)


def load_studies(path: Path) -> StudySuite:
    """A suite of studies from its file.

    Raises:
        SoftkinError: The file cannot be read, or is not a valid suite.
    """
    content = files.read_toml(path, "a suite of studies")
    with files.reading(path, "a suite of studies"):
        return _suite(content, path)


def _suite(content: Mapping[str, Any], path: Path) -> StudySuite:
    for key in content:
        require(key, KEYS, "key")
    shared, variants = content.get("shared", {}), content.get("variants", {})
    studies: list[Listed] = []
    for name, about in content["studies"].items():
        own = dict(about)
        group = str(own.pop("group", name))
        before = tuple(require(kind, BEFORE, f"studies.{name}.before") for kind in own.pop("before", ()))
        settings: dict[str, Any] = {}
        for used in own.pop("use", ()):
            settings = _over(settings, shared[require(used, list(shared), f"studies.{name}.use")])
        more = own.pop("variants", ())
        settings = _over(settings, own)
        studies.append(Listed(name, group, name, settings, before))
        for variant in more:
            changes = variants[require(variant, list(variants), f"studies.{name}.variants")]
            studies.append(Listed(f"{name}-{variant}", group, name, _over(settings, changes), before))
    suite = StudySuite(content["name"], content["title"], content["reference"], tuple(studies))
    for item in suite.studies:
        try:
            spec = item.study("FOLDER", None)
        except (ValueError, TypeError) as error:
            raise SoftkinError(f"{path}: studies.{item.name}: {error}") from error
        if spec.model is not None and ":" in spec.model:
            raise SoftkinError(f"{path}: studies.{item.name} must name one of softkin's networks, got {spec.model!r}.")
    return suite


def _over(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with changes; tables such as the recipe are changed key by key."""
    merged = dict(settings)
    for key, value in changes.items():
        merged[key] = {**merged[key], **value} if isinstance(merged.get(key), Mapping) else value
    return merged

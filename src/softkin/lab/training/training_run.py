"""One training, from rows of data to predictions and a record: ``softkin train`` does one, a study does many.

A ``TrainingRun`` says everything that the outcome depends on, as plain data with a digest; ``perform`` does it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from softkin._core import ranks
from softkin._io import files
from softkin.lab import data, models
from softkin.lab.training.fitting import cost, fit_method
from softkin.lab.training.loop import Trained
from softkin.lab.training.methods import SIMILARITY, Method, Value
from softkin.lab.training.prediction import predict
from softkin.lab.training.recipe import Recipe

if TYPE_CHECKING:
    from softkin.distances import ClassDistances
    from softkin.lab.data import Samples, Split
    from softkin.predictions import Predictions
    from softkin.similarity import Outputs

FOLLOWS = {"follows": True}
"""Metadata of a field that follows from runs that were done before, and is no part of the digest"""


@dataclass(frozen=True)
class Run:
    """Work that is named by the digest of everything that its outcome depends on."""

    kind: ClassVar[Literal["distances", "training", "result"]]

    def spec(self) -> dict[str, Any]:
        """Everything that the outcome depends on, as plain data."""
        own = [part for part in dataclasses.fields(self) if not part.metadata.get("follows")]
        return {"kind": self.kind, **{part.name: _plain(getattr(self, part.name)) for part in own}}

    @property
    def digest(self) -> str:
        """The digest that names the run."""
        return digest_of(self.spec())


def digest_of(values: Any) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of plain data, independent of the order of keys."""
    return files.sha256_of_json(values)[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, Recipe):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {part.name: _plain(getattr(value, part.name)) for part in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Rows:
    """Which rows of which data: the arguments of ``data.split``."""

    source: str
    seed: int = 0
    max_per_class: int | None = None
    validation: int | None = None
    test: int | None = None
    size: int | None = None
    digest: str | None = None
    """The digest of the data, if it is known; what is read is not compared with it"""

    def split(self, *, progress: bool | None = None) -> "Split":
        """Training, validation and test rows; cached, as consecutive runs mostly share them."""
        return _split(dataclasses.replace(self, digest=None), progress)


@lru_cache(maxsize=2)
def _split(rows: Rows, progress: bool | None) -> "Split":
    about = {part.name: getattr(rows, part.name) for part in dataclasses.fields(rows)}
    del about["digest"]
    return data.split(about.pop("source"), **about, progress=progress)


@dataclass(frozen=True)
class Unknown:
    """Out-of-distribution sets that are predicted as well."""

    sets: tuple[str, ...] = ()
    rows: int | None = None
    digests: tuple[str | None, ...] = ()

    def file_names(self) -> list[str]:
        """A name for the predictions of each set, numbered where two sources share one."""
        names: list[str] = []
        for source in self.sets:
            stem = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in Path(source).stem)
            name, number = f"ood-{stem}", 2
            while name in names:
                name, number = f"ood-{stem}-{number}", number + 1
            names.append(name)
        return names

    def load(self, like: Any, *, progress: bool | None = None) -> "dict[str, Samples]":
        """The sets, by the names of their files."""
        options = {} if self.rows is None else {"rows": self.rows}
        sets = (data.out_of_distribution(name, like, seed=0, progress=progress, **options) for name in self.sets)
        return dict(zip(self.file_names(), sets, strict=True))


@dataclass(frozen=True)
class TrainingRun(Run):
    """The training of one network, or of the several that its method needs."""

    kind = "training"

    method: str
    values: Mapping[str, Value]
    """The values of the method's parameters that are not the defaults"""
    seed: int
    rows: Rows
    model: str
    model_options: Mapping[str, Any]
    recipe: Recipe
    ood: Unknown = field(default_factory=Unknown)
    distances: Any = None
    """How labels from class distances are made: the digest of a study's run, or a source with its options"""
    outputs: str | None = None
    """The digest of the run whose predictions choose β"""


@dataclass(frozen=True)
class Outcome:
    """What a training made."""

    trained: Trained
    split: "Split"
    predicted: "dict[str, Predictions]"
    """The predictions of validation, test and out-of-distribution rows, by the names of their files"""
    written: list[Path]


def perform(
    run: TrainingRun,
    method: Method,
    *,
    out: Path | None,
    work: Path | None,
    device: str | None = None,
    progress: bool | None = None,
    **how: Any,
) -> Outcome | None:
    """Train, predict and save the predictions. In a group of processes all but the first return None.

    Args:
        run: What to do.
        method: Its method, with labels if it has any.
        out: The folder for predictions; None writes none.
        work: The folder for checkpoints, from which an interrupted training resumes.
        device: The device to compute on.
        progress: Whether to show a progress line.
        how: Other options of ``fit``.
    """
    parts = run.rows.split(progress=progress)
    train = parts.train
    build = partial(
        models.build_for, run.model, len(train.class_names), train.input_shape, options=dict(run.model_options)
    )
    # Before the training: an unreadable out-of-distribution set should not cost hours.
    sets: dict[str, Samples] = {"validation": parts.validation, "test": parts.test}
    sets |= run.ood.load(train, progress=progress)
    trained = fit_method(
        build,
        train,
        parts.validation,
        method=method,
        recipe=run.recipe,
        seed=run.seed,
        folder=work,
        device=device,
        progress=progress,
        **how,
    )
    if ranks.world()[0] != 0:
        return None
    predicted, written = {}, []
    for name, rows in sets.items():
        predicted[name] = predict(trained, rows, device=device, split_digest=parts.digest, name=name)
        if out is not None:
            written.append(out / f"{name}.safetensors")
            predicted[name].save(written[-1], force=True)
    return Outcome(trained, parts, predicted, written)


def record_of(run: TrainingRun, outcome: Outcome, method: Method) -> dict[str, Any]:
    """What a record says of every training."""
    trained = outcome.trained
    return {
        "seed": run.seed,
        "data_digest": outcome.split.data_digest,
        "split_digest": outcome.split.digest,
        "effective_target": trained.effective_target,
        "found": _settled(run.values, method, trained.history),
        "training_seconds": trained.seconds,
        "cost": cost(trained),
        "resumed": trained.resumed,
        "history": trained.history,
        "ood": list(run.ood.sets),
    }


def _settled(values: Mapping[str, Any], method: Method, history: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The values at which "auto" settled; for an α that moved, that of the last epoch."""
    ends = {**method.values, **({} if method.auto_alpha is None else {"alpha": history[-1]["alpha"]})}
    # A similarity from a file already includes its β.
    return {name: ends[name] for name, value in values.items() if value == "auto" and name in ends}


def similarity_method(
    measured: "ClassDistances",
    values: Mapping[str, Any],
    *,
    distance: str,
    mix: str | None = None,
    outputs: "Outputs | None" = None,
) -> Method:
    """Class-similarity smoothing with measured distances, or with the finished similarity of a file.

    Args:
        measured: The distances.
        values: α, β, top-m and the parameter of mixing; a finished similarity has its own β.
        distance: The distance's name, for the record.
        mix: The way to mix, if there is one.
        outputs: Probabilities and labels that choose a β of "auto".
    """
    usual: dict[str, Any] = {parameter.name: parameter.default for parameter in SIMILARITY.parameters}
    mixing, prior_rows = values.get("mixing"), values.get("prior_rows")
    if measured.similarity is not None:
        alpha = values.get("alpha", measured.about.get("alpha", usual["alpha"]))
        more: dict[str, Any] = {"mix": mix, "mixing": mixing, "distance": distance, "prior_rows": prior_rows}
        return Method.from_similarity(measured.similarity, alpha=alpha, **more)
    chosen = usual | dict(values)
    return Method.from_distances(
        measured.matrix,
        asymmetric=measured.asymmetric,
        alpha=chosen["alpha"],
        beta=chosen["beta"],
        top_m=int(chosen["top_m"]),
        mix=mix,
        mixing=mixing,
        distance=distance,
        outputs=outputs,
        prior_rows=prior_rows,
    )

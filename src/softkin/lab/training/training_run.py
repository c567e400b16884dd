"""One training, from rows of data to predictions and a record: ``softkin train`` does one, a study does many.

A ``TrainingRun`` says everything that the outcome depends on, as plain data with a digest; ``perform`` does it.

``fit_method`` trains methods that need more than one plain network: added dropout, a companion module, or several
networks. ``predict`` standardises data as in training.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NotRequired, TypedDict

import torch
from torch import nn

from softkin import smoothing
from softkin._core import ranks
from softkin._core.randomness import key
from softkin._io import files
from softkin._io.files import Plain
from softkin.bayes import Companion, Ensemble, Posterior, distilled_similarity
from softkin.lab import data, models
from softkin.lab.training.batches import Inputs, Standardisation
from softkin.lab.training.events import Epoch
from softkin.lab.training.launch import checked_device
from softkin.lab.training.loop import Trained, evaluate, fit
from softkin.lab.training.methods import SIMILARITY, Method, Value
from softkin.lab.training.recipe import Recipe
from softkin.predictions import Predictions

if TYPE_CHECKING:
    from softkin.distances import ClassDistances
    from softkin.lab.data import Labelled, Samples, Split
    from softkin.predictions import Predictions
    from softkin.similarity import Outputs


def predict(
    trained: Trained | nn.Module,
    data: "Samples",
    *,
    standardisation: Standardisation | None = None,
    device: str | torch.device | None = None,
    split_digest: str | None = None,
    name: str | None = None,
) -> Predictions:
    """The predictions of a network for each row of ``data``.

    Args:
        trained: The result of ``fit``, or a network; a network needs ``standardisation``.
        data: The rows; labels are optional, as out-of-distribution rows have none.
        standardisation: The standardisation of the training, if ``trained`` is a network.
        device: The device to compute on; by default the network's.
        split_digest: Digest of the split that the rows came from, kept with the predictions.
        name: A name for the rows, such as "test".
    """
    model, class_names = (trained.model, trained.class_names) if isinstance(trained, Trained) else (trained, None)
    how = trained.standardisation if isinstance(trained, Trained) else standardisation
    if how is None:
        raise ValueError(
            "`standardisation` must be given with a bare network: pass the result of fit, or its standardisation."
        )
    weight = next(model.parameters(), torch.empty(0))
    target = weight.device if device is None else checked_device(device)
    model.to(target)
    laid_out = any(
        weights.ndim == 4 and not weights.is_contiguous() and weights.is_contiguous(memory_format=torch.channels_last)
        for weights in model.parameters()
    )
    inputs = Inputs(data, how, device=target, channels_last=laid_out and data.kind == "images")
    known = class_names or (list(data.class_names) if data.class_names else None)
    rows = range(len(data.values))
    information = None
    if isinstance(model, Posterior):
        mean = model.averaged(lambda network: evaluate(network, inputs, rows, len(known or ())))
        logits, information = mean.logits, mean.mutual_information
    else:
        logits = evaluate(model, inputs, rows, len(known or ()))
    labels = None if data.labels is None else torch.from_numpy(data.labels.copy())
    return Predictions(
        logits,
        labels,
        class_names=known,
        sample_ids=None if data.ids is None else torch.from_numpy(data.ids.copy()),
        split_digest=split_digest,
        name=name,
        mutual_information=information,
    )


Build = Callable[..., nn.Module]
"""(seed, **options) → a network"""


def fit_method(
    build: Build,
    train: "Labelled",
    validation: "Labelled | None" = None,
    *,
    method: Method,
    recipe: Recipe,
    seed: int = 0,
    folder: str | Path | None = None,
    **options: Any,
) -> Trained:
    """Build and train what a method needs: like ``fit``, but also for methods that train several networks.

    The members of an ensemble differ in their initial weights and in the order of the rows; the first is the network
    that "one-hot" trains with the same seed. Each has checkpoints of its own, so a crash costs at most one of them.

    Args:
        build: ``build(seed)`` makes a network; for "mc-dropout" ``build(seed, dropout=0.2)`` is called.
        train: The training rows.
        validation: The validation rows, as for ``fit``.
        method: Any.
        recipe: The recipe, as for ``fit``.
        seed: The seed of ``fit``, and of the initial weights.
        folder: The folder for checkpoints.
        options: Other options of ``fit``.
    """
    wanted = {} if method.labelling.options is None else method.labelling.options(method)
    path = None if folder is None else Path(folder)

    def trained(member: Method, own: int, part: str | None = None) -> Trained:
        subfolder = path if path is None or part is None else path / part
        return fit(
            build(own, **wanted), train, validation, method=member, recipe=recipe, seed=own, folder=subfolder, **options
        )

    if not method.labelling.several:
        return trained(method, seed)
    seeds = [seed, *(key(seed, "member", place) for place in range(1, int(method.values["members"])))]
    members = [trained(Method("one-hot"), own, f"member-{place}" if place else None) for place, own in enumerate(seeds)]
    ensemble = replace(members[0], model=Ensemble([member.model for member in members]).eval())
    networks = members
    if method.labelling.distils:
        networks = [*members, trained(_taught(method, ensemble, validation), seed, "student")]
    target = method.effective_target(len(ensemble.class_names))
    about = {"method": method.to_dict(), "effective_target": target, "networks": len(networks)}
    return replace(
        networks[-1] if method.labelling.distils else ensemble,
        seconds=sum(member.seconds for member in networks),
        resumed=any(member.resumed for member in networks),
        effective_target=target,
        record={**networks[-1].record, **about, "seed": seed},
    )


def _taught(method: Method, ensemble: Trained, validation: "Labelled | None") -> Method:
    """Class-similarity smoothing with the similarity that the ensemble shows on the validation rows."""
    if validation is None or len(validation.labels) == 0:
        raise ValueError(f"the method {method.label} needs validation rows, but there are none.")
    s = distilled_similarity(predict(ensemble, validation))
    return Method(
        SIMILARITY.name, soft_labels=smoothing.similarity_labels(s, method.values["alpha"]), distance="ensemble"
    )


class Cost(TypedDict):
    """What a method costs where the plain network costs 1."""

    passes: int
    """Per prediction"""
    memory: float
    networks: int
    """That are trained"""


class TrainingData(TypedDict):
    """What a record says of every training, as plain data."""

    seed: int
    data_digest: str | None
    split_digest: str
    effective_target: str
    found: NotRequired[dict[str, float]]
    training_seconds: Plain
    cost: NotRequired[Cost | None]
    resumed: NotRequired[bool]
    history: list[Epoch]
    ood: list[str]


def cost(trained: Trained) -> Cost | None:
    """The cost of a method relative to the plain network: passes per prediction, memory factor, networks trained."""
    model, networks = trained.model, trained.record.get("networks", 1)
    if not isinstance(model, Companion):
        return None if networks == 1 else {"passes": 1, "memory": 1.0, "networks": networks}
    plain = sum(tensor.numel() for tensor in model.network.state_dict().values())
    return {"passes": model.passes, "memory": model.held / max(1, plain), "networks": networks}


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


def record_of(run: TrainingRun, outcome: Outcome, method: Method) -> TrainingData:
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


def _settled(values: Mapping[str, Any], method: Method, history: Sequence[Epoch]) -> dict[str, float]:
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

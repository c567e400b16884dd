"""One training from a source of data to a folder of results, as ``softkin train`` runs it.

The folder holds ``checkpoints/`` during the training, then the predictions of every set, ``weights.safetensors``, if
labels are learned ``similarity.safetensors`` and ``similar.svg``, and ``record.json``. The record is written last: a
folder that has one holds a finished training.
"""

import os
import shutil
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin import SoftkinError, __version__, diagrams, metrics, similarity
from softkin._core import checks, ranks
from softkin._io import files
from softkin.lab import models
from softkin.lab.data import loading, ood
from softkin.lab.training import CHECKPOINT_EVERY
from softkin.lab.training.distances import WORDS, known_distance, label_doubts, measured_distances
from softkin.lab.training.launch import named_device
from softkin.lab.training.loop import MOST_SEED, Trained
from softkin.lab.training.methods import SIMILARITY, Method, Value, parse
from softkin.lab.training.recipe import Recipe
from softkin.lab.training.training_run import Outcome, Rows, TrainingRun, Unknown, perform, record_of, similarity_method
from softkin.metrics.measurement import measure
from softkin.metrics.scopes import Claims
from softkin.predictions import Predictions

if TYPE_CHECKING:
    from softkin.distances import AutoencoderFit, ClassDistances
    from softkin.lab.data import Split

RECORD = "record.json"
MEASURED = ("accuracy", "ece_hist", "nll", "brier")
SMALL = 10_000  # training rows up to which the recipe is "small" by default
DEFAULT_DISTANCE = WORDS


@dataclass(frozen=True)
class Session:
    """Everything that a training and its predictions depend on."""

    source: str
    """Any source that ``softkin.lab.data.split`` reads"""
    model: str | None = None
    """The network's name; None: ``models.default_network`` chooses"""
    method: str = "one-hot"
    values: Mapping[str, Value | None] = field(default_factory=dict)
    """Values of the method's parameters; None or absent: the default"""
    distance: str | None = None
    """For the method "similarity": a distance source or a file of distances; None: words"""
    vectors: str | Path | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    """For the distance "words", as in ``distances.from_words``; ``aliases`` also for "taxonomy\""""
    distance_options: Mapping[str, Any] = field(default_factory=dict)
    """For other distances, as in ``distances.measure``: tree, measure, encoder, template, outputs, …"""
    validation: int | None = None
    test: int | None = None
    max_per_class: int | None = None
    size: int | None = None
    """Options of ``softkin.lab.data.split``"""
    ood: Sequence[str] = ()
    """Out-of-distribution sets to predict as well"""
    recipe: str | None = None
    """A recipe's name; None: "small" for up to 10,000 training rows, else "paper\""""
    recipe_changes: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    device: str | None = None
    output: Path | None = None
    force: bool = False
    """Overwrite a finished training; an interrupted training is always resumed"""
    checkpoint_every: float = CHECKPOINT_EVERY
    log_json: Path | None = None
    trackers: Sequence[str] = ()

    # Before the work

    def check(self) -> None:
        """Refuse what cannot work, before any data are read."""
        labelling, _ = parse(self.method)
        loading.check(self.source)
        for name in self.ood:
            ood.check(name)
        if self.model is not None:
            models.require_package(models.check(self.model)[0])
        if self.device is not None:
            named_device(self.device)
        checks.count(self.seed, "seed", least=0, most=MOST_SEED)
        checks.at_least_zero(self.checkpoint_every, "checkpoint_every")
        for option in ("validation", "test", "max_per_class", "size"):
            if getattr(self, option) is not None:
                checks.count(getattr(self, option), option)
        if labelling.from_distances:
            known_distance(self.distance or DEFAULT_DISTANCE)
            for parameter in labelling.parameters:
                parameter.check(self._value(parameter.name, parameter.default))
            self._method(soft_labels=[[0.5, 0.5], [0.5, 0.5]])  # a stand-in: the real labels need the data
        else:
            self._method()
            for option in ("distance", "vectors"):
                if getattr(self, option) is not None:
                    raise ValueError(f"`{option}` is for {SIMILARITY.name}, and the method is {self.method!r}.")
        Recipe.named(self.recipe or "small", **self.recipe_changes)
        self._check_files()

    def _check_files(self) -> None:
        output = self.output
        if output is not None and output.exists() and not output.is_dir():
            raise ValueError(f"the output must be a folder, but {output} is a file.")
        if output is not None:
            files.refuse_links_out(output)
        if output is not None and (output / RECORD).exists() and not self.force:
            raise ValueError(f"{output} already holds a finished run; pass --force to overwrite it.")
        if self.log_json is not None and _is_first_process() and not self._goes_on:
            files.refuse_to_overwrite(self.log_json, force=self.force)

    @property
    def _goes_on(self) -> bool:
        """Whether the output folder holds an interrupted training."""
        output = self.output
        return output is not None and not (output / RECORD).exists() and (output / "checkpoints" / "run.json").exists()

    def _value(self, name: str, default: float) -> Value:
        value = self.values.get(name)
        return default if value is None else value

    def _method(self, **labels: Any) -> Method:
        options: dict[str, Any] = {**self.values, **labels}
        return Method(self.method, **options)

    # The work

    def run(self) -> "Finished | None":
        """Read, train, predict, write. In a group of processes all but the first return None."""
        rows = Rows(self.source, self.seed, self.max_per_class, self.validation, self.test, self.size)
        split = rows.split()
        train = split.train
        method, distances = self._labelled(split)
        run = TrainingRun(
            method.name,
            {name: value for name, value in self.values.items() if value is not None},
            self.seed,
            rows,
            self.model or models.default_network(train.kind, train.input_shape),
            {},
            Recipe.named(self.recipe or ("small" if len(train) <= SMALL else "paper"), **self.recipe_changes),
            Unknown(tuple(self.ood)),
            None if distances is None else {"distance": method.distance, **self._distance_options()},
        )
        if _is_first_process() and not self._goes_on:
            self._clear()
        start = time.perf_counter()
        outcome = perform(
            run,
            method,
            out=self.output,
            work=None if self.output is None else self.output / "checkpoints",
            device=self.device,
            log_json=self.log_json,
            trackers=self.trackers,
            checkpoint_every=self.checkpoint_every,
        )
        if outcome is None:
            return None
        record = _record(run, outcome, method, distances, seconds=time.perf_counter() - start)
        written = [] if self.output is None else _write(self.output, outcome, record)
        return Finished(record, written)

    def _distance_options(self) -> dict[str, Any]:
        """The options of measuring that were given."""
        given = {"vectors": self.vectors, "aliases": self.aliases, **self.distance_options}
        return {name: value for name, value in given.items() if value is not None and value != {}}

    def _labelled(self, split: "Split") -> "tuple[Method, ClassDistances | None]":
        """The method, and the distances of its labels if it has any."""
        labelling, mixing = parse(self.method)
        if not labelling.from_distances:
            return self._method(), None
        distance = self.distance or DEFAULT_DISTANCE
        options = self._distance_options()
        measured = measured_distances(split.train, distance, seed=self.seed, device=self.device, **options)
        values = {name: value for name, value in self.values.items() if value is not None}
        if measured.similarity is not None and {"beta", "top_m"} & set(values):
            raise ValueError(f"`beta` and `top_m` must be left out: {distance} holds a finished similarity.")
        if ranks.world()[0] == 0:
            beta = self._value("beta", next(p.default for p in labelling.parameters if p.name == "beta"))
            if beta == "auto":
                warnings.warn(
                    "only the predictions of a one-hot network could fit beta='auto', so it is "
                    f"{similarity.AUTO_BETA:g} here; `softkin compare` trains one and fits it.",
                    stacklevel=2,
                )
            for sentence in label_doubts(
                split.train, known_distance(distance), measured, beta, vectors=self.vectors, aliases=self.aliases
            ):
                warnings.warn(sentence, stacklevel=2)
        mix = None if mixing is None else mixing.name
        return similarity_method(measured, values, distance=distance, mix=mix), measured

    def _clear(self) -> None:
        """Remove files of an earlier training that have the names of this one's files."""
        if self.output is not None and (self.output / RECORD).exists():
            shutil.rmtree(self.output / "checkpoints", ignore_errors=True)
            (self.output / RECORD).unlink(missing_ok=True)
        if self.log_json is not None:
            try:
                self.log_json.unlink(missing_ok=True)
            except OSError as error:
                raise SoftkinError(f"{self.log_json} could not be overwritten: {error.strerror or error}.") from error


@dataclass(frozen=True)
class Finished:
    """The results of a training."""

    record: dict[str, Any]
    written: list[Path]

    def text(self) -> str:
        """The results as text: the verdict, what was trained, its metrics, and the files."""
        record = self.record
        lines = [
            record["verdict"],
            f"{record['source']}; {record['network']}, {record['parameters']:,} parameters; {record['method']['name']}",
            f"target: {record['effective_target']}",
        ]
        if "autoencoder" in record:
            lines.append(record["autoencoder"]["words"])
        if record["overlap"]:
            twins = f"{record['overlap']:,} validation and test samples"
            lines.append(f"notice: {twins} have an exact copy among the training samples")
        if "batch_statistics" in record and record["processes"] > 1:
            lines.append(f"batch statistics: {record['batch_statistics']}")
        lines += [f"{name}: {_in_words(numbers)}" for name, numbers in record["results"].items()]
        lines.append(f"{record['training_seconds']:.1f} s of training" + (", resumed" if record["resumed"] else ""))
        return "\n".join([*lines, *(f"Wrote {path}" for path in self.written)])


def _in_words(numbers: Mapping[str, Any]) -> str:
    if "auroc" in numbers:
        return f"{numbers['rows']:,} rows, AUROC of the confidence against test {numbers['auroc']:.4f}"
    accuracy, ece, nll, brier = (files.from_number(numbers["metrics"][key]["value"]) for key in MEASURED)
    return (
        f"{numbers['rows']:,} rows, accuracy {100 * accuracy:.2f} %, ECE {100 * ece:.2f} %, NLL {nll:.4f}, "
        f"Brier {brier:.4f}"
    )


def verdict(test: Predictions, method: Method) -> str:
    """Whether the network claims what it delivers on the test rows, and what repairs it if not."""
    measured = metrics.signed_gap(test.probabilities, test.known_labels, confidence=0.95)
    assert isinstance(measured, metrics.Interval)
    gap = measured
    repair = "a temperature repairs it (softkin calibrate fit)"
    alpha = method.values.get("alpha")
    if gap.low > 0:
        smooth = (
            "" if alpha is not None or method.auto_alpha is not None else ", or smooth labels with --method uniform"
        )
        return f"Over-confident by {100 * gap:.1f} points on the test rows: {repair}{smooth}."
    if gap.high < 0:
        cause = "more epochs may, or"
        if method.auto_alpha is not None:
            cause = "alpha='auto' can only smooth less, and"
        elif alpha:
            finds = "--alpha auto finds less, or" if _may_move(method) else "on the way to better answers;"
            cause = f"α = {alpha:g} smooths more than this network needs, {finds}"
        return f"Under-confident by {-100 * gap:.1f} points on the test rows: {cause} {repair}."
    return f"On the test rows no difference between confidence and accuracy was found (gap {100 * gap:+.1f} points)."


def _may_move(method: Method) -> bool:
    """Whether its α may be "auto"."""
    return any(parameter.name == "alpha" and parameter.automatic for parameter in method.labelling.parameters)


def _is_first_process() -> bool:
    """Whether this is the first of the launcher's processes, the only one that writes; works before they connect."""
    return os.environ.get("RANK", "0") == "0"


def _record(
    run: TrainingRun, outcome: Outcome, method: Method, distances: "ClassDistances | None", *, seconds: float
) -> dict[str, Any]:
    trained, split = outcome.trained, outcome.split
    test = outcome.predicted["test"]
    sources = dict(zip(run.ood.file_names(), run.ood.sets, strict=True))
    results: dict[str, Any] = {}
    for name, preds in outcome.predicted.items():
        p = preds.probabilities
        if preds.labels is None:
            results[name] = {
                "rows": len(preds),
                "source": sources[name],
                "auroc": metrics.auroc(test.probabilities.amax(1), p.amax(1)),
            }
        else:
            measured = measure(Claims.of(p, preds.labels), MEASURED)
            results[name] = {"rows": len(preds), "metrics": {key: one.to_dict() for key, one in measured.items()}}
    autoencoder = None if distances is None else distances.autoencoder
    how = {} if autoencoder is None else {"autoencoder": _errors(autoencoder)}
    record = {
        "softkin": __version__,
        "spec": run.spec(),
        "source": split.train.source,
        "overlap": split.overlap,
        "standardisation": asdict(trained.standardisation),
        "network": run.model,
        "parameters": sum(weights.numel() for weights in trained.model.parameters()),
        **trained.record,
        **how,
        **record_of(run, outcome, method),
        "seconds": seconds,
        "results": results,
        "verdict": verdict(test, method),
    }
    plain: dict[str, Any] = files.plain(record)
    return plain


def _errors(autoencoder: "AutoencoderFit") -> dict[str, Any]:
    names = ("latent_dim", "error", "pca_error", "beats_pca", "held_out", "epochs", "seconds")
    return {"words": str(autoencoder)} | {name: getattr(autoencoder, name) for name in names}


def _write(output: Path, outcome: Outcome, record: dict[str, Any]) -> list[Path]:
    from safetensors.torch import save

    weights = {key: value.cpu().contiguous().clone() for key, value in outcome.trained.model.state_dict().items()}
    written = [*outcome.written, output / "weights.safetensors"]
    files.write(written[-1], save(weights))
    written += _write_learned(output, outcome.trained)
    written.append(output / RECORD)  # last, because it marks the run as finished
    files.write_json(written[-1], record)
    return written


def _write_learned(output: Path, trained: Trained) -> list[Path]:
    """Write what the network came to find similar, as a file that commands read and as a picture of all epochs."""
    if trained.similarity is None:
        return []
    from softkin._core.figures import rendered

    file, picture = output / "similarity.safetensors", output / "similar.svg"
    how = f"what a network learned to find similar in {len(trained.history)} epochs"
    alpha = trained.history[-1].get("alpha", trained.record["method"].get("alpha"))
    about = {"alpha": alpha, "learned": [entry["similar"] for entry in trained.history]}
    similarity.save(file, trained.similarity, class_names=trained.class_names, source=how, about=about)
    figure = diagrams.learned_similarity(trained.history, class_names=trained.class_names)
    files.write(picture, rendered(figure, "svg"))
    return [file, picture]

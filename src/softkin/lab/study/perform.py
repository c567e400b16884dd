"""Perform one run, on any engine: a job and the folders of its inputs become files and a record with its metrics."""

import os
import platform
import socket
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from softkin import __version__, calibrators, distances, metrics, predictions, similarity, word_vectors
from softkin._core import checks, threads
from softkin._io import cache
from softkin._io.files import number
from softkin.distances import words
from softkin.lab import data, models, training
from softkin.lab.data.loading import recognise
from softkin.lab.data.ood import NOISE
from softkin.lab.study import columns
from softkin.lab.study import columns as registry
from softkin.lab.study.plan import DistancesRun, Job, ResultRun
from softkin.lab.study.records import Kept, Record, read
from softkin.lab.study.spec import OUTPUTS, TREE, StudySpec, source_files
from softkin.lab.training import training_run as training_run
from softkin.lab.training.distances import label_doubts, opened
from softkin.lab.training.loop import refined_nll
from softkin.lab.training.training_run import Rows, TrainingRun, Unknown
from softkin.metrics import catalogue
from softkin.metrics.measurement import MeasuredData, Settings, measure
from softkin.metrics.scopes import Claims
from softkin.predictions import Predictions

if TYPE_CHECKING:
    from softkin.calibrators import Calibrator
    from softkin.lab.data import Split


DIGITS = {"max_per_class": 10, "validation": 697, "test": 1000}
"""Few enough training images for a network to become over-confident, and enough test images to measure it"""

FEATURES = ("one-hot", "uniform", "mixup", "we")
FEATURES_RECIPE = {"epochs": 8, "batch_size": 128, "lr": 0.2}
FEATURES_NETWORK = {"hidden": 512}
"""For the features that come with softkin: few trained methods, and a network that trains in seconds. Of twelve
networks and recipes tried, by validation rows, the one with the highest accuracy; docs/compare.md has them all"""

Inputs = Callable[[str], Path]
"""The folder of a finished run, by its digest"""


def perform(
    job: Job, out: Path, inputs: Inputs, *, device: str | None = None, work: Path | None = None
) -> tuple[Record, list[str]]:
    """Do a run: write its files into ``out``, and return the content of its record and the names of the files.

    Args:
        job: The run.
        out: The folder for its files.
        inputs: The folders of the runs that it needs.
        device: The device to compute on.
        work: A folder for checkpoints, from which an interrupted training resumes.
    """
    start, busy = time.perf_counter(), time.process_time()
    out.mkdir(parents=True, exist_ok=True)
    run = job.run
    if isinstance(run, DistancesRun):
        outcome, names = _distances(run, out, inputs, device)
    elif isinstance(run, TrainingRun):
        outcome, names = _training(run, out, inputs, device, work)
    else:
        outcome, names = _result(run, out, inputs)
    record = {
        "kind": job.kind,
        "title": job.title,
        "spec": run.spec(),
        "softkin": __version__,
        "versions": versions(),
        "device": str(device or "cpu"),
        "threads": torch.get_num_threads(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - busy,
        **outcome,
    }
    return cast(Record, record), names


def versions() -> dict[str, str]:
    """The versions that the numbers may depend on besides the spec."""
    known = {name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), **known, "platform": platform.platform()}


# Data


def resolve(spec: StudySpec) -> Kept:
    """Fill in all fields of a study that depend on the data, and describe the data; cheap checks are made.

    Raises:
        ValueError: A name is unknown, or a network or word vectors do not fit the data.
        SoftkinError: The data, or an out-of-distribution set, cannot be read.
    """
    with threads.at_most(1):
        return _resolved(spec)


def _resolved(spec: StudySpec) -> Kept:
    if spec.data == "digits" and spec.max_per_class is spec.validation is spec.test is None:
        spec = replace(spec, **DIGITS)  # type: ignore[arg-type]
    if spec.data == "cifar100-features":
        spec = _for_features(spec)
    rows = Rows(spec.data, spec.seeds[0], spec.max_per_class, spec.validation, spec.test, spec.size)
    parts = rows.split(progress=False)
    kind = parts.train.kind
    checks.class_names(parts.train.class_names)
    if not spec.methods:
        spec = replace(spec, methods=registry.by_default([name for name in registry.PAPER if _suits(name, kind)]))
    if spec.model is None:
        spec = replace(spec, model=models.default_network(kind, parts.train.input_shape))
    assert spec.model is not None
    models.build(
        spec.model,
        num_classes=len(parts.train.class_names),
        input_shape=parts.train.input_shape,
        seed=0,
        **spec.model_options,
    )
    contents: dict[str, str] = {}
    for name in spec.ood:  # otherwise they would be read only after the first training
        # A single row shows whether the set fits, and its digest identifies the whole set.
        unknown = data.out_of_distribution(name, like=parts.train, rows=1, seed=0, progress=False)
        if name not in NOISE:
            contents[f"ood {name}"] = unknown.digest
    spec = replace(spec, recipe=recipe_of(spec))
    for base in spec.bases():
        method = registry.named(base)
        if method.training is not None and method.training.images_only and kind != "images":
            raise ValueError(f"method {base} needs images, and {spec.data} holds {kind}.")
        if method.source is not None:
            method.source.check(kind)
            if spec.learns_from_one_hot(base):
                if registry.ONE_HOT not in spec.bases():
                    raise ValueError(
                        f"method {base} learns from the outputs of a network; add one-hot to the methods, whose "
                        "network it then takes, or pass a file of predictions as `outputs` (--outputs)."
                    )
            elif not method.source.uses_samples:  # report words without a vector before hours of training
                options = {"vectors": spec.vectors, "aliases": dict(spec.aliases), **spec.sources}
                if TREE in method.source.options and TREE not in spec.sources:
                    tree = options[TREE] = _tree_of(spec.data)
                    if tree is not None:
                        contents[f"own {TREE}"] = cache.content_digest(tree, [tree])
                _doubt(spec, parts, method.source.name, _measured(method.source, parts, options))
    kin = _kin(spec, parts) if spec.heads else None
    if spec.looks_up_words or spec.vectors is not None:
        vectors = word_vectors.file_of(spec.vectors)
        contents["vectors"] = cache.content_digest(vectors, [vectors])
        if words.uses_broader(parts.train.class_names, spec.vectors, aliases=dict(spec.aliases)):
            contents["broader terms"] = cache.content_digest(word_vectors.BROADER, [word_vectors.BROADER])
    for option, path in source_files(spec.sources).items():
        contents[f"source {option}"] = cache.content_digest(path, [path])
    counts = {"training": len(parts.train.labels), "validation": len(parts.validation.labels)}
    counts["test"] = len(parts.test.labels)
    about_data = {
        "source": parts.train.source,
        "digest": parts.data_digest,
        "kind": kind,
        "classes": len(parts.train.class_names),
        "rows": ", ".join(f"{count:,} {name}" for name, count in counts.items()) + " rows",
        "contents": contents,
        **({} if kin is None else {"kin": kin}),
    }
    return Kept(spec, about_data)


def _for_features(spec: StudySpec) -> StudySpec:
    """What is left open of a study of the features that come with softkin."""
    if not spec.methods:
        trained = registry.by_default(FEATURES)
        spec = replace(spec, methods=(trained[0], registry.BASELINES[1], *trained[1:]))
    if spec.model is None:
        spec = replace(spec, model="mlp", model_options={**FEATURES_NETWORK, **spec.model_options})
    if "name" not in spec.recipe:
        spec = replace(spec, recipe={**FEATURES_RECIPE, **spec.recipe})
    return spec


def _kin(spec: StudySpec, parts: "Split") -> str | None:
    """The distances that heads lean on, by the name of their column; None if no head leans.

    Raises:
        ValueError: The data hold no features, so there is nothing for a head to read.
    """
    if parts.train.kind != columns.NEEDS:
        raise ValueError(
            f"method {spec.heads[0]} is a second head on frozen features, and {spec.data} holds {parts.train.kind}; "
            "leave it out, or pass features: an .npz with `features` and `labels`."
        )
    if not spec.uses_kin:
        return None
    names = registry.named(columns.NAMES).source
    assert names is not None
    why = "differ only by numbers or letters" if words.numbered([own[0] for own in parts.train.synonyms]) else ""
    try:
        if not why:
            _measured(names, parts, {"vectors": spec.vectors, "aliases": dict(spec.aliases)})
    except ValueError as error:
        why = f"cannot be looked up ({str(error).partition(';')[0]})"
    if why:
        warnings.warn(f"the class names {why}: the kin of {columns.USES_KIN} are those of class means.", stacklevel=2)
    return columns.MEANS if why else columns.NAMES


def _tree_of(source: str) -> Path | None:
    """The file of super-classes that comes with the data, if there is one."""
    return recognise(source, progress=False).tree


def _doubt(spec: StudySpec, parts: "Split", source: str, measured: distances.ClassDistances) -> None:
    """Warn of labels from class names that look wrong; several values of β are left to the validation rows."""
    if len(spec.beta) > 1:
        return
    beta: Any = spec.beta[0]
    for sentence in label_doubts(parts.train, source, measured, beta, vectors=spec.vectors, aliases=spec.aliases):
        warnings.warn(sentence, stacklevel=2)


def _suits(name: str, kind: str) -> bool:
    """Whether a method supports a kind of data."""
    source = registry.named(name).source
    return source is None or not source.uses_samples or kind in source.needs


def recipe_of(spec: StudySpec) -> dict[str, Any]:
    """The recipe with all its fields."""
    changes = dict(spec.recipe)
    name = changes.pop("name", None)
    return training.Recipe.named(name or "small", **changes).to_dict()


# The three kinds of run


def _measured(
    source: distances.DistanceSource, parts: "Split", options: Mapping[str, Any], device: str | None = None
) -> distances.ClassDistances:
    """Class distances of the training rows, with the options that the source accepts."""
    mine = {name: value for name, value in options.items() if name in source.options}
    mine = opened(mine, parts.train.class_names)
    return distances.measure(source.name, parts.train, **mine, seed=0, device=device, progress=False)


def _distances(run: DistancesRun, out: Path, inputs: Inputs, device: str | None) -> tuple[dict[str, Any], list[str]]:
    source = distances.SOURCES[run.source]
    parts = (run.rows or run.named_by).split(progress=False)
    with warnings.catch_warnings():
        if not source.uses_samples:  # ``resolve`` has shown what looks wrong in the names
            warnings.simplefilter("ignore", UserWarning)
        options = dict(run.options)
        if OUTPUTS in run.digests and OUTPUTS not in options:
            options[OUTPUTS] = inputs(str(run.digests[OUTPUTS])) / "validation.safetensors"
        if TREE in run.digests and TREE not in options:
            options[TREE] = _tree_of(run.named_by.source)
        measured = _measured(source, parts, options, device)
    outcome: dict[str, Any] = {"split_digest": None if run.rows is None else parts.digest}
    fit = measured.autoencoder
    if fit is not None:
        outcome["autoencoder"] = {"error": fit.error, "pca_error": fit.pca_error, "words": str(fit)}
    how = f"training rows: {measured.how}" if source.uses_samples else measured.how
    name = "distances.safetensors"
    about = f"{parts.train.source}: {how}"
    names, kept = parts.train.class_names, dict(measured.about)
    if measured.similarity is not None:
        similarity.save(out / name, measured.similarity, class_names=names, source=about, about=kept)
    else:
        kept |= {"asymmetric": True} if measured.asymmetric else {}
        distances.save(out / name, measured.matrix, class_names=names, source=about, about=kept)
    return outcome, [name]


def _training(
    run: TrainingRun, out: Path, inputs: Inputs, device: str | None, work: Path | None
) -> tuple[dict[str, Any], list[str]]:
    method = method_of(run, inputs)
    outcome = training_run.perform(run, method, out=out, work=work, device=device, progress=False)
    assert outcome is not None
    validation = outcome.predicted["validation"]
    record = training_run.record_of(run, outcome, method) | {"metrics": on_validation(validation)}
    record["refined_nll"] = number(refined_nll(validation.logits, validation.known_labels))
    return record, [path.name for path in outcome.written]


def method_of(run: TrainingRun, inputs: Inputs) -> training.Method:
    """The method as ``training`` defines it."""
    method = registry.named(run.method)
    if method.training is not None:
        values: dict[str, Any] = dict(run.values)
        return training.Method(method.training.name, **values)
    train = run.rows.split(progress=False).train
    measured = distances.measure("file", train, matrix=inputs(run.distances) / "distances.safetensors")
    outputs = None
    if run.outputs is not None:
        baseline = predictions.load(inputs(run.outputs) / "validation.safetensors")
        outputs = baseline.probabilities, baseline.known_labels
    assert method.source is not None
    return training_run.similarity_method(measured, run.values, distance=method.source.title, outputs=outputs)


def _result(run: ResultRun, out: Path, inputs: Inputs) -> tuple[dict[str, Any], list[str]]:
    assert run.choice is not None
    source = inputs(run.choice.run)
    record = read(source)
    assert record["kind"] == "training"
    test = predictions.load(source / "test.safetensors")
    unknown_files = Unknown(tuple(record["ood"])).file_names()
    unknown = {name: predictions.load(source / f"{name}.safetensors") for name in unknown_files}
    written: list[str] = []
    target = record["effective_target"]
    if run.calibrator is not None:
        validation = predictions.load(source / "validation.safetensors")
        fitted: Calibrator | calibrators.KinHead
        if run.head is not None:
            fitted, (test, *others) = _headed(run, validation, {"test": test, **unknown}, inputs)
        else:
            fitted = _fitted(run.calibrator, validation)
            test, *others = (rows.calibrated(fitted) for rows in (test, *unknown.values()))
        fitted.save(out / "calibrator")
        written += [f"calibrator/{path.name}" for path in sorted((out / "calibrator").iterdir())]
        unknown = dict(zip(unknown, others, strict=True))
        for name, calibrated in {"test": test, **unknown}.items():
            calibrated.save(out / f"{name}.safetensors", force=True)
            written.append(f"{name}.safetensors")
        target = f"{target}; {fitted!r}"
    return {
        "seed": run.seed,
        "method": run.method,
        "chosen": run.choice.run,
        "values": run.choice.values,
        "found": record.get("found", {}),
        **({} if run.choice.tuning is None else {"recipe": run.choice.tuning.to_dict(run.chosen_by["tune"]["fields"])}),
        "tried": list(run.choice.tried),
        "predictions": run.choice.run if run.calibrator is None else run.digest,
        "data_digest": record["data_digest"],
        "split_digest": record["split_digest"],
        "effective_target": target,
        "cost": record.get("cost"),
        "metrics": on_test(test, dict(zip(record["ood"], unknown.values(), strict=True))),
        "ood": record["ood"],
    }, written


def _fitted(name: str, validation: predictions.Predictions) -> "Calibrator":
    with warnings.catch_warnings(record=True):  # warnings of a fit are in its certificate, which is saved
        warnings.simplefilter("always")
        return calibrators.REGISTRY[name]().fit(validation.logits, validation.known_labels)


def _headed(
    run: ResultRun, validation: predictions.Predictions, others: Mapping[str, predictions.Predictions], inputs: Inputs
) -> tuple[calibrators.KinHead, list[predictions.Predictions]]:
    """A head fitted after a training, and its predictions of other rows."""
    assert run.head is not None
    samples, kin = run.head.samples(), None
    if run.head.distances is not None:
        file = inputs(run.head.distances) / "distances.safetensors"
        kin = run.head.kin(distances.measure("file", samples["train"], matrix=file), validation)
    fitted = columns.fit(columns.HEADS[str(run.calibrator)](kin), validation, samples)
    return fitted, [columns.applied(fitted, rows, samples[name]) for name, rows in others.items()]


OF_RESULTS = Settings(confidence=None, slow=True)
"""Values, and those under calibration; a study's intervals are over its seeds, and come with its table"""


def on_validation(predictions: Predictions) -> dict[str, MeasuredData]:
    """The validation metrics by which values are chosen."""
    claims = Claims.of(predictions.probabilities, predictions.known_labels)
    return {key: one.to_dict() for key, one in measure(claims, catalogue.shown("select")).items()}


def on_test(predictions: Predictions, ood: Mapping[str, Predictions] | None = None) -> dict[str, MeasuredData]:
    """The metrics of a result's test predictions and of out-of-distribution sets."""
    claims = Claims.of(predictions.probabilities, predictions.known_labels)
    measured = measure(claims, catalogue.shown("record", claims.num_classes), OF_RESULTS)
    numbers = {key: one.to_dict() for key, one in measured.items()}
    for name, unknown in (ood or {}).items():
        known, other = predictions.probabilities.amax(dim=1), unknown.probabilities.amax(dim=1)
        numbers[f"auroc {name}"] = {"value": number(metrics.auroc(known, other))}
        numbers[f"fpr_at_95 {name}"] = {"value": number(metrics.fpr_at_95(known, other))}
        if predictions.mutual_information is not None and unknown.mutual_information is not None:
            agreement = -predictions.mutual_information, -unknown.mutual_information
            numbers[f"auroc_mutual_information {name}"] = {"value": number(metrics.auroc(*agreement))}
    return numbers

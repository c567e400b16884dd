"""Perform one run, on any engine: a job and the folders of its inputs become files and a record."""

import json
import os
import platform
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from softkin import __version__, calibrators, distances, predictions, similarity, word_vectors
from softkin._core import checks
from softkin._io import cache, files
from softkin.lab import data, models, training
from softkin.lab.data.ood import NOISE
from softkin.lab.study import measure
from softkin.lab.study import methods as registry
from softkin.lab.study.plan import Job
from softkin.lab.study.records import Kept, Record, read
from softkin.lab.study.spec import OLD_KEYS, StudySpec, source_files
from softkin.lab.training.companions import cost
from softkin.lab.training.distances import label_doubts, opened

if TYPE_CHECKING:
    from softkin.calibrators import Calibrator
    from softkin.lab.data import Split

DIGITS = {"max_per_class": 10, "validation": 697, "test": 1000}
"""Few enough training images for a network to become over-confident, and enough test images to measure it"""

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
    start = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    kinds = {"distances": _distances, "training": _training, "result": _result}
    outcome, names = kinds[job.kind](job, out, inputs, device, work)
    record: Record = {
        "kind": job.kind,
        "title": job.title,
        "spec": dict(job.spec),
        "softkin": __version__,
        "versions": versions(),
        "device": str(device or "cpu"),
        "threads": torch.get_num_threads(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "seconds": time.perf_counter() - start,
        **outcome,
    }
    return record, names


def versions() -> dict[str, str]:
    """The versions that the numbers may depend on besides the spec."""
    known = {name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), **known, "platform": platform.platform()}


@contextmanager
def one_thread(threads: int | None) -> Iterator[None]:
    """Compute with this many threads: the last bits of sums depend on it, and small networks gain nothing from more."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# Data


@lru_cache(maxsize=2)
def _split(key: bytes) -> "Split":
    about = {OLD_KEYS.get(name, name): value for name, value in json.loads(key).items()}
    return data.split(about.pop("source"), **about, progress=False)


def split(source: str, about: Mapping[str, Any]) -> "Split":
    """Training, validation and test rows of a seed; cached, as consecutive runs mostly share them."""
    return _split(files.canonical_json({"source": source, **about}))


def resolve(spec: StudySpec) -> Kept:
    """Fill in all fields of a study that depend on the data, and describe the data; cheap checks are made.

    Raises:
        ValueError: A name is unknown, or a network or word vectors do not fit the data.
        SoftkinError: The data, or an out-of-distribution set, cannot be read.
    """
    with one_thread(1):
        return _resolved(spec)


def _resolved(spec: StudySpec) -> Kept:
    if spec.data == "digits" and spec.max_per_class is spec.validation is spec.test is None:
        spec = replace(spec, **DIGITS)  # type: ignore[arg-type]
    about = {key: getattr(spec, key) for key in ("max_per_class", "validation", "test", "size")}
    parts = split(spec.data, {"seed": spec.seeds[0], **about})
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
            if not method.source.uses_samples:  # report words without a vector before hours of training
                options = {"vectors": spec.vectors, "aliases": dict(spec.aliases), **spec.sources}
                _doubt(spec, parts, method.source.name, _measured(method.source, parts, options))
    if spec.vectors != "glove" and (spec.looks_up_words or spec.vectors is not None):
        vectors = word_vectors.file_of(spec.vectors)
        contents["vectors"] = cache.content_digest(vectors, [vectors])
    for option, path in source_files(spec.sources).items():
        contents[f"source {option}"] = cache.content_digest(path, [path])
    rows = {"training": len(parts.train.labels), "validation": len(parts.validation.labels)}
    rows["test"] = len(parts.test.labels)
    about_data = {
        "source": parts.train.source,
        "digest": parts.data_digest,
        "kind": kind,
        "classes": len(parts.train.class_names),
        "rows": ", ".join(f"{count:,} {name}" for name, count in rows.items()) + " rows",
        "contents": contents,
    }
    return Kept(spec, about_data)


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


def _distances(
    job: Job, out: Path, inputs: Inputs, device: str | None, work: Path | None
) -> tuple[dict[str, Any], list[str]]:
    spec, source = job.spec, registry.named(job.spec["distance"]).source
    assert source is not None
    parts = split(spec["data"]["source"], spec.get("split") or job.context["split"])
    vectors = spec.get("vectors") or "glove"  # None: see Plan.distances
    with warnings.catch_warnings():
        if not source.uses_samples:  # ``resolve`` has shown what looks wrong in the names
            warnings.simplefilter("ignore", UserWarning)
        measured = _measured(source, parts, {**spec, "vectors": vectors}, device)
    outcome: dict[str, Any] = {"split_digest": parts.digest if "split" in spec else None}
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
    job: Job, out: Path, inputs: Inputs, device: str | None, work: Path | None
) -> tuple[dict[str, Any], list[str]]:
    spec, seed = job.spec, job.spec["seed"]
    parts = split(spec["data"]["source"], spec["split"])
    names = parts.train.class_names
    build = partial(
        models.build_for,
        spec["model"]["name"],
        len(names),
        parts.train.input_shape,
        options=spec["model"]["options"],
    )
    method = method_of(job, inputs, names)
    trained = training.fit_method(
        build,
        parts.train,
        parts.validation,
        method=method,
        recipe=training.Recipe.from_dict(spec["recipe"]),
        seed=seed,
        folder=work,
        device=device,
        progress=False,
    )
    written = []
    ood = spec["ood"] or {"sets": [], "rows": 0}
    sets: dict[str, Any] = {"validation": parts.validation, "test": parts.test}
    for number, name in enumerate(ood["sets"]):
        sets[f"ood-{number}"] = data.out_of_distribution(name, like=parts.train, rows=ood["rows"], seed=0)
    measured: dict[str, Any] = {}
    for name, rows in sets.items():
        predicted = training.predict(trained, rows, device=device, split_digest=parts.digest)
        predicted.save(out / f"{name}.safetensors", force=True)
        written.append(f"{name}.safetensors")
        if name == "validation":
            measured = measure.on_validation(predicted)
    return {
        "seed": seed,
        "data_digest": spec["data"]["digest"],
        "split_digest": parts.digest,
        "effective_target": trained.effective_target,
        "found": _settled(spec["values"], method, trained.history),
        "training_seconds": trained.seconds,
        "cost": cost(trained),
        "resumed": trained.resumed,
        "metrics": measured,
        "history": trained.history,
        "ood": ood["sets"],
    }, written


def method_of(job: Job, inputs: Inputs, class_names: list[str]) -> training.Method:
    """The method as ``training`` defines it."""
    values, method = job.spec["values"], registry.named(job.spec["method"])
    if method.training is not None:
        return training.Method(method.training.name, **values)
    content = distances.read_file(inputs(job.spec["distances"]) / "distances.safetensors", class_names, class_names)
    if content.kind == "similarity":
        return training.Method.from_similarity(content.values, alpha=values["alpha"], distance=method.title)
    outputs = None
    if "outputs" in job.spec:
        baseline = predictions.load(inputs(job.spec["outputs"]) / "validation.safetensors")
        outputs = baseline.probabilities, baseline.known_labels
    asymmetric = content.about.get("asymmetric") is True
    return training.Method.from_distances(
        content.values, **values, distance=method.title, outputs=outputs, asymmetric=asymmetric
    )


def _settled(values: Mapping[str, Any], method: training.Method, history: list[dict[str, Any]]) -> dict[str, float]:
    """The values at which "auto" settled; for an α that moved, that of the last epoch."""
    ends = {**method.values, **({} if method.auto_alpha is None else {"alpha": history[-1]["alpha"]})}
    # A similarity from a file already includes its β.
    return {name: ends[name] for name, value in values.items() if value == "auto" and name in ends}


def _result(
    job: Job, out: Path, inputs: Inputs, device: str | None, work: Path | None
) -> tuple[dict[str, Any], list[str]]:
    spec, chosen = job.spec, job.context["chosen"]
    source = inputs(chosen)
    record = read(source)
    test = predictions.load(source / "test.safetensors")
    ood = {name: predictions.load(source / f"ood-{i}.safetensors") for i, name in enumerate(record["ood"])}
    written: list[str] = []
    target = record["effective_target"]
    if spec["calibrator"] is not None:
        fitted = _fitted(spec["calibrator"], predictions.load(source / "validation.safetensors"))
        fitted.save(out / "calibrator")
        written += [f"calibrator/{path.name}" for path in sorted((out / "calibrator").iterdir())]
        test = test.calibrated(fitted)
        ood = {name: unknown.calibrated(fitted) for name, unknown in ood.items()}
        sets = {"test": test, **{f"ood-{i}": unknown for i, unknown in enumerate(ood.values())}}
        for name, calibrated in sets.items():
            calibrated.save(out / f"{name}.safetensors", force=True)
            written.append(f"{name}.safetensors")
        target = f"{target}; {fitted!r}"
    return {
        "seed": spec["seed"],
        "method": spec["method"],
        "chosen": chosen,
        "values": job.context["values"],
        "found": record.get("found", {}),
        "tried": job.context["tried"],
        "predictions": chosen if spec["calibrator"] is None else job.digest,
        "data_digest": record["data_digest"],
        "split_digest": record["split_digest"],
        "effective_target": target,
        "cost": record.get("cost"),
        "metrics": measure.on_test(test, ood),
        "ood": record["ood"],
    }, written


def _fitted(name: str, validation: predictions.Predictions) -> "Calibrator":
    with warnings.catch_warnings(record=True):  # warnings of a fit are in its certificate, which is saved
        warnings.simplefilter("always")
        return calibrators.REGISTRY[name]().fit(validation.logits, validation.known_labels)

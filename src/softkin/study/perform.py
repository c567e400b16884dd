"""What a run does. The same for every engine: a job and the folders of what it needs in, files and a record out."""

import math
import os
import platform
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from softkin import __version__, predictions
from softkin.study import measure
from softkin.study.methods import ENTRIES, PAPER
from softkin.study.plan import Job
from softkin.study.records import Kept, Record
from softkin.study.spec import StudySpec, canonical

if TYPE_CHECKING:
    from softkin.data import Split

DIGITS = {"per_class": 10, "validation": 697, "test": 1000}
"""So few training images that a network becomes over-confident, and enough test images to see it"""

CHECKPOINT_EVERY = 5.0  # seconds of a training that a crash may cost

Inputs = Callable[[str], Path]
"""The folder of a run that is done, by its digest"""


def perform(
    job: Job, out: Path, inputs: Inputs, *, device: str | None = None, work: Path | None = None
) -> tuple[Record, list[str]]:
    """Do a run: write its files into ``out``, return what its record says and the names of the files.

    Args:
        job: The run.
        out: Its folder.
        inputs: Where the runs are that it needs.
        device: Where to compute.
        work: A folder for checkpoints, from which an interrupted training goes on.
    """
    start = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    kinds = {"distances": _distances, "training": _training, "result": _result}
    found, files = kinds[job.kind](job, out, inputs, device, work)
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
        **found,
    }
    return record, files


def versions() -> dict[str, str]:
    """What the numbers may depend on besides the spec."""
    from importlib.metadata import version

    known = {name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), **known, "platform": platform.platform()}


# Data


@lru_cache(maxsize=2)
def _split(key: bytes) -> "Split":
    import json

    from softkin import data

    about = json.loads(key)
    return data.split(about.pop("source"), **about, progress=False)


def split(source: str, about: Mapping[str, Any]) -> "Split":
    """Training, validation and test rows of a seed; kept, as consecutive runs mostly share them."""
    return _split(canonical({"source": source, **about}))


def resolve(spec: StudySpec) -> Kept:
    """The study with everything filled in that the data decides, and what the data is; checked as far as is cheap.

    Raises:
        ValueError: A name that is not known, or a network or word vectors that do not fit the data.
        SoftkinError: Data that cannot be read, also out of distribution.
    """
    from softkin import data, distances, models
    from softkin.data.cache import content_digest
    from softkin.data.distribution import NOISE

    if spec.data == "digits" and spec.per_class is spec.validation is spec.test is None:
        spec = replace(spec, **DIGITS)  # type: ignore[arg-type]
    about = {key: getattr(spec, key) for key in ("per_class", "validation", "test", "size")}
    parts = split(spec.data, {"seed": spec.seeds[0], **about})
    kind = parts.train.kind
    if not spec.methods:
        spec = replace(spec, methods=tuple(name for name in PAPER if name != "ae" or kind != "text"))
    if spec.model is None:
        images = "small" if spec.data == "digits" else "wrn"
        spec = replace(spec, model={"images": images, "features": "mlp", "text": "bag_of_words"}[kind])
    assert spec.model is not None
    models.build(
        spec.model,
        num_classes=len(parts.train.class_names),
        input_shape=parts.train.input_shape,
        seed=0,
        **spec.model_options,
    )
    contents: dict[str, str] = {}
    for name in spec.ood:  # which nobody would ask for before the first network is trained
        # A single row says whether the set fits, and its digest follows from that of the whole.
        unknown = data.out_of_distribution(name, like=parts.train, rows=1, seed=0, progress=False)
        if name not in NOISE:
            contents[f"ood {name}"] = unknown.digest
    spec = replace(spec, recipe=recipe_of(spec))
    bases = spec.bases()
    if "ae" in bases and kind == "text":
        raise ValueError(f"method ae needs images or features, and {spec.data} holds text.")
    if "cutmix" in bases and kind != "images":
        raise ValueError(f"method cutmix needs images, and {spec.data} holds {kind}.")
    if "we" in bases:
        distances.from_words(parts.train.synonyms, spec.vectors, aliases=dict(spec.aliases))
    if spec.vectors is not None:
        contents["vectors"] = content_digest(Path(spec.vectors), [spec.vectors])
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


def recipe_of(spec: StudySpec) -> dict[str, Any]:
    """The recipe in full."""
    from softkin.training import Recipe

    given = dict(spec.recipe)
    name = given.pop("name", None)
    return Recipe.named(name or "small", **given).to_dict()


# The three kinds of run


def _distances(
    job: Job, out: Path, inputs: Inputs, device: str | None, work: Path | None
) -> tuple[dict[str, Any], list[str]]:
    from softkin import distances

    spec, name = job.spec, job.spec["distance"]
    source = spec["data"]["source"]
    parts = split(source, spec.get("split") or job.context["split"])
    names = parts.train.class_names
    values, labels = parts.train.values, parts.train.labels
    found: dict[str, Any] = {"split_digest": parts.digest if "split" in spec else None}
    if name == "we":
        d = distances.from_words(parts.train.synonyms, spec["vectors"], aliases=spec["aliases"])
        how = "class names: L2 of word vectors"
    elif name == "ae":
        d, fit = distances.from_autoencoder(
            values,
            labels,
            latent_dim=spec["latent_dim"],
            seed=0,
            class_names=names,
            device=device,
            progress=False,
            return_details=True,
        )
        found["autoencoder"] = {"error": fit.error, "pca_error": fit.pca_error, "words": str(fit)}
        how = "training rows: mean L2 of an autoencoder's codes, all pairs"
    elif name == "l2" and parts.train.kind != "images":
        d = distances.from_features(values, labels, class_names=names, progress=False)
        how = "training rows: mean L2, all pairs"
    else:
        p: Literal[1, 2] = 1 if name == "l1" else 2
        d = distances.from_images(values, labels, p=p, class_names=names, progress=False)
        how = f"training rows: mean L{p}, all pairs"
    distances.save(out / "distances.safetensors", d, class_names=names, source=f"{parts.train.source}: {how}")
    return found, ["distances.safetensors"]


def _training(
    job: Job, out: Path, inputs: Inputs, device: str | None, work: Path | None
) -> tuple[dict[str, Any], list[str]]:
    from softkin import data, models, training

    spec, seed = job.spec, job.spec["seed"]
    parts = split(spec["data"]["source"], spec["split"])
    names = parts.train.class_names
    network = models.build(
        spec["model"]["name"],
        num_classes=len(names),
        input_shape=parts.train.input_shape,
        seed=seed,
        **spec["model"]["options"],
    )
    trained = training.fit(
        network,
        parts.train,
        parts.validation,
        method=method_of(job, inputs, names),
        recipe=training.Recipe.from_dict(spec["recipe"]),
        seed=seed,
        folder=work,
        device=device,
        progress=False,
        checkpoint_every=CHECKPOINT_EVERY,
    )
    files = []
    ood = spec["ood"] or {"sets": [], "rows": 0}
    sets: dict[str, Any] = {"validation": parts.validation, "test": parts.test}
    for number, name in enumerate(ood["sets"]):
        sets[f"ood-{number}"] = data.out_of_distribution(name, like=parts.train, rows=ood["rows"], seed=0)
    measured: dict[str, float] = {}
    for name, rows in sets.items():
        found = training.predict(trained, rows, device=device, split_digest=parts.digest)
        found.save(out / f"{name}.safetensors", force=True)
        files.append(f"{name}.safetensors")
        if name == "validation":
            measured = measure.on_validation(found)
    return {
        "seed": seed,
        "data_digest": spec["data"]["digest"],
        "split_digest": parts.digest,
        "effective_target": trained.effective_target,
        "training_seconds": trained.seconds,
        "resumed": trained.resumed,
        "metrics": measured,
        "history": [{key: _plain(value) for key, value in epoch.items()} for epoch in trained.history],
        "ood": ood["sets"],
    }, files


def _plain(value: Any) -> Any:
    """JSON knows no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def method_of(job: Job, inputs: Inputs, class_names: list[str]) -> Any:
    """The method as training knows it."""
    from softkin import distances, training

    base, values = job.spec["method"], job.spec["values"]
    if ENTRIES[base].kind != "similarity":
        return training.Method(base, **values)
    d = distances.load(inputs(job.spec["distances"]) / "distances.safetensors", class_names=class_names)
    return training.Method.from_distances(d, alpha=values["alpha"], beta=values["beta"], distance=ENTRIES[base].title)


def calibrator_named(name: str) -> Any:
    """A calibrator by its short name, not yet fitted."""
    from softkin import calibrators

    return calibrators.REGISTRY[name]()


def _result(
    job: Job, out: Path, inputs: Inputs, device: str | None, work: Path | None
) -> tuple[dict[str, Any], list[str]]:
    import json

    spec, chosen = job.spec, job.context["chosen"]
    source = inputs(chosen)
    record = json.loads((source / "record.json").read_bytes())
    test = predictions.load(source / "test.safetensors")
    ood = {name: predictions.load(source / f"ood-{i}.safetensors") for i, name in enumerate(record["ood"])}
    files: list[str] = []
    target = record["effective_target"]
    if spec["calibrator"] is not None:
        fitted = _fitted(spec["calibrator"], predictions.load(source / "validation.safetensors"))
        fitted.save(out / "calibrator")
        files += [f"calibrator/{path.name}" for path in sorted((out / "calibrator").iterdir())]
        test = test.calibrated(fitted)
        ood = {name: one.calibrated(fitted) for name, one in ood.items()}
        for name, one in {"test": test, **{f"ood-{i}": one for i, one in enumerate(ood.values())}}.items():
            one.save(out / f"{name}.safetensors", force=True)
            files.append(f"{name}.safetensors")
        target = f"{target}; {fitted!r}"
    return {
        "seed": spec["seed"],
        "method": spec["method"],
        "chosen": chosen,
        "values": job.context["values"],
        "tried": job.context["tried"],
        "predictions": chosen if spec["calibrator"] is None else job.digest,
        "data_digest": record["data_digest"],
        "split_digest": record["split_digest"],
        "effective_target": target,
        "metrics": measure.on_test(test, ood),
        "ood": record["ood"],
    }, files


def _fitted(name: str, validation: predictions.Predictions) -> Any:
    import warnings

    with warnings.catch_warnings(record=True):  # what a fit has to say is in its certificate, which is saved
        warnings.simplefilter("always")
        return calibrator_named(name).fit(validation.logits, validation.known_labels)

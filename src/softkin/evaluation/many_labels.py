"""The evaluation of several labels per sample, each a yes or no of its own, from an .npz file."""

from pathlib import Path
from typing import Any

import torch

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files, roles
from softkin._io.numpy_files import Archive
from softkin.evaluation import groups
from softkin.evaluation.in_memory import described, settings_data
from softkin.evaluation.results import Evaluation
from softkin.metrics import catalogue, measurement
from softkin.metrics.measurement import Settings
from softkin.metrics.scopes import Claims
from softkin.predictions import Reading
from softkin.predictions.score_tables import choose


def read(path: str | Path, reading: Reading) -> tuple[Claims, list[str]]:
    """The claims of an .npz file with ``probs`` or ``logits`` (N, L) and ``labels`` (N, L), and the labels' names."""
    name = str(path)
    if Path(path).suffix.lower() != ".npz":
        raise SoftkinError(f"--multi-label reads .npz files with `probs` or `logits` and `labels`, (N, L), got {name}.")
    with files.open_file(path) as file, files.reading(name, "npz"):
        archive = Archive(file, name)
        keys = archive.keys
        part = reading.label_part(keys, name)
        wide = [
            key for key in keys if key != part and key not in roles.CLASS_NAMES and len(archive.array(key).shape) == 2
        ]
        scores, kind = choose(keys, wide, reading.kind, name)
        if part is None or archive.array(part).shape != archive.array(scores).shape:
            found = "none" if part is None else str(archive.array(part).shape)
            raise SoftkinError(
                f"{name}: `labels` must have the shape of `{scores}`, {archive.array(scores).shape}, got {found}."
            )
        if kind is None:
            raise SoftkinError(
                f"{name} must say whether `{scores}` are logits or probabilities: add --logits or --probs."
            )
        values: Any = checks.as_tensor(archive.array(scores).all(), scores).to(torch.float64)
        labels: Any = checks.as_tensor(archive.array(part).all(), part)
        key = next((key for key in roles.CLASS_NAMES if key in keys), None)
        names = reading.names or (None if key is None else [str(text) for text in archive.text(key)])
    try:
        if not bool(((labels == 0) | (labels == 1)).all()):
            raise ValueError("`labels` must be zeros and ones.")
        p = values.sigmoid() if kind == "logits" else checks.unit_scores(values.reshape(-1)).view(values.shape)
        names = (
            [str(k) for k in range(p.shape[1])] if names is None else checks.class_names(names, num_classes=p.shape[1])
        )
    except (TypeError, ValueError) as error:
        raise SoftkinError(f"{name}: {error}") from error
    return Claims(p, labels.to(torch.float64), exclusive=False), names


def evaluated(claims: Claims, label_names: list[str], name: str, settings: Settings) -> Evaluation:
    """All claims together (micro), class-wise errors as means over labels (macro), and each label as a group."""
    metrics = [*catalogue.shown("evaluate", claims.num_classes), catalogue.METRICS["macro_auroc"]]
    measured = measurement.measure(claims, metrics, settings)
    words = described(claims.pool("prediction"), measured, settings)
    return {
        "name": name,
        "num_samples": claims.num_samples,
        "num_classes": claims.num_classes,
        "kind": "labels",
        "class_names": label_names,
        "digest": None,
        "settings": settings_data(settings, "rows"),
        "verdict": words["verdict"],
        "reliability": words["reliability"],
        "metrics": {key: one.to_dict() for key, one in measured.items()},
        "groups": groups.of_labels(claims, label_names, settings),
    }

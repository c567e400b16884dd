"""The evaluation of several labels per sample, each a yes or no of its own, from an .npz file or a table."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files, roles, tables
from softkin._io.numpy_files import Archive
from softkin._io.roles import ScoreKind
from softkin._io.tables import Table
from softkin.evaluation import groups
from softkin.evaluation.in_memory import described, settings_data
from softkin.evaluation.results import Evaluation
from softkin.metrics import catalogue, measurement
from softkin.metrics.measurement import Settings
from softkin.metrics.scopes import Claims
from softkin.predictions import Reading, truth_columns
from softkin.predictions.inference import shown, unknown_kind
from softkin.predictions.request import choose
from softkin.predictions.truth_columns import Truth


def read(path: str | Path, reading: Reading) -> tuple[Claims, list[str]]:
    """The claims of a file, and the labels' names.

    An .npz has ``probs`` or ``logits`` (N, L) and ``labels`` (N, L), a table a column of scores and one of truth for
    each label, such as ``prob_cat`` and ``true_cat``.
    """
    name = str(path)
    if tables.form_of(path) is not None:
        return _claims(*_of_table(path, reading), name)
    if Path(path).suffix.lower() != ".npz":
        raise SoftkinError(
            f"--multi-label reads .npz files with `probs` or `logits` and `labels`, (N, L), and tables, got {name}."
        )
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
        values: Any = checks.as_tensor(archive.array(scores).all(), scores).to(torch.float64)
        kind = kind or _kind_of(values)
        if kind is None:
            raise unknown_kind(name, f"`{scores}`")
        labels: Any = checks.as_tensor(archive.array(part).all(), part)
        key = next((key for key in roles.CLASS_NAMES if key in keys), None)
        names = reading.names or (None if key is None else [str(text) for text in archive.text(key)])
    return _claims(values, labels, kind, names, name)


def _claims(
    values: Tensor, labels: Tensor, kind: ScoreKind, names: list[str] | None, name: str
) -> tuple[Claims, list[str]]:
    """The claims of (N, L) scores and zeros and ones."""
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


def _of_table(path: str | Path, reading: Reading) -> tuple[Tensor, Tensor, ScoreKind, list[str] | None]:
    """(scores, zeros and ones, kind of scores, names of the labels) of a table."""
    table = tables.open_table(path, what="predictions")
    truth = _truth(table, reading)
    if truth is None or truth.kind == "votes":
        raise SoftkinError(
            f"{path} must have a column of scores and one of zeros and ones for each label, such as `prob_cat` and "
            f"`true_cat`; it has {shown(list(table.columns), 10)}."
        )
    truth = replace(truth, kind="several")
    scores, labels = [], []
    with files.reading(path, "a table"):
        for rows in table.read(tables.BLOCK, truth.scores, truth.truths):
            scores.append(checks.as_tensor(rows.numbers(truth.scores), "scores").to(torch.float64))
            labels.append(truth.read(rows))
    values = torch.cat(scores)
    kind = reading.kind or truth.kind_of_scores or _kind_of(values)
    if kind is None:
        raise unknown_kind(str(path), f"its columns {shown(truth.scores)}")
    return values, torch.cat(labels), kind, reading.names or truth.names


def _truth(table: Table, reading: Reading) -> Truth | None:
    return truth_columns.found(table, [column for column in table.columns if column not in reading.ignore_columns])


def _kind_of(values: Tensor) -> ScoreKind | None:
    """What scores are that each belong to a yes or no of their own."""
    if float(values.min()) >= 0 and float(values.max()) <= 1:
        return "probs"
    return "logits" if float(values.min()) < 0 < float(values.max()) else None


def recognised(path: str | Path, reading: Reading) -> str | None:
    """The sentence about a file whose labels say that samples have several; None if they do not.

    In an .npz file labels are zeros and ones in the shape of the scores, some rows have several ones or none, and no
    row has votes for classes that exclude each other: rows of probabilities do not sum to 1, or scores are logits and
    the number of ones differs between rows, as that of voters would seldom.
    """
    if reading.labels is not None or not Path(path).is_file():
        return None
    name = str(path)
    if tables.form_of(path) is not None:
        return _recognised_in_table(path, reading)
    if Path(path).suffix.lower() != ".npz":
        return None
    with files.open_file(path) as file, files.reading(name, "npz"):
        archive = Archive(file, name)
        part = roles.find(archive.keys, "label") if reading.label_column is None else reading.label_column
        if part is None or part not in archive.keys or len(archive.array(part).shape) != 2:
            return None
        shape = archive.array(part).shape
        same = [key for key in archive.keys if key != part and archive.array(key).shape == shape]
        if len(same) != 1 or shape[1] < 2:
            return None
        labels = checks.as_tensor(archive.array(part).all(), part)
        ones = (labels == 1).sum(dim=1)
        if not bool(((labels == 0) | (labels == 1)).all()) or bool((ones == 1).all()):
            return None
        scores = checks.as_tensor(archive.array(same[0]).all(), same[0])
        _, kind = choose(archive.keys, same, reading.kind, name)
    is_logits = kind == "logits" and len(ones.unique()) > 1
    if not is_logits and (kind != "probs" or checks.rows_are_distributions(scores)):
        return None
    return (
        f"{name}: `{part}` has {int(ones.min())} to {int(ones.max())} ones in a row, so samples are taken to have "
        f"several labels, each a yes or no of its own (--multi-label); "
        + ("votes on classes that exclude each other need `probs`." if is_logits else "rows of scores do not sum to 1.")
    )


def _recognised_in_table(path: str | Path, reading: Reading) -> str | None:
    stated = (reading.label_column, reading.class_columns, reading.score, reading.outcome, reading.positive_class)
    if any(option is not None for option in stated):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", files.Assumption)  # said when the table is read
        table = tables.open_table(path, what="predictions")
    if roles.find(table.columns, "label") is not None:
        return None
    truth = _truth(table, reading)
    if truth is None or truth.kind != "several" or not truth.is_called:
        return None
    return f"{path}: {truth.why} (--multi-label)."


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

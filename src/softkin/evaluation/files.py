"""One file of predictions, however large."""

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin import SoftkinError
from softkin.evaluation import comparison, memory, streams
from softkin.evaluation.settings import Settings
from softkin.metrics import catalogue, scopes
from softkin.predictions import Predictions, formats
from softkin.predictions.formats import Block, PredictionFile, ScoreKind

if TYPE_CHECKING:
    from torch import Tensor

    from softkin.metrics.statistics import Statistic

ROWS = 50_000  # more rows, or more scores, are not kept: resampling them would take longer than reading them
SCORES = 2**24


@dataclass(frozen=True)
class Evaluated:
    """What one file gave."""

    name: str
    data: dict[str, Any]
    """As ``evaluation.evaluate`` returns it"""
    predictions: Predictions | None
    """None where there are too many to keep"""
    notes: dict[str, Any]
    """What softkin wrote into the file beside the numbers"""
    answers: "tuple[Tensor, Tensor]"
    """(N,) winning scores, and whether each was right"""
    statistics: "dict[str, Statistic]" = field(default_factory=dict)
    labels: "Tensor | None" = None
    ids_digest: str | None = None
    """Of the sample ids in their order, where there were too many rows to keep them"""


def evaluate_file(
    path: str | Path,
    *,
    kind: ScoreKind | None = None,
    labels: str | Path | None = None,
    form: str | None = None,
    name: str | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> Evaluated:
    """Read a file and measure it, in one pass and in bounded memory.

    Up to 50,000 rows and 16 million scores are measured as ``evaluate`` does. Larger files are summed up as they are
    read: the values are the same, intervals come from resampling 1,000 groups of rows.

    Args:
        path: The file, or "-"; see ``predictions.formats.open_file`` for it and the next three.
        kind: "logits" or "probs", where no name says it.
        labels: A file of labels.
        form: The file's form.
        name: What to call the model; by default the file's name.
        progress: Show a bar; by default on a terminal.
        settings: Those of ``evaluate``.
    """
    source = formats.open_file(path, kind=kind, labels=labels, form=form)
    return _evaluated(source, path, name, progress, Settings(**settings))


def _evaluated(
    source: PredictionFile, path: str | Path, name: str | None, progress: bool | None, chosen: Settings
) -> Evaluated:
    title = name or (Path(path).name if str(path) != "-" else source.name)
    kept: list[Block] = []
    stream: streams.Stream | None = None
    start = 0
    ids = hashlib.blake2b()
    has_ids = False
    for block in source.blocks(progress=progress):
        if block.labels is None:
            raise SoftkinError(f"{source.name} must have labels, one for each row; name a file of them with --labels.")
        if block.ids is not None:
            has_ids = True
            ids.update("\0".join(map(str, block.ids)).encode())
        rows = start + len(block.values)
        if stream is None and (rows > ROWS or rows * source.num_classes > SCORES):
            stream = streams.Stream(source.num_classes, chosen)
            first = 0
            for one in kept:
                _add(stream, one, source, first)
                first += len(one.values)
            kept.clear()
        if stream is None:
            kept.append(block)
        else:
            _add(stream, block, source, start)
        start = rows
    if stream is not None:
        data, found, truth, answers = stream.finish(title, source.class_names)
        known = ids.hexdigest() if has_ids else None
        compared = {metric.key for metric in catalogue.shown("compare")}
        statistics = {key: one for key, one in found.items() if key in compared and one.no_resampling is None}
        return Evaluated(title, data, None, source.notes, answers, statistics, truth, known)
    predictions = replace(formats.assemble(source, kept), name=title)
    answers = scopes.wins(predictions.probabilities, predictions.known_labels)
    return Evaluated(title, memory.measured(predictions, chosen), predictions, source.notes, answers)


def _add(stream: streams.Stream, block: Block, source: PredictionFile, start: int) -> None:
    try:
        stream.add(block.values, block.labels, source.kind)
    except (TypeError, ValueError) as error:
        end = start + len(block.values)
        raise SoftkinError(f"{source.name}, rows {start:,} to {end - 1:,}, counted from there: {error}") from error


def compare_files(models: list[Evaluated], **settings: Any) -> list[dict[str, Any]]:
    """Paired comparisons of every two files; they must be of the same samples."""
    in_memory = [model.predictions for model in models if model.predictions is not None]
    if len(in_memory) == len(models):
        return comparison.compare(in_memory, **settings)
    first = models[0]
    for other in models[1:]:
        if first.labels is None or other.labels is None or first.data["num_samples"] != other.data["num_samples"]:
            raise SoftkinError(
                f"{first.name} has {first.data['num_samples']:,} samples and {other.name} has "
                f"{other.data['num_samples']:,}; a comparison needs the same ones."
            )
        if first.ids_digest and other.ids_digest and first.ids_digest != other.ids_digest:
            raise SoftkinError(
                f"{first.name} and {other.name} must have the same sample_ids in the same order, which they have not; "
                "files of this size are not reordered: sort both alike."
            )
        comparison.same_samples(first.labels, other.labels, first.name, other.name)
    return comparison.paired(
        [model.statistics for model in models], [model.name for model in models], Settings(**settings)
    )

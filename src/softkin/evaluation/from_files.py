"""The evaluation of a file of predictions, or of a set of files, of any size."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.workers import ENGINES
from softkin.evaluation import comparison, groups, in_memory, many_labels, pixels, results, shards, splitting, streams
from softkin.evaluation.results import Compared, Evaluation
from softkin.metrics import catalogue
from softkin.metrics.measurement import Settings
from softkin.predictions import Predictions, Reading, file_sets, inference
from softkin.predictions.blocks import Block, PredictionFile, assemble
from softkin.predictions.reading import open_as

if TYPE_CHECKING:
    from torch import Tensor

    from softkin.metrics.scopes import Claims
    from softkin.metrics.statistics import Statistic

ROWS = 50_000  # more rows are not kept: resampling them would take longer than reading them
SCORES = 2**24
SHOWN = 10  # classes whose order is said in full


@dataclass(frozen=True)
class Evaluated:
    """The evaluation of one file, or of one set of files."""

    name: str
    data: Evaluation
    """The plain data that ``evaluation.evaluate`` returns"""
    predictions: Predictions | None
    """None if there are too many rows to keep"""
    notes: dict[str, Any]
    """Notes that softkin wrote into the file beside the numbers"""
    answers: "tuple[Tensor, Tensor] | None"
    """(N,) winning scores, and whether each was right; None of pixels, which depend on each other"""
    statistics: "dict[str, Statistic]" = field(default_factory=dict)
    labels: "Tensor | None" = None
    ids_digest: str | None = None
    """A digest of the sample ids in their order, if there were too many rows to keep the ids"""
    claims: "Claims | None" = None
    """(N, L) of several labels per sample"""


def evaluate_file(
    path: str | Path,
    *,
    name: str | None = None,
    progress: bool | None = None,
    jobs: int = 1,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    kde_interval: bool = False,
    multi_label: bool = False,
    ignore_index: int | None = None,
    risk: float = groups.RISK,
    certainty: float = groups.CERTAINTY,
    **options: Any,
) -> Evaluated:
    """Read a file, or several as one set, and measure it, in one pass and in bounded memory.

    Up to 50,000 rows and 16 million scores are measured as ``evaluate`` does. Larger files are summed up as they are
    read: the values are the same, intervals come from resampling 1,000 groups of rows.

    Args:
        path: The file, or "-", as for ``predictions.reading.open_file``. A folder, or a pattern such as
            "shards/*.parquet", stands for all its files, in the order of their names, as one set.
        name: The model's name; by default the file's name.
        progress: Whether to show a bar; by default on a terminal.
        jobs: Worker processes that share the files of a large set. The numbers are the same, to the bit.
        engine: "ray" runs the workers on a Ray cluster, whose nodes must see the files under the same paths.
        address: The cluster's address; by default a cluster that is connected, or a new one on this machine.
        kde_interval: Also compute the interval of the KDE ECE of the output, as for ``evaluate``.
        multi_label: Whether the file, an .npz, holds (N, L) zeros and ones as labels, each a yes or no of its own;
            recognised where the labels leave no doubt.
        ignore_index: The label of pixels to leave out, of an .npz with (N, K, …) scores.
        risk: The error rate that the threshold of each group of rows keeps.
        certainty: The confidence of that guarantee.
        options: Options of ``predictions.Reading`` (``kind``, ``labels``, ``label_column`` …) and of ``evaluate``.
    """
    checks.count(jobs, "jobs")
    checks.option(engine, "engine", ENGINES)
    of_reading = {field.name for field in fields(Reading)}
    reading = Reading(**{key: value for key, value in options.items() if key in of_reading})
    chosen = Settings(slow=kde_interval, **{key: value for key, value in options.items() if key not in of_reading})
    if not multi_label and (why := many_labels.recognised(path, reading)) is not None:
        inference.say([why])
        multi_label = True
    if multi_label:
        if reading.group is not None or reading.weight is not None:
            raise SoftkinError(f"{path}: several labels per sample take neither --group nor --weight.")
        claims, label_names = many_labels.read(path, reading)
        title = name or Path(path).name
        every = claims.pool("prediction")
        data = many_labels.evaluated(claims, label_names, title, chosen)
        answers = every.scores, every.is_hit.reshape(-1) > 0.5
        return Evaluated(title, data, None, {}, answers, claims=claims)
    if pixels.holds(path):
        if reading.group is not None or reading.weight is not None:
            raise SoftkinError(f"{path}: pixels take neither --group nor --weight.")
        title = name or Path(path).name
        data = pixels.evaluated(path, reading, chosen, title, ignore_index)
        return Evaluated(title, data, None, {}, None)
    if ignore_index is not None:
        raise SoftkinError(f"--ignore-index is for pixels, (N, K, …) scores of an .npz file, and {path} holds none.")
    paths = file_sets.expand(path)
    if paths is None:
        files = [open_as(path, reading)]
    elif reading.labels is not None:
        raise file_sets.needs_one_file(path, len(paths))
    else:
        files = file_sets.opened(paths, reading)
    inference.say(file_sets.joined(files, str(path)).assumed)
    if reading.group is None and (there := splitting.own_parts(files)) is not None:
        why = "; all are measured together, and rows that the model learned from flatter it (--group measures each)"
        inference.say([f"{path}: {there}{why}."])
    if chosen.ordered:
        inference.say([_order(files[0])])
    rows = [file.num_rows for file in files]
    if None not in rows:
        kept = streams.readers(files[0].claimed_classes, chosen).values()
        streams.require_room(sum(map(int, rows)), kept)  # type: ignore[arg-type]
    title = name or (Path(path).name if str(path) != "-" else files[0].name)
    shared = paths is not None and len(paths) > 1 and (jobs > 1 or engine == "ray") and not _fits(files)
    if shared:
        assert paths is not None
        first = _first_label(files)
        files = [file_sets.counted_from(file, first) for file in files]
        total = shards.summed(
            files, paths, reading, chosen, jobs=jobs, engine=engine, address=address, progress=progress
        )
        return _of_stream(total, title, files)
    collected = _collected(files, chosen, progress)
    if isinstance(collected, streams.Stream):
        return _of_stream(collected, title, files)
    if len(files) > 1:
        collected = [replace(block, rows=None) for block in collected]  # each file counts its own
    predictions = replace(assemble(files[0], collected), name=title)
    pool = predictions.claims.pool("prediction")
    answers = pool.scores, pool.is_hit[:, 0] > 0.5
    data = in_memory.evaluated(predictions, chosen)
    if predictions.groups is not None:
        column = reading.group or "group"
        names, said = groups.united(predictions.groups, column)
        inference.say([] if said is None else [f"{title}: {said}"])
        predictions = replace(predictions, groups=names)
        data["groups"] = groups.evaluated(predictions, column, chosen, risk=risk, certainty=certainty)
        data["verdict"] = results.by_group(data)
    return Evaluated(title, data, predictions, files[0].notes, answers)


def _order(file: PredictionFile) -> str:
    """The sentence about the order of the classes, which is that of the file."""
    if file.are_pairs:
        raise SoftkinError(f"{file.name} holds pairs of a confidence and an outcome, which have no ordered classes.")
    names = file.class_names or [str(k) for k in range(file.num_classes)]
    try:
        values = [float(name) for name in names]
    except ValueError:
        values = []
    if values not in (sorted(values), sorted(values, reverse=True)):
        raise SoftkinError(
            f"{file.name}: the classes must be in their order for --ordered, but are {', '.join(names[:5])} …; list "
            "them in order with --class-columns."
        )
    shown = names if len(names) <= SHOWN else [*names[:2], "…", *names[-2:]]
    return f"{file.name}: the classes are taken to be ordered as they are given: {' < '.join(shown)}."


def _fits(files: Sequence[PredictionFile]) -> bool:
    """Whether the files are known to fit in memory."""
    rows = [file.num_rows for file in files]
    return None not in rows and not _too_large(sum(map(int, rows)), files[0].num_classes)  # type: ignore[arg-type]


def _is_kept_whole(block: Block) -> bool:
    """Whether rows are kept whatever their number: only classes without weights, votes and groups are streamed."""
    beside = (block.groups, block.weights)
    return any(part is not None for part in beside) or getattr(block.labels, "ndim", 1) == 2


def _too_large(rows: int, num_classes: int) -> bool:
    return rows > ROWS or rows * num_classes > SCORES


def _collected(
    files: Sequence[PredictionFile], chosen: Settings, progress: bool | None
) -> list[Block] | streams.Stream:
    """All blocks; or, if they are too large to hold, their stream, with each run of files summed separately."""
    num_classes = files[0].num_classes
    kept: list[tuple[int, PredictionFile, Block, int]] = []
    streaming, rows = False, 0
    total: streams.Stream | None = None
    current: tuple[int, streams.Stream] | None = None

    def feed(run: int, file: PredictionFile, block: Block, start: int) -> None:
        nonlocal total, current
        if current is None or current[0] != run:
            total = _merged(total, current)
            current = run, streams.Stream(files[0].claimed_classes, chosen, start=fed)
        counted = replace(block, labels=block.labels - first) if first else block
        shards.feed(current[1], file, counted, start)

    fed = first = 0
    for run, places in enumerate(shards.runs_of(len(files))):
        for file in (files[place] for place in places):
            start = 0
            for block in file.blocks(progress=progress):
                if block.labels is None:
                    raise shards.no_labels(file)
                kept.append((run, file, block, start))
                rows, start = rows + len(block.values), start + len(block.values)
                if not streaming and _too_large(rows, num_classes) and not _is_kept_whole(block):
                    streaming, first = True, _first_label(files)
                while streaming and kept:
                    feed(*kept[0])
                    fed += len(kept.pop(0)[2].values)
    return [block for _, _, block, _ in kept] if not streaming else _merged(total, current)


def _first_label(files: Sequence[PredictionFile]) -> int:
    """``sets.first_label``, said where it is 1."""
    first = file_sets.first_label(files)
    if first:
        name, high = files[0].name, files[0].num_classes
        inference.say([f"{name}: labels are counted from 1, since they go from 1 to {high}."], stacklevel=5)
    return first


def _merged(total: streams.Stream | None, current: tuple[int, streams.Stream] | None) -> Any:
    if current is None:
        return total
    if total is None:
        return current[1]
    total.merge(current[1])
    return total


def _of_stream(stream: streams.Stream, title: str, files: Sequence[PredictionFile]) -> Evaluated:
    known = None if stream.ids is None else f"{stream.ids:016x}"
    data, made, truth, answers = stream.finish(title, files[0].class_names, files[0].notes.get("calibrated_by"))
    compared = {metric.key for metric in catalogue.shown("compare", ordered=True)}
    statistics = {
        key: statistic for key, statistic in made.items() if key in compared and statistic.no_resampling is None
    }
    return Evaluated(title, data, None, files[0].notes, answers, statistics, truth, known)


def after_temperature(models: list[Evaluated], **settings: Any) -> comparison.Scaled | None:
    """Every file's model with its temperature, and the differences in NLL; None for files too large to keep."""
    in_memory = [model.predictions for model in models if model.predictions is not None]
    return comparison.after_temperature(in_memory, **settings) if 1 < len(in_memory) == len(models) else None


def compare_files(models: list[Evaluated], **settings: Any) -> list[Compared]:
    """Paired comparisons of every two files; they must be of the same samples."""
    if any(model.claims is not None for model in models):
        raise SoftkinError("models of several labels per sample are not compared; evaluate one file at a time.")
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
                f"{first.name} and {other.name} must have the same sample_ids in the same order, but they differ; "
                "files of this size are not reordered: sort both alike."
            )
        comparison.same_samples(first.labels, other.labels, first.name, other.name)
    return comparison.paired(
        [model.statistics for model in models], [model.name for model in models], Settings(**settings)
    )

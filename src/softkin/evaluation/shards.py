"""Several files of predictions as one set, read by this process, by several processes, or on a Ray cluster.

The files are taken in contiguous runs, at most 32, whatever the number of processes. Each run is one ``Stream``; the
streams are merged in the order of the files. So the results are the same to the bit, whichever process reads a file.
"""

import json
import os
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from softkin import SoftkinError
from softkin._core import workers
from softkin._core.progress import track
from softkin.evaluation.streams import Stream
from softkin.metrics import catalogue
from softkin.metrics.measurement import Settings
from softkin.predictions import Reading, file_sets
from softkin.predictions.blocks import Block, PredictionFile
from softkin.predictions.reading import open_as

RUNS = 32  # contiguous parts of a set, which must not depend on the number of processes
RETRIES = 3  # of a run after its node or process died


def runs_of(count: int) -> list[range]:
    """The indices of so many files in at most 32 contiguous runs of nearly equal size."""
    runs = min(RUNS, count)
    return [range(count * run // runs, count * (run + 1) // runs) for run in range(runs)]


@dataclass(frozen=True)
class Task:
    """A run of files for another process to read."""

    paths: list[str]
    reading: dict[str, Any]
    """The fields of a ``Reading``"""
    num_classes: int
    kind: str | None
    class_names: list[str] | None
    first_label: int
    """What the first file of the set has"""
    start: int
    """The number of rows before these files; −1 to only count rows"""
    settings: dict[str, Any]
    metrics: list[str]
    """Keys of the metrics; every process must know the same ones"""
    are_pairs: bool = False

    def perform(self) -> bytes:
        """The stream of the files as bytes, or the number of rows of each file as JSON."""
        unknown = set(self.metrics) - set(catalogue.METRICS)
        if unknown:
            raise ValueError(
                f"the metric {sorted(unknown)[0]!r} is declared in the calling process only, and other processes do "
                "not know it; evaluate with jobs=1."
            )
        claimed = 1 if self.are_pairs else self.num_classes
        stream = Stream(claimed, Settings(**self.settings), start=max(0, self.start))
        counts = []
        for path in self.paths:
            file = file_sets.alike(
                open_as(path, Reading(**self.reading)), self.kind, self.class_names, self.num_classes, "the first file"
            )
            file = file_sets.counted_from(file, self.first_label)
            rows = 0
            for block in file.blocks(progress=False):
                if self.start >= 0:
                    feed(stream, file, block, rows)
                rows += len(block.values)
            counts.append(rows)
        return stream.to_bytes() if self.start >= 0 else json.dumps(counts).encode()


def no_labels(file: PredictionFile) -> SoftkinError:
    """The refusal of a file without labels."""
    return SoftkinError(
        f"{file.name} must have labels, one for each row; name their column with --label-column, or a file of them "
        "with --labels."
    )


def feed(stream: Stream, file: PredictionFile, block: Block, start: int) -> None:
    """Add a block, which begins at row ``start`` of its file, to a stream."""
    if block.labels is None:
        raise no_labels(file)
    try:
        stream.add(block.values, block.labels, file.kind or "logits", block.ids)
    except (TypeError, ValueError) as error:
        end = start + len(block.values)
        raise SoftkinError(
            f"{file.name}, rows {start:,} to {end - 1:,}, counted from the first of them: {error}"
        ) from error


def summed(
    files: Sequence[PredictionFile],
    paths: Sequence[Path],
    reading: Reading,
    settings: Settings,
    *,
    jobs: int,
    engine: str,
    address: str | None,
    progress: bool | None,
) -> Stream:
    """The stream of all files, read by ``jobs`` processes or by the nodes of a cluster."""
    first = files[0]
    keys = [metric.key for metric in catalogue.shown("evaluate", first.claimed_classes, ordered=settings.ordered)]
    counts = [file.num_rows for file in files]

    def task(run: range, start: int) -> Task:
        own_paths = [str(Path(paths[place]).resolve()) for place in run]
        return Task(
            own_paths, asdict(reading), first.num_classes, first.kind, first.class_names, first.first_label, start,
            asdict(settings), keys, first.are_pairs,
        )  # fmt: skip

    runs = runs_of(len(files))
    with _performer(engine, jobs, address) as perform:
        unknown = [run for run in runs if any(counts[place] is None for place in run)]
        for run, content in zip(unknown, perform([task(run, -1) for run in unknown]), strict=True):
            for place, rows in zip(run, json.loads(content), strict=True):
                counts[place] = rows
        starts = [sum(counts[: run.start]) for run in runs]  # type: ignore[arg-type]
        total: Stream | None = None
        results = perform([task(run, start) for run, start in zip(runs, starts, strict=True)])
        for content in track(results, f"reading {len(files)} files", total=len(runs), show=progress):
            part = Stream.from_bytes(content, first.claimed_classes, settings)
            if total is None:
                total = part
            else:
                total.merge(part)
    assert total is not None
    return total


# Two ways to perform tasks. Both return results in the order of the tasks, and hold few of them at a time.


def _performer(engine: str, jobs: int, address: str | None) -> "_Processes | _Cluster":
    return _Cluster(address) if engine == "ray" else _Processes(jobs)


class _Processes:
    """Worker processes on this machine, each with one task at a time; they import nothing from the current folder."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.own = threading.local()
        self.started: list[_Process] = []

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.started:
            process.close(at_once=True)

    def __call__(self, tasks: Sequence[Task]) -> Iterator[bytes]:
        """The results of tasks, in their order."""
        with ThreadPoolExecutor(self.jobs) as pool:
            waiting: deque[Future[bytes]] = deque()
            left = iter(tasks)
            try:
                while True:
                    while len(waiting) < 2 * self.jobs and (task := next(left, None)) is not None:
                        waiting.append(pool.submit(self._perform, task))
                    if not waiting:
                        return
                    yield waiting.popleft().result()
            except BaseException:
                for future in waiting:
                    future.cancel()
                self.__exit__()  # so that no thread waits for its process
                raise

    def _perform(self, task: Task) -> bytes:
        if not hasattr(self.own, "process"):
            self.own.process = _Process(self.jobs)
            self.started.append(self.own.process)
        process: _Process = self.own.process
        return process.perform(task)


class _Process(workers.Worker):
    """``softkin.evaluation``: one task per line on its standard input, results on its output."""

    def __init__(self, jobs: int) -> None:
        super().__init__("softkin.evaluation", threads=max(1, (os.cpu_count() or 1) // jobs), talks=True)

    def perform(self, task: Task) -> bytes:
        """The result of a task, or the error that it met."""
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline() or b"null")
            content = None if answer is None else process.stdout.read(answer["bytes"])
        except (OSError, ValueError):
            answer = content = None
        if answer is None or content is None or len(content) < answer["bytes"]:
            code = process.wait()
            reason = f"signal {-code}" if code < 0 else self.words() or f"exit code {code}"
            raise SoftkinError(
                f"a process that read {task.paths[0]} ended before it was done ({reason}); did it run out of memory? "
                "Fewer --jobs need less."
            )
        for text in answer["warnings"]:
            warnings.warn(text, stacklevel=2)
        if "error" in answer:
            raise SoftkinError(answer["error"])
        return content


class _Cluster:
    """The nodes of a Ray cluster, which must see the files under the same paths.

    A task whose node dies, or whose result was lost with a node, is repeated on another node.
    """

    def __init__(self, address: str | None) -> None:
        self.connection = workers.connected(address)

    def __enter__(self) -> "_Cluster":
        self.ray = self.connection.__enter__()
        self.task = self.ray.remote(_on_node).options(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")
        return self

    def __exit__(self, *error: Any) -> None:
        self.connection.__exit__(*error)

    def __call__(self, tasks: Sequence[Task]) -> Iterator[bytes]:
        """The results of tasks, in their order."""
        most = 2 * max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        left, waiting = iter(tasks), deque[Any]()
        while True:
            while len(waiting) < most and (task := next(left, None)) is not None:
                waiting.append(self.task.remote(asdict(task)))
            if not waiting:
                return
            try:
                content: bytes = self.ray.get(waiting.popleft())
            except self.ray.exceptions.RayTaskError as error:
                raise SoftkinError(str(error.cause if isinstance(error.cause, Exception) else error)) from None
            except self.ray.exceptions.RayError as error:
                raise SoftkinError(f"Ray gave up: {str(error).splitlines()[0]}") from error
            yield content


def _on_node(task: dict[str, Any]) -> bytes:
    return Task(**task).perform()


def main() -> None:
    """Perform tasks until the standard input ends."""
    output, sys.stdout = sys.stdout.buffer, sys.stderr  # keeps other output from mixing with the results
    for line in sys.stdin:
        answer: dict[str, Any] = {}
        content = b""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                content = Task(**json.loads(line)).perform()
            except (SoftkinError, ValueError, TypeError, MemoryError) as error:
                answer["error"] = str(error) or type(error).__name__
        answer |= {"bytes": len(content), "warnings": [str(warning.message) for warning in said]}
        output.write(json.dumps(answer).encode() + b"\n" + content)
        output.flush()

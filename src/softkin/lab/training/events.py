"""What a training tells while it runs: one entry per epoch, and events for a progress line, a log, or the caller."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NotRequired, TypedDict

from softkin import SoftkinError
from softkin._core.progress import Update, bar
from softkin._io import files


class Epoch(TypedDict):
    """An entry of a training's history."""

    epoch: int
    loss: float
    learning_rate: float
    images_per_second: float
    seconds: NotRequired[float]
    alpha: NotRequired[float]
    """If it moves"""
    similar: NotRequired[list[list[Any]]]
    """The most similar pairs of classes, if labels are learned"""
    validation_accuracy: NotRequired[float]
    validation_ece: NotRequired[float]
    validation_gap: NotRequired[float]
    validation_nll: NotRequired[float]
    validation_refined_nll: NotRequired[float]


Listener = Callable[[dict[str, Any]], None]

PAUSE = 0.1  # seconds between two updates of the line


class Live:
    """Sends events to listeners: ``{"event": "start" | "step" | "epoch" | "checkpoint" | "end", …}``."""

    def __init__(self, listeners: list[Listener]) -> None:
        self.listeners = listeners

    def tell(self, event: str, **fields: Any) -> None:
        """Send an event to all listeners."""
        for listener in self.listeners:
            listener({"event": event, **fields})


@contextlib.contextmanager
def live(
    progress: bool | Listener | None, log_json: str | Path | None, *, description: str, main: bool
) -> Iterator[Live]:
    """The listeners of a run: only the first process has any."""
    with contextlib.ExitStack() as stack:
        listeners: list[Listener] = []
        if main and log_json is not None:
            listeners.append(_JsonLines(stack.enter_context(_opened(Path(log_json)))))
        if callable(progress):
            if main:
                listeners.append(progress)
        elif main:
            update = stack.enter_context(bar(description, show=progress, counts=False))
            listeners += [] if update is None else [_Line(update)]
        yield Live(listeners)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = files.replaceable(path).open("a", encoding="utf-8")
    except OSError as error:
        raise SoftkinError(f"{path} could not be written: {error.strerror or error}.") from error
    with file:
        yield file


class _JsonLines:
    """One event per line, flushed at once but not fsynced, so that others can follow the file."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file

    def __call__(self, event: dict[str, Any]) -> None:
        line = {"time": round(time.time(), 3), **event}
        self.file.write(json.dumps(files.plain(line), ensure_ascii=False, allow_nan=False) + "\n")
        self.file.flush()


class _Line:
    """A progress line: epoch, images per second, loss, validation accuracy and ECE, time left."""

    def __init__(self, update: Update) -> None:
        self.update = update
        self.validation, self.shown = "", 0.0

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "start":
            self.update(total=event["steps"], completed=event["step"])
        if event["event"] == "epoch" and event.get("validation_accuracy") is not None:
            self.validation = (
                f"  validation {100 * event['validation_accuracy']:.2f} %, ECE {100 * event['validation_ece']:.2f} %"
            )
        if event["event"] in ("step", "epoch"):
            now = time.monotonic()
            if event["event"] == "step" and now - self.shown < PAUSE:
                return
            self.shown = now
            numbers = (
                f"epoch {event['epoch']}/{event['epochs']}  {event['images_per_second']:,.0f} images/s  "
                f"loss {event['loss']:.4f}{self.validation}"
            )
            self.update(completed=event["step"], numbers=numbers)

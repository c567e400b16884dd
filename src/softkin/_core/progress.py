"""A progress bar for long work: shown on stderr, only on a terminal, and removed when the work is done."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 1.0  # seconds before a bar appears: short work stays quiet


def track(items: Iterable[T], description: str, *, total: int | None = None, show: bool | None = None) -> Iterator[T]:
    """Iterate over ``items`` with a bar if ``show`` is True (None: if stderr is a terminal)."""
    if not (sys.stderr.isatty() if show is None else show):
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    started = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total, visible=False)
        for item in items:
            yield item
            bar.update(task, advance=1, visible=time.monotonic() - started > PATIENCE)

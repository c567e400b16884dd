"""A progress bar for long work: shown on stderr, only on a terminal, and removed when the work is done."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
Update = Callable[..., None]
"""Called with ``completed``, ``total``, ``description`` or ``numbers``, whatever has changed"""

PATIENCE = 1.0  # seconds before a bar appears: short work stays quiet


@contextmanager
def bar(
    description: str, *, show: bool | None = None, counts: bool = True, patience: float = 0
) -> Iterator[Update | None]:
    """A bar with the time left; yields the function that updates it, or None where none is shown.

    Args:
        description: What is being done.
        show: Whether to show it; None: if stderr is a terminal.
        counts: Whether "3/10" stands beside the bar, rather than the text ``numbers``.
        patience: Seconds before it appears.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    beside = MofNCompleteColumn() if counts else TextColumn("{task.fields[numbers]}")
    left = TimeRemainingColumn(elapsed_when_finished=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), beside, left)
    started = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=60) as lines:
        task = lines.add_task(description, total=None, visible=patience == 0, numbers="")

        def update(**changes: Any) -> None:
            lines.update(task, visible=time.monotonic() - started >= patience, **changes)

        yield update


def track(items: Iterable[T], description: str, *, total: int | None = None, show: bool | None = None) -> Iterator[T]:
    """Iterate over ``items`` with a bar if ``show`` is True (None: if stderr is a terminal)."""
    with bar(description, show=show, patience=PATIENCE) as update:
        for done, item in enumerate(items, start=1):
            yield item
            if update is not None:
                update(completed=done, total=total)

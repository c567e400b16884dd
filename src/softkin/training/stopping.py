"""Signals that ask a run to end: remembered until the step is done, so that a checkpoint can be written."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Which signal has asked for an end, if any."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.signal == number == signal.SIGINT:  # a second Ctrl-C does not wait
            raise KeyboardInterrupt
        self.signal = number

    def deliver(self, number: int) -> None:
        """Let the signal do what it would have done without us."""
        for one, handler in self._before.items():
            signal.signal(one, handler)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        os.kill(os.getpid(), number)


@contextlib.contextmanager
def watched(active: bool) -> Iterator[Stop]:
    """Watch for the signals in the main thread, the only one that gets them."""
    stop = Stop()
    if not active or threading.current_thread() is not threading.main_thread():
        yield stop
        return
    try:
        for number in SIGNALS:
            stop._before[number] = signal.signal(number, stop._remember)
        yield stop
    finally:
        for one, handler in stop._before.items():
            signal.signal(one, handler)

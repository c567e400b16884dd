"""Signals that end a training: remembered until a checkpoint is written, then delivered as they would have been."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """The signal that has asked the run to end, if any."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.signal == number == signal.SIGINT:  # a second Ctrl-C does not wait
            raise KeyboardInterrupt
        self.signal = number

    def deliver(self, number: int) -> None:
        """Handle the signal as it would have been handled without us."""
        self.restore()
        self.signal = 0
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        os.kill(os.getpid(), number)

    def restore(self) -> None:
        """Put back the handlers that were there before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


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
        stop.restore()
        if stop.signal:  # it arrived after the last check
            stop.deliver(stop.signal)

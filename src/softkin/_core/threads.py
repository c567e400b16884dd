"""How many threads torch uses inside a block: small work runs on one, whatever the setting outside is.

Many small operations with a barrier after each cost more on two threads than on one, and forty times as much processor
time where another process keeps one of the cores busy. The setting is put back when the last block ends.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL = 2**21
"""Numbers up to which work counts as small: one thread is as fast"""

_lock = threading.Lock()
_asked: list[int] = []
_before = [1]


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Use at most ``count`` threads inside the block; of several open blocks, in any thread, the least counts."""
    with _lock:
        if not _asked:
            _before[0] = torch.get_num_threads()
        _asked.append(count)
        _set()
    try:
        yield
    finally:
        with _lock:
            _asked.remove(count)
            _set()


def _set() -> None:
    wanted = min(_before[0], *_asked) if _asked else _before[0]
    if torch.get_num_threads() != wanted:
        torch.set_num_threads(wanted)


@contextmanager
def halved() -> Iterator[None]:
    """Use half of the threads, for two that divide the work."""
    with _lock:
        usual = _before[0] if _asked else torch.get_num_threads()
    with at_most(max(1, usual // 2)):
        yield


@contextmanager
def for_work(numbers: int) -> Iterator[None]:
    """Use one thread for work on few numbers, else the setting outside."""
    if numbers > SMALL:
        yield
        return
    with at_most(1):
        yield

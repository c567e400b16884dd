"""How many threads torch uses inside a block: small work runs on one, whatever the setting outside is.

Many small operations with a barrier after each cost more on two threads than on one, and forty times as much processor
time where another process keeps one of the cores busy. torch's setting belongs to the thread that asks; threads that
begin inside a block inherit that of the block. Each block puts back what it found.
"""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

SMALL = 2**21
"""Numbers up to which work counts as small: one thread is as fast"""

_lock, _halving = threading.Lock(), [0]  # the number of open blocks of ``halved``


@contextmanager
def exactly(count: int | None) -> Iterator[None]:
    """Use ``count`` threads inside the block; None leaves the setting."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Use at most ``count`` threads inside the block."""
    with exactly(min(count, torch.get_num_threads())):
        yield


@contextmanager
def halved() -> Iterator[None]:
    """Use half of the threads, for two that divide the work; blocks inside a block do not halve again."""
    with _lock:
        usual = torch.get_num_threads()
        count = usual if _halving[0] else max(1, usual // 2)
        _halving[0] += 1
    try:
        with at_most(count):
            yield
    finally:
        with _lock:
            _halving[0] -= 1


@contextmanager
def for_work(numbers: int) -> Iterator[None]:
    """Use one thread for work on few numbers, else the setting outside."""
    if numbers > SMALL:
        yield
        return
    with at_most(1):
        yield


def numbers_in(values: Any) -> int:
    """How many numbers an array holds; a list counts as few."""
    shape = getattr(values, "shape", ())
    return math.prod(shape) if isinstance(shape, tuple) else 0

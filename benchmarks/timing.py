"""The clock of all benchmarks: contestants take turns, so that a busy moment of the machine hits all of them."""

import statistics
import time
from collections.abc import Callable


def medians(calls: dict[str, Callable[[], object]], repeats: int, *, warm_up: int = 1) -> dict[str, float]:
    """Median seconds of each call, taken in turn."""
    for _ in range(warm_up):
        for call in calls.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}

"""How often the test of ``softkin monitor`` raises a false alarm, how soon it finds a gap, and what it costs.

``python benchmarks/monitor.py`` prints the lines of benchmarks/evaluate.md, section "Monitor". Claims are drawn from
Beta(4, 1), clipped to 0.06 … 0.999; outcomes come true with the probability claimed, minus the gap after the change.
"""

import time

import numpy as np

from softkin.evaluation.monitoring import Monitor

STREAMS = 1000
LATE = 5000  # calibrated rows before a change


def stream(
    rows: int, generator: np.random.Generator, gap: float = 0.0, change: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Claims and outcomes."""
    claims = generator.beta(4, 1, rows).clip(0.06, 0.999)
    return claims, generator.random(rows) < claims - gap * (np.arange(rows) >= change)


def main() -> None:
    """Print all lines."""
    generator = np.random.default_rng(0)
    for rows in (1000, 5000):
        alarms = sum(Monitor().update(*stream(rows, generator)).alarm is not None for _ in range(STREAMS))
        print(f"false alarms within {rows:,} rows, 5 % nominal: {100 * alarms / STREAMS:.1f} % of {STREAMS:,} streams")
    for gap in (0.03, 0.05, 0.1):
        for change in (0, LATE):
            found = []
            for _ in range(100):
                alarm = Monitor().update(*stream(change + 10_000, generator, gap, change)).alarm
                if alarm is None or alarm.row > change:
                    found.append(np.inf if alarm is None else alarm.row - change)
            words = "from the first row" if change == 0 else f"after {change:,} calibrated rows"
            median, most = np.quantile(found, [0.5, 0.9], method="higher")
            print(f"gap of {100 * gap:g} points {words}: found after {median:,.0f} rows (median), {most:,.0f} (90 %)")
    claims, outcomes = stream(100_000, generator)
    monitor, start = Monitor(), time.perf_counter()
    for claim, outcome in zip(claims, outcomes, strict=True):
        monitor.update(claim, outcome)
    print(f"100,000 rows, one update each: {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    Monitor().update(claims, outcomes)
    print(f"100,000 rows in one update: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()

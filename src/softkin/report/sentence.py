"""What the numbers say, in words that need no training."""

from typing import Any

from softkin.metrics import Interval
from softkin.report.curves import CELLS

ENOUGH = 30  # answers in a window: fewer do not carry a sentence


def verdict(gap: Interval, ece: Interval, cells: dict[str, Any]) -> dict[str, Any]:
    """The headline and a sentence below it.

    Args:
        gap: Mean confidence minus accuracy (``signed_gap``), with its interval.
        ece: The histogram ECE of the prediction, with its interval.
        cells: The prediction's sums.
    """
    n, hits, scores = sum(cells["count"]), sum(cells["hit_sum"]), sum(cells["score_sum"])
    sure, right = scores / n, hits / n
    if gap.low > 0 or gap.high < 0:
        kind = "over" if gap > 0 else "under"
        headline = f"{kind.capitalize()}-confident by {points(abs(gap))}"
    elif ece.low > 0:
        kind, headline = "mixed", f"Right on average, but off by {points(ece)} from one answer to the next"
    else:
        kind, headline = "calibrated", "No sign that the confidences are wrong"
    detail = f"On average {percent(sure)} sure and {percent(right)} right"
    near = window(cells)
    if near is not None:
        at, share, _ = near
        detail += f": of the answers given at about {at} %, {percent(share, 0)} are right"
    return {"kind": kind, "headline": headline, "detail": f"{detail}.", "at": None if near is None else near[0]}


def window(cells: dict[str, Any]) -> tuple[int, float, int] | None:
    """(confidence in %, share right, answers) around 90 %, or the nearest step of 10 that has enough answers.

    The window reaches 5 points to either side: from 85 to 95 % are just the cells 256 to 285 of 300.
    """
    for at in (90, 80, 70, 60, 50, 40, 30, 20):
        cut = slice((at - 5) * CELLS // 100, (at + 5) * CELLS // 100)
        count = sum(cells["count"][cut])
        if count >= ENOUGH:
            return at, sum(cells["hit_sum"][cut]) / count, count
    return None


def points(share: float) -> str:
    """A difference of shares in percentage points."""
    shown = f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.1f}"
    return f"{shown} point{'' if shown in ('1', '1.0') else 's'}"


def percent(share: float, digits: int = 1) -> str:
    """A share in percent."""
    return f"{100 * share:.{digits}f} %"

"""What a finished table says to do, in words: by its own marks, so that nothing that may be chance is called better."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from softkin import auto_alpha
from softkin.study import methods as registry

if TYPE_CHECKING:
    from softkin.study.tables import Cell, Row

DECIDES = "ece_hist"  # how far confidence is from accuracy, which is what the methods are for
MUCH = 2  # times the smallest error: who is level with it only for lack of seeds is not recommended
MOST_NAMED = 6  # methods that a sentence lists


def recommend(rows: "Sequence[Row]") -> tuple[str, ...]:
    """Sentences: what one-hot training shows, what to use, what that costs, and what is chance.

    Of the methods that are not significantly worse than the best in Hist P, those stay that are level in NLL too, then
    those level in accuracy; of these the simplest is taken: one-hot as it is, then with a calibrator behind it, then a
    training of another kind.

    Args:
        rows: Of methods that have all their results.
    """
    judged = [row for row in rows if row.cells[DECIDES].best or row.cells[DECIDES].tie]
    if len(rows) < 2 or not judged:
        return ()
    plain = next((row for row in rows if row.method == registry.ONE_HOT), None)
    level = judged
    for metric in ("nll", "accuracy"):
        also = [row for row in level if row.cells[metric].best or row.cells[metric].tie]
        level = also or [min(level, key=lambda row: _loss(row, metric))]
    chosen = min(level, key=lambda row: (_effort(row.method), row.cells["nll"].mean))
    best = min(judged, key=lambda row: row.cells[DECIDES].mean)
    sentences = [] if plain is None else [f"One-hot training is {_baseline(plain.cells['signed_gap'])}."]
    if chosen.cells[DECIDES].n == 1 or chosen.cells[DECIDES].mean > MUCH * best.cells[DECIDES].mean:
        return (*sentences, _too_few(best, max(judged, key=lambda row: row.cells[DECIDES].mean)))
    sentences.append(_use(chosen, plain))
    others = [row.title for row in judged if row is not chosen]
    if others:
        named = ", ".join(others[:MOST_NAMED]) + (f" and {len(others) - MOST_NAMED} more" * (len(others) > MOST_NAMED))
        verb = "is" if len(others) == 1 else "are"
        sentences.append(f"{named} {verb} not told apart from the best in Hist P: that difference is within chance.")
    return (*sentences, *_trained(rows, chosen))


def _effort(method: str) -> int:
    """0 for one-hot as it is, 1 with a calibrator, 2 for another training, 3 for that with a calibrator."""
    base, calibrator = registry.parts(method)
    return 2 * (base != registry.ONE_HOT) + (calibrator is not None)


def _loss(row: "Row", metric: str) -> float:
    return -row.cells[metric].mean if metric == "accuracy" else row.cells[metric].mean


def _baseline(gap: "Cell") -> str:
    deviation = gap.std / math.sqrt(gap.n) if gap.std is not None else auto_alpha.ONE_SEED
    return auto_alpha.what_a_gap_implies(gap.mean, deviation)


def _use(chosen: "Row", plain: "Row | None") -> str:
    cells = chosen.cells
    numbers = (
        f"Hist P {_percent(cells[DECIDES])}, accuracy {_percent(cells['accuracy'])}, NLL {_nats(cells['nll'].mean)}"
    )
    if plain is None:
        return f"Use {chosen.title}: {numbers}."
    if chosen is plain:
        return f"Use one-hot training as it is ({numbers}): no method is calibrated better beyond chance."
    return f"Use {chosen.title}: {numbers}; {_against(chosen, plain)}."


def _too_few(best: "Row", level: "Row") -> str:
    n = best.cells[DECIDES].n
    return (
        f"{n} seed{'s' if n > 1 else ''} cannot tell the methods apart: {best.title} has the smallest Hist P, "
        f"{_percent(best.cells[DECIDES])}, but even {level.title} with {_percent(level.cells[DECIDES])} may be level "
        "by chance. Train more seeds before you choose."
    )


def _against(row: "Row", other: "Row") -> str:
    points = 100 * (row.cells["accuracy"].mean - other.cells["accuracy"].mean)
    nats = row.cells["nll"].mean - other.cells["nll"].mean
    name = "one-hot" if other.method == registry.ONE_HOT else other.title
    return f"against {name} {_percent(other.cells[DECIDES])}, {points:+.1f} points and {nats:+.3f} nats"


def _trained(rows: "Sequence[Row]", chosen: "Row") -> list[str]:
    """The best of the methods that need no calibrator, where it is not what is recommended, and its price."""
    smooth = [row for row in rows if _effort(row.method) == 2]
    if not smooth or _effort(chosen.method) >= 2:
        return []
    best = min(smooth, key=lambda row: row.cells[DECIDES].mean)
    return [
        f"Where no calibrator can follow the network, take {best.title}: Hist P {_percent(best.cells[DECIDES])}, "
        f"{_against(best, chosen)}."
    ]


def _percent(cell: "Cell") -> str:
    return f"{100 * cell.mean:.1f} %"


def _nats(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.3f}"

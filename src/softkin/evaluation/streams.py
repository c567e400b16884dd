"""Evaluation of a model with too many predictions for memory: a few numbers per row, and sums over groups of rows.

Each row keeps its winning score, whether that was right, its label, and its term of each average (log loss, square
loss …). All N·K scores are only summed, by bin and class. Values are exact. For intervals the rows are dealt at random
to up to 1,000 groups, and groups are resampled instead of rows: with so many rows the sums of groups vary as those of
rows do (to about 2 % of an interval's width), and the work no longer grows with the number of rows.

A ``Stream`` is started, fed with blocks of rows, merged with the streams of later rows, and read. The group of a row
depends only on the row's position among all rows, so the result does not depend on which process fed it.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks
from softkin._io import files
from softkin.evaluation import doubts, positive
from softkin.evaluation.in_memory import described, settings_data
from softkin.evaluation.results import Evaluation
from softkin.metrics import catalogue, density, measurement, scopes
from softkin.metrics.binned import Binned
from softkin.metrics.measurement import Meaningless, Settings
from softkin.metrics.scopes import Claims, NoMeaning, Pool, multiplicities
from softkin.metrics.statistics import (
    NEEDS_ALL,
    Averaged,
    CalibrationError,
    Dealt,
    Kept,
    Mean,
    Share,
    Statistic,
    Streamed,
)
from softkin.metrics.streaming import Running

GROUPS = 1000
CELLS = 2**22  # groups × classes × bins that are kept, at most
KDE_CELLS = 2**19
NO_GROUPS = "with so many rows only the sums for its value are kept, not those for resampling"


class GroupedMean(Statistic):
    """An average of all rows, resampled by groups of them."""

    def __init__(self, whole: Statistic, groups: Statistic) -> None:
        """``groups`` has a row for each group."""
        self.whole, self.groups = whole, groups
        self.num_samples, self.device = groups.num_samples, groups.device
        self.columns, self.width = getattr(whole, "columns", 1), getattr(groups, "width", 1)

    @property
    def no_resampling(self) -> str | None:
        return self.groups.no_resampling

    def value(self) -> float:
        return self.whole.value()

    def caveat(self) -> str | None:
        return self.whole.caveat()

    def ends(self, level: float) -> tuple[float, float] | None:
        return self.whole.ends(level)

    def sums(self, weights: Tensor) -> Tensor:
        return self.groups.sums(weights)

    def of(self, sums: Tensor) -> Tensor:
        return self.groups.of(sums)

    def adds_up_with(self, other: Statistic) -> bool:
        return isinstance(other, GroupedMean) and self.groups.adds_up_with(other.groups)


class Grouped(GroupedMean, CalibrationError):
    """A calibration error of all rows, resampled by groups of them."""

    def __init__(self, whole: CalibrationError, groups: CalibrationError, calibrated: CalibrationError) -> None:
        """``groups`` has a row for each group, and so has ``calibrated``, with labels drawn from the scores."""
        super().__init__(whole, groups)
        self.error, self.calibrated, self.at_most_of = groups, calibrated, whole

    @property
    def at_most(self) -> float:
        return self.at_most_of.at_most

    def size(self, sums: Tensor) -> Tensor:
        return self.error.size(sums)

    def straightened(self, sums: Tensor) -> Tensor | None:
        return self.error.straightened(sums)

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        return self.error.scaled(sums, factor)

    def departures(self, sums: Tensor) -> Tensor:
        return self.error.departures(sums)

    def probe(self, value: float) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        return self.error.probe(value)

    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        # One set of labels was drawn for all rows; resampled groups of it, about what calibration expects, vary as
        # other sets of labels would.
        drawn = self.calibrated
        base = drawn.sums(torch.ones(1, drawn.num_samples))
        centre = drawn.scaled(base, 0.0) - base
        weightings = multiplicities(drawn.num_samples, times, generator)
        return torch.cat([drawn.of(drawn.sums(weights) + centre) for weights in weightings])


class GroupSums(CalibrationError):
    """An error of sums that are 0 under calibration, with a row of sums for each group.

    Args:
        rows: (groups, F) float64.
        reader: A statistic of a single row, which reads sums divided by the number of rows.
        num_rows: The number of rows in all groups together.
    """

    def __init__(self, rows: Tensor, reader: CalibrationError, num_rows: int) -> None:
        self.rows, self.reader, self.num_rows = rows, reader, num_rows
        self.num_samples, self.device = len(rows), rows.device
        self.columns = self.width = rows.shape[1]

    @property
    def at_most(self) -> float:
        return self.reader.at_most

    def value(self) -> float:
        return float(self.of(self.rows.sum(dim=0, keepdim=True)))

    def sums(self, weights: Tensor) -> Tensor:
        return weights.to(torch.float64) @ self.rows

    def of(self, sums: Tensor) -> Tensor:
        return self.reader.of(sums) / self.num_rows

    def departures(self, sums: Tensor) -> Tensor:
        return sums

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        return sums * factor

    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        raise TypeError("sums of groups hold no scores to draw labels from; `Grouped` has those of drawn labels.")


class ValueOnly(Statistic):
    """A metric with a value, optionally a floor, and no interval."""

    def __init__(self, value: float, floor: float | None = None) -> None:
        self._value, self._floor = value, floor

    def value(self) -> float:
        return self._value

    @property
    def no_resampling(self) -> str:
        return NO_GROUPS

    def floor(self) -> float:
        return super().floor() if self._floor is None else self._floor

    def sums(self, weights: Tensor) -> Tensor:
        raise TypeError(NO_GROUPS)

    def of(self, sums: Tensor) -> Tensor:
        raise TypeError(NO_GROUPS)


def _running(num_classes: int, settings: Settings) -> dict[str, Running]:
    return {
        metric.key: Running(metric, metric.with_bins(settings.n_bins), KDE_CELLS)
        for metric in catalogue.shown("evaluate", num_classes, ordered=settings.ordered)
    }


def readers(num_classes: int, settings: Settings) -> dict[str, Statistic]:
    """For each metric a statistic that reads its totals and says what must be kept of the rows.

    One class stands for pairs of a confidence and an outcome.
    """
    made: dict[str, Statistic] = {}
    for key, part in _running(num_classes, settings).items():
        try:
            made[key] = part.trial(num_classes, exclusive=num_classes > 1)
        except NoMeaning as reason:
            made[key] = Meaningless(str(reason.args[0]), 1)
    return made


def _kept(reader: Statistic) -> Kept | None:
    return reader.kept if isinstance(reader, Streamed) else None


def bytes_of_a_row(kept: Iterable[Statistic]) -> int:
    """What is kept of each row: a winning score, a hit, a label and an answer, and a number for each average."""
    return 17 + 8 * sum(_kept(reader) == "rows" for reader in kept)


def require_room(num_rows: int, kept: Iterable[Statistic]) -> None:
    """Refuse so many rows that the numbers kept of each would not fit the memory limit."""
    files.within("bytes", num_rows * bytes_of_a_row(kept), f"the data kept of {num_rows:,} rows")


class Deal:
    """Rows dealt at random to groups of one size; fewer rows than there are groups are left out."""

    def __init__(self, num_rows: int, groups: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.groups = min(groups, num_rows)
        self.order = torch.from_numpy(generator.permutation(num_rows)[: num_rows // self.groups * self.groups])
        self.chance = torch.from_numpy(generator.random(num_rows))

    def grouped(self, values: Tensor) -> Tensor:
        """(groups, rows of each, …)."""
        return values[self.order].view(self.groups, -1, *values.shape[1:])

    def pools(self, scores: Tensor, hits: Tensor) -> list[Pool]:
        """One claim of each row, a row for each group: as it came, and with outcomes drawn from the scores."""
        dealt = self.grouped(scores)
        every = (hits, self.chance < scores)
        places = [scopes.true_places(self.grouped(each).view(-1)) for each in every]
        return [Pool(dealt.view(-1), each, self.groups, dealt.shape[1], winners=True) for each in places]


class Stream:
    """The state of an evaluation whose rows arrive in blocks.

    Args:
        num_classes: K; 1 for pairs of a confidence and an outcome.
        settings: The options of ``evaluate``.
        start: The number of rows before those of this stream, if several streams share the rows.
    """

    def __init__(self, num_classes: int, settings: Settings, *, start: int = 0) -> None:
        self.num_classes, self.settings, self.start, self.num_samples = num_classes, settings, start, 0
        self.ids: int | None = None
        self.groups = max(64, min(GROUPS, CELLS // (num_classes * settings.n_bins)))
        self.generator = np.random.Generator(np.random.PCG64(settings.seed).advance(2 * start))
        running = _running(num_classes, settings)
        self.readers = readers(num_classes, settings)
        self.running = {
            key: part for key, part in running.items() if _kept(self.readers[key]) in ("rows", "groups", "totals")
        }
        rows = [key for key, reader in self.readers.items() if _kept(reader) == "rows"]
        self.rows: dict[str, list[Tensor]] = {name: [] for name in ("winning", "right", "labels", "answers", *rows)}

    def add(self, values: Tensor, labels: Tensor, kind: str, ids: Iterable[Any] | None = None) -> None:
        """Add a block of rows of logits or "probs", optionally with sample ids."""
        n, k = len(values), self.num_classes
        if kind == "probs":
            p = checks.probabilities(values).to(torch.float64)
        else:
            p = checks.logits(values).to(torch.float64).softmax(dim=1)
        y = checks.class_labels(labels, num_samples=n, num_classes=max(2, k))
        claims = Claims(p, y) if k > 1 else Claims(p[:, 1:].contiguous(), y[:, None].double(), exclusive=False)
        require_room(self.start + self.num_samples + n, self.readers.values())
        made = {key: part.of(claims) for key, part in self.running.items()}
        if ids is not None:
            self.ids = (self.ids or 0) + _ids_in_order(ids, self.start + self.num_samples) & 2**64 - 1
        winning, right = scopes.wins(p, y) if k > 1 else (claims.probabilities[:, 0], y == 1)
        answers = scopes.winners(p).to(torch.int32)
        for name, column in zip(self.rows, (winning, right, y.to(torch.int32), answers), strict=False):
            self.rows[name].append(column)
        self.num_samples += n
        dealt = self._dealt(p)
        for key, statistic in made.items():
            if isinstance(statistic, Averaged):
                self.rows[key].append(statistic.rows.to(torch.bool) if isinstance(statistic, Share) else statistic.rows)
            else:
                self.running[key].feed(statistic, dealt if _kept(self.readers[key]) == "groups" else None)

    def _dealt(self, p: Tensor) -> Dealt:
        """The group and the drawn label of each row, which do not depend on the sizes of the blocks."""
        group, chance = torch.from_numpy(self.generator.random((len(p), 2))).unbind(dim=1)
        cumulative = p.cumsum(dim=1)
        drawn = torch.searchsorted(cumulative, (chance[:, None] * cumulative[:, -1:]), right=True)[:, 0]
        return Dealt((group * self.groups).to(torch.int64), self.groups, drawn.clamp_(max=p.shape[1] - 1))

    def merge(self, later: "Stream") -> None:
        """Add the stream of the rows that follow."""
        for name, parts in self.rows.items():
            parts += later.rows[name]
        for key, part in self.running.items():
            part.merge(later.running[key])
        self.num_samples += later.num_samples
        if later.ids is not None:
            self.ids = (self.ids or 0) + later.ids & 2**64 - 1

    def to_bytes(self) -> bytes:
        """The whole state as bytes, to send to another process."""
        from safetensors.torch import save

        ids = np.array([] if self.ids is None else [self.ids], dtype=np.uint64).view(np.int64)
        tensors = {"ids": torch.from_numpy(ids)}
        tensors |= {f"rows {name}": torch.cat(parts) for name, parts in self.rows.items()}
        tensors |= {f"running {key}": part.totals for key, part in self.running.items() if part.totals is not None}
        return save(tensors)

    @classmethod
    def from_bytes(cls, content: bytes, num_classes: int, settings: Settings) -> Self:
        """The stream that ``to_bytes`` wrote."""
        from safetensors.torch import load

        tensors, made = load(content), cls(num_classes, settings)
        made.rows = {name: [tensors[f"rows {name}"]] for name in made.rows}
        for key, part in made.running.items():
            part.totals = tensors.get(f"running {key}")
        made.num_samples = len(tensors["rows labels"])
        ids = tensors["ids"].numpy().view(np.uint64)
        made.ids = int(ids[0]) if len(ids) else None
        return made

    def finish(
        self, name: str, class_names: list[str] | None, calibrated_by: str | None = None
    ) -> tuple[Evaluation, dict[str, Statistic], Tensor, tuple[Tensor, Tensor]]:
        """The result for all rows: plain data, statistics, labels, and (winning scores, whether each was right)."""
        settings = self.settings
        rows = {name: torch.cat(self.rows.pop(name)) for name in list(self.rows)}
        winning, right = rows["winning"], rows["right"]
        winners = Pool(winning, scopes.true_places(right), len(winning), 1, winners=True)
        deal = Deal(self.num_samples, self.groups, self.settings.seed + 1)
        made, absent = self._statistics(winners, right, rows, deal)
        measured = measurement.measured(made, settings)
        measured |= {key: measurement.absent(reason) for key, reason in absent.items()}
        found = []
        if self.num_classes > 1:
            found = doubts.doubts(rows["labels"], rows["answers"], winning, self.num_classes, class_names)
        trained = self.num_classes > 1
        of_positive = None
        if self.num_classes == 2:
            of_positive = positive.of(_class_1(rows), class_names, measured["ece_positive"])
        words = described(
            winners, measured, settings, found, trained=trained, calibrated_by=calibrated_by, of_positive=of_positive
        )
        data: Evaluation = {
            "name": name,
            "num_samples": self.num_samples,
            "num_classes": self.num_classes,
            "kind": "classes" if self.num_classes > 1 else "pairs",
            "class_names": class_names if self.num_classes > 1 else None,
            "digest": None,
            "settings": settings_data(settings, f"{self.groups} groups of rows"),
            "verdict": words["verdict"],
            "reliability": words["reliability"],
            "metrics": {key: measured[key].to_dict() for key in self.readers},
        }
        if of_positive is not None:
            data["positive"] = of_positive.to_dict()
        if calibrated_by is not None:
            data["calibrated_by"] = calibrated_by
        return data, made, rows["labels"], (winning, right)

    def _statistics(
        self, winners: Pool, right: Tensor, rows: Mapping[str, Tensor], deal: "Deal"
    ) -> tuple[dict[str, Statistic], dict[str, str]]:
        """Each metric as a statistic that can be resampled, and the reason for each absent one."""
        pools = deal.pools(winners.scores, right)
        made: dict[str, Statistic] = {}
        absent: dict[str, str] = {}
        for key, reader in self.readers.items():
            if isinstance(reader, Meaningless):
                absent[key] = reader.reason
                continue
            if not isinstance(reader, Streamed):
                absent[key] = f"{NEEDS_ALL}, and there are too many rows to hold"
                continue
            if key == "ece_positive":
                own = _class_1(rows)
                made[key] = self._of_winners(
                    cast("Binned", reader).over(own), deal.pools(own.scores, rows["labels"] == 1), deal
                )
                continue
            whole = reader.on(winners)
            if isinstance(reader, Share):
                made[key] = Share(rows[key])
            elif isinstance(reader, Averaged):
                means = deal.grouped(rows[key]).mean(dim=1)
                made[key] = GroupedMean(reader.of_rows(rows[key]), reader.of_rows(means))
            elif whole is not None:
                made[key] = self._of_winners(whole, pools, deal)
            elif reader.kept == "groups":
                made[key] = self._of_groups(key, deal.groups)
            elif reader.kept == "totals":
                try:
                    made[key] = self._of_totals(key)
                except density.TooFewCells as error:
                    absent[key] = (
                        f"the scores' bandwidth, {error.radius:.2g}, is too narrow for the cells in which so many "
                        f"scores are summed: these need at least {density.CELLS_PER_RADIUS / KDE_CELLS:.2g}"
                    )
            else:
                absent[key] = f"{reader.needs_all}, and there are too many rows to hold"
        return made, absent

    def _of_winners(self, whole: Streamed, pools: list[Pool], deal: "Deal") -> GroupedMean:
        rows = whole.influence()
        if rows is not None:  # only the value is kept: a ranking of many millions is large
            return GroupedMean(ValueOnly(whole.value()), Mean(deal.grouped(rows).mean(dim=1)))
        seen, drawn = (whole.on(pool) for pool in pools)
        assert seen is not None
        if not isinstance(whole, CalibrationError):
            return GroupedMean(whole, seen)
        return Grouped(whole, cast("CalibrationError", seen), cast("CalibrationError", drawn))

    def _of_groups(self, key: str, groups: int) -> Grouped:
        place = torch.arange(self.groups) % groups  # a few rows of very many classes have fewer groups
        seen, difference = self._totals(key)
        reader = self.readers[key]
        assert isinstance(reader, CalibrationError)
        made = []
        for sums in (seen, seen + difference):
            lines = torch.zeros(groups, sums.shape[1], dtype=torch.float64).index_add_(0, place, sums)
            # Of many classes most bins are empty, and need not be resampled.
            made.append(GroupSums(lines[:, (lines != 0).any(dim=0)], reader, self.num_samples))
        return Grouped(made[0], *made)

    def _of_totals(self, key: str) -> ValueOnly:
        """A metric without an interval, and its floor if it declares one."""
        reader, totals = self.readers[key], self._totals(key)
        assert isinstance(reader, Streamed)
        value = reader.read(totals, self.num_samples)
        return ValueOnly(value, reader.read_floor(totals) if self.running[key].metric.floor else None)

    def _totals(self, key: str) -> Tensor:
        totals = self.running[key].totals
        assert totals is not None, "a stream that has seen no rows is not finished"
        return totals


def _class_1(rows: Mapping[str, Tensor]) -> Pool:
    """The claims of a binary model about class 1, which is that of the answer or the other one."""
    scores = torch.where(rows["answers"] == 1, rows["winning"], 1 - rows["winning"])
    return Pool(scores, scopes.true_places(rows["labels"] == 1), len(scores), 1, winners=True)


def _ids_in_order(ids: Iterable[Any], start: int) -> int:
    """A sum over samples that changes with their order and their ids; the sums of portions add up."""
    codes = np.array([zlib.crc32(str(name).encode()) for name in ids], dtype=np.uint64)
    mixed: Any = codes * np.uint64(0x9E3779B97F4A7C15) + np.arange(start, start + len(codes), dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finish of splitmix64
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return int((mixed ^ (mixed >> np.uint64(31))).sum())

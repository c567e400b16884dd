"""Metrics as statistics of rows, with the operations of resampling, swapping models, redrawing labels and streaming.

Three interfaces, of which a metric has those that it can:

- ``Statistic``: ``value`` is the number itself; ``sums`` and ``of`` give it for many weightings of the rows at once.
- ``CalibrationError``, a statistic that is 0 if the scores are calibrated: which of the sums show a departure from
  calibration, how they look with a larger or smaller departure, and the metric of labels drawn from the scores.
- ``Streamed``: ``totals`` of batches add up, and ``read`` computes the metric from them.

This file has them and the averages; errors over bins are in ``binned``, smooth ones in ``kernels``.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from softkin.metrics.intervals import MeanLoss, wilson
from softkin.metrics.scopes import ONE_WINNER, Pool, effective, multiplicities

BLOCK = 2**23  # numbers in a temporary of the resampling: 64 MB of float64
KEEP = 2**27  # the largest rows × width that is kept between blocks of resamples: half a gigabyte of float32

Kept = Literal["rows", "winners", "groups", "totals"]


class Statistic(ABC):
    """A metric of N rows."""

    num_samples: int
    device: torch.device
    weights: Tensor | None = None
    """(N,) weights of the rows with the mean 1, which ``value`` takes into account; None where all count alike"""
    clusters: Tensor | None = None
    """(N,) the cluster 0 … C−1 of each row, where rows depend on each other; clusters are then resampled"""

    @property
    def num_units(self) -> int:
        """The number of rows, or of clusters, that are resampled."""
        return self.num_samples if self.clusters is None else int(self.clusters.max()) + 1

    def weighted(self, lines: Tensor) -> Tensor:
        """(r, N) weightings of the rows from (r, units) ones, by the rows' own weights."""
        each = lines if self.clusters is None else lines[:, self.clusters]
        return each if self.weights is None else each * self.weights.to(each.dtype)

    def drawn(self, counts: Tensor) -> Tensor:
        """The sums, (r, F), of rows (or clusters) that are drawn as often as each line of ``counts`` says."""
        if self.weights is None and self.clusters is None:
            return self.sums(counts)
        lines = self.weighted(counts)
        return self.sums(lines * (self.num_samples / lines.sum(dim=1, keepdim=True, dtype=torch.float64)).to(lines))

    def once(self) -> Tensor:
        """The sums of all rows, each counted once, (1, F)."""
        return self.drawn(torch.ones(1, self.num_units, device=self.device))

    def formula_ends(self, level: float) -> tuple[float, float] | None:
        """``ends``, unless rows depend on each other, for which there is no formula."""
        return self.ends(level) if self.clusters is None else None

    @property
    def no_resampling(self) -> str | None:
        """Why the metric has no interval; None if it has one."""
        return None

    @abstractmethod
    def value(self) -> float:
        """The metric of all rows, each counted once."""

    @abstractmethod
    def sums(self, weights: Tensor) -> Tensor:
        """The sums that the metric depends on, (r, F), with rows weighted by each line of (r, N) ``weights``."""

    @abstractmethod
    def of(self, sums: Tensor) -> Tensor:
        """The metric of each line of sums, (r,), for weights that add up to N."""

    def ends(self, level: float) -> tuple[float, float] | None:
        """The ends of the confidence interval if there is a formula for them; None if it takes resampling."""
        return None

    def adds_up_with(self, other: "Statistic") -> bool:
        """Whether the sums of both statistics have the same meaning, so that rows can be swapped between them."""
        return type(self) is type(other)

    def caveat(self) -> str | None:
        """A warning about the meaning of this value; None if there is none."""
        return None

    def floor(self) -> float:
        """The error that smoothing alone causes; for kernels only."""
        raise TypeError("only an error over a kernel density has a floor.")


class Gap(NamedTuple):
    """Scores of the rows (N,) and whether they hit (N,): the error is about ``factor``·|mean score − share of hits|."""

    scores: Tensor
    is_hit: Tensor
    factor: float


class CalibrationError(Statistic):
    """A metric that is non-negative, 0 in expectation only under calibration, and biased upwards."""

    mostly_chance = False
    """Whether chance usually makes up most of the value, as of errors over many small bins"""

    def unseen(self, tail: float) -> tuple[float, float]:
        """By how much the error may be smaller, and larger, because of a kind of answer too rare to have occurred."""
        return 0.0, 0.0

    @property
    def of_one_row(self) -> float:
        """The largest change of the value that the label of one row can cause."""
        return 1 / self.num_samples

    def values_if_calibrated(self, generator: np.random.Generator, times: int) -> Tensor:
        """The metric under calibration, (times,): with labels drawn from the scores, or by ``recentred``."""
        if self.can_redraw and self.clusters is None:
            return self.redrawn(generator, times)
        return self.recentred(generator, times)

    @property
    def can_redraw(self) -> bool:
        """Whether labels can be drawn from the scores."""
        return True

    def recentred(self, generator: np.random.Generator, times: int) -> Tensor:
        """The metric of resampled rows about the sums that calibration expects.

        For outcomes between true and false: calibration says what they are on average, not how they scatter.
        """
        base = self.once()
        centre = self.scaled(base, 0.0) - base
        return torch.cat(
            [
                self.of(self.drawn(counts.to(self.device)) + centre)
                for counts in multiplicities(self.num_units, times, generator)
            ]
        )

    @property
    def at_most(self) -> float:
        """The largest possible value, at which the interval ends."""
        return math.inf

    @abstractmethod
    def departures(self, sums: Tensor) -> Tensor:
        """The numbers among the sums that are 0 in expectation under calibration, (r, D)."""

    @abstractmethod
    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        """The sums of data whose departure from calibration is ``factor`` times as large.

        A tensor of factors, of the shape of ``departures``, scales each of them by its own factor.
        """

    @abstractmethod
    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        """The metric with labels drawn from the scores, (times,)."""

    def size(self, sums: Tensor) -> Tensor:
        """The true error of a population with such sums, (r,); ``of`` estimates it from a sample."""
        return self.of(sums)

    def straightened(self, sums: Tensor) -> Tensor | None:
        """The sums of data whose departure is a straight line in the score; None if the metric has no bins."""
        return None

    def gap(self) -> Gap | None:
        """A part of the departure from calibration whose interval has a formula; None if there is none."""
        return None

    def probe(self, value: float) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        """A linear map of sums and a function of its result that is at least ``value`` exactly if the metric is.

        For metrics that are expensive to compute, but easily compared with one number.
        """
        return (lambda sums: sums), self.of


class Dealt(NamedTuple):
    """The group of each row of a batch (groups are resampled instead of rows), and labels drawn for the rows."""

    group: Tensor
    """(N,) the group of each row"""
    num_groups: int
    drawn: Tensor
    """(N,) a class for each row, drawn with the row's own probabilities"""


NEEDS_ALL = "it needs all samples at once"


class Streamed(Statistic):
    """A metric that can be computed without holding all rows.

    A batch is a statistic of its rows; ``totals`` of batches add up, and any of them can ``read`` the sum.
    """

    needs_all: str | None = None
    """Why this one cannot be computed from totals of batches, whatever others of its class can; None if it can"""

    def totals(self, cells: int, into: Tensor | None = None) -> Tensor:
        """Exact float64 sums (F,) over these rows, on the CPU, added to ``into`` if it is given.

        A density is summed in ``cells`` cells of [0, 1].
        """
        raise TypeError(f"{type(self).__name__} has no totals: {self.needs_all}.")

    def read(self, totals: Tensor, num_samples: float) -> float:
        """The metric of rows with these totals and weights that sum to ``num_samples``, by this statistic's options."""
        raise TypeError(f"{type(self).__name__} has no totals: {self.needs_all}.")

    @property
    def kept(self) -> Kept | None:
        """The part of a batch that a stream must keep so that the metric can be resampled after all rows were read.

        "rows": a number or two for each row; "winners": only the winning scores and whether they were right, which
        every stream keeps; "groups": sums over groups of rows; "totals": sums over all rows, which give the value
        but no interval. None: the metric needs all scores at once.
        """
        if self.on(ONE_WINNER) is not None:
            return "winners"
        return "totals" if self.needs_all is None else None

    def by_group(self, dealt: Dealt, into: Tensor | None = None) -> Tensor:
        """Sums (2, groups, F) over the rows of each group, added to ``into`` if it is given.

        The first are the departures from calibration; the second, the difference to the departures of the drawn labels.
        """
        raise TypeError(f"{type(self).__name__} has no sums of groups.")

    def read_floor(self, totals: Tensor) -> float:
        """The error that smoothing alone causes for rows with these totals; for kernels only."""
        return self.floor()

    def on(self, pool: Pool) -> "Streamed | None":
        """The metric of other winning scores, with the same bins and bandwidth; None if it needs more than those."""
        return None

    def influence(self) -> Tensor | None:
        """Numbers (N,) whose mean is the value and has its sampling variance, if sums of groups do not add up."""
        return None


def added(sums: Tensor, into: Tensor | None) -> Tensor:
    """``into`` with the sums added, or the sums themselves."""
    return sums if into is None else into.add_(sums)


def straight_line(count: Tensor, score: Tensor, off: Tensor) -> Tensor:
    """Departures whose gap, departure / count, is a straight line in the mean score, the nearest one to ``off``."""
    # Σ count (gap − α − β (conf − mean))² is least for these α and β.
    conf = score / torch.where(count > 0, count, 1.0) - score.sum() / count.sum()
    slope = (off * conf).sum() / (count * conf * conf).sum().clamp(min=1e-12)
    return count * (off.sum() / count.sum() + slope * conf)


class Averaged(Streamed):
    """A statistic of the sums of one or two numbers per row."""

    kept = "rows"

    def __init__(self, rows: Tensor, weights: Tensor | None = None) -> None:
        """Take ``rows``, (N,) or (N, 2), and their weights."""
        self.rows, self.weights = rows.to(torch.float64), weights
        self.num_samples, self.device = len(rows), rows.device

    @property
    def terms(self) -> Tensor:
        """The rows times their weights; a row of weight 0 adds nothing even if it is infinite."""
        if self.weights is None:
            return self.rows
        w = self.weights if self.rows.ndim == 1 else self.weights[:, None]
        return torch.where(w > 0, self.rows * w, 0.0)

    @classmethod
    def of_rows(cls, rows: Tensor) -> Self:
        """The statistic of precomputed ``rows``, for a class whose constructor computes them."""
        made = cls.__new__(cls)
        Averaged.__init__(made, rows)
        return made

    def totals(self, cells: int, into: Tensor | None = None) -> Tensor:
        return added(self.terms.sum(dim=0).reshape(-1).cpu(), into)


class Mean(Averaged):
    """The average of one number per row."""

    def read(self, totals: Tensor, num_samples: float) -> float:
        return float(totals) / num_samples

    def value(self) -> float:
        return float(self.terms.mean())

    def sums(self, weights: Tensor) -> Tensor:
        # An infinite row (log 0) times weight 0 would be NaN.
        infinite = self.rows.isinf()
        total = weights.to(torch.float64) @ torch.where(infinite, 0.0, self.rows)
        if bool(infinite.any()):
            total = torch.where(weights[:, infinite].sum(dim=1) > 0, self.rows[infinite][0], total)
        return total[:, None]

    def of(self, sums: Tensor) -> Tensor:
        return sums[:, 0] / self.num_samples


class Answers(NamedTuple):
    """The cost of wrong answers."""

    winning: Tensor
    """(N,) winning scores"""
    excess: Tensor
    """(N,) loss of each row less that of its winning class, so 0 for right answers"""
    possible: Tensor
    """(N,) the least excess of a wrong answer"""


class Loss(Mean):
    """A mean loss, which few wrong answers may make up. ``answers`` is called only for the interval."""

    _answers: Callable[[], Answers] | None = None
    _at_most: float = math.inf

    def __init__(
        self,
        rows: Tensor,
        answers: Callable[[], Answers],
        *,
        at_most: float = math.inf,
        weights: Tensor | None = None,
    ) -> None:
        super().__init__(rows, weights)
        self._answers, self._at_most = answers, at_most

    @classmethod
    def of_classes(cls, costs: Tensor, probabilities: Tensor, labels: Tensor, *, at_most: float = math.inf) -> Self:
        """From the (N, K) loss of each row if each class were the true one; a wrong answer costs their mean.

        Args:
            costs: The losses.
            probabilities: (N, K); the mean of the losses is over the classes that do not win, weighted by these.
            labels: (N,) the true classes.
            at_most: The largest possible mean.
        """
        c, p = costs.to(torch.float64), probabilities.to(torch.float64)
        own = c.gather(1, labels[:, None])[:, 0]

        def answers() -> Answers:
            winning, best = p.max(dim=1)
            right = c.gather(1, best[:, None])
            others = p.scatter(1, best[:, None], 0.0)
            wrong = torch.where(others > 0, others * (c - right), 0.0).sum(dim=1) / others.sum(dim=1).clamp(min=1e-300)
            return Answers(winning, own - right[:, 0], wrong.clamp(min=0))

        return cls(own, answers, at_most=at_most)

    def ends(self, level: float) -> tuple[float, float] | None:
        if self._answers is None or not bool(self.rows.isfinite().all()):
            return None  # a stream has many rows; how rare an infinite loss is, resampling shows
        answers = self._answers()
        made = MeanLoss.of_rows(self.rows, answers.excess, answers.possible, answers.winning, self.weights)
        low, high = made.ends(level)
        return low, min(high, self._at_most)


class Share(Mean):
    """The share of rows for which a condition holds."""

    def ends(self, level: float) -> tuple[float, float]:
        return wilson(self.value(), effective(self.weights, self.num_samples), level)


class Ratio(Averaged):
    """Σ a / Σ b over the rows."""

    def __init__(self, above: Tensor, below: Tensor) -> None:
        super().__init__(torch.stack([above, below], dim=1))

    def value(self) -> float:
        return self.read(self.totals(0), self.num_samples)

    def read(self, totals: Tensor, num_samples: float) -> float:
        above, below = totals.tolist()
        return above / below if below else math.nan

    def sums(self, weights: Tensor) -> Tensor:
        return weights.to(torch.float64) @ self.rows

    def of(self, sums: Tensor) -> Tensor:
        return sums[:, 0] / sums[:, 1]


class RowSums(Statistic):
    """A statistic of sums of long rows in float32: an error of 1e-6 is negligible beside the spread of resamples."""

    columns: int
    """The number of scores in a row"""
    _kept: Tensor | None = None

    @property
    @abstractmethod
    def width(self) -> int:
        """F, the number of terms of a row."""

    @abstractmethod
    def row_block(self, part: slice) -> Tensor:
        """The terms (n, F) that a block of rows adds to the sums."""

    def sums(self, weights: Tensor) -> Tensor:
        if self.num_samples * self.width <= KEEP:
            if self._kept is None:
                # Products with a multiple of 16 columns take a third of the time of those with 15.
                shape = self.num_samples, -(-self.width // 16) * 16
                self._kept = torch.zeros(shape, dtype=torch.float32, device=self.device)
                for part in self.parts():
                    self._kept[part, : self.width] = self.row_block(part)
            return (weights @ self._kept)[:, : self.width].to(torch.float64)
        total = torch.zeros(len(weights), self.width, dtype=torch.float64, device=self.device)
        for part in self.parts():
            total += weights[:, part] @ self.row_block(part).to(torch.float32)
        return total

    def parts(self) -> list[slice]:
        """The rows in blocks that fit the temporaries of the resampling."""
        step = max(1, BLOCK // max(self.width, self.columns))
        return [slice(start, start + step) for start in range(0, self.num_samples, step)]


class PooledSums(RowSums):
    """A statistic of pooled scores: the winning scores, or all."""

    pool: Pool

    @property
    def can_redraw(self) -> bool:
        """Whether labels can be drawn from the scores."""
        return self.pool.has_labels_to_draw

    def _hits_in_a_row(self) -> float:
        """The number of scores of a row that change between hit and miss when its label changes, times its weight."""
        pool = self.pool
        heaviest = 1.0 if pool.weights is None else float(pool.weights.max())
        return heaviest * (min(2, pool.columns) if pool.exclusive else pool.columns)

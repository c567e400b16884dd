"""Binned calibration errors as statistics: pooled, and class by class; a class for each way to add up the bins.

To add an error over bins, derive it from ``BinnedError`` and write ``of_curve``, its formula; everything else
(interval, value under calibration, streaming) follows from the sums of the curve. What a subclass adds is a shorter
or narrower way to the same, valid for its own formula only: ends of its interval, sums of differences alone, its
maximum (``at_most``).
"""

import math
from abc import abstractmethod
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from softkin.metrics import binning
from softkin.metrics.binning import Bins, Norm, ReliabilityCurve
from softkin.metrics.intervals import score_minus_share, size_of_gap
from softkin.metrics.scopes import Claims, NoMeaning, Per, Pool
from softkin.metrics.statistics import (
    KEEP,
    CalibrationError,
    Dealt,
    Gap,
    Kept,
    PooledSums,
    RowSums,
    Statistic,
    Streamed,
    added,
    straight_line,
)

ONE_BIN = (
    "all scores share one bin: the number only compares their mean with the share of hits, "
    "not the scores with one another"
)
MASS_NEEDS_ALL = "the edges of equal-mass bins need all scores; use binning='width'"


class Binned(PooledSums, Streamed):
    """A metric of one reliability curve, from the count, the scores and the hits of each bin."""

    def __init__(self, pool: Pool, bins: Bins, *, per: Per = "sample") -> None:
        self.pool, self.bins, self.per = pool, bins, per
        self.num_samples, self.columns, self.device = pool.num_samples, pool.columns, pool.scores.device
        self.denominator, self.weights = pool.denominator(per), pool.weights
        self.needs_all = MASS_NEEDS_ALL if bins.from_scores else None

    @abstractmethod
    def of_curve(self, curve: ReliabilityCurve, n: float) -> Tensor:
        """The metric, of shape (…), of curves of shape (…, M), whose sums are divided by n."""

    @property
    def width(self) -> int:
        return 3 * self.bins.n_bins

    def curve(self) -> ReliabilityCurve:
        """The reliability curve."""
        return self._curve

    @cached_property
    def _curve(self) -> ReliabilityCurve:
        return self.pool.curve(self.bins)

    def value(self) -> float:
        return float(self.of_curve(self.curve(), self.denominator))

    def totals(self, cells: int, into: Tensor | None = None) -> Tensor:
        curve = self.curve()
        return added(torch.cat([curve.count, curve.score_sum, curve.hit_sum]), into)

    def read(self, totals: Tensor, num_samples: float) -> float:
        n = num_samples * (self.denominator / self.num_samples)
        return float(self.of_curve(ReliabilityCurve(self.bins.edges, *totals.view(3, -1)), n))

    def over(self, pool: Pool) -> Self:
        """The same metric of other claims, one for each row."""
        return type(self)(pool, self.bins, per="score")

    def on(self, pool: Pool) -> Self | None:
        return self.over(pool) if self.pool.winners else None

    def row_block(self, part: slice) -> Tensor:
        return self._row_sums(part).transpose(0, 1).flatten(1)

    def _row_sums(self, part: slice) -> Tensor:
        """The count, scores and hits that each row adds to each bin, (3, n, M)."""
        return torch.stack([*binning.sums_of_rows(self.pool.rows[part], self.bins), self._row_hits(part)])

    def _row_hits(self, part: slice) -> Tensor:
        """The hits that each row adds to each bin, (n, M)."""
        pool, m = self.pool, self.bins.n_bins
        scores = pool.rows[part]
        hits = torch.zeros(len(scores) * m, dtype=torch.float64, device=scores.device)
        if pool.outcomes is None:
            start = part.indices(self.num_samples)[0] * self.columns
            own = pool.hits[(pool.hits >= start) & (pool.hits < start + scores.numel())] - start
            some, outcomes = scores.reshape(-1)[own], torch.ones(len(own), dtype=torch.float64, device=scores.device)
        else:
            own, some = torch.arange(scores.numel(), device=scores.device), scores.reshape(-1)
            outcomes = pool.is_hit[part].reshape(-1)
        places = own // self.columns * m + binning.assign(some, self.bins).to(own)
        return hits.index_add_(0, places, outcomes).view(-1, m)

    def rows_in_bins(self) -> Tensor:
        """The number of rows with scores in each bin, (M,)."""
        return torch.stack([(self._row_sums(part)[0] > 0).sum(dim=0) for part in self.parts()]).sum(dim=0)

    def of(self, sums: Tensor) -> Tensor:
        return self._of_sums(*sums.view(len(sums), 3, -1).unbind(dim=1))

    def _of_sums(self, count: Tensor, score_sum: Tensor, hit_sum: Tensor) -> Tensor:
        return self.of_curve(ReliabilityCurve(self.bins.edges, count, score_sum, hit_sum), self.denominator)

    def adds_up_with(self, other: Statistic) -> bool:
        return (
            isinstance(other, Binned) and type(self) is type(other) and torch.equal(self.bins.edges, other.bins.edges)
        )

    def _bins_used(self) -> int:
        return int((self.curve().count > 0).sum())


class BinnedError(Binned, CalibrationError):
    """A calibration error over bins."""

    @property
    def of_one_row(self) -> float:
        return self._hits_in_a_row() / self.denominator

    @property
    def _many(self) -> bool:
        """Whether a row adds several scores to a sum per sample."""
        return self.columns > 1 and self.per == "sample" and self.pool.exclusive

    def caveat(self) -> str | None:
        return ONE_BIN if self._bins_used() == 1 else None

    def departures(self, sums: Tensor) -> Tensor:
        return _scores_minus_hits(sums)

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        return _hits_scaled(sums, factor)

    def straightened(self, sums: Tensor) -> Tensor:
        count, score, line = self._straight_line(sums)
        return torch.cat([count, score, score - line])[None]

    def unseen(self, tail: float) -> tuple[float, float]:
        """By how much the error may be smaller, and larger, because of answers of a kind that did not occur.

        If all answers are right, wrong ones have a share of at most r = 1 − tail^(1/N), and all of them may lie in any
        one bin; all wrong: likewise.
        """
        hits = float(self.pool.is_hit.sum())
        if self.columns > 1 or hits not in (0, self.num_samples):
            return 0.0, 0.0
        curve = self.curve()
        rare = self.num_samples * (1 - tail ** (1 / self.num_samples))
        moved = curve.count.clamp(max=rare).diag()
        count, score, hit = (part.expand_as(moved) for part in (curve.count, curve.score_sum, curve.hit_sum))
        others = self.of_curve(
            ReliabilityCurve(curve.edges, count, score, hit - moved if hits else hit + moved), self.denominator
        )
        return max(0.0, self.value() - float(others.min())), max(0.0, float(others.max()) - self.value())

    def _straight_line(self, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Counts and scores of the bins, and departures that are a straight line in the score."""
        curve = self.curve()
        count, score = (part.to(sums.device) for part in (curve.count, curve.score_sum))
        return count, score, straight_line(count, score, self.departures(sums)[0])

    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        pool, m = self.pool, self.bins.n_bins
        rows = self._row_sums(slice(None))
        own = rows if pool.weights is None else rows * pool.weights[:, None]
        count, score_sum = own[:2].sum(dim=1)
        if pool.columns == 1:
            member = own[0].to(torch.float32)
            hits = [hit.to(torch.float32) @ member for _, hit in pool.redrawn(generator, times)]  # whole numbers: exact
            return self._of_sums(count, score_sum, torch.cat(hits).to(torch.float64))
        # Only the bin of the drawn label's score matters, so bins are drawn, by each row's mass in them, not classes.
        mass = Pool(rows[1].flatten(), pool.hits, pool.num_samples, m)
        values = []
        for drawn, _ in mass.redrawn(generator, times):
            flat = drawn + m * torch.arange(len(drawn), device=drawn.device)[:, None]
            w = None if pool.weights is None else pool.weights.expand(len(drawn), -1).reshape(-1)
            hits_in = torch.bincount(flat.reshape(-1), w, minlength=len(drawn) * m).view(len(drawn), m).to(rows)
            values.append(self._of_sums(count, score_sum, hits_in))
        return torch.cat(values)


class SizeOfGap(BinnedError):
    """An error that, where all winning scores share one bin, is the size of their gap, |mean score − share of hits|."""

    def gap(self) -> Gap | None:
        return Gap(self.pool.scores, self.pool.is_hit[:, 0], 1.0) if self.columns == 1 else None

    def unseen(self, tail: float) -> tuple[float, float]:
        return 0.0, 0.0  # the interval of the gap covers them

    def ends(self, level: float) -> tuple[float, float] | None:
        if self.columns > 1 or self._bins_used() > 1:
            return None
        return size_of_gap(self.pool.scores, self.pool.is_hit[:, 0], level, self.weights)


class RootGap(SizeOfGap):
    """The root of the mean squared gap: Σ |B|/n (conf − lik)², rooted."""

    @property
    def at_most(self) -> float:
        # The scores of a row sum to 1 and so do its hits: |score − hit| adds up to 2 at most, and so does its square.
        return math.sqrt(2) if self._many else 1.0

    def of_curve(self, curve: ReliabilityCurve, n: float) -> Tensor:
        return curve.error(2, samples=n)


class LargestGap(SizeOfGap):
    """The largest gap of a bin that is not empty."""

    @property
    def at_most(self) -> float:
        return 1.0

    def of_curve(self, curve: ReliabilityCurve, n: float) -> Tensor:
        return curve.error("max", samples=n)


class Debiased(SizeOfGap):
    """The root of the mean squared gap less the part that chance adds to it."""

    def __init__(self, pool: Pool, bins: Bins, *, per: Per = "sample") -> None:
        if pool.outcomes is not None:
            raise NoMeaning("what it subtracts for chance holds for outcomes that are true or false only")
        super().__init__(pool, bins, per=per)

    def totals(self, cells: int, into: Tensor | None = None) -> Tensor:
        if self.weights is not None:  # sums of a stream do not hold those of the squares
            raise NoMeaning("what it subtracts for chance needs the weights of all rows at once")
        return super().totals(cells, into)

    @cached_property
    def _of_one(self) -> Tensor:
        """(M,) what one row of a bin counts: Σw²/Σw, so that it counts as Σw over this many rows (Kish, 1965)."""
        w = self.pool.score_weights
        if w is None:
            return torch.ones(self.bins.n_bins, dtype=torch.float64)
        index = binning.assign(self.pool.scores, self.bins).to(torch.int64).cpu()
        total, squares = (torch.bincount(index, part.cpu(), minlength=self.bins.n_bins) for part in (w, w * w))
        return torch.where(total > 0, squares / total.clamp(min=1e-300), 1.0)

    @property
    def at_most(self) -> float:
        return math.sqrt(2) if self._many else 1.0

    def gap(self) -> Gap | None:
        return None  # of that, too, a part is due to chance

    def of_curve(self, curve: ReliabilityCurve, n: float) -> Tensor:
        # Var(lik) of a bin is estimated by lik(1 − lik)/(|B| − 1), which a bin of one score does not allow; with
        # weights |B| is Σw over ``one``.
        one = self._of_one.to(curve.count)
        count, some = curve.count, curve.count > one * (1 + 1e-9)
        held = torch.where(some, count, 1.0)
        lik = curve.hit_sum / held
        departed = (curve.score_sum - curve.hit_sum).square() / held
        square = departed - count * lik * (1 - lik) * one / torch.where(some, count - one, 1.0)
        return (torch.where(some, square, 0.0).sum(dim=-1) / n).clamp(min=0).sqrt()

    def size(self, sums: Tensor) -> Tensor:
        # The error of a population contains no sampling noise to subtract.
        curve = ReliabilityCurve(self.bins.edges, *sums.view(len(sums), 3, -1).unbind(dim=1))
        return curve.error(2, samples=self.denominator)


class Differences(Binned):
    """A metric of the scores minus the hits of each bin, a third of the work."""

    @abstractmethod
    def of_differences(self, differences: Tensor, n: float) -> Tensor:
        """The metric of (…, M) differences, divided by n."""

    @property
    def width(self) -> int:
        return self.bins.n_bins

    def of_curve(self, curve: ReliabilityCurve, n: float) -> Tensor:
        return self.of_differences(curve.score_sum - curve.hit_sum, n)

    def of(self, sums: Tensor) -> Tensor:
        return self.of_differences(sums, self.denominator)

    def row_block(self, part: slice) -> Tensor:
        return binning.sums_of_rows(self.pool.rows[part], self.bins)[1] - self._row_hits(part)


class DifferenceError(Differences, BinnedError):
    """A calibration error of these differences."""

    def departures(self, sums: Tensor) -> Tensor:
        return sums

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        return sums * factor

    def straightened(self, sums: Tensor) -> Tensor:
        return self._straight_line(sums)[2][None]


class MeanGap(DifferenceError, SizeOfGap):
    """The mean gap, Σ |B|/n |conf − lik|: the ECE."""

    @property
    def at_most(self) -> float:
        return 2.0 if self._many else 1.0  # |score − hit| adds up to 2 in a row at most

    def of_differences(self, differences: Tensor, n: float) -> Tensor:
        return differences.abs().sum(dim=-1) / n

    def gap(self) -> Gap | None:
        if self.columns == 1:
            return super().gap()
        if not self.pool.exclusive or self.pool.outcomes is not None:
            return None
        # Of all scores of a row the differences to the hits add up to 0. So the bins in which most scores win have the
        # same gap as the other bins together, with the other sign.
        rows = self.pool.rows
        place = binning.assign(self.pool.scores, self.bins).to(torch.int64).view(rows.shape)
        winning = place.gather(1, rows.argmax(dim=1, keepdim=True))
        all_scores, winners = (
            torch.bincount(part.reshape(-1), minlength=self.bins.n_bins) for part in (place, winning)
        )
        is_high = (2 * winners > all_scores)[place]
        scores = torch.where(is_high, rows, 0.0).sum(dim=1, dtype=torch.float64)
        return Gap(scores, is_high.reshape(-1)[self.pool.hits], 2 * self.num_samples / self.denominator)

    def ends(self, level: float) -> tuple[float, float] | None:
        if self.columns > 1 and self._bins_used() == 2:
            gap = self.gap()
            if gap is not None and bool((gap.scores > 0).all()):  # each row has one in the winners' bin
                low, high = size_of_gap(gap.scores, gap.is_hit, level, self.weights)
                return gap.factor * low, gap.factor * high
        return super().ends(level)

    @property
    def kept(self) -> Kept | None:
        return "groups" if self.columns > 1 and self.needs_all is None else super().kept

    def by_group(self, dealt: Dealt, into: Tensor | None = None) -> Tensor:
        scores = self.pool.rows.to(torch.float64)
        place = binning.assign(scores, self.bins).to(torch.int64)
        labels = self.pool.hits - self.columns * torch.arange(self.num_samples)  # one hit in each row
        return _by_group(scores, place, self.bins.n_bins, labels, dealt, into)


class OverConfidence(DifferenceError):
    """The part of the mean gap from bins whose mean score exceeds their share of hits."""

    @property
    def at_most(self) -> float:
        return 1.0

    def of_differences(self, differences: Tensor, n: float) -> Tensor:
        return differences.clamp(min=0).sum(dim=-1) / n

    def ends(self, level: float) -> tuple[float, float] | None:
        if self.columns > 1 or self._bins_used() > 1:
            return None
        low, high = score_minus_share(self.pool.scores, self.pool.is_hit[:, 0], level, self.weights)
        return max(0.0, low), max(0.0, high)


class UnderConfidence(DifferenceError):
    """The part of the mean gap from bins whose share of hits exceeds their mean score."""

    @property
    def at_most(self) -> float:
        return 1.0

    def of_differences(self, differences: Tensor, n: float) -> Tensor:
        return (-differences).clamp(min=0).sum(dim=-1) / n

    def ends(self, level: float) -> tuple[float, float] | None:
        if self.columns > 1 or self._bins_used() > 1:
            return None
        low, high = score_minus_share(self.pool.scores, self.pool.is_hit[:, 0], level, self.weights)
        return max(0.0, -high), max(0.0, -low)


class Net(Differences):
    """Σ (score − hit): an average, not an error, so its interval is that of an average."""

    def of_differences(self, differences: Tensor, n: float) -> Tensor:
        return differences.sum(dim=-1) / n

    def ends(self, level: float) -> tuple[float, float] | None:
        # For output, the scores of a row sum to 1 and so do its hits: the gap is 0, up to rounding.
        if self.columns > 1:
            return None
        return score_minus_share(self.pool.scores, self.pool.is_hit[:, 0], level, self.weights)


BY_NORM: dict[Norm, type[BinnedError]] = {1: MeanGap, 2: RootGap, "max": LargestGap}


class Classwise(RowSums, CalibrationError, Streamed):
    """One curve for each class, errors summed or averaged over the classes."""

    mostly_chance = True

    def __init__(self, claims: Claims, bins: Bins, *, divide_by: int) -> None:
        probabilities, labels = claims.probabilities, claims.labels
        self.p, self.labels, self.bins, self.divide_by = probabilities, labels, bins, divide_by
        self.weights, self.exclusive = claims.weights, claims.exclusive
        self.num_samples, self.columns, self.device = *probabilities.shape, labels.device
        self.needs_all = MASS_NEEDS_ALL if bins.from_scores else None

    @abstractmethod
    def of_curves(self, curves: ReliabilityCurve, n: float) -> Tensor:
        """The metric, of shape (…), of curves of shape (…, K, M) over n rows."""

    @property
    def width(self) -> int:
        return 3 * self.columns * self.bins.n_bins

    @property
    def of_one_row(self) -> float:
        heaviest = 1.0 if self.weights is None else float(self.weights.max())
        most = 2 if self.exclusive else self.columns  # one class loses a hit, another gains it
        return heaviest * most / (self.num_samples * self.divide_by)

    @property
    def can_redraw(self) -> bool:
        return self.labels.ndim == 1

    @property
    def at_most(self) -> float:
        return self.columns / self.divide_by  # at most 1 per class

    def value(self) -> float:
        return float(self.of_curves(self.curves(), self.num_samples))

    def curves(self) -> ReliabilityCurve:
        """The curve of each class, with sums of shape (K, M)."""
        return binning.class_curves(self.p, self.labels, self.bins, weights=self.weights)

    def totals(self, cells: int, into: Tensor | None = None) -> Tensor:
        curves = self.curves()
        return added(torch.stack([curves.count, curves.score_sum, curves.hit_sum]).flatten(), into)

    def read(self, totals: Tensor, num_samples: float) -> float:
        curves = ReliabilityCurve(self.bins.edges, *totals.view(3, self.columns, -1))
        return float(self.of_curves(curves, num_samples))

    def _places(self, part: slice) -> Tensor:
        column = torch.arange(self.p.shape[1], device=self.p.device) * self.bins.n_bins
        return binning.assign(self.p[part], self.bins).to(torch.int64) + column

    def _scores(self, part: slice) -> tuple[Tensor, Tensor, Tensor]:
        """The scores and the hits in their places, both (n, K·M), and the places."""
        place = self._places(part)
        scores = torch.zeros(len(place), self.columns * self.bins.n_bins, dtype=torch.float32, device=self.device)
        scores.scatter_(1, place, self.p[part].to(torch.float32))
        labels = self.labels[part]
        if labels.ndim == 2:
            return scores, torch.zeros_like(scores).scatter_(1, place, labels.to(torch.float32)), place
        return scores, torch.zeros_like(scores).scatter_(1, place.gather(1, labels[:, None]), 1.0), place

    def row_block(self, part: slice) -> Tensor:
        scores, hits, place = self._scores(part)
        return torch.cat([torch.zeros_like(scores).scatter_(1, place, 1.0), scores, hits], dim=1)

    def of(self, sums: Tensor) -> Tensor:
        count, score, hit = sums.view(len(sums), 3, self.p.shape[1], self.bins.n_bins).unbind(1)
        return self.of_curves(ReliabilityCurve(self.bins.edges, count, score, hit), self.num_samples)

    def adds_up_with(self, other: Statistic) -> bool:
        same = isinstance(other, Classwise) and type(self) is type(other)
        return same and torch.equal(self.bins.edges, other.bins.edges)  # type: ignore[attr-defined]

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        return _hits_scaled(sums, factor)

    def departures(self, sums: Tensor) -> Tensor:
        return _scores_minus_hits(sums)

    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        n, k = self.p.shape
        m = self.bins.n_bins
        curves = self.curves()
        pool = Pool(self.p.reshape(-1), self.labels, n, k)
        places = self._places(slice(None))
        values = []
        for drawn, _ in pool.redrawn(generator, times):
            own = places[torch.arange(n, device=drawn.device), drawn]
            flat = own + torch.arange(len(drawn), device=drawn.device)[:, None] * (k * m)
            size = len(drawn) * k * m
            w = None if self.weights is None else self.weights.expand(len(drawn), -1).reshape(-1)
            hits = torch.bincount(flat.reshape(-1), w, minlength=size).view(-1, k, m).cpu().to(torch.float64)
            redrawn = ReliabilityCurve(curves.edges, curves.count, curves.score_sum, hits)
            values.append(self.of_curves(redrawn, self.num_samples))
        return torch.cat(values)


class ClasswiseRoot(Classwise):
    """The root of each class's mean squared gap."""

    def of_curves(self, curves: ReliabilityCurve, n: float) -> Tensor:
        return curves.error(2, samples=n).sum(dim=-1) / self.divide_by


class ClasswiseLargest(Classwise):
    """The largest gap of each class."""

    def of_curves(self, curves: ReliabilityCurve, n: float) -> Tensor:
        return curves.error("max", samples=n).sum(dim=-1) / self.divide_by


class ClasswiseMean(Classwise):
    """The mean gap of each class, from scores minus hits."""

    _parted: tuple[Tensor, Tensor, Tensor, Tensor] | None = None

    def of_curves(self, curves: ReliabilityCurve, n: float) -> Tensor:
        return curves.error(1, samples=n).sum(dim=-1) / self.divide_by

    @property
    def width(self) -> int:
        return self.columns * self.bins.n_bins

    @property
    def at_most(self) -> float:
        return (2 if self.exclusive else self.columns) / self.divide_by

    @property
    def kept(self) -> Kept | None:
        return "groups" if self.needs_all is None else super().kept

    def by_group(self, dealt: Dealt, into: Tensor | None = None) -> Tensor:
        return _by_group(self.p, self._places(slice(None)), self.width, self.labels, dealt, into)

    def sums(self, weights: Tensor) -> Tensor:
        if self.labels.ndim == 2 or self.num_samples * (self.columns + 2 * self.bins.n_bins) > KEEP:
            return super().sums(weights)
        # A row sums to 1, so few of its scores lie above the first of equally wide bins: those are added one by
        # one, and only the first bins as a product.
        if self._parted is None:
            self._parted = self._first_and_others()
        first, row, column, score = self._parted
        total = torch.zeros(self.width, len(weights), device=self.device)
        total[:: self.bins.n_bins] = first.T @ weights.T
        lines = weights.T.contiguous()
        total.index_add_(0, column, lines.index_select(0, row).mul_(score[:, None]))
        return total.T.to(torch.float64)

    def _first_and_others(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scores minus hits: (N, K) for the first bins, and (row, column, number) for the others."""
        p, rows = self.p.to(torch.float32), torch.arange(self.num_samples, device=self.device)
        index = binning.assign(self.p, self.bins)
        above = index > 0
        row, k = above.nonzero(as_tuple=True)
        first = p.masked_fill(above, 0.0)
        own = above[rows, self.labels]
        first[rows[~own], self.labels[~own]] -= 1
        hit, label = rows[own], self.labels[own]
        places = [k * self.bins.n_bins + index[row, k], label * self.bins.n_bins + index[hit, label]]
        values = torch.cat([p[row, k], -torch.ones_like(label, dtype=torch.float32)])
        return first, torch.cat([row, hit]), torch.cat(places), values

    def row_block(self, part: slice) -> Tensor:
        scores, hits, _ = self._scores(part)
        return scores - hits

    def of(self, sums: Tensor) -> Tensor:
        size: Tensor = torch.linalg.vector_norm(sums, 1, dim=1)
        return size / (self.num_samples * self.divide_by)

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        return sums * factor

    def departures(self, sums: Tensor) -> Tensor:
        return sums


CLASSWISE_BY_NORM: dict[Norm, type[Classwise]] = {1: ClasswiseMean, 2: ClasswiseRoot, "max": ClasswiseLargest}


def _by_group(scores: Tensor, place: Tensor, width: int, labels: Tensor, dealt: Dealt, into: Tensor | None) -> Tensor:
    """Scores minus hits of each cell of each group, and hits minus those of the drawn labels, (2, groups, width)."""
    total = torch.zeros(2, dealt.num_groups, width, dtype=torch.float64) if into is None else into
    seen, difference = total.view(2, -1)
    cell = place + (dealt.group * width)[:, None]
    own, drawn = (cell.gather(1, label[:, None])[:, 0] for label in (labels, dealt.drawn))
    hit = torch.ones(len(own), dtype=torch.float64)
    seen.index_add_(0, cell.view(-1), scores.to(torch.float64).view(-1)).index_add_(0, own, hit, alpha=-1)
    difference.index_add_(0, own, hit).index_add_(0, drawn, hit, alpha=-1)
    return total


def _scores_minus_hits(sums: Tensor) -> Tensor:
    _, score, hit = sums.view(len(sums), 3, -1).unbind(dim=1)
    return score - hit


def _hits_scaled(sums: Tensor, factor: float | Tensor) -> Tensor:
    """Sums of counts, scores and hits, the hits moved towards the scores."""
    count, score, hit = sums.view(len(sums), 3, -1).unbind(dim=1)
    return torch.cat([count, score, score - factor * (score - hit)], dim=1)

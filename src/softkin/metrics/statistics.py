"""Metrics as statistics of rows: what resampling, swapping models and redrawing labels need of them.

Every metric is one subclass: ``value`` is the number itself, ``sums`` and ``of`` give it for many weightings of the
rows at once, ``redrawn`` for many sets of labels drawn from the scores.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from softkin import binning, density
from softkin.binning import Bins, Norm, ReliabilityCurve
from softkin.density import Boundary
from softkin.metrics.scopes import Per, Pool
from softkin.metrics.shares import wilson

BLOCK = 2**23  # numbers in a temporary of the resampling: 64 MB of float64
KEEP = 2**27  # rows times their width that are kept between blocks of resamples: half a gigabyte of float32


Kind = Literal["error", "mean", "share"]
BinnedNorm = Norm | Literal["debiased", "over", "under", "net"]


class Statistic(ABC):
    """A metric of N rows."""

    kind: ClassVar[Kind]
    """"error": not negative, 0 if calibrated, biased upwards; "mean": an average; "share": an average of 0 and 1"""
    num_samples: int
    device: torch.device

    @property
    def of_one_row(self) -> float:
        """The most that the label of a single row can change the value."""
        return 1 / self.num_samples

    @abstractmethod
    def value(self) -> float:
        """The metric of the data as they are."""

    @abstractmethod
    def sums(self, weights: Tensor) -> Tensor:
        """(r, F): the sums behind the metric with rows weighted by each line of (r, N) ``weights``."""

    @abstractmethod
    def of(self, sums: Tensor) -> Tensor:
        """(r,): the metric of each line of sums; for weights that add up to N."""

    def size(self, sums: Tensor) -> Tensor:
        """(r,): the true error of a population with such sums; ``of`` estimates it from a sample. For errors only."""
        return self.of(sums)

    def straightened(self, sums: Tensor) -> Tensor | None:
        """The sums of data whose departure is a straight line in the score; None where there are no bins to line up."""
        return None

    def ends(self, level: float) -> tuple[float, float] | None:
        """The ends of the confidence interval where a formula gives them; None where resampling does."""
        return None

    def adds_up_with(self, other: "Statistic") -> bool:
        """Whether this one's sums and the other's have the same meaning, so that rows can change sides."""
        return type(self) is type(other)

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        """The sums of data whose departure from calibration is ``factor`` times as large; for errors only.

        A tensor of factors, as ``departures`` are shaped, scales each of these by its own.
        """
        return sums * factor

    def departures(self, sums: Tensor) -> Tensor:
        """(r, D): the numbers among the sums that are 0 in expectation under calibration; for errors only."""
        return sums

    def probe(self, value: float) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        """(a linear map of sums, a function of what it gives) that is at least ``value`` just where the metric is.

        For metrics that are dear to compute, but easily compared with one number.
        """
        return (lambda sums: sums), self.of

    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        """(times,): the metric with labels drawn from the scores; for calibration errors only."""
        raise TypeError("labels redrawn from the scores say something of calibration errors only.")


class Mean(Statistic):
    """The average of one number for each row."""

    kind: ClassVar[Kind] = "mean"

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows.to(torch.float64)
        self.num_samples, self.device = len(rows), rows.device

    def value(self) -> float:
        return float(self.rows.mean())

    def sums(self, weights: Tensor) -> Tensor:
        # Infinite rows (log 0) would turn weight 0 into NaN.
        infinite = self.rows.isinf()
        total = weights.to(torch.float64) @ torch.where(infinite, 0.0, self.rows)
        if bool(infinite.any()):
            total = torch.where(weights[:, infinite].sum(dim=1) > 0, self.rows[infinite][0], total)
        return total[:, None]

    def of(self, sums: Tensor) -> Tensor:
        return sums[:, 0] / self.num_samples


class Share(Mean):
    """The share of rows for which something holds."""

    kind: ClassVar[Kind] = "share"

    def ends(self, level: float) -> tuple[float, float]:
        return wilson(self.value(), self.num_samples, level)


class Ratio(Statistic):
    """Σ a / Σ b over the rows."""

    kind: ClassVar[Kind] = "mean"

    def __init__(self, above: Tensor, below: Tensor) -> None:
        self.rows = torch.stack([above, below], dim=1).to(torch.float64)
        self.num_samples, self.device = len(self.rows), self.rows.device

    def value(self) -> float:
        above, below = self.rows.sum(dim=0).tolist()
        return above / below if below else math.nan

    def sums(self, weights: Tensor) -> Tensor:
        return weights.to(torch.float64) @ self.rows

    def of(self, sums: Tensor) -> Tensor:
        return sums[:, 0] / sums[:, 1]


class RowSums(Statistic):
    """A statistic of sums of long rows, in float32: 1e-6 of a sum is nothing beside its spread over resamples."""

    width: int
    """F, numbers in a row"""
    columns: int
    """Scores in a row"""
    _kept: Tensor | None = None

    @abstractmethod
    def row_block(self, part: slice) -> Tensor:
        """(n, F) what some of the rows bring."""

    def sums(self, weights: Tensor) -> Tensor:
        if self.num_samples * self.width <= KEEP:
            if self._kept is None:
                self._kept = torch.cat([self.row_block(part).to(torch.float32) for part in self._parts()])
            return (weights @ self._kept).to(torch.float64)
        total = torch.zeros(len(weights), self.width, dtype=torch.float64, device=self.device)
        for part in self._parts():
            total += weights[:, part] @ self.row_block(part).to(torch.float32)
        return total

    def _parts(self) -> list[slice]:
        step = max(1, BLOCK // max(self.width, self.columns))
        return [slice(start, start + step) for start in range(0, self.num_samples, step)]


class Binned(RowSums):
    """What one reliability curve yields: an ECE of any norm, the debiased one, or a part of the signed gap."""

    kind: ClassVar[Kind] = "error"

    def __init__(
        self,
        pool: Pool,
        bins: Bins,
        *,
        norm: BinnedNorm = 1,
        per: Per = "sample",
    ) -> None:
        self.pool, self.bins, self.norm = pool, bins, norm
        self.num_samples, self.columns, self.device = pool.num_samples, pool.columns, pool.scores.device
        self.denominator = pool.denominator(per)
        self.width = bins.n_bins * (1 if self._by_difference else 3)

    @property
    def of_one_row(self) -> float:
        return _hits_in_a_row(self.pool) / self.denominator

    def curve(self) -> ReliabilityCurve:
        """The curve itself."""
        return binning.curve(self.pool.scores, self.pool.hits, self.bins)

    def value(self) -> float:
        return float(self.of_curve(self.curve(), self.norm, self.denominator))

    @staticmethod
    def of_curve(curve: ReliabilityCurve, norm: BinnedNorm, n: float) -> Tensor:
        """The number that a curve yields, its sums divided by n."""
        difference = curve.score_sum - curve.hit_sum
        if norm == "net":
            return difference.sum(dim=-1) / n
        if norm == "over" or norm == "under":
            return (difference if norm == "over" else -difference).clamp(min=0).sum(dim=-1) / n
        if norm == "debiased":
            # Var(lik) of a bin is estimated by lik(1 − lik)/(|B| − 1); a bin of one score tells nothing of it.
            count = curve.count
            lik = curve.hit_sum / count.clamp(min=1)
            square = difference.square() / count.clamp(min=1) - count * lik * (1 - lik) / (count - 1).clamp(min=1)
            return (torch.where(count > 1, square, 0.0).sum(dim=-1) / n).clamp(min=0).sqrt()
        return curve.error(norm, samples=n)

    def _of_sums(self, count: Tensor, score_sum: Tensor, hit_sum: Tensor) -> Tensor:
        curve = ReliabilityCurve(self.bins.edges, count, score_sum, hit_sum)
        return self.of_curve(curve, self.norm, self.denominator)

    @property
    def _by_difference(self) -> bool:
        # Most need only the scores minus the hits of each bin, a third of the work.
        return self.norm in (1, "over", "under", "net")

    def row_block(self, part: slice) -> Tensor:
        rows = self._row_sums(part)
        return rows[1] - rows[2] if self._by_difference else rows.transpose(0, 1).flatten(1)

    def _row_sums(self, part: slice) -> Tensor:
        """(3, n, M): count, scores and hits that each row brings to each bin."""
        scores = self.pool.rows[part].to(torch.float64)
        index = binning.assign(scores.flatten(), self.bins).view(scores.shape).to(torch.int64)
        rows = torch.zeros(3, len(scores), self.bins.n_bins, dtype=torch.float64, device=scores.device)
        rows[0].scatter_add_(1, index, torch.ones_like(scores))
        rows[1].scatter_add_(1, index, scores)
        rows[2].scatter_add_(1, index, self.pool.is_hit[part])
        return rows

    def rows_in_bins(self) -> Tensor:
        """(M,): how many rows have scores in each bin."""
        return torch.stack([(self._row_sums(part)[0] > 0).sum(dim=0) for part in self._parts()]).sum(dim=0)

    def of(self, sums: Tensor) -> Tensor:
        if self._by_difference:
            return self._of_sums(sums, sums, torch.zeros_like(sums))
        return self._of_sums(*sums.view(len(sums), 3, -1).unbind(dim=1))

    def size(self, sums: Tensor) -> Tensor:
        if self.norm != "debiased":
            return self.of(sums)
        # A population has no chance to take off.
        curve = ReliabilityCurve(self.bins.edges, *sums.view(len(sums), 3, -1).unbind(dim=1))
        return curve.error(2, samples=self.denominator)

    def adds_up_with(self, other: Statistic) -> bool:
        return isinstance(other, Binned) and torch.equal(self.bins.edges, other.bins.edges)

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        return sums * factor if self._by_difference else _hits_scaled(sums, factor)

    def departures(self, sums: Tensor) -> Tensor:
        return sums if self._by_difference else _scores_minus_hits(sums)

    def straightened(self, sums: Tensor) -> Tensor:
        curve = self.curve()
        count, score = (part.to(sums.device) for part in (curve.count, curve.score_sum))
        off = self.departures(sums)[0]
        # Σ count (gap − α − β (conf − mean))² is least for these α and β.
        conf = score / count.clamp(min=1) - score.sum() / count.sum()
        slope = (off * conf).sum() / (count * conf * conf).sum().clamp(min=1e-12)
        line = count * (off.sum() / count.sum() + slope * conf)
        return line[None] if self._by_difference else torch.cat([count, score, score - line])[None]

    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        pool, m = self.pool, self.bins.n_bins
        rows = self._row_sums(slice(None))
        count, score_sum = rows[:2].sum(dim=1)
        if pool.columns == 1:
            member = rows[0].to(torch.float32)
            hits = [hit.to(torch.float32) @ member for _, hit in pool.redrawn(generator, times)]  # whole numbers: exact
            return self._of_sums(count, score_sum, torch.cat(hits).to(torch.float64))
        # Only the bin of the drawn label's score matters: drawn from each row's mass in the bins, not in the classes.
        mass = Pool(rows[1].flatten(), pool.hits, pool.num_samples, m)
        values = []
        for drawn, _ in mass.redrawn(generator, times):
            flat = drawn + m * torch.arange(len(drawn), device=drawn.device)[:, None]
            hits_in = torch.bincount(flat.reshape(-1), minlength=len(drawn) * m).view(len(drawn), m).to(rows)
            values.append(self._of_sums(count, score_sum, hits_in))
        return torch.cat(values)


class Classwise(RowSums):
    """One curve for each class, errors summed or averaged over the classes."""

    kind: ClassVar[Kind] = "error"

    _parted: tuple[Tensor, Tensor, Tensor, Tensor] | None = None

    def __init__(self, probabilities: Tensor, labels: Tensor, bins: Bins, *, norm: Norm, divide_by: int) -> None:
        self.p, self.labels, self.bins, self.norm, self.divide_by = probabilities, labels, bins, norm, divide_by
        self.num_samples, self.columns, self.device = *probabilities.shape, labels.device
        self.width = probabilities.shape[1] * bins.n_bins * (1 if norm == 1 else 3)

    @property
    def of_one_row(self) -> float:
        return 2 / (self.num_samples * self.divide_by)  # one class loses a hit, another gains it

    def value(self) -> float:
        return float(self.of_curves(binning.class_curves(self.p, self.labels, self.bins)))

    def of_curves(self, curves: ReliabilityCurve) -> Tensor:
        """(…): the number that curves of shape (…, K, M) yield."""
        return curves.error(self.norm, samples=self.num_samples).sum(dim=-1) / self.divide_by

    def _places(self, part: slice) -> Tensor:
        column = torch.arange(self.p.shape[1], device=self.p.device) * self.bins.n_bins
        return binning.assign(self.p[part], self.bins).to(torch.int64) + column

    def sums(self, weights: Tensor) -> Tensor:
        if self.norm != 1 or self.num_samples * (self.columns + 2 * self.bins.n_bins) > KEEP:
            return super().sums(weights)
        # A row sums to 1, so that few of its scores are above the first of equally wide bins: those are added one by
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
        """Scores minus hits: (N, K) of the first bins, and (row, column, number) of the others."""
        p, every = self.p.to(torch.float32), torch.arange(self.num_samples, device=self.device)
        index = binning.assign(self.p, self.bins)
        above = index > 0
        row, k = above.nonzero(as_tuple=True)
        first = p.masked_fill(above, 0.0)
        own = above[every, self.labels]
        first[every[~own], self.labels[~own]] -= 1
        hit, label = every[own], self.labels[own]
        places = [k * self.bins.n_bins + index[row, k], label * self.bins.n_bins + index[hit, label]]
        values = torch.cat([p[row, k], -torch.ones_like(label, dtype=torch.float32)])
        return first, torch.cat([row, hit]), torch.cat(places), values

    def row_block(self, part: slice) -> Tensor:
        place = self._places(part)
        n, size = len(place), self.p.shape[1] * self.bins.n_bins
        own = place.gather(1, self.labels[part, None])
        scores = torch.zeros(n, size, dtype=torch.float32, device=self.device)
        scores.scatter_(1, place, self.p[part].to(torch.float32))
        if self.norm == 1:
            return scores.scatter_add_(1, own, -torch.ones_like(own, dtype=torch.float32))
        count, hits = torch.zeros_like(scores).scatter_(1, place, 1.0), torch.zeros_like(scores).scatter_(1, own, 1.0)
        return torch.cat([count, scores, hits], dim=1)

    def of(self, sums: Tensor) -> Tensor:
        if self.norm == 1:
            size: Tensor = torch.linalg.vector_norm(sums, 1, dim=1)
            return size / (self.num_samples * self.divide_by)
        count, score, hit = sums.view(len(sums), 3, self.p.shape[1], self.bins.n_bins).unbind(1)
        return self.of_curves(ReliabilityCurve(self.bins.edges, count, score, hit))

    def adds_up_with(self, other: Statistic) -> bool:
        return isinstance(other, Classwise) and torch.equal(self.bins.edges, other.bins.edges)

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        return sums * factor if self.norm == 1 else _hits_scaled(sums, factor)

    def departures(self, sums: Tensor) -> Tensor:
        return sums if self.norm == 1 else _scores_minus_hits(sums)

    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        n, k = self.p.shape
        m = self.bins.n_bins
        curves = binning.class_curves(self.p, self.labels, self.bins)
        every = Pool(self.p.reshape(-1), self.labels, n, k)
        places = self._places(slice(None))
        values = []
        for drawn, _ in every.redrawn(generator, times):
            own = places[torch.arange(n, device=drawn.device), drawn]
            flat = own + torch.arange(len(drawn), device=drawn.device)[:, None] * (k * m)
            size = len(drawn) * k * m
            hits = torch.bincount(flat.reshape(-1), minlength=size).view(-1, k, m).cpu().to(torch.float64)
            values.append(self.of_curves(ReliabilityCurve(curves.edges, curves.count, curves.score_sum, hits)))
        return torch.cat(values)


class Kernel(RowSums):
    """The KDE ECE; resampled with the bandwidth of the data as they are."""

    kind: ClassVar[Kind] = "error"
    NODES_PER_RADIUS = 8  # for resampling: the integral to about 1e-4 of itself, far below its spread
    CELLS_PER_RADIUS = 32  # for redrawn labels
    MOST_NODES = 2**17

    def __init__(self, pool: Pool, radius: float, boundary: Boundary, *, per: Per) -> None:
        self.pool, self.radius, self.boundary = pool, radius, boundary
        self.num_samples, self.columns, self.device = pool.num_samples, pool.columns, pool.scores.device
        self.scale = len(pool.scores) / pool.denominator(per)
        self.width = math.ceil(self.NODES_PER_RADIUS / radius) + 1 if radius else 1
        self._smoothing: Tensor | None = None
        self._phi: Tensor | None = None

    @property
    def of_one_row(self) -> float:
        return self.scale * _hits_in_a_row(self.pool) / len(self.pool.scores)

    def value(self) -> float:
        return self.scale * density.calibration_error(self.pool.scores, self.pool.hits, self.radius, self.boundary)

    def adds_up_with(self, other: Statistic) -> bool:
        return isinstance(other, Kernel) and self.radius == other.radius  # a bandwidth that was given

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        # Calibrated scores have D ≠ 0 as well: what smoothing does to them. Only what departs from that is scaled.
        return self._calibrated() + factor * (sums - self._calibrated())

    def departures(self, sums: Tensor) -> Tensor:
        return sums - self._calibrated()

    def _calibrated(self) -> Tensor:
        """The sums of calibrated scores."""
        kernels = self._kernels()
        if self._smoothing is None and kernels is not None:
            one = torch.ones(1, self.num_samples, device=self.device)
            self._smoothing = self._at_nodes(kernels, one, self.pool.scores.to(torch.float32)[None])
        if self._smoothing is None:
            total = torch.zeros(1, self.width, dtype=torch.float64, device=self.device)
            for part in self._parts() if self.radius else []:
                scores = self.pool.rows[part].to(torch.float64)
                rows = density.kernel_rows(scores, scores, self.radius, self.boundary, self.width)
                total += rows.sum(dim=0)
            self._smoothing = total
        return self._smoothing

    def _kernels(self) -> Tensor | None:
        """(N, nodes) φ alone, where a row has one score and all fit: a row of D is (x − y)·φ for any hit y."""
        if self.columns > 1 or self.radius == 0 or self.num_samples * self.width > KEEP:
            return None
        if self._phi is None:
            scores = self.pool.rows
            self._phi = density.kernel_rows(scores, None, self.radius, self.boundary, self.width).to(torch.float32)
        return self._phi

    def _at_nodes(self, kernels: Tensor, weights: Tensor, hits: Tensor) -> Tensor:
        """Σ (x − y) φ over the rows, (r, nodes)."""
        x = torch.linspace(0, 1, self.width, dtype=torch.float64, device=self.device)
        return x * (weights @ kernels).to(torch.float64) - (hits @ kernels).to(torch.float64)

    @property
    def resolvable(self) -> bool:
        """Whether the bandwidth is wide enough for the nodes of resampling."""
        return self.width <= self.MOST_NODES

    def _resolvable(self) -> None:
        if not self.resolvable:
            raise ValueError(
                f"the interval of a KDE needs a bandwidth of at least {self.NODES_PER_RADIUS / self.MOST_NODES:.2g}, "
                f"and these scores give {self.radius:.2g}; pass bandwidth=."
            )

    def sums(self, weights: Tensor) -> Tensor:
        self._resolvable()
        return super().sums(weights)

    def row_block(self, part: slice) -> Tensor:
        scores, hits = self.pool.rows[part], self.pool.is_hit[part]
        kernels = self._kernels()
        if kernels is not None:
            return kernels[part] * (torch.linspace(0, 1, self.width, device=self.device) - hits.to(torch.float32))
        if self.radius == 0:
            return (scores.to(torch.float64) - hits).sum(dim=1, keepdim=True)
        return density.kernel_rows(scores, hits, self.radius, self.boundary, self.width)

    def of(self, sums: Tensor) -> Tensor:
        size = self.scale / len(self.pool.scores)
        if self.radius == 0:
            return sums[:, 0].abs() * size
        inner = sums.abs()
        return (inner.sum(dim=1) - (inner[:, 0] + inner[:, -1]) / 2) / (sums.shape[1] - 1) * size

    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        pool = self.pool
        if self.radius == 0:
            hits = torch.cat([hit.sum(dim=1) for _, hit in pool.redrawn(generator, times)])
            return (pool.scores.sum(dtype=torch.float64) - hits).abs() * (self.scale / len(pool.scores))
        self._resolvable()
        kernels = self._kernels()
        if kernels is not None:
            one = torch.ones(1, self.num_samples, device=self.device)
            drawn_hits = (hit.to(torch.float32) for _, hit in pool.redrawn(generator, times))
            return torch.cat([self.of(self._at_nodes(kernels, one, hits)) for hits in drawn_hits])
        size = math.ceil(self.CELLS_PER_RADIUS / self.radius)
        everything = density.cells(pool.scores, size)
        values = []
        for drawn, hit in pool.redrawn(generator, times):
            own = pool.rows.to(torch.float64)[torch.arange(pool.num_samples, device=drawn.device), drawn]
            for line, mask in zip(own, hit, strict=True):
                hits = density.cells(line[mask], size)
                values.append(density.integrals(everything, hits, len(pool.scores), self.radius, self.boundary))
        return self.scale * torch.stack(values)


class Smooth(RowSums):
    """The smooth ECE, at the bandwidth that equals it."""

    kind: ClassVar[Kind] = "error"
    STEPS = 256  # nodes for resampling, where 1e-3 of the value is enough
    width = STEPS + 1

    def __init__(self, pool: Pool, *, per: Per) -> None:
        self.pool = pool
        self.num_samples, self.columns, self.device = pool.num_samples, pool.columns, pool.scores.device
        self.denominator = pool.denominator(per)

    @property
    def of_one_row(self) -> float:
        return _hits_in_a_row(self.pool) / self.denominator

    def value(self) -> float:
        residuals = self.pool.scores.to(torch.float64)
        residuals = residuals.index_add(0, self.pool.hits, -torch.ones_like(residuals[: len(self.pool.hits)]))
        for steps in (2**12, 2**16):
            at_nodes = density.residuals_at_nodes(self.pool.scores, residuals, steps)
            sigma = density.fixed_point(density.smoothed_error(at_nodes, self.denominator), at_nodes[0])
            if float(sigma) * steps >= 64:  # sharing between two nodes errs by (1/64)²/8 of the kernel, 3e-5
                break
        return float(sigma)

    def row_block(self, part: slice) -> Tensor:
        scores = self.pool.rows[part].to(torch.float64)
        return _shared(scores, scores - self.pool.is_hit[part], self.STEPS)

    def of(self, sums: Tensor) -> Tensor:
        return density.fixed_point(density.smoothed_error(sums, self.denominator), sums[:, 0], tolerance=1e-5)

    def probe(self, value: float) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        # smECE_σ falls with σ and meets the diagonal once, so smECE ≥ v just where smECE_v ≥ v.
        sigma = torch.tensor(value, dtype=torch.float64, device=self.device)
        return (lambda sums: density.smoothed(sums, self.denominator, sigma)), density.absolute_sum

    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        pool = self.pool
        rows = pool.rows.to(torch.float64)
        fixed = density.residuals_at_nodes(pool.scores, pool.scores.to(torch.float64), self.STEPS)
        values = []
        for drawn, hit in pool.redrawn(generator, times):
            own = rows[torch.arange(pool.num_samples, device=drawn.device), drawn]
            values.append(self.of(fixed - _shared(own, hit.to(torch.float64), self.STEPS)))
        return torch.cat(values)


def _hits_in_a_row(pool: Pool) -> int:
    """How many scores of a row another label makes hits, or no longer hits."""
    return 1 if pool.columns == 1 else 2


def _scores_minus_hits(sums: Tensor) -> Tensor:
    _, score, hit = sums.view(len(sums), 3, -1).unbind(dim=1)
    return score - hit


def _hits_scaled(sums: Tensor, factor: float | Tensor) -> Tensor:
    """Sums of counts, scores and hits, the hits moved towards the scores."""
    count, score, hit = sums.view(len(sums), 3, -1).unbind(dim=1)
    return torch.cat([count, score, score - factor * (score - hit)], dim=1)


def _shared(scores: Tensor, weights: Tensor, steps: int) -> Tensor:
    """(r, steps + 1): each line's weights shared between the nodes around their scores."""
    place = scores * steps
    index = place.to(torch.int64).clamp_(max=steps - 1)
    right = (place - index) * weights
    total = torch.zeros(len(scores), steps + 1, dtype=torch.float64, device=scores.device)
    return total.scatter_add_(1, index + 1, right).scatter_add_(1, index, weights - right)

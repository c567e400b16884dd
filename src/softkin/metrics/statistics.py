"""Metrics as statistics of rows: what resampling, swapping models and redrawing labels need of them.

Every metric is one subclass: ``value`` is the number itself, ``sums`` and ``of`` give it for many weightings of the
rows at once, ``redrawn`` for many sets of labels drawn from the scores.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor

from softkin import binning, density
from softkin.binning import Bins, Norm, ReliabilityCurve
from softkin.density import Boundary
from softkin.metrics.scopes import Per, Pool

BLOCK = 2**24  # numbers in a temporary of the resampling: 128 MB of float64


class Statistic(ABC):
    """A metric of N rows."""

    kind: ClassVar[Literal["error", "mean", "share"]]
    """"error": not negative, 0 if calibrated, biased upwards; "mean": an average; "share": an average of 0 and 1"""
    num_samples: int
    device: torch.device

    @abstractmethod
    def value(self) -> float:
        """The metric of the data as they are."""

    @abstractmethod
    def sums(self, weights: Tensor) -> Tensor:
        """(r, F): the sums behind the metric with rows weighted by each line of (r, N) ``weights``."""

    @abstractmethod
    def of(self, sums: Tensor) -> Tensor:
        """(r,): the metric of each line of sums; for weights that add up to N."""

    def adds_up_with(self, other: "Statistic") -> bool:
        """Whether this one's sums and the other's have the same meaning, so that rows can change sides."""
        return type(self) is type(other)

    def scaled(self, sums: Tensor, factor: float) -> Tensor:
        """The sums of data whose departure from calibration is ``factor`` times as large; for errors only."""
        return sums * factor

    def redrawn(self, generator: torch.Generator, times: int) -> Tensor:
        """(times,): the metric with labels drawn from the scores; for calibration errors only."""
        raise TypeError("labels redrawn from the scores say something of calibration errors only.")


class Mean(Statistic):
    """The average of one number for each row."""

    kind = "mean"

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

    kind = "share"


class Ratio(Statistic):
    """Σ a / Σ b over the rows."""

    kind = "mean"

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


class Binned(Statistic):
    """What one reliability curve yields: an ECE of any norm, the debiased one, or a part of the signed gap."""

    kind = "error"

    def __init__(
        self,
        pool: Pool,
        bins: Bins,
        *,
        norm: Norm | Literal["debiased", "over", "under", "net"] = 1,
        per: Per = "sample",
    ) -> None:
        self.pool, self.bins, self.norm = pool, bins, norm
        self.num_samples, self.device = pool.num_samples, pool.scores.device
        self.denominator = pool.denominator(per)
        self._rows: Tensor | None = None

    def curve(self) -> ReliabilityCurve:
        """The curve itself."""
        return binning.curve(self.pool.scores, self.pool.hits, self.bins)

    def value(self) -> float:
        curve = self.curve()
        return float(self._of_curve(curve.count, curve.score_sum, curve.hit_sum))

    def _of_curve(self, count: Tensor, score_sum: Tensor, hit_sum: Tensor) -> Tensor:
        n = self.denominator
        difference = score_sum - hit_sum
        if self.norm == "net":
            return difference.sum(dim=-1) / n
        if self.norm in ("over", "under"):
            return (difference if self.norm == "over" else -difference).clamp(min=0).sum(dim=-1) / n
        if self.norm == "debiased":
            # Var(lik) of a bin is estimated by lik(1 − lik)/(|B| − 1); a bin of one score tells nothing of it.
            lik = hit_sum / count.clamp(min=1)
            square = difference.square() / count.clamp(min=1) - count * lik * (1 - lik) / (count - 1).clamp(min=1)
            return (torch.where(count > 1, square, 0.0).sum(dim=-1) / n).clamp(min=0).sqrt()
        return ReliabilityCurve(self.bins.edges, count, score_sum, hit_sum).error(self.norm, samples=n)  # type: ignore[arg-type]

    def _row_sums(self) -> Tensor:
        """(N, 3, M): count, scores and hits that each row brings to each bin."""
        if self._rows is None:
            pool, m = self.pool, self.bins.n_bins
            n = pool.num_samples
            index = binning.assign(pool.scores, self.bins).view(n, pool.columns).to(torch.int64)
            scores = pool.rows.to(torch.float64)
            rows = torch.zeros(3, n, m, dtype=torch.float64, device=scores.device)
            rows[0].scatter_add_(1, index, torch.ones_like(scores))
            rows[1].scatter_add_(1, index, scores)
            rows[2].scatter_add_(1, index, pool.is_hit)
            self._rows = rows.transpose(0, 1).contiguous()
        return self._rows

    @property
    def _by_difference(self) -> bool:
        return self.norm in (1, "over", "under", "net")

    def sums(self, weights: Tensor) -> Tensor:
        rows = self._row_sums()
        # Most need only the scores minus the hits of each bin, a third of the work.
        rows = rows[:, 1] - rows[:, 2] if self._by_difference else rows.flatten(1)
        return weights.to(rows.dtype) @ rows

    def of(self, sums: Tensor) -> Tensor:
        if self._by_difference:
            return self._of_curve(sums, sums, torch.zeros_like(sums))
        return self._of_curve(*sums.view(len(sums), 3, -1).unbind(dim=1))

    def adds_up_with(self, other: Statistic) -> bool:
        return isinstance(other, Binned) and torch.equal(self.bins.edges, other.bins.edges)

    def scaled(self, sums: Tensor, factor: float) -> Tensor:
        return sums * factor if self._by_difference else _hits_scaled(sums, factor)

    def redrawn(self, generator: torch.Generator, times: int) -> Tensor:
        pool, m = self.pool, self.bins.n_bins
        rows = self._row_sums()
        count, score_sum = rows[:, :2].sum(dim=0)
        if pool.columns == 1:
            _, hit = pool.redrawn(generator, times)
            hits = hit.to(torch.float32) @ rows[:, 0].to(torch.float32)  # whole numbers below 2^24: exact
            return self._of_curve(count, score_sum, hits.to(torch.float64))
        # Only the bin of the drawn label's score matters: drawn from each row's mass in the bins, not in the classes.
        cumulative = rows[:, 1].cpu().cumsum(dim=1)
        u = torch.rand(len(rows), times, generator=generator, dtype=torch.float64) * cumulative[:, -1:]
        drawn = torch.searchsorted(cumulative, u, right=True).clamp_(max=m - 1)
        flat = (drawn + m * torch.arange(times)).reshape(-1)
        hits = torch.bincount(flat, minlength=times * m).view(times, m).to(rows)
        return self._of_curve(count, score_sum, hits)


class Classwise(Statistic):
    """One curve for each class, errors summed or averaged over the classes."""

    kind = "error"

    def __init__(self, probabilities: Tensor, labels: Tensor, bins: Bins, *, norm: Norm, divide_by: int) -> None:
        self.p, self.labels, self.bins, self.norm, self.divide_by = probabilities, labels, bins, norm, divide_by
        self.num_samples, self.device = len(labels), labels.device
        self._index: Tensor | None = None

    def value(self) -> float:
        curves = binning.class_curves(self.p, self.labels, self.bins)
        return float(curves.error(self.norm).sum()) / self.divide_by

    def _places(self) -> Tensor:
        if self._index is None:
            column = torch.arange(self.p.shape[1], device=self.p.device) * self.bins.n_bins
            self._index = binning.assign(self.p, self.bins).to(torch.int64) + column
        return self._index

    def sums(self, weights: Tensor) -> Tensor:
        n, k = self.p.shape
        m = self.bins.n_bins
        index = self._places()
        total = torch.zeros(len(weights), 3, k * m, dtype=torch.float64, device=self.p.device)
        # Dense blocks of rows: the product is fast, and memory stays bounded for any N and K.
        step = max(1, BLOCK // (3 * k * m))
        for start in range(0, n, step):
            part = slice(start, start + step)
            place = index[part]
            block = torch.zeros(3, len(place), k * m, dtype=torch.float64, device=self.p.device)
            scores = self.p[part].to(torch.float64)
            block[0].scatter_(1, place, 1.0)
            block[1].scatter_(1, place, scores)
            block[2].scatter_(1, place.gather(1, self.labels[part, None]), 1.0)
            if self.norm == 1:
                total[:, 1] += weights[:, part].to(torch.float64) @ (block[1] - block[2])
            else:
                total += torch.einsum("rn,cnf->rcf", weights[:, part].to(torch.float64), block)
        return total.flatten(1)

    def of(self, sums: Tensor) -> Tensor:
        parts = sums.view(len(sums), 3, self.p.shape[1], self.bins.n_bins)
        curve = ReliabilityCurve(self.bins.edges, parts[:, 0], parts[:, 1], parts[:, 2])
        return curve.error(self.norm, samples=self.num_samples).sum(dim=-1) / self.divide_by

    def adds_up_with(self, other: Statistic) -> bool:
        return isinstance(other, Classwise) and torch.equal(self.bins.edges, other.bins.edges)

    def scaled(self, sums: Tensor, factor: float) -> Tensor:
        return _hits_scaled(sums, factor)

    def redrawn(self, generator: torch.Generator, times: int) -> Tensor:
        n, k = self.p.shape
        m = self.bins.n_bins
        curves = binning.class_curves(self.p, self.labels, self.bins)
        every = Pool(self.p.reshape(-1), self.labels, n, k)
        values = []
        for some in _portions(times, n + k * m):
            drawn, _ = every.redrawn(generator, some)
            places = self._places()[torch.arange(n, device=self.p.device), drawn]
            flat = places + torch.arange(some, device=self.p.device)[:, None] * (k * m)
            hits = torch.bincount(flat.reshape(-1), minlength=some * k * m).view(some, k, m).cpu().to(torch.float64)
            curve = ReliabilityCurve(curves.edges, curves.count, curves.score_sum, hits)
            values.append(curve.error(self.norm, samples=n).sum(dim=-1) / self.divide_by)
        return torch.cat(values)


class Kernel(Statistic):
    """The KDE ECE; resampled with the bandwidth of the data as they are."""

    kind = "error"
    NODES_PER_RADIUS = 8  # for resampling: the integral to about 1e-4 of itself, far below its spread
    CELLS_PER_RADIUS = 32  # for redrawn labels

    def __init__(self, pool: Pool, radius: float, boundary: Boundary, *, per: Per) -> None:
        self.pool, self.radius, self.boundary = pool, radius, boundary
        self.num_samples, self.device = pool.num_samples, pool.scores.device
        self.scale = len(pool.scores) / pool.denominator(per)

    def value(self) -> float:
        return self.scale * density.calibration_error(
            self.pool.scores, self.pool.hits, self.radius, self.boundary
        )

    def adds_up_with(self, other: Statistic) -> bool:
        return isinstance(other, Kernel) and self.radius == other.radius  # a bandwidth that was given

    def sums(self, weights: Tensor) -> Tensor:
        pool = self.pool
        if self.radius == 0:
            difference = (pool.rows.to(torch.float64) - pool.is_hit).sum(dim=1)
            return (weights.to(torch.float64) @ difference)[:, None]
        nodes = math.ceil(self.NODES_PER_RADIUS / self.radius) + 1
        total = torch.zeros(len(weights), nodes, dtype=torch.float64, device=pool.scores.device)
        hits = pool.is_hit
        step = max(1, BLOCK // 2 // max(nodes, pool.columns))
        for start in range(0, pool.num_samples, step):
            part = slice(start, start + step)
            rows = density.kernel_rows(pool.rows[part], hits[part], self.radius, self.boundary, nodes)
            total += weights[:, part].to(torch.float64) @ rows
        return total

    def of(self, sums: Tensor) -> Tensor:
        size = self.scale / len(self.pool.scores)
        if self.radius == 0:
            return sums[:, 0].abs() * size
        inner = sums.abs()
        return (inner.sum(dim=1) - (inner[:, 0] + inner[:, -1]) / 2) / (sums.shape[1] - 1) * size

    def redrawn(self, generator: torch.Generator, times: int) -> Tensor:
        pool = self.pool
        if self.radius == 0:
            _, hit = pool.redrawn(generator, times)
            gap = pool.scores.sum(dtype=torch.float64) - hit.sum(dim=1)
            return gap.abs() * (self.scale / len(pool.scores))
        size = math.ceil(self.CELLS_PER_RADIUS / self.radius)
        everything = density.cells(pool.scores, size)
        values = []
        for some in _portions(times, 6 * size + pool.num_samples):
            drawn, hit = pool.redrawn(generator, some)
            own = pool.rows.to(torch.float64)[torch.arange(pool.num_samples, device=drawn.device), drawn]
            hits = torch.stack([density.cells(line[mask], size) for line, mask in zip(own, hit, strict=True)])
            values.append(density.integrals(everything, hits, len(pool.scores), self.radius, self.boundary))
        return self.scale * torch.cat(values)


class Smooth(Statistic):
    """The smooth ECE, at the bandwidth that equals it."""

    kind = "error"
    STEPS = 512  # nodes for resampling, where 1e-3 of the value is enough

    def __init__(self, pool: Pool, *, per: Per) -> None:
        self.pool = pool
        self.num_samples, self.device = pool.num_samples, pool.scores.device
        self.denominator = pool.denominator(per)

    def value(self) -> float:
        residuals = self.pool.scores.to(torch.float64)
        residuals = residuals.index_add(0, self.pool.hits, -torch.ones_like(residuals[: len(self.pool.hits)]))
        for steps in (2**12, 2**16):
            at_nodes = density.residuals_at_nodes(self.pool.scores, residuals, steps)
            sigma = density.fixed_point(density.smoothed_error(at_nodes, self.denominator), at_nodes[0])
            if float(sigma) * steps >= 64:  # sharing between two nodes errs by (1/64)²/8 of the kernel, 3e-5
                break
        return float(sigma)

    def _rows(self, part: slice) -> Tensor:
        scores = self.pool.rows[part].to(torch.float64)
        residual = scores - self.pool.is_hit[part]
        return _shared(scores, residual, self.STEPS)

    def sums(self, weights: Tensor) -> Tensor:
        total = torch.zeros(len(weights), self.STEPS + 1, dtype=torch.float64, device=self.pool.scores.device)
        step = max(1, BLOCK // 2 // max(self.STEPS, self.pool.columns))
        for start in range(0, self.num_samples, step):
            part = slice(start, start + step)
            total += weights[:, part].to(torch.float64) @ self._rows(part)
        return total

    def of(self, sums: Tensor) -> Tensor:
        return density.fixed_point(density.smoothed_error(sums, self.denominator), sums[:, 0], tolerance=1e-5)

    def redrawn(self, generator: torch.Generator, times: int) -> Tensor:
        pool = self.pool
        rows = pool.rows.to(torch.float64)
        fixed = density.residuals_at_nodes(pool.scores, pool.scores.to(torch.float64), self.STEPS)
        values = []
        for some in _portions(times, pool.num_samples + self.STEPS):
            drawn, hit = pool.redrawn(generator, some)
            own = rows[torch.arange(pool.num_samples, device=drawn.device), drawn]
            values.append(self.of(fixed - _shared(own, hit.to(torch.float64), self.STEPS)))
        return torch.cat(values)


def _hits_scaled(sums: Tensor, factor: float) -> Tensor:
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


def _portions(times: int, size: int) -> list[int]:
    """``times`` in portions that keep portion × size within a block."""
    step = max(1, min(times, BLOCK // max(1, size)))
    return [min(step, times - start) for start in range(0, times, step)]

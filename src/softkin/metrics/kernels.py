"""Calibration errors without bins as statistics: the KDE ECE, and the smooth ECE.

The smooth ECE smooths residuals by Gaussians that are reflected at 0 and 1. A cosine transform turns such a kernel into
one factor for each frequency.
"""

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from softkin.metrics import density, roots
from softkin.metrics.density import Boundary
from softkin.metrics.intervals import size_of_gap
from softkin.metrics.scopes import Per, Pool
from softkin.metrics.statistics import KEEP, CalibrationError, PooledSums, Statistic, Streamed, added, straight_line

CHUNK = 2**16  # scores at a time: half a megabyte of float64, so that the passes over it stay in the cache


def residuals_at_nodes(scores: Tensor, residuals: Tensor, steps: int) -> Tensor:
    """Each residual shared between the two nodes j/``steps`` around its score: (steps + 1,)."""
    sums = torch.zeros(steps + 1, dtype=torch.float64, device=scores.device)
    for part, weight in zip(scores.split(CHUNK), residuals.split(CHUNK), strict=True):
        place = part.to(torch.float64) * steps
        index = place.to(torch.int64).clamp_(max=steps - 1)
        right = (place - index) * weight
        sums += torch.bincount(index + 1, weights=right, minlength=steps + 1)
        sums += torch.bincount(index, weights=weight - right, minlength=steps + 1)
    return sums


def smoothed_error(residuals: Tensor, count: float) -> Callable[[Tensor], Tensor]:
    r"""σ ↦ smECE_σ = ∫ |Σ_i r_i K_σ(t, p_i)| dt / n, K_σ the Gaussian reflected at 0 and 1.

    ``residuals`` (…, T+1) are at nodes. Mirrored to period 2, the kernel is a plain convolution, hence the factor
    exp(−σ²π²k²/2) for frequency k. A residual at 0 or 1 falls on its own image, so it counts twice on the circle.
    """
    spectrum, frequency = _spectrum(residuals, count)

    def error(sigma: Tensor) -> Tensor:
        return absolute_sum(_field(spectrum, frequency, sigma))

    return error


def smoothed(residuals: Tensor, count: float, sigma: Tensor) -> Tensor:
    """Σ_i r_i K_σ(t, p_i) / n at the nodes, (…, T+1): linear in the residuals."""
    return _field(*_spectrum(residuals, count), sigma)


def absolute_sum(field: Tensor) -> Tensor:
    """∫ |field| dt by the trapezoidal rule over the nodes."""
    ends = field[..., 0].abs() + field[..., -1].abs()
    total: Tensor = torch.linalg.vector_norm(field, 1, dim=-1)
    return total - ends / 2


def _spectrum(residuals: Tensor, count: float) -> tuple[Tensor, Tensor]:
    steps = residuals.shape[-1] - 1
    circle = torch.cat([residuals, residuals[..., 1:-1].flip(-1)], dim=-1) / count
    circle[..., 0] *= 2
    circle[..., steps] *= 2
    frequency = (math.pi * torch.arange(steps + 1, dtype=torch.float64, device=residuals.device)) ** 2 / 2
    return torch.fft.rfft(circle), frequency


def _field(spectrum: Tensor, frequency: Tensor, sigma: Tensor) -> Tensor:
    steps = len(frequency) - 1
    field: Tensor = torch.fft.irfft(spectrum * torch.exp(-frequency * sigma[..., None] ** 2), 2 * steps)
    return field[..., : steps + 1]


def fixed_point(
    error: Callable[[Tensor], Tensor], like: Tensor, *, tolerance: float = 1e-11, steep: bool = False
) -> Tensor:
    """The σ in [0, 1] with smECE_σ = σ for each line; smECE_σ does not grow with σ, so there is one.

    ``steep`` ends the search where σ − smECE_σ, which rises at least as fast as σ, is within the tolerance.
    """
    start, end = torch.zeros_like(like), torch.ones_like(like)
    low, high = roots.bracket(lambda sigma: sigma - error(sigma), start, end, tolerance=tolerance, steep=steep)
    return (low + high) / 2


ONE_VALUE = "all scores are equal: the number only compares them with the share of hits"


def _ends_of_equal_scores(pool: Pool, level: float) -> tuple[float, float] | None:
    """The interval if all winning scores are equal, so that the kernel has no effect; else None."""
    if pool.columns > 1 or bool((pool.scores != pool.scores[0]).any()):
        return None
    return size_of_gap(pool.scores, pool.is_hit[:, 0], level, pool.weights)


class Kernel(PooledSums, CalibrationError, Streamed):
    """The KDE ECE; resamples keep the bandwidth of the whole data."""

    NODES_PER_RADIUS = 8  # for resampling: the integral to about 1e-4 of itself, far below its spread
    CELLS_PER_RADIUS = 32  # for redrawn labels
    MOST_NODES = 2**17

    def __init__(
        self,
        pool: Pool,
        bandwidth: str | float,
        boundary: Boundary,
        *,
        per: Per,
        widened: float = 1.0,
        radius: float | None = None,
    ) -> None:
        """``bandwidth`` is a rule of ``density.bandwidth``, times ``widened``; a known ``radius`` replaces it."""
        self.pool, self.bandwidth, self.boundary, self.per, self.widened = pool, bandwidth, boundary, per, widened
        self.num_samples, self.columns, self.device = pool.num_samples, pool.columns, pool.scores.device
        self.weights = pool.weights
        self.scale = pool.columns if per == "sample" and pool.exclusive else 1
        self._known_radius = radius
        self._smoothing: Tensor | None = None
        self._phi: density.NearNodes | None = None
        self._rows: density.NearNodes | None = None
        if not isinstance(bandwidth, str):
            density.bandwidth(bandwidth, pool.scores, pool.hits)  # refuses invalid numbers

    @cached_property
    def radius(self) -> float:
        """The kernel's radius. Computed on demand: a batch that is only summed may have no spread of its own."""
        if self._known_radius is not None:
            return self._known_radius
        pool = self.pool
        return self.widened * density.bandwidth(self.bandwidth, pool.scores, pool.hits, **pool.beside)

    @property
    def width(self) -> int:
        return math.ceil(self.NODES_PER_RADIUS / self.radius) + 1 if self.radius else 1

    @property
    def no_resampling(self) -> str | None:
        if self.width <= self.MOST_NODES:
            return None
        return (
            f"the interval of a KDE needs a bandwidth of at least {self.NODES_PER_RADIUS / self.MOST_NODES:.2g}, "
            f"and these scores give {self.radius:.2g}; pass bandwidth="
        )

    @property
    def of_one_row(self) -> float:
        return self.scale * self._hits_in_a_row() / len(self.pool.scores)

    @property
    def at_most(self) -> float:
        return float(self.scale)  # a density of mass 1, times a gap of at most 1

    def caveat(self) -> str | None:
        return ONE_VALUE if self.radius == 0 else None

    def ends(self, level: float) -> tuple[float, float] | None:
        return _ends_of_equal_scores(self.pool, level)

    def value(self) -> float:
        pool = self.pool
        error = density.calibration_error(pool.scores, pool.hits, self.radius, self.boundary, **pool.beside)
        return self.scale * error

    def floor(self) -> float:
        """The error if every score were exactly its own likelihood, which is due to smoothing alone."""
        scores, w = self.pool.scores, self.pool.score_weights
        shares = scores if w is None else scores * w
        alone = density.calibration_error(scores, self.pool.hits, self.radius, self.boundary, shares=shares, weights=w)
        return alone * self.scale

    def on(self, pool: Pool) -> Self | None:
        if not self.pool.winners:
            return None
        # Scores without spread have the radius 0, and so has any subset of them.
        return type(self)(
            pool, self.bandwidth, self.boundary, per="score", widened=self.widened, radius=self.radius or None
        )

    def totals(self, cells: int, into: Tensor | None = None) -> Tensor:
        sums = density.Sums.zeros(cells) if into is None else density.Sums(into)
        sums.add(self.pool.scores, self.pool.hits, **self.pool.beside)
        return sums.flat

    def read(self, totals: Tensor, num_samples: float) -> float:
        return density.Sums(totals).error(self.bandwidth, self.boundary, self.widened) * self.scale

    def read_floor(self, totals: Tensor) -> float:
        return density.Sums(totals).floor(self.bandwidth, self.boundary, self.widened) * self.scale

    def adds_up_with(self, other: Statistic) -> bool:
        return isinstance(other, Kernel) and self.radius == other.radius  # the caller set the bandwidth

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        # Through smoothing, calibrated scores have D ≠ 0 too. Only the departure from that is scaled.
        return self._calibrated() + factor * (sums - self._calibrated())

    def departures(self, sums: Tensor) -> Tensor:
        return sums - self._calibrated()

    def straightened(self, sums: Tensor) -> Tensor | None:
        kernels = self._kernels()
        if kernels is None:
            return None
        mass = kernels.summed(self._once)
        x = torch.linspace(0, 1, self.width, dtype=torch.float64, device=self.device)
        return self._calibrated() + straight_line(mass, mass * x, self.departures(sums))

    def _calibrated(self) -> Tensor:
        """The sums of calibrated scores."""
        kernels = self._kernels()
        if self._smoothing is None and kernels is not None:
            once = self._once
            self._smoothing = self._at_nodes(kernels, once, once * self.pool.scores.to(torch.float32))
        if self._smoothing is None:
            total = torch.zeros(1, self.width, dtype=torch.float64, device=self.device)
            for part in self.parts() if self.radius else []:
                scores = self.pool.rows[part].to(torch.float64)
                rows = density.kernel_rows(scores, scores, self.radius, self.boundary, self.width)
                total += (rows if self.weights is None else rows * self.weights[part, None]).sum(dim=0)
            self._smoothing = total
        return self._smoothing

    @property
    def _once(self) -> Tensor:
        """(1, N) every row once, by its weight."""
        return self.weighted(torch.ones(1, self.num_units, device=self.device))

    def _kernels(self) -> density.NearNodes | None:
        """φ at the nodes, (N, nodes), if rows have one score and it fits: a row of D is (x − y)·φ for any hit y."""
        if self.columns > 1 or self.radius == 0 or self.num_samples * self.width > KEEP:
            return None
        if self._phi is None:
            self._phi = density.NearNodes.of(self.pool.scores, self.radius, self.boundary, self.width)
        return self._phi

    def _at_nodes(self, kernels: density.NearNodes, weights: Tensor, hits: Tensor) -> Tensor:
        """The sum of (x − y) φ over the rows, (r, nodes)."""
        x = torch.linspace(0, 1, self.width, dtype=torch.float64, device=self.device)
        return x * kernels.summed(weights) - kernels.summed(hits)

    def _check_resampling(self) -> None:
        if self.no_resampling is not None:
            raise ValueError(f"{self.no_resampling}.")

    def sums(self, weights: Tensor) -> Tensor:
        self._check_resampling()
        kernels = self._kernels()
        if kernels is None:
            return super().sums(weights)
        if self._rows is None:
            self._rows = kernels.departing(self.pool.is_hit[:, 0])
        return self._rows.summed(weights)

    def row_block(self, part: slice) -> Tensor:
        scores, hits = self.pool.rows[part], self.pool.is_hit[part]
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
            w = torch.ones(self.num_samples, dtype=torch.float64) if pool.weights is None else pool.weights
            hits = torch.cat([hit.to(torch.float64) @ w for _, hit in pool.redrawn(generator, times)])
            return ((pool.rows.sum(dim=1) * w).sum(dtype=torch.float64) - hits).abs() * (self.scale / len(pool.scores))
        self._check_resampling()
        kernels = self._kernels()
        if kernels is not None:
            once = self._once
            drawn_hits = (hit.to(torch.float32) * once for _, hit in pool.redrawn(generator, times))
            return torch.cat([self.of(self._at_nodes(kernels, once, hits)) for hits in drawn_hits])
        size = math.ceil(self.CELLS_PER_RADIUS / self.radius)
        everything = density.cells(pool.scores, size, weights=pool.score_weights)
        values = []
        for drawn, hit in pool.redrawn(generator, times):
            own = pool.rows.to(torch.float64)[torch.arange(pool.num_samples, device=drawn.device), drawn]
            for line, mask in zip(own, hit, strict=True):
                hits = density.cells(line[mask], size, weights=None if pool.weights is None else pool.weights[mask])
                values.append(density.integrals(everything, hits, len(pool.scores), self.radius, self.boundary))
        return self.scale * torch.stack(values)


class Smooth(PooledSums, CalibrationError, Streamed):
    """The smooth ECE, at the bandwidth that equals it."""

    STEPS = 256  # nodes for resampling, where 1e-3 of the value is enough
    GRIDS = (2**12, 2**16)  # for the value

    def __init__(self, pool: Pool, *, per: Per) -> None:
        self.pool, self.per = pool, per
        self.num_samples, self.columns, self.device = pool.num_samples, pool.columns, pool.scores.device
        self.denominator, self.weights = pool.denominator(per), pool.weights

    @property
    def width(self) -> int:
        return self.STEPS + 1

    @property
    def of_one_row(self) -> float:
        return self._hits_in_a_row() / self.denominator

    @property
    def at_most(self) -> float:
        many = self.columns > 1 and self.per == "sample" and self.pool.exclusive
        return 2.0 if many else 1.0  # |score − hit| adds up to 2 in a row

    def ends(self, level: float) -> tuple[float, float] | None:
        return _ends_of_equal_scores(self.pool, level)

    def value(self) -> float:
        residuals = self._residuals()
        at_nodes = (residuals_at_nodes(self.pool.scores, residuals, steps) for steps in self.GRIDS)
        return self._fixed_point(at_nodes, self.denominator)

    def _residuals(self) -> Tensor:
        residuals, shares, w = self.pool.scores.to(torch.float64), self.pool.shares, self.pool.score_weights
        if shares is not None:
            return (residuals if w is None else residuals * w) - shares
        return residuals.index_add(0, self.pool.hits, -torch.ones_like(residuals[: len(self.pool.hits)]))

    def _fixed_point(self, grids: Iterable[Tensor], denominator: float) -> float:
        """The error from the residuals on the coarse grid, or on the fine grid if it is small."""
        for at_nodes in grids:
            sigma = float(fixed_point(smoothed_error(at_nodes, denominator), at_nodes[0]))
            if sigma * (len(at_nodes) - 1) >= 64:  # linear sharing errs by (1/64)²/8 of the kernel, 3e-5
                break
        return sigma

    def totals(self, cells: int, into: Tensor | None = None) -> Tensor:
        residuals = self._residuals()
        grids = [residuals_at_nodes(self.pool.scores, residuals, steps) for steps in self.GRIDS]
        return added(torch.cat(grids).cpu(), into)

    def read(self, totals: Tensor, num_samples: float) -> float:
        n = num_samples * (self.denominator / self.num_samples)
        return self._fixed_point(totals.split([steps + 1 for steps in self.GRIDS]), n)

    def on(self, pool: Pool) -> Self | None:
        return type(self)(pool, per="score") if self.pool.winners else None

    def departures(self, sums: Tensor) -> Tensor:
        return sums

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        return sums * factor

    def row_block(self, part: slice) -> Tensor:
        scores = self.pool.rows[part].to(torch.float64)
        return _shared(scores, scores - self.pool.is_hit[part], self.STEPS)

    def of(self, sums: Tensor) -> Tensor:
        error = smoothed_error(sums, self.denominator)
        return fixed_point(error, sums[:, 0], tolerance=1e-7, steep=True)

    def probe(self, value: float) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        # smECE_σ decreases in σ and meets the diagonal once, so smECE ≥ v exactly if smECE_v ≥ v.
        sigma = torch.tensor(value, dtype=torch.float64, device=self.device)
        return (lambda sums: smoothed(sums, self.denominator, sigma)), absolute_sum

    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        pool = self.pool
        rows = pool.rows.to(torch.float64)
        w = torch.ones(1, dtype=torch.float64, device=self.device) if pool.weights is None else pool.weights
        terms = (pool.rows.to(torch.float64) * w[:, None]).reshape(-1)
        fixed = residuals_at_nodes(pool.scores, terms, self.STEPS)
        values = []
        for drawn, hit in pool.redrawn(generator, times):
            own = rows[torch.arange(pool.num_samples, device=drawn.device), drawn]
            values.append(self.of(fixed - _shared(own, hit.to(torch.float64) * w, self.STEPS)))
        return torch.cat(values)


def _shared(scores: Tensor, weights: Tensor, steps: int) -> Tensor:
    """(r, steps + 1): each line's weights shared between the nodes around their scores."""
    place = scores * steps
    index = place.to(torch.int64).clamp_(max=steps - 1)
    right = (place - index) * weights
    total = torch.zeros(len(scores), steps + 1, dtype=torch.float64, device=scores.device)
    return total.scatter_add_(1, index + 1, right).scatter_add_(1, index, weights - right)

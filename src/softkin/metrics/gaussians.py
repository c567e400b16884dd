"""Residuals smoothed by Gaussians that are reflected at 0 and 1: the smooth ECE.

A cosine transform turns such a kernel into one factor for each frequency.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from softkin.metrics import roots

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

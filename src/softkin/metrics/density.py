r"""Scores → kernel densities: the only code with the triweight kernel and its bandwidths.

The time is linear in the number of scores, which is not limited: the scores are first gathered in cells of width
δ ≤ h/256, each keeping the sums of 1, d and d² over its scores' offsets d from its centre c, so that

.. math:: \sum_i \phi\Big(\frac{x - p_i}{h}\Big) \approx \sum_c \Big[ S_0 \phi(u) - \frac{S_1}{h} \phi'(u)
          + \frac{S_2}{2h^2} \phi''(u) \Big], \quad u = \frac{x - c}{h}

which has an error below 1e-7 of φ's height and takes three convolutions.
"""

import math
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks

CHUNK = 2**16  # scores at a time: half a megabyte of float64, so that the passes over it stay in the cache
CELLS_PER_RADIUS = 256
DENSE = 2**22  # cells of [0, 1] held at once, 200 MB in six sums; finer grids go window by window
AT_ONCE = 2**20  # cells to transform at once
WIDEST = 0.5  # a kernel that reaches further would cross both ends of [0, 1]
ATOMS = 1e-12  # standard deviations below this are rounding: the scores are all equal

Boundary = Literal["reflect", "none"]
BOUNDARIES = ("reflect", "none")


def triweight(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """φ(u) = 35/32 (1 − u²)³ on [−1, 1], with its first and second derivative; all three reach 0 at ±1."""
    square = u * u
    v = (1 - square).clamp_(min=0)
    return 35 / 32 * v * v * v, -105 / 16 * u * v * v, 105 / 16 * v * (5 * square - 1)


def _at_node(
    place: Tensor, shift: int | Tensor, radius: float, steps: int, boundary: Boundary
) -> tuple[Tensor, Tensor]:
    """A node near each place, ``shift`` steps from the one below it, and φ/h there; both places are in steps."""
    node = place.floor() + shift
    u = (node - place) / (radius * steps)
    v = (1 - u * u).clamp_(min=0)
    value = 35 / 32 * v * v * v / radius
    if boundary == "reflect":  # mass outside [0, 1] is folded back, which equals mirroring the scores
        node = steps - (steps - node.abs_()).abs_()
        value = torch.where((node == 0) | (node == steps), 2 * value, value)  # a score and its mirror image meet
    value *= (node >= 0) & (node <= steps)
    return node.clamp_(0, steps), value


# Bandwidths


def bandwidth(
    rule: str | float, scores: Tensor, hits: Tensor, *, shares: Tensor | None = None, weights: Tensor | None = None
) -> float:
    """The kernel's radius h for pooled ``scores``, of which those at ``hits`` belong to the true class.

    - "paper": 1.06 σ n^(−1/5), σ the population standard deviation of the n scores
    - "mix-n-match": σ₁ (2n)^(−1/5), σ₁ that of the hits alone
    - a number above 0 and at most 0.5

    It is 0 if the scores have no spread. With ``shares`` each score is that fraction of a hit. With ``weights`` σ is
    weighted, and n the number of scores of equal weight that say as much.
    """
    if isinstance(rule, str):
        checks.option(rule, "bandwidth", ("paper", "mix-n-match"))
        if shares is None:
            return _by_rule(rule, len(scores), _deviation(scores), _deviation(scores[hits]) if rule != "paper" else 0.0)
        every = torch.ones_like(shares) if weights is None else weights
        count = float(every.sum().square() / every.square().sum())
        return _by_rule(rule, count, _weighted_deviation(scores, every), _weighted_deviation(scores, shares))
    return _own_bandwidth(rule)


def _own_bandwidth(rule: float) -> float:
    """A bandwidth that the caller states."""
    if not 0 < checks.number(rule, "bandwidth") <= WIDEST:
        raise ValueError(
            f"`bandwidth` must be 'paper', 'mix-n-match' or a number above 0 and at most {WIDEST}, got {rule!r}."
        )
    return float(rule)


def _by_rule(rule: str, count: float, deviation: float, deviation_of_hits: float) -> float:
    """1.06 σ n^(−1/5) or σ₁ (2n)^(−1/5); 0 without spread."""
    if rule == "paper":
        return 1.06 * deviation * math.pow(count, -0.2) if deviation > ATOMS else 0.0
    if deviation_of_hits > ATOMS:
        return deviation_of_hits * math.pow(2 * count, -0.2)
    if deviation > ATOMS:
        raise ValueError(
            "`bandwidth` 'mix-n-match' is the spread of the hits' scores, but these have none; "
            "pass 'paper' or a number."
        )
    return 0.0


def _weighted_deviation(scores: Tensor, weights: Tensor) -> float:
    total = float(weights.sum())
    if total <= 0:
        return 0.0
    s = scores.to(torch.float64)
    mean = (weights * s).sum() / total
    return math.sqrt(float((weights * (s - mean).square()).sum()) / total)


def _deviation(scores: Tensor) -> float:
    """The population standard deviation, in chunks; 0 for no values. A small deviation takes a second pass."""
    if len(scores) == 0:
        return 0.0
    n = len(scores)
    sums = torch.zeros(2, dtype=torch.float64, device=scores.device)
    for part in scores.split(CHUNK):
        exact = part.to(torch.float64)
        sums += torch.stack([exact.sum(), exact @ exact])
    mean, square = (sums / n).tolist()
    if square - mean**2 > 1e-6 * square:  # ten digits of the difference are left
        return math.sqrt(square - mean**2)
    norms = [torch.linalg.vector_norm(part.to(torch.float64).sub(mean)) for part in scores.split(CHUNK)]
    return math.sqrt(float(torch.stack(norms).square().sum()) / n)


# Cells and curves


@dataclass(frozen=True)
class SmoothCurve:
    """The reliability curve without bins: two densities over nodes in [0, 1], as in ``ReliabilityCurve``."""

    nodes: Tensor
    """Equally spaced nodes from 0 to 1"""
    density: Tensor
    """f, the density of all scores; integrates to about 1"""
    hit_density: Tensor
    """g = c·f, that of the hits on the same scale; integrates to about the share of hits"""
    bandwidth: float
    """The kernel's radius"""

    @property
    def confidence(self) -> Tensor:
        """The nodes themselves."""
        return self.nodes

    @property
    def likelihood(self) -> Tensor:
        """c(p), NaN where there are no scores near p."""
        # Rounding of the convolution leaves 1e-16 of the peak where there are no scores.
        empty = self.density <= 1e-12 * self.density.max()
        return torch.where(empty, torch.nan, self.hit_density / self.density)

    @property
    def gap(self) -> Tensor:
        """The node minus c(p): positive where over-confident."""
        return self.nodes - self.likelihood


def cells(
    scores: Tensor,
    size: int,
    *,
    weights: Tensor | None = None,
    first: int = 0,
    length: int | None = None,
    into: Tensor | None = None,
) -> Tensor:
    """Sums (3, length) of 1, d and d² in cells of width 1/``size``, starting at cell ``first``.

    The offset d from the cell's centre is in units of its width. ``weights`` make them sums of w, w·d and w·d². Scores
    that rounding puts above 1 stay in the last cell, with a larger d. With ``into`` the sums are added to it.
    """
    length = size if length is None else length
    sums = torch.zeros(3, length, dtype=torch.float64, device=scores.device) if into is None else into
    ones = torch.ones(min(CHUNK, len(scores)), dtype=torch.float64, device=scores.device)
    for start in range(0, len(scores), CHUNK):
        place = scores[start : start + CHUNK].to(torch.float64) * size
        place -= first
        index = place.to(torch.int32 if length < 2**31 > size else torch.int64).clamp_(0, length - 1)
        place -= index
        place -= 0.5
        index = index.to(torch.int64)
        term = ones[: len(place)] if weights is None else weights[start : start + CHUNK].to(torch.float64)
        for power in range(3):
            sums[power].scatter_add_(0, index, term)
            if power < 2:
                term = place * term if power or weights is not None else place
    return sums


def _extended(sums: Tensor, halo: int, boundary: Boundary) -> Tensor:
    """Cells of [0, 1] extended by ``halo`` cells on both sides: empty cells, or for "reflect" mirrored ones.

    A score below ½ is mirrored at 0, the others at 1; for a radius up to ½ no other image reaches [0, 1].
    """
    size = sums.shape[-1]
    wide = torch.zeros(*sums.shape[:-1], size + 2 * halo, dtype=sums.dtype, device=sums.device)
    wide[..., halo : halo + size] = sums
    if boundary == "reflect":
        sign = torch.tensor([1.0, -1.0, 1.0], dtype=sums.dtype, device=sums.device)[:, None]  # d changes its sign
        low, high = min(halo, size // 2), min(halo, size - size // 2)
        wide[..., halo - low : halo] = sign * sums[..., :low].flip(-1)
        wide[..., halo + size : halo + size + high] = sign * sums[..., size - high :].flip(-1)
    return wide


def _smoothed(wide: Tensor, radius: float, halo: int) -> Tensor:
    """Σ_i φ((x − p_i)/h) at the nodes between the cells; ``radius`` is h in cells, at most ``halo`` − 1.

    Of L cells the outer ``halo`` on each side only contribute scores. The nodes returned go from one before the
    first inner cell's left end to one after the last one's right end: L − 2·halo + 3 of them.
    """
    length = wide.shape[-1]
    reach = halo - 1  # a node next to the inner cells still sees all cells within the radius
    offset = torch.arange(reach, -reach, -1, dtype=torch.float64, device=wide.device) - 0.5  # node minus centre
    value, slope, bend = triweight(offset / radius)
    kernel = torch.stack([value, -slope / radius, bend / (2 * radius**2)])
    # Blocks a few times the kernel's length: each fits the cache, which one transform of the whole line would not.
    block = min(1 << ((16 * reach).bit_length() - 1), _fast_length(length))
    hop = block - 2 * reach + 1
    nodes = length - 2 * reach + 1
    blocks = -(-nodes // hop)
    padded = torch.nn.functional.pad(wide, (0, (blocks - 1) * hop + block - length))
    pieces = padded.unfold(-1, block, hop)
    # Correlation with the kernel: its spectrum's conjugate. Of each block the first ``hop`` entries are whole.
    spectrum = torch.fft.rfft(kernel, block).conj()[:, None]
    field = torch.empty(*wide.shape[:-2], blocks, hop, dtype=torch.float64, device=wide.device)
    step = max(1, AT_ONCE * length // (hop * wide.numel()))  # blocks at once
    for start in range(0, blocks, step):
        product = (torch.fft.rfft(pieces[..., start : start + step, :]) * spectrum).sum(dim=-3)
        field[..., start : start + step, :] = torch.fft.irfft(product, block)[..., :hop]
    return field.flatten(-2)[..., :nodes]


def _fast_length(least: int) -> int:
    """The smallest 32 · 2^a 3^b 5^c that is at least ``least``: transforms of odd lengths take twice as long."""
    from scipy.fft import next_fast_len

    return 32 * int(next_fast_len(-(-least // 32), real=True))


def _absolute_integral(values: Tensor) -> Tensor:
    """∫|D| in units of the spacing, between the second and the last but one of the nodes where D is ``values``.

    Cells without a change of sign take the four-point rule (−1, 13, 13, −1)/24, whose error is of fourth order also
    where D has a slope at the ends; a cell with one is two triangles.
    """
    before, left, right, after = (values[..., k : values.shape[-1] - 3 + k] for k in range(4))
    smooth = (13 * (left + right) - before - after).abs() / 24
    a, b = left.abs(), right.abs()
    crossing = (a * a + b * b) / (2 * (a + b).clamp(min=torch.finfo(values.dtype).tiny))
    return torch.where(left * right < 0, crossing, smooth).sum(dim=-1)


def grid_size(radius: float) -> int:
    """The number of cells of [0, 1] for which δ ≤ h/256."""
    return math.ceil(CELLS_PER_RADIUS / radius)


def integrals(everything: Tensor, hits: Tensor, count: float, radius: float, boundary: Boundary) -> Tensor:
    """∫ |p − c(p)| f(p) dp over [0, 1] from cells: (3, G) of all ``count`` scores, (…, 3, G) of the hits."""
    size = everything.shape[-1]
    halo = math.ceil(radius * size) + 2
    lines = torch.cat([everything[None], hits.reshape(-1, 3, size)])
    field = _smoothed(_extended(lines, halo, boundary), radius * size, halo)
    nodes = torch.arange(-1, size + 2, dtype=torch.float64, device=field.device) / size
    total = _absolute_integral(nodes * field[0] - field[1:]) / (count * radius * size)
    return total.view(hits.shape[:-2])


class Sums:
    """Sums of scores that arrive in parts: cells of [0, 1] and moments, read once the bandwidth is known.

    The state is one flat tensor of float64, so that the sums of several processes add up: the cells of all scores, of
    the hits, then eight moments.
    """

    def __init__(self, flat: Tensor) -> None:
        self.flat, self.size = flat, (len(flat) - 8) // 6
        self.cells = flat[:-8].view(2, 3, self.size)
        # Of all scores and of the hits: their number, the sum and squares of p − ½, and the squares of weights.
        self.moments = flat[-8:].view(2, 4)

    @classmethod
    def zeros(cls, size: int) -> Self:
        """Empty sums in ``size`` cells."""
        return cls(torch.zeros(6 * size + 8, dtype=torch.float64))

    def add(self, scores: Tensor, hits: Tensor, *, shares: Tensor | None = None, weights: Tensor | None = None) -> None:
        """Add scores; those at ``hits`` belong to the true class, or each does by its share."""
        all_scores = scores.cpu()
        own = all_scores[hits.cpu()] if shares is None else all_scores
        for line, (values, each) in enumerate(((all_scores, weights), (own, shares))):
            terms = None if each is None else each.cpu()
            cells(values, self.size, weights=terms, into=self.cells[line])
            # Centred at ½, squares of scores near 1 lose fewer digits; numpy's order is independent of torch's threads.
            about_half = (values.to(torch.float64) - 0.5).numpy()
            times = np.ones_like(about_half) if terms is None else terms.numpy()
            self.moments[line] += torch.tensor(
                [
                    times.sum(),
                    (times * about_half).sum(),
                    (times * np.square(about_half)).sum(),
                    np.square(times).sum(),
                ],
                dtype=torch.float64,
            )

    @property
    def count(self) -> float:
        """The number of scores."""
        return float(self.moments[0, 0])

    def radius(self, rule: str | float) -> float:
        """The bandwidth of all scores."""
        if not isinstance(rule, str):
            return _own_bandwidth(rule)
        deviations = [_deviation_from(*line[:3]) for line in self.moments.tolist()]
        return _by_rule(rule, self.count**2 / float(self.moments[0, 3]), *deviations)

    def error(self, rule: str | float, boundary: Boundary, widened: float) -> float:
        """The calibration error per score, with a bandwidth of ``widened`` times the rule's."""
        radius = widened * self.radius(rule)
        if radius == 0:  # all scores equal
            (n, first, *_), (n1, *_) = self.moments.tolist()
            return float(abs(first / n + 0.5 - n1 / n))
        if radius * self.size < CELLS_PER_RADIUS:
            need = 1 << (grid_size(radius) - 1).bit_length()
            raise TooFewCells(
                f"`kde_cells` must be at least {need} for the bandwidth of these scores, {radius:.3g}, got "
                f"{self.size}; then feed all batches again.",
                radius,
            )
        return float(integrals(self.cells[0], self.cells[1], self.count, radius, boundary))

    def floor(self, rule: str | float, boundary: Boundary, widened: float) -> float:
        """The error that smoothing alone causes, per score; 0 if all scores are equal."""
        radius = widened * self.radius(rule)
        if radius == 0:
            return 0.0
        # A score p = c + d in the cell with centre c that counts as p hits adds p, p·d and p·d² to the cell's sums. The
        # last one's d³ is left out, which changes the integral by less than 1e-6 of itself.
        centre = (torch.arange(self.size, dtype=torch.float64) + 0.5) / self.size
        shares = centre * self.cells[0]
        shares[:2] += self.cells[0, 1:] / self.size
        return float(integrals(self.cells[0], shares, self.count, radius, boundary))


class TooFewCells(ValueError):
    """The cells are too wide for the bandwidth of the scores."""

    def __init__(self, text: str, radius: float) -> None:
        super().__init__(text)
        self.radius = radius


def _deviation_from(count: float, first: float, second: float) -> float:
    """The population standard deviation from sums of p − ½ and its square."""
    if count == 0:
        return 0.0
    variance = second / count - (first / count) ** 2
    # A difference below the rounding error of the subtraction counts as no spread.
    return variance**0.5 if variance > 1e-13 * second / count else 0.0


def calibration_error(
    scores: Tensor,
    hits: Tensor,
    radius: float,
    boundary: Boundary,
    *,
    shares: Tensor | None = None,
    weights: Tensor | None = None,
) -> float:
    r"""∫ |p − c(p)| f(p) dp over [0, 1] for pooled scores, of which those at ``hits`` belong to the true class.

    With ``shares`` each score counts as that fraction of a hit, and ``hits`` is not used. With ``weights``, of the mean
    1, each score counts that often; its share is then a fraction of its weight.
    """
    if radius == 0:  # all scores equal
        likelihood = float(shares.mean()) if shares is not None else len(hits) / len(scores)
        return abs(float(scores[0]) - likelihood)
    size = grid_size(radius)
    own, share = (scores, shares) if shares is not None else (scores[hits], None)
    if size <= DENSE:
        everything, of_hits = cells(scores, size, weights=weights), cells(own, size, weights=share)
        return float(integrals(everything, of_hits, len(scores), radius, boundary))
    return _by_windows(scores, own, weights, share, size, radius, boundary)


def _by_windows(
    scores: Tensor,
    own: Tensor,
    weights: Tensor | None,
    share: Tensor | None,
    size: int,
    radius: float,
    boundary: Boundary,
) -> float:
    """``calibration_error`` on a grid too fine for memory: sorted scores, one window at a time, skipping empty ones."""
    everyone = _Ordered.of(scores, weights)
    mine = _Ordered(everyone.scores, everyone.scores) if own is scores is share else _Ordered.of(own, share)
    halo = math.ceil(radius * size) + 2
    total, start = 0.0, 0
    while start < size:
        length = min(DENSE // 2, size - start)
        after = everyone.first_from((start - halo) / size)
        if after == len(scores):
            break
        next_score = float(everyone.scores[after])
        if next_score >= (start + length + halo) / size:
            start = max(start + length, int(next_score * size) - halo)
            continue
        sums = [part.cells(size, start - halo, length + 2 * halo, boundary) for part in (everyone, mine)]
        field = _smoothed(torch.stack(sums), radius * size, halo)
        nodes = torch.arange(start - 1, start + length + 2, dtype=torch.float64, device=field.device) / size
        total += float(_absolute_integral(nodes * field[0] - field[1]))
        start += length
    return total / (len(scores) * radius * size)


@dataclass(frozen=True)
class _Ordered:
    """Scores in ascending order, in their own dtype, and the share of a hit that each is; None where each is one."""

    scores: Tensor
    share: Tensor | None

    @classmethod
    def of(cls, scores: Tensor, share: Tensor | None) -> Self:
        """Sorted; without shares by numpy on a CPU, which needs no second array for their order."""
        if share is not None:
            ordered, order = scores.sort()
            return cls(ordered, share[order])
        if scores.device.type == "cpu" and scores.dtype in (torch.float32, torch.float64):
            return cls(torch.from_numpy(np.sort(scores.numpy())), None)
        return cls(scores.sort().values, None)

    def first_from(self, value: float) -> int:
        """How many scores lie below ``value``, compared in float64."""
        low, high = 0, len(self.scores)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if float(self.scores[middle]) < value else (low, middle)
        return low

    def cells(self, size: int, first: int, length: int, boundary: Boundary) -> Tensor:
        """``cells`` of the scores from cell ``first`` on and, for "reflect", of the mirror images that fall there."""
        low, high = first / size, (first + length) / size
        parts = [(self.first_from(low), self.first_from(high), 0.0, 1.0)]
        if boundary == "reflect" and low < 0:  # −p
            parts.append((0, self.first_from(math.nextafter(min(-low, math.nextafter(0.5, 0)), 1)), 0.0, -1.0))
        if boundary == "reflect" and high > 1:  # 2 − p
            nearest = self.first_from(max(math.nextafter(2 - high, 2), 0.5))
            parts.append((nearest, len(self.scores), 2.0, -1.0))
        sums = torch.zeros(3, length, dtype=torch.float64, device=self.scores.device)
        for begin, end, offset, sign in parts:
            for start in range(begin, end, CHUNK):
                piece = slice(start, min(start + CHUNK, end))
                values = offset + sign * self.scores[piece].to(torch.float64)
                cells(
                    values,
                    size,
                    weights=None if self.share is None else self.share[piece],
                    first=first,
                    length=length,
                    into=sums,
                )
        return sums


def smooth_curve(
    scores: Tensor,
    hits: Tensor,
    radius: float,
    boundary: Boundary,
    num_nodes: int = 513,
    *,
    shares: Tensor | None = None,
    weights: Tensor | None = None,
) -> SmoothCurve:
    """Both densities at ``num_nodes`` nodes of [0, 1], for drawing; errors come from ``calibration_error``."""
    if radius == 0:
        raise ValueError("all scores are equal: there is no curve through a single point.")
    steps = num_nodes - 1
    size = -(-grid_size(max(radius, 2.0**-12)) // steps) * steps
    halo = math.ceil(radius * size) + 2
    own = cells(scores[hits], size) if shares is None else cells(scores, size, weights=shares)
    sums = torch.stack([cells(scores, size, weights=weights), own])
    field = _smoothed(_extended(sums, halo, boundary), radius * size, halo)[:, 1:-1]
    f, g = (field[:, :: size // steps] / (len(scores) * radius)).cpu()
    return SmoothCurve(torch.linspace(0, 1, num_nodes, dtype=torch.float64), f, g, radius)


def kernel_rows(scores: Tensor, hits: Tensor, radius: float, boundary: Boundary, num_nodes: int) -> Tensor:
    r"""The contribution (N, nodes) of each row to D(x) = Σ (x − y) φ((x − p)/h)/h at ``num_nodes`` nodes of [0, 1].

    ``scores`` and ``hits`` are (N, K), y = ``hits`` in {0, 1} or any share. For resampling: ∫|D|/n is the KDE ECE.
    """
    n = len(scores)
    steps = num_nodes - 1
    place = scores.to(torch.float64) * steps
    row = torch.arange(n, device=scores.device)[:, None] * num_nodes
    total = torch.zeros(n * num_nodes, dtype=torch.float64, device=scores.device)
    reach = math.ceil(radius * steps)
    for j in range(-reach, reach + 2):
        node, value = _at_node(place, j, radius, steps, boundary)
        value *= node / steps - hits
        places = (row + node.to(torch.int64)).reshape(-1)
        if len(places) < len(total) // 8:  # with few scores, going through all nodes would take longer
            total.index_add_(0, places, value.reshape(-1))
        else:
            total += torch.bincount(places, weights=value.reshape(-1), minlength=len(total))
    return total.view(n, num_nodes)


@dataclass(frozen=True)
class NearNodes:
    """Kernels φ((x − p)/h)/h of N scores at the nodes of [0, 1]: a matrix (N, nodes) that is 0 but near each score.

    Rows are sorted by score and kept in blocks of neighbours, each with the few nodes that they reach.
    """

    order: Tensor
    """(N,) the rows by score"""
    blocks: tuple[tuple[slice, slice, Tensor], ...]
    """For each block its rows in that order, its nodes, and the kernels (n, nodes) in float32"""
    num_nodes: int

    BLOCKS = 32
    LEAST = 32  # rows of a block

    @classmethod
    def of(cls, scores: Tensor, radius: float, boundary: Boundary, num_nodes: int) -> Self:
        """The kernels of (N,) scores."""
        ordered, order = scores.to(torch.float64).sort()
        steps, n = num_nodes - 1, len(scores)
        reach = math.ceil(radius * steps)
        place = (ordered * steps)[:, None]
        node, value = _at_node(place, torch.arange(-reach, reach + 2, device=scores.device), radius, steps, boundary)
        rows = max(cls.LEAST, -(-n // cls.BLOCKS))
        starts = list(range(0, n, rows))
        ends = [min(n, start + rows) for start in starts]
        base = place[:, 0].floor().to(torch.int64)
        first = (base[starts] - reach - 1).clamp(0, steps).tolist()  # one more, where kernels are folded back
        last = (base[[end - 1 for end in ends]] + reach + 2).clamp(0, steps).tolist()
        widths = [high - low + 1 for low, high in zip(first, last, strict=True)]
        sizes = [(end - start) * width for start, end, width in zip(starts, ends, widths, strict=True)]
        offsets = [sum(sizes[:i]) for i in range(len(sizes))]
        block = torch.arange(n, device=scores.device) // rows
        width, low, offset = torch.tensor([widths, first, offsets], device=scores.device)[:, block]
        line = (torch.arange(n, device=scores.device) - block * rows) * width + offset
        near = (
            (node.to(torch.int64) - low[:, None]).clamp_(min=0).minimum(width[:, None] - 1)
        )  # where it is 0, it may be anywhere
        places = near.add_(line[:, None]).reshape(-1)
        kept = torch.bincount(places, weights=value.reshape(-1), minlength=sum(sizes)).to(torch.float32)
        blocks = tuple(
            (slice(start, end), slice(low, low + width), part.view(-1, width))
            for start, end, width, low, part in zip(starts, ends, widths, first, kept.split(sizes), strict=True)
        )
        return cls(order, blocks, num_nodes)

    def departing(self, hits: Tensor) -> Self:
        """The rows (x − y) φ of D, for the hits y of the rows, (N,)."""
        x = torch.linspace(0, 1, self.num_nodes, device=hits.device)
        own = hits.to(torch.float32)[self.order]
        blocks = tuple((rows, nodes, kernels * (x[nodes] - own[rows, None])) for rows, nodes, kernels in self.blocks)
        return type(self)(self.order, blocks, self.num_nodes)

    def summed(self, weights: Tensor) -> Tensor:
        """The sums over rows (r, nodes), with rows weighted by each line of (r, N) float32 ``weights``."""
        sorted_weights = weights.index_select(1, self.order)
        total = torch.zeros(len(weights), self.num_nodes, dtype=torch.float64, device=weights.device)
        for rows, nodes, kernels in self.blocks:
            total[:, nodes] += sorted_weights[:, rows] @ kernels
        return total

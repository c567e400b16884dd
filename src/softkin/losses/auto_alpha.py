r"""``alpha="auto"``: the smoothing factor, adjusted once per epoch by the network's over-confidence on held-out rows.

With :math:`\hat p_i` the winning probability of validation row i of n, and α_t the smoothing factor of epoch t,

.. math:: g_t = \frac1n \sum_i \hat p_i - \mathrm{accuracy}, \qquad
          \alpha_{t+1} = \min(\alpha_{\max}, \max(0, \alpha_t + r \, g_t))

An over-confident network is smoothed more in the next epoch, an under-confident one less. docs/auto_alpha.md has
the measurements: why nothing more elaborate is needed, and when α ends at 0.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from softkin._core import checks, ranks

Alpha: TypeAlias = "float | AutoAlpha | Literal['auto']"
"""A fixed smoothing factor, or one that is adjusted"""
CHUNK = 2**22  # logits turned into float64 at a time: 32 MB


@dataclass(frozen=True)
class AutoAlpha:
    """The rule of ``alpha="auto"``; pass an ``AutoAlpha`` instead of ``"auto"`` to change its settings.

    Example:
        >>> AutoAlpha().moved(0.02, gap=0.11)  # 11 points over-confident
        0.075
        >>> AutoAlpha().moved(0.02, gap=-0.11)  # under-confident: smoothing would make it worse
        0.0
    """

    start: float = 0.02
    """α of the first epoch"""
    rate: float = 0.5
    """r, the share of the gap by which α changes"""
    most: float = 0.5
    """The largest α"""

    def __post_init__(self) -> None:
        for name in ("start", "most"):
            if not 0 <= checks.number(value := getattr(self, name), name) < 1:
                raise ValueError(f"`{name}` must be at least 0 and below 1, got {value:g}; it is a smoothing factor.")
        if not 0 < checks.number(self.rate, "rate") < float("inf"):
            raise ValueError(f"`rate` must be finite and above 0, got {self.rate:g}.")
        if self.start > self.most:
            raise ValueError(f"`start` must not exceed `most`, {self.most:g}, got {self.start:g}.")

    def moved(self, alpha: float, gap: float) -> float:
        """The next epoch's α, from the last epoch's α and the validation gap after it."""
        return min(self.most, max(0.0, alpha + self.rate * gap))


SHARE = 0.6  # of one-hot training's gap: α ended there on average, see docs/auto_alpha.md
TELLING = 0.05  # two standard errors of a gap; with wider ones nobody can call a network calibrated
ONE_SEED = 0.005  # assumed standard error of a gap where a single seed cannot show it


def what_a_gap_implies(gap: float, deviation: float) -> str:
    """What a baseline's validation gap implies, as a phrase after "The baseline is".

    A temperature comes first, as it kept the better NLL and accuracy on most data (docs/results.md).

    Args:
        gap: Mean confidence − accuracy of a network trained on one-hot labels.
        deviation: The standard error of ``gap``; within two of them the network counts as calibrated, unless they are
            too wide to tell.

    Example:
        >>> what_a_gap_implies(0.11, 0.01)
        "over-confident by 11.0 points: fit a temperature, or smooth with alpha='auto' (or from α ≈ 0.07)"
        >>> what_a_gap_implies(-0.04, 0.01)
        "under-confident by 4.0 points: smoothing will make it worse (alpha='auto' goes to 0), a temperature repairs it"
    """
    if abs(gap) <= 2 * deviation and 2 * deviation > TELLING:
        sign = "over" if gap > 0 else "under"
        width = f"gap {100 * gap:+.1f} ± {200 * deviation:.1f} points"
        return f"perhaps {sign}-confident ({width}): too few seeds or rows to tell"
    if abs(gap) <= 2 * deviation:
        return (
            f"as confident as it is right (gap {100 * gap:+.1f} points, no more than sampling noise explains): "
            "smoothing has nothing to repair"
        )
    if gap < 0:
        worse = "smoothing will make it worse (alpha='auto' goes to 0), a temperature repairs it"
        return f"under-confident by {-100 * gap:.1f} points: {worse}"
    smooth = f"smooth with alpha='auto' (or from α ≈ {max(SHARE * gap, 0.01):.2f})"
    return f"over-confident by {100 * gap:.1f} points: fit a temperature, or {smooth}"


def requested(alpha: Any) -> AutoAlpha | None:
    """The settings for an ``alpha`` of "auto" or an ``AutoAlpha``; None if ``alpha`` is a number or None."""
    if isinstance(alpha, str) and alpha != "auto":
        raise ValueError(f"`alpha` must be a number of at least 0 and below 1, or 'auto', got {alpha!r}.")
    if isinstance(alpha, str):
        return AutoAlpha()
    return alpha if isinstance(alpha, AutoAlpha) else None


@torch.no_grad()
def validation_gap(logits: Any, labels: Any, *, num_classes: int, ignore_index: int = -100) -> float:
    """Mean confidence − accuracy over the validation rows of all ranks.

    Collective: every rank must call it, with its share of the rows or with all of them; the result is the same.

    Args:
        logits: (N, K) or (N, K, d1, …), torch or numpy.
        labels: (N,) or (N, d1, …) integers.
        num_classes: K.
        ignore_index: Rows with this label are ignored.
    """
    error: Exception | None = None
    sums = torch.zeros(3, dtype=torch.float64)
    try:
        sums = _sums(logits, labels, num_classes, ignore_index)
    except (TypeError, ValueError) as problem:
        error = problem
    ranks.agree(error)
    confidence, correct, count = ranks.total(sums).tolist()
    if count == 0:
        raise ValueError("`validation_logits` must hold at least 1 row that is not ignored, got none.")
    return float((confidence - correct) / count)


def _sums(logits: Any, labels: Any, num_classes: int, ignore_index: int) -> Tensor:
    """Sum of confidences, number of right predictions and number of rows of this rank, float64 on the CPU."""
    z, y = checks.as_tensor(logits, "validation_logits"), checks.as_tensor(labels, "validation_labels")
    if z.ndim < 2 or z.shape[1] != num_classes:
        raise ValueError(
            f"`validation_logits` must have shape (N, {num_classes}), one column for each class, got {tuple(z.shape)}."
        )
    if y.is_floating_point() or y.dtype == torch.bool:
        raise TypeError(f"`validation_labels` must be integers from 0 to K−1, got {y.dtype}.")
    if y.shape != (expected := (z.shape[0], *z.shape[2:])):
        raise ValueError(f"`validation_labels` must have shape {tuple(expected)}, got {tuple(y.shape)}.")
    z, y = z.movedim(1, -1).reshape(-1, num_classes), y.reshape(-1).to(z.device)
    wrong = ((y < 0) | (y >= num_classes)) & (y != ignore_index)
    if bool(wrong.any()):
        raise ValueError(
            f"`validation_labels` must be from 0 to {num_classes - 1} or ignore_index={ignore_index}, "
            f"got {int(y[wrong][0])}."
        )
    wide = torch.float32 if z.device.type == "mps" else torch.float64
    sums = torch.zeros(3, dtype=torch.float64)
    for start in range(0, len(z), step := max(1, CHUNK // num_classes)):
        rows, classes = z[start : start + step].to(wide), y[start : start + step]
        checks.finite(rows, "validation_logits", first_row=start)
        counted = classes != ignore_index
        top = rows.max(dim=1)
        confidence = (top.values - rows.logsumexp(dim=1)).exp()
        right = (top.indices == classes) & counted
        sums += torch.stack([confidence[counted].sum(), right.sum(), counted.sum()]).to("cpu", torch.float64)
    return sums

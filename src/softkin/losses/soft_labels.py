r"""Logits, targets and smooth labels → the training loss.

With q_i the smooth label of sample i and p_i the softmax of its logits, over K classes,

.. math:: \ell_i = -\sum_c w_c \, q_{ic} \log p_{ic}, \qquad q_i = \sum_c t_{ic} Q_c

where t_i is the target (one-hot for an integer), Q_c the smooth label of class c, and w the class weights (1). A class
whose logit is −∞ has p = 0: it adds nothing where its label or weight is 0, and makes the loss infinite elsewhere.

The labels are buffers of a module, ``SmoothLabels``: on its device, in exact rows, with an α that can be moved. A loss
that derives from it only has to say what it does with them.

``alpha="auto"`` is a smoothing factor that is adjusted once per epoch by the network's over-confidence on held-out
rows.

With :math:`\hat p_i` the winning probability of validation row i of n, and α_t the smoothing factor of epoch t,

.. math:: g_t = \frac1n \sum_i \hat p_i - \mathrm{accuracy}, \qquad
          \alpha_{t+1} = \min(\alpha_{\max}, \max(0, \alpha_t + r \, g_t))

An over-confident network is smoothed more in the next epoch, an under-confident one less. docs/auto_alpha.md has the
measurements: why nothing more elaborate is needed, and when α ends at 0.
"""

import contextlib
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softkin._core import checks, ranks
from softkin._core.checks import Array
from softkin.similarity import SparseRows

if TYPE_CHECKING:
    pass


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


class SmoothLabels(nn.Module):
    """Q, one smooth label for each class: ``soft_labels`` (K, K), or ``own``, ``indices``, ``values`` and ``rest``.

    Args:
        soft_labels: Q, (K, K) with rows that sum to 1, or ``SparseRows``.
        auto: The rule that moves α, which then scales the mass of the rows on other classes; None keeps Q as it is.
        persistent: Whether Q is part of the ``state_dict``.
    """

    soft_labels: Tensor
    own: Tensor
    indices: Tensor
    values: Tensor
    rest: Tensor
    auto_alpha: Tensor

    def __init__(self, soft_labels: Array | SparseRows, auto: AutoAlpha | None, *, persistent: bool) -> None:
        super().__init__()
        self._labels_persist = persistent
        self._is_sparse = isinstance(soft_labels, SparseRows)
        if isinstance(soft_labels, SparseRows):
            self.num_classes = len(soft_labels)
            others = self.num_classes - 1 - soft_labels.indices.shape[1]
            sums = soft_labels.own + soft_labels.values.sum(dim=1) + others * soft_labels.rest
            checks.rows_sum_to_one(sums[:, None], "soft_labels")
            self.register_buffer("own", soft_labels.own.to(torch.float64, copy=True), persistent)
            self.register_buffer("indices", soft_labels.indices.clone(), persistent)
            self.register_buffer("values", soft_labels.values.to(torch.float64, copy=True), persistent)
            self.register_buffer("rest", soft_labels.rest.to(torch.float64, copy=True), persistent)
        else:
            dense = checks.square(soft_labels, "soft_labels")
            checks.rows_sum_to_one(dense, "soft_labels")
            self.num_classes = len(dense)
            self.register_buffer("soft_labels", dense, persistent)
        self._casts: dict[str, tuple[Tensor, int, Tensor]] = {}  # the buffers in the logits' type, on their device
        self._auto = None if auto is None else self._moving_by(auto)

    # α

    @property
    def alpha(self) -> float:
        """The mean over the rows of Q of the mass on other classes."""
        return 1 - float(self._own().mean()) if self._auto is None else float(self.auto_alpha)

    @property
    def moves_alpha(self) -> bool:
        """Whether ``adjust`` changes α, that is, whether the loss was made with ``alpha="auto"``."""
        return self._auto is not None

    def _own(self) -> Tensor:
        """Each label's mass on its own class, (K,)."""
        return self.own if self._is_sparse else self.soft_labels.diagonal()

    def _moving_by(self, auto: AutoAlpha) -> AutoAlpha:
        """Keep the labels at α = 1, set the first α, and return the rule with limits that suit these labels."""
        mass = 1 - self._own()
        mean, largest = float(mass.mean()), float(mass.max())
        if not mean > 0:
            raise ValueError("`soft_labels` must have mass on other classes for alpha='auto', got one-hot rows.")
        most = min(auto.most, mean / largest)  # so that the row with the largest mass stays a distribution
        auto = replace(auto, most=most, start=min(auto.start, most))
        self.register_buffer("auto_alpha", torch.tensor(auto.start, dtype=torch.float64))
        self.register_buffer("_unit_mass", mass / mean, persistent=False)
        for name in self._off_diagonal():
            self.register_buffer(f"_unit_{name}", getattr(self, name) / mean, persistent=False)
        self.set_alpha(auto.start)
        return auto

    def _off_diagonal(self) -> tuple[str, ...]:
        return ("values", "rest") if self._is_sparse else ("soft_labels",)

    @torch.no_grad()
    def set_alpha(self, alpha: float) -> None:
        """Set the current value of ``alpha="auto"``, for loops that resume from their own checkpoints."""
        # In place, so that compiled graphs and cached casts see the new labels.
        with torch.inference_mode(False):
            self.auto_alpha.fill_(alpha)
            for name in self._off_diagonal():
                getattr(self, name).copy_(getattr(self, f"_unit_{name}") * alpha)
            self._own().copy_(1 - alpha * self.get_buffer("_unit_mass"))

    # Devices and types

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # Follow .to(device), but keep float64: half-precision labels no longer sum to 1. MPS refuses float64 outright.
        exact = {name: buffer for name, buffer in self._buffers.items() if buffer is not None}
        for name, buffer in exact.items():
            self._buffers[name] = buffer.to(torch.float32) if buffer.is_floating_point() else buffer
        super()._apply(fn, recurse)
        for name, buffer in exact.items():
            moved = self._buffers[name]
            if moved is not None and buffer.is_floating_point() and moved.device.type != "mps":
                self._buffers[name] = buffer.to(moved.device)
        self._casts = {}  # frees the copies on the old device
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_casts": {}}

    def _cast(self, name: str, like: Tensor) -> Tensor:
        """The buffer ``name`` with the dtype and device of ``like``, cached for the next call."""
        buffer = self._buffers[name]  # attribute access is ten times as slow
        assert buffer is not None
        dtype = like.dtype if buffer.is_floating_point() else buffer.dtype
        if buffer.dtype == dtype and buffer.device == like.device:
            return buffer
        if torch.compiler.is_compiling():
            return buffer.to(like.device, dtype)
        # Cast again after an assignment (another tensor), and after writing in place or loading (another version).
        known, version, cast = self._casts.get(name, (None, 0, buffer))
        if known is not buffer or version != buffer._version or cast.dtype != dtype or cast.device != like.device:
            with torch.inference_mode(False):  # a tensor cached in a validation step must be usable in training
                cast = buffer.to(like.device, dtype)
            self._casts[name] = buffer, buffer._version, cast
        return cast

    # States

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        # States load strictly with or without the labels, and between a fixed α and "auto".
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        labels = {f"{prefix}{name}": self.get_buffer(name) for name in self._label_buffers()}
        saved = labels.keys() & state_dict.keys()
        if not saved:
            missing_keys[:] = [key for key in missing_keys if key not in labels]
        elif (
            not self._labels_persist
        ):  # PyTorch leaves buffers that are not persistent alone, and calls them unexpected
            unexpected_keys[:] = [key for key in unexpected_keys if key not in labels]
            missing_keys += sorted(labels.keys() - saved) if strict else []
            for key in sorted(saved):
                if labels[key].shape == state_dict[key].shape:
                    with torch.no_grad():
                        labels[key].copy_(state_dict[key])
                else:
                    error_msgs.append(
                        f"size mismatch for {key}: the checkpoint's labels have shape {tuple(state_dict[key].shape)}, "
                        f"this loss's {tuple(labels[key].shape)}; was the checkpoint trained on other classes?"
                    )
        alpha = f"{prefix}auto_alpha"
        if self._auto is None:
            unexpected_keys[:] = [key for key in unexpected_keys if key != alpha]
            return
        if alpha not in state_dict:
            missing_keys[:] = [key for key in missing_keys if key != alpha]
            if saved:
                self.auto_alpha.fill_(1 - self._own().mean())
        self.set_alpha(self.alpha)

    def _label_buffers(self) -> tuple[str, ...]:
        return ("own", "indices", "values", "rest") if self._is_sparse else ("soft_labels",)


GUARDS = 16  # batches of probability targets to check for double smoothing; the first of mixup may be unmixed


class ModelOutput(Protocol):
    """The part of a Hugging Face model's output that a loss needs."""

    @property
    def logits(self) -> Any:
        """Logits (N, K)."""


UNADJUSTED = 2000  # batches without a call of ``adjust``: some epochs of most data
STAYS = 3  # epochs at 0 after which alpha="auto" says why


class SoftLabelCrossEntropy(SmoothLabels, nn.CrossEntropyLoss):
    """Cross-entropy towards the smooth label of each class: ``nn.CrossEntropyLoss`` with a row of Q for each class.

    An integer target selects its class's row. Probability targets (mixup, CutMix) are multiplied by Q, which for
    one-hot rows gives the same result. The loss of half-precision logits is computed in float32; the result has the
    dtype of the logits (float32 under autocast, like PyTorch's own loss).

    The labels move with the module to another device but keep float64, whatever dtype the module is cast to, so that
    their rows still sum to 1. MPS has no float64; there they are float32.

    A loss that is part of a model adds only ``weight`` to its ``state_dict``, as in PyTorch, and ``auto_alpha`` if α
    moves. It is an ``nn.CrossEntropyLoss`` also for skorch, which then returns probabilities, not logits.

    Checkpoints saved without the loss therefore load strictly into a model with it, and the reverse if α is fixed. If
    a checkpoint does hold labels (saved with ``persistent=True``), they are loaded.

    Args:
        soft_labels: Q, (K, K) with rows that sum to 1, or ``SparseRows`` for very many classes.
        alpha: None leaves Q as it is. "auto" scales the mass that the rows put on other classes, proportionally, so
            that its mean is α; α starts at 0.02 and moves with each call of ``adjust``.
        weight: w, (K,), one non-negative weight for each class.
        weight_by: "class" weights each term of the sum by its own class, as PyTorch does. This also weights the smooth
            part, so the weights change how much smoothing a sample gets. "sample" multiplies the whole loss of a
            sample by the weight of its target, and leaves α as it is.
        ignore_index: Integer targets with this value are ignored.
        reduction: "mean", "sum" or "none". The mean divides by Σ_i Σ_c t_ic w_c, which without weights is the number
            of samples that are not ignored. Integer targets and their one-hot rows thus give the same loss.
        persistent: Whether Q is part of the ``state_dict``.

    Shape:
        Logits (N, K), (N, K, d1, …) or (K,). Integer targets (N,), (N, d1, …) or (); probabilities as the logits.

    Example:
        >>> from softkin import smoothing
        >>> loss_fn = SoftLabelCrossEntropy(smoothing.uniform_labels(3, alpha=0.1))
        >>> logits, targets = torch.tensor([[2.0, 0.0, -1.0]]), torch.tensor([0])
        >>> round(float(loss_fn(logits, targets)), 6)
        0.336513
        >>> round(float(F.cross_entropy(logits, targets, label_smoothing=0.1)), 6)
        0.336513
    """

    weight: Tensor | None

    def __init__(
        self,
        soft_labels: Array | SparseRows,
        *,
        alpha: AutoAlpha | Literal["auto"] | None = None,
        weight: Array | None = None,
        weight_by: Literal["class", "sample"] = "class",
        ignore_index: int = -100,
        reduction: Literal["mean", "sum", "none"] = "mean",
        persistent: bool = False,
    ) -> None:
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"`reduction` must be 'mean', 'sum' or 'none', got {reduction!r}.")
        if weight_by not in ("class", "sample"):
            raise ValueError(f"`weight_by` must be 'class' or 'sample', got {weight_by!r}.")
        auto = requested(alpha)
        if alpha is not None and auto is None:
            raise ValueError(f"`alpha` must be None or 'auto', as `soft_labels` have theirs already, got {alpha!r}.")
        super().__init__(soft_labels, auto, persistent=persistent)
        self.ignore_index, self.reduction, self.weight_by = ignore_index, reduction, weight_by
        if weight is not None:
            w = checks.as_tensor(weight, "weight").to(torch.float64, copy=True)
            if w.shape != (self.num_classes,):
                raise ValueError(
                    f"`weight` must be one number for each of {self.num_classes} classes, got shape {tuple(w.shape)}."
                )
            if not bool((torch.isfinite(w) & (w >= 0)).all()):
                raise ValueError("`weight` must be finite and not negative.")
            weight = w
        self.register_buffer("weight", weight)
        self._guards = GUARDS
        self._steps: int | None = None if self._auto is None else 0
        """Batches since alpha="auto" should have been adjusted; None once it was, or if α is fixed"""
        self._zeros = 0

    def extra_repr(self) -> str:
        moving = "" if self._auto is None else f"alpha={self.alpha:.6g} (auto), "
        return f"{moving}num_classes={self.num_classes}, reduction={self.reduction!r}" + (
            f", weight_by={self.weight_by!r}" if self.weight is not None else ""
        )

    def adjust(self, validation_logits: Array, validation_labels: Array) -> float:
        """Adjust ``alpha="auto"`` by the network's over-confidence: once per epoch, on rows that it is not trained on.

        The rule is that of ``losses.soft_labels``. Collective: in a run of several ranks every rank must call it, with
        its share of the rows or with all of them, and all get the same α.

        Args:
            validation_logits: (N, K) or (N, K, d1, …), of the network in evaluation mode; torch or numpy.
            validation_labels: (N,) or (N, d1, …) integers.

        Returns:
            α of the next epoch.

        Example:
            >>> from softkin import losses, smoothing
            >>> loss_fn = losses.SoftLabelCrossEntropy(smoothing.uniform_labels(3), alpha="auto")
            >>> logits = torch.tensor([[4.0, 0.0, 0.0], [4.0, 0.0, 0.0]])
            >>> round(loss_fn.adjust(logits, torch.tensor([0, 1])), 4)  # 96 % sure, right once: .02 + .5·(.9647 − .5)
            0.2523
        """
        if self._auto is None:
            raise ValueError("`adjust` needs alpha='auto', but this loss has a fixed alpha; make it with alpha='auto'.")
        gap = validation_gap(
            validation_logits, validation_labels, num_classes=self.num_classes, ignore_index=self.ignore_index
        )
        self.set_alpha(self._auto.moved(self.alpha, gap))
        self._steps = None
        self._zeros = self._zeros + 1 if self.alpha == 0 else 0
        if self._zeros == STAYS:
            how = f"{-100 * gap:.1f} points less sure than it is right" if gap < 0 else "as sure as it is right"
            warnings.warn(
                f"alpha='auto' has stayed at 0 for {STAYS} epochs: on the validation rows the network is {how}, and "
                "smoothing would make it less sure still, as is usual early in training. It trains on one-hot labels "
                "until the adjustment finds it over-confident.",
                stacklevel=2,
            )
        return self.alpha

    def _count_step(self) -> None:
        """Warn once if alpha="auto" is never adjusted."""
        assert self._steps is not None
        self._steps += 1
        if self._steps == UNADJUSTED:
            self._steps = None
            warnings.warn(
                f"alpha='auto' is still {self.alpha:g}, where it began {UNADJUSTED:,} batches ago, because `adjust` "
                "was never called: call loss_fn.adjust(validation_logits, validation_labels) once per epoch, or "
                "give alpha "
                "a number.",
                stacklevel=3,
            )

    def forward(
        self, logits: Tensor | ModelOutput, targets: Tensor, num_items_in_batch: Tensor | float | None = None
    ) -> Tensor:
        """The loss of ``logits`` against integer or probability ``targets``.

        Args:
            logits: A tensor, or the output of a Hugging Face model: an object with a tensor ``logits``.
            targets: Integers or probabilities.
            num_items_in_batch: Divide the sum of the losses by this instead of the number of samples. If every batch
                of a gradient accumulation is divided by the samples of all its batches, the gradients are those of
                one large batch. Hugging Face's ``Trainer(compute_loss_func=loss_fn)`` passes it.
        """
        if not torch.compiler.is_compiling() and self._steps is not None and self.training:
            self._count_step()
        if not isinstance(logits, Tensor):
            logits = _logits_of(logits)
        if num_items_in_batch is not None and self.reduction != "mean":
            raise ValueError(
                f"`num_items_in_batch` divides a mean, but the loss has reduction={self.reduction!r}; "
                "make it with reduction='mean'."
            )
        if logits.ndim == 0:
            raise ValueError("logits must have shape (N, K), (N, K, d1, …) or (K,), got a single number.")
        single = logits.ndim == 1
        if single:
            logits, targets = logits[None], targets[None]
        none_ignored = self._check(logits, targets)
        half = logits.dtype in (torch.float16, torch.bfloat16)
        kind = logits.device.type
        autocast = torch.is_autocast_enabled(kind)
        # Autocast would mix the labels in half precision. Leaving it costs time, so do that only if it is enabled.
        with torch.autocast(kind, enabled=False) if autocast else contextlib.nullcontext():
            log_p = F.log_softmax(logits, 1, dtype=torch.float32 if half else None)
            w = self._cast("weight", log_p) if self._buffers["weight"] is not None else None
            if targets.is_floating_point():
                sums, counts = self._soft(log_p, targets.to(log_p.dtype), w)
            else:
                sums, counts = self._hard(log_p, targets, w, none_ignored)
            if num_items_in_batch is not None:
                sums = sums.sum() / num_items_in_batch
            elif self.reduction == "mean":
                sums = sums.mean() if counts is None else sums.sum() / counts.sum()
            elif self.reduction == "sum":
                sums = sums.sum()
            elif single:
                sums = sums[0]
        loss = -sums  # negate last: this is usually a single number
        return loss.to(logits.dtype) if half and not autocast else loss

    def activation(self, logits: Tensor) -> Tensor:
        """The probabilities of logits; fastai's ``get_preds`` asks the loss for them."""
        return logits.softmax(dim=1)

    def decodes(self, logits: Tensor) -> Tensor:
        """The likeliest classes; fastai's ``predict`` and ``show_results`` ask the loss for them."""
        return logits.argmax(dim=1)

    def _hard(
        self, log_p: Tensor, targets: Tensor, w: Tensor | None, none_ignored: bool
    ) -> tuple[Tensor, Tensor | None]:
        """The negated losses of integer targets, and their weights in the mean (None: all 1)."""
        classes = targets.to(torch.int64)
        counts: Tensor | None = None
        ignored = None if none_ignored else targets == self.ignore_index
        if ignored is not None:
            classes = classes.masked_fill(ignored, 0)
            counts = (~ignored).to(log_p.dtype)
        by_class = None
        if w is not None:
            counts = w[classes] if counts is None else counts * w[classes]
            by_class = w if self.weight_by == "class" else None
        sums = (self._sparse_sum if self._is_sparse else self._dense_sum)(log_p, classes, by_class)
        if ignored is not None:
            sums = sums.masked_fill(ignored, 0)
        if w is not None and counts is not None and self.weight_by == "sample":
            sums = sums.masked_fill(counts == 0, 0) * counts  # also where the loss is infinite
        return sums, counts

    def _soft(self, log_p: Tensor, targets: Tensor, w: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The negated losses of probability targets, and their weights in the mean (None: all 1)."""
        q = self._sparse_mixture(targets) if self._is_sparse else self._dense_mixture(targets)
        if w is None:
            return _dot(q, log_p), None
        along = _along_classes(w, log_p)
        counts = (targets * along).sum(dim=1)
        if self.weight_by == "sample":
            return _dot(q, log_p).masked_fill(counts == 0, 0) * counts, counts
        return _dot(q * along, log_p), counts

    def _dense_sum(self, log_p: Tensor, classes: Tensor, w: Tensor | None) -> Tensor:
        """Σ_c w_c · Q_yc · log p_c."""
        # index_select, not Q[classes]: it refuses negative classes, and is faster
        q = self._cast("soft_labels", log_p).index_select(0, classes.reshape(-1))
        if w is not None:
            q = q * w
        if log_p.ndim > 2:
            q = q.view(*classes.shape, self.num_classes).movedim(-1, 1)
        return _dot(q, log_p)

    def _sparse_sum(self, log_p: Tensor, classes: Tensor, w: Tensor | None) -> Tensor:
        """``_dense_sum`` for sparse rows: the few classes above the rest, plus the rest times the sum over all."""
        flat, y = log_p.movedim(1, -1).reshape(-1, self.num_classes), classes.reshape(-1)
        rest = self._cast("rest", log_p).index_select(0, y)
        own = self._cast("own", log_p).index_select(0, y)
        places = torch.cat([y[:, None], self._cast("indices", log_p).index_select(0, y)], dim=1)
        heights = torch.cat([own[:, None], self._cast("values", log_p).index_select(0, y)], dim=1) - rest[:, None]

        def summed(terms: Tensor) -> Tensor:
            terms = terms if w is None else terms * w
            return (terms.gather(1, places) * heights).sum(dim=1) + rest * terms.sum(dim=1)

        if _can_look(flat) and _is_finite(sums := summed(flat)):
            return sums.view(classes.shape)
        # Classes with probability 0 are left out of the sums; if a label puts mass on one, the loss is infinite.
        impossible = flat.detach() == -math.inf
        sums = summed(flat.masked_fill(impossible, 0))
        return sums.masked_fill(summed(impossible.to(flat.dtype)) > 0, -math.inf).view(classes.shape)

    def _dense_mixture(self, targets: Tensor) -> Tensor:
        """q_i = Σ_c t_ic Q_c."""
        return (targets.movedim(1, -1) @ self._cast("soft_labels", targets)).movedim(-1, 1)

    def _sparse_mixture(self, targets: Tensor) -> Tensor:
        """``_dense_mixture`` for sparse rows: each non-zero target adds the few values of its row to the rest."""
        flat = targets.movedim(1, -1).reshape(-1, self.num_classes)
        rest = self._cast("rest", targets)
        q = flat * (self._cast("own", targets) - rest) + (flat @ rest)[:, None]
        indices, heights = self._cast("indices", targets), self._cast("values", targets) - rest[:, None]
        sample, classes = flat.nonzero(as_tuple=True)
        for chunk in torch.arange(len(sample), device=flat.device).split(max(1, 2**22 // indices.shape[1])):
            i, c = sample[chunk], classes[chunk]
            places = i[:, None] * self.num_classes + indices[c]
            q = q.view(-1).index_add(0, places.view(-1), (flat[i, c, None] * heights[c]).view(-1)).view_as(q)
        spatial = [targets.shape[0], *targets.shape[2:], self.num_classes]
        return q.view(spatial).movedim(-1, 1)

    def _check(self, logits: Tensor, targets: Tensor) -> bool:
        """Check shapes and dtypes, and the values if reading them does not stall an accelerator.

        Returns True if the targets are known not to contain ``ignore_index``: the common case then needs no masks.
        """
        if not isinstance(targets, Tensor):
            raise TypeError(f"targets must be a tensor, got {type(targets).__name__}.")
        if logits.shape[1] != self.num_classes:
            raise ValueError(
                f"the labels cover {self.num_classes} classes but the logits have {logits.shape[1]}; "
                "was the matrix made for another data set?"
            )
        if targets.is_floating_point():
            if targets.shape != logits.shape:
                raise ValueError(
                    f"probability targets must be shaped as the logits, {tuple(logits.shape)}, got "
                    f"{tuple(targets.shape)}; integer targets must have an integer type."
                )
            if self._guards and not torch.compiler.is_compiling():
                self._guards -= 1
                self._warn_of_double_smoothing(targets)
            return True
        if targets.dtype == torch.bool or targets.is_complex():
            raise TypeError(f"targets must be integers or probabilities, got {targets.dtype}.")
        if targets.shape != (expected := (logits.shape[0], *logits.shape[2:])):
            raise ValueError(f"integer targets must have shape {expected}, got {tuple(targets.shape)}.")
        if torch.compiler.is_compiling() or targets.device.type != "cpu" or targets.numel() == 0:
            return False
        array = targets.numpy()  # numpy finds the minimum of a small array ten times as fast as torch
        low, high = int(array.min()), int(array.max())
        if low >= 0 and high < self.num_classes:
            return not low <= self.ignore_index <= high
        wrong = ((targets < 0) | (targets >= self.num_classes)) & (targets != self.ignore_index)
        if bool(wrong.any()):
            raise ValueError(
                f"targets must be from 0 to {self.num_classes - 1} or ignore_index={self.ignore_index}, "
                f"got {int(targets[wrong][0])}."
            )
        return False

    @torch.no_grad()
    def _warn_of_double_smoothing(self, targets: Tensor) -> None:
        kept = self.own if self._is_sparse else self.soft_labels.diagonal()
        rows = targets.movedim(1, -1).reshape(-1, self.num_classes)
        smooth = ((rows != 0).sum(dim=1) > 2).nonzero().flatten()
        if len(smooth) == 0 or float(kept.min()) == 1:
            return
        self._guards = 0  # once is enough
        row = rows[smooth[:1]].to(torch.float32)
        after = (self._sparse_mixture(row) if self._is_sparse else self._dense_mixture(row))[0]
        top = int(row.argmax())
        warnings.warn(
            f"targets that are already smooth (sample {int(smooth[0])} has {int((row != 0).sum())} non-zero entries) "
            f"are smoothed again: the effective label of its class {top} is {float(after[top]):.4g} where the target "
            f"has {float(row[0, top]):.4g}; give integers or mixtures of two classes, or use alpha=0.",
            stacklevel=7,  # past torch's own frames to the caller's line
        )


def _logits_of(outputs: ModelOutput) -> Tensor:
    logits = getattr(outputs, "logits", None)
    if not isinstance(logits, Tensor):
        raise TypeError(f"logits must be a tensor or have one as `.logits`, got {type(outputs).__name__}.")
    return logits


def _can_look(tensor: Tensor) -> bool:
    """Whether reading a value of ``tensor`` is cheap; it would stall an accelerator, and break a compiled graph."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def _is_finite(sums: Tensor) -> bool:
    return math.isfinite(float(sums.detach().sum()))


def _dot(q: Tensor, log_p: Tensor) -> Tensor:
    """Σ_c q_c · log p_c over the second axis, where 0 · log 0 is 0."""
    sums: Tensor
    if _can_look(log_p):
        sums = torch.linalg.vecdot(log_p, q, dim=1)
        if _is_finite(sums):
            return sums
    sums = torch.linalg.vecdot(log_p.masked_fill((q.detach() == 0) & (log_p.detach() == -math.inf), 0), q, dim=1)
    return sums


def _along_classes(w: Tensor, like: Tensor) -> Tensor:
    """A tensor (K,), reshaped to multiply (N, K, d1, …)."""
    return w.view(1, -1, *(1,) * (like.ndim - 2))

r"""Logits, targets and smooth labels → the training loss.

With q_i the smooth label of sample i and p_i the softmax of its logits, over K classes,

.. math:: \ell_i = -\sum_c w_c \, q_{ic} \log p_{ic}, \qquad q_i = \sum_c t_{ic} Q_c

where t_i is the target (one-hot for an integer), Q_c the smooth label of class c, and w the class weights (1). A class
whose logit is −∞ has p = 0: it adds nothing where its label or weight is 0, and makes the loss infinite elsewhere.
"""

import contextlib
import math
import warnings
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softkin._core import checks
from softkin._core.checks import Array
from softkin.losses import auto_alpha
from softkin.losses.auto_alpha import AutoAlpha, validation_gap
from softkin.losses.label_buffers import SmoothLabels
from softkin.similarity import SparseRows

if TYPE_CHECKING:
    pass

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

    Checkpoints saved without the loss therefore load strictly into a model with it, and the reverse. If a
    checkpoint does hold labels (saved with ``persistent=True``), they are loaded.

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
        auto = auto_alpha.requested(alpha)
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

        The rule is that of ``losses.auto_alpha``. Collective: in a run of several ranks every rank must call it, with
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
                "smoothing would make it less sure still. It trains on one-hot labels for now.",
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

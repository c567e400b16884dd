"""The loss of several labels per sample, each a yes or no of its own, smoothed towards similar labels."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softkin import smoothing
from softkin._core import checks
from softkin._core.checks import Array
from softkin.similarity import SparseRows


class MultiLabelSimilarityLoss(nn.Module):
    r"""Binary cross-entropy of logits with multi-hot targets that are smoothed by the similarity of labels.

    With Y the labels of a sample and :math:`s_y` the row of label y in the similarity, the target of label l is

    .. math:: t_l = (1 - \alpha) [l \in Y] + \frac{\alpha}{|Y|} \sum_{y \in Y} s_{yl}

    It is between 0 and 1, and for one label per sample it is that of ``ClassSimilarityLoss``. A sample without labels
    keeps the target 0. With α = 0 the loss is ``torch.nn.BCEWithLogitsLoss``.

    Args:
        similarity: (L, L) with rows that sum to 1 and a zero diagonal, such as that of ``softkin.similarity``.
        alpha: The smoothing factor, 0 ≤ α < 1.
        pos_weight: (L,) weight of the positive part of each label, as in ``BCEWithLogitsLoss``.
        reduction: "mean" over samples and labels, "sum" or "none".

    Example:
        >>> S = torch.tensor([[0.0, 0.9, 0.1], [0.9, 0.0, 0.1], [0.5, 0.5, 0.0]])
        >>> loss_fn = MultiLabelSimilarityLoss(S, alpha=0.1)
        >>> loss_fn.targets(torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 0]]))
        tensor([[0.9000, 0.0900, 0.0100],
                [0.9450, 0.9450, 0.0100],
                [0.0000, 0.0000, 0.0000]])
    """

    similarity: Tensor
    pos_weight: Tensor | None

    def __init__(
        self,
        similarity: Array | SparseRows,
        alpha: float = 0.1,
        *,
        pos_weight: Array | None = None,
        reduction: Literal["mean", "sum", "none"] = "mean",
    ) -> None:
        super().__init__()
        self.alpha = checks.alpha(alpha)
        dense = similarity.dense() if isinstance(similarity, SparseRows) else similarity
        rows = smoothing.checked_similarity(dense)
        self.register_buffer("similarity", rows, persistent=False)
        weight = None if pos_weight is None else checks.weights(pos_weight, len(rows), "pos_weight")
        self.register_buffer("pos_weight", weight, persistent=False)
        checks.option(reduction, "reduction", ("mean", "sum", "none"))
        self.reduction = reduction

    def targets(self, labels: Tensor) -> Tensor:
        """(N, L) smoothed targets of (N, L) zeros and ones, in float32 unless the labels are floats."""
        num_labels = len(self.similarity)
        if labels.ndim != 2 or labels.shape[1] != num_labels:
            raise ValueError(
                f"`labels` must have shape (N, {num_labels}), a zero or one for each label, got {tuple(labels.shape)}."
            )
        y = labels if labels.is_floating_point() else labels.to(torch.float32)
        if not bool(((y == 0) | (y == 1)).all()):
            raise ValueError("`labels` must be zeros and ones.")
        count = y.sum(dim=1, keepdim=True).clamp(min=1)
        return (1 - self.alpha) * y + self.alpha * (y @ self.similarity.to(y)) / count

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of (N, L) logits and (N, L) zeros and ones."""
        if logits.shape != labels.shape:
            raise ValueError(
                f"`logits` and `labels` must have one shape, got {tuple(logits.shape)} and {tuple(labels.shape)}."
            )
        weight = None if self.pos_weight is None else self.pos_weight.to(logits)
        target = self.targets(labels.to(logits.device)).to(logits.dtype)
        return F.binary_cross_entropy_with_logits(logits, target, pos_weight=weight, reduction=self.reduction)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}, num_labels={len(self.similarity)}, reduction={self.reduction!r}"

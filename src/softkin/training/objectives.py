"""Logits and labels → the loss of each training method, summed over samples so that parts of a batch add up."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softkin import ranks, smoothing
from softkin.losses import SoftLabelCrossEntropy
from softkin.training.methods import Method


class Objective(nn.Module):
    """Σ_i loss of sample i. ``targets`` are classes (N,), or rows (N, K) that mix them; see ``Method`` for formulas."""

    def __init__(self, method: Method, num_classes: int) -> None:
        super().__init__()
        self.method, self.num_classes = method, num_classes
        self.smooth: SoftLabelCrossEntropy | None = None
        q = method.soft_labels
        if q is not None and len(q) != num_classes:
            raise ValueError(
                f"`soft_labels` cover {len(q)} classes but the data have {num_classes}; "
                "was the matrix made for another data set?"
            )
        if method.label == "uniform" and method.alpha is not None:
            q = smoothing.uniform_labels(num_classes, method.alpha)
        if q is not None:
            self.smooth = SoftLabelCrossEntropy(q, reduction="sum")

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        if self.smooth is not None:
            loss: Tensor = self.smooth(logits, targets)
            return loss
        if self.method.label == "focal":
            return focal_loss(logits, targets, gamma=self.method.gamma or 0.0)
        hard = F.cross_entropy(logits, targets, reduction="sum")
        if self.method.label == "margin":
            assert self.method.margin is not None
            assert self.method.penalty is not None
            return hard + self.method.penalty * margin_excess(logits, margin=self.method.margin)
        return hard

    def end_epoch(self) -> None:
        """Nothing to do where labels do not change."""


def focal_loss(logits: Tensor, targets: Tensor, *, gamma: float) -> Tensor:
    """Σ_i Σ_c t_ic · −(1−p_ic)^γ ln p_ic."""
    log_p = F.log_softmax(logits, dim=1)
    if not targets.is_floating_point():
        own = log_p.gather(1, targets[:, None])
        return -(_doubt(own) ** gamma * own).sum()
    return -(targets * _doubt(log_p) ** gamma * log_p).sum()


def _doubt(log_p: Tensor) -> Tensor:
    """1−p, kept above 0: there the slope of (1−p)^γ is infinite for γ < 1, and times ln 1 = 0 no number."""
    return (-torch.expm1(log_p)).clamp(min=torch.finfo(log_p.dtype).tiny)


def margin_excess(logits: Tensor, *, margin: float) -> Tensor:
    """Σ_i mean_c max(0, max_j z_ij − z_ic − m)."""
    return F.relu(logits.amax(dim=1, keepdim=True) - logits - margin).mean(dim=1).sum()


class OnlineObjective(Objective):
    """Cross-entropy towards a table of labels that every epoch's right predictions make for the next."""

    table: Tensor
    sums: Tensor
    counts: Tensor

    def __init__(self, method: Method, num_classes: int) -> None:
        super().__init__(method, num_classes)
        self.register_buffer("table", torch.full((num_classes, num_classes), 1 / num_classes))
        self.register_buffer("sums", torch.zeros(num_classes, num_classes))
        self.register_buffer("counts", torch.zeros(num_classes))

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        alpha, log_p = self.method.alpha or 0.0, F.log_softmax(logits, dim=1)
        rows = targets if targets.is_floating_point() else F.one_hot(targets, self.num_classes).to(log_p.dtype)
        q = (1 - alpha) * rows + alpha * (rows @ self.table.to(log_p.dtype))
        if self.training:
            self._remember(log_p.detach(), rows.argmax(dim=1))
        return -(q * log_p).sum()

    @torch.no_grad()
    def _remember(self, log_p: Tensor, classes: Tensor) -> None:
        """Add what was predicted rightly; of mixed samples the heavier class counts as theirs."""
        right = (log_p.argmax(dim=1) == classes).to(log_p.dtype)
        # A product, not index_add: its sums are in one order on every device, and so the same each time.
        mine = F.one_hot(classes, self.num_classes).to(log_p.dtype) * right[:, None]
        self.sums += mine.T @ log_p.exp()
        self.counts += mine.sum(dim=0)

    @torch.no_grad()
    def end_epoch(self) -> None:
        """The next epoch's table, from the samples of all processes."""
        sums, counts = ranks.total(self.sums.clone()), ranks.total(self.counts.clone())
        seen = counts > 0
        self.table[seen] = sums[seen] / sums[seen].sum(dim=1, keepdim=True)
        self.sums.zero_()
        self.counts.zero_()


def objective(method: Method, num_classes: int) -> Objective:
    """The loss of ``method``."""
    return (OnlineObjective if method.label == "online" else Objective)(method, num_classes)


def mixed_targets(first: Tensor, second: Tensor, weight: float, num_classes: int) -> Tensor:
    """λ·e_a + (1−λ)·e_b, (N, K)."""
    rows = torch.zeros(len(first), num_classes, device=first.device)
    rows.scatter_(1, first[:, None], weight)
    return rows.scatter_add_(1, second[:, None], torch.full_like(rows[:, :1], 1 - weight))

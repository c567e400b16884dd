"""Logits and labels → the loss of each training method, summed over samples so that parts of a batch add up."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softkin import smoothing
from softkin._core import ranks
from softkin.lab.training.methods import Method
from softkin.losses import SoftLabelCrossEntropy
from softkin.losses.auto_alpha import AutoAlpha


class Objective(nn.Module):
    """The sum over samples of the loss, here the cross-entropy; see ``Method`` for the formulas of the subclasses.

    ``targets`` are classes (N,), or label rows (N, K) of mixed samples.
    """

    def __init__(self, method: Method, num_classes: int) -> None:
        super().__init__()
        self.method, self.num_classes = method, num_classes

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits, targets, reduction="sum")

    def end_epoch(self) -> None:
        """Update labels after an epoch; here they never change."""

    def validated(self, logits: Tensor) -> None:
        """Learn from the logits of the validation rows, if the method does; all processes get all rows."""

    @property
    def moving(self) -> SoftLabelCrossEntropy | None:
        """The loss whose α is "auto", if there is one."""
        return None

    @property
    def alpha(self) -> float | None:
        """The current α, as the method defines α; None if α is fixed."""
        return None


class SmoothObjective(Objective):
    """Cross-entropy towards the smooth labels of ``self.smooth``."""

    smooth: SoftLabelCrossEntropy
    share = 1.0
    """The mass on other classes when α = 1"""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        loss: Tensor = self.smooth(logits, targets)
        return loss

    @property
    def moving(self) -> SoftLabelCrossEntropy | None:
        return None if self.method.auto_alpha is None else self.smooth

    @property
    def alpha(self) -> float | None:
        return None if self.moving is None else self.moving.alpha / self.share


class UniformObjective(SmoothObjective):
    """Cross-entropy towards (1−α)·e_k + α/K."""

    def __init__(self, method: Method, num_classes: int) -> None:
        super().__init__(method, num_classes)
        auto = method.auto_alpha
        self.share = (num_classes - 1) / num_classes
        if auto is not None:  # SoftLabelCrossEntropy defines α as the mass on other classes
            names = ("start", "rate", "most")
            auto = AutoAlpha(**{name: getattr(auto, name) * self.share for name in names})
        labels = smoothing.uniform_labels(num_classes, method.values["alpha"])
        self.smooth = SoftLabelCrossEntropy(labels, alpha=auto, reduction="sum")


class SimilarityObjective(SmoothObjective):
    """Cross-entropy towards the rows of the method's matrix."""

    def __init__(self, method: Method, num_classes: int) -> None:
        super().__init__(method, num_classes)
        assert method.smooth_loss is not None
        covered = method.smooth_loss.num_classes
        if covered != num_classes:
            raise ValueError(
                f"`soft_labels` cover {covered} classes but the data have {num_classes}; "
                "was the matrix made for another data set?"
            )
        self.smooth = copy.deepcopy(method.smooth_loss)  # a copy, because the training moves it to its device


class FocalObjective(Objective):
    """The focal loss."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return focal_loss(logits, targets, gamma=self.method.values["gamma"])


def focal_loss(logits: Tensor, targets: Tensor, *, gamma: float) -> Tensor:
    """Σ_i Σ_c t_ic · −(1−p_ic)^γ ln p_ic."""
    log_p = F.log_softmax(logits, dim=1)
    if not targets.is_floating_point():
        own = log_p.gather(1, targets[:, None])
        return -(_doubt(own) ** gamma * own).sum()
    return -(targets * _doubt(log_p) ** gamma * log_p).sum()


def _doubt(log_p: Tensor) -> Tensor:
    """1−p, kept above 0: at 0 the slope of (1−p)^γ is infinite for γ < 1, and times ln 1 = 0 it is NaN."""
    return (-torch.expm1(log_p)).clamp(min=torch.finfo(log_p.dtype).tiny)


def margin_excess(logits: Tensor, *, margin: float) -> Tensor:
    """Σ_i mean_c max(0, max_j z_ij − z_ic − m)."""
    return F.relu(logits.amax(dim=1, keepdim=True) - logits - margin).mean(dim=1).sum()


class MarginObjective(Objective):
    """Cross-entropy, and a penalty for logits that lie further than the margin below the highest."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        values = self.method.values
        excess = margin_excess(logits, margin=values["margin"])
        return super().forward(logits, targets) + values["penalty"] * excess


class OnlineObjective(Objective):
    """Cross-entropy towards a table of labels, computed for each epoch from the last epoch's right predictions."""

    table: Tensor
    sums: Tensor
    counts: Tensor

    def __init__(self, method: Method, num_classes: int) -> None:
        super().__init__(method, num_classes)
        self.register_buffer("table", torch.full((num_classes, num_classes), 1 / num_classes))
        self.register_buffer("sums", torch.zeros(num_classes, num_classes))
        self.register_buffer("counts", torch.zeros(num_classes))

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        alpha, log_p = self.method.values["alpha"], F.log_softmax(logits, dim=1)
        rows = targets if targets.is_floating_point() else F.one_hot(targets, self.num_classes).to(log_p.dtype)
        q = (1 - alpha) * rows + alpha * (rows @ self.table.to(log_p.dtype))
        if self.training:
            self._remember(log_p.detach(), rows.argmax(dim=1))
        return -(q * log_p).sum()

    @torch.no_grad()
    def _remember(self, log_p: Tensor, classes: Tensor) -> None:
        """Add the probabilities of right predictions; a mixed sample counts for the class with the larger weight."""
        right = (log_p.argmax(dim=1) == classes).to(log_p.dtype)
        # A matrix product, not index_add, which sums in varying order on GPUs.
        mine = F.one_hot(classes, self.num_classes).to(log_p.dtype) * right[:, None]
        self.sums += mine.T @ log_p.exp()
        self.counts += mine.sum(dim=0)

    @torch.no_grad()
    def end_epoch(self) -> None:
        """Compute the next epoch's table from the samples of all processes."""
        sums, counts = ranks.total(self.sums.clone()), ranks.total(self.counts.clone())
        seen = counts > 0
        self.table[seen] = sums[seen] / sums[seen].sum(dim=1, keepdim=True)
        self.sums.zero_()
        self.counts.zero_()


def objective(method: Method, num_classes: int) -> Objective:
    """The loss of ``method``."""
    make = method.labelling.objective
    assert make is not None
    return make(method, num_classes)


def mixed_targets(first: Tensor, second: Tensor, weight: float, num_classes: int) -> Tensor:
    """λ·e_a + (1−λ)·e_b, (N, K)."""
    rows = torch.zeros(len(first), num_classes, device=first.device)
    rows.scatter_(1, first[:, None], weight)
    return rows.scatter_add_(1, second[:, None], torch.full_like(rows[:, :1], 1 - weight))

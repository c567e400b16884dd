"""Methods whose loss penalises confidence (focal, margin, MMCE, dual focal, ACLS …), and those that mix two samples.

Each is a sum over samples, so that parts of a batch add up; a penalty that compares the samples of a batch with each
other takes those of one part.

Of mixed samples, one λ is drawn for each batch, and the second sample is another of the same batch, as in the authors'
code.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from softkin.lab.training.declaration import Parameter
from softkin.lab.training.objectives.objective import Mixing, Objective

if TYPE_CHECKING:
    from softkin.lab.training.methods import Method


WIDTH = 0.4  # width of MMCE's kernel, from the authors' code
POSITIVE, NEGATIVE = 1.0, 0.1  # ACLS's weights of the highest logit and of the others, from the authors' code
LEAST, MOST = 1e-6, 1e6  # range of the class-adaptive multipliers, from the authors' code


BELOW = "how far a logit may lie below the highest without a penalty"
MARGIN = Parameter("margin", "m", 10.0, BELOW, "above 0")


def _gamma(default: float) -> Parameter:
    return Parameter("gamma", "γ", default, "the exponent of the focal loss")


def _penalty(default: float) -> Parameter:
    return Parameter("penalty", "λ", default, "the weight of the penalty")


class Focal(Objective, name="focal", parameters=(_gamma(3.0),), tuned="gamma"):
    """Focal loss, −(1−p_k)^γ ln p_k: sure samples count less (Lin et al., 2017; γ = 3 as in Mukhoti et al., 2020)."""

    @staticmethod
    def target(method: "Method", k: int) -> str:
        return f"one-hot labels, the loss of a sample times (1−p)^{method.values['gamma']:g}"

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


class Margin(
    Objective,
    name="margin",
    parameters=(Parameter("margin", "m", 10.0, BELOW), _penalty(0.1)),
    tuned="margin",
):
    """A penalty on logits far below the highest (margin-based label smoothing, Liu et al., 2022).

    Cross-entropy plus λ·mean_j max(0, max z − z_j − m).

    The mean over classes is that of the authors' code.
    """

    @staticmethod
    def target(method: "Method", k: int) -> str:
        return (
            f"one-hot labels, plus {method.values['penalty']:g}·mean over classes of "
            f"max(0, highest logit − logit − {method.values['margin']:g})"
        )

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        values = self.method.values
        excess = margin_excess(logits, margin=values["margin"])
        return super().forward(logits, targets) + values["penalty"] * excess


def margin_excess(logits: Tensor, *, margin: float) -> Tensor:
    """Σ_i mean_c max(0, max_j z_ij − z_ic − m)."""
    return F.relu(logits.amax(dim=1, keepdim=True) - logits - margin).mean(dim=1).sum()


def _classes(targets: Tensor) -> Tensor:
    """The classes (N,); of a mixed sample, the class with the larger weight."""
    return targets.argmax(dim=1) if targets.is_floating_point() else targets


def squared_mmce(logits: Tensor, classes: Tensor) -> Tensor:
    """(1/m²) Σ_ij (c_i − r_i)(c_j − r_j) exp(−|r_i − r_j|/0.4), r the confidence, c whether it was right."""
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    excess = (predicted == classes).to(confidence.dtype) - confidence
    kernel = (-(confidence[:, None] - confidence[None, :]).abs() / WIDTH).exp()
    return (excess[:, None] * excess[None, :] * kernel).mean()


class Mmce(Objective, name="mmce", title="MMCE", parameters=(_penalty(2.0),), tuned="penalty"):
    """A penalty on the kernel calibration error of each batch (Kumar et al., 2018; unweighted)."""

    @staticmethod
    def target(method: "Method", k: int) -> str:
        return f"one-hot labels, plus {method.values['penalty']:g}·the maximum mean calibration error of the batch"

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        # The square root has no derivative at 0.
        error = (squared_mmce(logits, _classes(targets)).clamp_min(0.0) + 1e-10).sqrt()
        return super().forward(logits, targets) + self.method.values["penalty"] * len(logits) * error


class DualFocal(Objective, name="dual-focal", parameters=(_gamma(5.0),), tuned="gamma"):
    """Dual focal loss, −(1−p_k+p_j)^γ ln p_k, p_j the largest probability below p_k (Tao et al., 2023)."""

    @staticmethod
    def target(method: "Method", k: int) -> str:
        return f"one-hot labels, the loss of a sample times (1−p+largest below p)^{method.values['gamma']:g}"

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return dual_focal_loss(logits, targets, gamma=self.method.values["gamma"])


def dual_focal_loss(logits: Tensor, targets: Tensor, *, gamma: float) -> Tensor:
    """Σ_i Σ_c t_ic · −(1 − p_ic + q_ic)^γ ln p_ic, q_ic the largest probability below p_ic, 0 if there is none."""
    log_p = F.log_softmax(logits, dim=1)
    p = log_p.exp()
    if targets.is_floating_point():
        own = log_p
        below = p[:, None, :].where(p[:, None, :] < p[:, :, None], 0.0).amax(dim=2)
    else:
        own = log_p.gather(1, targets[:, None])
        below = p.where(p < own.exp(), 0.0).amax(dim=1, keepdim=True)
    doubt = (1 - own.exp() + below).clamp_min(torch.finfo(p.dtype).tiny)
    loss = -(doubt**gamma * own)
    return (targets * loss).sum() if targets.is_floating_point() else loss.sum()


def acls_penalty(logits: Tensor, *, margin: float) -> Tensor:
    """Σ_i [max(0, z* − m)² + 0.1·(1/(K−1)) Σ_{j ≠ *} max(0, z* − z_j − m)²], z* the highest logit of sample i.

    In the second term z* is a constant (no gradient): that term raises the other logits without lowering the highest.
    """
    highest = logits.amax(dim=1, keepdim=True)
    others = logits < highest
    above = F.relu(highest[:, 0] - margin).square()
    far = F.relu(highest.detach() - logits - margin).square() * others
    return (POSITIVE * above + NEGATIVE * far.sum(dim=1) / max(1, logits.shape[1] - 1)).sum()


class Acls(Objective, name="acls", title="ACLS", parameters=(MARGIN, _penalty(0.1)), tuned="margin"):
    """Adaptive and conditional label smoothing: a penalty by a logit's rank (Park et al., 2023), ``acls_penalty``."""

    @staticmethod
    def target(method: "Method", k: int) -> str:
        m = method.values["margin"]
        return (
            f"one-hot labels, plus {method.values['penalty']:g}·(max(0, z*−{m:g})² + 0.1·mean of max(0, z*−z−{m:g})²), "
            "z* the highest logit"
        )

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        values = self.method.values
        return super().forward(logits, targets) + values["penalty"] * acls_penalty(logits, margin=values["margin"])


def excess_over(logits: Tensor, margin: float) -> Tensor:
    """The constraint h_ik = (max_j z_ij − z_ik − m)/m, which the class-adaptive method keeps below 0."""
    return (logits.amax(dim=1, keepdim=True) - logits - margin) / margin


def lagrangian_penalty(h: Tensor, multipliers: Tensor, rho: float) -> Tensor:
    """λh + λρh² + ρ²h³/6 where h ≥ 0, else λh/(1 − ρh): increasing in h, with slope λ at 0."""
    up, down = h.clamp_min(0.0), h.clamp_max(0.0)
    above = multipliers * up + multipliers * rho * up.square() + rho**2 * up**3 / 6
    return above + multipliers * down / (1 - rho * down)


def lagrangian_slope(h: Tensor, multipliers: Tensor, rho: float) -> Tensor:
    """The derivative of ``lagrangian_penalty`` in h."""
    above = multipliers + 2 * multipliers * rho * h + rho**2 * h.square() / 2
    return torch.where(h >= 0, above, multipliers / (1 - rho * h.clamp_max(0.0)).square())


class ClassAdaptive(
    Objective, name="class-adaptive", title="CALS", parameters=(MARGIN,), tuned="margin", from_validation=True
):
    """A margin penalty with a weight for each class that validation rows adjust.

    Cross-entropy plus Σ_k P(h_ik; λ_k, ρ), h_ik = (max z − z_ik − m)/m, λ_k updated at every validation.

    Liu et al., 2023; docs/mathematics.md says where the authors' code differs.
    """

    table: Tensor
    rho = 1.0

    @staticmethod
    def target(method: "Method", k: int) -> str:
        return (
            f"one-hot labels, plus a penalty for logits more than {method.values['margin']:g} below the highest, with "
            "one weight per class that is updated at every validation"
        )

    def __init__(self, method: "Method", num_classes: int) -> None:
        super().__init__(method, num_classes)
        self.register_buffer("table", torch.full((num_classes,), LEAST))

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        h = excess_over(logits, self.method.values["margin"])
        penalty = lagrangian_penalty(h, self.table.to(h.dtype), self.rho)
        return super().forward(logits, targets) + penalty.sum()

    @torch.no_grad()
    def validated(self, logits: Tensor) -> None:
        h = excess_over(logits.to(self.table), self.method.values["margin"])
        slopes = lagrangian_slope(h, self.table, self.rho).clamp(LEAST, MOST)
        self.table.copy_(slopes.mean(dim=0).clamp(LEAST, MOST))


def _mixing(default: float) -> Parameter:
    return Parameter(
        "mixing", "a", default, "how strongly two samples are mixed: the parameter a of Beta(a, a)", "above 0"
    )


class Mixup(Mixing, name="mixup", parameters=(_mixing(0.2),), tuned="mixing"):
    """Two samples blended, and their labels: λ·a + (1−λ)·b, λ from Beta(a, a) (Zhang et al., 2018)."""

    @staticmethod
    def target(method: "Method", k: int) -> str:
        a = method.values["mixing"]
        return f"two samples mixed, λ·first + (1−λ)·second, λ ~ Beta({a:g}, {a:g})"


class CutMix(
    Mixing, name="cutmix", title="CutMix", parameters=(_mixing(1.0),), tuned="mixing", images_only=True, pastes=True
):
    """A rectangle of one image pasted into another, labels by area (Yun et al., 2019)."""

    @staticmethod
    def target(method: "Method", k: int) -> str:
        a = method.values["mixing"]
        return f"a rectangle of a second sample pasted in, labels by area, area kept ~ Beta({a:g}, {a:g})"


def mixed_targets(first: Tensor, second: Tensor, weight: float, num_classes: int) -> Tensor:
    """λ·e_a + (1−λ)·e_b, (N, K)."""
    rows = torch.zeros(len(first), num_classes, device=first.device)
    rows.scatter_(1, first[:, None], weight)
    return rows.scatter_add_(1, second[:, None], torch.full_like(rows[:, :1], 1 - weight))

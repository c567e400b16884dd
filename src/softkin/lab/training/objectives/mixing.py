"""Methods that mix two samples into one.

One λ is drawn for each batch, and the second sample is another of the same batch, as in the authors' code.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softkin.lab.training.declaration import Parameter
from softkin.lab.training.objectives.objective import Mixing

if TYPE_CHECKING:
    from softkin.lab.training.methods import Method


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

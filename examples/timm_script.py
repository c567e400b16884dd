"""The loss in timm's training script, and its trap: mixup smooths the targets itself.

timm's ``train.py`` makes ``train_loss_fn`` and calls ``loss = train_loss_fn(output, target)``. With mixup the target
is a row of probabilities that ``Mixup`` has smoothed already (its default is ``label_smoothing=0.1``), and a smoothing
loss would smooth it a second time. ``SoftLabelCrossEntropy`` warns of that; set ``label_smoothing=0``.

timm is not imported here: give ``train`` its ``Mixup`` and a model of its ``create_model``.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from softkin.losses import ClassSimilarityLoss


def train(
    model: nn.Module,
    loader: Iterable[tuple[Tensor, Tensor]],
    class_names: list[str],
    *,
    mixup_fn: Any = None,
    alpha: float = 0.1,
    lr: float = 0.05,
) -> list[float]:
    """An epoch as timm's ``train_one_epoch`` has it; ``mixup_fn`` is ``timm.data.Mixup(..., label_smoothing=0)``."""
    train_loss_fn = ClassSimilarityLoss.from_names(class_names, alpha=alpha)  # in place of LabelSmoothingCrossEntropy
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    values = []
    for inputs, target in loader:
        if mixup_fn is not None:
            inputs, target = mixup_fn(inputs, target)
        loss = train_loss_fn(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(float(loss.detach()))
    return values

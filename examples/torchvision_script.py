"""The loss in torchvision's reference training script (``references/classification/train.py``).

There ``criterion = nn.CrossEntropyLoss(label_smoothing=args.label_smoothing)`` is replaced by the line below, and
``--label-smoothing`` is left out. ``RandomMixup`` and ``RandomCutMix`` give rows of probabilities of two classes, which
the loss accepts. Its ``evaluate`` is given a plain ``nn.CrossEntropyLoss()``, so that the test loss is an NLL.

torchvision is not imported here: give ``train_one_epoch`` its ``RandomMixup`` as ``transform``.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from softkin.losses import ClassSimilarityLoss


def criterion_of(class_names: list[str], alpha: float = 0.1) -> nn.Module:
    """What ``train.py`` calls the criterion; ``dataset.classes`` holds the names of an ImageFolder."""
    return ClassSimilarityLoss.from_names(class_names, alpha=alpha)


def train_one_epoch(
    model: nn.Module,
    criterion: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: Iterable[tuple[Tensor, Tensor]],
    transform: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None,
) -> float:
    """As in the reference: ``loss = criterion(output, target)``."""
    for image, target in loader:
        if transform is not None:
            image, target = transform(image, target)
        loss = criterion(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach())

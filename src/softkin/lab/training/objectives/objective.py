"""What a training method is made of: a loss (``Objective``), or a way to mix samples (``Mixing``)."""

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn import functional as F

from softkin.lab.training.declaration import declare

if TYPE_CHECKING:
    from softkin.lab.training.methods import Method
    from softkin.losses import LearnedSimilarityLoss, SoftLabelCrossEntropy


class Objective(nn.Module):
    """A way to label samples: the sum over samples of its loss, here the cross-entropy.

    A subclass with a ``name`` is a training method: commands, studies, tables and records know it.

    Class keywords:
        name, title, aliases: Its names in commands and in tables.
        parameters: The numbers that it depends on; ``self.method.values`` has their values.
        tuned: The parameter that a study tunes.
        from_distances, images_only, mixable, from_validation, several, distils: See ``TrainingMethod``.

    ``forward`` takes logits (N, K) and ``targets``, classes (N,) or label rows (N, K) of mixed samples.
    """

    def __init_subclass__(cls, *, name: str | None = None, title: str | None = None, **about: Any) -> None:
        super().__init_subclass__()
        if name is not None:
            declare(cls, name, title, objective=cls, companion=cls.companion, options=cls.network_options, **about)

    summed: tuple[str, ...] = ()
    """Those of ``learnt`` that each process sums up for itself; the others are the same in all"""

    def __init__(self, method: "Method", num_classes: int) -> None:
        super().__init__()
        self.method, self.num_classes = method, num_classes

    def begin(self, rows: int) -> None:
        """Prepare for a training on this many rows; here nothing is kept of single rows."""

    def attend(self, rows: Tensor, epoch: int, epochs: int) -> None:
        """Hear of the samples that ``forward`` gets next.

        Args:
            rows: (n,) their places among the training rows, on the device.
            epoch: The current epoch, counted from 1.
            epochs: The number of all epochs.
        """

    def learnt(self) -> dict[str, Tensor]:
        """What the loss has learnt so far, by name, for checkpoints."""
        return dict(self.named_buffers(recurse=False))

    @staticmethod
    def target(method: "Method", k: int) -> str:
        """The target of a sample in words and numbers, for K classes."""
        return "one-hot labels"

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits, targets, reduction="sum")

    def end_epoch(self) -> None:
        """Update labels after an epoch; here they never change."""

    def validated(self, logits: Tensor) -> None:
        """Learn from the logits of the validation rows, if the method does; all processes get all rows."""

    @property
    def learning(self) -> "LearnedSimilarityLoss | None":
        """The loss that learns which classes are similar, if there is one."""
        return None

    @property
    def moving(self) -> "SoftLabelCrossEntropy | None":
        """The loss whose α is "auto", if there is one."""
        return None

    @property
    def alpha(self) -> float | None:
        """The current α, as the method defines α; None if α is fixed."""
        return None

    @staticmethod
    def companion(method: "Method", network: nn.Module, num_classes: int, seed: int) -> nn.Module:
        """The module that is trained instead of the network, such as ``bayes.Swag``; here the network itself."""
        return network

    @staticmethod
    def network_options(method: "Method") -> dict[str, Any]:
        """Options with which the network is built, if the network has them."""
        return {}


class Mixing:
    """A way to mix two samples; the loss is that of the way to label. A subclass with a ``name`` is a training method.

    Class keywords: those of ``Objective`` that apply, and ``pastes``: whether a rectangle of the second image is pasted
    instead of adding both images.
    """

    def __init_subclass__(cls, *, name: str | None = None, title: str | None = None, **about: Any) -> None:
        super().__init_subclass__()
        if name is not None:
            declare(cls, name, title, **about)

    @staticmethod
    def target(method: "Method", k: int) -> str:
        """The target of a sample in words and numbers, for K classes."""
        raise NotImplementedError


def objective(method: "Method", num_classes: int) -> Objective:
    """The loss of ``method``."""
    make = method.labelling.objective
    assert make is not None
    return make(method, num_classes)

"""Monte Carlo dropout: average several passes with dropout on."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Self

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from softkin._core.randomness import key, seeded
from softkin.bayes.posterior import Posterior, check_count, check_network, device_of
from softkin.predictions import Predictions


class McDropout(Posterior):
    """A network whose dropout layers stay on during prediction.

    With z_t a draw of the layers' masks, p(y|x) = (1/T) Σ_t softmax f(x, z_t). The masks of pass t depend on the seed,
    on t and on the batches, so repeating a call gives the same numbers.

    Args:
        model: A network with dropout layers; softkin's networks have the option ``dropout``.
        passes: T, the number of passes.
        seed: Seed for the masks.

    References:
        Gal and Ghahramani, Dropout as a Bayesian Approximation, 2016, arXiv:1506.02142, eq. 6.
    """

    def __init__(self, model: nn.Module, *, passes: int = 30, seed: int = 0) -> None:
        super().__init__(check_network(model))
        self._passes, self.seed = check_count(passes, "passes"), seed
        self.layers = [module for module in model.modules() if isinstance(module, _DropoutNd) and module.p > 0]
        if not self.layers:
            raise ValueError(
                "`model` must have dropout layers with p above 0, but has none; those of softkin take an option, such "
                "as mlp(dropout=0.2)."
            )
        self._drawn = False

    @property
    def count(self) -> int:
        return self._passes

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        for layer in self.layers if self._drawn else ():
            layer.train()
        return self

    @contextlib.contextmanager
    def member(self, place: int) -> Iterator[nn.Module]:
        modes = [layer.training for layer in self.layers]
        self._drawn = True
        try:
            with seeded(key(self.seed, "dropout", place), device_of(self.network)):
                yield self
        finally:
            self._drawn = False
            for layer, mode in zip(self.layers, modes, strict=True):
                layer.train(mode)


def mc_dropout(
    model: nn.Module, loader: Iterable[Any], *, passes: int = 30, seed: int = 0, members: bool = False, **options: Any
) -> Predictions:
    """The mean of ``passes`` predictions with dropout on; see ``McDropout``, and its ``predict`` for the options.

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
        >>> predictions = mc_dropout(model, [(torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))], passes=10)
        >>> predictions, predictions.mutual_information.shape
        (Predictions(5 samples, 3 classes), torch.Size([5]))
    """
    return McDropout(model, passes=passes, seed=seed).predict(loader, members=members, **options)

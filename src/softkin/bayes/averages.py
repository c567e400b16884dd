"""Averages over networks: deep ensembles (trained alike from different initial weights), their distillation into one
network, and Monte Carlo dropout (several passes with dropout on).
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from softkin import similarity
from softkin._core.randomness import key, seeded
from softkin.bayes.posterior import Posterior, check_count, check_network, device_of
from softkin.predictions import Predictions


class Ensemble(Posterior):
    """Networks whose probabilities are averaged: p(y|x) = (1/M) Σ_m p_m(y|x).

    ``training.fit_method`` trains the members, each with its own initial weights and its own order of the rows.

    References:
        Lakshminarayanan et al., Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles, 2017,
        arXiv:1612.01474, sec. 2.4.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        if not isinstance(models, Sequence) or not models:
            raise ValueError("`models` must be a list of at least one network.")
        networks = [check_network(model) for model in models]
        super().__init__(networks[0])
        self.others = nn.ModuleList(networks[1:])

    @property
    def networks(self) -> list[nn.Module]:
        """All members."""
        return [self.network, *self.others]

    @property
    def count(self) -> int:
        return 1 + len(self.others)

    @contextlib.contextmanager
    def member(self, place: int) -> Iterator[nn.Module]:
        yield self.networks[place]


def distilled_similarity(predictions: Predictions) -> Tensor:
    """Class similarity from an ensemble's predictions: (K, K) rows that sum to 1, with a zero diagonal.

    Row k is the mean of the ensemble's probabilities over the samples of class k, without class k itself and scaled to
    sum to 1; a row without any mass is uniform. Smooth labels (1−α)·e_k + α·s_k from this similarity distil the
    ensemble into one network class by class, as the training method "distilled" does. To distil it sample by sample,
    pass the probabilities as targets to ``losses.SoftLabelCrossEntropy``.

    Args:
        predictions: The ensemble's predictions for held-out samples, with labels.

    Example:
        >>> import torch
        >>> p = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0], [0.0, 0.1, 0.9]], dtype=torch.float64)
        >>> distilled_similarity(Predictions.from_probabilities(p, torch.tensor([0, 1, 2])))
        tensor([[0.0000, 0.6667, 0.3333],
                [1.0000, 0.0000, 0.0000],
                [0.0000, 1.0000, 0.0000]], dtype=torch.float64)

    References:
        Hinton et al., Distilling the Knowledge in a Neural Network, 2015, arXiv:1503.02531; the class means follow
        Zhang et al., Delving Deep into Label Smoothing, 2021, arXiv:2011.12562.
    """
    p, labels = predictions.probabilities, predictions.known_labels
    if p.shape[1] == 2:  # the other class has all the mass
        return p.new_tensor([[0.0, 1.0], [1.0, 0.0]])
    return similarity.from_outputs(p, labels, calibrated=True, shrinkage=0.0)


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

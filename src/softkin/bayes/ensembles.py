"""Deep ensembles: networks trained alike from different initial weights, and their distillation into one network."""

import contextlib
from collections.abc import Iterator, Sequence

from torch import Tensor, nn

from softkin import similarity
from softkin.bayes.posterior import Posterior, check_network
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

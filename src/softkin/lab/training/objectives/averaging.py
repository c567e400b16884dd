"""Methods whose predictions average over networks, and the one that measures distances from class centres.

What they put around the network, or train several of, is in ``bayes``.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from softkin import bayes
from softkin.bayes.prototypes import distance_loss
from softkin.lab.training.declaration import Parameter
from softkin.lab.training.objectives.objective import Objective
from softkin.lab.training.objectives.smooth_labels import alpha_of

if TYPE_CHECKING:
    from softkin.lab.training.methods import Method

MEMBERS = Parameter("members", "M", 5, "how many networks are trained", "count")


def _passes(default: int, about: str) -> Parameter:
    return Parameter("passes", "T", default, about, "count")


class McDropout(
    Objective,
    name="mc-dropout",
    title="MC-dropout",
    parameters=(
        Parameter("dropout", "p", 0.2, "the share of units that dropout switches off", "share"),
        _passes(30, "how many predictions are averaged"),
    ),
):
    """The mean of many predictions with dropout on (Gal and Ghahramani, 2016), see ``bayes.McDropout``."""

    @staticmethod
    def target(method: "Method", k: int) -> str:
        passes, dropout = method.values["passes"], method.values["dropout"]
        return f"one-hot labels, the mean of {passes:g} predictions with dropout {dropout:g}"

    @staticmethod
    def companion(method: "Method", network: nn.Module, num_classes: int, seed: int) -> nn.Module:
        return bayes.McDropout(network, passes=int(method.values["passes"]), seed=seed)

    @staticmethod
    def network_options(method: "Method") -> dict[str, Any]:
        return {"dropout": method.values["dropout"]}


class Swag(
    Objective,
    name="swag",
    title="SWAG",
    parameters=(
        _passes(30, "how many networks are drawn"),
        Parameter("swa_lr", "η", 0.01, "the constant learning rate at which weights are collected", "above 0"),
        Parameter("swa_share", "c", 0.25, "the share of the training, at its end, that collects weights", "share"),
        Parameter("rank", "R", 20, "how many deviations of the weights are kept", "count"),
    ),
):
    """The mean of networks drawn around the path of SGD (Maddox et al., 2019), see ``bayes.Swag``."""

    @staticmethod
    def target(method: "Method", k: int) -> str:
        values = method.values
        return (
            f"one-hot labels, the mean of {values['passes']:g} networks drawn around the weights of SGD in the last "
            f"{100 * values['swa_share']:g} % of the training at learning rate {values['swa_lr']:g}"
        )

    @staticmethod
    def companion(method: "Method", network: nn.Module, num_classes: int, seed: int) -> nn.Module:
        values = method.values
        return bayes.Swag(
            network,
            rank=int(values["rank"]),
            samples=int(values["passes"]),
            seed=seed,
            start=1 - values["swa_share"],
            lr=values["swa_lr"],
        )


class Laplace(
    Objective,
    name="laplace",
    title="Laplace",
    parameters=(_passes(0, "how many last layers are drawn, 0 for the probit approximation"),),
):
    """A Gaussian over the last layer's weights (MacKay, 1992), see ``bayes.Laplace``."""

    @staticmethod
    def target(method: "Method", k: int) -> str:
        how = f"{method.values['passes']:g} draws" if method.values["passes"] else "probit"
        return f"one-hot labels, a Gaussian over the last layer's weights from the curvature of the loss ({how})"

    @staticmethod
    def companion(method: "Method", network: nn.Module, num_classes: int, seed: int) -> nn.Module:
        draws = int(method.values["passes"])
        if draws == 0:
            return bayes.Laplace(network, seed=seed)
        return bayes.Laplace(network, prediction="sampled", samples=draws, seed=seed)


class Ensemble(Objective, name="ensemble", parameters=(MEMBERS,), several=True):
    """The mean of several networks (Lakshminarayanan et al., 2017), see ``bayes.Ensemble``."""

    @staticmethod
    def target(method: "Method", k: int) -> str:
        return f"one-hot labels, the mean of {method.values['members']:g} networks trained alike"


class Distilled(
    Objective,
    name="distilled",
    parameters=(alpha_of(0.1, automatic=False), MEMBERS),
    several=True,
    distils=True,
):
    """Labels (1−α)·e_k + α·s_k, where s_k says what an ensemble confuses class k with on validation rows.

    Hinton et al., 2015, by class; see ``bayes.distilled_similarity``.
    """

    @staticmethod
    def target(method: "Method", k: int) -> str:
        alpha, members = method.values["alpha"], method.values["members"]
        return (
            f"class-similarity smoothing, α = {alpha:g}: {1 - alpha:.4g} on the true class, the rest by the confusions "
            f"of an ensemble of {members:g} networks on validation rows"
        )


class Distance(
    Objective,
    name="distance",
    parameters=(_passes(10, "how many draws of the representation are averaged"),),
    mixable=False,
):
    """Each class has a centre; logits are minus the distances from it (Xing et al., 2019), see ``bayes.Prototypes``."""

    @staticmethod
    def target(method: "Method", k: int) -> str:
        draws = method.values["passes"]
        return f"one-hot labels, logits are minus the distances from the class centres ({draws:g} draws)"

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        noise = torch.randn(len(logits), logits.shape[1] // 2, device=logits.device, dtype=logits.dtype)
        return distance_loss(logits, targets, self.num_classes, noise)

    @staticmethod
    def companion(method: "Method", network: nn.Module, num_classes: int, seed: int) -> nn.Module:
        return bayes.Prototypes(network, num_classes, draws=int(method.values["passes"]), seed=seed)

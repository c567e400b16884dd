"""All training methods, each declared once: the words for its target, its parameters and its loss.

Losses are classes in ``objectives.py`` and ``penalties.py``; networks around the network are those of ``bayes``. Both
need torch, and are imported when a training begins.
"""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from softkin.lab.training.declaration import METHODS, Parameter, Target, TrainingMethod, declare

if TYPE_CHECKING:
    from torch import nn

    from softkin.lab.training.methods import Method
    from softkin.lab.training.objectives import Objective
    from softkin.losses.auto_alpha import AutoAlpha


def declared(
    name: str, title: str | None = None, *, loss: str | None = "objectives:Objective", **about: Any
) -> Callable[[Target], Target]:
    """Declare a training method; the decorated function describes its target in words.

    Args:
        name: Its name in commands and files.
        title: Its name in tables; by default ``name``.
        loss: "module:class" of this package; None for a way to mix.
        about: Other fields of ``TrainingMethod``.
    """

    def make(method: "Method", num_classes: int) -> "Objective":
        module, _, class_name = str(loss).partition(":")
        objective: Objective = getattr(importlib.import_module(f"softkin.lab.training.{module}"), class_name)(
            method, num_classes
        )
        return objective

    def declaring(target: Target) -> Target:
        declare(TrainingMethod(name, title or name, target, None if loss is None else make, **about))
        return target

    return declaring


def _alpha(default: float, *, automatic: bool = True) -> Parameter:
    return Parameter("alpha", "α", default, "the smoothing factor", "share", automatic)


def _mixing(default: float) -> Parameter:
    return Parameter(
        "mixing", "a", default, "the parameter a of Beta(a, a), from which the mixing weight λ is drawn", "above 0"
    )


def _passes(default: int, about: str) -> Parameter:
    return Parameter("passes", "T", default, about, "count")


BETA = Parameter("beta", "β", 2.0, "how sharp the similarity is", automatic=True)
TOP_M = Parameter(
    "top_m",
    "top-m",
    0,
    "how many of the most similar classes keep their share of α (the others divide the rest evenly), 0 for all",
    "count",
)
BELOW = "how far a logit may lie below the highest without a penalty"
MARGIN = Parameter("margin", "m", 10.0, BELOW, "above 0")
MEMBERS = Parameter("members", "M", 5, "how many networks are trained", "count")


# Ways to label


@declared("one-hot")
def one_hot(method: "Method", k: int) -> str:
    return "one-hot labels"


def _moving(auto: "AutoAlpha") -> str:
    return f"α from {auto.start:g} on, moved by {auto.rate:g}·(mean confidence − accuracy) at each validation"


@declared("uniform", loss="objectives:UniformObjective", parameters=(_alpha(0.1),), tuned="alpha")
def uniform(method: "Method", k: int) -> str:
    alpha = method.values["alpha"]
    if method.auto_alpha is not None:
        return f"uniform smoothing, {_moving(method.auto_alpha)}, shared among all {k} classes"
    own, other = 1 - alpha + alpha / k, alpha / k
    return f"uniform smoothing, α = {alpha:g}: {own:.4g} on the true class, {other:.4g} on each of the {k - 1} others"


@declared(
    "similarity", loss="objectives:SimilarityObjective", parameters=(_alpha(0.1), BETA, TOP_M), from_distances=True
)
def similarity(method: "Method", k: int) -> str:
    alpha, beta, top_m = method.values["alpha"], method.values.get("beta"), method.values.get("top_m")
    known = [f"α = {alpha:.4g}" if method.auto_alpha is None else "α = auto"]
    known += [f"β = {beta:g}"] if beta is not None else []
    known += [f"top-m = {top_m:g}"] if top_m else []
    known += [f"distance {method.distance}"] if method.distance else []
    if method.auto_alpha is not None:
        return (
            f"class-similarity smoothing, {', '.join(known)}: {_moving(method.auto_alpha)}, shared among the "
            f"{k - 1} other classes by similarity"
        )
    return (
        f"class-similarity smoothing, {', '.join(known)}: {1 - alpha:.4g} on the true class, "
        f"{alpha:.4g} shared among the {k - 1} others by similarity"
    )


@declared(
    "focal",
    loss="objectives:FocalObjective",
    parameters=(Parameter("gamma", "γ", 3.0, "the exponent of the focal loss"),),
    tuned="gamma",
)
def focal(method: "Method", k: int) -> str:
    return f"one-hot labels, the loss of a sample times (1−p)^{method.values['gamma']:g}"


@declared(
    "margin",
    loss="objectives:MarginObjective",
    parameters=(
        Parameter("margin", "m", 10.0, BELOW),
        Parameter("penalty", "λ", 0.1, "the weight of the penalty"),
    ),
    tuned="margin",
)
def margin(method: "Method", k: int) -> str:
    return (
        f"one-hot labels, plus {method.values['penalty']:g}·mean over classes of "
        f"max(0, highest logit − logit − {method.values['margin']:g})"
    )


@declared("online", loss="objectives:OnlineObjective", parameters=(_alpha(0.5, automatic=False),), tuned="alpha")
def online(method: "Method", k: int) -> str:
    alpha = method.values["alpha"]
    return (
        f"online smoothing, α = {alpha:g}: {1 - alpha:g}·one-hot + {alpha:g}·mean probabilities of the class's samples "
        "that the last epoch got right"
    )


# Ways to mix


@declared("mixup", loss=None, parameters=(_mixing(0.2),), tuned="mixing")
def mixup(method: "Method", k: int) -> str:
    a = method.values["mixing"]
    return f"two samples mixed, λ·first + (1−λ)·second, λ ~ Beta({a:g}, {a:g})"


@declared("cutmix", "CutMix", loss=None, parameters=(_mixing(1.0),), tuned="mixing", images_only=True, pastes=True)
def cutmix(method: "Method", k: int) -> str:
    a = method.values["mixing"]
    return f"a rectangle of a second sample pasted in, labels by area, area kept ~ Beta({a:g}, {a:g})"


# Losses that penalise confidence


@declared(
    "mmce",
    "MMCE",
    loss="penalties:MmceObjective",
    parameters=(Parameter("penalty", "λ", 2.0, "the weight of the penalty"),),
    tuned="penalty",
)
def mmce(method: "Method", k: int) -> str:
    return f"one-hot labels, plus {method.values['penalty']:g}·the maximum mean calibration error of the batch"


@declared(
    "dual-focal",
    loss="penalties:DualFocalObjective",
    parameters=(Parameter("gamma", "γ", 5.0, "the exponent of the focal loss"),),
    tuned="gamma",
)
def dual_focal(method: "Method", k: int) -> str:
    return f"one-hot labels, the loss of a sample times (1−p+largest below p)^{method.values['gamma']:g}"


@declared(
    "acls",
    "ACLS",
    loss="penalties:AclsObjective",
    parameters=(
        MARGIN,
        Parameter("penalty", "λ", 0.1, "the weight of the penalty"),
    ),
    tuned="margin",
)
def acls(method: "Method", k: int) -> str:
    m = method.values["margin"]
    return (
        f"one-hot labels, plus {method.values['penalty']:g}·(max(0, z*−{m:g})² + 0.1·mean of max(0, z*−z−{m:g})²), "
        "z* the highest logit"
    )


@declared(
    "class-adaptive",
    "CALS",
    loss="penalties:ClassAdaptiveObjective",
    parameters=(MARGIN,),
    tuned="margin",
    from_validation=True,
)
def class_adaptive(method: "Method", k: int) -> str:
    return (
        f"one-hot labels, plus a penalty for logits more than {method.values['margin']:g} below the highest, with one "
        "weight per class that is updated at every validation"
    )


# Methods that average over networks, and the one that measures distances from class centres


def _with_dropout(method: "Method", network: "nn.Module", num_classes: int, seed: int) -> "nn.Module":
    from softkin.bayes import McDropout

    return McDropout(network, passes=int(method.values["passes"]), seed=seed)


@declared(
    "mc-dropout",
    "MC-dropout",
    parameters=(
        Parameter("dropout", "p", 0.2, "the share of units that dropout switches off", "share"),
        _passes(30, "how many predictions are averaged"),
    ),
    companion=_with_dropout,
    network_options=lambda method: {"dropout": method.values["dropout"]},
)
def mc_dropout(method: "Method", k: int) -> str:
    return (
        f"one-hot labels, the mean of {method.values['passes']:g} predictions with dropout {method.values['dropout']:g}"
    )


def _with_swag(method: "Method", network: "nn.Module", num_classes: int, seed: int) -> "nn.Module":
    from softkin.bayes import Swag

    values = method.values
    return Swag(
        network,
        rank=int(values["rank"]),
        samples=int(values["passes"]),
        seed=seed,
        start=1 - values["swa_share"],
        lr=values["swa_lr"],
    )


@declared(
    "swag",
    "SWAG",
    parameters=(
        _passes(30, "how many networks are drawn"),
        Parameter("swa_lr", "η", 0.01, "the constant learning rate at which weights are collected", "above 0"),
        Parameter("swa_share", "c", 0.25, "the share of the training, at its end, that collects weights", "share"),
        Parameter("rank", "R", 20, "how many deviations of the weights are kept", "count"),
    ),
    companion=_with_swag,
)
def swag(method: "Method", k: int) -> str:
    values = method.values
    return (
        f"one-hot labels, the mean of {values['passes']:g} networks drawn around the weights of SGD in the last "
        f"{100 * values['swa_share']:g} % of the training at learning rate {values['swa_lr']:g}"
    )


def _with_laplace(method: "Method", network: "nn.Module", num_classes: int, seed: int) -> "nn.Module":
    from softkin.bayes import Laplace

    draws = int(method.values["passes"])
    if draws == 0:
        return Laplace(network, seed=seed)
    return Laplace(network, prediction="sampled", samples=draws, seed=seed)


@declared(
    "laplace",
    "Laplace",
    parameters=(_passes(0, "how many last layers are drawn, 0 for the probit approximation"),),
    companion=_with_laplace,
)
def laplace(method: "Method", k: int) -> str:
    how = f"{method.values['passes']:g} draws" if method.values["passes"] else "probit"
    return f"one-hot labels, a Gaussian over the last layer's weights from the curvature of the loss ({how})"


@declared("ensemble", parameters=(MEMBERS,), several=True)
def ensemble(method: "Method", k: int) -> str:
    return f"one-hot labels, the mean of {method.values['members']:g} networks trained alike"


@declared("distilled", parameters=(_alpha(0.1, automatic=False), MEMBERS), several=True, distils=True)
def distilled(method: "Method", k: int) -> str:
    alpha = method.values["alpha"]
    return (
        f"class-similarity smoothing, α = {alpha:g}: {1 - alpha:.4g} on the true class, the rest by the confusions of "
        f"an ensemble of {method.values['members']:g} networks on validation rows"
    )


def _with_prototypes(method: "Method", network: "nn.Module", num_classes: int, seed: int) -> "nn.Module":
    from softkin.bayes import Prototypes

    return Prototypes(network, num_classes, draws=int(method.values["passes"]), seed=seed)


@declared(
    "distance",
    loss="penalties:DistanceObjective",
    parameters=(_passes(10, "how many draws of the representation are averaged"),),
    mixable=False,
    companion=_with_prototypes,
)
def distance(method: "Method", k: int) -> str:
    return f"one-hot labels, logits are minus the distances from the class centres ({method.values['passes']:g} draws)"


ONE_HOT, SIMILARITY = METHODS["one-hot"], METHODS["similarity"]

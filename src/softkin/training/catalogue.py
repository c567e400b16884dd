"""All training methods, each declared once: the words for its target, its parameters and its loss.

Losses are classes in ``objectives.py`` and ``penalties.py``; networks around the network are those of ``bayes``. Both
need torch, and are imported when a training begins.
"""

import importlib
from typing import TYPE_CHECKING

from softkin.training.declaration import MakeObjective, Parameter, TrainingMethod, declare

if TYPE_CHECKING:
    from torch import nn

    from softkin.auto_alpha import AutoAlpha
    from softkin.training.methods import Method
    from softkin.training.objectives import Objective


def _loss(name: str, module: str = "objectives") -> MakeObjective:
    """A class of a module of this package, which needs torch and so is imported when a loss is made."""

    def make(method: "Method", num_classes: int) -> "Objective":
        losses_of = importlib.import_module(f"softkin.training.{module}")
        objective: Objective = getattr(losses_of, name)(method, num_classes)
        return objective

    return make


def _alpha(default: float, *, automatic: bool = True) -> Parameter:
    return Parameter("alpha", "α", default, "the smoothing factor", "share", automatic)


def _mixing(default: float) -> Parameter:
    return Parameter(
        "mixing", "a", default, "the parameter a of Beta(a, a), from which the mixing weight λ is drawn", "above 0"
    )


def _margin_of(about: str) -> Parameter:
    return Parameter("margin", "m", 10.0, about, "above 0")


def _passes(default: int, about: str) -> Parameter:
    return Parameter("passes", "T", default, about, "count")


BETA = Parameter("beta", "β", 2.0, "how sharp the similarity is", automatic=True)
TOP_M = Parameter("top_m", "top-m", 0, "how many of the most similar classes share α, 0 for all", "count")
MEMBERS = Parameter("members", "M", 5, "how many networks are trained", "count")


# Ways to label


def _one_hot(method: "Method", k: int) -> str:
    return "one-hot labels"


ONE_HOT = declare(TrainingMethod("one-hot", "one-hot", _one_hot, _loss("Objective")))


def _moving(auto: "AutoAlpha") -> str:
    return f"α from {auto.start:g} on, moved by {auto.rate:g}·(mean confidence − accuracy) at each validation"


def _uniform(method: "Method", k: int) -> str:
    alpha = method.values["alpha"]
    if method.auto_alpha is not None:
        return f"uniform smoothing, {_moving(method.auto_alpha)}, shared among all {k} classes"
    own, other = 1 - alpha + alpha / k, alpha / k
    return f"uniform smoothing, α = {alpha:g}: {own:.4g} on the true class, {other:.4g} on each of the {k - 1} others"


declare(
    TrainingMethod("uniform", "uniform", _uniform, _loss("UniformObjective"), parameters=(_alpha(0.1),), tuned="alpha")
)


def _similarity(method: "Method", k: int) -> str:
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


SIMILARITY = declare(
    TrainingMethod(
        "similarity",
        "similarity",
        _similarity,
        _loss("SimilarityObjective"),
        parameters=(_alpha(0.1), BETA, TOP_M),
        from_distances=True,
    )
)


def _focal(method: "Method", k: int) -> str:
    return f"one-hot labels, the loss of a sample times (1−p)^{method.values['gamma']:g}"


declare(
    TrainingMethod(
        "focal",
        "focal",
        _focal,
        _loss("FocalObjective"),
        parameters=(Parameter("gamma", "γ", 3.0, "the exponent of the focal loss"),),
        tuned="gamma",
    )
)


def _margin(method: "Method", k: int) -> str:
    return (
        f"one-hot labels, plus {method.values['penalty']:g}·mean over classes of "
        f"max(0, highest logit − logit − {method.values['margin']:g})"
    )


declare(
    TrainingMethod(
        "margin",
        "margin",
        _margin,
        _loss("MarginObjective"),
        parameters=(
            Parameter("margin", "m", 10.0, "how far a logit may lie below the highest without a penalty"),
            Parameter("penalty", "λ", 0.1, "the weight of the penalty"),
        ),
        tuned="margin",
    )
)


def _online(method: "Method", k: int) -> str:
    alpha = method.values["alpha"]
    return (
        f"online smoothing, α = {alpha:g}: {1 - alpha:g}·one-hot + {alpha:g}·mean probabilities of what the last epoch "
        "got right of the class"
    )


declare(
    TrainingMethod(
        "online", "online", _online, _loss("OnlineObjective"), parameters=(_alpha(0.5, automatic=False),), tuned="alpha"
    )
)


# Ways to mix


def _mixup(method: "Method", k: int) -> str:
    a = method.values["mixing"]
    return f"two samples mixed, λ·first + (1−λ)·second, λ ~ Beta({a:g}, {a:g})"


declare(TrainingMethod("mixup", "mixup", _mixup, None, parameters=(_mixing(0.2),), tuned="mixing"))


def _cutmix(method: "Method", k: int) -> str:
    a = method.values["mixing"]
    return f"a rectangle of a second sample pasted in, labels by area, area kept ~ Beta({a:g}, {a:g})"


declare(
    TrainingMethod(
        "cutmix", "CutMix", _cutmix, None, parameters=(_mixing(1.0),), tuned="mixing", images_only=True, pastes=True
    )
)


# Losses that hold confidence back


def _mmce(method: "Method", k: int) -> str:
    return f"one-hot labels, plus {method.values['penalty']:g}·the maximum mean calibration error of the batch"


declare(
    TrainingMethod(
        "mmce",
        "MMCE",
        _mmce,
        _loss("MmceObjective", "penalties"),
        parameters=(Parameter("penalty", "λ", 2.0, "the weight of the penalty"),),
        tuned="penalty",
    )
)


def _dual_focal(method: "Method", k: int) -> str:
    return f"one-hot labels, the loss of a sample times (1−p+largest below p)^{method.values['gamma']:g}"


declare(
    TrainingMethod(
        "dual-focal",
        "dual-focal",
        _dual_focal,
        _loss("DualFocalObjective", "penalties"),
        parameters=(Parameter("gamma", "γ", 5.0, "the exponent of the focal loss"),),
        tuned="gamma",
    )
)


def _acls(method: "Method", k: int) -> str:
    m = method.values["margin"]
    return (
        f"one-hot labels, plus {method.values['penalty']:g}·(max(0, z*−{m:g})² + 0.1·mean of max(0, z*−z−{m:g})²), "
        "z* the highest logit"
    )


declare(
    TrainingMethod(
        "acls",
        "ACLS",
        _acls,
        _loss("AclsObjective", "penalties"),
        parameters=(
            _margin_of("how far a logit may lie below the highest without a penalty"),
            Parameter("penalty", "λ", 0.1, "the weight of the penalty"),
        ),
        tuned="margin",
    )
)


def _class_adaptive(method: "Method", k: int) -> str:
    return (
        f"one-hot labels, plus a penalty for logits more than {method.values['margin']:g} below the highest, with one "
        "weight a class that every validation renews"
    )


declare(
    TrainingMethod(
        "class-adaptive",
        "CALS",
        _class_adaptive,
        _loss("ClassAdaptiveObjective", "penalties"),
        parameters=(_margin_of("how far a logit may lie below the highest without a penalty"),),
        tuned="margin",
        from_validation=True,
    )
)


# What averages over networks, and what measures distances from class centres


def _mc_dropout(method: "Method", k: int) -> str:
    return (
        f"one-hot labels, the mean of {method.values['passes']:g} predictions with dropout {method.values['dropout']:g}"
    )


def _with_dropout(method: "Method", network: "nn.Module", num_classes: int, seed: int) -> "nn.Module":
    from softkin.bayes import McDropout

    return McDropout(network, passes=int(method.values["passes"]), seed=seed)


declare(
    TrainingMethod(
        "mc-dropout",
        "MC-dropout",
        _mc_dropout,
        _loss("Objective"),
        parameters=(
            Parameter("dropout", "p", 0.2, "the share of units that dropout switches off", "share"),
            _passes(30, "how many predictions are averaged"),
        ),
        companion=_with_dropout,
        network_options=lambda method: {"dropout": method.values["dropout"]},
    )
)


def _swag(method: "Method", k: int) -> str:
    values = method.values
    return (
        f"one-hot labels, the mean of {values['passes']:g} networks drawn from where SGD walks in the last "
        f"{100 * values['swa_share']:g} % of the training at learning rate {values['swa_lr']:g}"
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


declare(
    TrainingMethod(
        "swag",
        "SWAG",
        _swag,
        _loss("Objective"),
        parameters=(
            _passes(30, "how many networks are drawn"),
            Parameter("swa_lr", "η", 0.01, "the constant learning rate at which weights are collected", "above 0"),
            Parameter("swa_share", "c", 0.25, "the share of the training, at its end, that collects weights", "share"),
            Parameter("rank", "R", 20, "how many deviations of the weights are kept", "count"),
        ),
        companion=_with_swag,
    )
)


def _laplace(method: "Method", k: int) -> str:
    how = f"{method.values['passes']:g} draws" if method.values["passes"] else "probit"
    return f"one-hot labels, the last layer's weights Gaussian, as the curvature allows ({how})"


def _with_laplace(method: "Method", network: "nn.Module", num_classes: int, seed: int) -> "nn.Module":
    from softkin.bayes import Laplace

    draws = int(method.values["passes"])
    if draws == 0:
        return Laplace(network, seed=seed)
    return Laplace(network, prediction="sampled", samples=draws, seed=seed)


declare(
    TrainingMethod(
        "laplace",
        "Laplace",
        _laplace,
        _loss("Objective"),
        parameters=(_passes(0, "how many last layers are drawn, 0 for the probit approximation"),),
        companion=_with_laplace,
    )
)


def _ensemble(method: "Method", k: int) -> str:
    return f"one-hot labels, the mean of {method.values['members']:g} networks trained alike"


declare(
    TrainingMethod(
        "ensemble",
        "ensemble",
        _ensemble,
        _loss("Objective"),
        parameters=(MEMBERS,),
        several=True,
    )
)


def _distilled(method: "Method", k: int) -> str:
    alpha = method.values["alpha"]
    return (
        f"class-similarity smoothing, α = {alpha:g}: {1 - alpha:.4g} on the true class, the rest by what an ensemble "
        f"of {method.values['members']:g} networks takes validation rows of the class for"
    )


declare(
    TrainingMethod(
        "distilled",
        "distilled",
        _distilled,
        _loss("Objective"),
        parameters=(_alpha(0.1, automatic=False), MEMBERS),
        several=True,
        distils=True,
    )
)


def _distance(method: "Method", k: int) -> str:
    return f"one-hot labels, logits are minus the distances from the class centres ({method.values['passes']:g} draws)"


def _with_prototypes(method: "Method", network: "nn.Module", num_classes: int, seed: int) -> "nn.Module":
    from softkin.bayes import Prototypes

    return Prototypes(network, num_classes, draws=int(method.values["passes"]), seed=seed)


declare(
    TrainingMethod(
        "distance",
        "distance",
        _distance,
        _loss("DistanceObjective", "penalties"),
        parameters=(_passes(10, "how many draws of the representation are averaged"),),
        mixable=False,
        companion=_with_prototypes,
    )
)

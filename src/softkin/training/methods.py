"""Training methods: each is declared here once, and commands, studies, tables and records read the declaration.

A ``TrainingMethod`` says what it is called, which parameters it has, which of them a study tunes, what a sample is
trained towards in words, and its loss (a class in ``objectives.py``). ``Method`` is one of them, or two joined by "+",
with values for the parameters. Importing this module does not load torch, so that the command line can list methods.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from softkin.names import Registry, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor, nn

    from softkin.auto_alpha import AutoAlpha
    from softkin.checks import Array
    from softkin.losses import SoftLabelCrossEntropy
    from softkin.similarity import Outputs
    from softkin.training.objectives import Objective


Value: TypeAlias = float | Literal["auto"]
"""Of a parameter; "auto" leaves it to the training"""


@dataclass(frozen=True)
class Parameter:
    """A number that a training method depends on."""

    name: str
    letter: str
    """How tables write it"""
    default: float
    about: str
    """For the command line's help"""
    allowed: Literal["at least 0", "above 0", "share", "count"] = "at least 0"
    """"share": at least 0 and below 1; "count": a whole number of at least 0"""
    automatic: bool = False
    """Whether "auto" is a value too"""

    def check(self, value: Value) -> Value:
        """Refuse a value that the parameter cannot have."""
        from softkin import checks

        if isinstance(value, str):
            if value == "auto" and self.automatic:
                return "auto"
            takers = [name for name, parameter in parameters()[self.name].items() if parameter.automatic]
            auto = f", or 'auto' for {' and '.join(takers)}" if takers else ""
            raise ValueError(f"`{self.name}` must be a number{auto}, got {value!r}.")
        if self.allowed == "count":
            return checks.count(int(value) if float(value).is_integer() else value, self.name, least=0)  # type: ignore[arg-type]
        if self.allowed == "share" and self.name == "alpha":
            return checks.alpha(value)
        checked = checks.at_least_zero(value, self.name)
        if checked == 0 and self.allowed == "above 0":
            raise ValueError(f"`{self.name}` must be above 0, got 0; it is {self.about}.")
        if checked >= 1 and self.allowed == "share":
            raise ValueError(f"`{self.name}` must be below 1, got {checked:g}; it is {self.about}.")
        return checked


Target = Callable[["Method", int], str]
"""(method, number of classes) → what a sample is trained towards, in words and numbers"""
MakeObjective = Callable[["Method", int], "Objective"]
"""(method, number of classes) → the loss"""
MakeCompanion = Callable[["Method", "nn.Module", int, int], "nn.Module"]
"""(method, network, number of classes, seed) → what is trained in the network's place"""


@dataclass(frozen=True)
class TrainingMethod:
    """A way to label samples, or to mix them."""

    name: str
    title: str
    """What tables call it; studies take the same in lower case"""
    target: Target
    objective: MakeObjective | None
    """None for a way to mix, which leaves the loss to the way to label"""
    parameters: tuple[Parameter, ...] = ()
    tuned: str | None = None
    """The parameter that a study tries values of, around its default unless the study lists them"""
    from_distances: bool = False
    """Whether its labels come from class distances: a study then has one column for each distance source"""
    images_only: bool = False
    pastes: bool = False
    """Of a way to mix: a rectangle of the second image replaces that of the first, instead of adding up both"""
    mixable: bool = True
    """Whether its loss takes samples of two classes"""
    from_validation: bool = False
    """Whether its loss learns from every validation"""
    companion: MakeCompanion | None = None
    """What it puts around the network, such as ``bayes.Swag``"""
    network_options: Callable[["Method"], dict[str, Any]] | None = None
    """What the network is to be built with, where it has such options"""
    several: bool = False
    """Whether it trains several networks, as many as its parameter ``members`` says"""
    distils: bool = False
    """Whether one more network learns from what those say"""

    @property
    def mixes(self) -> bool:
        """Whether it is a way to mix, and not one to label."""
        return self.objective is None


METHODS: Registry[TrainingMethod] = Registry("training method")


def declare(method: TrainingMethod, *, aliases: tuple[str, ...] = ()) -> TrainingMethod:
    """Make a training method known to commands, studies and tables, also by its title, which tables show."""
    title = method.title.lower()
    others = [title] if title not in (method.name, *aliases, *METHODS) else []
    return METHODS.add(method.name, method, aliases=(*aliases, *others))


def parameters() -> dict[str, dict[str, Parameter]]:
    """Every parameter's name → the methods that have it, with the parameter as each declares it."""
    by_name: dict[str, dict[str, Parameter]] = {}
    for name, method in METHODS.items():
        for parameter in method.parameters:
            by_name.setdefault(parameter.name, {})[name] = parameter
    return by_name


def in_words(values: Mapping[str, Value]) -> str:
    """Values of parameters as people write them.

    Example:
        >>> in_words({"alpha": 0.1, "beta": 2.0})
        'α = 0.1, β = 2'
    """
    known = parameters()
    letters = {name: next(iter(takers.values())).letter for name, takers in known.items()}
    return ", ".join(f"{letters.get(name, name)} = {text_of(value)}" for name, value in values.items())


def text_of(value: Value) -> str:
    """A value as people write it."""
    return value if isinstance(value, str) else f"{value:g}"


class Method:
    """A training method with the values of its parameters: a way to label samples, perhaps mixed.

    ``name`` is one of ``METHODS``, or a way to label and a way to mix joined by "+", such as ``"similarity+mixup"``.
    With e_k the one-hot label of class k of K, z the logits and p their softmax:

    - "one-hot": e_k
    - "uniform": (1−α)·e_k + α/K, α = 0.1 (Szegedy et al., 2016)
    - "similarity": row k of ``soft_labels``, (1−α)·e_k + α·s_k (Liu and JaJa, 2021)
    - "focal": e_k, and the loss −(1−p_k)^γ ln p_k, γ = 3 (Lin et al., 2017; γ as in Mukhoti et al., 2020)
    - "margin": e_k, and λ·mean_j max(0, max z − z_j − m) added, m = 10, λ = ``penalty`` = 0.1 (margin-based label
      smoothing, Liu et al., 2022; the mean over classes is that of the authors' code)
    - "online": (1−α)·e_k + α·t_k, α = 0.5, with t_k the mean probabilities of the samples of class k that the last
      epoch got right; 1/K in the first epoch, the row of the epoch before where it got none right (online label
      smoothing, Zhang et al., 2021)
    - "mixup": inputs and labels λ·a + (1−λ)·b, λ from Beta(a, a), a = ``mixing`` = 0.2 (Zhang et al., 2018)
    - "cutmix": a rectangle of b pasted into a, and the labels by area; a = ``mixing`` = 1 (Yun et al., 2019)

    - "mmce": e_k, and λ·√MMCE² added, the maximum mean calibration error of the batch, λ = ``penalty`` = 2 (Kumar et
      al., 2018; the unweighted form)
    - "dual-focal": e_k, and the loss −(1−p_k+p_j)^γ ln p_k, p_j the largest probability below p_k, γ = 5 (Tao et al.,
      2023)
    - "acls": e_k, and λ times max(0, z*−m)² + 0.1·mean_j max(0, z*−z_j−m)² added, z* the highest logit, m = 10,
      λ = ``penalty`` = 0.1 (adaptive and conditional label smoothing, Park et al., 2023)
    - "class-adaptive": e_k, and Σ_k P(h_k; λ_k) added, h_k = (max z − z_k − m)/m, m = 10, λ_k learnt from each
      validation (Liu et al., 2023)
    - "distance": e_k, logits are minus the distances from the class centres, see ``bayes.Prototypes`` (Xing et al.,
      2019)
    - "mc-dropout", "swag", "laplace", "ensemble": e_k, and predictions that average over networks, see ``bayes``
    - "distilled": (1−α)·e_k + α·s_k, α = 0.1, s_k what an ensemble takes validation rows of class k for, see
      ``bayes.distilled_similarity`` (Hinton et al., 2015, by class)

    One λ serves a whole batch, and b is another place of the same batch, as in the authors' code.

    Args:
        name: Of the method.
        soft_labels: (K, K), for "similarity" only. α then follows from their diagonal.
        distance: What ``soft_labels`` were made from; kept for the record.
        values: Of the method's parameters, such as ``alpha=0.1``; the others have their defaults. A parameter is an
            attribute too: ``method.alpha``; None where the method does not have it. ``alpha="auto"`` moves α after each
            validation by the rule of ``softkin.auto_alpha``; ``method.alpha`` is then where it begins.

    Example:
        >>> Method("uniform").effective_target(10)
        'uniform smoothing, α = 0.1: 0.91 on the true class, 0.01 on each of the 9 others'
        >>> Method("mixup").effective_target(10)
        'one-hot labels; two samples mixed, λ·first + (1−λ)·second, λ ~ Beta(0.2, 0.2)'
        >>> Method("uniform", alpha=0.2).values
        {'alpha': 0.2}
    """

    def __init__(
        self, name: str, *, soft_labels: "Array | None" = None, distance: str | None = None, **values: Value | None
    ) -> None:
        labelling, mixing = parse(name)
        self.name = "+".join(METHODS.canonical(part) for part in name.split("+"))
        self.label, self.mix = labelling.name, None if mixing is None else mixing.name
        self.labelling, self.mixing_method, self.distance = labelling, mixing, distance
        self.auto_alpha: AutoAlpha | None = None
        """The rule by which α moves, if it does"""
        self.values = self._checked(values)
        self.smooth_loss: SoftLabelCrossEntropy | None = None
        """The loss towards ``soft_labels``, which has checked them"""
        if (soft_labels is None) == labelling.from_distances:
            wants = "needs `soft_labels` (K, K), as Method.from_distances makes them" if soft_labels is None else None
            raise ValueError(f"the method {self.name!r} {wants or 'takes no `soft_labels`'}.")
        if soft_labels is not None:
            from softkin import losses

            self.smooth_loss = losses.SoftLabelCrossEntropy(soft_labels, alpha=self.auto_alpha, reduction="sum")
            self.values["alpha"] = round(self.smooth_loss.alpha, 12)

    def _checked(self, values: Mapping[str, Value | None]) -> dict[str, float]:
        """Values for all parameters; those of a matrix of labels are only kept where they were given."""
        mine = {
            parameter.name: parameter
            for method in (self.labelling, self.mixing_method)
            if method
            for parameter in method.parameters
        }
        known = parameters()
        for name, value in values.items():
            if name not in known:
                raise TypeError(f"training methods have no parameter {name!r}{did_you_mean(name, known)}")
            if value is not None and name not in mine:
                smooth = f"; name it 'uniform+{self.mix}' to smooth as well" if name == "alpha" and self.mix else ""
                takers = " and ".join(known[name])
                raise ValueError(f"`{name}` is for {takers}, and the method is {self.name!r}{smooth}.")
        chosen = {name: value for name, value in values.items() if value is not None}
        made = {parameter.name for parameter in self.labelling.parameters} if self.labelling.from_distances else set()
        defaults = {name: parameter.default for name, parameter in mine.items() if name not in made}
        checked = {name: mine[name].check((defaults | chosen)[name]) for name in mine if name in defaults | chosen}
        return {name: self._beginning(name) if isinstance(value, str) else value for name, value in checked.items()}

    def _beginning(self, name: str) -> float:
        """The number that "auto" begins with."""
        if name == BETA.name:
            from softkin import similarity

            return similarity.AUTO_BETA
        from softkin.auto_alpha import AutoAlpha

        self.auto_alpha = AutoAlpha()
        return self.auto_alpha.start

    def __getattr__(self, name: str) -> float | None:
        if name.startswith("_") or name not in parameters():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        values: dict[str, float] = self.__dict__.get("values", {})
        return values.get(name)

    def __repr__(self) -> str:
        values = [f"{name}={value!r}" for name, value in self._plain_values().items()]
        return f"Method({', '.join([repr(self.name), *values])})"

    def _plain_values(self) -> dict[str, Value]:
        return {**self.values, **({} if self.auto_alpha is None else {"alpha": "auto"})}

    @property
    def soft_labels(self) -> "Tensor | None":
        """(K, K) float64 on the CPU, for "similarity" only."""
        return None if self.smooth_loss is None else self.smooth_loss.soft_labels

    @classmethod
    def from_distances(
        cls,
        distances: "Array",
        *,
        alpha: Value = 0.1,
        beta: Value = 2.0,
        top_m: int | None = None,
        mix: str | None = None,
        mixing: Value | None = None,
        distance: str | None = None,
        asymmetric: bool = False,
        outputs: "Outputs | None" = None,
    ) -> Self:
        """Class-similarity smoothing from class distances (K, K), mixed where ``mix`` says how.

        With ``top_m`` each class keeps its m most similar classes; with ``beta="auto"`` the ``outputs`` of a baseline
        choose β. See ``similarity.from_distances``.
        """
        from softkin import similarity

        if beta == "auto":
            beta = similarity.AUTO_BETA if outputs is None else similarity.best_beta(distances, *outputs)
        s = similarity.from_distances(distances, beta, asymmetric=asymmetric, top_m=top_m or None)
        rows = s.dense() if isinstance(s, similarity.SparseRows) else s
        return cls.from_similarity(rows, alpha=alpha, beta=beta, top_m=top_m, mix=mix, mixing=mixing, distance=distance)

    @classmethod
    def from_similarity(
        cls,
        rows: "Array",
        *,
        alpha: Value = 0.1,
        beta: Value | None = None,
        top_m: int | None = None,
        mix: str | None = None,
        mixing: Value | None = None,
        distance: str | None = None,
    ) -> Self:
        """The same from a similarity (K, K); ``beta`` and ``top_m`` say how it was made, for the record."""
        from softkin import smoothing

        auto = SIMILARITY.parameters[0].check(alpha) == "auto"
        q = smoothing.similarity_labels(rows, 0.5 if isinstance(alpha, str) else alpha)
        name = f"{SIMILARITY.name}+{mix}" if mix else SIMILARITY.name
        return cls(
            name,
            soft_labels=q,
            mixing=mixing,
            alpha="auto" if auto else None,
            beta=beta,
            top_m=top_m or None,
            distance=distance,
        )

    def effective_target(self, num_classes: int) -> str:
        """In words and numbers, what a sample is trained towards."""
        methods = [method for method in (self.labelling, self.mixing_method) if method is not None]
        return "; ".join(method.target(self, num_classes) for method in methods)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a record: what is set, and of ``soft_labels`` the digest."""
        from softkin import files

        plain: dict[str, Any] = {"name": self.name, **self._plain_values()}
        if self.distance is not None:
            plain["distance"] = self.distance
        if self.soft_labels is not None:
            plain["soft_labels"] = files.sha256(self.soft_labels.contiguous().numpy().data)
        return plain


def parse(name: str) -> tuple[TrainingMethod, TrainingMethod | None]:
    """(way to label, way to mix) of a method's name."""
    if not isinstance(name, str):
        raise TypeError(f"`name` must be the name of a method, such as 'uniform', got {name!r}.")
    parts = [METHODS[METHODS.canonical(part, "method", also="two joined by +")] for part in name.split("+")]
    labels, mixes = [part for part in parts if not part.mixes], [part for part in parts if part.mixes]
    if len(labels) > 1 or len(mixes) > 1:
        raise ValueError(f"`name` must join at most one way to label and one way to mix, got {name!r}.")
    if labels and mixes and not labels[0].mixable:
        raise ValueError(
            f"the method {labels[0].name} needs samples of one class each, and {mixes[0].name} mixes them."
        )
    return labels[0] if labels else ONE_HOT, mixes[0] if mixes else None


# The declarations


def _loss(name: str, module: str = "objectives") -> MakeObjective:
    """A class of a module of this package, which needs torch and so is imported when a loss is made."""

    def make(method: Method, num_classes: int) -> "Objective":
        losses_of = importlib.import_module(f"softkin.training.{module}")
        objective: Objective = getattr(losses_of, name)(method, num_classes)
        return objective

    return make


def _one_hot(method: Method, k: int) -> str:
    return "one-hot labels"


def _uniform(method: Method, k: int) -> str:
    alpha = method.values["alpha"]
    if method.auto_alpha is not None:
        return f"uniform smoothing, {_moving(method.auto_alpha)}, shared among all {k} classes"
    own, other = 1 - alpha + alpha / k, alpha / k
    return f"uniform smoothing, α = {alpha:g}: {own:.4g} on the true class, {other:.4g} on each of the {k - 1} others"


def _moving(auto: "AutoAlpha") -> str:
    return f"α from {auto.start:g} on, moved by {auto.rate:g}·(mean confidence − accuracy) at each validation"


def _similarity(method: Method, k: int) -> str:
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


def _focal(method: Method, k: int) -> str:
    return f"one-hot labels, the loss of a sample times (1−p)^{method.values['gamma']:g}"


def _margin(method: Method, k: int) -> str:
    return (
        f"one-hot labels, plus {method.values['penalty']:g}·mean over classes of "
        f"max(0, highest logit − logit − {method.values['margin']:g})"
    )


def _online(method: Method, k: int) -> str:
    alpha = method.values["alpha"]
    return (
        f"online smoothing, α = {alpha:g}: {1 - alpha:g}·one-hot + {alpha:g}·mean probabilities of what the last epoch "
        "got right of the class"
    )


def _mixup(method: Method, k: int) -> str:
    a = method.values["mixing"]
    return f"two samples mixed, λ·first + (1−λ)·second, λ ~ Beta({a:g}, {a:g})"


def _cutmix(method: Method, k: int) -> str:
    a = method.values["mixing"]
    return f"a rectangle of a second sample pasted in, labels by area, area kept ~ Beta({a:g}, {a:g})"


def _alpha(default: float, *, automatic: bool = True) -> Parameter:
    return Parameter("alpha", "α", default, "the smoothing factor", "share", automatic)


def _mixing(default: float) -> Parameter:
    return Parameter(
        "mixing", "a", default, "the parameter a of Beta(a, a), from which the mixing weight λ is drawn", "above 0"
    )


BETA = Parameter("beta", "β", 2.0, "how sharp the similarity is", automatic=True)
TOP_M = Parameter("top_m", "top-m", 0, "how many of the most similar classes share α, 0 for all", "count")

ONE_HOT = declare(TrainingMethod("one-hot", "one-hot", _one_hot, _loss("Objective")))
declare(
    TrainingMethod("uniform", "uniform", _uniform, _loss("UniformObjective"), parameters=(_alpha(0.1),), tuned="alpha")
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
declare(
    TrainingMethod(
        "online", "online", _online, _loss("OnlineObjective"), parameters=(_alpha(0.5, automatic=False),), tuned="alpha"
    )
)
declare(TrainingMethod("mixup", "mixup", _mixup, None, parameters=(_mixing(0.2),), tuned="mixing"))
declare(
    TrainingMethod(
        "cutmix", "CutMix", _cutmix, None, parameters=(_mixing(1.0),), tuned="mixing", images_only=True, pastes=True
    )
)


# Losses that hold confidence back


def _mmce(method: Method, k: int) -> str:
    return f"one-hot labels, plus {method.values['penalty']:g}·the maximum mean calibration error of the batch"


def _dual_focal(method: Method, k: int) -> str:
    return f"one-hot labels, the loss of a sample times (1−p+largest below p)^{method.values['gamma']:g}"


def _acls(method: Method, k: int) -> str:
    m = method.values["margin"]
    return (
        f"one-hot labels, plus {method.values['penalty']:g}·(max(0, z*−{m:g})² + 0.1·mean of max(0, z*−z−{m:g})²), "
        "z* the highest logit"
    )


def _class_adaptive(method: Method, k: int) -> str:
    return (
        f"one-hot labels, plus a penalty for logits more than {method.values['margin']:g} below the highest, with one "
        "weight a class that every validation renews"
    )


def _margin_of(about: str) -> Parameter:
    return Parameter("margin", "m", 10.0, about, "above 0")


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


def _around(name: str) -> MakeCompanion:
    """A function of ``companions.py``."""

    def make(method: Method, network: "nn.Module", num_classes: int, seed: int) -> "nn.Module":
        companions = importlib.import_module("softkin.training.companions")
        made: nn.Module = getattr(companions, name)(method, network, num_classes, seed)
        return made

    return make


def _passes(default: int, about: str) -> Parameter:
    return Parameter("passes", "T", default, about, "count")


def _mc_dropout(method: Method, k: int) -> str:
    return (
        f"one-hot labels, the mean of {method.values['passes']:g} predictions with dropout {method.values['dropout']:g}"
    )


def _swag(method: Method, k: int) -> str:
    values = method.values
    return (
        f"one-hot labels, the mean of {values['passes']:g} networks drawn from where SGD walks in the last "
        f"{100 * values['swa_share']:g} % of the training at learning rate {values['swa_lr']:g}"
    )


def _laplace(method: Method, k: int) -> str:
    how = f"{method.values['passes']:g} draws" if method.values["passes"] else "probit"
    return f"one-hot labels, the last layer's weights Gaussian, as the curvature allows ({how})"


def _ensemble(method: Method, k: int) -> str:
    return f"one-hot labels, the mean of {method.values['members']:g} networks trained alike"


def _distilled(method: Method, k: int) -> str:
    alpha = method.values["alpha"]
    return (
        f"class-similarity smoothing, α = {alpha:g}: {1 - alpha:.4g} on the true class, the rest by what an ensemble "
        f"of {method.values['members']:g} networks takes validation rows of the class for"
    )


def _distance(method: Method, k: int) -> str:
    return f"one-hot labels, logits are minus the distances from the class centres ({method.values['passes']:g} draws)"


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
        companion=_around("mc_dropout"),
        network_options=lambda method: {"dropout": method.values["dropout"]},
    )
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
        companion=_around("swag"),
    )
)
declare(
    TrainingMethod(
        "laplace",
        "Laplace",
        _laplace,
        _loss("Objective"),
        parameters=(_passes(0, "how many last layers are drawn, 0 for the probit approximation"),),
        companion=_around("laplace"),
    )
)
MEMBERS = Parameter("members", "M", 5, "how many networks are trained", "count")
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
declare(
    TrainingMethod(
        "distance",
        "distance",
        _distance,
        _loss("DistanceObjective", "penalties"),
        parameters=(_passes(10, "how many draws of the representation are averaged"),),
        mixable=False,
        companion=_around("prototypes"),
    )
)

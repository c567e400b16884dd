"""A training method with the values of its parameters.

``Method`` is one of the methods that the classes in ``objectives`` declare, or two joined by "+".
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from softkin._core.names import did_you_mean
from softkin.lab.training.declaration import (
    METHODS,
    Parameter,
    TrainingMethod,
    Value,
    in_words,
    letters,
    options,
    parameters,
    text_of,
)
from softkin.lab.training.objectives.smooth_labels import BETA

if TYPE_CHECKING:
    from torch import Tensor

    from softkin._core.checks import Array
    from softkin.losses import SoftLabelCrossEntropy
    from softkin.losses.soft_labels import AutoAlpha
    from softkin.similarity import Outputs

__all__ = [
    "METHODS",
    "SIMILARITY",
    "Method",
    "Parameter",
    "TrainingMethod",
    "Value",
    "in_words",
    "letters",
    "options",
    "parameters",
    "parse",
    "text_of",
]


ONE_HOT, SIMILARITY = METHODS["one-hot"], METHODS["similarity"]


class Method:
    """A training method with values for its parameters: a way to label samples, and optionally a way to mix them.

    ``name`` is one of ``METHODS``, or a way to label and a way to mix joined by "+", such as ``"similarity+mixup"``.
    Each is a class in ``objectives``, whose docstring has its formula; ``METHODS`` lists them.

    Args:
        name: The name of the method.
        soft_labels: (K, K), for "similarity" only. α then follows from their diagonal.
        distance: The distance that ``soft_labels`` were made from, for the record.
        values: Values of the method's parameters, such as ``alpha=0.1``; the others have their defaults. Each parameter
            is also an attribute, ``method.alpha``, None if the method does not have it. ``alpha="auto"`` adjusts α
            after each validation by the rule of ``losses.soft_labels``; ``method.alpha`` is then its initial value.

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
        """The rule that adjusts α; None if α is fixed"""
        self.values: dict[str, float] = self._checked(values)
        self.smooth_loss: SoftLabelCrossEntropy | None = None
        """The loss for ``soft_labels``, which it has checked"""
        if (soft_labels is None) == labelling.from_distances:
            wants = "needs `soft_labels` (K, K), as Method.from_distances makes them" if soft_labels is None else None
            raise ValueError(f"the method {self.name!r} {wants or 'takes no `soft_labels`'}.")
        if soft_labels is not None:
            from softkin import losses

            self.smooth_loss = losses.SoftLabelCrossEntropy(soft_labels, alpha=self.auto_alpha, reduction="sum")
            self.values["alpha"] = round(self.smooth_loss.alpha, 12)

    def _checked(self, values: Mapping[str, Value | None]) -> dict[str, float]:
        """Checked values of all parameters; those that made a matrix of labels only where the caller gave them."""
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
        """The initial value of a parameter that is "auto"."""
        if name == BETA.name:
            from softkin import similarity

            return similarity.AUTO_BETA
        from softkin.losses.soft_labels import AutoAlpha

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
        prior_rows: float | None = None,
    ) -> Self:
        """Class-similarity smoothing from class distances (K, K), with the way to mix ``mix`` if it is given.

        With ``top_m`` each class keeps its m most similar classes; with ``beta="auto"`` the ``outputs`` of a baseline
        choose β. See ``similarity.from_distances``. With ``prior_rows`` the similarity is the prior of labels that the
        network learns.
        """
        from softkin import similarity

        if beta == "auto":
            beta = similarity.AUTO_BETA if outputs is None else similarity.best_beta(distances, *outputs)
        s = similarity.from_distances(distances, beta, asymmetric=asymmetric, top_m=top_m or None)
        rows = s.dense() if isinstance(s, similarity.SparseRows) else s
        more: dict[str, Any] = {"mix": mix, "mixing": mixing, "distance": distance, "prior_rows": prior_rows}
        return cls.from_similarity(rows, alpha=alpha, beta=beta, top_m=top_m, **more)

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
        prior_rows: float | None = None,
    ) -> Self:
        """Class-similarity smoothing from a similarity (K, K); ``beta`` and ``top_m`` are only kept for the record."""
        from softkin import smoothing

        if prior_rows and alpha == "auto":
            alpha = METHODS["learned"].parameters[0].default
        auto = SIMILARITY.parameters[0].check(alpha) == "auto"
        q = smoothing.checked_similarity(rows) if isinstance(alpha, str) else smoothing.similarity_labels(rows, alpha)
        name = f"{SIMILARITY.name}+{mix}" if mix else SIMILARITY.name
        return cls(
            name,
            soft_labels=q,
            mixing=mixing,
            alpha="auto" if auto else None,
            beta=beta,
            top_m=top_m or None,
            distance=distance,
            prior_rows=prior_rows or None,
        )

    def effective_target(self, num_classes: int) -> str:
        """The target of a sample in words and numbers."""
        methods = [method for method in (self.labelling, self.mixing_method) if method is not None]
        return "; ".join(method.target(self, num_classes) for method in methods)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a record: the name, the values, and the digest of ``soft_labels``."""
        from softkin._io import files

        plain: dict[str, Any] = {"name": self.name, **self._plain_values()}
        if self.distance is not None:
            plain["distance"] = self.distance
        if self.soft_labels is not None:
            plain["soft_labels"] = files.sha256(self.soft_labels.contiguous().numpy().data)
        return plain


def parse(name: str) -> tuple[TrainingMethod, TrainingMethod | None]:
    """A method's name as (way to label, way to mix)."""
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

"""What a network is trained towards: the training methods by name, and the target that each amounts to."""

import difflib
import hashlib
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

from torch import Tensor

from softkin import checks, similarity, smoothing
from softkin.checks import Array

LABELS = ("one-hot", "uniform", "similarity", "focal", "margin", "online")
MIXINGS = ("mixup", "cutmix")
DEFAULTS: dict[str, dict[str, float]] = {
    "one-hot": {},
    "uniform": {"alpha": 0.1},
    "similarity": {"alpha": 0.1},
    "focal": {"gamma": 3.0},
    "margin": {"margin": 10.0, "penalty": 0.1},
    "online": {"alpha": 0.5},
    "mixup": {"mixing": 0.2},
    "cutmix": {"mixing": 1.0},
}


@dataclass(frozen=True, eq=False)
class Method:
    r"""A training method: labels, perhaps mixed.

    ``name`` is one of the methods below, or a way to label and a way to mix joined by "+", such as
    ``"similarity+mixup"``. With e_k the one-hot label of class k of K, z the logits and p their softmax:

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

    One λ serves a whole batch, and b is another place of the same batch, as in the authors' code.

    Example:
        >>> Method("uniform").effective_target(10)
        'uniform smoothing, α = 0.1: 0.91 on the true class, 0.01 on each of the 9 others'
        >>> Method("mixup").effective_target(10)
        'one-hot labels; two samples mixed, λ·first + (1−λ)·second, λ ~ Beta(0.2, 0.2)'
    """

    name: str
    alpha: float | None = None
    soft_labels: Tensor | None = None
    """(K, K), for "similarity" only"""
    mixing: float | None = None
    gamma: float | None = None
    margin: float | None = None
    penalty: float | None = None
    beta: float | None = None
    """What ``soft_labels`` were made with; kept for the record"""
    distance: str | None = None
    """What ``soft_labels`` were made from; kept for the record"""

    def __post_init__(self) -> None:
        label, mix = self.label, self.mix
        options: dict[str, float] = DEFAULTS[label] | (DEFAULTS[mix] if mix else {})
        for option in ("alpha", "mixing", "gamma", "margin", "penalty"):
            if getattr(self, option) is None:
                object.__setattr__(self, option, options.get(option))
            elif option not in options:
                takers = [name for name in DEFAULTS if option in DEFAULTS[name]]
                hint = f"; name it 'uniform+{mix}' to smooth as well" if option == "alpha" and mix else ""
                raise ValueError(f"`{option}` is for {' and '.join(takers)}, and the method is {self.name!r}{hint}.")
        if self.alpha is not None:
            checks.alpha(self.alpha)
        for option in ("gamma", "margin", "penalty"):
            if getattr(self, option) is not None:
                checks.at_least_zero(getattr(self, option), option)
        if self.mixing is not None and checks.at_least_zero(self.mixing, "mixing") == 0:
            raise ValueError("`mixing` must be above 0, got 0: λ is drawn from Beta(mixing, mixing).")
        if (self.soft_labels is None) == (label == "similarity"):
            wants = "needs `soft_labels` (K, K), as Method.from_distances makes them" if label == "similarity" else None
            raise ValueError(f"the method {self.name!r} {wants or 'takes no `soft_labels`'}.")
        if self.soft_labels is not None:
            q = checks.square(self.soft_labels, "soft_labels")
            checks.rows_sum_to_one(q, "soft_labels")
            object.__setattr__(self, "soft_labels", q)
            object.__setattr__(self, "alpha", round(1 - float(q.diagonal().mean()), 12))

    @cached_property
    def label(self) -> str:
        """The way to label."""
        return parse(self.name)[0]

    @cached_property
    def mix(self) -> str | None:
        """The way to mix."""
        return parse(self.name)[1]

    @classmethod
    def from_distances(
        cls,
        distances: Array,
        *,
        alpha: float = 0.1,
        beta: float = 2.0,
        mix: str | None = None,
        mixing: float | None = None,
        distance: str | None = None,
        asymmetric: bool = False,
    ) -> Self:
        """Class-similarity smoothing from class distances (K, K), mixed where ``mix`` says how."""
        s = similarity.from_distances(distances, beta, asymmetric=asymmetric)
        return cls(
            f"similarity+{mix}" if mix else "similarity",
            soft_labels=smoothing.similarity_labels(s, alpha),
            mixing=mixing,
            beta=beta,
            distance=distance,
        )

    def effective_target(self, num_classes: int) -> str:
        """In words and numbers, what a sample is trained towards."""
        k, alpha = num_classes, self.alpha
        if self.label == "uniform":
            assert alpha is not None
            own, other = 1 - alpha + alpha / k, alpha / k
            text = (
                f"uniform smoothing, α = {alpha:g}: {own:.4g} on the true class, "
                f"{other:.4g} on each of the {k - 1} others"
            )
        elif self.label == "similarity":
            assert alpha is not None
            known = [f"α = {alpha:.4g}"]
            known += [f"β = {self.beta:g}"] if self.beta is not None else []
            known += [f"distance {self.distance}"] if self.distance else []
            text = (
                f"class-similarity smoothing, {', '.join(known)}: {1 - alpha:.4g} on the true class, "
                f"{alpha:.4g} shared among the {k - 1} others by similarity"
            )
        elif self.label == "online":
            assert alpha is not None
            text = (
                f"online smoothing, α = {alpha:g}: {1 - alpha:g}·one-hot + {alpha:g}·mean probabilities of what the "
                "last epoch got right of the class"
            )
        else:
            text = "one-hot labels"
        if self.label == "focal":
            text += f", the loss of a sample times (1−p)^{self.gamma:g}"
        if self.label == "margin":
            text += f", plus {self.penalty:g}·mean over classes of max(0, highest logit − logit − {self.margin:g})"
        if self.mix == "mixup":
            text += f"; two samples mixed, λ·first + (1−λ)·second, λ ~ Beta({self.mixing:g}, {self.mixing:g})"
        if self.mix == "cutmix":
            text += (
                f"; a rectangle of a second sample pasted in, labels by area, "
                f"area kept ~ Beta({self.mixing:g}, {self.mixing:g})"
            )
        return text

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a record: what is set, and of ``soft_labels`` the digest."""
        plain: dict[str, Any] = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "soft_labels" and getattr(self, field.name) is not None
        }
        if self.soft_labels is not None:
            plain["soft_labels"] = hashlib.sha256(self.soft_labels.contiguous().numpy().data).hexdigest()
        return plain


def parse(name: str) -> tuple[str, str | None]:
    """(way to label, way to mix) of a method's name."""
    if not isinstance(name, str):
        raise TypeError(f"`name` must be the name of a method, such as 'uniform', got {name!r}.")
    parts = name.split("+")
    for part in parts:
        if part not in DEFAULTS:
            near = difflib.get_close_matches(part, DEFAULTS, 1)
            meant = f"; did you mean {near[0]!r}?" if near else "."
            raise ValueError(f"`name` must be one of {', '.join(DEFAULTS)}, or two joined by +, got {name!r}{meant}")
    labels = [part for part in parts if part in LABELS]
    mixes = [part for part in parts if part in MIXINGS]
    if len(labels) > 1 or len(mixes) > 1:
        raise ValueError(f"`name` must join at most one way to label and one way to mix, got {name!r}.")
    return labels[0] if labels else "one-hot", mixes[0] if mixes else None

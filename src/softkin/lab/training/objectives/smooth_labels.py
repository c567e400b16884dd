"""Methods with labels of their own: one-hot, uniform and class-similarity smoothing, labels that are learned."""

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from softkin import smoothing
from softkin._core import ranks
from softkin.lab.training.declaration import Parameter
from softkin.lab.training.objectives.objective import Objective
from softkin.losses import AutoAlpha, LearnedSimilarityLoss, SoftLabelCrossEntropy

if TYPE_CHECKING:
    from softkin.lab.training.methods import Method


def alpha_of(default: float, *, automatic: bool = True) -> Parameter:
    """The smoothing factor of a method."""
    return Parameter("alpha", "α", default, "the smoothing factor", "share", automatic)


BETA = Parameter("beta", "β", 2.0, "how sharp the similarity is", automatic=True)
TOP_M = Parameter(
    "top_m",
    "top-m",
    0,
    "how many of the most similar classes keep their share of α (the others divide the rest evenly), 0 for all",
    "count",
)


PRIOR = Parameter(
    "prior_rows",
    "m",
    0,
    "weight of the similarity as a prior of learned labels, in rows; 0 keeps the labels fixed",
)


class OneHot(Objective, name="one-hot", aliases=("cross-entropy", "ce")):
    """Plain training: cross-entropy towards the one-hot label e_k."""


class Smooth(Objective):
    """Cross-entropy towards the smooth labels of ``self.smooth``."""

    smooth: SoftLabelCrossEntropy
    share = 1.0
    """The mass on other classes when α = 1"""
    summed = ("sums", "counts", "own_sums")

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        loss: Tensor = self.smooth(logits, targets)
        return loss

    @property
    def learning(self) -> LearnedSimilarityLoss | None:
        return self.smooth if isinstance(self.smooth, LearnedSimilarityLoss) else None

    def learnt(self) -> dict[str, Tensor]:
        return {} if self.learning is None else dict(self.learning.state_dict())

    def end_epoch(self) -> None:
        """Compute the next epoch's labels from the samples of all processes, if they are learned."""
        if self.learning is not None:
            self.learning.end_epoch()

    @property
    def moving(self) -> SoftLabelCrossEntropy | None:
        return None if self.method.auto_alpha is None else self.smooth

    @property
    def alpha(self) -> float | None:
        return None if self.moving is None else self.moving.alpha / self.share


def _moving(auto: AutoAlpha) -> str:
    return f"α from {auto.start:g} on, moved by {auto.rate:g}·(mean confidence − accuracy) at each validation"


class Uniform(Smooth, name="uniform", aliases=("label-smoothing", "ls"), parameters=(alpha_of(0.1),), tuned="alpha"):
    """Uniform label smoothing: labels (1−α)·e_k + α/K (Szegedy et al., 2016)."""

    def __init__(self, method: "Method", num_classes: int) -> None:
        super().__init__(method, num_classes)
        auto = method.auto_alpha
        self.share = (num_classes - 1) / num_classes
        if auto is not None:  # SoftLabelCrossEntropy defines α as the mass on other classes
            names = ("start", "rate", "most")
            auto = AutoAlpha(**{name: getattr(auto, name) * self.share for name in names})
        labels = smoothing.uniform_labels(num_classes, method.values["alpha"])
        self.smooth = SoftLabelCrossEntropy(labels, alpha=auto, reduction="sum")

    @staticmethod
    def target(method: "Method", k: int) -> str:
        alpha = method.values["alpha"]
        if method.auto_alpha is not None:
            return f"uniform smoothing, {_moving(method.auto_alpha)}, shared among all {k} classes"
        own, other = 1 - alpha + alpha / k, alpha / k
        return (
            f"uniform smoothing, α = {alpha:g}: {own:.4g} on the true class, {other:.4g} on each of the {k - 1} others"
        )


class Similarity(Smooth, name="similarity", parameters=(alpha_of(0.1), BETA, TOP_M, PRIOR), from_distances=True):
    """Class-similarity label smoothing: labels (1−α)·e_k + α·s_k (Liu and JaJa, 2021).

    With ``prior_rows`` the network learns the labels (``losses.learned``), and the matrix is the prior.
    """

    def __init__(self, method: "Method", num_classes: int) -> None:
        super().__init__(method, num_classes)
        assert method.smooth_loss is not None
        covered = method.smooth_loss.num_classes
        if covered != num_classes:
            raise ValueError(
                f"`soft_labels` cover {covered} classes but the data have {num_classes}; "
                "was the matrix made for another data set?"
            )
        rows = method.values.get("prior_rows", 0.0)
        if rows:
            s = method.smooth_loss.soft_labels.clone().fill_diagonal_(0)
            s /= s.sum(dim=1, keepdim=True)
            alpha = method.values["alpha"]
            self.smooth = LearnedSimilarityLoss(num_classes, alpha, prior=s, prior_rows=rows, reduction="sum")
        else:
            self.smooth = copy.deepcopy(method.smooth_loss)  # a copy, because the training moves it to its device

    @staticmethod
    def target(method: "Method", k: int) -> str:
        alpha, beta, top_m = method.values["alpha"], method.values.get("beta"), method.values.get("top_m")
        known = [f"α = {alpha:.4g}" if method.auto_alpha is None else "α = auto"]
        known += [f"β = {beta:g}"] if beta is not None else []
        known += [f"top-m = {top_m:g}"] if top_m else []
        known += [f"distance {method.distance}"] if method.distance else []
        if rows := method.values.get("prior_rows"):
            return (
                f"learned labels, {', '.join(known)}: {1 - alpha:.4g}·one-hot + {alpha:.4g}·mean probabilities of the "
                "class's samples that the last epoch got right, with the similarity as "
                f"{rows:g} sample{'' if rows == 1 else 's'}"
            )
        if method.auto_alpha is not None:
            return (
                f"class-similarity smoothing, {', '.join(known)}: {_moving(method.auto_alpha)}, shared among the "
                f"{k - 1} other classes by similarity"
            )
        return (
            f"class-similarity smoothing, {', '.join(known)}: {1 - alpha:.4g} on the true class, "
            f"{alpha:.4g} shared among the {k - 1} others by similarity"
        )


class Learned(
    Smooth,
    name="learned",
    title="Learned",
    aliases=("online",),
    parameters=(alpha_of(0.5, automatic=False),),
    tuned="alpha",
):
    """Labels that the network learns: (1−α)·e_k + α·t_k (online label smoothing, Zhang et al., 2021).

    t_k is the mean probabilities of the samples of class k that the last epoch got right: 1/K in the first epoch, the
    previous row where an epoch got none right.
    """

    def __init__(self, method: "Method", num_classes: int) -> None:
        super().__init__(method, num_classes)
        self.smooth = LearnedSimilarityLoss(num_classes, method.values["alpha"], reduction="sum")

    @staticmethod
    def target(method: "Method", k: int) -> str:
        alpha = method.values["alpha"]
        return (
            f"learned labels, α = {alpha:g}: {1 - alpha:g}·one-hot + {alpha:g}·mean probabilities of the class's "
            "samples that the last epoch got right"
        )


class PsKd(
    Objective,
    name="ps-kd",
    title="PS-KD",
    parameters=(alpha_of(0.8, automatic=False),),
    tuned="alpha",
    mixable=False,
):
    """Labels mixed with what the network said of the same sample one epoch before (Kim et al., 2021).

    Progressive self-knowledge distillation: cross-entropy towards (1−α_t)·e_k + α_t·p. α_t = α·t/T grows with
    the epoch t of T, and the first epoch has one-hot labels. As in the authors' code, p is the output of the training
    pass, with the augmentation of that epoch. Two tables of (N, K) numbers are kept.
    """

    past: Tensor
    news: Tensor
    summed = ("news",)

    def __init__(self, method: "Method", num_classes: int) -> None:
        super().__init__(method, num_classes)
        self.rows, self.share = torch.empty(0, dtype=torch.int64), 0.0

    @staticmethod
    def target(method: "Method", k: int) -> str:
        alpha = method.values["alpha"]
        return (
            f"the network's own outputs, α = {alpha:g}·t/T in epoch t of T: (1−α)·one-hot + α·the probabilities that "
            "the sample got one epoch before"
        )

    def begin(self, rows: int) -> None:
        """Make room for the probabilities of all rows, those of the last epoch and those of this one."""
        for name in ("past", "news"):
            self.register_buffer(name, torch.zeros(rows, self.num_classes))

    def attend(self, rows: Tensor, epoch: int, epochs: int) -> None:
        self.rows = rows
        self.share = self.method.values["alpha"] * epoch / epochs if epoch > 1 else 0.0

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        log_p = F.log_softmax(logits.float(), dim=1)
        own = F.nll_loss(log_p, targets, reduction="sum")
        if self.training:
            self.news[self.rows] = log_p.detach().exp()  # every row comes once an epoch
        if self.share == 0:
            return own
        return (1 - self.share) * own - self.share * (self.past[self.rows] * log_p).sum()

    @torch.no_grad()
    def end_epoch(self) -> None:
        """What this epoch said of each row, on all processes together, is the next epoch's label."""
        self.past.copy_(ranks.total(self.news))
        self.news.zero_()

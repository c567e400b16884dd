"""Accuracy and proper scores."""

from typing import Unpack

import torch
from torch import Tensor

from softkin import checks
from softkin.metrics import conventions, scopes
from softkin.metrics.catalogue import Sureness, declare, metric
from softkin.metrics.scopes import PERS, Per
from softkin.metrics.statistics import Mean, Share


@metric(
    title="accuracy",
    short="accuracy",
    larger_is_better=True,
    at_most=1.0,
    shown=["evaluate", "compare", "select", "record", "table", "card"],
    about="share of the answers that are right",
    winner="Most accurate",
)
def accuracy(probabilities: Tensor, labels: Tensor, **_: Unpack[Sureness]) -> Share:
    """The share of samples whose winning class is the true one; of equal scores the first class wins."""
    return Share(scopes.wins(probabilities, labels)[1])


@metric(title="top-k accuracy", short="top-k", larger_is_better=True, at_most=1.0)
def top_k_accuracy(probabilities: Tensor, labels: Tensor, *, k: int = 5, **_: Unpack[Sureness]) -> Share:
    """The share of samples whose true class is among the k highest scores; of equal scores lower classes come first."""
    p, y = probabilities, labels
    k = checks.count(k, "k")
    if k > p.shape[1]:
        raise ValueError(f"`k` must be at most the number of classes, {p.shape[1]}, got {k}.")
    own = p.gather(1, y[:, None])
    before = torch.arange(p.shape[1], device=p.device) < y[:, None]
    rank = ((p > own) | ((p == own) & before)).sum(dim=1)
    return Share(rank < k)


declare(
    "top_5_accuracy",
    top_k_accuracy,
    {"k": 5},
    title="top-5 accuracy",
    short="top 5",
    least_classes=6,
    shown=["evaluate", "record", "page"],
)


@metric(
    title="NLL (nats)",
    short="NLL",
    percent=False,
    shown=["evaluate", "compare", "select", "record", "table", "card"],
    about="negative log-likelihood, or log loss",
    winner="Lowest NLL",
)
def nll(probabilities: Tensor, labels: Tensor, **_: Unpack[Sureness]) -> Mean:
    """Negative log-likelihood: the mean of −ln p of the true class, in nats.

    Nothing is clipped: a true class with probability 0 makes it infinite, by definition of the score. Such zeros are
    rare in probabilities computed from logits in float64; float32 probabilities below 1e-45 are 0.

    Example:
        >>> round(nll(torch.tensor([[0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1])), 6)
        0.490415
    """
    return Mean(-probabilities.gather(1, labels[:, None])[:, 0].to(torch.float64).log())


def squares(p: Tensor, y: Tensor) -> Tensor:
    """Σ_k (p_k − [k = y])² of each row, float64."""
    own = p.gather(1, y[:, None])[:, 0].to(torch.float64)
    total: Tensor = torch.linalg.vector_norm(p, dim=1, dtype=torch.float64).square()
    return total - 2 * own + 1


@metric(
    title="Brier score",
    short="Brier",
    percent=False,
    shown=["evaluate", "compare", "select", "record", "card"],
    about="0 is best, 2 is worst",
)
def brier(
    probabilities: Tensor,
    labels: Tensor,
    *,
    per: Per | None = None,
    convention: str | None = None,
    **_: Unpack[Sureness],
) -> Mean:
    """Brier score: the mean over samples of Σ_k (p_k − [k = y])², between 0 and 2.

    ``per="score"`` (or ``convention="kull2019"``) divides by K as well. For two classes the score of the positive
    class alone, as scikit-learn has it, is ``per="score"``.
    """
    chosen = conventions.resolve(convention, "brier", per=per)
    checks.option(chosen["per"], "per", PERS)
    return Mean(squares(probabilities, labels) / (probabilities.shape[1] if chosen["per"] == "score" else 1))

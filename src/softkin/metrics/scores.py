"""Accuracy and proper scores."""

from collections.abc import Iterator
from typing import Unpack

import torch
from torch import Tensor

from softkin._core import checks
from softkin.metrics import conventions, scopes
from softkin.metrics.catalogue import Sureness, declare, metric
from softkin.metrics.scopes import PERS, Claims, NoMeaning, Per
from softkin.metrics.statistics import Answers, Loss, Mean, Share

AT_ONCE = 2**19  # scores in a block of rows: temporaries of 4 MB, which stay in a cache


@metric(
    title="accuracy",
    short="accuracy",
    larger_is_better=True,
    at_most=1.0,
    shown=["evaluate", "compare", "select", "record", "table", "card"],
    about="share of the answers that are right",
    winner="Most accurate",
)
def accuracy(claims: Claims, **_: Unpack[Sureness]) -> Mean:
    """The share of samples whose winning class is the true one; of equal scores the first class wins.

    Of pairs it is the share that was right, of soft labels the mean share of votes for the winning class.
    """
    if not claims.exclusive and not claims.are_pairs:
        raise NoMeaning("no label of several wins, so none is the answer")
    if claims.exclusive and not claims.are_soft:
        return Share(scopes.wins(claims.probabilities, claims.labels)[1], claims.weights)
    pool = claims.pool("prediction")
    return (Share if pool.outcomes is None else Mean)(pool.is_hit[:, 0], claims.weights)


@metric(title="top-k accuracy", short="top-k", larger_is_better=True, at_most=1.0)
def top_k_accuracy(claims: Claims, *, k: int = 5, **_: Unpack[Sureness]) -> Mean:
    """The share of samples whose true class is among the k highest scores; of equal scores lower classes come first.

    Of soft labels it is the mean share of votes for those classes.
    """
    k = checks.count(k, "k")
    if claims.exclusive and k > claims.num_classes:
        raise ValueError(f"`k` must be at most the number of classes, {claims.num_classes}, got {k}.")
    if claims.are_soft:
        first = claims.probabilities.argsort(dim=1, descending=True, stable=True)[:, :k]
        return Mean(claims.labels.gather(1, first).sum(dim=1), claims.weights)
    p, y = claims.classes()
    column = torch.arange(p.shape[1], device=p.device)
    is_among = []
    for block, label in _blocks(p, y):
        own = block.gather(1, label[:, None])
        rank = ((block > own) | ((block == own) & (column < label[:, None]))).sum(dim=1)
        is_among.append(rank < k)
    return Share(torch.cat(is_among), claims.weights)


declare(
    "top_5_accuracy",
    top_k_accuracy,
    {"k": 5},
    title="top-5 accuracy",
    short="top 5",
    least_classes=6,
    shown=["evaluate", "record"],
)


@metric(
    title="NLL (nats)",
    short="NLL",
    percent=False,
    shown=["evaluate", "compare", "select", "record", "table", "card"],
    about="negative log-likelihood, or log loss",
    winner="Lowest NLL",
)
def nll(claims: Claims, **_: Unpack[Sureness]) -> Mean:
    """Negative log-likelihood: the mean of −ln p of the true class, in nats.

    For soft labels q it is −Σ_k q_k ln p_k. A pair of a confidence s and an outcome o has −o ln s − (1−o) ln(1−s), and
    several labels per sample have the mean of that over all labels.

    Nothing is clipped: a true class with probability 0 makes it infinite, by definition of the score. Such zeros are
    rare in probabilities computed from logits in float64; float32 probabilities below 1e-45 are 0.

    Example:
        >>> round(nll(torch.tensor([[0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1])), 6)
        0.490415
    """
    if claims.are_pairs:
        return _nll(claims.as_two_classes())
    if not claims.exclusive:
        s, o = claims.probabilities.to(torch.float64), claims.labels
        return Mean(-(torch.special.xlogy(o, s) + torch.special.xlogy(1 - o, 1 - s)).mean(dim=1), claims.weights)
    return _nll(claims)


def _nll(claims: Claims) -> Mean:
    probabilities, labels = claims.probabilities, claims.labels
    if labels.ndim == 2:
        return Mean(-torch.special.xlogy(labels, probabilities.to(torch.float64)).sum(dim=1), claims.weights)
    own = probabilities.gather(1, labels[:, None])[:, 0].to(torch.float64).log()

    def answers() -> Answers:
        winning = probabilities.amax(dim=1).to(torch.float64)
        return Answers(winning, winning.log() - own, (winning.log() - (1 - winning).log()).clamp(min=0))

    return Loss(-own, answers, weights=claims.weights)


def _blocks(p: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows and labels in blocks, so that temporaries stay small however many classes there are."""
    rows = max(1, AT_ONCE // p.shape[1])
    return zip(p.split(rows), y.split(rows), strict=True)


def squares(p: Tensor, y: Tensor) -> Tensor:
    """Σ_k (p_k − [k = y])² of each row, float64."""
    own = p.gather(1, y[:, None])[:, 0].to(torch.float64)
    norms = [torch.linalg.vector_norm(block, dim=1, dtype=torch.float64) for block, _ in _blocks(p, y)]
    return torch.cat(norms).square() - 2 * own + 1


@metric(
    title="Brier score",
    short="Brier",
    percent=False,
    shown=["evaluate", "compare", "select", "record", "card"],
    about="0 is best, 2 is worst",
    at_most=2.0,
)
def brier(
    claims: Claims,
    *,
    per: Per | None = None,
    convention: str | None = None,
    **_: Unpack[Sureness],
) -> Mean:
    """Brier score: the mean over samples of Σ_k (p_k − [k = y])², between 0 and 2.

    ``per="score"`` (or ``convention="kull2019"``) divides by K as well. For two classes the score of the positive
    class alone, as scikit-learn has it, is ``per="score"``: half of ours.

    For soft labels q it is the mean of Σ_k (p_k − q_k)². A pair has one claim, so its score is (s − o)², as
    scikit-learn has it, and so has each of several labels, over which it is a mean.
    """
    chosen = conventions.resolve(convention, "brier", per=per)
    checks.option(chosen["per"], "per", PERS)
    if claims.are_pairs:
        return square_loss(claims.as_two_classes(), 2)
    if not claims.exclusive:
        errors = (claims.probabilities.to(torch.float64) - claims.labels).square()
        return Mean(errors.mean(dim=1), claims.weights)
    return square_loss(claims, claims.num_classes if chosen["per"] == "score" else 1)


def square_loss(claims: Claims, divide_by: int = 1) -> Mean:
    """The mean of ``squares``."""
    p, y = claims.probabilities, claims.labels
    if y.ndim == 2:
        return Mean((p.to(torch.float64) - y).square().sum(dim=1) / divide_by, claims.weights)

    def answers() -> Answers:
        winning, own = p.amax(dim=1).to(torch.float64), p.gather(1, y[:, None])[:, 0].to(torch.float64)
        # (1 − own)² − (1 − c)² + c² − own² = 2 (c − own), and a wrong class has at most what the winner leaves.
        return Answers(winning, 2 * (winning - own) / divide_by, 2 * (2 * winning - 1).clamp(min=0) / divide_by)

    return Loss(squares(p, y) / divide_by, answers, at_most=2 / divide_by, weights=claims.weights)


@metric(
    title="ranked probability score",
    short="RPS",
    percent=False,
    ordered=True,
    shown=["evaluate", "compare"],
    about="for ordered classes: 0 is best, 1 is worst",
)
def rps(claims: Claims, **_: Unpack[Sureness]) -> Loss:
    r"""Ranked probability score of ordered classes, between 0 and 1 (Epstein, 1969).

    The mean over samples of :math:`\frac{1}{K-1} \sum_{k<K} (F_k - [y \le k])^2`, with :math:`F_k` the probability of
    class k or a lower one. A near miss costs less than a far one. For two classes it is half the Brier score.

    Example:
        >>> near, far = torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[0.0, 0.0, 1.0]])
        >>> rps(near, torch.tensor([0])), rps(far, torch.tensor([0]))
        (0.5, 1.0)
    """
    probabilities, labels = claims.classes()
    parts = [_ranked(block) for block, _ in _blocks(probabilities, labels)]
    own = torch.cat(
        [
            losses.gather(1, y[:, None])[:, 0]
            for losses, (_, y) in zip(parts, _blocks(probabilities, labels), strict=True)
        ]
    )

    def answers() -> Answers:
        winning, best = probabilities.max(dim=1)
        right = torch.cat(parts).gather(1, best[:, None])[:, 0]
        most = torch.cat([losses.amax(dim=1) for losses in parts])
        return Answers(winning.to(torch.float64), own - right, (most - right).clamp(min=0))

    return Loss(own, answers, at_most=1.0, weights=claims.weights)


def _ranked(p: Tensor) -> Tensor:
    """(n, K) the score of each row if each class were the true one: from one class to the next it grows by 2F − 1."""
    below = p.to(torch.float64).cumsum(dim=1)[:, :-1]
    first = (1 - below).square().sum(dim=1, keepdim=True)
    return torch.cat([first, first + (2 * below - 1).cumsum(dim=1)], dim=1) / below.shape[1]

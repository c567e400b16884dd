r"""Confidence scores of a row's answer, on which abstaining and climbing put a threshold.

- ``probability``: the winning probability, max p
- ``margin``: the difference of the two largest probabilities
- ``entropy``: Σ p ln p, the negative entropy
- ``logit-norm``: MaxLogit-pNorm, :math:`\max \tilde z / \lVert \tilde z \rVert_p` of the logits minus their mean

Label smoothing lowers the largest logit most where the network is right, so the winning probability of a smoothed
network separates right answers from wrong ones less well. Dividing by the norm reverses that. p is chosen by the area
under the risk–coverage curve on separate rows. If no p is better than the winning probability, that probability is used
(the fallback).

References:
    Cattelan and Silva, How to Fix a Broken Confidence Estimator, 2024, arXiv:2305.15508; Xia et al., Towards
    Understanding Why Label Smoothing Degrades Selective Classification and How to Fix It, 2024, arXiv:2403.14715.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from softkin._core.names import Registry

NORMS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
"""The values of p to try"""

Confidence = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class ConfidenceScore:
    """A named score of (n, K) probabilities or logits."""

    of: Confidence
    takes_logits: bool = False


SCORES: Registry[ConfidenceScore] = Registry("score")


def probability(p: Tensor) -> Tensor:
    """The winning probability."""
    return p.amax(dim=1)


def margin(p: Tensor) -> Tensor:
    """The difference of the two largest probabilities."""
    two = p.topk(2, dim=1).values
    return two[:, 0] - two[:, 1]


def entropy(p: Tensor) -> Tensor:
    """The negative entropy in nats; it is 0 if one class has all the probability."""
    return (p * p.clamp(min=torch.finfo(p.dtype).tiny).log()).sum(dim=1)


def logit_norm(z: Tensor, norm: float = 2.0) -> Tensor:
    """MaxLogit-pNorm of logits; 0 if all logits of a row are equal."""
    centred = z - z.mean(dim=1, keepdim=True)
    top = centred.abs().amax(dim=1, keepdim=True)
    scaled = centred / torch.where(top > 0, top, torch.ones_like(top))
    length = scaled.abs().pow(norm).sum(dim=1).pow(1 / norm)
    return scaled.amax(dim=1) / torch.where(length > 0, length, torch.ones_like(length))


SCORES.add("probability", ConfidenceScore(probability), aliases=["msp", "max-probability"])
SCORES.add("margin", ConfidenceScore(margin))
SCORES.add("entropy", ConfidenceScore(entropy))
SCORES.add("logit-norm", ConfidenceScore(logit_norm, takes_logits=True), aliases=["maxlogit-pnorm", "logit_norm"])


def area(scores: Tensor, wrong: Tensor) -> float:
    """The area under the risk–coverage curve, as in ``metrics.aurc``: ties count as if in random order."""
    values, group = torch.unique(scores, return_inverse=True)
    size = torch.bincount(group, minlength=len(values)).flip(0)
    errors = torch.bincount(group, weights=wrong.double(), minlength=len(values)).flip(0)
    rate = torch.repeat_interleave(errors / size, size)
    return float((rate.cumsum(0) / torch.arange(1, len(scores) + 1, dtype=torch.float64)).mean())

"""When to answer and when to abstain: a threshold on confidence that keeps the error rate under a limit, surely.

A rule that answers where the winning score exceeds θ has a coverage, the share of samples answered, and a risk, the
error rate among those. Choosing θ by the data makes the risk seen there too good; the guarantee here holds after the
choice.
"""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from softkin import checks
from softkin.checks import Array

CANDIDATES = 100


@dataclass(frozen=True)
class Rule:
    """Answer where the winning score is above ``threshold``."""

    threshold: float
    answered: int
    wrong: int
    coverage: float
    """The share of samples that are answered"""
    risk: float
    """The error rate among them; 0 if none is"""
    bound: float
    """What the risk of the population stays below: for all candidates at once with the stated confidence"""


@dataclass(frozen=True)
class Selection:
    """What ``select`` found."""

    target: float
    confidence: float
    chosen: Rule | None
    """The rule with the largest coverage whose bound is within the target; None if no rule's is"""
    candidates: list[Rule]
    """From strict to lenient: the risk–coverage curve with its bounds"""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    def __str__(self) -> str:
        limit = f"an error rate of at most {100 * self.target:g} % with confidence {100 * self.confidence:g} %"
        if self.chosen is None:
            best = min(self.candidates, key=lambda rule: rule.bound)
            lowest = f"{100 * best.bound:.2f} %, above {_digits(best.threshold)}"
            return f"No threshold keeps {limit}: the lowest bound is {lowest}."
        one = self.chosen
        return (
            f"Answer where the confidence is above {_digits(one.threshold)}, abstain elsewhere: {limit}. "
            f"Here that answers {100 * one.coverage:.1f} % of the samples, of which {100 * one.risk:.2f} % are wrong."
        )


def select(
    scores: Array, right: Array, *, risk: float, confidence: float = 0.95, candidates: int = CANDIDATES
) -> Selection:
    r"""The most lenient threshold that keeps the error rate under ``risk``, sure to the level ``confidence``.

    Of J candidate coverages 1/J, 2/J … 1 each has a threshold θ_j: the largest score that is not among its share. With
    w_j errors among the n_j scores above θ_j, Clopper and Pearson's upper limit at level δ/J, δ = 1 − ``confidence``,

    .. math:: b_j = \max\{b : \Pr[\mathrm{Bin}(n_j, b) \le w_j] \ge \delta / J\}

    exceeds the population's error rate above θ_j for all j at once with probability 1 − δ: given θ_j, the n_j samples
    above it are drawn independently from the population above it. So any choice among them is covered.

    This is the bound of Geifman and El-Yaniv. Their search visits only ⌈log₂ N⌉ thresholds and divides δ by as many,
    but which ones it visits depends on the labels; candidates fixed beforehand need no assumption about that.

    Args:
        scores: (N,) confidences, such as the winning probabilities.
        right: (N,) whether each answer was right.
        risk: The error rate that is allowed, between 0 and 1.
        confidence: With which probability the guarantee holds.
        candidates: J.

    References:
        Geifman and El-Yaniv, Selective Classification for Deep Neural Networks, 2017, Lemma 3.1 and Algorithm 1.

    Example:
        >>> scores = torch.linspace(0.5, 1, 1000)
        >>> found = select(scores, scores > 0.6, risk=0.05)
        >>> found.chosen.coverage, found.chosen.wrong
        (0.82, 20)
    """
    s = checks.scores(scores, "scores").cpu()
    ok = checks.as_tensor(right, "right").cpu().to(torch.bool)
    if ok.shape != s.shape:
        raise ValueError(f"`right` must be as many as the scores: got {tuple(ok.shape)} for {tuple(s.shape)}.")
    target, level = _share(risk, "risk"), checks.level(confidence)
    rules = _rules(s, ok, checks.count(candidates, "candidates"), 1 - level)
    chosen = max((rule for rule in rules if rule.bound <= target), key=lambda rule: rule.answered, default=None)
    return Selection(target, level, chosen, rules)


def _digits(threshold: float) -> str:
    """Six digits; all of them where six would make 1 of it, above which nothing is answered."""
    return f"{threshold:.6f}" if round(threshold, 6) < 1 else repr(threshold)


def _share(value: float, name: str) -> float:
    if not 0 < checks.number(value, name) < 1:
        raise ValueError(f"`{name}` must be between 0 and 1, such as 0.05, got {value:g}.")
    return float(value)


def _rules(scores: Tensor, right: Tensor, candidates: int, delta: float) -> list[Rule]:
    from scipy.special import betaincinv

    n = len(scores)
    ordered, order = scores.sort(descending=True)
    errors = torch.cat([torch.zeros(1, dtype=torch.int64), (~right[order]).to(torch.int64).cumsum(dim=0)])
    places = -(-torch.arange(1, candidates + 1) * n // candidates)
    below_all = 0.0 if float(ordered[-1]) > 0 else float(ordered[-1]) - 1
    thresholds = torch.cat([ordered, ordered.new_tensor([below_all])])[places].unique().flip(0)
    answered = torch.searchsorted(-ordered, -thresholds)  # scores above each; those equal to it are not
    thresholds, answered = thresholds[answered > 0], answered[answered > 0]
    wrong = errors[answered]
    some_right = (answered - wrong).clamp(min=1)
    bounds = betaincinv((wrong + 1).numpy(), some_right.numpy(), 1 - delta / candidates)
    return [
        Rule(threshold, m, w, m / n, w / m, 1.0 if w == m else bound)
        for threshold, m, w, bound in zip(
            thresholds.tolist(), answered.tolist(), wrong.tolist(), bounds.tolist(), strict=True
        )
    ]

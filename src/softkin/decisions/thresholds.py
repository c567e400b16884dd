"""A threshold on a score that keeps the error rate of answers below a limit, even though the data chose it.

A rule that answers if a score exceeds θ has a coverage, the share of samples answered, and a risk, the error rate among
those. Choosing θ by the data makes the risk on the same data too optimistic; the guarantees here hold after the choice.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin.decisions import bounds

CANDIDATES = 100
LOG_ODDS = (-3.0, 7.0)  # range of the fixed thresholds: 0.047 to 0.9991

Wrong = Callable[[float], Tensor]
"""A function from θ to (N,) booleans: whether the answer that a sample gets at this threshold is wrong"""


@dataclass(frozen=True)
class Threshold:
    """A threshold: rows with a higher score are answered."""

    threshold: float
    answered: int
    wrong: int
    coverage: float
    """The share of samples that are answered"""
    risk: float
    """The error rate among the answers; 0 if there are none"""
    bound: float
    """An upper bound on the population's risk, valid for all candidates at once with the stated confidence"""


@dataclass(frozen=True)
class Selection:
    """The result of ``select``."""

    target: float
    confidence: float
    chosen: Threshold | None
    """The threshold with the largest coverage whose bound is within the target; None if there is none"""
    candidates: list[Threshold]
    """All thresholds from strict to lenient: the risk–coverage curve with its bounds"""

    def to_dict(self) -> dict[str, Any]:
        """The selection as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        limit = f"an error rate of at most {100 * self.target:g} % with confidence {100 * self.confidence:g} %"
        if self.chosen is None:
            best = min(self.candidates, key=lambda candidate: candidate.bound)
            lowest = f"{100 * best.bound:.4g} %, above {_digits(best.threshold)}"
            return f"No threshold keeps {limit}: the lowest bound is {lowest}."
        return (
            f"Answer where the confidence is above {_digits(self.chosen.threshold)}, abstain elsewhere: {limit}. "
            f"Here that answers {100 * self.chosen.coverage:.1f} % of the samples, of which "
            f"{100 * self.chosen.risk:.2f} % are wrong."
        )


def select(
    scores: Array, right: Array, *, risk: float, confidence: float = 0.95, candidates: int = CANDIDATES
) -> Selection:
    r"""The most lenient threshold that keeps the error rate below ``risk`` with probability ``confidence``.

    Each of the J candidate coverages 1/J, 2/J … 1 has a threshold θ_j: the largest score that is not in its share. With
    w_j errors among the n_j scores above θ_j, Clopper and Pearson's upper limit at level δ/J, δ = 1 − ``confidence``,

    .. math:: b_j = \max\{b : \Pr[\mathrm{Bin}(n_j, b) \le w_j] \ge \delta / J\}

    exceeds the population's error rate above θ_j for all j at once with probability 1 − δ: given θ_j, the n_j samples
    above it are drawn independently from the population above it. So any choice among the candidates is covered. This
    is Learn then Test with Bonferroni's correction.

    The bound is that of Geifman and El-Yaniv. Their search visits only ⌈log₂ N⌉ thresholds and divides δ by as many,
    but the visited thresholds depend on the labels; candidates that are fixed beforehand need no assumption about that.

    Args:
        scores: (N,) confidences, such as the winning probabilities.
        right: (N,) booleans: whether each answer was right.
        risk: The permitted error rate, between 0 and 1.
        confidence: The probability with which the guarantee holds.
        candidates: J, the number of candidates.

    References:
        Geifman and El-Yaniv, Selective Classification for Deep Neural Networks, 2017, Lemma 3.1 and Algorithm 1;
        Angelopoulos et al., Learn then Test, 2021, arXiv:2110.01052, Sec. 2.

    Example:
        >>> scores = torch.linspace(0.5, 1, 1000)
        >>> selection = select(scores, scores > 0.6, risk=0.05)
        >>> selection.chosen.coverage, selection.chosen.wrong
        (0.82, 20)
    """
    s = checks.scores(scores, "scores").cpu()
    ok = checks.as_tensor(right, "right").cpu().to(torch.bool)
    if ok.shape != s.shape:
        raise ValueError(f"`right` must be as many as the scores: got {tuple(ok.shape)} for {tuple(s.shape)}.")
    target, level = bounds.share(risk, "risk"), checks.level(confidence)
    return learn_then_test(s, lambda _: ~ok, target, level, checks.count(candidates, "candidates"))


def fewest_rows(error: float, delta: float, candidates: int) -> int:
    """The smallest N for which an error rate can be promised, if none of N answers is wrong."""
    return math.ceil(math.log(delta / candidates) / math.log1p(-error) - 1e-9)


def learn_then_test(
    scores: Tensor, wrong: Wrong, target: float, level: float, candidates: int, *, fixed: int = 0
) -> Selection:
    """``select`` for answers that may themselves depend on the threshold.

    ``fixed`` of the candidates are thresholds that do not depend on the data; the binomial limit holds for those too.
    If nearly all scores are close to 1, evenly spread coverages leave wide gaps between thresholds.
    """
    n, by_coverage = len(scores), candidates - fixed
    ordered = scores.sort(descending=True).values
    places = -(-torch.arange(1, by_coverage + 1) * n // by_coverage)
    # The last candidate answers everything. Either threshold is fixed beforehand, and both have the same errors among
    # the same rows where all scores are above 0, so testing the one or the other costs no more than one test.
    below_all = 0.0 if float(ordered[-1]) > 0 else -math.inf
    thresholds = torch.cat([ordered, ordered.new_tensor([below_all])])[places]
    levels = torch.linspace(*LOG_ODDS, fixed, dtype=torch.float64).sigmoid()
    thresholds = torch.cat([thresholds, levels]).unique().flip(0)
    answered = torch.searchsorted(-ordered, -thresholds)  # counts scores strictly above each threshold
    thresholds, answered = thresholds[answered > 0], answered[answered > 0]
    errors = torch.tensor([int((wrong(at) & (scores > at)).sum()) for at in thresholds.tolist()])
    limits = bounds.binomial_limit(errors, answered, (1 - level) / candidates)
    tested = [
        Threshold(at, m, w, m / n, w / m, bound)
        for at, m, w, bound in zip(
            thresholds.tolist(), answered.tolist(), errors.tolist(), limits.tolist(), strict=True
        )
    ]
    passed = [candidate for candidate in tested if candidate.bound <= target]
    return Selection(target, level, max(passed, key=lambda candidate: candidate.answered, default=None), tested)


def risk_control(scores: Tensor, wrong_above: Tensor, target: float) -> float:
    r"""The lowest θ that keeps the expected share of *all* rows that are answered wrong at or below ``target``.

    Row i is answered wrong while θ is below ``wrong_above[i]`` (−∞ for a row that is never wrong), so the loss falls
    with θ, and for n rows

    .. math:: \hat\theta = \inf\Big\{\theta : \frac{1 + \sum_i [\theta < w_i]}{n + 1} \le \varepsilon\Big\}

    has :math:`\mathbb{E}[\text{a new row is answered wrong}] \le \varepsilon`.

    References:
        Angelopoulos et al., Conformal Risk Control, 2022, arXiv:2208.02814, Theorem 1.
    """
    n = len(scores)
    allowed = math.floor((n + 1) * target + 1e-9) - 1
    if allowed >= n:
        return -math.inf
    return float(wrong_above.sort(descending=True).values[allowed])


def _digits(threshold: float) -> str:
    """The threshold with six digits, or with all digits if six would round it to 1, above which nothing is answered."""
    return f"{threshold:.6f}" if round(threshold, 6) < 1 else repr(threshold)

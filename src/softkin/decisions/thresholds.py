"""A threshold on a score that keeps the error rate of answers below a limit, even though the data chose it.

A rule that answers if a score exceeds θ has a coverage, the share of samples answered, and a risk, the error rate among
those. Choosing θ by the data makes the risk on the same data too optimistic; the guarantees here hold after the choice.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin.decisions import bounds

CANDIDATES = 100
ENOUGH, LEAST = 2, 50  # the sequence begins with twice the rows that a promise needs without an error, at least 50
LATER, TENTH = 1.5, 0.1  # the second begins with so many times the rows of the first, at least a tenth of all
IN_TURN = (
    "A bound below the rate is not enough: thresholds are tested from strict to lenient, beginning at two of them, and "
    "one counts only if all since a beginning pass."
)


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
    """An upper bound on the population's risk at the level of the tests, for this threshold alone"""


@dataclass(frozen=True)
class Selection:
    """The result of ``select``."""

    target: float
    confidence: float
    chosen: Threshold | None
    """The most lenient threshold that a sequence of tests reached; None if none passed its first test"""
    candidates: list[Threshold]
    """All thresholds from strict to lenient: the risk–coverage curve with its bounds"""
    least: float | None = None
    """If none passed: the least whole percent above the target that a threshold keeps, and None if none does"""

    def to_dict(self) -> dict[str, Any]:
        """The selection as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        limit = f"an error rate of at most {100 * self.target:g} % with confidence {100 * self.confidence:g} %"
        if self.least is not None:
            return (
                f"No threshold passes the test of {limit}. The least whole percent that one keeps is "
                f"{100 * self.least:g} %; as it was found on these rows, it is promised a little less surely."
            )
        if self.chosen is None:
            first = self.candidates[0]
            bound = f"{100 * first.bound:.4g} %, above {_digits(first.threshold)}"
            return f"No threshold passes the test of {limit}: the strictest has the bound {bound}."
        return (
            f"Answer where the confidence is above {_digits(self.chosen.threshold)}, abstain elsewhere: {limit}. "
            f"Here that answers {100 * self.chosen.coverage:.1f} % of the samples, of which "
            f"{100 * self.chosen.risk:.2f} % are wrong."
        )


def select(
    scores: Array, right: Array, *, risk: float, confidence: float = 0.95, candidates: int = CANDIDATES
) -> Selection:
    r"""The most lenient threshold that keeps the error rate below ``risk`` with probability ``confidence``.

    J coverages are fixed beforehand, from the least that can be promised anything to 1. Coverage c has the threshold
    θ_c: the largest score that is not in its share. Among the n_c scores above θ_c, w_c are of wrong answers. From
    strict to lenient, each threshold is tested by Clopper and Pearson's limit at a level λ,

    .. math:: b_c = \max\{b : \Pr[\mathrm{Bin}(n_c, b) \le w_c] \ge \lambda\}

    and the tests end with the first whose limit exceeds ``risk``. They begin twice, as one error too many among the
    surest would end them for good: a second time with 1.5 times the rows, at least a tenth of all. With δ = 1 −
    ``confidence``, each beginning has δ/2 to spend. Tests that reach the second beginning bring what they have: from
    there on λ = δ. The most lenient threshold that passed is chosen. This is Learn then Test with the fallback
    procedure.

    Why it holds, for scores without ties. Let R(θ) be the error rate above θ in the population, and let the chosen
    threshold be wrong, R > ``risk``. Let t be the first of all thresholds with R > ``risk``, and t' the first at or
    after the second beginning. If t = t', then t has passed, as nothing begins after it: at level δ at most. If not,
    then t has passed at level δ/2; or the tests ended before the second beginning, and t' has passed at level δ/2.

    Both ways have a probability of at most δ, because any given threshold t with R(t) > ``risk`` passes a test at level
    λ with probability at most λ. Let a ≥ t be the nearest point above with R(a) = ``risk``. Which thresholds have
    R > ``risk`` depends only on how many scores lie above each such point. Given those numbers, the answers above a are
    wrong with probability ``risk``, also between two such points, and those between t and a with a larger one, as R(t)
    > ``risk``. So the errors above t are stochastically at least binomial with probability ``risk``. Ties are simulated
    in the tests.

    Args:
        scores: (N,) confidences, such as the winning probabilities.
        right: (N,) booleans: whether each answer was right.
        risk: The permitted error rate, between 0 and 1.
        confidence: The probability with which the guarantee holds.
        candidates: J, the number of candidates.

    References:
        Angelopoulos et al., Learn then Test, 2021, arXiv:2110.01052, Sec. 2 (fixed sequence testing); Wiens, A fixed
        sequence Bonferroni procedure for testing multiple endpoints, 2003 (fallback); Geifman and El-Yaniv, Selective
        Classification for Deep Neural Networks, 2017, Lemma 3.1, for the bound.

    Example:
        >>> scores = torch.linspace(0.5, 1, 1000)
        >>> selection = select(scores, scores > 0.6, risk=0.05)
        >>> selection.chosen.coverage, selection.chosen.wrong
        (0.822, 22)
    """
    s = checks.scores(scores, "scores").cpu()
    ok = checks.as_tensor(right, "right").cpu().to(torch.bool)
    if ok.shape != s.shape:
        raise ValueError(f"`right` must be as many as the scores: got {tuple(ok.shape)} for {tuple(s.shape)}.")
    target, level = bounds.share(risk, "risk"), checks.level(confidence)
    return most_lenient(s, torch.where(ok, -math.inf, s), target, level, checks.count(candidates, "candidates"))


def most_lenient(
    scores: Tensor, wrong_above: Tensor, target: float, level: float, candidates: int, placed_by: Tensor | None = None
) -> Selection:
    """``select`` for answers that may depend on the threshold; then ``placed_by`` has scores of other rows.

    Row i is answered wrong while θ is below ``wrong_above[i]``, at most its score; −∞ for a row that is never wrong.

    The confidence is that of a rate which was asked for beforehand. It is not that of ``Selection.least``, which is the
    first of several rates that pass: for each the tests begin elsewhere, and each may pass by chance.
    """
    by = scores if placed_by is None else placed_by

    def of(rate: float) -> Selection:
        return tested_in_turn(
            scores, wrong_above, rate, level, *by_coverage(by, len(scores), rate, 1 - level, candidates)
        )

    found = of(target)
    if found.chosen is not None:
        return found
    above = (percent / 100 for percent in range(math.floor(100 * target + 1e-9) + 1, 100))
    return replace(found, least=next((rate for rate in above if of(rate).chosen is not None), None))


def fewest_rows(error: float, delta: float) -> int:
    """The smallest N for which an error rate can be promised, if none of N answers is wrong."""
    return math.ceil(math.log(delta) / math.log1p(-error) - 1e-9)


def by_coverage(scores: Tensor, rows: int, target: float, delta: float, candidates: int) -> tuple[Tensor, Tensor]:
    """Thresholds from strict to lenient whose coverages are evenly spread among ``scores``, and where tests begin.

    The first coverage has twice the rows, of ``rows`` to be tested, that a promise needs without any error; tests begin
    again with ``LATER`` times as many, or with a tenth of the rows, so that more rows test more answers.
    """
    n = len(scores)
    least = min(1.0, max(LEAST, ENOUGH * fewest_rows(target, delta)) / rows)
    ordered = scores.sort(descending=True).values
    later = min(1.0, max(TENTH, LATER * least))
    first = torch.tensor([least, later] if candidates > 1 else [1.0], dtype=torch.float64)
    shares = torch.cat([torch.linspace(1.0, least, candidates, dtype=torch.float64), first])
    places = (shares * n - 1e-9).ceil().long().clamp(1, n)
    # The last candidate answers everything.
    below_all = 0.0 if float(ordered[-1]) > 0 else -math.inf
    thresholds: Tensor = torch.cat([ordered, ordered.new_tensor([below_all])])[places]
    placed = thresholds.unique().flip(0)
    return placed, torch.isin(placed, thresholds[candidates:])


def tested_in_turn(
    scores: Tensor, wrong_above: Tensor, target: float, level: float, placed: Tensor, begins: Tensor
) -> Selection:
    """Test thresholds ``placed`` from strict to lenient, from each where tests ``begin`` until one fails.

    A test's level is the share of all beginnings since the last failure.

    Where answers depend on the threshold, as those of ``Climb`` do, ``placed`` must not depend on these rows.
    """
    n = len(scores)
    delta = (1 - level) / int(begins.sum())
    answered, errors = (torch.searchsorted((-of).sort().values, -placed) for of in (scores, wrong_above))  # above each
    kept = answered > 0
    placed, begins, answered, errors = (of[kept] for of in (placed, begins, answered, errors))
    begins[0] = True  # where the surest scores are all equal, no row lies above the threshold that was to begin
    limits = [bounds.binomial_limit(errors, answered, k * delta).tolist() for k in range(1, int(begins.sum()) + 1)]
    tested: list[Threshold] = []
    chosen, goes_on, spent = None, False, 0
    for place, (at, m, w) in enumerate(zip(placed.tolist(), answered.tolist(), errors.tolist(), strict=True)):
        if bool(begins[place]):
            spent = spent + 1 if goes_on else 1
            goes_on = True
        tested.append(Threshold(at, m, w, m / n, w / m, limits[spent - 1][place]))
        goes_on = goes_on and tested[-1].bound <= target
        chosen = tested[-1] if goes_on else chosen
    return Selection(target, level, chosen, tested)


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


def in_percent(threshold: float) -> str:
    """The threshold in percent, with six digits, or with all if six would round it to 100."""
    if threshold < 0:
        return "any"
    text = f"{100 * threshold:.6g}"
    return f"{text if float(text) < 100 or threshold >= 1 else repr(100 * threshold)} %"


def _digits(threshold: float) -> str:
    """The threshold with six digits, or with all digits if six would round it to 1, above which nothing is answered."""
    return "any" if threshold < 0 else f"{threshold:.6f}" if round(threshold, 6) < 1 else repr(threshold)

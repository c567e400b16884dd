r"""Answer, or abstain; and the scores of confidence on which abstaining and climbing put a threshold.

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

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.names import Registry
from softkin._io.files import number
from softkin.calibrators.fitted import Formula
from softkin.decisions import bounds, thresholds
from softkin.decisions.rule import Outcome, Promise, Rows, Rule, information, set_apart
from softkin.decisions.thresholds import CANDIDATES, Selection

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


TUNING = 0.25  # share of the rows that choose the norm of ``logit-norm``, up to MOST_TUNING
MOST_TUNING = 5000

RiskOf = Literal["answers", "rows"]


class Selective(Rule):
    """The base of ``Abstain`` and ``Climb``: an error rate, a threshold that keeps it, and measures of answers."""

    error: float
    confidence: float
    of: RiskOf
    candidates: int
    threshold_: float
    selection_: Selection | None = None
    """All tested thresholds, until the rule is saved"""

    def _check_selective(self) -> None:
        bounds.share(self.error, "error")
        checks.level(self.confidence)
        checks.option(self.of, "of", ("answers", "rows"))
        checks.count(self.candidates, "candidates", most=100_000)

    def _choose(self, scores: Tensor, wrong_above: Tensor, placed_by: Tensor | None = None) -> None:
        """Set the threshold that keeps the promise; ``placed_by``: scores of other rows that place the candidates."""
        n = len(scores)
        self.selection_ = None
        if self.of == "rows":
            least = math.ceil(1 / self.error - 1e-9) - 1
            if n < least:
                raise ValueError(
                    f"`error` {self.error:g} needs at least {least} calibration rows, got {n}; allow more errors or "
                    "bring more rows."
                )
            self.threshold_ = thresholds.risk_control(scores, wrong_above, self.error)
            return
        delta = 1 - self.confidence
        least = thresholds.fewest_rows(self.error, delta)
        if n < least:
            raise ValueError(
                f"`error` {self.error:g} with confidence {self.confidence:g} needs at least {least} calibration rows "
                f"even if no answer is wrong, got {n}; raise `error` (--error), lower `confidence` "
                "(--confidence), or bring more rows."
            )
        self.selection_ = thresholds.most_lenient(
            scores, wrong_above, self.error, self.confidence, self.candidates, placed_by
        )
        chosen = self.selection_.chosen
        self.threshold_ = math.inf if chosen is None else chosen.threshold
        if chosen is None:
            warnings.warn(f"{self.selection_} So this rule answers nothing.", stacklevel=5)

    def guarantee(self) -> str:
        """The promise of the fitted rule."""
        self.check_fitted()
        limit = f"{100 * self.error:g} %"
        if self.of == "answers" and self.threshold_ == math.inf:
            return (
                f"It answers nothing: with confidence {100 * self.confidence:g} %, no threshold passes the test of "
                f"at most {limit} of wrong answers on the calibration rows. Allow more errors (`error`) or less "
                "certainty (`confidence`), or bring more rows: with them a test passes more often, though not always."
            )
        if self.of == "rows":
            return (
                f"At most {limit} of all new rows get a wrong answer, on average over calibration sets, if those rows "
                "are exchangeable with the calibration rows."
            )
        return (
            f"With confidence {100 * self.confidence:g} % over calibration sets, at most {limit} of the answers to new "
            "rows are wrong, if those rows come from the same distribution as the calibration rows."
        )

    @property
    def promised(self) -> Promise | None:
        return Promise("error", self.error) if self.of == "answers" else None

    def _counted(
        self, answered: Tensor, right: Tensor, leaves: Tensor, level: float, costs: tuple[Tensor, Tensor] | None
    ) -> dict[str, Any]:
        """The measures of single answers.

        ``leaves`` is the number of classes that each answer leaves open; ``costs`` are those of the answers, and all.
        """
        n, count = len(answered), int(answered.sum())
        bits = torch.where(answered, information(right, leaves, self.num_classes_), 0.0)
        measures = {
            "answered": bounds.of_share(count, n, level),
            "error": bounds.of_share(count - int((right & answered).sum()), count, level),
            "information": bounds.of_mean(bits, level, 0.0, math.log2(self.num_classes_)),
        }
        if costs is not None:
            paid, possible = costs
            measures["cost"] = bounds.of_mean(paid, level, float(possible.min()), float(possible.max()))
        return measures


class Abstain(Selective, name="abstain", title="Abstain", aliases=("abstention", "reject")):
    """Answer with the winning class if the model is confident enough, and with −1 otherwise.

    Args:
        error: The permitted error rate.
        confidence: Probability, over calibration sets, that the error rate among the answers stays below ``error``.
        score: The confidence score: "probability", "margin", "entropy" or "logit-norm" (``confidence`` module).
        of: "answers" bounds the errors among the answers (``thresholds.select``). "rows" bounds the expected share of
            all rows that are answered wrong, by conformal risk control; ``confidence`` is then not used.
        norm: p of "logit-norm", or "auto" to choose it on a quarter of the rows.
        candidates: Number of thresholds to test.
        seed: Seed for choosing the rows set apart.

    Attributes:
        threshold_: Rows with a higher score are answered; infinite if no threshold keeps the promise.
        norm_: p of "logit-norm"; None if the fallback, the winning probability, is used.
        selection_: All tested thresholds with their bounds; None after ``load``, and with ``of="rows"``.

    Example:
        >>> logits = torch.tensor([[4.0, 0], [1, 0]]).repeat(200, 1)  # a sure row, a doubtful one, and so on
        >>> rule = Abstain(error=0.1).fit(logits, torch.tensor([0, 0, 0, 1]).repeat(100))
        >>> rule.predict(logits[:2])
        tensor([ 0, -1])
    """

    kept = ("threshold_", "norm_", "of_pairs_")
    takes_pairs = True
    norm_: float | None
    of_pairs_: bool = False
    """Whether it was fitted on confidences and whether they were right; it then answers 1, or −1 for no answer"""

    def __init__(
        self,
        error: float = 0.05,
        *,
        confidence: float = 0.95,
        score: str = "probability",
        of: RiskOf = "answers",
        norm: float | Literal["auto"] = "auto",
        candidates: int = CANDIDATES,
        seed: int = 0,
    ) -> None:
        self.error, self.confidence, self.score, self.of = error, confidence, score, of
        self.norm, self.candidates, self.seed = norm, candidates, seed
        self.check_options()

    def check_options(self) -> None:
        self._check_selective()
        self.score = SCORES.canonical(self.score, "score")
        if self.norm != "auto" and not 0 < checks.number(self.norm, "norm") < math.inf:
            raise ValueError(f"`norm` must be above 0 and finite, got {self.norm:g}.")
        checks.count(self.seed, "seed", least=0, most=2**62)

    def takes_logits(self) -> bool:
        return SCORES[self.score].takes_logits

    def reads_logits(self) -> bool:
        """Whether a norm of the logits was chosen rather than the fallback."""
        return self.norm_ is not None

    def restore(self, attributes: Mapping[str, Any]) -> None:
        super().restore({"of_pairs_": False, **attributes})

    def fit_rows(self, rows: Rows, labels: Tensor) -> None:
        self.norm_, self.of_pairs_ = None, rows.are_pairs
        if rows.are_pairs and self.score != "probability":
            raise ValueError(f"`score` must be 'probability' for confidences with booleans, got {self.score!r}.")
        if self.takes_logits():
            if self.norm == "auto":
                chosen_on, rest = set_apart(len(rows), min(MOST_TUNING, int(TUNING * len(rows))), self.seed)
                self.norm_ = self._best_norm(rows.take(chosen_on), labels[chosen_on])
                rows, labels = rows.take(rest), labels[rest]
            else:
                self.norm_ = float(self.norm)
        scores, winners = self._scored(rows)
        is_wrong = winners != labels
        self._choose(scores, torch.where(is_wrong, scores, -math.inf))

    def _best_norm(self, rows: Rows, labels: Tensor) -> float | None:
        """The norm whose scores best rank right answers before wrong ones; None if the winning probability does."""
        if len(rows) == 0:
            return None
        best: tuple[float, float | None] = (math.inf, None)
        for norm in (None, *NORMS):
            self.norm_ = norm
            scores, winners = self._scored(rows)
            worth = area(scores, winners != labels)
            if worth < best[0]:
                best = (worth, norm)
        return best[1]

    def _confidence(self) -> tuple[Callable[[Tensor], Tensor], bool]:
        """The score function for a block, and whether it takes logits."""
        if not self.takes_logits():
            return SCORES[self.score].of, False
        norm = self.norm_
        if norm is None:
            return probability, False
        return (lambda z: logit_norm(z, norm)), True

    def _scored(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """(N,) scores and winning classes."""
        if rows.are_pairs:
            claimed = torch.cat([block[:, 1] for _, block in rows.blocks()]) if len(rows) else torch.empty(0)
            return claimed.to(torch.float64), torch.ones(len(rows), dtype=torch.int64)
        score, of_logits = self._confidence()
        scores = torch.empty(len(rows), dtype=torch.float64)
        winners = torch.empty(len(rows), dtype=torch.int64)
        for place, block in rows.logit_blocks() if of_logits else rows.blocks():
            scores[place] = score(block)
            winners[place] = block.argmax(dim=1)
        return scores, winners

    def answer(self, rows: Rows) -> Tensor:
        scores, winners = self._scored(rows)
        return torch.where(scores > self.threshold_, winners, -1)

    def measure(self, answers: Tensor, rows: Rows, labels: Tensor, level: float, options: Mapping[str, Any]) -> Outcome:
        answered = answers >= 0
        cost = None
        if "costs" in options:
            cost = options["costs"][labels[answered], answers[answered]], options["costs"]
        measures = self._counted(answered, answers == labels, torch.ones(len(rows)), level, cost)
        return Outcome(len(rows), measures, {"threshold": number(self.threshold_), "norm": self.norm_})

    def formula(self) -> Formula:
        if self.of_pairs_:
            raise TypeError("Abstain of confidences is a comparison with threshold_, and no module of logits.")
        score, _ = self._confidence()

        def formula(block: Tensor, threshold: Tensor) -> Tensor:
            winners = block.argmax(dim=1)
            return torch.where(score(block) > threshold, winners, torch.full_like(winners, -1))

        return formula, [torch.tensor(self.threshold_, dtype=torch.float64)]

"""How well confidence ranks right before wrong answers, and known before unknown samples."""

import math
from functools import cached_property
from statistics import NormalDist
from typing import Literal, Self, Unpack

import torch
from torch import Tensor

from softkin._core import checks, randomness
from softkin._core.checks import Array
from softkin.metrics.catalogue import Sureness, metric
from softkin.metrics.intervals import MeanLoss, none_or_all
from softkin.metrics.resampling import Interval, quantiles
from softkin.metrics.scopes import Claims, NoMeaning, Pool, effective, multiplicities
from softkin.metrics.statistics import Statistic, Streamed

EULER = 0.5772156649015329


class RiskCoverage(Streamed):
    """The area under the risk–coverage curve."""

    needs_all = "it ranks all samples by confidence, so it needs them all at once"

    def __init__(self, pool: Pool) -> None:
        self.pool, self.weights = pool, pool.weights
        winning, right = pool.scores, pool.is_hit[:, 0]
        order = winning.argsort(descending=True)
        ordered = winning[order]
        self.order, self.num_samples, self.device = order, len(winning), winning.device
        # The number of rows so far: whole numbers up to N, exactly; sums of weights are no whole numbers.
        self.dtype = torch.float32 if len(winning) < 2**24 and pool.weights is None else torch.float64
        self.wrong = 1 - right[order].to(self.dtype)
        # Groups of equal confidence, the most confident first: before which row each begins and ends. Those without
        # an error add nothing to the sum below.
        last = torch.cat([ordered[1:] != ordered[:-1], ordered.new_ones(1, dtype=torch.bool)])
        end = last.nonzero()[:, 0] + 1
        start = torch.cat([end.new_zeros(1), end[:-1]])
        errors = torch.cat([self.wrong.new_zeros(1), self.wrong]).to(torch.float64).cumsum(dim=0)
        with_errors = errors[end] > errors[start]
        self.start, self.end = start[with_errors], end[with_errors]
        self.is_single = pool.outcomes is None and bool((self.end - self.start == 1).all())
        # H_j − H_i is the sum of 1/(i+1) … 1/j.
        one_over = 1 / torch.arange(1, len(winning) + 1, dtype=torch.float64, device=self.device)
        self.harmonic = torch.cat([one_over.new_zeros(1), one_over.cumsum(dim=0)])

    def value(self) -> float:
        once = torch.ones(1, self.num_samples, device=self.device)
        return min(1.0, float(self.sums(once if self.weights is None else self.weights[None])))

    def sums(self, weights: Tensor) -> Tensor:
        r"""The area itself, (r, 1), as it is not a function of a few sums.

        With A errors and a rows before a group of t rows, e of them wrong, the group adds
        :math:`\sum_{j=1}^{t} (A + e\,j/t)/(a + j)`, its rows in any order, on average. Summed by parts that is
        :math:`E \, H_N + \sum e\,(1 - H_{a+t}) - \sum (e/t)\, a\, (H_{a+t} - H_a)` over the groups, E all errors. Of
        weighted rows a, t and e are sums of weights, and :math:`H_x = \psi(x + 1) + \gamma`.
        """
        w = weights.to(self.dtype).index_select(1, self.order)
        reached = torch.cat([w.new_zeros(len(w), 1), w.cumsum(dim=1)], dim=1)
        before, after = reached.index_select(1, self.start), reached.index_select(1, self.end)
        size = (after - before).to(torch.float64)
        if self.is_single:
            wrong = size
        else:
            errors = torch.cat([w.new_zeros(len(w), 1), (w * self.wrong).cumsum(dim=1)], dim=1)
            wrong = (errors.index_select(1, self.end) - errors.index_select(1, self.start)).to(torch.float64)
        at_start, at_end = (self._harmonic(place) for place in (before, after))
        late = torch.where(size > 0, wrong / size, 0.0) * before * (at_end - at_start)
        total = wrong.sum(dim=1) * (1 + self.harmonic[-1]) - (wrong * at_end + late).sum(dim=1)
        return total[:, None] / self.num_samples

    def _harmonic(self, numbers: Tensor) -> Tensor:
        """H of whole numbers, or of any where rows have weights."""
        if self.weights is None:
            return self.harmonic[numbers.to(torch.int64)]
        return torch.digamma(numbers.to(torch.float64) + 1) + EULER

    def of(self, sums: Tensor) -> Tensor:
        return sums[:, 0]

    def adds_up_with(self, other: Statistic) -> bool:
        return False

    def on(self, pool: Pool) -> Self:
        return type(self)(pool)

    def _shared(self, ordered: Tensor) -> Tensor:
        """(N,) numbers in the order of confidence, those of equal confidence replaced by their mean."""
        scores = self.pool.scores[self.order]
        group = torch.cat([scores.new_zeros(1, dtype=torch.int64), (scores[1:] != scores[:-1]).cumsum(dim=0)])
        size = torch.bincount(group)
        return ordered.new_zeros(len(size)).index_add_(0, group, ordered).div_(size)[group]

    @cached_property
    def _weight(self) -> Tensor:
        """(N,) the weights in the order of confidence."""
        return torch.ones_like(self.wrong, dtype=torch.float64) if self.weights is None else self.weights[self.order]

    def _costs(self) -> Tensor:
        """(N,) what a wrong answer adds to N times the area: Σ w_k / C_k over the ranks k from its own on.

        In the order of confidence; C are the sums of the weights. Without weights it is H_N − H_{j−1} at rank j.
        """
        w = self._weight
        return self._shared((w / w.cumsum(dim=0).clamp(min=1e-300)).flip(0).cumsum(dim=0).flip(0))

    def influence(self) -> Tensor:
        r"""Values (N,) whose mean, by the rows' weights, is the area and has its sampling variance.

        With weights w the area is :math:`\sum_k \frac{w_k}{W} \frac{E_k}{C_k}`, E and C the errors and rows up to k,
        the most confident first. Row j is the area plus N times its derivative in w_j:
        :math:`\frac{E_j}{C_j} + e_j \sum_{k \ge j} \frac{w_k}{C_k} - \sum_{k \ge j} \frac{w_k E_k}{C_k^2}`. Rows of
        equal confidence come in any order, so they share their errors and ranks.
        """
        wrong, w = self.wrong.to(torch.float64), self._weight
        rank = w.cumsum(dim=0).clamp(min=1e-300)
        errors = self._shared(w * wrong).cumsum(dim=0)
        later = self._shared(errors / rank - (w * errors / rank**2).flip(0).cumsum(dim=0).flip(0))
        rows = torch.empty_like(wrong)
        rows[self.order] = later + wrong * self._costs()
        mean = rows.mean() if self.weights is None else (rows * self.weights).mean()
        return rows + (self.value() - mean)

    def ends(self, level: float) -> tuple[float, float]:
        costs, value, w = self._costs(), self.value(), self._weight
        variance = float((w * (self.influence()[self.order] - value).square()).mean())
        excess, winning = costs * self.wrong, self.pool.scores[self.order]
        count = effective(self.weights, self.num_samples)
        low, high = MeanLoss.of(value, variance, excess, costs, winning, w, count).ends(level)
        return low, min(high, 1.0)


@metric(title="area under risk–coverage", short="AURC", shown=["evaluate", "record", "table"])
def aurc(claims: Claims, **_: Unpack[Sureness]) -> RiskCoverage:
    r"""Area under the risk–coverage curve: the error rate among the i most confident samples, averaged over i = 1 … N.

    Lower is better; it is smallest if all errors come last. Samples of equal confidence count as in random order (the
    mean over all their orders), so that the order of the rows does not matter. With ``sample_weight`` rows and errors
    are counted by their weights, scaled to the mean 1.

    References:
        Geifman and El-Yaniv, Selective Classification for Deep Neural Networks, 2017.
    """
    if not claims.exclusive and not claims.are_pairs:
        raise NoMeaning("no label of several wins, so none is the answer")
    return RiskCoverage(claims.pool("prediction"))


class Discrimination(Streamed):
    """The area under the ROC curve of scores that should be higher where the outcome is true."""

    needs_all = "it ranks all samples by confidence, so it needs them all at once"

    def __init__(self, pool: Pool) -> None:
        self.pool, self.weights = pool, pool.weights
        self.num_samples, self.columns, self.device = pool.num_samples, pool.columns, pool.scores.device

    @cached_property
    def _groups(self) -> tuple[Tensor, int]:
        """The group of each score, by ascending value, and the number of groups."""
        values, group = torch.unique(self.pool.scores, return_inverse=True)
        return group, len(values)

    def _masses(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """What is true and what is false at each distinct score, (r, groups) each, for (r, N) weights."""
        group, size = self._groups
        each = weights.to(torch.float64).repeat_interleave(self.columns, dim=1)
        hit = self.pool.is_hit.reshape(-1)
        total = torch.zeros(2, len(weights), size, dtype=torch.float64, device=self.device)
        for line, part in zip(total, (hit, 1 - hit), strict=True):
            line.index_add_(1, group, each * part)
        return total[0], total[1]

    def value(self) -> float:
        return float(_area(*self._masses(self._every_row)))

    @property
    def _every_row(self) -> Tensor:
        """(1, N) every row once, by its weight."""
        return self.weighted(torch.ones(1, self.num_units, dtype=torch.float64, device=self.device))

    def sums(self, weights: Tensor) -> Tensor:
        """The area itself, (r, 1), as it is not a function of a few sums."""
        return _area(*self._masses(weights))[:, None]

    def of(self, sums: Tensor) -> Tensor:
        return sums[:, 0]

    def adds_up_with(self, other: Statistic) -> bool:
        return False

    def on(self, pool: Pool) -> Self:
        return type(self)(pool)

    def influence(self) -> Tensor:
        r"""Values (N,) whose mean is the area A and has its sampling variance (DeLong et al., 1988).

        With o the outcomes, P and Q their sums and those of 1 − o, and V, U the shares of false ones below and of true
        ones above a score (equal ones half), a claim adds
        :math:`A + \frac{N}{P} o (V - A) + \frac{N}{Q} (1-o)(U - A)`.
        """
        true, false = (part[0] for part in self._masses(self._every_row))
        area = float(_area(true[None], false[None]))
        total_true, total_false = true.sum(), false.sum()
        group, _ = self._groups
        below = ((false.cumsum(dim=0) - false / 2) / total_false)[group]
        above = (1 - (true.cumsum(dim=0) - true / 2) / total_true)[group]
        hit, w = self.pool.is_hit.reshape(-1), self.pool.score_weights
        terms = hit * (below - area) / total_true + (1 - hit) * (above - area) / total_false
        rows = (terms if w is None else terms * w).view(self.num_samples, self.columns).sum(dim=1)
        return area + self.num_samples * rows

    def ends(self, level: float) -> tuple[float, float] | None:
        value = self.value()
        if math.isnan(value):
            return math.nan, math.nan
        hits = self.pool.is_hit.reshape(-1)
        fewest = max(1, int(min(float(hits.sum()), float((1 - hits).sum()))))
        least, most = none_or_all(value, fewest, level)
        if value in (0.0, 1.0):
            return least, most
        return _on_logits(value, float((self.influence() - value).square().mean() / self.num_samples) ** 0.5, level)


def _on_logits(value: float, error: float, level: float) -> tuple[float, float]:
    """The normal interval of a share with this standard error, on the logit scale."""
    centre = math.log(value / (1 - value))
    reach = NormalDist().inv_cdf((1 + level) / 2) * error / (value * (1 - value))
    low, high = (1 / (1 + math.exp(-(centre + sign * reach))) for sign in (-1, 1))
    return low, high


@metric(
    title="AUROC of confidence",
    short="AUROC",
    percent=False,
    larger_is_better=True,
    at_most=1.0,
    shown=["evaluate"],
    about="how well confidence tells right answers from wrong ones; 0.5 is chance, 1 perfect",
)
def confidence_auroc(claims: Claims, **_: Unpack[Sureness]) -> Discrimination:
    """The probability that a right answer has a higher confidence than a wrong one; ties count half.

    Its interval is DeLong's, on the logit scale. NaN if all answers are right, or all wrong. Of several labels per
    sample it is the area of all claims together (micro).

    Example:
        >>> confidence_auroc(torch.tensor([0.9, 0.8, 0.4, 0.4, 0.1]), torch.tensor([True, True, True, False, False]))
        0.9166666666666666

    References:
        DeLong et al., Comparing the Areas under Two or More Correlated Receiver Operating Characteristic Curves, 1988.
    """
    return Discrimination(claims.pool("prediction"))


class MacroDiscrimination(Streamed):
    """The mean over labels of the area under the ROC curve of each."""

    needs_all = Discrimination.needs_all

    def __init__(self, claims: Claims) -> None:
        p, y, self.weights = claims.probabilities, claims.labels, claims.weights
        self.num_samples, self.device = len(p), p.device
        columns = (Claims(p[:, [k]], y[:, [k]], claims.weights, exclusive=False) for k in range(p.shape[1]))
        every = [Discrimination(column.pool("prediction")) for column in columns]
        self.labels = [one for one in every if not math.isnan(one.value())]
        self.left_out = len(every) - len(self.labels)

    def caveat(self) -> str | None:
        if self.left_out == 0:
            return None
        return f"{self.left_out} labels that are always or never true are left out"

    def value(self) -> float:
        return math.nan if not self.labels else sum(one.value() for one in self.labels) / len(self.labels)

    def sums(self, weights: Tensor) -> Tensor:
        """The area itself, (r, 1), as it is not a function of a few sums."""
        return torch.stack([one.sums(weights) for one in self.labels]).nanmean(dim=0)

    def of(self, sums: Tensor) -> Tensor:
        return sums[:, 0]

    def adds_up_with(self, other: Statistic) -> bool:
        return False

    def ends(self, level: float) -> tuple[float, float] | None:
        value = self.value()
        if math.isnan(value):
            return math.nan, math.nan
        if value in (0.0, 1.0):
            parts = [one.ends(level) or (value, value) for one in self.labels]
            return min(low for low, _ in parts), max(high for _, high in parts)
        rows = torch.stack([one.influence() for one in self.labels]).mean(dim=0)
        return _on_logits(value, float((rows - value).square().mean() / self.num_samples) ** 0.5, level)


@metric(
    title="AUROC, mean of labels",
    short="AUROC, macro",
    percent=False,
    larger_is_better=True,
    at_most=1.0,
    several_labels=True,
    about="how well the score of each label ranks its samples first; 0.5 is chance, 1 perfect",
)
def macro_auroc(claims: Claims, **_: Unpack[Sureness]) -> MacroDiscrimination:
    """The mean over several labels per sample of the area under the ROC curve of each label.

    As scikit-learn's ``roc_auc_score(average="macro")``, but labels that are always or never true are left out. Its
    interval is DeLong's of the mean, on the logit scale.

    Example:
        >>> scores = torch.tensor([[0.9, 0.2], [0.4, 0.7], [0.1, 0.6]])
        >>> macro_auroc(scores, torch.tensor([[1, 0], [0, 1], [0, 0]]))
        1.0
    """
    if claims.exclusive or claims.are_pairs:
        raise NoMeaning("it is for several labels per sample, each with a score of its own")
    return MacroDiscrimination(claims)


@metric(
    title="AUC of class 1",
    short="AUC",
    percent=False,
    larger_is_better=True,
    at_most=1.0,
    least_classes=2,
    most_classes=2,
    shown=["evaluate"],
    about="how well the score of class 1 ranks its samples first; 0.5 is chance, 1 perfect",
)
def auc(claims: Claims, **_: Unpack[Sureness]) -> Discrimination:
    """The area under the ROC curve of a binary model: that a sample of class 1 scores above one of class 0.

    As scikit-learn's ``roc_auc_score``; its interval is DeLong's, on the logit scale. NaN if one class is absent.

    Example:
        >>> auc(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
        0.75
    """
    if not claims.exclusive or claims.num_classes != 2:
        there = f"there are {claims.num_classes}" if claims.exclusive else f"these are {claims.kind}"
        raise NoMeaning(f"it needs two classes, and {there}")
    two, outcomes = claims.probabilities, claims.labels
    first = outcomes[:, 1] if outcomes.ndim == 2 else (outcomes == 1).to(torch.float64)
    pairs = Claims(two[:, 1:].contiguous(), first[:, None], claims.weights, exclusive=False)
    return Discrimination(pairs.pool("prediction"))


def _grouped(known: Array, unknown: Array) -> tuple[Tensor, Tensor, Tensor]:
    """The group of each known and of each unknown score, by ascending value, and the number of groups."""
    a, b = checks.scores(known, "known"), checks.scores(unknown, "unknown")
    _, group = torch.unique(torch.cat([a, b.to(a.device)]), return_inverse=True)
    return group[: len(a)], group[len(a) :], group.max() + 1


def _counts(group: Tensor, num_groups: int, weights: Tensor) -> Tensor:
    total = torch.zeros(len(weights), num_groups, dtype=torch.float64, device=group.device)
    return total.scatter_add_(1, group.expand(len(weights), -1), weights.to(torch.float64))


def _area(known: Tensor, unknown: Tensor) -> Tensor:
    below = unknown.cumsum(dim=1) - unknown
    pairs = known.sum(dim=1) * unknown.sum(dim=1)
    return (known * (below + unknown / 2)).sum(dim=1) / pairs


def _accepted(known: Tensor, unknown: Tensor) -> Tensor:
    # The highest value at or above which 95 % of the known scores lie.
    known, unknown = known.flip(1).cumsum(dim=1), unknown.flip(1).cumsum(dim=1)
    enough = known >= 0.95 * known[:, -1:] - 1e-9
    first = enough.to(torch.int8).argmax(dim=1, keepdim=True)
    return (unknown.gather(1, first) / unknown[:, -1:])[:, 0]


def _two_samples(
    which: Literal["area", "accepted"],
    known: Array,
    unknown: Array,
    confidence: float | None,
    resamples: int,
    seed: int,
) -> float:
    of = _area if which == "area" else _accepted
    a, b, groups = _grouped(known, unknown)
    num_groups = int(groups)
    counts = [_counts(group, num_groups, torch.ones(1, len(group), device=group.device)) for group in (a, b)]
    value = float(of(*counts))
    if confidence is None:
        return value
    level = checks.level(confidence)
    checks.count(resamples, "resamples", least=100)
    generator = randomness.generator(seed)
    values = []
    for start in range(0, resamples, 50):
        times = min(50, resamples - start)
        lines = [
            torch.cat(
                [_counts(group, num_groups, w.to(group.device)) for w in multiplicities(len(group), times, generator)]
            )
            for group in (a, b)
        ]
        values.append(of(*lines).cpu())
    low, high = quantiles(torch.cat(values), (1 - level) / 2)
    # This many pairs of a known and an unknown sample can be formed without using a sample twice.
    least, most = none_or_all(value, min(len(a), len(b)) if which == "area" else len(b), level)
    return Interval(value, min(low, least), max(high, most), level)


def auroc(
    known: Array, unknown: Array, *, confidence: float | None = None, resamples: int = 1000, seed: int = 0
) -> float:
    """The probability that a known sample scores above an unknown one; ties count half. 0.5 is chance, 1 perfect.

    Args:
        known: (N,) scores, such as the winning probability, of samples from the classes the model knows.
        unknown: (M,) scores of samples from elsewhere.
        confidence: A level such as 0.95 for an ``Interval``; both sets are resampled.
        resamples: The number of resamples for the interval.
        seed: The seed of the resampling.

    Example:
        >>> auroc(torch.tensor([0.9, 0.8, 0.4]), torch.tensor([0.4, 0.1]))
        0.9166666666666666
    """
    return _two_samples("area", known, unknown, confidence, resamples, seed)


def fpr_at_95(
    known: Array, unknown: Array, *, confidence: float | None = None, resamples: int = 1000, seed: int = 0
) -> float:
    """The share of unknown samples accepted at the highest threshold that accepts 95 % of the known; lower is better.

    A sample is accepted if its score is at least the threshold. Arguments as for ``auroc``.
    """
    return _two_samples("accepted", known, unknown, confidence, resamples, seed)

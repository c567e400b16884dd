"""Prediction sets, which contain the true class as often as promised."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.named_labels import labelled, numbered
from softkin.calibrators.fitted import Formula
from softkin.decisions import bounds, set_scores
from softkin.decisions.rule import SUPERCLASSES, Outcome, Promise, Rows, Rule, pseudo_uniforms, set_apart
from softkin.decisions.set_scores import SCORES, SLACK, Scoring
from softkin.metrics import Interval
from softkin.similarity import SparseRows

ROUNDING = 1e-5  # above the relative error of a float32 probability, 4.1e-6: values nearer to a limit are recomputed
TUNING = 0.25  # share of the rows that choose the weight of the penalty, up to MOST_TUNING
MOST_TUNING = 2000


class PredictionSets(Rule, name="sets", title="Sets", aliases=("prediction-sets",)):
    r"""Split conformal prediction sets: on average, per class, or per group of classes, with optional class similarity.

    A class is in the set of a row if its score s (``set_scores``) is at most the limit q̂, the ⌈(n+1)·coverage⌉-th
    smallest score of the true classes of n calibration rows. If those rows and the new one are exchangeable, the set
    contains the true class with probability at least ``coverage``, and at most ``coverage`` + 1/(n+1) if scores do not
    tie. That is an average over calibration sets and rows: for one calibration set, the share of covered rows follows a
    beta distribution with a standard deviation of about √(coverage (1−coverage) / n).

    ``conditional="class"`` gives each class its own limit, from its own rows, and the promise holds for each class.
    With groups it holds for each group, which takes fewer rows. This is Mondrian conformal prediction. Groups of rows
    instead, such as sites, are given to ``fit`` and ``predict`` as ``groups``. Each group has limits of its own, and
    the promise holds for each. Both together promise it for each class within each group.

    If new rows come from another distribution Q than the calibration rows' P, and labels given x are alike, ``weights``
    with the density ratios dQ/dP of all rows keep the promise (``bounds.weighted_limits``). The limit of a row then
    also depends on its own weight. A row that weighs so much that no score suffices gets all classes. The promise is as
    good as the ratios are.

    With ``similarity``, the score becomes s(k) + λ Σ_j p_j v_jk, where v_jk is the unlikeness of class k to class j
    (``kin.unlikeness``), so that classes unlike the probable ones need a better score. λ is the weight with the
    smallest sets on separate rows (a quarter of the rows, at most 2,000), or 0 if none makes them significantly
    smaller. The limit is then calibrated on the other rows, so the promise is unchanged. This pays for APS; LAC's sets
    already have the smallest possible average size.

    Args:
        coverage: How often the set must contain the true class.
        score: "lac", "aps", "raps", or "ordinal" for ordered classes, whose sets have no gaps.
        conditional: None for one limit over all rows, "class", or (K,) group 0 … G−1 of each class.
        similarity: (K, K), such as that of ``softkin.similarity``.
        weight: λ of the penalty, or "auto" to choose it.
        randomised: Whether APS and RAPS count a random part of each class, from one uniform number per row; LAC ignores
            it. The number follows from the row's values and ``seed``, so a row has one set, in any batch. Without
            randomisation, coverage is higher than requested and sets are larger.
        penalty: λ of RAPS.
        k_reg: Number of ranks without RAPS's penalty.
        allow_empty: Whether a set may be empty. If not, every set contains the winning class, which raises coverage.
        seed: Seed for the rows set apart and for the uniform numbers.

    Attributes:
        limits_: (K,) limit of each class, or (G, K) for groups of rows; with weights those of a row of weight 0.
        row_groups_: The names of the groups of rows, or None.
        ranked_: (2, n) sorted scores of the calibration rows and their weights, if these were given, or None.
        weight_: λ of the penalty.
        updates_: The number of rows that ``update`` has learnt from.

    Example:
        >>> logits = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
        >>> labels = (3 * logits + torch.randn(200, 4, generator=torch.Generator().manual_seed(1))).argmax(1)
        >>> rule = PredictionSets(coverage=0.8).fit(logits[:100], labels[:100])
        >>> rule.predict(logits[100:]).sum(1).float().mean()
        tensor(1.2300)

    References:
        As in ``set_scores``; Vovk, Conditional Validity of Inductive Conformal Predictors, 2012; Ding et al.,
        Class-Conditional Conformal Prediction with Many Classes, 2023.
    """

    kept = ("limits_", "weight_", "updates_", "row_groups_", "ranked_")
    limits_: Tensor
    row_groups_: list[str] | None
    ranked_: Tensor | None
    weight_: float
    updates_: int

    def __init__(
        self,
        coverage: float = 0.9,
        score: str = "lac",
        *,
        conditional: Literal["class"] | Array | None = None,
        similarity: Array | SparseRows | None = None,
        weight: float | Literal["auto"] = "auto",
        randomised: bool = True,
        penalty: float = 0.01,
        k_reg: int = 5,
        allow_empty: bool = True,
        seed: int = 0,
    ) -> None:
        self.coverage, self.score, self.conditional = coverage, score, conditional
        self.similarity, self.weight = similarity, weight
        self.randomised, self.penalty, self.k_reg = randomised, penalty, k_reg
        self.allow_empty, self.seed = allow_empty, seed
        self.check_options()

    def check_options(self) -> None:
        bounds.share(self.coverage, "coverage", 0.9)
        self.score = SCORES.canonical(self.score, "score")
        if isinstance(self.conditional, str):
            checks.option(self.conditional, "conditional", ("class",))
        elif self.conditional is not None:
            self.conditional = checks.as_tensor(self.conditional, "conditional").cpu()
        if self.similarity is not None:
            dense = self.similarity.dense() if isinstance(self.similarity, SparseRows) else self.similarity
            self.similarity = checks.square(dense, "similarity")
            set_scores.unlikeness(self.similarity)
        if SCORES[self.score].ordinal and (self.conditional is not None or self.similarity is not None):
            what = "similarity" if self.conditional is None else "conditional"
            raise ValueError(f"`{what}` must be left out with score='ordinal': sets without gaps need one limit.")
        if self.weight != "auto":
            checks.at_least_zero(self.weight, "weight")
        checks.at_least_zero(self.penalty, "penalty")
        checks.count(self.k_reg, "k_reg", least=0)
        checks.count(self.seed, "seed", least=0, most=2**62)

    @property
    def scoring(self) -> Scoring:
        """The score with its parameters."""
        return Scoring(SCORES[self.score], self.penalty, self.k_reg)

    @property
    def is_random(self) -> bool:
        """Whether the sets also depend on uniform numbers."""
        return self.randomised and SCORES[self.score].cumulates

    # Fitting

    @torch.no_grad()
    def fit(
        self,
        logits: Array,
        labels: Array,
        *,
        from_probabilities: bool | None = None,
        sample_ids: Sequence[Any] | Array | None = None,
        class_names: Sequence[str] | None = None,
        groups: Sequence[Any] | Array | None = None,
        weights: Array | None = None,
        uniforms: Array | None = None,
    ) -> Self:
        """Fit as ``Rule.fit`` does; ``uniforms`` (N,) replaces the uniform numbers of randomised sets."""
        labels, logits, sample_ids, groups, weights, uniforms = labelled(
            labels, logits, sample_ids, groups, weights, uniforms
        )
        labels, class_names = numbered(labels, logits, class_names)
        rows = self._randomised(Rows.of(logits, from_probabilities, least=1), uniforms)
        rows = self.beside(rows, groups, weights, new=False)
        return self.fit_checked(rows, labels, sample_ids=sample_ids, class_names=class_names)

    def beside(self, rows: Rows, groups: Sequence[Any] | Array | None, weights: Array | None, *, new: bool) -> Rows:
        if new:
            for name, given, known in (
                ("groups", groups, self.row_groups_ is not None),
                ("weights", weights, self.ranked_ is not None),
            ):
                if (given is not None) != known:
                    must = "be given" if known else "be left out"
                    raise ValueError(
                        f"`{name}` must {must}: the rule was fitted {'with' if known else 'without'} them."
                    )
        elif weights is not None and (groups is not None or self.conditional is not None):
            raise ValueError("`weights` must be left out with groups, or with `conditional`: they need one limit.")
        if groups is not None:
            rows = replace(rows, groups=_names(groups, len(rows)))
        if weights is not None:
            rows = replace(rows, weights=checks.weights(weights, len(rows), "weights").cpu())
        return rows

    def _group_numbers(self, rows: Rows) -> Tensor:
        """(N,) the number of each row's group among those of the fit; 0 where there are none."""
        if self.row_groups_ is None:
            return torch.zeros(len(rows), dtype=torch.int64)
        place = {name: number for number, name in enumerate(self.row_groups_)}
        names = [] if rows.groups is None else rows.groups.tolist()
        unknown = next((name for name in names if name not in place), None)
        if unknown is not None:
            known = ", ".join(self.row_groups_[:5]) + (" …" if len(place) > 5 else "")
            raise ValueError(f"`groups` must be those of the fit, {known}, got {unknown!r}: it has no limit.")
        return torch.tensor([place[name] for name in names], dtype=torch.int64)

    def _randomised(self, rows: Rows, uniforms: Array | None) -> Rows:
        """The rows with their uniform numbers, if the sets are randomised.

        One function of a row gives its number in calibration and in prediction, so scores are exchangeable if rows are.
        """
        if not self.is_random:
            if uniforms is not None:
                raise ValueError("`uniforms` must be left out: these sets are not randomised.")
            return rows
        num_samples = len(rows)
        if uniforms is None:
            return replace(rows, uniforms=pseudo_uniforms(rows.values, self.seed))
        u = checks.scores(uniforms, "uniforms").cpu() if num_samples else torch.zeros(0, dtype=torch.float64)
        if len(u) != num_samples or (num_samples and not 0 <= float(u.min()) <= float(u.max()) <= 1):
            raise ValueError(f"`uniforms` must be {num_samples} numbers from 0 to 1, one for each row.")
        return replace(rows, uniforms=u)

    def _groups(self) -> Tensor:
        """(K,) group of each class; each group has one limit."""
        if self.conditional is None:
            return torch.zeros(self.num_classes_, dtype=torch.int64)
        if isinstance(self.conditional, str):
            return torch.arange(self.num_classes_)
        return checks.group_numbers(self.conditional, self.num_classes_, "conditional")

    def fit_rows(self, rows: Rows, labels: Tensor) -> None:
        groups = self._groups()
        unlike = None
        self.weight_, self.updates_, self.ranked_ = 0.0, 0, None
        self.row_groups_ = None if rows.groups is None else np.unique(rows.groups).tolist()
        if self.similarity is not None:
            if len(self.similarity) != self.num_classes_:
                raise ValueError(
                    f"`similarity` covers {len(self.similarity)} classes but the logits have {self.num_classes_}; "
                    "is it for another data set?"
                )
            unlike = set_scores.unlikeness(self.similarity)
            if self.weight == "auto":
                chosen_on, rest = set_apart(len(rows), min(MOST_TUNING, int(TUNING * len(rows))), self.seed)
                self._require(len(rest), "all rows" if self.conditional is None else "the rows", len(rows))
                self.weight_ = self._best_weight(rows.take(chosen_on), labels[chosen_on], unlike)
                rows, labels = rows.take(rest), labels[rest]
            else:
                self.weight_ = float(self.weight)
        scores = self._own_scores(rows, labels, unlike)
        is_rough = self._can_be_rough(rows, unlike)
        if rows.weights is not None:
            self._rank(scores, rows.weights)
            return
        per_row_group = int(groups.max()) + 1
        limits = torch.empty(per_row_group * len(self.row_groups_ or [""]), dtype=torch.float64)
        group = groups[labels] + per_row_group * self._group_numbers(rows)
        sizes = torch.bincount(group, minlength=len(limits))
        smallest = int(sizes.argmin())
        self._require(int(sizes[smallest]), self._called(smallest), len(rows))
        for place, inside in enumerate(group.argsort(stable=True).split(sizes.tolist())):
            limits[place] = bounds.conformal_limit(scores[inside], self.coverage)
            if is_rough:  # rows further away keep their side of the limit, so its rank is that of exact scores
                near = inside[(scores[inside] - limits[place]).abs() <= 10 * _rounding(1 - limits[place])]
                for part, p in rows.exact_blocks(near):
                    scores[part] = self.scoring.own(p, labels[part], None)
                limits[place] = bounds.conformal_limit(scores[inside], self.coverage)
        self.limits_ = limits[groups] if self.row_groups_ is None else limits.view(-1, per_row_group)[:, groups]
        if self.row_groups_ is not None:
            return
        is_full = self.limits_ >= 1 - SLACK + self._largest_penalty()
        if unlike is None and bool(is_full.any()):
            at_limit = (is_full[labels] & (scores >= self.limits_[labels] - SLACK)).nonzero()[:, 0]
            warnings.warn(self._why_full(is_full, rows.take(at_limit), labels[at_limit]), stacklevel=5)

    def _rank(self, scores: Tensor, weights: Tensor) -> None:
        """Keep the scores in their order, with their weights."""
        order = scores.argsort(stable=True)
        self.ranked_ = torch.stack([scores[order], weights[order]])
        effective = float(weights.sum().square() / weights.square().sum())
        if effective < bounds.fewest_rows(self.coverage):
            warnings.warn(
                f"the weighted rows say as much as {effective:.1f} of equal weight, and coverage {self.coverage:g} "
                f"needs at least {bounds.fewest_rows(self.coverage)}: most sets hold all classes.",
                stacklevel=6,
            )
        none = torch.zeros(1, dtype=torch.float64)
        limit = bounds.weighted_limits(self.ranked_[0], self.ranked_[1], none, self.coverage)
        self.limits_ = limit.expand(self.num_classes_).clone()

    def _why_full(self, is_full: Tensor, rows: Rows, labels: Tensor) -> str:
        """The sentence about classes that are in every set; ``rows`` are those at their limit, the largest score."""
        first, *others = is_full.nonzero()[:, 0].tolist()
        in_all = f"all sets hold class {first}" + (f" and {len(others)} more" if others else "")
        what = f"sets hold all {self.num_classes_} classes" if bool(is_full.all()) else in_all
        own = torch.cat([p.gather(1, labels[place][:, None])[:, 0] for place, p in rows.blocks()])
        if float(((own > SLACK) & (own < 1 - SLACK)).double().mean()) > 0.5:
            return (
                f"{what}, because the true class of many rows is the least probable one, and sets that are not "
                "randomised count all of it: use randomised=True, or the score lac."
            )
        return (
            f"{what}, because the true classes of many rows have a probability of 0 to rounding: the outputs are "
            "saturated; calibrate them first."
        )

    def _largest_penalty(self) -> float:
        """RAPS's penalty of the last class."""
        return self.penalty * max(0, self.num_classes_ - self.k_reg) if SCORES[self.score].penalised else 0.0

    def _called(self, group: int) -> str:
        if self.row_groups_ is not None:
            own, cell = divmod(group, int(self._groups().max()) + 1)
            within = "" if self.conditional is None else f" of class group {cell}"
            return f"the group of rows {self.row_groups_[own]!r}{within}"
        if self.conditional is None:
            return "all rows"
        return f"class {group}" if isinstance(self.conditional, str) else f"group {group}"

    def _require(self, count: int, what: str, total: int) -> None:
        least = bounds.fewest_rows(self.coverage)
        if count >= least:
            return
        one_limit = self.conditional is None and self.row_groups_ is None
        if one_limit:
            have = f"got {count}"
            if total > count:
                have += f" of {total} after those that choose the weight"
            remedy = "lower the coverage or bring more rows"
        else:
            have = f"but {what} has {count or 'none'}"
            remedy = "join rare classes with similar ones (decisions.kin_groups), or lower the coverage"
            if self.row_groups_ is not None:
                remedy = "join small groups, or lower the coverage"
        raise ValueError(
            f"`coverage` {self.coverage:g} needs at least {least} calibration rows"
            f"{'' if one_limit else ' for each limit'}, {have}; {remedy}."
        )

    def _can_be_rough(self, rows: Rows, unlike: Tensor | None) -> bool:
        """Whether float32 suffices for rows that are not near a limit: true for 1 − p of float32 logits."""
        plain = rows.groups is None and rows.weights is None
        return plain and unlike is None and not SCORES[self.score].cumulates and rows.are_float32

    def _own_scores(self, rows: Rows, labels: Tensor, unlike: Tensor | None) -> Tensor:
        """(N,) scores of the true classes, in float32 if that suffices."""
        scores = torch.empty(len(rows), dtype=torch.float64)
        if self._can_be_rough(rows, unlike):
            for place, p in rows.rough_blocks():
                scores[place] = 1 - p.gather(1, labels[place][:, None])[:, 0].double()
            return scores
        for place, p in rows.blocks():
            y = labels[place]
            u = None if rows.uniforms is None else rows.uniforms[place]
            scores[place] = self.scoring.own(p, y, u)
            if unlike is not None and self.weight_:
                scores[place] += self.weight_ * (p * unlike.T[y]).sum(dim=1)
        return scores

    def _best_weight(self, rows: Rows, labels: Tensor, unlike: Tensor) -> float:
        """The weight with the smallest sets at this coverage, or 0 if none makes them significantly smaller.

        Significant means by two standard errors of the difference in size. Each half of the rows is measured with the
        limit from the other half.
        """
        halves = torch.arange(len(rows)) % 2
        if len(rows) < 2 * bounds.fewest_rows(self.coverage) + 2:
            return 0.0
        blocks = [
            (
                self.scoring.all(p, None if rows.uniforms is None else rows.uniforms[place]),
                set_scores.penalties(p, unlike),
            )
            for place, p in rows.blocks()
        ]
        scores, extra = (torch.cat(parts) for parts in zip(*blocks, strict=True))
        best, plain = (math.inf, 0.0), torch.empty(0)
        for weight in set_scores.WEIGHTS:
            total = scores + weight * extra
            own = total.gather(1, labels[:, None])[:, 0]
            limits = torch.stack([bounds.conformal_limit(own[halves == other], self.coverage) for other in (1, 0)])
            size = (total <= limits[halves][:, None]).sum(dim=1).double()
            plain = size if weight == 0 else plain
            gain = plain - size
            if weight == 0 or float(gain.mean()) > 2 * float(gain.std()) / len(gain) ** 0.5:
                best = min(best, (float(size.mean()), weight))
        return best[1]

    # Predicting

    @torch.no_grad()
    def predict(
        self,
        logits: Array,
        *,
        from_probabilities: bool | None = None,
        sample_ids: Sequence[Any] | Array | None = None,
        class_names: Sequence[str] | None = None,
        groups: Sequence[Any] | Array | None = None,
        weights: Array | None = None,
        uniforms: Array | None = None,
    ) -> Any:
        """(N, K) booleans: whether each class is in the row's set.

        ``groups`` and ``weights`` (N,) are those of these rows, if the fit had such. ``uniforms`` (N,) replaces the
        uniform numbers of randomised sets, which otherwise follow from each row's values and ``seed``.
        """
        rows = self.new_rows(logits, from_probabilities, sample_ids, class_names)
        rows = self.beside(rows, groups, weights, new=True)
        return checks.like(self.answer(self._randomised(rows, uniforms)), logits)

    def answers(self, rows: Rows) -> Tensor:
        return self.answer(self._randomised(rows, None))

    def _penalty_matrix(self) -> Tensor | None:
        """λ times the unlikeness, or None if there is no similarity or λ is 0."""
        return (
            None
            if self.similarity is None or not self.weight_
            else self.weight_ * set_scores.unlikeness(self.similarity)
        )

    def answer(self, rows: Rows) -> Tensor:
        members = torch.empty(rows.values.shape, dtype=torch.bool)
        unlike = self._penalty_matrix()
        if self._can_be_rough(rows, unlike) and self.allow_empty:
            return self._predict_roughly(rows, members)
        limits = self._limits_of(rows)
        for place, p in rows.blocks():
            u = None if rows.uniforms is None else rows.uniforms[place]
            extra = None if unlike is None else p @ unlike
            block = self.scoring.within(p, u, self.limits_ if limits is None else limits[place], extra)
            if not self.allow_empty:
                block.scatter_(1, p.argmax(dim=1, keepdim=True), True)
            members[place] = block
        return members

    def _limits_of(self, rows: Rows) -> Tensor | None:
        """(N, K) the limits of each row, if rows have limits of their own."""
        if self.ranked_ is not None:
            own = torch.ones(len(rows), dtype=torch.float64) if rows.weights is None else rows.weights
            limits = bounds.weighted_limits(self.ranked_[0], self.ranked_[1], own, self.coverage)
            return limits[:, None].expand(-1, self.num_classes_)
        return None if self.row_groups_ is None else self.limits_[self._group_numbers(rows)]

    def restore(self, attributes: Mapping[str, Any]) -> None:
        super().restore({"row_groups_": None, "ranked_": None} | dict(attributes))  # files from before these existed

    def try_out(self) -> None:
        rows = Rows(torch.eye(3, self.num_classes_, dtype=torch.float64), False)
        if self.row_groups_ is not None:
            if self.limits_.shape != (len(self.row_groups_), self.num_classes_):
                raise ValueError("its limits must be as many as its groups of rows")
            rows = replace(rows, groups=_names([self.row_groups_[0]] * 3, 3))
        self.answers(rows)
        _ = repr(self), self.guarantee()

    def _predict_roughly(self, rows: Rows, members: Tensor) -> Tensor:
        """LAC's sets in float32, except for rows with a class near its limit."""
        least = 1 - self.limits_
        ends = [(least + sign * _rounding(least)).float() for sign in (1, -1)]
        has_one_limit = bool((least == least[0]).all())  # comparing with a number is faster than with a row
        sure, possible = (float(end[0]) if has_one_limit else end for end in ends)
        doubtful = []
        for place, p in rows.rough_blocks():
            inside = torch.ge(p, sure, out=members[place])
            outer = torch.ge(p, possible)
            if not np.array_equal(outer, inside):  # faster than torch.equal
                is_near = (outer != inside).any(dim=1)
                doubtful.append(is_near.nonzero()[:, 0] + place.start)
        for part, p in rows.exact_blocks(torch.cat(doubtful)) if doubtful else ():
            members[part] = self.scoring.within(p, None, self.limits_, None)
        return members

    @torch.no_grad()
    def update(
        self, logits: Array, labels: Array, *, from_probabilities: bool | None = None, step: float = 0.05
    ) -> Any:
        r"""Answer rows whose label becomes known afterwards, and learn from each; rows need not be exchangeable.

        The set of a row is made with the limit q before its label is known. Then, with e = 1 if the true class scores
        above the limit and 0 if not, q grows by step · (e − (1 − coverage)). Whatever the rows are, and however they
        change, the share of errors among T rows differs from 1 − coverage by at most
        :math:`(B + \mathrm{step}) / (\mathrm{step} \cdot T)`, where B is the largest possible score (1, plus
        penalties). With limits by class or group, this holds for the T rows of each (Angelopoulos, Candès and
        Tibshirani, Conformal PID Control for Time Series Prediction, 2023, Proposition 1).

        Args:
            logits: (N, K) rows in the order of time, or one row (K,).
            labels: (N,) their classes, or one.
            from_probabilities: Whether ``logits`` are probabilities; None: no, with a warning if they look so.
            step: How fast the limit follows. Larger steps follow changes sooner, and sets vary more.

        Returns:
            (N, K) booleans, or (K,): the sets, each from before its label was known.

        Example:
            >>> logits = torch.randn(2000, 4, generator=torch.Generator().manual_seed(0))
            >>> labels = (3 * logits + torch.randn(2000, 4, generator=torch.Generator().manual_seed(1))).argmax(1)
            >>> rule = PredictionSets(coverage=0.9).fit(logits[:100], labels[:100])
            >>> harder = logits[100:] + torch.randn(1900, 4, generator=torch.Generator().manual_seed(2))
            >>> sets = rule.predict(harder), rule.update(harder, labels[100:])
            >>> [round(float(members.gather(1, labels[100:, None]).float().mean()), 2) for members in sets]
            [0.7, 0.9]
        """
        if not 0 < checks.number(step, "step") < math.inf:
            raise ValueError(f"`step` must be above 0, such as 0.05, got {step}.")
        self.check_fitted()
        self._require_fixed("update")
        given = checks.as_tensor(logits, "logits")
        rows = self._randomised(
            self.new_rows(given[None] if given.ndim == 1 else given, from_probabilities, None), None
        )
        y = checks.as_tensor(labels, "labels").reshape(-1)
        y = checks.class_labels(y, num_samples=len(rows), num_classes=rows.num_classes).cpu()
        groups, unlike = self._groups(), self._penalty_matrix()
        members = torch.empty(rows.values.shape, dtype=torch.bool)
        limits = self.limits_.clone()
        for place, p in rows.blocks():
            u = None if rows.uniforms is None else rows.uniforms[place]
            scores = self.scoring.all(p, u)
            if unlike is not None:
                scores += p @ unlike
            for row, k, own in zip(scores, y[place].tolist(), members[place], strict=True):
                own[:] = row <= limits + SLACK
                error = not own[k]
                limits[groups == groups[k]] += step * (error - (1 - self.coverage))
            if not self.allow_empty:
                members[place].scatter_(1, p.argmax(dim=1, keepdim=True), True)
        self.limits_, self.updates_ = limits, self.updates_ + len(rows)
        return checks.like(members[0] if given.ndim == 1 else members, logits)

    def _require_fixed(self, what: str) -> None:
        """Refuse what needs limits that are the same for all rows."""
        if self.row_groups_ is not None or self.ranked_ is not None:
            beside = "weights" if self.row_groups_ is None else "groups of rows"
            raise ValueError(f"`{what}` takes no {beside}, and the rule was fitted with them: fit one without.")

    def guarantee(self) -> str:
        """The promise of the fitted sets."""
        self.check_fitted()
        if self.updates_:
            return (
                f"The sets of `update` missed the true class of {100 - 100 * self.coverage:g} % of the rows, up to a "
                "difference that falls as 1 over their number, whatever the rows were; `predict` uses the last limit."
            )
        whom = {type(None): "", str: " of each class"}.get(type(self.conditional), " of each group of classes")
        if self.ranked_ is not None:
            return (
                f"A set holds the true class of at least {100 * self.coverage:g} % of new rows, on average over "
                "calibration sets, if the weights are the density ratios of new rows to calibration rows, and labels "
                "depend on the inputs in the same way in both."
            )
        if self.row_groups_ is not None:
            whom = f"{whom}{' in' if whom else ' of'} each group of rows"
        return (
            f"A set holds the true class of at least {100 * self.coverage:g} % of new rows{whom}, on average over "
            "calibration sets, if those rows are exchangeable with the calibration rows."
        )

    @property
    def promised(self) -> Promise | None:
        return None if self.updates_ else Promise("coverage", self.coverage)

    def measure(self, answers: Tensor, rows: Rows, labels: Tensor, level: float, options: Mapping[str, Any]) -> Outcome:
        n = len(rows)
        size = answers.sum(dim=1)
        covered = answers.gather(1, labels[:, None])[:, 0]
        measures = {
            "coverage": bounds.of_share(int(covered.sum()), n, level),
            "size": bounds.of_mean(size, level, 0.0, self.num_classes_),
            "answered": bounds.of_share(int((size > 0).sum()), n, level),
            "error": bounds.of_share(int((~covered).sum()), n, level),
        }
        measures["worst_class"], worst, rows_of_worst = _worst(labels, covered, level)
        details: dict[str, Any] = {}
        if self.row_groups_ is not None:
            measures["worst_group"], group, _ = _worst(self._group_numbers(rows), covered, level)
            details["worst_group"] = self.row_groups_[group]
        if SUPERCLASSES in options:
            groups = options[SUPERCLASSES]
            shown = torch.zeros(n, int(groups.max()) + 1, dtype=torch.int32).index_add_(1, groups, answers.int())
            measures["superclasses"] = bounds.of_mean((shown > 0).sum(dim=1), level, 0.0, shown.shape[1])
        by_size = []
        for value in size.unique().tolist():
            inside = size == value
            share = bounds.of_share(int(covered[inside].sum()), int(inside.sum()), level)
            by_size.append(
                {
                    "size": value,
                    "rows": int(inside.sum()),
                    "coverage": share.value,
                    "low": share.low,
                    "high": share.high,
                }
            )
        details |= {"worst_class": worst, "worst_class_rows": rows_of_worst, "by_size": by_size}
        return Outcome(n, measures, details | ({"weight": self.weight_} if self.similarity is not None else {}))

    def formula(self) -> Formula:
        self._require_fixed("as_module")
        unlike = self._penalty_matrix()
        members = self.scoring.formula(unlike is not None)
        keep_winner = not self.allow_empty

        def formula(p: Tensor, *parameters: Tensor) -> Tensor:
            inside = members(p, *parameters)
            if keep_winner:
                winner = torch.zeros_like(p).scatter(1, p.argmax(dim=1, keepdim=True), 1.0)
                inside = inside | (winner > 0)
            return inside

        return formula, [self.limits_, *([unlike] if unlike is not None else [])]


def _names(groups: Sequence[Any] | Array, num_samples: int) -> NDArray[np.str_]:
    """(N,) groups as texts."""
    values = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if len(values) != num_samples:
        raise ValueError(f"`groups` must be as many as the rows: got {len(values)} for {num_samples}.")
    return np.array([str(value) for value in values], dtype=np.str_)


def _worst(member: Tensor, covered: Tensor, level: float) -> tuple[Interval, int, int]:
    """The lowest coverage of a class or group with its interval, its number, and its number of rows.

    The data chose the worst of G, so its interval is one of G simultaneous intervals.
    """
    count = torch.bincount(member)
    hits = torch.bincount(member, weights=covered.double())
    present = count > 0
    worst = int(torch.where(present, hits / count.clamp(min=1), math.inf).argmin())
    adjusted = 1 - (1 - level) / int(present.sum())
    ends = bounds.exactly_of_share(float(hits[worst]), int(count[worst]), adjusted)
    return Interval(ends.value, ends.low, ends.high, level), worst, int(count[worst])


def _rounding(p: Tensor) -> Tensor:
    """An upper bound on the float32 error of a probability near ``p``."""
    return ROUNDING * p.abs() + 10 * SLACK

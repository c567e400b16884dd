"""What is claimed, and what happened: the claims of every shape, and which of them a metric uses.

``Claims.of`` is the only code that looks at the shapes of arrays. ``Claims.pool`` chooses the claims of a metric, and
``Pool`` is what statistics see: flat scores, outcomes and weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.named_labels import labelled, numbered
from softkin.metrics import binning
from softkin.metrics.binning import Bins, ReliabilityCurve

Scope = Literal["prediction", "output"]
Per = Literal["sample", "score"]
PERS = ("sample", "score")

ENOUGH = 10  # rows with one label each, of which chance is no explanation
TIES_AT_ONCE = 2**15  # scores searched for ties at a time, so that the copies stay in the cache


def winners(probabilities: Tensor) -> Tensor:
    """The winning class of each row; of equal scores the first wins."""
    if _numpy_is_faster(probabilities):
        return torch.from_numpy(probabilities.numpy().argmax(axis=1))
    return probabilities.argmax(dim=1)


def _numpy_is_faster(probabilities: Tensor) -> bool:
    return probabilities.device.type == "cpu" and probabilities.dtype in (torch.float32, torch.float64)


def wins(probabilities: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The winning score of each row, and whether it is the true class's; of equal scores the first class wins."""
    winning = probabilities.amax(dim=1)  # much faster than an argmax
    # Two equal scores that win are at most half a row each: only there an earlier class can have the same score.
    if not _numpy_is_faster(probabilities):
        right = probabilities.gather(1, labels[:, None])[:, 0] == winning
        doubtful = (right & (winning <= 0.51)).nonzero()[:, 0]
        right[doubtful] = winners(probabilities.index_select(0, doubtful)) == labels[doubtful]
        return winning, right
    p, y, best = probabilities.numpy(), labels.numpy(), winning.numpy()
    same = p.reshape(-1).take(true_class_places(probabilities, labels).numpy()) == best
    rows = np.flatnonzero(same & (best <= 0.51))
    step = max(1, TIES_AT_ONCE // p.shape[1])
    for start in range(0, len(rows), step):
        tied = rows[start : start + step]
        same[tied] = p.take(tied, axis=0).argmax(axis=1) == y[tied]
    return winning, torch.from_numpy(same)


def true_class_places(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The indices of the true classes' scores among all N·K."""
    n, k = probabilities.shape
    return torch.arange(0, n * k, k, device=labels.device) + labels


def true_places(mask: Tensor) -> Tensor:
    """The indices at which an (N,) mask is true."""
    if mask.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(mask.numpy()))  # a fraction of the time that torch takes
    return mask.nonzero()[:, 0]


class NoMeaning(ValueError):
    """A metric says nothing about claims of this shape; the message is a sentence without its full stop."""

    def __str__(self) -> str:
        return f"{self.args[0]}."


@dataclass(frozen=True)
class Pool:
    """The claims that a metric uses, flat: scores, and what happened."""

    scores: Tensor
    """(n,) or (n·K,)"""
    hits: Tensor
    """The indices of the claims that came true, among ``scores``; not used where there are ``outcomes``"""
    num_samples: int
    columns: int
    """The number of scores of each sample: 1 for prediction, K for output"""
    winners: bool = False
    """Whether each row has one score, that of its answer"""
    outcomes: Tensor | None = None
    """As many float64 numbers in [0, 1] as scores, where an outcome can be between true and false"""
    weights: Tensor | None = None
    """(num_samples,) float64 weights with the mean 1; None where all rows count alike"""
    exclusive: bool = True
    """Whether exactly one claim of a row comes true, so that scores and hits of a row of several sum to 1"""

    def denominator(self, per: Per) -> int:
        """The number that sums over scores are divided by."""
        return self.num_samples if per == "sample" and self.exclusive else len(self.scores)

    @property
    def rows(self) -> Tensor:
        """The scores as (N, columns)."""
        return self.scores.view(self.num_samples, self.columns)

    @property
    def is_hit(self) -> Tensor:
        """A float64 matrix (N, columns) with 1 for hits, or the outcome."""
        if self.outcomes is not None:
            return self.outcomes.view(self.num_samples, self.columns)
        mask = torch.zeros(len(self.scores), dtype=torch.float64, device=self.scores.device)
        mask[self.hits] = 1
        return mask.view(self.num_samples, self.columns)

    @property
    def shares(self) -> Tensor | None:
        """(n,) what each score adds to a sum of hits, where that is neither 0 nor 1: outcome times weight."""
        if self.outcomes is None and self.weights is None:
            return None
        hit = self.is_hit.reshape(-1)
        return hit if self.score_weights is None else hit * self.score_weights

    @property
    def score_weights(self) -> Tensor | None:
        """(n,) the weight of each score; None where all count alike."""
        if self.weights is None or self.columns == 1:
            return self.weights
        return self.weights.repeat_interleave(self.columns)

    @property
    def beside(self) -> dict[str, Tensor | None]:
        """What functions of ``binning`` and ``density`` take beside scores and hits."""
        return {"shares": self.shares, "weights": self.score_weights}

    def curve(self, bins: Bins) -> ReliabilityCurve:
        """The reliability curve of the pool."""
        return binning.curve(self.scores, self.hits, bins, **self.beside)

    @property
    def has_labels_to_draw(self) -> bool:
        """Whether outcomes under calibration can be drawn from the scores: each row claims one thing, true or false."""
        return self.outcomes is None and (self.exclusive or self.columns == 1)

    def redrawn(self, generator: np.random.Generator, times: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Labels drawn from the scores, ``times`` times: (column drawn, whether a hit), in (r, N) blocks.

        For prediction a hit comes with the probability that the winning score claims. For output each row's label is
        drawn from the row (from the row over its sum, where that is a rounding away from 1).
        """
        n, device = self.num_samples, self.scores.device
        rows = self.rows.to("cpu", torch.float64)
        if self.columns == 1:
            # Random 32-bit integers below 2^32·p: a third of the time that floats take, and exact to 2^-32.
            threshold = (rows[:, 0] * 2**32).clamp(max=2**32 - 1).numpy().astype(np.uint32)
            column = torch.zeros(1, 1, dtype=torch.int64, device=device)
            for count in blocks(times, n):
                hit = generator.integers(0, 2**32, (count, n), dtype=np.uint32) < threshold
                yield column.expand(count, n), torch.from_numpy(hit).to(device)
            return
        cumulative = rows.cumsum(dim=1)
        always = torch.ones(1, 1, dtype=torch.bool, device=device)
        for count in blocks(times, n):
            u = torch.from_numpy(generator.random((n, count))) * cumulative[:, -1:]
            drawn = torch.searchsorted(cumulative, u, right=True).clamp_(max=self.columns - 1)
            yield drawn.T.to(device), always.expand(count, n)


@dataclass(frozen=True)
class Claims:
    """What was claimed about N samples, and what happened: the one form in which every metric gets its data.

    A claim is a score in [0, 1] and an outcome in [0, 1]. The shapes that people have are ways to make claims:

    - (N, K) probabilities and (N,) classes: K claims per row, of which one comes true. The winner is the prediction
    - the same with (N, K) soft labels: the outcome of each claim is the share of votes for its class
    - (N,) or (N, 1) scores and integers 0 and 1: a binary model, two claims per row
    - (N,) scores and booleans: pairs of a confidence and whether the answer was right, one claim per row
    - (N, L) scores, whose rows need not sum to 1, and (N, L) zeros and ones: L claims per row, each for itself
    - (N, K, …) probabilities and (N, …) classes: a row for each pixel or token

    ``of`` makes them all. Rows may have weights.
    """

    probabilities: Tensor
    """(N, K) scores, checked; (N, 1) for pairs"""
    labels: Tensor
    """(N,) true classes, or (N, K) float64 outcomes, on the same device"""
    weights: Tensor | None = None
    """(N,) float64 weights with the mean 1"""
    exclusive: bool = True
    """Whether exactly one claim of each row comes true: the classes of one sample exclude each other"""
    clusters: Tensor | None = None
    """(N,) the sample that each row belongs to, where a sample has many rows (pixels), which depend on each other"""

    @classmethod
    def of(cls, probabilities: Any, labels: Any, *, sample_weight: Any = None, ignore_index: int | None = None) -> Self:
        """Claims from arrays of any kind and of every shape above, which are checked.

        Args:
            probabilities: The scores.
            labels: What happened.
            sample_weight: (N,) weights of the samples, at least 0; for pixels also of the labels' shape.
            ignore_index: A label of rows to leave out, such as 255 for pixels of no class.
        """
        labels, probabilities, sample_weight = labelled(labels, probabilities, sample_weight)
        labels, _ = numbered(labels, probabilities)
        p, y = checks.as_tensor(probabilities, "probabilities"), checks.as_tensor(labels, "labels")
        if p.ndim > 2 or ignore_index is not None:
            return cls._of_pixels(p, y, sample_weight, ignore_index)
        if p.ndim == 1 and y.ndim == 2 and y.shape[1] > 1:  # as make_scorer calls a metric
            raise ValueError(
                "`probabilities` must come first and `labels` second, got them the other way round; for scikit-learn's "
                "`scoring` take softkin.sklearn.scorers()."
            )
        if p.ndim == 1 or (p.ndim == 2 and p.shape[1] == 1):
            made = cls._of_one_score(p, y)
        elif y.ndim == 2 and y.shape == p.shape:
            made = cls._of_outcomes(p, y)
        else:
            made = cls(*checked(p, y))
        if sample_weight is None:
            return made
        return replace(made, weights=_weights(sample_weight, made.num_samples).to(made.probabilities.device))

    @classmethod
    def _of_one_score(cls, p: Tensor, y: Tensor) -> Self:
        """A binary model, or pairs."""
        if not p.is_floating_point() and y.is_floating_point() and bool(((y > 0) & (y < 1)).any()):
            raise ValueError("`probabilities` must come first and `labels` second, got them the other way round.")
        s = checks.unit_scores(p)
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if y.shape != s.shape:
            raise ValueError(
                f"`labels` must be as many as the scores, one for each, got shape {tuple(y.shape)} for "
                f"{tuple(p.shape)} scores."
            )
        y = y.to(s.device)
        if y.dtype == torch.bool:
            return cls(s[:, None], y[:, None].to(torch.float64), exclusive=False)
        if y.is_floating_point():
            if not bool(((y >= 0) & (y <= 1)).all()):
                raise ValueError("`labels` of (N,) scores must be booleans, integers 0 and 1, or shares from 0 to 1.")
            if bool((y == y.round()).all()):
                raise TypeError(
                    f"`labels` of (N,) scores must be booleans for pairs (was the answer right?) or integers for a "
                    f"binary model (is it class 1?), got {y.dtype}; convert them with .astype(bool) or .astype(int)."
                )
            return cls(s[:, None], y[:, None].to(torch.float64), exclusive=False)
        two = torch.stack([1 - s, s], dim=1)
        return cls(two, checks.class_labels(y, num_samples=len(s), num_classes=2))

    @classmethod
    def _of_outcomes(cls, p: Tensor, y: Tensor) -> Self:
        """Soft labels, if rows of scores sum to 1; else many labels per sample."""
        if y.is_floating_point() and not bool(torch.isfinite(y).all()):
            checks.finite(y, "labels")
        outcomes = y.to(p.device if p.device.type != "mps" else "cpu", torch.float64)
        if bool((outcomes < 0).any()):
            raise ValueError(f"`labels` of shape {tuple(y.shape)} must be vote shares or counts, at least 0.")
        if not checks.rows_are_distributions(p):
            scores = checks.unit_scores(p.reshape(-1), "a probability for each label").view(p.shape)
            if bool((outcomes > 1).any()):
                raise ValueError(
                    "`labels` of several labels per sample must be from 0 to 1; for votes on one class per sample, "
                    "rows of `probabilities` must sum to 1."
                )
            if len(outcomes) >= ENOUGH and bool((outcomes.sum(dim=1) == 1).all()):
                raise ValueError(
                    "every row of `labels` has one class, but rows of `probabilities` do not sum to 1: divide them by "
                    "their sums if classes exclude each other; if each is a yes or no of its own, measure each alone."
                )
            return cls(scores, outcomes, exclusive=False)
        p = checks.probabilities(p)
        total = outcomes.sum(dim=1, keepdim=True)
        empty = (total[:, 0] <= 0).nonzero()[:, 0]
        if len(empty):
            raise ValueError(f"`labels` must hold at least one vote in each row, but row {int(empty[0])} has none.")
        shares = outcomes / total
        if bool(((shares == 0) | (shares == 1)).all()):
            return cls(p, shares.argmax(dim=1))
        return cls(p, shares)

    @classmethod
    def _of_pixels(cls, p: Tensor, y: Tensor, sample_weight: Any, ignore_index: int | None) -> Self:
        """A row for each pixel or token whose label is not ignored."""
        if p.ndim < 2 or y.shape != (len(p), *p.shape[2:]):
            raise ValueError(
                f"`labels` must have shape {(len(p), *p.shape[2:])} for `probabilities` of shape {tuple(p.shape)}, "
                f"which has the classes in its second dimension, got {tuple(y.shape)}."
            )
        weights = None
        if sample_weight is not None:
            weights = checks.as_tensor(sample_weight, "sample_weight")
            if weights.shape == (len(p),):
                weights = weights.view(-1, *[1] * (y.ndim - 1)).expand(y.shape)
            if weights.shape != y.shape:
                raise ValueError(
                    f"`sample_weight` must have shape ({len(p)},) or {tuple(y.shape)}, got {tuple(weights.shape)}."
                )
        rows, labels = p.movedim(1, -1).reshape(-1, p.shape[1]), y.reshape(-1)
        each = y[0].numel() if len(y) else 1
        clusters = torch.arange(len(p), device=labels.device).repeat_interleave(each) if each > 1 else None
        if ignore_index is not None:
            kept = labels != ignore_index
            if not bool(kept.any()):
                raise ValueError(f"every label is {ignore_index}, which `ignore_index` leaves out.")
            rows, labels = rows[kept.to(rows.device)], labels[kept]
            clusters = None if clusters is None else torch.unique(clusters[kept], return_inverse=True)[1]
            weights = None if weights is None else weights.reshape(-1)[kept]
        made = cls.of(rows, labels, sample_weight=None if weights is None else weights.reshape(-1))
        return replace(made, clusters=None if clusters is None else clusters.to(made.probabilities.device))

    @property
    def num_samples(self) -> int:
        """N."""
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """K; 1 for pairs."""
        return self.probabilities.shape[1]

    @property
    def are_pairs(self) -> bool:
        """Whether each row is one confidence and whether it was right."""
        return not self.exclusive and self.num_classes == 1

    @property
    def are_soft(self) -> bool:
        """Whether the outcomes of classes are shares of votes."""
        return self.exclusive and self.labels.ndim == 2

    @property
    def kind(self) -> str:
        """The shape in words."""
        if self.are_pairs:
            return "pairs of a confidence and an outcome"
        if not self.exclusive:
            return "several labels per sample"
        return "soft labels" if self.are_soft else "classes"

    def classes(self) -> tuple[Tensor, Tensor]:
        """Probabilities (N, K) and integer labels (N,), for metrics that need both."""
        if not self.exclusive or self.labels.ndim == 2:
            needs = "scores of all classes" if self.are_pairs else "one true class per sample"
            raise NoMeaning(f"it needs {needs}, and these are {self.kind}")
        return self.probabilities, self.labels

    def as_two_classes(self) -> "Claims":
        """Pairs as a binary model: the claim comes true, or it does not."""
        s = self.probabilities[:, 0]
        hit = self.labels[:, 0]
        columns = torch.stack([1 - s, s], dim=1)
        if bool(((hit == 0) | (hit == 1)).all()):
            return Claims(columns, hit.to(torch.int64), self.weights, clusters=self.clusters)
        return Claims(columns, torch.stack([1 - hit, hit], dim=1), self.weights, clusters=self.clusters)

    def of_class_1(self) -> "Claims":
        """The claims of a binary model about class 1 alone."""
        y = self.labels
        hit = y[:, 1] if y.ndim == 2 else (y == 1).to(torch.float64)
        score = self.probabilities[:, 1:].contiguous()
        return Claims(score, hit[:, None], self.weights, exclusive=False, clusters=self.clusters)

    def pool(self, scope: Scope) -> Pool:
        """The winning claims ("prediction") or all of them ("output"); many labels have no winner and are all taken."""
        checks.option(scope, "scope", ("prediction", "output"))
        if not self.exclusive:
            if scope == "output" and self.are_pairs:
                raise NoMeaning("it needs scores of all classes, and pairs have one score per row")
            return _pool_of_claims(self.probabilities, self.labels, self.weights)
        if self.labels.ndim == 1:
            return replace(pool(self.probabilities, self.labels, scope), weights=self.weights)
        n, k = self.probabilities.shape
        nothing = torch.empty(0, dtype=torch.int64)
        if scope == "output":
            every = self.labels.reshape(-1)
            return Pool(self.probabilities.reshape(-1), nothing, n, k, outcomes=every, weights=self.weights)
        own = winners(self.probabilities)[:, None]
        scores, outcomes = (part.gather(1, own)[:, 0] for part in (self.probabilities, self.labels))
        return Pool(scores, nothing, n, 1, winners=True, outcomes=outcomes, weights=self.weights)

    def take(self, rows: Tensor) -> "Claims":
        """The rows at these places."""
        parts = (self.weights, self.clusters)
        weights, clusters = (None if part is None else part[rows] for part in parts)
        weights = None if weights is None else weights * (len(weights) / weights.sum())
        return Claims(self.probabilities[rows], self.labels[rows], weights, self.exclusive, clusters)

    def mixed_with(self, other: "Claims", theirs: Tensor) -> "Claims":
        """The claims of another model about the same samples in the rows (N, 1) that are ``theirs``."""
        own = theirs if self.labels.ndim == 2 else theirs[:, 0]
        p, y = torch.where(theirs, other.probabilities, self.probabilities), torch.where(own, other.labels, self.labels)
        return replace(self, probabilities=p, labels=y)


def _pool_of_claims(scores: Tensor, outcomes: Tensor, weights: Tensor | None) -> Pool:
    n, columns = scores.shape
    flat, hit = scores.reshape(-1), outcomes.reshape(-1)
    is_hard = bool(((hit == 0) | (hit == 1)).all())
    hits = true_places(hit == 1) if is_hard else torch.empty(0, dtype=torch.int64)
    return Pool(flat, hits, n, columns, columns == 1, None if is_hard else hit, weights, exclusive=False)


def _weights(values: Any, num_samples: int) -> Tensor:
    """Weights with the mean 1."""
    w = checks.weights(values, num_samples)
    return w * (num_samples / w.sum())


def effective(weights: Tensor | None, count: int) -> float:
    """The number of rows of equal weight that say as much, (Σw)²/Σw² (Kish, 1965)."""
    return float(count) if weights is None else float(weights.sum().square() / weights.square().sum())


ONE_WINNER = Pool(torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.int64), 1, 1, winners=True)
"""The pool of one sample; a metric that accepts it needs only winning scores"""


def blocks(times: int, size: int) -> list[int]:
    """``times`` split into portions such that portion × size numbers fit the cache, but at least 16 at once."""
    step = min(times, max(16, 2**19 // size))
    return [min(step, times - start) for start in range(0, times, step)]


def multiplicities(num_samples: int, times: int, generator: np.random.Generator) -> Iterator[Tensor]:
    """How often each row is drawn in each of ``times`` resamples of N rows, in (r, N) blocks of float32 counts."""
    for count in blocks(times, num_samples):
        counts = np.empty((count, num_samples), dtype=np.float32)
        for line in counts:
            line[:] = np.bincount(generator.integers(0, num_samples, num_samples), minlength=num_samples)
        yield torch.from_numpy(counts)


def pool(probabilities: Tensor, labels: Tensor, scope: Scope) -> Pool:
    """The winning scores ("prediction") or all of them ("output")."""
    checks.option(scope, "scope", ("prediction", "output"))
    n, k = probabilities.shape
    if scope == "output":
        return Pool(probabilities.reshape(-1), true_class_places(probabilities, labels), n, k)
    winning, right = wins(probabilities, labels)
    return Pool(winning, true_places(right), n, 1, winners=True)


def checked(probabilities: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Checked probabilities and labels on one device."""
    if getattr(probabilities, "ndim", 2) == 1 and getattr(labels, "ndim", 1) == 2:  # as make_scorer calls a metric
        raise ValueError(
            "`probabilities` must come first and `labels` second, got them the other way round; for scikit-learn's "
            "`scoring` take softkin.sklearn.scorers()."
        )
    labels, _ = numbered(labels, probabilities)
    p = checks.probabilities(probabilities)
    y = checks.class_labels(labels, num_samples=len(p), num_classes=p.shape[1])
    return p, y.to(p.device)

r"""Class similarity that the network learns while it trains: online label smoothing, with a prior for rare classes.

In each epoch the probabilities of the rows that the network got right are summed up by class: :math:`A_k` over
:math:`n_k` rows. They are the next epoch's table,

.. math:: t_k = \frac{A_k + m\,r_k}{n_k + m}, \qquad r_k = o\,e_k + (1 - o)\,s_k, \qquad
          q_k = (1-\alpha)\,e_k + \alpha\,t_k,

where :math:`s_k` is the prior, a class similarity from names, a tree or anything else, which counts as m rows;
:math:`o` is the mean probability of the true class among all right rows; and :math:`q_k` is the label. Without a prior,
m = 0, and a class without a right row keeps its table. The first epoch has :math:`o = 1/K` and no rows: labels are
those of uniform smoothing, or of the prior.

References:
    Zhang et al., Delving Deep into Label Smoothing, 2021.
"""

import warnings
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from softkin import smoothing
from softkin._core import checks, ranks
from softkin._core.checks import Array
from softkin.losses.soft_labels import SoftLabelCrossEntropy
from softkin.similarity import SparseRows

DENSE = 10_000  # classes up to which the whole table is kept
KEPT = 32  # classes kept for each beyond that
PRIOR_ROWS = 1.0  # best of 0.3 to 100 with 5 to 20 rows per class, see docs/measurements/kin.md
FORGOTTEN = 10_000  # training batches after which a loss that is never turned over says so


class LearnedSimilarityLoss(SoftLabelCrossEntropy):
    """``SoftLabelCrossEntropy`` whose labels the network learns; made by ``ClassSimilarityLoss.learned``.

    ``forward`` gathers in training mode, and ``end_epoch`` turns over: what was gathered becomes the labels. Both the
    labels and what is being gathered are part of the ``state_dict``, so that training resumes to the bit.

    Beyond 10,000 classes each class keeps the 32 classes that it is most confused with. What the sums of a class then
    lose is spread evenly over its other classes.

    Attributes:
        turned: The number of turns so far.
    """

    sums: Tensor
    counts: Tensor
    calls: Tensor
    turned: Tensor

    def __init__(
        self,
        num_classes: int,
        alpha: float = 0.5,
        *,
        prior: Array | SparseRows | None = None,
        prior_rows: float = PRIOR_ROWS,
        steps: int | None = None,
        weight: Array | None = None,
        weight_by: Literal["class", "sample"] = "class",
        ignore_index: int = -100,
        reduction: Literal["mean", "sum", "none"] = "mean",
    ) -> None:
        checks.count(num_classes, "num_classes", least=2)
        checks.at_least_zero(prior_rows, "prior_rows")
        if steps is not None:
            checks.count(steps, "steps")
        own = torch.full((num_classes,), 1 / num_classes, dtype=torch.float64)
        wide = num_classes > DENSE
        given = _even(num_classes, wide) if prior is None else _of_one_form(prior, num_classes, wide)
        super().__init__(
            smoothing.similarity_labels(given, checks.alpha(alpha)),
            weight=weight,
            weight_by=weight_by,
            ignore_index=ignore_index,
            reduction=reduction,
            persistent=True,
        )
        self._factor, self.steps = float(alpha), steps
        self._prior_rows = float(prior_rows) if prior is not None else 0.0
        for name in self._off_diagonal() + (("indices",) if wide else ()):
            held = getattr(given, name) if isinstance(given, SparseRows) else given
            self.register_buffer(f"_prior_{name}", held.clone(), persistent=False)
        shape = (num_classes, self.indices.shape[1]) if wide else (num_classes, num_classes)
        self.register_buffer("sums", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("counts", torch.zeros(num_classes, dtype=torch.float64))
        if wide:
            self.register_buffer("own_sums", torch.zeros(num_classes, dtype=torch.float64))
            self.register_buffer("places", self.indices.clone())
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("turned", torch.zeros((), dtype=torch.int64))
        self._warned = False
        self._set_table(own, given)

    @property
    def alpha(self) -> float:
        """The weight of the table, which has mass on the true class too."""
        return self._factor

    @property
    def similarity(self) -> Tensor:
        """(K, K) what the network came to find similar: the table's rows without the diagonal, summing to 1."""
        q = self.labels().clone()
        q.fill_diagonal_(0)
        return q / q.sum(dim=1, keepdim=True)

    def pairs(self, count: int = 10) -> list[tuple[int, int, float]]:
        """The pairs of classes that the network finds most similar now, the most similar first.

        Each is (a, b, share): of the mass that the labels of a give to other classes, ``share`` is on b. Of a pair and
        its reverse the larger is listed. ``diagrams.learned_similarity`` draws the pairs of all epochs.
        """
        if self._is_sparse:
            mass = self.values.sum(dim=1) + self.rest * (self.num_classes - 1 - self.values.shape[1])
            shares, columns = self.values / mass[:, None], self.indices
        else:
            shares, columns = self.similarity.fill_diagonal_(-1), None
        most = min(2 * checks.count(count, "count"), shares.numel())
        values, places = shares.reshape(-1).topk(most)
        rows = places // shares.shape[1]
        others = places % shares.shape[1] if columns is None else columns.reshape(-1)[places]
        found: dict[frozenset[int], tuple[int, int, float]] = {}
        for a, b, share in zip(rows.tolist(), others.tolist(), values.tolist(), strict=True):
            if a != b:
                found.setdefault(frozenset((a, b)), (a, b, share))
        return list(found.values())[:count]

    def labels(self) -> Tensor:
        """(K, K) the labels now."""
        if not self._is_sparse:
            return self.soft_labels
        return SparseRows(self.own, self.indices, self.values, self.rest).dense()

    def extra_repr(self) -> str:
        leaning = f", prior_rows={self._prior_rows:g}" if self._prior_rows else ""
        return f"alpha={self.alpha:.6g}, learned{leaning}, {super().extra_repr()}"

    # Gathering

    def _hard(
        self, log_p: Tensor, targets: Tensor, w: Tensor | None, none_ignored: bool
    ) -> tuple[Tensor, Tensor | None]:
        result = super()._hard(log_p, targets, w, none_ignored)
        if self.training:
            self._gather(log_p.detach(), targets)
        return result

    def _soft(self, log_p: Tensor, targets: Tensor, w: Tensor | None) -> tuple[Tensor, Tensor | None]:
        result = super()._soft(log_p, targets, w)
        if self.training:
            self._gather(log_p.detach(), targets.argmax(dim=1))
        return result

    @torch.no_grad()
    def _gather(self, log_p: Tensor, classes: Tensor) -> None:
        """Add the rows that are right; a mixed sample counts for the class with the larger weight."""
        rows, y = log_p.movedim(1, -1).reshape(-1, self.num_classes), classes.reshape(-1).to(torch.int64)
        right = (rows.argmax(dim=1) == y) & (y != self.ignore_index)
        if self._is_sparse:
            self._gather_sparsely(rows[right].exp(), y[right])
        else:
            # A matrix product, not index_add, which sums in varying order on GPUs.
            mine = F.one_hot(y.masked_fill(~right, 0), self.num_classes) * right[:, None]
            self.sums += (mine.to(rows.dtype).T @ rows.exp()).to(self.sums.dtype)
            self.counts += mine.sum(dim=0)
        self._count()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _count(self) -> None:
        self.calls += 1
        if self.steps is not None and int(self.calls) >= self.steps:
            self.end_epoch()
        elif self.steps is None and not self._warned and int(self.turned) == 0 and int(self.calls) >= FORGOTTEN:
            self._warned = True
            warnings.warn(
                f"learned labels were never turned over in {FORGOTTEN:,} batches; call `end_epoch()` after each epoch, "
                "or make the loss with steps=.",
                stacklevel=2,
            )

    def _gather_sparsely(self, p: Tensor, y: Tensor) -> None:
        """Add rows to the few sums that are kept of each class, one row of a class at a time."""
        p = p.to(self.sums.dtype)
        self.counts += torch.bincount(y, minlength=self.num_classes).to(self.counts.dtype)
        self._own_sums().index_add_(0, y, p.gather(1, y[:, None])[:, 0])
        others = p.scatter(1, y[:, None], -1.0)
        values, places = others.topk(self.sums.shape[1], dim=1)
        order = y.argsort(stable=True)
        sorted_y = y[order]
        first = torch.searchsorted(sorted_y, sorted_y)
        turn = torch.arange(len(y), device=y.device) - first  # the how-manieth row of its class
        for number in range(int(turn.max()) + 1 if len(y) else 0):
            chosen = order[turn == number]
            self._merge(y[chosen], places[chosen], values[chosen])

    def _merge(self, classes: Tensor, places: Tensor, values: Tensor) -> None:
        """Add sums of distinct classes to those kept, and keep the largest."""
        kept, held = self._places()[classes], self.sums[classes]
        same = kept[:, :, None] == places[:, None, :]
        held = held + (same * values[:, None, :]).sum(dim=2)
        fresh = values.masked_fill(same.any(dim=1), -1.0)
        best = torch.cat([held, fresh], dim=1).topk(kept.shape[1], dim=1)
        self.sums[classes] = best.values
        self._places()[classes] = torch.cat([kept, places], dim=1).gather(1, best.indices)

    def _places(self) -> Tensor:
        return self.get_buffer("places")

    def _own_sums(self) -> Tensor:
        return self.get_buffer("own_sums")

    # Turning over

    @torch.no_grad()
    def end_epoch(self) -> None:
        """Make labels of what was gathered since the last turn, on all ranks together, and begin anew."""
        with torch.inference_mode(False):
            counts = ranks.total(self.counts.clone())
            if self._is_sparse:
                self._turn_sparse(counts)
            else:
                self._turn_dense(counts)
            self.sums.zero_()
            self.counts.zero_()
            self.calls.zero_()
            self.turned += 1

    def _turn_dense(self, counts: Tensor) -> None:
        sums, m = ranks.total(self.sums.clone()), self._prior_rows
        total = counts.sum()
        seen = counts > 0 if m == 0 else torch.ones_like(counts, dtype=torch.bool)
        if total > 0 and m:
            own = sums.diagonal().sum() / total
            lean = (1 - own) * self.get_buffer("_prior_soft_labels")
            lean.diagonal().fill_(own)
            sums = sums + m * lean
        if total > 0:
            table = sums[seen] / sums[seen].sum(dim=1, keepdim=True)
            self.soft_labels[seen] = self._factor * table
            self.soft_labels.diagonal()[seen] += 1 - self._factor

    def _turn_sparse(self, counts: Tensor) -> None:
        everybodys = ranks.gather_rows(torch.stack([self.sums, self._places().to(self.sums.dtype)], dim=2)[None])
        own = ranks.total(self._own_sums().clone())
        total = counts.sum()
        self.sums.zero_()
        every = torch.arange(self.num_classes, device=self.sums.device)
        for part in everybodys:
            self._merge(every, part[:, :, 1].to(torch.int64), part[:, :, 0])
        m = self._prior_rows
        if total > 0:
            mean = own.sum() / total
            if m:
                share = (1 - mean) * m
                self._merge(every, self.get_buffer("_prior_indices"), share * self.get_buffer("_prior_values"))
                own = own + m * mean
            rows = counts + m
            seen = rows > 0
            few = self.num_classes - 1 - self.sums.shape[1]
            known = self.sums.clamp(min=0)
            rest = (rows - own - known.sum(dim=1)).clamp(min=0) / few
            scale = self._factor / rows.clamp(min=1e-300)
            self.own[seen] = (1 - self._factor + scale * own)[seen]
            self.indices[seen] = self._places()[seen]
            self.values[seen] = (scale[:, None] * known)[seen]
            self.rest[seen] = (scale * rest)[seen]
        self._own_sums().zero_()

    def _set_table(self, own: Tensor, given: Tensor | SparseRows) -> None:
        """The first labels: the prior with this much on the true class."""
        mass = self._factor * (1 - own)
        if isinstance(given, SparseRows):
            self.values.copy_(mass[:, None] * given.values)
            self.rest.copy_(mass * given.rest)
            self.own.copy_(1 - mass)
        else:
            self.soft_labels.copy_(mass[:, None] * given)
            self.soft_labels.diagonal().copy_(1 - mass)

    def adjust(self, validation_logits: Any, validation_labels: Any) -> float:
        """Refused: learned labels have a fixed α."""
        raise ValueError("`adjust` needs alpha='auto', but learned labels have a fixed alpha.")


def _even(num_classes: int, wide: bool) -> Tensor | SparseRows:
    """The similarity that knows nothing."""
    share = 1 / (num_classes - 1)
    if not wide:
        even = torch.full((num_classes, num_classes), share, dtype=torch.float64)
        even.fill_diagonal_(0)
        return even
    after = (torch.arange(num_classes)[:, None] + torch.arange(1, KEPT + 1)) % num_classes
    rest = torch.full((num_classes,), share, dtype=torch.float64)
    return SparseRows(torch.zeros_like(rest), after, rest[:, None].repeat(1, KEPT), rest)


def _of_one_form(prior: Array | SparseRows, num_classes: int, wide: bool) -> Tensor | SparseRows:
    """The prior, dense or with ``KEPT`` classes per row."""
    checked = smoothing.checked_similarity(prior)
    if len(checked) != num_classes:
        raise ValueError(f"`prior` covers {len(checked)} classes, and `num_classes` is {num_classes}.")
    if not wide:
        return checked.dense() if isinstance(checked, SparseRows) else checked
    if isinstance(checked, SparseRows):
        if checked.indices.shape[1] != KEPT:
            raise ValueError(f"`prior` must be made with top_m={KEPT} for more than {DENSE:,} classes.")
        return checked
    values, places = checked.topk(KEPT, dim=1)
    rest = (1 - values.sum(dim=1)).clamp(min=0) / (num_classes - 1 - KEPT)
    return SparseRows(torch.zeros(num_classes, dtype=torch.float64), places, values, rest)

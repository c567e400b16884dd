"""Metrics of batches, and of rows spread over several processes, from totals that add up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from softkin._core import checks, ranks
from softkin._core.checks import Array
from softkin.metrics import catalogue, density
from softkin.metrics.catalogue import Metric
from softkin.metrics.scopes import Claims
from softkin.metrics.statistics import NEEDS_ALL, Dealt, Statistic, Streamed

Request = str | tuple[str, Mapping[str, Any]]


@dataclass
class Running:
    """A metric of a stream: it is started, fed with batches, merged with others of its kind, and read.

    ``Accumulator``, the evaluation of large files, several files and several ranks all sum with this.
    """

    metric: Metric
    options: Mapping[str, Any]
    cells: int
    """The number of cells of [0, 1] in which a density is summed"""
    totals: Tensor | None = None

    def feed(self, statistic: Streamed, dealt: Dealt | None = None) -> None:
        """Add a batch, given as the metric's statistic; with ``dealt``, add it to the sums of groups."""
        if dealt is None:
            self.totals = statistic.totals(self.cells, self.totals)
        else:
            self.totals = statistic.by_group(dealt, self.totals)

    def merge(self, other: "Running") -> None:
        """Add the rows that ``other`` was fed with."""
        if other.totals is not None:
            self.totals = other.totals.clone() if self.totals is None else self.totals + other.totals

    def of(self, claims: Claims) -> Streamed:
        """The metric's statistic of a batch."""
        statistic = self.metric.statistic(claims, **self.options)
        if not isinstance(statistic, Streamed):
            raise ValueError(f"`{self.metric.key}` cannot stream: {NEEDS_ALL}.")
        return statistic

    def trial(self, num_classes: int, exclusive: bool = True) -> Statistic:
        """The metric of one arbitrary row; of classes that are not ``exclusive``, a row of claims, each for itself."""
        p = torch.full((1, num_classes), 1 / num_classes, dtype=torch.float64)
        if not exclusive:
            return self.metric.statistic(Claims(p, torch.ones_like(p), exclusive=False), **self.options)
        return self.metric.statistic(Claims(p, torch.zeros(1, dtype=torch.int64)), **self.options)

    def reader(self, num_classes: int, exclusive: bool = True) -> Streamed:
        """A statistic with ``num_classes`` classes that can read totals."""
        trial = self.trial(num_classes, exclusive)
        if not isinstance(trial, Streamed):
            raise ValueError(f"`{self.metric.key}` cannot stream: {NEEDS_ALL}.")
        return trial

    def check(self) -> None:
        """Refuse wrong options, and metrics that cannot stream, before the first batch."""
        parameters = self.metric.parameters.values()
        required = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
        missing = [name for name in required if name not in self.options]
        if missing:
            raise TypeError(f"`{self.metric.key}` needs the option `{missing[0]}`.")
        if required:  # matrices of classes, whose size can be checked only with the first batch
            return
        counts = [value for value in self.options.values() if isinstance(value, int)]
        needs_all = self.reader(1 + max(5, *counts, 2)).needs_all
        if needs_all is not None:
            raise ValueError(f"`{self.metric.key}` cannot stream: {needs_all}.")


class Accumulator:
    """Metrics of batches: call ``update`` with each, ``merge`` with other accumulators, ``compute`` at the end.

    The state is a few sums, independent of the number of samples (and of K, except for class-wise errors, which keep
    K·bins; a KDE keeps six numbers for each of ``kde_cells`` cells). Results equal those of the whole data: to 1e-12
    for binned errors and averages, to 1e-6 for the KDE, whose bandwidth is known only at the end. Equal-mass bins,
    ``aurc``, ``auroc`` and ``fpr_at_95`` need all samples at once and are refused.

    Under an initialised ``torch.distributed`` group ``compute`` sums the states of all ranks, and every rank gets the
    result for all data. It is collective: every rank must call it, even without a batch. States stay separate.

    Args:
        metrics: Names of metrics, or a mapping from names of your choice to a metric's name or to (name, options).
        kde_cells: The number of cells of [0, 1] for ``ece_kde``; the smallest bandwidth is then 256/cells.

    Example:
        >>> total = Accumulator({"ece": "ece_hist", "ece output": ("ece_hist", {"scope": "output"}), "nll": "nll"})
        >>> for batch in range(3):
        ...     total.update(torch.tensor([[0.8, 0.2], [0.4, 0.6]]), torch.tensor([0, 1]))
        >>> {name: round(value, 4) for name, value in total.compute().items()}
        {'ece': 0.3, 'ece output': 0.6, 'nll': 0.367}
    """

    def __init__(
        self,
        metrics: Sequence[str] | Mapping[str, Request] = ("accuracy", "nll", "brier", "ece_hist"),
        *,
        kde_cells: int = 2**18,
    ) -> None:
        if isinstance(metrics, str):
            metrics = (metrics,)
        requests: Mapping[str, Request] = metrics if isinstance(metrics, Mapping) else {name: name for name in metrics}
        kde_cells = checks.count(kde_cells, "kde_cells", least=density.CELLS_PER_RADIUS)
        self._parts: dict[str, Running] = {}
        for name, request in requests.items():
            metric, options = (request, {}) if isinstance(request, str) else request
            self._parts[name] = Running(catalogue.named(metric), dict(options), kde_cells)
            self._parts[name].check()
        self.num_samples = 0
        self.total_weight = 0.0
        self.num_classes: int | None = None
        self.exclusive = True

    def _meet(self, num_classes: int, exclusive: bool) -> None:
        if self.num_classes not in (None, num_classes):
            raise ValueError(f"all batches must have the same classes, got {num_classes} after {self.num_classes}.")
        if self.num_classes is not None and self.exclusive != exclusive:
            raise ValueError("all batches must be of one shape, got classes and claims that stand for themselves.")
        self.num_classes, self.exclusive = num_classes, exclusive

    def update(
        self,
        probabilities: Array,
        labels: Array,
        *,
        sample_weight: Array | None = None,
        ignore_index: int | None = None,
    ) -> None:
        """Add a batch of any shape that a metric takes; a refused batch changes nothing.

        Args:
            probabilities: (N, K), or (N, K, …) of pixels, or another shape of ``metrics``.
            labels: (N,), (N, …), or what fits the probabilities.
            sample_weight: Weights of the samples. Those of all batches are on one scale.
            ignore_index: A label of rows to leave out.
        """
        p, y = checks.as_tensor(probabilities, "probabilities"), checks.as_tensor(labels, "labels")
        if p.ndim == 2 and len(p) == 0 and p.shape[1] > 1:
            self._meet(p.shape[1], self.exclusive)
            return
        if ignore_index is not None and bool((y == ignore_index).all()):
            return
        claims = Claims.of(p, y, sample_weight=sample_weight, ignore_index=ignore_index)
        weight = float(claims.num_samples)
        if claims.weights is not None:  # as they came, not with the mean 1 of this batch
            given = checks.as_tensor(sample_weight, "sample_weight").to(torch.float64)
            if given.shape != y.shape:
                given = given.view(-1, *[1] * (y.ndim - 1)).expand(y.shape)
            mean = float((given if ignore_index is None else given[y != ignore_index]).mean())
            claims = replace(claims, weights=claims.weights * mean)
            weight *= mean
        if self.num_classes is not None:
            self._meet(claims.num_classes, claims.exclusive)
        statistics = [part.of(claims) for part in self._parts.values()]
        for part, statistic in zip(self._parts.values(), statistics, strict=True):
            part.feed(statistic)
        self._meet(claims.num_classes, claims.exclusive)
        self.num_samples += claims.num_samples
        self.total_weight += weight

    def merge(self, other: "Accumulator") -> None:
        """Add the batches of another accumulator of the same metrics."""
        mine, theirs = (
            {name: (part.metric.key, part.options, part.cells) for name, part in accumulator._parts.items()}
            for accumulator in (self, other)
        )
        if mine != theirs:
            raise ValueError(f"only accumulators of the same metrics merge, got {list(theirs)} for {list(mine)}.")
        if other.num_classes is None:
            return
        self._meet(other.num_classes, other.exclusive)
        for name, part in self._parts.items():
            part.merge(other._parts[name])
        self.num_samples += other.num_samples
        self.total_weight += other.total_weight

    def reset(self) -> None:
        """Forget all batches."""
        self.num_samples, self.total_weight, self.num_classes = 0, 0.0, None
        for part in self._parts.values():
            part.totals = None

    def compute(self) -> dict[str, float]:
        """The metrics over all batches of all ranks."""
        seen = {shape for shape in ranks.gather((self.num_classes, self.exclusive)) if shape[0] is not None}
        if len(seen) > 1:
            raise ValueError(f"all ranks must have the same classes, got {sorted(k for k, _ in seen)}.")
        if not seen:
            raise ValueError("there is nothing to compute: `update` has seen no samples.")
        shape = seen.pop()
        readers = {name: part.reader(*shape) for name, part in self._parts.items()}
        own = [
            torch.zeros_like(readers[name].totals(part.cells)) if part.totals is None else part.totals
            for name, part in self._parts.items()
        ]
        count = torch.tensor([self.total_weight], dtype=torch.float64)
        line = ranks.total(torch.cat([count, *own]))  # one reduction for all; torch.cat made a copy
        num_samples = float(line[0])
        if num_samples == 0:
            raise ValueError("there is nothing to compute: `update` has seen no samples.")
        sums = line[1:].split([len(totals) for totals in own])
        return {
            name: reader.read(total, num_samples) for (name, reader), total in zip(readers.items(), sums, strict=True)
        }

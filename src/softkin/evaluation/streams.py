"""One model with more predictions than memory should hold: sums for groups of rows, and a few numbers for each row.

Of each row five numbers stay (winning score, whether it was right, whether the label was among the top 5, log loss,
square loss); of all N·K scores the sums in the bins of each class. Values are those of all rows. For intervals the rows
are dealt at random to up to 1,000 groups, and the groups are resampled instead of the rows: with so many rows their
sums vary as the rows' do (to about 2 % of an interval's width), and the work no longer grows with the rows.
"""

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from softkin import binning, checks, density
from softkin.evaluation.catalogue import TOP, Settings, number
from softkin.evaluation.memory import described, measure, summary
from softkin.metrics import scopes, scores
from softkin.metrics.scopes import Pool
from softkin.metrics.statistics import Binned, Kernel, Kind, Mean, Share, Smooth, Statistic
from softkin.metrics.uncertainty import multiplicities

GROUPS = 1000
CELLS = 2**22  # groups × classes × bins that are kept, at most
KDE_CELLS = 2**19


class Grouped(Statistic):
    """A metric of all rows, resampled by groups of them."""

    kind: ClassVar[Kind] = "error"

    def __init__(self, value: Callable[[], float], groups: Statistic, calibrated: Statistic | None = None) -> None:
        """``groups`` has a row for each group; ``calibrated`` is the same with labels drawn from the scores."""
        self._value, self.groups, self.calibrated = value, groups, calibrated
        self.num_samples, self.device = groups.num_samples, groups.device

    def value(self) -> float:
        return self._value()

    def sums(self, weights: Tensor) -> Tensor:
        return self.groups.sums(weights)

    def of(self, sums: Tensor) -> Tensor:
        return self.groups.of(sums)

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        return self.groups.scaled(sums, factor)

    def departures(self, sums: Tensor) -> Tensor:
        return self.groups.departures(sums)

    def probe(self, value: float) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        return self.groups.probe(value)

    def adds_up_with(self, other: Statistic) -> bool:
        return isinstance(other, Grouped) and self.groups.adds_up_with(other.groups)

    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        # One set of labels was drawn for all rows; resampled groups of it, about what calibration expects, vary as
        # other sets of labels would.
        if self.calibrated is None:
            return super().redrawn(generator, times)
        one = self.calibrated
        base = one.sums(torch.ones(1, one.num_samples))
        centre = one.scaled(base, 0.0) - base
        return torch.cat([one.of(one.sums(w) + centre) for w in multiplicities(one.num_samples, times, generator)])


class GroupedMean(Grouped):
    """An average."""

    kind: ClassVar[Kind] = "mean"


class Absolute(Statistic):
    """Σ |sum of a column| over the columns: an error of sums that are 0 under calibration."""

    kind: ClassVar[Kind] = "error"

    def __init__(self, rows: Tensor, divide_by: float) -> None:
        self.rows, self.divide_by = rows, divide_by
        self.num_samples, self.device = len(rows), rows.device

    def value(self) -> float:
        return float(self.of(self.rows.sum(dim=0, keepdim=True)))

    def sums(self, weights: Tensor) -> Tensor:
        return weights.to(torch.float64) @ self.rows

    def of(self, sums: Tensor) -> Tensor:
        total: Tensor = torch.linalg.vector_norm(sums, 1, dim=1)
        return total / self.divide_by


class Stream:
    """What stays of the blocks of one file."""

    def __init__(self, num_classes: int, settings: Settings) -> None:
        self.num_classes, self.settings = num_classes, settings
        self.bins = binning.equal_width(settings.n_bins)
        k, m = num_classes, settings.n_bins
        self.groups = max(64, min(GROUPS, CELLS // (k * m)))
        self.generator = np.random.default_rng(settings.seed)
        # Scores minus hits of each (group, class, bin), with the labels and with labels drawn from the scores.
        self.seen = torch.zeros(self.groups * k * m, dtype=torch.float64)
        self.expected = torch.zeros_like(self.seen)
        self.parts: list[tuple[Tensor, ...]] = []
        self.kde = torch.zeros(3, 3, KDE_CELLS, dtype=torch.float64)  # of all scores, of hits, of scores as their share
        self.moments = np.zeros(2)
        self.num_samples = 0

    def add(self, values: Tensor, labels: Tensor, kind: str) -> None:
        """A block of rows."""
        n, k, m = len(values), self.num_classes, self.settings.n_bins
        if kind == "probs":
            p = checks.probabilities(values).to(torch.float64)
        else:
            p = checks.logits(values).to(torch.float64).softmax(dim=1)
        y = checks.class_labels(labels, num_samples=n, num_classes=k)
        winning, right = scopes.wins(p, y)
        top = scores.among_top(p, y, k=min(TOP, k)).rows.to(torch.bool)
        own = p.gather(1, y[:, None])[:, 0]
        self.parts.append((winning, right, top, -own.log(), scores.squares(p, y), y.to(torch.int32)))
        self.num_samples += n
        # Which group and which label each row draws: one number each, so that the blocks' sizes do not matter.
        group, chance = torch.from_numpy(self.generator.random((n, 2))).unbind(dim=1)
        cumulative = p.cumsum(dim=1)
        drawn = torch.searchsorted(cumulative, (chance[:, None] * cumulative[:, -1:]), right=True)[:, 0].clamp_(
            max=k - 1
        )
        place = binning.assign(p, self.bins).to(torch.int64)
        place += torch.arange(k) * m
        place += ((group * self.groups).to(torch.int64) * (k * m))[:, None]
        mass = torch.bincount(place.view(-1), weights=p.view(-1), minlength=len(self.seen))
        for sums, column in ((self.seen, y), (self.expected, drawn)):
            sums += mass
            sums.index_add_(0, place.gather(1, column[:, None])[:, 0], -torch.ones(n, dtype=torch.float64))
        flat = p.view(-1)
        density.cells(flat, KDE_CELLS, into=self.kde[0])
        density.cells(own, KDE_CELLS, into=self.kde[1])
        density.cells(flat, KDE_CELLS, weights=flat, into=self.kde[2])
        self.moments += np.array([float((flat - 0.5).sum()), float((flat - 0.5).square().sum())])

    def finish(
        self, name: str, class_names: list[str] | None
    ) -> tuple[dict[str, Any], dict[str, Statistic], Tensor, tuple[Tensor, Tensor]]:
        """(the plain data, the statistics behind them, the labels, winning scores and whether right) of all blocks."""
        settings = self.settings
        winning, right, top, logs, squares, labels = (torch.cat(parts) for parts in zip(*self.parts, strict=True))
        self.parts.clear()
        found = self._statistics(winning, right, top, logs, squares)
        measured = measure(found, settings)
        data = summary(measured, found, settings)
        data |= self._kde_output()
        about = {
            "name": name,
            "num_samples": self.num_samples,
            "num_classes": self.num_classes,
            "class_names": class_names,
            "digest": None,
            "settings": asdict(settings) | {"resampled": f"{self.groups} groups of rows"},
        }
        pool = Pool(winning, right.nonzero()[:, 0], len(winning), 1)
        whole = about | described(pool, measured, settings) | {"metrics": data}
        return whole, found, labels, (winning, right)

    def _statistics(
        self, winning: Tensor, right: Tensor, top: Tensor, logs: Tensor, squares: Tensor
    ) -> dict[str, Statistic]:
        n, k, m = self.num_samples, self.num_classes, self.settings.n_bins
        generator = np.random.default_rng(self.settings.seed + 1)
        groups = min(self.groups, n)
        order = torch.from_numpy(generator.permutation(n)[: n // groups * groups])  # a rest of less than a row each
        hits_drawn = torch.from_numpy(generator.random(n)) < winning

        def mean(rows: Tensor) -> GroupedMean:
            return GroupedMean(lambda: float(rows.mean()), Mean(rows[order].view(groups, -1).mean(dim=1)))

        def pool(hits: Tensor) -> Pool:
            return Pool(winning[order], hits[order].nonzero()[:, 0], groups, len(order) // groups)

        def error(make: Callable[[Pool], Statistic]) -> Grouped:
            every = Pool(winning, right.nonzero()[:, 0], n, 1)
            return Grouped(make(every).value, make(pool(right)), make(pool(hits_drawn)))

        def cells(sums: Tensor) -> Tensor:  # few rows of very many classes have fewer groups
            place = torch.arange(self.groups) % groups
            return torch.zeros(groups, k, m, dtype=torch.float64).index_add_(0, place, sums.view(self.groups, k, m))

        radius = density.bandwidth("paper", winning, right.nonzero()[:, 0])
        area = scores.RiskCoverage(winning, right).value()
        by_class = [Absolute(cells(sums).flatten(1), n * k) for sums in (self.seen, self.expected)]
        output = [Absolute(cells(sums).sum(dim=1), n) for sums in (self.seen, self.expected)]
        found: dict[str, Statistic] = {
            "accuracy": Share(right),
            "top_5_accuracy": Share(top),
            "nll": mean(logs),
            "brier": mean(squares),
            "signed_gap": mean(winning - right.to(torch.float64)),
            "ece_prediction": error(lambda one: Binned(one, self.bins, per="score")),
            "ece_output": Grouped(output[0].value, *output),
            "kde_prediction": error(lambda one: Kernel(one, radius, "reflect", per="score")),
            "classwise_ece": Grouped(by_class[0].value, *by_class),
            "smooth_ece": error(lambda one: Smooth(one, per="score")),
            "debiased_ece": error(lambda one: Binned(one, self.bins, norm="debiased", per="score")),
            "mce": error(lambda one: Binned(one, self.bins, norm="max", per="score")),
            "aurc": GroupedMean(lambda: area, mean(influence(winning, right, area)).groups),
        }
        if k <= TOP:
            del found["top_5_accuracy"]
        return found

    def _kde_output(self) -> dict[str, Any]:
        """The KDE ECE of the output, without an interval, and its floor; nothing where the cells are too coarse."""
        count = self.num_samples * self.num_classes
        first, second = self.moments / count
        radius = density.paper_bandwidth(count, math.sqrt(max(0.0, second - first**2)))
        if radius * KDE_CELLS < density.CELLS_PER_RADIUS:
            return {}
        everything, hits, shares = self.kde
        value, floor = (
            float(density.integrals(everything, own, count, radius, "reflect")) * self.num_classes
            for own in (hits, shares)
        )
        return {"kde_output": {"value": number(value), "floor": number(floor)}}


def influence(winning: Tensor, right: Tensor, area: float) -> Tensor:
    r"""(N,) rows whose mean is the area under the risk–coverage curve and varies as it does.

    With weights w the area is :math:`\sum_k \frac{w_k}{W} \frac{E_k}{C_k}`, E and C the errors and rows up to k, the
    most confident first. Row j is the area plus N times its derivative in w_j:
    :math:`\frac{E_j}{j} + e_j (H_N - H_{j-1}) - \sum_{k \ge j} \frac{E_k}{k^2}`.
    """
    order = winning.argsort(descending=True)
    wrong = (~right[order]).to(torch.float64)
    rank = torch.arange(1, len(wrong) + 1, dtype=torch.float64)
    errors = wrong.cumsum(dim=0)

    def from_here(terms: Tensor) -> Tensor:
        return terms.flip(0).cumsum(dim=0).flip(0)

    rows = torch.empty_like(wrong)
    rows[order] = errors / rank + wrong * from_here(1 / rank) - from_here(errors / rank**2)
    return rows + (area - rows.mean())

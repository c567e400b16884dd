"""Metrics of data that come in batches, or on several machines: sums that add up."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from softkin import binning, checks, density, ranks
from softkin.binning import Bins, ReliabilityCurve
from softkin.checks import Array
from softkin.metrics import conventions, scopes, scores
from softkin.metrics.calibration import PERS
from softkin.metrics.statistics import Binned, BinnedNorm

REFUSED = {
    "aurc": "it ranks all samples by confidence",
    "auroc": "it ranks all scores",
    "fpr_at_95": "it ranks all scores",
}
BINNED = ("ece_hist", "mce", "debiased_ece", "signed_gap")
MEANS = ("nll", "brier", "accuracy", "top_k_accuracy")
STREAMS = (*BINNED, "classwise_ece", "ece_kde", *MEANS)

Request = str | tuple[str, Mapping[str, Any]]


class _Part:
    """The sums behind one metric: how a batch adds to them, and the value they give."""

    def __init__(self, metric: str, options: Mapping[str, Any], kde_cells: int) -> None:
        self.metric, self.kde_cells = metric, kde_cells
        given = dict(options)
        convention = given.pop("convention", None)
        binned = metric in BINNED
        defaults: dict[str, Any] = {}
        if binned:
            defaults = {"scope": "prediction", "n_bins": 15, "binning": "width"}
            if metric != "mce":
                defaults["per"] = "sample"
            if metric == "ece_hist":
                defaults["norm"] = 1
            elif metric == "signed_gap":
                defaults["part"] = "net"
        elif metric == "classwise_ece":
            defaults = {"n_bins": 15, "binning": "width", "norm": 1, "reduction": "mean"}
        elif metric == "ece_kde":
            defaults = {"scope": "prediction", "per": "sample", "bandwidth": "paper", "boundary": "reflect"}
        elif metric == "brier":
            defaults = {"per": "sample"}
        elif metric == "top_k_accuracy":
            defaults = {"k": 5}
        unknown = sorted(set(given) - set(defaults))
        if unknown:
            raise TypeError(
                f"`{metric}` takes no option `{unknown[0]}`; it streams with {', '.join(defaults) or 'none'}."
            )
        self.options = conventions.resolve(convention, metric, given, defaults)
        if self.options.get("binning") == "mass":
            raise ValueError(
                f"`{metric}` with equal-mass bins cannot stream: the edges need all scores; use binning='width'."
            )
        if self.options.get("rule") == "mix-n-match":
            raise ValueError(f"`{metric}` with the convention 'mix-n-match' cannot stream.")
        for option, allowed in (
            ("scope", ("prediction", "output")),
            ("per", PERS),
            ("norm", binning.NORMS),
            ("reduction", ("mean", "sum")),
            ("boundary", density.BOUNDARIES),
            ("part", ("net", "over", "under")),
        ):
            if option in self.options:
                checks.option(self.options[option], option, allowed)
        if "k" in self.options:
            checks.count(self.options["k"], "k")
        if metric == "ece_kde" and self.options["bandwidth"] not in ("paper", "mix-n-match"):
            density.bandwidth(self.options["bandwidth"], torch.empty(0), torch.empty(0))
        self.bins = self._bins() if binned or metric == "classwise_ece" else None
        self.sums: Tensor | None = None

    def _bins(self) -> Bins:
        count = checks.count(self.options["n_bins"], "n_bins")
        if self.options["rule"] is not None:
            return conventions.bins(self.options["rule"], torch.empty(0), count)
        return binning.equal_width(count)

    def shape(self, num_classes: int) -> tuple[int, ...]:
        """Of the sums: independent of N, and of K but for class-wise ones."""
        if self.metric in MEANS:
            return (1,)
        if self.metric == "ece_kde":
            return (6 * self.kde_cells + 6,)
        assert self.bins is not None
        return (3, num_classes, self.bins.n_bins) if self.metric == "classwise_ece" else (3, self.bins.n_bins)

    def update(self, p: Tensor, y: Tensor) -> None:
        """Add a batch."""
        if self.sums is None:
            self.sums = torch.zeros(self.shape(p.shape[1]), dtype=torch.float64)
        if self.metric in MEANS:
            self.sums += self._mean_rows(p, y).rows.sum().cpu()
        elif self.metric == "ece_kde":
            self._add_kernel(p, y, self.sums)
        elif self.metric == "classwise_ece":
            assert self.bins is not None
            curves = binning.class_curves(p, y, self.bins)
            self.sums += torch.stack([curves.count, curves.score_sum, curves.hit_sum])
        else:
            assert self.bins is not None
            pool = scopes.pool(p, y, self.options["scope"])
            curve = binning.curve(pool.scores, pool.hits, self.bins)
            self.sums += torch.stack([curve.count, curve.score_sum, curve.hit_sum])

    def _mean_rows(self, p: Tensor, y: Tensor) -> Any:
        if self.metric == "nll":
            return scores.log_losses(p, y)
        if self.metric == "brier":
            return scores.square_losses(p, y, per=self.options["per"])
        return scores.right(p, y) if self.metric == "accuracy" else scores.among_top(p, y, k=self.options["k"])

    def _add_kernel(self, p: Tensor, y: Tensor, sums: Tensor) -> None:
        pool = scopes.pool(p, y, self.options["scope"])
        own = pool.scores[pool.hits]
        size = self.kde_cells
        for place, values in enumerate((pool.scores, own)):
            v = values.cpu()
            density.cells(v, size, into=sums[place * 3 * size : (place + 1) * 3 * size].view(3, size))
            exact = v.to(torch.float64)
            # About ½, where squares of scores near 1 lose less.
            moments = torch.stack(
                [torch.tensor(float(len(v)), dtype=torch.float64), (exact - 0.5).sum(), (exact - 0.5).square().sum()]
            )
            sums[6 * size + 3 * place : 6 * size + 3 * place + 3] += moments

    def value(self, sums: Tensor, num_samples: int, num_classes: int) -> float:
        """The metric of the sums."""
        if self.metric in MEANS:
            return float(sums) / num_samples
        if self.metric == "ece_kde":
            return self._kernel_value(sums, num_samples)
        if self.metric == "classwise_ece":
            assert self.bins is not None
            curve = ReliabilityCurve(self.bins.edges, *sums)
            divide_by = num_classes if self.options["reduction"] == "mean" else 1
            return float(curve.error(self.options["norm"]).sum()) / divide_by
        assert self.bins is not None
        norms: dict[str, BinnedNorm] = {"mce": "max", "debiased_ece": "debiased"}
        norm: BinnedNorm = norms.get(self.metric) or self.options.get("part") or self.options["norm"]
        columns = num_classes if self.options["scope"] == "output" else 1
        n = num_samples * (columns if self.options.get("per") == "score" else 1)
        return float(Binned.of_curve(ReliabilityCurve(self.bins.edges, *sums), norm, n))

    def _kernel_value(self, sums: Tensor, num_samples: int) -> float:
        size = self.kde_cells
        (n, first, second), (n1, first1, second1) = sums[6 * size :].view(2, 3).tolist()
        rule = self.options["bandwidth"]
        if rule == "paper":
            radius = density.paper_bandwidth(int(n), _deviation(n, first, second))
        elif rule == "mix-n-match":
            radius = density.mix_n_match_bandwidth(int(n), _deviation(n1, first1, second1))
            if radius == 0 and _deviation(n, first, second) > 0:
                raise ValueError(density.NO_SPREAD_OF_HITS)
        else:
            radius = float(rule)
        per: float = n / num_samples if self.options["per"] == "sample" else 1.0
        if radius == 0:  # all scores equal
            return float(abs(first / n + 0.5 - n1 / n)) * per
        if radius * size < density.CELLS_PER_RADIUS:
            need = 1 << (density.grid_size(radius) - 1).bit_length()
            raise ValueError(
                f"`kde_cells` must be at least {need} for the bandwidth of these scores, {radius:.3g}, got {size}; "
                "the batches have to be run through again."
            )
        everything, hits = sums[: 6 * size].view(2, 3, size)
        return float(density.integrals(everything, hits, int(n), radius, self.options["boundary"])) * per


def _deviation(count: float, first: float, second: float) -> float:
    """The population standard deviation from sums of p − ½ and its square."""
    if count == 0:
        return 0.0
    variance = second / count - (first / count) ** 2
    # What the subtraction rounds away cannot be told from no spread at all.
    return variance**0.5 if variance > 1e-13 * second / count else 0.0


class Accumulator:
    """Metrics of batches: ``update`` with each, ``merge`` with others, ``compute`` at the end.

    The state is a few sums, independent of the number of samples (and of K, but for class-wise errors, which keep
    K·bins; a KDE keeps six numbers for each of ``kde_cells`` cells). Results equal those of the whole data: to 1e-12
    for binned errors and averages, to 1e-6 for the KDE, whose bandwidth is known only at the end. Equal-mass bins,
    ``aurc``, ``auroc`` and ``fpr_at_95`` need all samples at once and are refused.

    Under an initialised ``torch.distributed`` group ``compute`` sums the state of all ranks, each of which gets the
    result of all the data; every rank must call it, also one that saw no batch. The state stays each rank's own.

    Args:
        metrics: Names, or a mapping from names of your own to a name or to (name, options).
        kde_cells: Cells of [0, 1] for ``ece_kde``; the smallest bandwidth they serve is 256/cells.

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
        self._parts: dict[str, _Part] = {}
        for name, request in requests.items():
            metric, options = (request, {}) if isinstance(request, str) else request
            if metric in REFUSED:
                raise ValueError(f"`{metric}` cannot stream: {REFUSED[metric]}, so it needs them all at once.")
            if metric not in STREAMS:
                raise ValueError(f"`metrics` must be among {', '.join(STREAMS)}, got {metric!r}.")
            self._parts[name] = _Part(metric, options, kde_cells)
        self.num_samples = 0
        self.num_classes: int | None = None

    def _meet(self, num_classes: int) -> None:
        if self.num_classes not in (None, num_classes):
            raise ValueError(f"all batches must have the same classes, got {num_classes} after {self.num_classes}.")
        self.num_classes = num_classes

    def update(self, probabilities: Array, labels: Array) -> None:
        """Add a batch of (N, K) probabilities and (N,) labels; a batch that is refused leaves nothing behind."""
        p = checks.probabilities(probabilities, least=0)
        y = checks.class_labels(labels, num_samples=len(p), num_classes=p.shape[1]).to(p.device)
        for part in self._parts.values():
            if part.options.get("k", 0) > p.shape[1]:
                raise ValueError(f"`k` must be at most the number of classes, {p.shape[1]}, got {part.options['k']}.")
        self._meet(p.shape[1])
        if len(p) == 0:
            return
        for part in self._parts.values():
            part.update(p, y)
        self.num_samples += len(p)

    def merge(self, other: "Accumulator") -> None:
        """Add what another accumulator of the same metrics has seen."""
        mine = {name: (part.metric, part.options, part.kde_cells) for name, part in self._parts.items()}
        theirs = {name: (part.metric, part.options, part.kde_cells) for name, part in other._parts.items()}
        if mine != theirs:
            raise ValueError(f"only accumulators of the same metrics merge, got {list(theirs)} for {list(mine)}.")
        if other.num_classes is None:
            return
        self._meet(other.num_classes)
        for name, part in self._parts.items():
            added = other._parts[name].sums
            if added is not None:
                part.sums = added.clone() if part.sums is None else part.sums + added
        self.num_samples += other.num_samples

    def reset(self) -> None:
        """Forget all batches."""
        self.num_samples, self.num_classes = 0, None
        for part in self._parts.values():
            part.sums = None

    def compute(self) -> dict[str, float]:
        """Each metric over all batches, of all ranks where there are several."""
        seen = {k for k in ranks.gather(self.num_classes) if k is not None}
        if len(seen) > 1:
            raise ValueError(f"all ranks must have the same classes, got {sorted(seen)}.")
        num_classes = seen.pop() if seen else 0
        parts = list(self._parts.values())
        shapes = [part.shape(num_classes) for part in parts]
        zero = torch.zeros(0, dtype=torch.float64)
        own = [
            part.sums.flatten() if part.sums is not None else zero.new_zeros(torch.Size(shape).numel())
            for part, shape in zip(parts, shapes, strict=True)
        ]
        count = torch.tensor([float(self.num_samples)], dtype=torch.float64)
        line = ranks.total(torch.cat([count, *own]))  # one reduction for all; torch.cat made a copy
        num_samples = int(line[0])
        if num_samples == 0:
            raise ValueError("there is nothing to compute: `update` has seen no samples.")
        sums = line[1:].split([torch.Size(shape).numel() for shape in shapes])
        return {
            name: part.value(total.view(shape), num_samples, num_classes)
            for (name, part), total, shape in zip(self._parts.items(), sums, shapes, strict=True)
        }

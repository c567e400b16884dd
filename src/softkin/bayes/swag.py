"""SWAG: a Gaussian over the weights, from the path of SGD at a constant learning rate."""

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from softkin._core import checks
from softkin._core.modes import restored
from softkin.bayes.posterior import Posterior, TrainingRows, check_count, check_network, normal
from softkin.predictions import Predictions
from softkin.predictions.collecting import answer


class Swag(Posterior):
    r"""Stochastic weight averaging, Gaussian (SWAG).

    ``collect`` is called once per epoch while the learning rate is constant. With n weights θ_i collected, their
    running mean θ̄, their variance Σ = mean of θ_i² − θ̄² and the last R deviations D = (θ_i − θ̄_i), a member has the
    weights

    .. math:: \tilde\theta = \bar\theta + \tfrac{1}{\sqrt2}\, \Sigma^{1/2} z_1 + \tfrac{1}{\sqrt{2(R-1)}}\, D z_2

    with z_1, z_2 ~ N(0, I), and its own batch statistics, which are recomputed over the training rows. A single
    deviation spans no covariance; then only the diagonal is used. The moments are buffers of this module, so its
    ``state_dict`` is all that a resumed run needs.

    Args:
        model: The network, which is trained as usual; this module contains it.
        rank: R, the number of deviations to keep.
        samples: S, the number of members in a prediction.
        seed: Seed for drawing the members.
        start: Share of the training in ``training.fit`` after which weights are collected.
        lr: The constant learning rate from then on; None keeps the recipe's.

    Example:
        >>> model = nn.Linear(2, 3)
        >>> swag = Swag(model, samples=5)
        >>> for step in range(3):
        ...     with torch.no_grad():
        ...         _ = model.weight.fill_(float(step))
        ...     _ = swag.collect()
        >>> float(swag.mean[0]), float(swag.variance[0])
        (1.0, 0.6666666865348816)

    References:
        Maddox et al., A Simple Baseline for Bayesian Uncertainty in Deep Learning, 2019, arXiv:1902.02476, eq. 1 and
        algorithm 1.
    """

    mean: Tensor
    squares: Tensor
    deviations: Tensor
    collected: Tensor
    statistics: Tensor

    def __init__(
        self,
        model: nn.Module,
        *,
        rank: int = 20,
        samples: int = 30,
        seed: int = 0,
        start: float = 0.75,
        lr: float | None = None,
    ) -> None:
        super().__init__(check_network(model))
        self.rank, self.samples = checks.count(rank, "rank", least=0), check_count(samples, "samples")
        self.seed, self.start, self.lr = seed, start, lr
        size = sum(weights.numel() for weights in self._weights())
        if size == 0:
            raise ValueError("`model` must have weights that are trained, but has none.")
        like = self._weights()[0]
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float32, device=like.device))
        self.register_buffer("squares", torch.zeros_like(self.mean))
        self.register_buffer("deviations", torch.zeros(self.rank, size, device=like.device))
        self.register_buffer("collected", torch.zeros((), dtype=torch.int64))
        kept = sum(int(layer.num_features) for layer in self._normed())
        self.register_buffer("statistics", torch.zeros(self.samples if kept else 0, 2, kept, device=like.device))
        self._settled_at = -1
        # DistributedDataParallel would broadcast the buffers in every step, although all processes have the same ones.
        own = ("mean", "squares", "deviations", "collected", "statistics")
        nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self, own)

    def _weights(self) -> list[nn.Parameter]:
        return [weights for weights in self.network.parameters() if weights.requires_grad]

    def _normed(self) -> list[_BatchNorm]:
        layers = [module for module in self.network.modules() if isinstance(module, _BatchNorm)]
        return [layer for layer in layers if layer.track_running_stats]

    @property
    def count(self) -> int:
        return self.samples

    @property
    def variance(self) -> Tensor:
        """Σ, (P,): the population variance of each weight over the collected ones."""
        return self.squares / self.collected.clamp_min(1).to(self.squares.device)

    @torch.no_grad()
    def collect(self) -> Self:
        """Add the network's current weights to the moments."""
        theta = torch.cat([weights.detach().flatten() for weights in self._weights()]).to(self.mean)
        seen = int(self.collected)
        before = theta - self.mean
        self.mean += before / (seen + 1)
        # Welford's sum of squares: in float32, the difference of two large moments would lose the small variance.
        self.squares += before * (theta - self.mean)
        if self.rank:
            self.deviations[seen % self.rank] = theta - self.mean
        self.collected += 1
        self.statistics.zero_()  # they belong to draws around the former mean
        self._settled_at = -1
        return self

    def draw(self, place: int) -> Tensor:
        """The weights θ̃ of a member, (P,) on the network's device."""
        size, held = len(self.mean), min(int(self.collected), self.rank)
        z = normal(size, self.seed, "swag diagonal", place).to(self.mean)
        if held < 2:
            return self.mean + self.variance.sqrt() * z / math.sqrt(2)
        low = normal(held, self.seed, "swag low rank", place).to(self.mean)
        return (
            self.mean
            + self.variance.sqrt() * z / math.sqrt(2)
            + low @ self.deviations[:held] / math.sqrt(2 * (held - 1))
        )

    @contextlib.contextmanager
    def member(self, place: int) -> Iterator[nn.Module]:
        with self._with_weights(self.draw(place)):
            layers = self._normed()
            before = [(layer.running_mean, layer.running_var) for layer in layers]
            try:
                if layers:
                    self._put_statistics(self.statistics[place])
                yield self
            finally:
                for layer, (mean, var) in zip(layers, before, strict=True):
                    layer.running_mean, layer.running_var = mean, var

    @contextlib.contextmanager
    def _with_weights(self, theta: Tensor) -> Iterator[None]:
        before = [weights.data for weights in self._weights()]
        start = 0
        try:
            for weights in self._weights():
                part = theta[start : start + weights.numel()]
                weights.data = torch.empty_like(weights.data).copy_(part.view(weights.shape))
                start += weights.numel()
            yield
        finally:
            for weights, old in zip(self._weights(), before, strict=True):
                weights.data = old

    def _put_statistics(self, kept: Tensor) -> None:
        start = 0
        for layer in self._normed():
            end = start + int(layer.num_features)
            layer.running_mean, layer.running_var = kept[0, start:end].clone(), kept[1, start:end].clone()
            start = end

    @torch.no_grad()
    def settle(self, train_loader: Iterable[Any]) -> Self:
        """Recompute and keep the batch statistics of every member over the training rows; required before predicting.

        Each layer's running mean and variance become the averages of the batches' means and variances.

        Args:
            train_loader: Batches as for ``predict``; read once per member.
        """
        self.ready(settled=False)
        layers = self._normed()
        if layers:
            momenta = [layer.momentum for layer in layers]
            try:
                with restored(self.network):
                    for place in range(self.samples):
                        self._renew(place, train_loader, layers)
            finally:
                for layer, momentum in zip(layers, momenta, strict=True):
                    layer.momentum = momentum
        self._settled_at = int(self.collected)
        return self

    def _renew(self, place: int, train_loader: Iterable[Any], layers: list[_BatchNorm]) -> None:
        before = [(layer.running_mean, layer.running_var, layer.num_batches_tracked) for layer in layers]
        with self._with_weights(self.draw(place)):
            try:
                self.network.eval()
                for layer in layers:
                    layer.running_mean = torch.zeros_like(layer.running_mean)  # type: ignore[arg-type]
                    layer.running_var = torch.ones_like(layer.running_var)  # type: ignore[arg-type]
                    layer.num_batches_tracked = torch.zeros_like(layer.num_batches_tracked)  # type: ignore[arg-type]
                    layer.momentum = None  # the plain mean over batches
                    layer.train()
                empty = True
                for batch in train_loader:
                    empty = False
                    answer(self.network, batch, self.mean.device)
                if empty:
                    raise ValueError(
                        "`train_loader` must give its batches again for every member, but it has ended; pass a "
                        "DataLoader or a list, not an iterator."
                    )
                means = torch.cat([layer.running_mean for layer in layers])  # type: ignore[misc]
                variances = torch.cat([layer.running_var for layer in layers])  # type: ignore[misc]
                self.statistics[place] = torch.stack([means, variances]).to(self.statistics)
            finally:
                for layer, (mean, var, batches) in zip(layers, before, strict=True):
                    layer.running_mean, layer.running_var, layer.num_batches_tracked = mean, var, batches

    def ready(self, *, settled: bool = True) -> None:
        if int(self.collected) == 0:
            raise ValueError("call `collect` once per epoch before predicting: no weights were collected yet.")
        if settled and self._normed() and not bool(self.statistics.any()):
            raise ValueError(
                "the network has batch statistics, which each member needs of its own: pass `train_loader`, or call "
                "`settle` with it."
            )

    def predict(
        self, loader: Iterable[Any], *, train_loader: Iterable[Any] | None = None, **options: Any
    ) -> Predictions:
        """Predict as ``Posterior.predict`` does; ``train_loader`` renews batch statistics, if there are any."""
        if train_loader is not None and self._settled_at != int(self.collected):
            self.settle(train_loader)
        return super().predict(loader, **options)

    # During training

    def learning_rate(self, usual: float, share: float) -> float:
        return usual if self.lr is None or share < self.start else self.lr

    def end_epoch(self, share: float, rows: TrainingRows, *, looked_at: bool) -> None:
        if share > self.start or share == 1:
            self.collect()
        if share == 1:
            self.settle(_Again(rows))


class _Again:
    """Batches that can be iterated repeatedly."""

    def __init__(self, rows: TrainingRows) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(self.rows())

"""Laplace's approximation: a Gaussian around the trained weights, whose width follows the curvature of the loss."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, Self

import torch
from scipy.optimize import brentq, minimize_scalar
from torch import Tensor, nn
from torch.nn import functional as F

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.modes import evaluating
from softkin._core.randomness import key, seeded
from softkin.bayes.posterior import (
    Averaged,
    LogitsOf,
    Posterior,
    TrainingRows,
    check_count,
    check_network,
    device_of,
    last_layer,
    normal,
)
from softkin.predictions.collecting import answer

PREDICTIONS = ("probit", "sampled")
LAYERS = ("last", "all")
DECADES = 8  # of δ on either side of 1 that ``tune`` searches
WIDEST = 80.0  # bound of |ln δ| in the search for the prior's precision


class Laplace(Posterior):
    r"""A Kronecker-factored Gaussian over the last layer's weights W and bias b.

    With a_n the layer's input for training row n, p_n its probabilities and Λ_n = diag(p_n) − p_n p_nᵀ,

    .. math:: G = \sum_n \Lambda_n, \quad A = \frac1N \sum_n a_n a_n^T, \quad
              H_W = G \otimes A + \delta I, \quad H_b = G + \delta I

    and the weights are drawn from N(θ, H⁻¹) around the trained θ. The logits f of a sample are then Gaussian, and

    - "probit": p = softmax(f_k / √(1 + π/8·v_k)), where v_k is the variance of f_k, in one pass and without members
    - "sampled": the mean of softmax over ``samples`` draws of the weights, also in one pass through the network, since
      only the last layer differs

    The precision δ of the prior N(0, I/δ) maximises the marginal likelihood
    ln p(D|δ) = ln p(D|θ) − ½(ln det H − P ln δ + δ‖θ‖²). The only maximum solves δ‖θ‖² = Σ λ/(λ+δ), where λ runs over
    the eigenvalues of the curvature. ``tune`` chooses δ by held-out rows instead.

    Args:
        model: A trained network that ends in an ``nn.Linear``.
        prior_precision: δ; None maximises the marginal likelihood.
        prediction: "probit" or "sampled".
        samples: Number of draws for "sampled".
        layers: "last", or "all" through the package laplace-torch, ``pip install 'softkin[laplace]'``.
        layer: The layer that produces the logits, if it is not the last ``nn.Linear`` of the network.
        seed: Seed for the draws.

    References:
        Ritter et al., A Scalable Laplace Approximation for Neural Networks, 2018; Kristiadi et al., Being Bayesian,
        Even Just a Bit, 2020, arXiv:2002.10118 (last layer, probit); Immer et al., 2021, arXiv:2104.04975 (marginal
        likelihood); Daxberger et al., Laplace Redux, 2021, arXiv:2106.14806, whose laplace-torch has the same numbers.
    """

    precision: Tensor
    output_values: Tensor
    output_vectors: Tensor
    input_values: Tensor
    input_vectors: Tensor
    log_likelihood: Tensor

    def __init__(
        self,
        model: nn.Module,
        *,
        prior_precision: float | None = None,
        prediction: Literal["probit", "sampled"] = "probit",
        samples: int = 100,
        layers: Literal["last", "all"] = "last",
        layer: nn.Linear | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(check_network(model))
        checks.option(prediction, "prediction", PREDICTIONS)
        checks.option(layers, "layers", LAYERS)
        if prior_precision is not None and not checks.number(prior_precision, "prior_precision") > 0:
            raise ValueError(f"`prior_precision` must be above 0, got {prior_precision:g}.")
        self.prior_precision, self.prediction, self.layers, self.seed = prior_precision, prediction, layers, seed
        self.samples = check_count(samples, "samples")
        self._peer: Any = None
        self._drawn: Callable[[Tensor], None] | None = None
        self._layer = [last_layer(model, layer=layer)]  # in a list, or it would be registered a second time
        k, d = self.layer.weight.shape
        shapes = {
            "precision": (),
            "output_values": (k,),
            "output_vectors": (k, k),
            "input_values": (d,),
            "input_vectors": (d, d),
            "log_likelihood": (),
        }
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))
        nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self, tuple(shapes))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move only the network: the factors stay float64 on the CPU, where predictions are made from the features."""
        self.network._apply(fn, recurse)
        return self

    @property
    def layer(self) -> nn.Linear:
        """The layer with uncertain weights."""
        return self._layer[0]

    @property
    def count(self) -> int:
        return 1 if self.prediction == "probit" else self.samples

    @property
    def passes(self) -> int:
        return 1  # all draws are of the logits' Gaussian, or of the last layer

    def fit(self, train_loader: Iterable[Any]) -> Self:
        """Compute the curvature at the trained weights, in one pass over the training rows, and choose δ.

        Args:
            train_loader: Batches (inputs, labels) or mappings with ``labels``, without augmentation. ``layers="all"``
                needs a ``DataLoader``.
        """
        if self.layers == "all":
            self._fit_all(train_loader)
            return self
        k, d = self.layer.weight.shape
        g, a = torch.zeros(k, k, dtype=torch.float64), torch.zeros(d, d, dtype=torch.float64)
        total, rows = 0.0, 0
        for features, logits, labels in self._passed(train_loader):
            p = logits.softmax(dim=1)
            g += torch.diag(p.sum(dim=0)) - p.T @ p
            a += features.T @ features
            total += float(logits.log_softmax(dim=1).gather(1, labels[:, None]).sum())
            rows += len(labels)
        if rows == 0:
            raise ValueError("`train_loader` must give at least one batch, got none.")
        for name, factor in (("output", g), ("input", a / rows)):
            values, vectors = torch.linalg.eigh(factor)
            getattr(self, f"{name}_values").copy_(values.clamp_min(0.0))
            getattr(self, f"{name}_vectors").copy_(vectors)
        self.log_likelihood.fill_(total)
        self.precision.fill_(self._best_precision() if self.prior_precision is None else self.prior_precision)
        return self

    @torch.no_grad()
    def _passed(self, loader: Iterable[Any]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """(features, logits, labels) of each batch, float64 on the CPU."""
        seen: list[tuple[Tensor, Tensor]] = []
        hook = self._watched(seen)
        try:
            with evaluating(self.network):
                for batch in loader:
                    seen.clear()
                    output, labels, _ = answer(self.network, batch, device_of(self.network))
                    features, own = self._features_and_logits(seen, output)
                    yield features, own, torch.as_tensor(labels).cpu().long()
        finally:
            hook.remove()

    def _watched(self, seen: list[tuple[Tensor, Tensor]]) -> Any:
        """Record the layer's inputs and outputs until the handle is removed."""

        def note(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            seen.append((inputs[0].detach().cpu().double(), output.detach().cpu().double()))

        return self.layer.register_forward_hook(note)

    def _features_and_logits(self, seen: list[tuple[Tensor, Tensor]], logits: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's input and the logits, which must be the layer's output."""
        features, own = (torch.cat([pair[part] for pair in seen]) if seen else torch.empty(0, 0) for part in (0, 1))
        if own.shape != logits.shape or not torch.allclose(own, logits.detach().cpu().double(), atol=1e-5):
            raise ValueError(
                "the logits of `model` must be the output of its last nn.Linear, but they are not; name the layer that "
                "makes them as `layer`."
            )
        return features, own

    # The prior

    def _eigenvalues(self) -> Tensor:
        """Eigenvalues λ of the curvature: products of the factors' for the weights, those of G for the bias."""
        weights = (self.output_values[:, None] * self.input_values[None, :]).flatten()
        return weights if self.layer.bias is None else torch.cat([weights, self.output_values])

    def _squared_norm(self) -> float:
        weights = [self.layer.weight] + ([] if self.layer.bias is None else [self.layer.bias])
        return sum(float(part.detach().double().square().sum()) for part in weights)

    def log_marginal_likelihood(self, prior_precision: float | None = None) -> float:
        """The log of p(D|δ) of the training rows, by default at the current δ."""
        self.ready()
        delta = float(self.precision) if prior_precision is None else prior_precision
        values = self._eigenvalues()
        ratio = float((values / delta).log1p().sum())
        return float(self.log_likelihood) - 0.5 * (ratio + delta * self._squared_norm())

    def _best_precision(self) -> float:
        """The only δ with δ‖θ‖² = Σ λ/(λ+δ): the left side increases, and the right side decreases."""
        values, norm = self._eigenvalues(), self._squared_norm()

        def excess(log_delta: float) -> float:
            delta = math.exp(log_delta)
            return delta * norm - float((values / (values + delta)).sum())

        if excess(-WIDEST) >= 0 or excess(WIDEST) <= 0:  # without curvature or weights nothing determines δ
            return 1.0
        return math.exp(brentq(excess, -WIDEST, WIDEST, xtol=1e-12, rtol=1e-12))

    def tune(self, validation_loader: Iterable[Any]) -> Self:
        """Choose δ by the NLL of held-out rows in place of the marginal likelihood.

        Where a network fits its training rows with certainty, which few rows allow, the curvature is near 0, the
        marginal likelihood prefers a wide Gaussian, and predictions are far too unsure. Held-out rows show that. The
        NLL is that of "probit", whatever ``prediction`` says.

        Args:
            validation_loader: Batches as for ``fit``, of rows that were not trained on.
        """
        self.ready()
        if self._peer is not None:
            raise ValueError("`tune` is for layers='last'; pass `prior_precision` for all layers.")
        batches = list(self._passed(validation_loader))
        if not batches:
            raise ValueError("`validation_loader` must give at least one batch, got none.")
        features, logits, labels = (torch.cat(part) for part in zip(*batches, strict=True))

        def nll(log_delta: float) -> float:
            return float(F.cross_entropy(self._probit(features, logits, math.exp(log_delta)), labels))

        # The NLL may have several minima: the best of a grid, two points per factor of 10, is refined.
        grid = [math.log(10) * place / 2 for place in range(-2 * DECADES, 2 * DECADES + 1)]
        best = min(grid, key=nll)
        step = grid[1] - grid[0]
        refined = float(minimize_scalar(nll, bounds=(best - step, best + step), method="bounded").x)
        self.precision.fill_(math.exp(min(best, refined, key=nll)))
        return self

    # Predictions

    def ready(self) -> None:
        if float(self.precision) == 0 and self._peer is None:
            raise ValueError("call `fit` with the training rows before predicting.")

    def variances(self, features: Tensor) -> Tensor:
        """(N, K, K) covariance of the logits of samples with these features (N, d)."""
        u = self.output_vectors
        return torch.einsum("ik,nk,jk->nij", u, self._along(features, float(self.precision)), u)

    def _along(self, features: Tensor, delta: float) -> Tensor:
        """(N, K): the variance of the logits along each eigenvector of G."""
        g, a = self.output_values, self.input_values
        squares = (features.double() @ self.input_vectors) ** 2
        along = squares @ (1 / (g[:, None] * a[None, :] + delta)).T
        return along if self.layer.bias is None else along + 1 / (g + delta)

    def _probit(self, features: Tensor, logits: Tensor, delta: float) -> Tensor:
        """(N, K) logits whose softmax is the prediction; needs only the diagonal of ``variances``."""
        v = self._along(features, delta) @ self.output_vectors.square().T
        return logits / (1 + math.pi / 8 * v).sqrt()

    def averaged(self, logits_of: LogitsOf, *, members: bool = False) -> Averaged:
        self.ready()
        if self._peer is not None:
            return self._averaged_by_peer(logits_of, members=members)
        seen: list[tuple[Tensor, Tensor]] = []
        hook = self._watched(seen)
        try:
            features, logits = self._features_and_logits(seen, logits_of(self))
        finally:
            hook.remove()
        if self.prediction == "probit":
            return Averaged(self._probit(features, logits, float(self.precision)).softmax(dim=1))
        return Averaged.over(self._sampled(features, logits), keep=members)

    def _sampled(self, features: Tensor, logits: Tensor) -> Iterator[Tensor]:
        """Probabilities under each draw of the last layer."""
        delta, g, a = float(self.precision), self.output_values, self.input_values
        width = 1 / (g[:, None] * a[None, :] + delta).sqrt()
        projected = features @ self.input_vectors
        for place in range(self.samples):
            z = normal(len(a), self.seed, "laplace weights", place, rows=len(g)).double() * width
            moved = projected @ z.T
            if self.layer.bias is not None:
                moved = moved + normal(len(g), self.seed, "laplace bias", place).double() / (g + delta).sqrt()
            yield (logits + moved @ self.output_vectors.T).softmax(dim=1)

    # All layers

    def _fit_all(self, train_loader: Iterable[Any]) -> None:
        try:
            with warnings.catch_warnings():  # warnings of its own imports
                warnings.simplefilter("ignore")
                from laplace import Laplace as Peer  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError as error:
            raise SoftkinError(
                f"layers='all' needs laplace-torch: pip install 'softkin[laplace]' ({error})."
            ) from error
        self.network.eval()
        # laplace-torch flattens the weights by a view.
        self.network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        peer = Peer(self.network, "classification", "all", "kron", prior_precision=self.prior_precision or 1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer.fit(train_loader)
            if self.prior_precision is None:
                peer.optimize_prior_precision(method="marglik", link_approx="probit")
        self._peer = peer

    def _averaged_by_peer(self, logits_of: LogitsOf, *, members: bool) -> Averaged:
        parts: list[Averaged] = []
        self._drawn = lambda draws: parts.append(Averaged.over(draws, keep=members))
        try:
            with seeded(key(self.seed, "laplace all layers"), device_of(self.network)):
                p = logits_of(self).double().softmax(dim=1)
        finally:
            self._drawn = None
        return Averaged.joined(parts) if parts else Averaged(p)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        if self._peer is None or self.training or named:
            return super().forward(*inputs, **named)
        if self.prediction == "probit":
            p: Tensor = self._peer(*inputs, link_approx="probit").detach()
        else:
            draws = self._peer.predictive_samples(*inputs, n_samples=self.samples).detach()  # (samples, N, K)
            if self._drawn is not None:
                self._drawn(draws)
            p = draws.mean(dim=0)
        return p.clamp_min(torch.finfo(p.dtype).tiny).log()

    # During training

    def end_epoch(self, share: float, rows: TrainingRows, *, looked_at: bool) -> None:
        if share == 1:
            self.fit(rows())

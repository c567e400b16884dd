r"""A second head for few rows: a linear discriminant on features whose class means lean on their kin, blended in.

With M the class means of the training features, W their within-class scatter, N rows and K classes,

.. math:: \tilde C = (1-\rho) \frac{W}{N-K} + \rho\,\tau I, \qquad \tilde M = (1-\lambda) M + \lambda S M,

where τ is the mean variance and S the class similarity. The discriminant's scores are
:math:`d_k = \tilde M_k \tilde C^{-1} x - \frac12 \tilde M_k \tilde C^{-1} \tilde M_k`. In least squares, class means
that lean on their kin are exactly what class-similarity labels do. With q = softmax(t·d) and z the network's logits,

.. math:: p = \mathrm{softmax}\bigl(a\,z + c \ln(0.9\,q + 0.1\,q S + 0.001/K)\bigr).

ρ and λ are those with the least leave-one-out NLL on the training rows, which has a closed form; t, a and c are fitted
to held-out rows.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.named_labels import labelled, numbered
from softkin.calibrators.calibrator import Calibrator, in_kind
from softkin.calibrators.fitted import Certificate, Formula, HeldOut, Solution
from softkin.calibrators.held_out import as_logits, folds_of
from softkin.calibrators.temperature import TemperatureScaling
from softkin.similarity import SparseRows

RIDGES = (0.1, 0.3, 0.5, 0.8)
LEANS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7)
SPREAD, LEAST = 0.1, 0.001  # of the discriminant's probability, to kin and to every class
FOLDS = 5
FLAT = 1e-5  # largest slope of the mean NLL at which a fit has converged


class _Beside(NamedTuple):
    """What a fit reads besides logits and labels."""

    features: Tensor
    train_features: Tensor
    train_labels: Tensor
    same: bool
    """Whether the training rows are the rows of the logits"""


class KinHead(Calibrator, unlisted=True):
    """A linear discriminant on frozen features, blended with the network's logits.

    It is one solve, no training, and lowers the NLL where rows are few: about 50 per class or fewer. Much of its gain
    is that of a second opinion, which ``similarity=None``, the control without kin, has too. Where cross-validation on
    the held-out rows shows no gain, it is a plain temperature (``is_temperature``).

    Args:
        similarity: S, (K, K) as ``softkin.similarity`` makes it, or None.
        ridge: ρ, or None to choose it.
        lean: λ, or None to choose it.

    Attributes:
        ridge_, lean_: The shares used.
        sharpness_, own_, weight_: t, a and c.
        gain_: By how much cross-validation lowered the NLL of temperature scaling; negative if it did not.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> centres = torch.randn(5, 8, generator=generator)
        >>> labels = torch.arange(400) % 5
        >>> x = centres[labels] + torch.randn(400, 8, generator=generator)
        >>> logits = x[:, :5]  # of some network
        >>> held_out, train = slice(100, 200), slice(0, 100)
        >>> head = KinHead().fit(
        ...     logits[held_out],
        ...     labels[held_out],
        ...     features=x[held_out],
        ...     train_features=x[train],
        ...     train_labels=labels[train],
        ... )
        >>> head.predict_proba(logits[200:], features=x[200:]).shape
        torch.Size([200, 5])
        >>> head.gain_ > 0.1
        True
    """

    takes_features = True
    kept = ("projection_", "bias_", "ridge_", "lean_", "sharpness_", "own_", "weight_", "gain_")
    projection_: Tensor
    """(d, K)"""
    bias_: Tensor
    """(K,)"""
    ridge_: float
    lean_: float
    sharpness_: float
    own_: float
    weight_: float
    gain_: float
    _beside: _Beside

    def __init__(
        self, similarity: Array | SparseRows | None = None, *, ridge: float | None = None, lean: float | None = None
    ) -> None:
        self.similarity, self.ridge, self.lean = similarity, ridge, lean
        self.check_options()

    def check_options(self) -> None:
        given = self.similarity
        dense = given.dense() if isinstance(given, SparseRows) else given
        self._kin = None if dense is None else checks.square(dense, "similarity")
        if self._kin is not None:
            checks.rows_sum_to_one(self._kin, "similarity")
        for value, name in ((self.ridge, "ridge"), (self.lean, "lean")):
            if value is not None and not 0 <= checks.number(value, name) <= 1:
                raise ValueError(f"`{name}` must be from 0 to 1, got {value}.")
        if self.lean and self._kin is None:
            raise ValueError("`lean` needs a `similarity` to lean on.")

    def plain_options(self) -> dict[str, Any]:
        return {"similarity": self._kin, "ridge": self.ridge, "lean": self.lean}

    @property
    def is_temperature(self) -> bool:
        """Whether cross-validation showed no gain, and the head is a temperature alone."""
        return self.weight_ == 0

    # Fitting

    @torch.no_grad()
    def fit(
        self,
        logits: Array,
        labels: Array,
        *,
        from_probabilities: bool | None = None,
        floor: float | None = None,
        sample_ids: Sequence[Any] | Array | None = None,
        class_names: Sequence[str] | None = None,
        sample_weight: Array | None = None,
        ignore_index: int | None = None,
        features: Array | None = None,
        train_features: Array | None = None,
        train_labels: Array | None = None,
    ) -> Self:
        """Fit the discriminant to training rows, and its blend to held-out rows.

        Args:
            logits: (N, K) the network's logits of rows that it was not trained on, or probabilities.
            labels: (N,) their classes, or texts as for other calibrators.
            from_probabilities: Whether ``logits`` are probabilities; None: no, with a warning if they look so.
            floor: The value that replaces a probability of 0, as for other calibrators.
            sample_ids: Names or numbers of the rows; a later prediction of any of them causes a warning.
            class_names: Names of the classes, kept in files.
            sample_weight: None: heads take no weights.
            ignore_index: None: heads leave out no rows.
            features: (N, d) the features of the same rows; more dimensions are flattened.
            train_features: (n, d) features of the rows that the network was trained on. None: the discriminant is
                fitted to ``features``, and the blend to what it says of each row without that row; the logits must
                then be those of cross-validation.
            train_labels: (n,) their classes.
        """
        if features is None:
            raise ValueError("`features` must be given: (N, d), beside the logits; `predictions.collect` keeps them.")
        if sample_weight is not None or ignore_index is not None:
            raise ValueError("KinHead takes neither `sample_weight` nor `ignore_index`.")
        if (train_features is None) != (train_labels is None):
            raise ValueError("`train_features` and `train_labels` must be given together, or both left out.")
        labels, logits, features, sample_ids = labelled(labels, logits, features, sample_ids)
        labels, class_names = numbered(labels, logits, class_names)
        z, self.floor_ = as_logits(logits, from_probabilities, floor, labels, least=1)
        y = checks.class_labels(labels, num_samples=len(z), num_classes=z.shape[1]).cpu()
        self._beside = self._checked(z, y, features, train_features, train_labels, class_names)
        self.fell_back_ = False
        self._held_out: HeldOut | None = None
        try:
            self.fit_to(
                z,
                y,
                source="probabilities" if from_probabilities else "logits",
                sample_ids=sample_ids,
                class_names=class_names,
            )
        finally:
            del self._beside
        self.certificate_ = replace(self.certificate_, held_out=self._held_out)
        if not self.certificate_.converged:
            warnings.warn(f"KinHead did not converge: {self.certificate_}", stacklevel=3)
        return self

    def _checked(
        self, z: Tensor, y: Tensor, features: Any, train_features: Any, train_labels: Any, names: Any
    ) -> _Beside:
        k, x = z.shape[1], _features(features, "features", len(z))
        if self._kin is not None and len(self._kin) != k:
            raise ValueError(f"`similarity` covers {len(self._kin)} classes, and the logits have {k}.")
        same, what = train_features is None, "labels" if train_features is None else "train_labels"
        own = x if same else _features(train_features, "train_features")
        if own.shape[1] != x.shape[1]:
            raise ValueError(f"`train_features` has {own.shape[1]} numbers in a row, and `features` {x.shape[1]}.")
        own_y = y
        if not same:
            numbers, _ = numbered(train_labels, own, names)
            own_y = checks.class_labels(numbers, num_samples=len(own), num_classes=k).cpu()
        absent = (torch.bincount(own_y, minlength=k) == 0).nonzero()[:, 0].tolist()
        if absent:
            raise ValueError(f"`{what}` must hold every class, but class {absent[0]} has no row.")
        return _Beside(x, own, own_y, same)

    def fit_rows(self, rows: Tensor, labels: Tensor) -> Solution:
        x, own, own_y, same = self._beside
        self._solve(own, own_y)
        d = x @ self.projection_ + self.bias_
        seen = torch.ones(len(rows), dtype=torch.bool)
        if same:  # no row may be judged by a discriminant that it helped to make
            seen = torch.bincount(own_y, minlength=rows.shape[1])[own_y] > 1
            d[seen], _ = left_out(own, own_y, rows.shape[1], self._kin, self.ridge_, self.lean_)
        end = self._blend(rows[seen], d[seen], labels[seen])
        return replace(end, probabilities=self._mixed(rows, d, self._parameters()))

    def _solve(self, x: Tensor, y: Tensor) -> None:
        ridges = RIDGES if self.ridge is None else (self.ridge,)
        leans = (0.0,) if self._kin is None else LEANS if self.lean is None else (self.lean,)
        best = min(
            ((ridge, lean) for ridge in ridges for lean in leans),
            key=lambda shares: (
                0.0
                if len(ridges) * len(leans) == 1
                else _least_nll(*left_out(x, y, self.num_classes_, self._kin, *shares))
            ),
        )
        self.ridge_, self.lean_ = best
        self.projection_, self.bias_ = discriminant(x, y, self.num_classes_, self._kin, *best)

    def _blend(self, z: Tensor, d: Tensor, y: Tensor) -> Solution:
        """Fit t, a and c; keep the temperature alone if cross-validation shows no gain."""
        scaled = TemperatureScaling().fit(z, y)
        parameters, end = self._fitted(z, d, y, scaled.temperature_)
        self.gain_ = 0.0
        alone, blended = torch.softmax(z / scaled.temperature_, dim=1), torch.zeros_like(z)
        if len(z) >= 2 * FOLDS:
            for held in folds_of(len(z), FOLDS, 0):
                rest = torch.ones(len(z), dtype=torch.bool)
                rest[held] = False
                temperature = TemperatureScaling().fit(z[rest], y[rest]).temperature_
                alone[held] = torch.softmax(z[held] / temperature, dim=1)
                fitted, _ = self._fitted(z[rest], d[rest], y[rest], temperature)
                blended[held] = self._mixed(z[held], d[held], fitted)
            self.gain_ = _nll(alone, y) - _nll(blended, y)
            before, after = torch.softmax(z, dim=1), blended if self.gain_ > 0 else alone
            self._held_out = HeldOut.of(FOLDS, before, after, y)
        if not self.gain_ > 0:
            parameters = torch.tensor([1.0, 1 / scaled.temperature_, 0.0], dtype=torch.float64)
            told = scaled.certificate_
            end = Solution(told.gradient_norm, told.iterations, told.bound_hit, told.converged)
            end = replace(end, notes=("no gain over a temperature by cross-validation",))
        self.sharpness_, self.own_, self.weight_ = parameters.tolist()
        return end

    def _fitted(self, z: Tensor, d: Tensor, y: Tensor, temperature: float) -> tuple[Tensor, Solution]:
        """t, a and c of the least NLL, from the logits' temperature on, and how the search ended."""
        from scipy.optimize import minimize

        start = [1 / TemperatureScaling().fit(d, y).temperature_, 1 / temperature]
        begin = [*torch.tensor(start, dtype=torch.float64).clamp(1e-6, 1e6).log().tolist(), 0.3]

        def parameters(at: Tensor) -> Tensor:
            """From ln t, ln a and c·t over the start of t: where q is flat, c and t matter by their product alone."""
            return torch.cat([at[:2].exp(), at[2:] * (begin[0] - at[:1]).exp()])

        def loss(values: Any) -> tuple[float, Any]:
            with torch.enable_grad():
                at = torch.tensor(values, dtype=torch.float64, requires_grad=True)
                p = self._mixed(z, d, parameters(at), logarithms=True)
                value = -p.gather(1, y[:, None]).mean()
                (slope,) = torch.autograd.grad(value, at)
            return float(value.detach()), slope.numpy()

        bounds = [(begin[0] - 3, begin[0] + 6), (begin[1] - 12, begin[1] + 6), (0.0, 20.0)]
        options = {"ftol": 1e-14, "gtol": FLAT / 100, "maxiter": 500}
        end = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        free = [low < value < high for value, (low, high) in zip(end.x, bounds, strict=True)]
        slope = max((abs(float(one)) for one, inside in zip(end.jac, free, strict=True) if inside), default=0.0)
        about = Solution(slope, int(end.nit), bound_hit=not all(free), converged=slope < FLAT)
        return parameters(torch.from_numpy(end.x)), about

    def _parameters(self) -> Tensor:
        return torch.tensor([self.sharpness_, self.own_, self.weight_], dtype=torch.float64)

    def _mixed(self, z: Tensor, d: Tensor, parameters: Tensor, *, logarithms: bool = False) -> Tensor:
        """The blended probabilities, or their logarithms."""
        t, a, c = parameters
        scores = blend(a * z, t * d, c, self._kin)
        return torch.log_softmax(scores, dim=1) if logarithms else torch.softmax(scores, dim=1)

    # Predicting

    @torch.no_grad()
    def predict_proba(
        self,
        logits: Array,
        *,
        from_probabilities: bool | None = None,
        floor: float | None = None,
        sample_ids: Sequence[Any] | Array | None = None,
        class_names: Sequence[str] | None = None,
        features: Array | None = None,
    ) -> Any:
        """Calibrated probabilities (N, K) of logits (N, K) and features (N, d), like the logits.

        Args:
            logits: (N, K), or probabilities with ``from_probabilities=True``.
            from_probabilities: Whether ``logits`` are probabilities; None: no, with a warning if they look so.
            floor: The value that replaces a probability of 0, by default that of the fit.
            sample_ids: If the fit had ids too, a warning counts the samples that are in both.
            class_names: The names of the columns, which may be in another order than those of the fit.
            features: (N, d) the features of the same rows.
        """
        self.check_fitted()
        order = self.order_of(logits, class_names)
        if order is not None:
            p = self.predict_proba(
                checks.as_tensor(logits, "logits")[:, order],
                from_probabilities=from_probabilities,
                floor=floor,
                sample_ids=sample_ids,
                features=features,
            )
            return checks.like(p[:, order.argsort()], logits)
        if features is None:
            raise ValueError("`features` must be given: (N, d), beside the logits.")
        z, _ = as_logits(logits, from_probabilities, self.floor_ if floor is None and from_probabilities else floor)
        self.check_rows(z, sample_ids)
        x = _features(features, "features", len(z))
        if x.shape[1] != len(self.projection_):
            raise ValueError(f"this head takes {len(self.projection_)} features in a row, got {x.shape[1]}.")
        return in_kind(self._mixed(z, x @ self.projection_ + self.bias_, self._parameters()), logits)

    def answer(self, rows: Tensor) -> Tensor:
        """Refused: logits alone are not enough."""
        raise TypeError("KinHead needs features beside logits, and cannot be one of several calibrators in a chain.")

    def certify(self, logits: Array | None = None, labels: Array | None = None, **_: Any) -> Certificate:
        """The certificate; cross-validation is part of the fit, so there is nothing left to do."""
        self.check_fitted()
        return self.certificate_

    def summary(self) -> str:
        if self.is_temperature:
            return f"no gain over a temperature, T = {1 / self.own_:.4g}"
        shares = f"ρ = {self.ridge_:g}" + ("" if self._kin is None else f", λ = {self.lean_:g}")
        return f"{shares}, weight {self.weight_:.3g}, gain {self.gain_:.4f} over a temperature by cross-validation"

    # Files

    def restore(self, attributes: Mapping[str, Any]) -> None:
        super().restore(attributes)
        for name in self.kept[2:]:
            setattr(self, name, checks.number(getattr(self, name), name))

    def try_out(self) -> None:
        """Map a few rows: the results must be distributions."""
        k = self.num_classes_
        if self.bias_.shape != (k,) or self.projection_.ndim != 2 or self.projection_.shape[1] != k:
            raise ValueError("its numbers do not fit together")
        if self._kin is not None and len(self._kin) != k:
            raise ValueError(f"its similarity covers {len(self._kin)} classes, and it has {k}")
        rows = torch.zeros(2, k, dtype=torch.float64)
        x = torch.ones(2, len(self.projection_), dtype=torch.float64)
        p = self._mixed(rows, x @ self.projection_ + self.bias_, self._parameters())
        if not float((p.sum(dim=1) - 1).abs().max()) < 1e-6:  # also refuses NaN
            raise ValueError("its numbers do not fit together")
        _ = repr(self), str(self.certificate_)

    # Leaving Python

    def folded(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        if not self.is_temperature:
            raise TypeError(
                "KinHead's blend is not linear; as_module(layer=…) computes the network's scores and its own by one "
                "layer."
            )
        return self.own_ * weight, self.own_ * bias

    def formula(self) -> Formula:
        """Scores (n, 2K), a·z beside t·d → probabilities."""
        numbers = [torch.tensor(self.weight_, dtype=torch.float64), *([] if self._kin is None else [self._kin])]
        return _blended, numbers

    def as_module(self, *, class_dim: int = 1, layer: nn.Linear | None = None) -> nn.Module:
        """The fitted map as a module, which exports to ONNX.

        Args:
            class_dim: 1, the only dimension that it can be.
            layer: The network's last layer, if it reads the same features: the module then takes features alone, and
                computes both scores by one linear layer of 2K outputs, or of K where it is a temperature. None: the
                module takes logits and features.
        """
        self.check_fitted()
        if class_dim != 1:
            raise ValueError(f"`class_dim` must be 1 for KinHead, got {class_dim}.")
        own = nn.Linear(len(self.projection_), self.num_classes_, dtype=torch.float64)
        with torch.no_grad():
            own.weight.copy_(self.sharpness_ * self.projection_.T)
            own.bias.copy_(self.sharpness_ * self.bias_)
        own.requires_grad_(False)
        if layer is None:
            return LogitsAndFeatures(own, self.own_, self.module())
        if (layer.in_features, layer.out_features) != tuple(self.projection_.shape):
            raise ValueError(
                f"`layer` must take {self.projection_.shape[0]} features and return {self.num_classes_} logits, got "
                f"{layer.in_features} and {layer.out_features}."
            )
        return _folded(layer, self.own_, None if self.is_temperature else own, self.module())


def discriminant(
    x: Tensor, y: Tensor, num_classes: int, similarity: Tensor | None, ridge: float, lean: float
) -> tuple[Tensor, Tensor]:
    """(d, K) and (K,): the discriminant's scores are x @ the first + the second."""
    means, _, scatter, variance = _moments(x, y, num_classes)
    spread = max(1, len(x) - num_classes)
    covariance = (1 - ridge) * scatter / spread + ridge * variance * torch.eye(x.shape[1], dtype=torch.float64)
    leaning = means if similarity is None else (1 - lean) * means + lean * similarity @ means
    projection = torch.linalg.solve(covariance, leaning.T)
    return projection, -0.5 * (leaning * projection.T).sum(dim=1)


def left_out(
    x: Tensor, y: Tensor, num_classes: int, similarity: Tensor | None, ridge: float, lean: float
) -> tuple[Tensor, Tensor]:
    """(scores, labels) of the training rows, each scored by a discriminant without it; a row alone in its class is not.

    Without row i, whose residual is r, the mean of its class moves by −r/(n_k−1), the means that lean on it with it,
    and the scatter loses n_k/(n_k−1)·r rᵀ, whose inverse follows by Sherman and Morrison. τ is that of all rows.
    """
    means, counts, scatter, variance = _moments(x, y, num_classes)
    kept = counts[y] > 1
    x, y = x[kept], y[kept]
    n = counts[y]
    residual = x - means[y]
    spread = max(1.0, float(counts.sum()) - 1 - num_classes)
    a = (1 - ridge) * scatter / spread + ridge * variance * torch.eye(x.shape[1], dtype=torch.float64)
    identity = torch.eye(num_classes, dtype=torch.float64)
    mixing = identity if similarity is None else (1 - lean) * identity + lean * similarity
    leaning = mixing @ means
    solved = torch.linalg.solve(a, leaning.T)  # (d, K)
    u = torch.linalg.solve(a, residual.T).T  # (n, d)
    v = (residual * u).sum(dim=1)
    c = (1 - ridge) * n / (n - 1) / spread
    factor = (c / (1 - c * v).clamp(min=1e-12))[:, None]
    g = mixing.T[y] / (n - 1)[:, None]  # (n, K): by how much of r each mean moves
    xu = (x * u).sum(dim=1, keepdim=True)
    along = u @ leaning.T
    own = along - g * v[:, None]  # u · m
    linear = x @ solved - g * xu + factor * xu * own
    square = (leaning * solved.T).sum(dim=1) - 2 * g * along + g.square() * v[:, None] + factor * own.square()
    return linear - 0.5 * square, y


def _moments(x: Tensor, y: Tensor, num_classes: int) -> tuple[Tensor, Tensor, Tensor, float]:
    """Class means, counts, within-class scatter, and the mean variance."""
    counts = torch.bincount(y, minlength=num_classes).to(torch.float64)
    means = torch.zeros(num_classes, x.shape[1], dtype=torch.float64).index_add_(0, y, x) / counts[:, None]
    residual = x - means[y]
    scatter = residual.T @ residual
    variance = float(scatter.diagonal().mean()) / max(1, len(x) - num_classes)
    if not variance > 0:
        raise ValueError("`training` features must vary within classes; all rows of each class are equal.")
    return means, counts, scatter, variance


def _least_nll(scores: Tensor, labels: Tensor) -> float:
    """The NLL at the best temperature."""
    return float(TemperatureScaling().fit(scores, labels).certificate_.nll_after)


def _nll(p: Tensor, y: Tensor) -> float:
    return float(-p.gather(1, y[:, None]).log().mean())


def _features(values: Any, name: str, num_samples: int | None = None) -> Tensor:
    """(N, d) float64; features of more dimensions are flattened."""
    x = checks.as_tensor(values, name).to("cpu", torch.float64)
    if x.ndim < 2 or (num_samples is not None and len(x) != num_samples):
        expected = "N" if num_samples is None else str(num_samples)
        raise ValueError(f"`{name}` must have shape ({expected}, d), got {tuple(x.shape)}.")
    checks.finite(x, name)
    return x.flatten(1)


# The blend, in Python and as modules


def blend(own: Tensor, other: Tensor, weight: Tensor, similarity: Tensor | None) -> Tensor:
    """Scores a·z + c·ln(0.9 q + 0.1 q S + 0.001/K), q = softmax(t·d): ``own`` is a·z and ``other`` t·d."""
    q = torch.softmax(other, dim=1)
    kin = q if similarity is None else q @ similarity
    return own + weight * ((1 - SPREAD) * q + SPREAD * kin + LEAST / q.shape[1]).log()


def _blended(scores: Tensor, weight: Tensor, similarity: Tensor | None = None) -> Tensor:
    own, other = scores.chunk(2, dim=1)
    return torch.softmax(blend(own, other, weight, similarity), dim=1)


class LogitsAndFeatures(nn.Module):
    """A head as a module of logits (N, K) and features (N, d), in the dtype of the logits."""

    def __init__(self, discriminant: nn.Linear, own: float, after: nn.Module) -> None:
        super().__init__()
        self.discriminant, self.own, self.after = discriminant, own, after

    def forward(self, logits: Tensor, features: Tensor) -> Tensor:
        """Calibrated probabilities."""
        x, layer = features.flatten(1).to(logits), self.discriminant
        d = torch.nn.functional.linear(x, layer.weight.to(logits), layer.bias.to(logits))
        p: Tensor = self.after(torch.cat([self.own * logits, d], dim=1))
        return p


@torch.no_grad()
def _folded(layer: nn.Linear, own: float, discriminant: nn.Linear | None, after: nn.Module) -> nn.Module:
    """A network's last layer and the discriminant as one layer, followed by the blend, or by softmax without it."""
    bias = torch.zeros(layer.out_features) if layer.bias is None else layer.bias.cpu()
    weights, biases = [own * layer.weight.cpu().double()], [own * bias.double()]
    if discriminant is not None:
        weights, biases = [*weights, discriminant.weight], [*biases, discriminant.bias]
    weight, bias = torch.cat(weights), torch.cat(biases)
    one = nn.Linear(weight.shape[1], len(weight), device=layer.weight.device, dtype=layer.weight.dtype)
    one.weight.copy_(weight)
    one.bias.copy_(bias)
    return nn.Sequential(one, nn.Softmax(dim=1) if discriminant is None else after)

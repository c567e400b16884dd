r"""A second head for few rows: a linear discriminant on features whose class means lean on their kin, blended in.

With M the class means of the training features, W their within-class scatter, N rows and K classes,

.. math:: \tilde C = (1-\rho) \frac{W}{N-K} + \rho\,\tau I, \qquad \tilde M = (1-\lambda) M + \lambda S M,

where τ is the mean variance and S the class similarity. The discriminant's scores are
:math:`d_k = \tilde M_k \tilde C^{-1} x - \frac12 \tilde M_k \tilde C^{-1} \tilde M_k`. In least squares, class means
that lean on their kin are exactly what class-similarity labels do. With q = softmax(t·d) and z the network's logits,

.. math:: p = \mathrm{softmax}\bigl(a\,z + c \ln(0.9\,q + 0.1\,q S + 0.001/K)\bigr).

ρ and λ are those with the least leave-one-out NLL on the training rows, which has a closed form; t, a and c are fitted
to validation rows.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from softkin import SoftkinError, __version__
from softkin._core import checks, threads
from softkin._core.checks import Array
from softkin._io import bundles, files
from softkin.calibrators.held_out import folds_of
from softkin.calibrators.temperature import TemperatureScaling
from softkin.similarity import SparseRows

RIDGES = (0.1, 0.3, 0.5, 0.8)
LEANS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7)
SPREAD, LEAST = 0.1, 0.001  # of the discriminant's probability, to kin and to every class
FOLDS = 5
FILE = "kin_head.safetensors"
FORMAT = 1


class KinHead:
    """A linear discriminant on frozen features, blended with the network's logits.

    It is one solve, no training, and lowers the NLL where rows are few: about 50 a class or fewer. Much of its gain is
    that of a second opinion, which ``similarity=None``, the control without kin, has too. Where cross-validation on the
    validation rows shows no gain, it is a plain temperature (``fell_back_``).

    Args:
        similarity: S, (K, K) as ``softkin.similarity`` makes it, or None.
        ridge: ρ, or None to choose it.
        lean: λ, or None to choose it.

    Attributes:
        ridge_, lean_: The shares used.
        sharpness_, own_, weight_: t, a and c.
        gain_: By how much cross-validation lowered the NLL of temperature scaling; negative if it did not.
        fell_back_: Whether it is a temperature alone.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> centres = torch.randn(5, 8, generator=generator)
        >>> labels = torch.arange(400) % 5
        >>> x = centres[labels] + torch.randn(400, 8, generator=generator)
        >>> logits = x[:, :5]  # of some network
        >>> head = KinHead().fit(
        ...     logits[100:200], labels[100:200], features=x[100:200], training=(x[:100], labels[:100])
        ... )
        >>> head.predict_proba(logits[200:], features=x[200:]).shape
        torch.Size([200, 5])
        >>> head.gain_ > 0.1
        True
    """

    def __init__(
        self, similarity: Array | SparseRows | None = None, *, ridge: float | None = None, lean: float | None = None
    ) -> None:
        dense = similarity.dense() if isinstance(similarity, SparseRows) else similarity
        self.similarity = None if dense is None else checks.square(dense, "similarity")
        if self.similarity is not None:
            checks.rows_sum_to_one(self.similarity, "similarity")
        for value, name in ((ridge, "ridge"), (lean, "lean")):
            if value is not None and not 0 <= checks.number(value, name) <= 1:
                raise ValueError(f"`{name}` must be from 0 to 1, got {value}.")
        if lean and self.similarity is None:
            raise ValueError("`lean` needs a `similarity` to lean on.")
        self.ridge, self.lean = ridge, lean

    @torch.no_grad()
    def fit(
        self,
        logits: Array,
        labels: Array,
        *,
        features: Array,
        training: tuple[Array, Array],
        class_names: Sequence[str] | None = None,
    ) -> Self:
        """Fit the discriminant to training rows, and its blend to validation rows.

        Args:
            logits: (N, K) the network's logits of validation rows.
            labels: (N,) their classes.
            features: (N, d) their features.
            training: Features (n, d) and labels (n,) of the rows that the network's head was trained on.
            class_names: Names of the classes, kept in files.
        """
        z = checks.logits(logits).to("cpu", torch.float64)
        n, k = z.shape
        y = checks.class_labels(labels, num_samples=n, num_classes=k).cpu()
        x = _features(features, n)
        own = _features(training[0])
        own_y = checks.class_labels(training[1], num_samples=len(own), num_classes=k).cpu()
        if own.shape[1] != x.shape[1]:
            raise ValueError(f"`training` has {own.shape[1]} features a row, and `features` {x.shape[1]}.")
        if self.similarity is not None and len(self.similarity) != k:
            raise ValueError(f"`similarity` covers {len(self.similarity)} classes, and the logits have {k}.")
        absent = (torch.bincount(own_y, minlength=k) == 0).nonzero()[:, 0].tolist()
        if absent:
            raise ValueError(f"`training` must hold every class, but class {absent[0]} has no row.")
        self.num_classes_, self.num_features_ = k, x.shape[1]
        self.class_names_ = None if class_names is None else checks.class_names(class_names, num_classes=k)
        with threads.for_work(max(z.numel(), own.numel())):
            self._solve(own, own_y)
            self._blend(z, x @ self.projection_ + self.bias_, y)
        return self

    def _solve(self, x: Tensor, y: Tensor) -> None:
        ridges = RIDGES if self.ridge is None else (self.ridge,)
        leans = (0.0,) if self.similarity is None else LEANS if self.lean is None else (self.lean,)
        if len(ridges) * len(leans) == 1:
            best = (ridges[0], leans[0])
        else:
            best = min(
                ((ridge, lean) for ridge in ridges for lean in leans),
                key=lambda shares: _least_nll(*left_out(x, y, self.num_classes_, self.similarity, *shares)),
            )
        self.ridge_, self.lean_ = best
        self.projection_, self.bias_ = discriminant(x, y, self.num_classes_, self.similarity, *best)

    def _blend(self, z: Tensor, d: Tensor, y: Tensor) -> None:
        """Fit t, a and c; keep the temperature alone if cross-validation shows no gain."""
        temperature = TemperatureScaling().fit(z, y).temperature_
        parameters = self._fitted(z, d, y, temperature)
        losses = torch.zeros(2, dtype=torch.float64)
        if len(z) >= 2 * FOLDS:
            for held in folds_of(len(z), FOLDS, 0):
                rest = torch.ones(len(z), dtype=torch.bool)
                rest[held] = False
                scaled = TemperatureScaling().fit(z[rest], y[rest]).temperature_
                blended = self._mixed(z[held], d[held], self._fitted(z[rest], d[rest], y[rest], scaled))
                for place, p in enumerate((torch.softmax(z[held] / scaled, dim=1), blended)):
                    losses[place] += _nll(p, y[held]) * len(held) / len(z)
        self.gain_ = float(losses[0] - losses[1])
        self.fell_back_ = not self.gain_ > 0
        if self.fell_back_:
            parameters = torch.tensor([1.0, 1 / temperature, 0.0], dtype=torch.float64)
        self.sharpness_, self.own_, self.weight_ = parameters.tolist()
        self.nll_before_ = _nll(torch.softmax(z / temperature, dim=1), y)
        self.nll_after_ = _nll(self._mixed(z, d, parameters), y)

    def _fitted(self, z: Tensor, d: Tensor, y: Tensor, temperature: float) -> Tensor:
        """t, a and c of the least NLL, from the logits' temperature on."""
        from scipy.optimize import minimize

        start = [1 / TemperatureScaling().fit(d, y).temperature_, 1 / temperature]

        def loss(values: Any) -> tuple[float, Any]:
            with torch.enable_grad():
                at = torch.tensor(values, dtype=torch.float64, requires_grad=True)
                p = self._mixed(z, d, torch.cat([at[:2].exp(), at[2:]]), logarithms=True)
                value = -p.gather(1, y[:, None]).mean()
                (slope,) = torch.autograd.grad(value, at)
            return float(value), slope.numpy()

        begin = [*torch.tensor(start, dtype=torch.float64).clamp(1e-6, 1e6).log().tolist(), 0.3]
        bounds = [(begin[0] - 6, begin[0] + 6), (begin[1] - 12, begin[1] + 6), (0.0, 20.0)]
        end = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds)
        found = torch.from_numpy(end.x)
        return torch.cat([found[:2].exp(), found[2:]])

    def _mixed(self, z: Tensor, d: Tensor, parameters: Tensor, *, logarithms: bool = False) -> Tensor:
        """The blended probabilities, or their logarithms."""
        t, a, c = parameters
        q = torch.softmax(t * d, dim=1)
        kin = q if self.similarity is None else q @ self.similarity
        mixed = (1 - SPREAD) * q + SPREAD * kin + LEAST / q.shape[1]
        scores = a * z + c * mixed.log()
        return torch.log_softmax(scores, dim=1) if logarithms else torch.softmax(scores, dim=1)

    @torch.no_grad()
    def predict_proba(self, logits: Array, *, features: Array) -> Any:
        """Calibrated probabilities (N, K) of logits (N, K) and features (N, d), like the logits."""
        self._check_fitted()
        z = checks.logits(logits, least=0).to("cpu", torch.float64)
        x = _features(features, len(z))
        if z.shape[1] != self.num_classes_ or x.shape[1] != self.num_features_:
            raise ValueError(
                f"this head takes {self.num_classes_} logits and {self.num_features_} features a row, got "
                f"{z.shape[1]} and {x.shape[1]}."
            )
        parameters = torch.tensor([self.sharpness_, self.own_, self.weight_], dtype=torch.float64)
        return checks.like(self._mixed(z, x @ self.projection_ + self.bias_, parameters), logits)

    def _check_fitted(self) -> None:
        if not hasattr(self, "nll_after_"):
            raise ValueError("this KinHead is not fitted yet: call fit(logits, labels, features=…, training=…) first.")

    def __repr__(self) -> str:
        kin = "" if self.similarity is None else f"similarity of {len(self.similarity)} classes"
        if not hasattr(self, "nll_after_"):
            return f"KinHead({kin})"
        if self.fell_back_:
            return f"<KinHead({kin}): no gain over a temperature, T = {1 / self.own_:.4g}>"
        return (
            f"<KinHead({kin}): ρ = {self.ridge_:g}, λ = {self.lean_:g}, weight {self.weight_:.3g}; NLL "
            f"{self.nll_before_:.4f} → {self.nll_after_:.4f}, {self.gain_:.4f} by cross-validation>"
        )

    # Files

    NUMBERS = ("ridge_", "lean_", "sharpness_", "own_", "weight_", "gain_", "fell_back_", "nll_before_", "nll_after_")

    def save(self, folder: str | Path) -> None:
        """Write one file into ``folder``, atomically."""
        self._check_fitted()
        about = {"format": FORMAT, "softkin": __version__, "ridge": self.ridge, "lean": self.lean}
        about |= {name: getattr(self, name) for name in self.NUMBERS} | {"class_names": self.class_names_}
        tensors = {"projection": self.projection_, "bias": self.bias_}
        if self.similarity is not None:
            tensors["similarity"] = self.similarity
        bundles.write(Path(folder) / FILE, about, tensors)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what ``save`` wrote.

        Raises:
            SoftkinError: The folder holds no such file, or it is damaged.
        """
        path = Path(folder) / FILE
        about, tensors = bundles.read(path, "a head")
        with files.reading(path, "a head"):
            if about["format"] != FORMAT:
                raise SoftkinError(f"{path} has format {about['format']}, and this softkin reads {FORMAT}.")
            head = cls(tensors.get("similarity"), ridge=about["ridge"], lean=about["lean"])
            head.projection_, head.bias_ = tensors["projection"].double(), tensors["bias"].double()
            head.num_features_, head.num_classes_ = head.projection_.shape
            if head.bias_.shape != (head.num_classes_,):
                raise SoftkinError(f"{path} does not fit together: its bias has shape {tuple(head.bias_.shape)}.")
            head.class_names_ = about["class_names"]
            for name in cls.NUMBERS:
                setattr(head, name, bool(about[name]) if name == "fell_back_" else float(about[name]))
        return head


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


def _features(values: Any, num_samples: int | None = None) -> Tensor:
    """(N, d) float64; features of more dimensions are flattened."""
    x = checks.as_tensor(values, "features").to("cpu", torch.float64)
    if x.ndim < 2 or (num_samples is not None and len(x) != num_samples):
        expected = "N" if num_samples is None else str(num_samples)
        raise ValueError(f"`features` must have shape ({expected}, d), got {tuple(x.shape)}.")
    checks.finite(x, "features")
    return x.flatten(1)

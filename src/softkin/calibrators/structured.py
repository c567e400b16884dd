r"""Structured scaling: a temperature, then a vector or matrix that a prior shrinks towards that temperature alone.

With p = softmax(z/T), T as temperature scaling has it, and x = ln((n p + 1/K)/(n + 1)),

.. math:: q = \mathrm{softmax}((I + \mathrm{diag}(v) + M)\, x + b)

where M has a zero diagonal. The more complex a part, the stronger its penalty, and all penalties fall with the number
of samples: v, b and M are the minimum of

.. math:: \frac1n \sum_i -\ln q_{i y_i} + \frac{\lambda K}{n} \Big(\sum_k v_k^2 + \sum_k b_k^2
          + (K-1) \sum_{k \ne k'} \frac{m_{kk'}^2}{r_{kk'}}\Big).

Without a similarity S, r is 1; with one, r = (1−ω) + ω(K−1)s_{kk'}, of mean 1 in each row, so that entries of similar
classes are penalised less. λ → ∞ is temperature scaling.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin.calibrators.calibrator import Parametric
from softkin.calibrators.fitted import Solution
from softkin.calibrators.held_out import folds_of
from softkin.calibrators.linear import SEARCH_TOLERANCE
from softkin.calibrators.newton import COUPLED_UP_TO, Affine, Coupled, HeldDiagonal, Minimum, Problem, minimise
from softkin.calibrators.temperature import below_top, best_temperature, mean_loss
from softkin.metrics.scopes import effective

STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # of the search, beside infinity, which is temperature scaling
KINSHIP = 0.9  # ω: a tenth of the prior's variance stays with every pair, so that none is impossible
PUBLISHED = 1.0  # λ without a search
NEGLIGIBLE = 1e-10  # nats above the least objective
TOLERANCE = 1e-6  # of the gradient's largest entry: the prior's curvature turns it into a bound on the objective


@dataclass(frozen=True)
class StrengthRow:
    """A point of the search and its mean NLL over the folds."""

    strength: float
    kinship: float
    nll: float


@dataclass(frozen=True)
class Scaled:
    """Samples after temperature scaling, to which the vector or matrix is fitted."""

    x: Tensor
    y: Tensor
    temperature: float
    mixing: float
    iterations: int
    converged: bool
    at_bound: bool

    weights: Tensor | None = None
    """(N,) with the mean 1"""

    @classmethod
    def of(cls, z: Tensor, y: Tensor, weights: Tensor | None = None) -> "Scaled":
        """Compute the temperature with the least NLL, and x."""
        w = None if weights is None else weights / weights.mean()
        least = best_temperature(*below_top(z, y), "nll", w)
        temperature, mixing = 1 / least.beta, 1 / (effective(w, len(z)) + 1)
        x = log_mixture(z, temperature, mixing)
        return cls(x, y, temperature, mixing, least.iterations, least.converged, least.at_bound, w)

    def weighed(self, rows: Tensor) -> Tensor:
        """Rows (N, K) times their weights."""
        return rows if self.weights is None else rows * self.weights[:, None]

    @property
    def count(self) -> float:
        """The number of rows of equal weight that say as much."""
        return effective(self.weights, len(self.y))


def log_mixture(z: Tensor, temperature: float | Tensor, mixing: float | Tensor) -> Tensor:
    """The logarithm of softmax(z/T) mixed with a share of the uniform distribution, so no score is below share/K."""
    p = torch.softmax(z / temperature, dim=1)
    return p.mul(1 - mixing).add_(mixing / z.shape[1]).log()


class _Structured(Parametric):
    """The base of the vector and the matrix form, which differ in the shape of the map and of its penalty."""

    kept: ClassVar[tuple[str, ...]] = ("temperature_", "mixing_", "weight_", "bias_", "strength_", "sweep_")
    unused: ClassVar[tuple[str, ...]] = ("strength_", "sweep_")
    parameters = ("temperature_", "mixing_", "weight_", "bias_")
    takes_weights = True
    _strengths: ClassVar[tuple[float, ...]] = STRENGTHS
    _identity: ClassVar[int]
    """The number of dimensions of ``weight_``"""
    temperature_: float
    mixing_: float
    weight_: Tensor
    bias_: Tensor
    strength_: float
    sweep_: Tensor | None

    strength: float | Literal["cv"]
    folds: int
    seed: int

    def check_options(self) -> None:
        if self.strength != "cv" and not (checks.number(self.strength, "strength") > 0):
            raise ValueError(f"`strength` must be 'cv' or above 0, got {self.strength:g}.")
        checks.count(self.folds, "folds", least=2)

    def _kinships(self, num_classes: int) -> tuple[float, ...]:
        """The values of ω in the search; a fit without search uses the first."""
        return (0.0,)

    def _relative(self, scaled: Scaled) -> Tensor | None:
        """The similarities (K, K) times K−1, if there are any."""
        return None

    def _problem(self, scaled: Scaled, *, even: bool = False) -> Problem:
        """The problem for ``newton``, without a penalty yet; ``even``: a strong prior, alike for all pairs."""
        raise NotImplementedError

    def _penalty(self, shape: torch.Size, strength: float, relative: Tensor | None, kinship: float, n: float) -> Tensor:
        """The penalties R of ``newton``."""
        raise NotImplementedError

    def fit_rows(self, z: Tensor, y: Tensor, weights: Tensor | None = None) -> Solution:
        scaled = Scaled.of(z, y, weights)
        n, k = z.shape
        self.temperature_, self.mixing_, self.sweep_ = scaled.temperature, scaled.mixing, None
        notes: list[str] = []
        kinship = self._kinships(k)[0]
        self.strength_ = PUBLISHED if self.strength == "cv" else float(self.strength)
        if self.strength == "cv" and n == 1:
            notes.append(f"one sample allows no search: λ = {PUBLISHED:g} is used")
        elif self.strength == "cv":
            kinship, unfinished = self._cross_validate(z, y, weights)
            notes.append(self._chosen(kinship))
            if unfinished:
                notes.append(f"{unfinished} fits of the search did not converge")
        self._keep_kinship(kinship)
        start = self._start(k)
        if math.isinf(self.strength_):
            end = Minimum(start, 0.0, 0.0, 0, True, None)
        else:
            problem = self._problem(scaled, even=not kinship and self.strength_ >= PUBLISHED)
            problem.penalty = self._penalty(start.shape, self.strength_, self._relative(scaled), kinship, scaled.count)
            end = minimise(problem, start, tolerance=TOLERANCE)
            notes.append(f"at most {end.gap:.0e} above the least objective")
        self._keep(end.parameters)
        return Solution(
            gradient_norm=end.gradient_norm,
            iterations=scaled.iterations + end.iterations,
            bound_hit=scaled.at_bound,
            converged=scaled.converged and (end.converged or end.gap <= NEGLIGIBLE),
            notes=tuple(notes),
            probabilities=torch.softmax(self._logits(scaled.x, end.parameters), dim=1),
        )

    def _chosen(self, kinship: float) -> str:
        if math.isinf(self.strength_):
            return "cross-validation chose temperature scaling: nothing more helps"
        return f"cross-validation chose λ = {self.strength_:g}" + (f", ω = {kinship:g}" if kinship else "")

    def _keep_kinship(self, kinship: float) -> None:
        """Keep ω; only the matrix form has one."""

    def _start(self, num_classes: int) -> Tensor:
        """The parameters of temperature scaling."""
        raise NotImplementedError

    def _keep(self, parameters: Tensor) -> None:
        raise NotImplementedError

    def _cross_validate(self, z: Tensor, y: Tensor, weights: Tensor | None) -> tuple[float, int]:
        """Choose ``strength_`` by the mean NLL of the folds; returns ω, and how many fits did not converge.

        Each fold has a temperature and a similarity of its own. Its fits go from the strongest prior to the weakest,
        and each starts where the last one ended.
        """
        parts = folds_of(len(z), self.folds, self.seed)
        nll: dict[tuple[float, float], float] = {}
        unfinished = 0
        for held in parts:
            rest = torch.ones(len(z), dtype=torch.bool)
            rest[held] = False
            scaled = Scaled.of(z[rest], y[rest], None if weights is None else weights[rest])
            x_held, y_held = log_mixture(z[held], scaled.temperature, scaled.mixing), y[held]
            for place, end in self._path(scaled):
                log_q = torch.log_softmax(self._logits(x_held, end.parameters), dim=1)
                loss = mean_loss(log_q, y_held, None if weights is None else weights[held])
                nll[place] = nll.get(place, 0.0) + loss / len(parts)
                unfinished += not (end.converged or end.gap <= NEGLIGIBLE)
        # Of equals the first is taken, which is the simplest: temperature scaling, then the strongest prior.
        self.strength_, kinship = min(nll, key=lambda place: nll[place])
        self.sweep_ = torch.tensor([(*place, nll[place]) for place in sorted(nll)], dtype=torch.float64)
        return kinship, unfinished

    def _path(self, scaled: Scaled) -> Iterator[tuple[tuple[float, float], Minimum]]:
        """Every point of the search with its fit, temperature scaling first."""
        k = scaled.x.shape[1]
        start = self._start(k)
        yield (math.inf, 0.0), Minimum(start, 0.0, 0.0, 0, True, None)
        problem, relative = self._problem(scaled), self._relative(scaled)
        for kinship in sorted(self._kinships(k)):
            at, curvature = start, None
            for strength in sorted(self._strengths, reverse=True):
                problem.penalty = self._penalty(start.shape, strength, relative, kinship, scaled.count)
                end = minimise(problem, at, tolerance=SEARCH_TOLERANCE, curvature=curvature)
                at, curvature = end.parameters, end.curvature
                yield (strength, kinship), end

    @classmethod
    def _logits(cls, x: Tensor, parameters: Tensor) -> Tensor:
        raise NotImplementedError

    @classmethod
    def mapped(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        temperature, mixing, weight, bias = parameters
        x = log_mixture(z, temperature, mixing)
        return torch.softmax((x * weight if cls._identity == 1 else x @ weight.T) + bias, dim=1)

    def sweep(self) -> list[StrengthRow]:
        """Every (λ, ω) that the search tried, with its mean NLL over the folds; empty if λ was set."""
        self.check_fitted()
        return [] if self.sweep_ is None else [StrengthRow(*row) for row in self.sweep_.tolist()]

    def summary(self) -> str:
        if math.isinf(self.strength_):
            return f"T = {self.temperature_:.6g} alone"
        return f"T = {self.temperature_:.6g}, λ = {self.strength_:g}"


class StructuredVectorScaling(
    _Structured, name="structured-vector", title="SVS", candidates=({"strength": PUBLISHED},)
):
    r"""Structured vector scaling (SVS): a temperature, then a factor and an offset for each class, shrunk towards it.

    softmax((1 + v) ∘ x + b) with x = ln((n·softmax(z/T) + 1/K)/(n + 1)); v and b are the minimum of the mean
    NLL + λ(K/n)(Σ v² + Σ b²). The problem is convex and solved to a gradient of 1e-6; the certificate bounds how far
    above the least objective that is.

    Args:
        strength: λ, above 0; 1 is the published prior, ∞ temperature scaling. "cv" chooses it by the folds' mean NLL
            from {.03, .1, .3, 1, 3, 10, ∞}.
        folds: The number of folds of the search.
        seed: The seed that divides the samples into folds.

    Attributes:
        temperature_: T.
        mixing_: 1/(n + 1), the share of the uniform distribution in x.
        weight_: (K,) 1 + v.
        bias_: (K,) b.
        strength_: The λ used.
        sweep_: (points, 3) λ, 0 and mean fold NLL of the search, or None. ``sweep()`` names the columns.

    References:
        Berta et al., Structured Matrix Scaling for Multi-Class Calibration, 2025, arXiv:2511.03685.
    """

    _identity = 1

    def __init__(self, *, strength: float | Literal["cv"] = "cv", folds: int = 5, seed: int = 0) -> None:
        self.strength, self.folds, self.seed = strength, folds, seed
        self.check_options()

    def _start(self, num_classes: int) -> Tensor:
        return torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(num_classes, 1)

    def _problem(self, scaled: Scaled, *, even: bool = False) -> Problem:
        centre = self._start(scaled.x.shape[1])
        made = HeldDiagonal(scaled.x, scaled.y, torch.zeros_like(centre), centre)
        made.weights = scaled.weights
        return made

    def _penalty(self, shape: torch.Size, strength: float, relative: Tensor | None, kinship: float, n: float) -> Tensor:
        return torch.full(shape, strength * shape[0] / n, dtype=torch.float64)

    def _keep(self, parameters: Tensor) -> None:
        self.weight_, self.bias_ = parameters[:, 0].clone(), parameters[:, 1].clone()

    @classmethod
    def _logits(cls, x: Tensor, parameters: Tensor) -> Tensor:
        return x * parameters[:, 0] + parameters[:, 1]


class StructuredMatrixScaling(
    _Structured, name="structured-matrix", title="SMS", candidates=({"strength": PUBLISHED},), searches=({},)
):
    r"""Structured matrix scaling (SMS): a temperature, then a linear map of its logarithms that is shrunk towards it.

    softmax((I + diag(v) + M) x + b) with x = ln((n·softmax(z/T) + 1/K)/(n + 1)). v, b and the off-diagonal M are the
    minimum of

    .. math:: \frac1n \sum_i -\ln q_{i y_i} + \frac{\lambda K}{n} \Big(\sum_k v_k^2 + \sum_k b_k^2
              + (K-1) \sum_{k \ne k'} \frac{m_{kk'}^2}{r_{kk'}}\Big)

    The problem is convex and solved to a gradient of 1e-6; the certificate bounds how far above the least objective
    that is. With a similarity S, r = (1−ω) + ω(K−1)s_{kk'} scales the prior variance of each pair by how alike it is;
    without S, r = 1, which is the published prior.

    Args:
        similarity: (K, K) as ``softkin.similarity`` makes it, or "outputs": the share of each other class in what the
            temperature-scaled scores of a class's fitting samples give to wrong classes. None: all pairs alike.
        strength: λ, above 0; 1 is the published prior, ∞ temperature scaling. "cv" chooses it by the folds' mean NLL
            from {.03, .1, .3, 1, 3, 10, ∞}, and with a similarity also ω from {0, .9}, so that a similarity that does
            not help is not used. The search costs 5 × 6 fits, with a similarity twice that.
        folds: The number of folds of the search.
        seed: The seed that divides the samples into folds.

    Attributes:
        temperature_: T.
        mixing_: 1/(n + 1), the share of the uniform distribution in x.
        weight_: (K, K) I + diag(v) + M.
        bias_: (K,) b.
        strength_: The λ used.
        kinship_: The ω used: .9 with a similarity unless the search chose 0.
        sweep_: (points, 3) λ, ω and mean fold NLL of the search, or None. ``sweep()`` names the columns.

    Example:
        >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]], dtype=torch.float64)
        >>> cal = StructuredMatrixScaling(strength=1.0).fit(p, torch.tensor([0, 1, 0, 1]), from_probabilities=True)
        >>> cal.certificate_.converged, cal.certificate_.gradient_norm <= 1e-6
        (True, True)

    References:
        Berta et al., Structured Matrix Scaling for Multi-Class Calibration, 2025, arXiv:2511.03685. The similarity is
        not in it.
    """

    _identity = 2
    kept = (*_Structured.kept, "kinship_")
    unused = (*_Structured.unused, "kinship_")
    kinship_: float

    def __init__(
        self,
        *,
        similarity: Array | Literal["outputs"] | None = None,
        strength: float | Literal["cv"] = "cv",
        folds: int = 5,
        seed: int = 0,
    ) -> None:
        self.similarity, self.strength, self.folds, self.seed = similarity, strength, folds, seed
        self.check_options()

    def check_options(self) -> None:
        super().check_options()
        if isinstance(self.similarity, str):
            checks.option(self.similarity, "similarity", ("outputs",))
        elif self.similarity is not None:
            _dense(self.similarity)

    def _kinships(self, num_classes: int) -> tuple[float, ...]:
        return (0.0,) if self.similarity is None or num_classes < 3 else (KINSHIP, 0.0)

    def _relative(self, scaled: Scaled) -> Tensor | None:
        k = scaled.x.shape[1]
        if self.similarity is None:
            return None
        if isinstance(self.similarity, str):
            return (k - 1) * confusions(scaled.weighed(scaled.x.exp()), scaled.y)
        s = _dense(self.similarity)
        if len(s) != k:
            raise ValueError(
                f"`similarity` must cover the {k} classes of the logits, got {len(s)}; is it for another data set?"
            )
        return (k - 1) * s

    def _start(self, num_classes: int) -> Tensor:
        return torch.eye(num_classes, num_classes + 1, dtype=torch.float64)

    def _problem(self, scaled: Scaled, *, even: bool = False) -> Problem:
        k = scaled.x.shape[1]
        centre = self._start(k)
        kind = Coupled if even and k <= COUPLED_UP_TO else Affine
        made = kind(scaled.x, scaled.y, torch.zeros_like(centre), centre)
        made.weights = scaled.weights
        return made

    def _penalty(self, shape: torch.Size, strength: float, relative: Tensor | None, kinship: float, n: float) -> Tensor:
        k = shape[0]
        r = torch.full(shape, strength * k * (k - 1) / n, dtype=torch.float64)
        if relative is not None:
            r[:, :-1] /= 1 - kinship + kinship * relative
        r.diagonal().fill_(strength * k / n)
        r[:, -1] = strength * k / n
        return r

    def _keep(self, parameters: Tensor) -> None:
        self.weight_, self.bias_ = parameters[:, :-1].contiguous(), parameters[:, -1].contiguous()

    def _keep_kinship(self, kinship: float) -> None:
        self.kinship_ = kinship

    @classmethod
    def _logits(cls, x: Tensor, parameters: Tensor) -> Tensor:
        return x @ parameters[:, :-1].T + parameters[:, -1]


class KinMatrixScaling(StructuredMatrixScaling, name="kin-matrix", title="SMS-kin", searches=({},)):
    """Structured matrix scaling whose prior follows the model's confusions: ``similarity="outputs"`` by default.

    It exists to have a name in commands and tables; everything else is as in ``StructuredMatrixScaling``.

    Args:
        similarity: "outputs", or (K, K) as ``softkin.similarity`` makes it.
        strength: λ, or "cv", as in ``StructuredMatrixScaling``.
        folds: The number of folds of the search.
        seed: The seed that divides the samples into folds.
    """

    def __init__(
        self,
        *,
        similarity: Array | Literal["outputs"] | None = "outputs",
        strength: float | Literal["cv"] = "cv",
        folds: int = 5,
        seed: int = 0,
    ) -> None:
        super().__init__(similarity=similarity, strength=strength, folds=folds, seed=seed)


def confusions(p: Tensor, y: Tensor) -> Tensor:
    """The share (K, K) of each other class in the mass that the rows of a class give to wrong classes; diagonal 0.

    A class without rows, or whose rows give nothing to others, is equally like all of them.
    """
    k = p.shape[1]
    mass = torch.zeros(k, k, dtype=torch.float64).index_add_(0, y, p)
    mass.diagonal().zero_()
    total = mass.sum(dim=1, keepdim=True)
    even = (1 - torch.eye(k, dtype=torch.float64)) / max(k - 1, 1)
    return torch.where(total > 0, mass / total.clamp(min=torch.finfo(torch.float64).tiny), even)


def _dense(similarity: Array) -> Tensor:
    """A caller's similarity as a checked (K, K) float64 tensor."""
    s = checks.square(similarity, "similarity")
    checks.rows_sum_to_one(s, "similarity")
    if bool((s < 0).any()) or bool((s.diagonal() != 0).any()):
        raise ValueError(
            "`similarity` must have no negative entries and a zero diagonal, as similarity.from_distances makes it."
        )
    return s.cpu().to(torch.float64)

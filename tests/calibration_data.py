"""Toy logits and labels that tests of calibrators and reports share."""

import numpy as np
import torch
from scipy import optimize

from softkin.calibrators import (
    BayesianBinning,
    BetaCalibration,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    HistogramBinning,
    IsotonicCalibration,
    KinMatrixScaling,
    MatrixScaling,
    MutualInformationBinning,
    PlattScaling,
    SplineCalibration,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
)
from softkin.predictions import Predictions

MAKERS = {
    "temperature": TemperatureScaling,
    "temperature-mse": lambda: TemperatureScaling(objective="mse"),
    "ets": EnsembleTemperatureScaling,
    "ets-nll": lambda: EnsembleTemperatureScaling(objective="nll"),
    "vector": VectorScaling,
    "matrix": lambda: MatrixScaling(lam=0.1),
    "matrix-search": MatrixScaling,
    "dirichlet": lambda: DirichletCalibration(lam=0.1, mu=0.01),
    "dirichlet-search": DirichletCalibration,
    "dirichlet-average": lambda: DirichletCalibration(lam=0.1, combine="average"),
    "dirichlet-l2": lambda: DirichletCalibration(lam=0.01, penalty="l2", scaling="mean"),
    "structured-vector": lambda: StructuredVectorScaling(strength=1.0),
    "structured-matrix": lambda: StructuredMatrixScaling(strength=1.0),
    "structured-search": KinMatrixScaling,
    "platt": PlattScaling,
    "beta": BetaCalibration,
    "isotonic": IsotonicCalibration,
    "isotonic-pooled": lambda: IsotonicCalibration(classes="pooled"),
    "histogram": HistogramBinning,
    "histogram-mass": lambda: HistogramBinning(binning="mass", n_bins=5),
    "bbq": BayesianBinning,
    "i-max": MutualInformationBinning,
    "spline": SplineCalibration,
    "composed": lambda: TemperatureScaling() | IsotonicCalibration(),
    "composed-three": lambda: VectorScaling() | TemperatureScaling() | PlattScaling(),
}
FORMULAS = (
    "temperature",
    "ets",
    "vector",
    "matrix",
    "dirichlet",
    "dirichlet-average",
    "structured-vector",
    "structured-matrix",
    "platt",
    "beta",
    "composed-three",
)
SLOW_AT_1000 = (
    "matrix-search",
    "dirichlet-search",
    "dirichlet-average",
    "dirichlet-l2",
    "structured-search",
)  # several fits of a million weights


BY_FOLDS = ("matrix-search", "dirichlet-search", "dirichlet-average", "structured-search")


def drawn(seed=0, n=300, k=4, factor=2.0, scale=3.0):
    """Over-confident logits: labels are drawn at T = ``factor``."""
    generator = torch.Generator().manual_seed(seed)
    z = scale * torch.randn(n, k, generator=generator, dtype=torch.float64)
    return z, torch.multinomial(torch.softmax(z / factor, dim=1), 1, generator=generator)[:, 0]


def toy_predictions(n=400, k=6, seed=0, sharp=3.0, **about):
    """Predictions of a model that is right more often than not, and over-confident."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(k, (n,), generator=generator)
    logits = torch.randn(n, k, generator=generator)
    logits[torch.arange(n), labels] += 1.0
    return Predictions(sharp * logits, labels, **about)


def plain_minimum(x, y, penalty, centre):
    """The same objective by scipy's L-BFGS-B from its definition: the value and (K, K+1)."""
    x, y = x.numpy(), y.numpy()
    n, k = x.shape
    x1 = np.concatenate([x, np.ones((n, 1))], axis=1)
    onehot = np.eye(k)[y]

    def objective(flat):
        a = flat.reshape(k, k + 1)
        logits = x1 @ a.T
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(axis=1, keepdims=True)
        value = -np.log(p[np.arange(n), y]).mean() + (penalty * (a - centre) ** 2).sum()
        return value, ((p - onehot).T @ x1 / n + 2 * penalty * (a - centre)).reshape(-1)

    start = np.eye(k, k + 1).reshape(-1)
    end = optimize.minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"gtol": 1e-10, "ftol": 0, "maxiter": 20000, "maxfun": 20000},
    )
    return end.fun, end.x.reshape(k, k + 1)


def rare(power=3.0, n=3000):
    """A class of 10 %, whose log-odds are too large."""
    rng = np.random.default_rng(0)
    z = rng.normal(-3, 1.6, n)
    y = rng.random(n) < 1 / (1 + np.exp(-z))
    logits = np.stack([np.zeros(n), power * z], axis=1)
    return Predictions(
        torch.tensor(logits), torch.tensor(y.astype(np.int64)), class_names=["genuine", "fraud"], name="rare"
    )

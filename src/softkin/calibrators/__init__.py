"""Logits and labels of held-out samples → calibrated probabilities.

Every calibrator has ``fit(logits, labels)``, ``predict_proba(logits)``, ``certificate_`` (did the fit converge, what
did it do), ``certify`` (what it does to samples it has not seen), ``save``, and composition by ``|``.

- ``TemperatureScaling``, ``EnsembleTemperatureScaling``: one temperature; its mixture with raw and uniform
- ``VectorScaling``, ``MatrixScaling``, ``DirichletCalibration``: a linear map of the logits, or of ln p
- ``PlattScaling``, ``BetaCalibration``: a logistic map of each class
- ``IsotonicCalibration``, ``HistogramBinning``, ``BayesianBinning``, ``MutualInformationBinning``: counted
- ``SplineCalibration``: the winning score only
- ``fit_best``: the choice between them
"""

from softkin.calibrators.base import Calibrator
from softkin.calibrators.binned import BayesianBinning, HistogramBinning
from softkin.calibrators.certificate import Certificate, HeldOut
from softkin.calibrators.composition import Composed
from softkin.calibrators.ensemble import EnsembleTemperatureScaling
from softkin.calibrators.export import CalibratorModule, fold_into_linear
from softkin.calibrators.files import load
from softkin.calibrators.isotonic import IsotonicCalibration
from softkin.calibrators.linear import DirichletCalibration, MatrixScaling, VectorScaling
from softkin.calibrators.mutual_information import MutualInformationBinning
from softkin.calibrators.one_vs_rest import BetaCalibration, PlattScaling
from softkin.calibrators.selection import BestFit, Candidate, fit_best
from softkin.calibrators.spline import SplineCalibration
from softkin.calibrators.temperature import TemperatureScaling

METHODS: tuple[type[Calibrator], ...] = (
    TemperatureScaling,
    EnsembleTemperatureScaling,
    VectorScaling,
    MatrixScaling,
    DirichletCalibration,
    PlattScaling,
    BetaCalibration,
    IsotonicCalibration,
    HistogramBinning,
    BayesianBinning,
    MutualInformationBinning,
    SplineCalibration,
)


def default_candidates() -> list[Calibrator]:
    """What ``fit_best`` tries unless told otherwise."""
    return [
        TemperatureScaling(),
        EnsembleTemperatureScaling(),
        EnsembleTemperatureScaling(objective="nll"),
        VectorScaling(),
        PlattScaling(),
        BetaCalibration(),
        IsotonicCalibration(classes="pooled"),
    ]


__all__ = [
    "METHODS",
    "BayesianBinning",
    "BestFit",
    "BetaCalibration",
    "Calibrator",
    "CalibratorModule",
    "Candidate",
    "Certificate",
    "Composed",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "HeldOut",
    "HistogramBinning",
    "IsotonicCalibration",
    "MatrixScaling",
    "MutualInformationBinning",
    "PlattScaling",
    "SplineCalibration",
    "TemperatureScaling",
    "VectorScaling",
    "default_candidates",
    "fit_best",
    "fold_into_linear",
    "load",
]

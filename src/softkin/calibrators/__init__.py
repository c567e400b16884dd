"""Logits and labels of held-out samples → calibrated probabilities.

Every calibrator has ``fit(logits, labels)``, ``predict_proba(logits)``, ``certificate_`` (whether the fit converged and
what it changed), ``certify`` (the effect on samples it was not fitted on), ``save``, and composition by ``|``.

- ``TemperatureScaling``, ``EnsembleTemperatureScaling``: one temperature; its mixture with raw and uniform
- ``VectorScaling``, ``MatrixScaling``, ``DirichletCalibration``: a linear map of the logits, or of ln p
- ``StructuredVectorScaling``, ``StructuredMatrixScaling``: a temperature, and such a map shrunk towards it;
  ``KinMatrixScaling``: the latter with a prior that follows the model's confusions
- ``PlattScaling``, ``BetaCalibration``: a logistic map of each class
- ``IsotonicCalibration``, ``HistogramBinning``, ``BayesianBinning``, ``MutualInformationBinning``: shares of hits
- ``SplineCalibration``: the winning score only
- ``fit_best``: the choice between them
- ``PerLabel``: one of them for each of several labels per sample
- ``KinHead``: a second head on frozen features, for few rows; it takes features besides logits
"""

# The order of these imports is that of the registry, and so of every list of methods.
# isort: off
from softkin.calibrators.calibrator import REGISTRY, Calibrator, Composed, Parametric, load
from softkin.calibrators.temperature import TemperatureScaling
from softkin.calibrators.ensemble import EnsembleTemperatureScaling
from softkin.calibrators.linear import DirichletCalibration, MatrixScaling, VectorScaling, fold_into_linear
from softkin.calibrators.structured import KinMatrixScaling, StructuredMatrixScaling, StructuredVectorScaling
from softkin.calibrators.one_vs_rest import BetaCalibration, PlattScaling
from softkin.calibrators.one_vs_rest import IsotonicCalibration
from softkin.calibrators.histogram import BayesianBinning, HistogramBinning
from softkin.calibrators.histogram import MutualInformationBinning
from softkin.calibrators.one_vs_rest import SplineCalibration
# isort: on

from softkin.calibrators.fitted import Certificate, HeldOut, Solution
from softkin.calibrators.kin_head import KinHead
from softkin.calibrators.one_vs_rest import PerLabel
from softkin.calibrators.selection import BestFit, Candidate, affordable, default_candidates, fit_best
from softkin.calibrators.zeros import Floor, floor_of

__all__ = [
    "REGISTRY",
    "BayesianBinning",
    "BestFit",
    "BetaCalibration",
    "Calibrator",
    "Candidate",
    "Certificate",
    "Composed",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "Floor",
    "HeldOut",
    "HistogramBinning",
    "IsotonicCalibration",
    "KinHead",
    "KinMatrixScaling",
    "MatrixScaling",
    "MutualInformationBinning",
    "Parametric",
    "PerLabel",
    "PlattScaling",
    "Solution",
    "SplineCalibration",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "VectorScaling",
    "affordable",
    "default_candidates",
    "fit_best",
    "floor_of",
    "fold_into_linear",
    "load",
]

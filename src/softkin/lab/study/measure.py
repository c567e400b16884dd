"""The metrics of one set of predictions, as records hold them."""

from collections.abc import Mapping

from softkin import metrics
from softkin._io.files import number
from softkin.metrics import catalogue
from softkin.metrics.measurement import MeasuredData, Settings, measure
from softkin.metrics.scopes import Claims
from softkin.predictions import Predictions

OF_RESULTS = Settings(confidence=None, slow=True)
"""Values, and those under calibration; a study's intervals are over its seeds, and come with its table"""


def on_validation(predictions: Predictions) -> dict[str, MeasuredData]:
    """The validation metrics by which values are chosen."""
    claims = Claims.of(predictions.probabilities, predictions.known_labels)
    return {key: one.to_dict() for key, one in measure(claims, catalogue.shown("select")).items()}


def on_test(predictions: Predictions, ood: Mapping[str, Predictions] | None = None) -> dict[str, MeasuredData]:
    """The metrics of a result's test predictions and of out-of-distribution sets."""
    claims = Claims.of(predictions.probabilities, predictions.known_labels)
    measured = measure(claims, catalogue.shown("record", claims.num_classes), OF_RESULTS)
    numbers = {key: one.to_dict() for key, one in measured.items()}
    for name, unknown in (ood or {}).items():
        known, other = predictions.probabilities.amax(dim=1), unknown.probabilities.amax(dim=1)
        numbers[f"auroc {name}"] = {"value": number(metrics.auroc(known, other))}
        numbers[f"fpr_at_95 {name}"] = {"value": number(metrics.fpr_at_95(known, other))}
        if predictions.mutual_information is not None and unknown.mutual_information is not None:
            agreement = -predictions.mutual_information, -unknown.mutual_information
            numbers[f"auroc_mutual_information {name}"] = {"value": number(metrics.auroc(*agreement))}
    return numbers

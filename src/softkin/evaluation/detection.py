"""How well scores detect out-of-distribution samples, and wrong answers."""

from torch import Tensor

from softkin import metrics
from softkin._io.files import number
from softkin.evaluation.results import Detection, Disagreement, Unknown
from softkin.predictions import Predictions


def scores_of(predictions: Predictions) -> dict[str, Tensor]:
    """Scores (N,) that are higher for known samples: the winning score, and the members' agreement.

    Agreement is minus the mutual information of label and weights, so that both point the same way.
    """
    p = predictions.probabilities
    scores = {"confidence": p[:, 1] if predictions.are_pairs else p.amax(dim=1)}
    if predictions.mutual_information is not None:
        scores["mutual_information"] = -predictions.mutual_information.double()
    return scores


def out_of_distribution(known: Predictions, unknown: Predictions) -> Unknown:
    """How well each score of a model separates ``unknown`` (out-of-distribution) samples from ``known`` ones.

    Returns:
        Plain data: ``name``, ``num_samples``, and ``scores``, which maps "confidence", and "mutual_information" if
        both have members, to ``auroc`` and ``fpr_at_95``.

    Example:
        >>> import torch
        >>> known = Predictions(torch.tensor([[4.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 1]))
        >>> out_of_distribution(known, Predictions(torch.tensor([[1.0, 0.0]])))["scores"]
        {'confidence': {'auroc': 1.0, 'fpr_at_95': 0.0}}
    """
    own, other = scores_of(known), scores_of(unknown)
    measured: dict[str, Detection] = {
        name: {
            "auroc": number(metrics.auroc(own[name], other[name])),
            "fpr_at_95": number(metrics.fpr_at_95(own[name], other[name])),
        }
        for name in own
        if name in other
    }
    return {"name": unknown.name, "num_samples": len(unknown), "scores": measured}


def spread(predictions: Predictions) -> Disagreement | None:
    """Statistics of the members' disagreement on labelled samples; None without members.

    ``auroc_of_errors`` measures how well each score separates wrong answers from right ones.
    """
    if predictions.mutual_information is None:
        return None
    right = predictions.probabilities.argmax(dim=1) == predictions.known_labels
    mixed = bool(right.any()) and not bool(right.all())
    return {
        "mean": number(float(predictions.mutual_information.double().mean())),
        "auroc_of_errors": {
            name: number(metrics.auroc(score[right], score[~right])) if mixed else None
            for name, score in scores_of(predictions).items()
        },
    }

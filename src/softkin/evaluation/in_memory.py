"""The evaluation of one model whose predictions fit in memory, and how well scores detect out-of-distribution samples
and wrong answers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import torch
from torch import Tensor

from softkin import metrics
from softkin._io.files import number
from softkin.evaluation import doubts, positive, results
from softkin.evaluation.positive import PositiveClass
from softkin.evaluation.results import Described, Detection, Disagreement, Evaluation, People, SettingsData, Unknown
from softkin.metrics import binning, catalogue, measurement
from softkin.metrics.measurement import Measured, Settings
from softkin.metrics.scopes import Claims, Pool
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


def evaluate(
    predictions: Predictions,
    *,
    n_bins: int = 15,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    kde_interval: bool = False,
    ordered: bool = False,
) -> Evaluation:
    """All metrics of one model, each with its interval, and for errors the value that a calibrated model would have.

    Args:
        predictions: Predictions with labels.
        n_bins: The number of bins of each histogram.
        confidence: The level of the intervals.
        resamples: The number of resamples of the rows for an interval; all metrics share them.
        seed: The seed of the resampling.
        kde_interval: Also compute the interval of the KDE ECE of the output, and its value if calibrated, which takes
            longer than all others.
        ordered: Whether the classes are ordered as they are given; adds the ranked probability score.

    Returns:
        Plain data: ``metrics`` maps each key to ``value``, ``low``, ``high`` and, for errors, ``when_calibrated`` with
        the same three; ``ece_kde_output`` has its ``floor``. Where a number is missing, ``no_interval`` or ``absent``
        says why; ``caveat`` warns about a value's meaning. ``verdict`` puts the result in words, with ``doubts`` about
        the file first, and ``reliability`` holds the bins.
    """
    return evaluated(predictions, Settings(n_bins, confidence, resamples, seed, slow=kde_interval, ordered=ordered))


def evaluated(predictions: Predictions, settings: Settings) -> Evaluation:
    """Like ``evaluate``, with all options in one ``Settings``."""
    claims = predictions.claims
    shown = catalogue.shown("evaluate", claims.num_classes, ordered=settings.ordered)
    measured = measurement.measure(claims, shown, settings)
    pool = claims.pool("prediction")
    found = doubts.of_predictions(predictions, pool.scores)
    by = predictions.calibrated_by
    of_positive = positive_class(claims, predictions.class_names, measured)
    words = described(
        pool, measured, settings, found, trained=not claims.are_pairs, calibrated_by=by, of_positive=of_positive
    )
    data: Evaluation = {
        "name": predictions.name,
        "num_samples": claims.num_samples,
        "num_classes": claims.num_classes,
        "kind": "pairs" if claims.are_pairs else "classes",
        "class_names": None if claims.are_pairs else predictions.class_names,
        "digest": predictions.digest,
        "settings": settings_data(settings, "rows"),
        "verdict": words["verdict"],
        "reliability": words["reliability"],
        "metrics": {key: one.to_dict() for key, one in measured.items()},
    }
    if of_positive is not None:
        data["positive"] = of_positive.to_dict()
    if by is not None:
        data["calibrated_by"] = by
    if predictions.votes is not None:
        data["people"] = people(predictions)
    turned = turned_round(measured.get("auc"), predictions.class_names)
    if turned is not None:
        data["warnings"] = [turned]
    disagreement = spread(predictions)
    if disagreement is not None:
        data["mutual_information"] = disagreement
    return data


def positive_class(
    claims: Claims, class_names: Sequence[str] | None, measured: Mapping[str, Measured]
) -> PositiveClass | None:
    """The positive class of a binary model; None for other claims."""
    if not claims.exclusive or claims.num_classes != 2:
        return None
    return positive.of(claims.of_class_1().pool("prediction"), class_names, measured["ece_positive"])


def people(predictions: Predictions) -> People:
    """How much people disagree about the samples, beside how much the model doubts."""
    votes = predictions.votes
    assert votes is not None
    of_people, of_model = (torch.special.entr(p).sum(dim=1) for p in (votes, predictions.probabilities))
    return {
        "entropy": number(float(of_people.mean())),
        "entropy_of_model": number(float(of_model.mean())),
        "unanimous": number(float((votes.amax(dim=1) == 1).double().mean())),
    }


def turned_round(auc: Measured | None, class_names: list[str] | None) -> str | None:
    """The sentence about a binary model whose scores rank the positive class last beyond doubt; else None."""
    if auc is None or auc.absent is not None or auc.high is None or not auc.high < 0.5:
        return None
    name = "1" if class_names is None else class_names[1]
    return (
        f"the samples of class {name} have lower scores than the others (AUC {auc.value:.3f}): "
        "are the scores those of the other class?"
    )


def settings_data(settings: Settings, resampled: str) -> SettingsData:
    """The settings as plain data, with what was resampled."""
    return {**asdict(settings), "resampled": resampled}  # type: ignore[typeddict-item]


def described(
    pool: Pool,
    measured: Mapping[str, Measured],
    settings: Settings,
    doubted: Sequence[str] = (),
    *,
    trained: bool = False,
    calibrated_by: str | None = None,
    of_positive: PositiveClass | None = None,
) -> Described:
    """The reliability of the winning scores in bins, and the verdict in words, which begins with the doubts.

    The verdict on a binary model is that on its positive class.
    """
    bins = pool.curve(binning.equal_width(settings.n_bins))
    gap, ece = measured["signed_gap"].interval, measured["ece_hist"].interval
    answered = "accuracy" in measured and measured["accuracy"].absent is None  # no label of several is an answer
    cells = results.cells(pool)
    said = results.verdict(gap, ece, cells, doubted, trained=trained, calibrated_by=calibrated_by, answered=answered)
    if of_positive is not None:
        auc = measured.get("auc")
        auroc = None if auc is None or auc.absent is not None or math.isnan(auc.value) else auc.value
        said = positive.verdict(said, of_positive, auroc)
    return {
        "verdict": said,
        "reliability": {
            "edges": bins.edges.tolist(),
            "count": [round(count) for count in bins.count.tolist()],
            "mean_confidence": [number(value) for value in bins.confidence.tolist()],
            "share_right": [number(value) for value in bins.likelihood.tolist()],
        },
    }

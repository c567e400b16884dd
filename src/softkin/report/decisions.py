"""The results of each decision rule on a model's predictions, at several levels, for the page."""

import warnings
from typing import Any

import torch
from torch import Tensor

from softkin import similarity as similarities
from softkin._core import checks
from softkin._core.checks import Array
from softkin._io.files import number
from softkin.decisions import Abstain, Climb, PredictionSets, Rule, Tree
from softkin.decisions.rule import set_apart
from softkin.predictions import Predictions
from softkin.report import sample_rows
from softkin.report.data import DecisionLevel, DecisionRule, Decisions

ERRORS = (0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01)
"""The levels of the slider: the error rate of answers, and 1 − the coverage of sets"""
LEAST = 200  # samples; half of fewer is too few for any level
MOST_SCORES = 5 * 10**6  # more would slow the page's build, and the intervals are narrow by then
MOST_TREE = 400  # classes; a larger tree is not drawn
SHOWN = 24  # samples to list
MOST_LISTED = 10_000  # answers of each level that the nodes of the tree list
LARGEST_SET = 30  # classes of a set to list


def build(
    predictions: Predictions, *, distances: Array | None = None, confidence: float = 0.95, seed: int = 0
) -> Decisions | None:
    """Rules fitted on a random half of the samples and measured on the other half; None if there are too few.

    Args:
        predictions: Predictions with labels.
        distances: (K, K) class distances, for sets of similar classes and for climbing.
        confidence: The level of the intervals and of the guarantees on error rates.
        seed: The seed of the split into halves.
    """
    y, k = predictions.known_labels, predictions.num_classes
    most = min(len(y), MOST_SCORES // k)
    if most < LEAST:
        return None
    chosen, _ = set_apart(len(y), most, seed)
    half, rest = set_apart(most, most // 2, seed + 1)
    fitted, measured = chosen[half], chosen[rest]
    scores = predictions.scores
    tree, alike = None, None
    if distances is not None:
        d = checks.square(distances, "distances", without_diagonal=True)
        alike = similarities.from_distances(d, asymmetric=True)
        if k <= MOST_TREE:
            tree = Tree.from_distances((d + d.T) / 2, class_names=predictions.class_names)
    listed = tree is not None and len(measured) <= MOST_LISTED
    shown = _samples(predictions.probabilities[measured])
    lines: list[DecisionRule] = []
    for title, about, make in _rules(tree, alike, confidence):
        levels: list[DecisionLevel] = []
        for error in ERRORS:
            rule = make(error)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    rule.fit(scores[fitted], y[fitted], from_probabilities=predictions.are_probabilities)
                    outcome = rule.evaluate(
                        scores[measured],
                        y[measured],
                        from_probabilities=predictions.are_probabilities,
                        confidence=confidence,
                    )
            except ValueError as refusal:
                levels.append({"failed": str(refusal)})
                continue
            level: DecisionLevel = {
                "measures": {
                    name: [number(value.value, 6), number(value.low, 6), number(value.high, 6)]
                    for name, value in outcome.items()
                }
            }
            answers = rule.predict(scores[measured][shown], from_probabilities=predictions.are_probabilities)
            level["samples"] = _listed(answers, predictions.probabilities[measured][shown], y[measured][shown])
            if isinstance(rule, Climb):
                if listed:
                    nodes = rule.predict(scores[measured], from_probabilities=predictions.are_probabilities)
                    level["answers"] = sample_rows.packed((nodes + 1).numpy())
                level["nodes"] = [[node["node"], node["rows"], node["right"]] for node in outcome.details["by_node"]]
            levels.append(level)
        lines.append({"title": title, "about": about, "levels": levels})
    return {
        "errors": list(ERRORS),
        "confidence": confidence,
        "fitted_on": len(fitted),
        "measured_on": len(measured),
        "measured": measured.tolist() if listed else None,
        "rules": lines,
        "tree": None if tree is None else {"parents": list(tree.parents), "names": list(tree.names)},
        "samples": measured[shown].tolist(),
        "labels": y[measured[shown]].tolist(),
    }


def _rules(tree: Tree | None, alike: Tensor | None, confidence: float) -> list[tuple[str, str, Any]]:
    """For each rule: its title, its guarantee in words, and a function from an error rate to the rule."""

    def sets(score: str, **options: Any) -> Any:
        return lambda error: PredictionSets(round(1 - error, 6), score, **options)

    def climb(error: float) -> Rule:
        assert tree is not None
        return Climb(tree, error, confidence=confidence)

    rules = [
        ("Sets, smallest (LAC)", "the true class is in the set", sets("lac")),
        ("Sets, adaptive (APS)", "the true class is in the set", sets("aps")),
    ]
    if alike is not None:
        rules.append(("Sets of similar classes (APS)", "the true class is in the set", sets("aps", similarity=alike)))
    rules += [
        ("Sets per class (LAC)", "the same for each class", sets("lac", conditional="class")),
        ("Abstain", "an answer is right", lambda error: Abstain(error, confidence=confidence)),
    ]
    if tree is not None:
        rules.append(("Climb", "an answer, or its kind, is right", climb))
    return rules


def _samples(p: Tensor) -> Tensor:
    """The rows to show, evenly spread over the confidence, from low to high."""
    order = p.amax(dim=1).argsort()
    places = torch.linspace(0, len(order) - 1, min(SHOWN, len(order))).long()
    return order[places]


def _listed(answers: Tensor, p: Tensor, labels: Tensor) -> list[Any]:
    """The answer of each sample: a node or −1; or 30 classes of its set, then minus the number of others.

    The classes of a set come by falling probability. The truth, if it is in the set, is always among the 30.
    """
    if answers.ndim == 1:
        return list(answers.tolist())
    sets: list[Any] = []
    for row, scores, label in zip(answers, p, labels.tolist(), strict=True):
        order = scores.argsort(descending=True, stable=True)
        members = order[row[order]].tolist()
        kept = members[:LARGEST_SET]
        if label in members and label not in kept:
            kept[-1] = label
        sets.append(kept if len(members) <= LARGEST_SET else [*kept, -(len(members) - LARGEST_SET)])
    return sets

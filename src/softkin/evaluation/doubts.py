"""Is this file what it was read as? Doubts come before any verdict, with the likely cause and the option that helps."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from softkin.metrics import scopes
from softkin.predictions import Predictions

FEW = 20  # rows: fewer show nothing
RARE = 1e-4  # the chance of so few right answers, below which chance is no explanation
MANY = 1000  # classes: with more, no other order of the classes is searched for
LISTED = 3  # classes that a sentence names
CALLED_LOGITS = (
    "The numbers that were read as logits are from 0 to 1, and rows sum to 1: they are probabilities, and the true "
    "confidences differ from those below (--probs)."
)


def of_predictions(predictions: Predictions, winning: Tensor) -> list[str]:
    """The doubts about predictions in memory, whose winning scores are known."""
    if predictions.are_pairs:  # which have no classes to mix up
        return []
    answers = scopes.winners(predictions.probabilities)
    found = doubts(predictions.known_labels, answers, winning, predictions.num_classes, predictions.class_names)
    if predictions.exact_probabilities is None and _are_probabilities(predictions.logits):
        found.insert(0, CALLED_LOGITS)
    return found


def _are_probabilities(logits: Tensor) -> bool:
    sums = logits.double().sum(dim=1)
    return float(logits.min()) >= 0 and float((sums - 1).abs().max()) < 1e-3


def doubts(
    labels: Tensor, answers: Tensor, winning: Tensor, num_classes: int, class_names: Sequence[str] | None
) -> list[str]:
    """Sentences about what cannot be right, or is unlikely to be; none if nothing is.

    Args:
        labels: (N,) true classes.
        answers: (N,) classes with the highest score.
        winning: (N,) their scores.
        num_classes: K.
        class_names: The names of the classes.

    Example:
        >>> labels = torch.arange(60) % 3
        >>> doubts(labels, labels, torch.ones(60), 3, None)
        []
        >>> print(doubts(labels, (labels + 1) % 3, torch.ones(60), 3, None)[0][:88])
        Only 0.0 % of the answers are right, but 100.0 % would be if each label were one higher:
    """
    n = len(labels)
    if n < FEW:
        return []
    true = torch.bincount(labels.long(), minlength=num_classes)
    won = torch.bincount(answers.long(), minlength=num_classes)
    names = [f"`{name}`" for name in class_names] if class_names else [f"class {k}" for k in range(num_classes)]
    intruder = _intruder(true, won, n)
    if intruder is not None:
        name = names[intruder]
        return [
            f"{name} wins {_share(won[intruder], n)} of the rows, and {_share(true[intruder], n)} of the labels are "
            f"{name}: if it is no class, leave it out with --ignore-columns {name.strip('`').replace('class ', '')}."
        ]
    if int((true > 0).sum()) == 1:
        return [f"Every label is {names[int(true.argmax())]}: is this the column of labels (--label-column)?"]
    found = _by_chance(labels.long(), answers.long(), float(winning.double().mean()), true, won, names)
    return [*([found] if found else []), *_unmatched(true, won, n, names)]


def _share(count: Tensor | int, n: int) -> str:
    return f"{100 * int(count) / n:.1f} %"


def _intruder(true: Tensor, won: Tensor, n: int) -> int | None:
    """A class that nearly always wins and is nearly never the label, as a column of ages would be."""
    top = int(won.argmax())
    return top if int(won[top]) >= 0.95 * n and int(true[top]) <= 0.01 * n else None


def _by_chance(
    labels: Tensor, answers: Tensor, sure: float, true: Tensor, won: Tensor, names: Sequence[str]
) -> str | None:
    """A sentence if answers are right less often than by chance, or no more often although the model is sure."""
    from scipy.special import bdtr, bdtrc  # scipy.stats takes most of a second to import

    n, hits, num_classes = len(labels), int((labels == answers).sum()), len(names)
    chance = float((true.double() / n * (won.double() / n)).sum())
    is_below = float(bdtr(hits, n, chance)) < RARE
    is_blind = (hits == 0 or float(bdtrc(hits - 1, n, chance)) > 0.05) and sure > chance + 0.2
    right = f"{_share(hits, n)} of the answers are right"
    if not is_below and not is_blind:
        if sure >= 0.999 and hits <= 0.5 * n:
            return (
                f"The model is {100 * sure:.2f} % sure on average, but {right}: were numbers that are no scores "
                "read as "
                "classes (--class-columns), or logits multiplied?"
            )
        return None
    if num_classes == 2:
        if not is_below:
            return _no_better(right, chance, sure)
        other = names[0].strip("`").replace("class ", "")
        return (
            f"Only {right}, fewer than by chance ({100 * chance:.1f} %): the two classes look turned round; a "
            "single score "
            f"is turned with --positive-class {other}, two columns are named in their order with --class-names."
        )
    for step, word in ((1, "higher"), (-1, "lower")):
        moved = int(((labels + step) % num_classes == answers).sum())
        if moved >= max(0.3 * n, 3 * hits):
            return (
                f"Only {right}, but {_share(moved, n)} would be if each label were one {word}: are labels and columns "
                "counted from the same number?"
            )
    turned = _turned(labels, answers, names)
    if turned is not None and turned[0] >= max(0.5 * n, 2 * hits):
        return (
            f"Only {right}, but {_share(turned[0], n)} would be with the classes in another order, such as "
            f"{turned[1]}: "
            "name them in the order of the scores with --class-names."
        )
    if is_below:
        return (
            f"Only {right}, fewer than by chance ({100 * chance:.1f} %): are these the labels (--label-column) and the "
            "classes (--class-columns)?"
        )
    return _no_better(right, chance, sure)


def _no_better(right: str, chance: float, sure: float) -> str:
    return (
        f"Only {right}, no more than by chance ({100 * chance:.1f} %), though the model is {100 * sure:.0f} % sure: "
        "are "
        "scores and labels in the same order?"
    )


def _turned(labels: Tensor, answers: Tensor, names: Sequence[str]) -> tuple[int, str] | None:
    """The right answers under the best order of the classes, and two classes that it exchanges."""
    from scipy.optimize import linear_sum_assignment

    k, n = len(names), len(labels)
    if k > MANY or n < 10 * k:
        return None
    counts = torch.bincount(labels * k + answers, minlength=k * k).view(k, k).numpy()
    own, other = linear_sum_assignment(counts, maximize=True)
    moved = np.flatnonzero(own != other)
    if not len(moved):
        return None
    most = moved[counts[own[moved], other[moved]].argmax()]
    return int(counts[own, other].sum()), f"{names[other[most]]} for {names[own[most]]}"


def _unmatched(true: Tensor, won: Tensor, n: int, names: Sequence[str]) -> list[str]:
    """Sentences about classes that win and are never the label, and about labels that never win."""
    found = []
    idle = ((true == 0) & (won >= max(FEW, 0.01 * n))).nonzero().flatten().tolist()
    if idle:
        wins = ", ".join(f"{names[k]} ({_share(won[k], n)})" for k in idle[:LISTED])
        more = f" and {len(idle) - LISTED} more" if len(idle) > LISTED else ""
        found.append(
            f"Some classes win but are never the label: {wins}{more}. Are all of them classes (--class-columns), "
            "and are "
            "all labels here?"
        )
    absent = int((true == 0).sum())
    if absent and not idle and n >= FEW * len(names):
        first = names[int((true == 0).int().argmax())]
        found.append(f"{absent} of {len(names)} classes never occur among the labels, such as {first}.")
    silent = ((won == 0) & (true >= max(FEW, 0.01 * n))).nonzero().flatten().tolist()
    if silent:
        rows = ", ".join(f"{names[k]} ({int(true[k]):,} rows)" for k in silent[:LISTED])
        more = f" and {len(silent) - LISTED} more" if len(silent) > LISTED else ""
        found.append(
            f"Some labels never win: {rows}{more}. Were they learned, and is each the label of its own column?"
        )
    return found

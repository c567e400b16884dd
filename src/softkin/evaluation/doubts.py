"""Is this file what it was read as? Doubts come before any verdict, with the likely cause and the option that helps.

Another doubt: was a calibrator fitted on the rows it is measured on? Found by the rows' content, whatever the file
names.

A key of each row is kept with the calibrator: a digest of its scores, as float32, and its label. Rows of different
samples can be equal, though: saturated ones, and those of coarse scores such as a forest's. So a row is identified by
its content only if it occurs once in its file and does not consist of zeros and a one. Other rows are identified by
their sample ids, unless these only number the rows. As many equal rows as chance explains do not count as a leak. Where
both files are at hand, equal ids with equal labels count too, whatever the scores.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin import SoftkinError
from softkin.calibrators.fitted import Fitted, digests, digests_in_order
from softkin.metrics import scopes
from softkin.predictions import Predictions

FEW = 20  # rows: fewer show nothing
RARE = 1e-4  # the chance of so few right answers, below which chance is no explanation
MOSTLY = 0.9  # of what the best order of the classes would make right: a shift that does less is not the cause
MANY = 1000  # classes: with more, no other order of the classes is searched for
LISTED = 3  # classes that a sentence names
SURELY = 30  # rows of right answers alone, with as many expected errors as below, that are doubted
ERRORS = 3  # expected: a model that is right in every row has none with a chance of e^-3
DECISIONS = "Every score is 0 or 1: these are decisions, and say nothing about how sure the model was."
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
    sure = float(winning.double().mean())
    if n >= SURELY and n * (1 - sure) >= ERRORS and bool((labels == answers).all()):
        return [
            f"The labels equal the model's answers in every row, though it is {100 * sure:.1f} % sure: are these the "
            "predictions (--label-column)?"
        ]
    found = _by_chance(labels.long(), answers.long(), sure, true, won, names)
    only = [] if found or not bool((winning == 1).all()) or bool((labels == answers).all()) else [DECISIONS]
    return [*([found] if found else only), *_unmatched(true, won, n, names)]


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
            f"is turned with --positive-class {other}, two columns beside labels 0 and 1 with --class-columns, in the "
            "other order."
        )
    turned = _turned(labels, answers, names)
    for step, word in ((1, "higher"), (-1, "lower")):
        moved = int(((labels + step) % num_classes == answers).sum())
        if moved >= max(0.3 * n, 3 * hits) and (turned is None or moved >= MOSTLY * turned[0]):
            return (
                f"Only {right}, but {_share(moved, n)} would be if each label were one {word}: are labels and columns "
                "counted from the same number?"
            )
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


SHARE = 0.01  # of the samples: fewer common samples are not reported
LEAST = 5  # samples: fewer are not reported, unless all samples are common
SATURATED = 1 - 1e-6


def row_digests(predictions: Predictions) -> NDArray[np.int64]:
    """A 64-bit digest of each row's scores and label, (N,); equal rows of different files have equal digests."""
    bits = predictions.scores.to(torch.float32).contiguous().numpy().view(np.uint32).astype(np.uint64)
    # A sum of products with fixed odd numbers, folded: linear time, and two rows collide about once in 2^63.
    generator = np.random.Generator(np.random.PCG64(0x50F7))
    factors = generator.integers(0, 2**63, bits.shape[1] + 1, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    with np.errstate(over="ignore"):
        total = (bits * factors[:-1]).sum(axis=1, dtype=np.uint64)
        total += predictions.known_labels.numpy().astype(np.uint64) * factors[-1]
        total ^= total >> np.uint64(32)
        total *= factors[0]
    digests: NDArray[np.int64] = total.view(np.int64)
    return digests


def row_keys(predictions: Predictions) -> NDArray[np.int64]:
    """The keys of the samples, (N,): content, or content and sample id, or the position in this very file."""
    content, is_alike = row_digests(predictions), _is_alike(predictions)
    names = _ids(predictions)
    if names is None:
        file = sha256(content.tobytes()).hexdigest()  # the same whether it is read as pairs or as two classes
        names = [f"{file} {row}" for row in range(len(content))]
    return np.where(is_alike, _named(content, names), content)


def known_by(predictions: Predictions) -> Tensor:
    """The digests by which the samples of a fit are recognised in any file: their ``row_keys``, and content and id."""
    n = len(predictions)
    keys = digests(row_keys(predictions), num_samples=n)
    ids = _ids(predictions)
    if ids is None:
        return keys
    by_id = digests(_named(row_digests(predictions), ids), num_samples=n)
    return torch.cat([keys, by_id]).sort().values


def _is_alike(predictions: Predictions) -> NDArray[np.bool_]:
    """Whether a row's content does not tell it from others, (N,): it occurs twice, or a probability is 1."""
    _, place, count = np.unique(row_digests(predictions), return_inverse=True, return_counts=True)
    is_alike: NDArray[np.bool_] = count[place] > 1
    if predictions.are_probabilities:
        is_alike |= (predictions.probabilities.amax(dim=1) > SATURATED).numpy()
    return is_alike


def _named(content: NDArray[np.int64], names: Sequence[Any]) -> NDArray[np.int64]:
    """Keys of content together with a name."""
    keys = [
        int.from_bytes(sha256(f"{key} {name}".encode()).digest()[:8], "little", signed=True)
        for key, name in zip(content.tolist(), names, strict=True)
    ]
    return np.array(keys, dtype=np.int64)


def _ids(predictions: Predictions) -> list[Any] | None:
    """The samples' ids, or None if there are none, or only row numbers, which do not identify samples."""
    ids = predictions.sample_ids
    if ids is None or (isinstance(ids, Tensor) and bool((ids.diff() == 1).all()) and int(ids[0]) in (0, 1)):
        return None
    return ids.tolist() if isinstance(ids, Tensor) else list(ids)


def _same_ids(fitted: Predictions, measured: Predictions) -> int:
    """The number of samples with an id that both have; 0 if one has another label, as other samples then share ids."""
    first, second = _ids(fitted), _ids(measured)
    if first is None or second is None:
        return 0
    labels = dict(zip(first, fitted.known_labels.tolist(), strict=True))
    pairs = [
        (labels[id_], label) for id_, label in zip(second, measured.known_labels.tolist(), strict=True) if id_ in labels
    ]
    return len(pairs) if all(one == other for one, other in pairs) else 0


def require_same_classes(fitted: Predictions, measured: Predictions) -> None:
    """Refuse to measure on one file what is fitted on another if their classes differ; their order may."""
    if fitted.num_classes != measured.num_classes:
        raise SoftkinError(
            f"{fitted.name} has {fitted.num_classes} classes and {measured.name} has {measured.num_classes}; "
            "what is fitted on one must fit the other."
        )
    measured.in_order(fitted.class_names, str(fitted.name))


def reordered(fitted: Fitted[Any], predictions: Predictions) -> str | None:
    """The line about predictions whose classes are in another order than those of the fit, or None."""
    if fitted.aligned(predictions.class_names) is None:
        return None
    return f"{predictions.name} has its classes in another order than the {fitted.what}; they were matched by name."


@dataclass(frozen=True)
class Overlap:
    """How many samples a fit had seen."""

    common: int
    num_samples: int
    is_least: bool = False
    """Whether there may be more: some samples are alike, and no ids tell them apart"""

    @property
    def least(self) -> str:
        """What precedes the number."""
        return AT_LEAST if self.is_least and self.common < self.num_samples else ""


def seen(fitted: Fitted[Any], predictions: Predictions, num_samples: int) -> Overlap:
    """How many rows something was fitted on; none without labels, which are needed to recognise them."""
    if predictions.labels is None:
        return Overlap(0, num_samples)
    found = overlap(fitted.sample_digests_, predictions.in_order(fitted.class_names_, f"the {fitted.what}"))
    return replace(found, num_samples=num_samples)


def overlap(fitted: Tensor | None, measured: Predictions) -> Overlap:
    """The samples that a calibrator was fitted on, beyond what chance explains.

    Args:
        fitted: The calibrator's ``sample_digests_``, which come from ``known_by``.
        measured: Predictions with labels.
    """
    n = len(measured)
    if fitted is None:
        return Overlap(0, n)
    content, ids = row_digests(measured), _ids(measured)
    by_content = _among(row_keys(measured), fitted)
    by_id = np.zeros(n, dtype=bool) if ids is None else _among(_named(content, ids), fitted)
    alone = int((by_content & ~by_id).sum())
    # Of contents that occur twice in two files, as many are split between the files as the sizes say: those that occur
    # twice in one tell how many occur once in each by chance.
    twice = int((np.unique(content, return_counts=True)[1] == 2).sum())
    chance = 2 * twice * len(fitted) / n
    either = int((by_id | by_content).sum())
    common = either if either == n or alone > chance + 4 * chance**0.5 else int(by_id.sum())
    return Overlap(common, n, is_least=ids is None and bool(_is_alike(measured).any()))


def _among(keys: NDArray[np.int64], fitted: Tensor) -> NDArray[np.bool_]:
    """Which keys a fit knows, (N,)."""
    known: NDArray[np.bool_] = torch.isin(digests_in_order(keys, num_samples=len(keys)), fitted).numpy()
    return known


def notice(found: Overlap, method: str | None, name: str) -> str | None:
    """The warning about common samples, or None; ``method`` is None if there are several methods."""
    common, n = found.common, found.num_samples
    if common < max(1, SHARE * n) or LEAST > common != n:
        return None
    fitted, flattered = (
        (f"the {method} was", "it look better than it is")
        if method
        else ("the calibrators were", "them look better than they are")
    )
    return (
        f"{found.least}{common:,} of the {n:,} samples of {name} are among those that {fitted} fitted on; "
        f"metrics measured on these make {flattered}: fit on other samples."
    )


def between(fitted: Predictions, measured: Predictions) -> str | None:
    """The warning about samples that are in both sets, or None."""
    measured = measured.in_order(fitted.class_names, str(fitted.name))
    found = overlap(known_by(fitted), measured)
    return notice(replace(found, common=max(found.common, _same_ids(fitted, measured))), None, str(measured.name))


def note(found: Overlap, method: str, fingerprint: str) -> dict[str, str]:
    """What a calibrated file says about its calibration: by which fit, and how many of its rows are of it, if any."""
    of_fit = f": {found.least}{found.common} of {found.num_samples} samples are of its fit" if found.common else ""
    return {"calibrated_by": method, "calibration": f"{method} [{fingerprint}]{of_fit}"}


def warning(notes: Mapping[str, Any], name: str, *, of_rule: bool = False) -> str | None:
    """The warning that follows from a calibrated file's record of its calibration, or None.

    Args:
        notes: What the file says besides its numbers.
        name: The file.
        of_rule: Whether a rule is fitted on the file; otherwise it is measured.
    """
    kept = _NOTE.fullmatch(str(notes.get("calibration", "")))
    if kept is None or kept[4] is None:
        return None
    found = Overlap(int(kept[4]), int(kept[5]), is_least=kept[3] is not None)
    told = notice(found, kept[1], name)
    if told is None or not of_rule:
        return told
    return (
        f"{found.least}{found.common:,} of the {found.num_samples:,} samples of {name} are among those that the "
        f"{kept[1]} was fitted on, where it looks better than it is: the rule's promise may not hold; fit the rule on "
        "other samples."
    )


def calibration_of(notes: Mapping[str, Any]) -> str:
    """Which fit calibrated a file, as its notes tell: "temperature calibrator [1f3a90c2]"; "" if none is known to."""
    kept = _NOTE.fullmatch(str(notes.get("calibration", "")))
    if kept is None or not notes.get("calibrated_by"):
        return str(notes.get("calibrated_by") or "")
    return kept[1] if kept[2] is None else f"{kept[1]} [{kept[2]}]"


def other_calibration(fitted: str | None, new: str, name: str) -> str | None:
    """The warning that new rows were not calibrated as those of a rule's fit, or None.

    Args:
        fitted: ``calibration_of`` the rows of the fit; None if it is unknown.
        new: That of the new rows.
        name: The file of the new rows.
    """
    if fitted is None or fitted == new:
        return None
    fallen = "the rule's promise does not hold for them"
    if not new:
        return (
            f"the rule was fitted on confidences calibrated by the {fitted}, and those of {name} are not known to be: "
            f"{fallen}; run `softkin calibrate apply` first."
        )
    if not fitted:
        return (
            f"the rule was fitted on confidences that softkin had not calibrated, and those of {name} are calibrated "
            f"by the {new}: {fallen}; fit the rule on calibrated rows."
        )
    (kind, _, fit), (new_kind, _, new_fit) = (text.partition(" [") for text in (fitted, new))
    if not (fit and new_fit) and (kind == new_kind or "softkin" in (kind, new_kind)):
        return None  # files of an earlier softkin, which may be of one fit
    return (
        f"the rule was fitted on confidences calibrated by the {fitted}, and those of {name} are by the {new}, another "
        f"fit: {fallen}; a rule belongs to its calibrator, so fit it again, too."
    )


AT_LEAST = "at least "
_NOTE = re.compile(
    rf"(.{{1,200}}?)(?: \[([0-9a-f]{{8}})\])?(?:: ({AT_LEAST})?(\d{{1,18}}) of (\d{{1,18}}) samples are of its fit)?"
)

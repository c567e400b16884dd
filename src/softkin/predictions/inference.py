"""What a file does not say is inferred where a person would find it obvious, and said in one line.

Each function returns what it concluded and a sentence with the reason and the option that overrules it. Where two
readings are possible, it refuses and names the option for each.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._io.files import Assumption
from softkin._io.roles import ScoreKind

INFERRED: tuple[tuple[str, str, str], ...] = (
    ("no name says whether the numbers are logits or probabilities",
     "if rows sum to 1, up to rounding, the numbers are probabilities; if rows sum to 100, they are percentages; if "
     "some are negative or rows have other sums, they are logits (or log-probabilities); if "
     "all lie between 0 and 1 and rows have other sums, the file is refused, and the message names both options",
     "`--logits`, `--probs`"),
    ("labels under a name that is not in the list below",
     "the labels are the column whose texts are names of other columns; if there are several, words in their names "
     "(true, actual, final; predicted, guess) decide. Or they are the column with the words of the predictions, or "
     "`species` beside `predicted_species`. If the column of a usual name is the class with the highest score in every "
     "row, and another of class names is not, that one is the truth. Names beside a column of numbers are taken if "
     "they show another order of the classes. "
     "If there is a single score, the labels are the only column with two values, such as 0 and 1. Otherwise they are "
     "the only column of class numbers (or with as many different words as there are scores) that agrees with the "
     "highest score more often than guessing would, but not in every row", "`--label-column NAME`"),
    ("truth in as many columns as classes: `true_cat`, `true_dog` beside `prob_cat`, `prob_dog`",
     "one 1 in each row: the classes; names such as `votes_cat`: people's votes; any number of ones: several labels "
     "per sample", "`--label-column NAME`, `--multi-label`"),
    ("columns beside the classes: ids, ages, predictions, folds, texts",
     "columns of classes are recognised by the labels, by a word in their name (`prob_cat`, `cat_prob`, `P(cat)`, "
     "`p0` …) or because rows sum to 1; all others are left out and named",
     "`--class-columns A,B`, `--ignore-columns A,B`"),
    ("ids as `customer_id`, `orderId`, `Mail no.`, `Case #`",
     "taken, if there is none of a name in the list below and no two rows have the same", "`--ignore-columns NAME`"),
    ("the labels are in another file", "beside `logits.npy` or `.pt`, `labels.npy`, `y_true.npy` and the like are "
     "found",
     "`--labels FILE`: `.npy`, `.npz`, `.pt`, any table, or `.txt` with one per line; rows are matched by ids, or "
     "by a column of both (such as `filename`) that tells them apart, classes by names; else rows are taken by "
     "position. `--label-column` may name a column of it"),
    ("labels from 1 to K, as `2.0`, as a column (N, 1), or in another spelling (`CAT `)", "understood", ""),
    ("rows without a label (empty, NaN, a word for nothing, −100; −1 unless that may be a class), or without any score",
     "left out; `apply` keeps them; refused if they are more than half", ""),
    ("labels are names beside scores without names",
     "if there are as many names as scores, the names in alphabetical order are assigned to the scores",
     "`--class-names FILE`, one name per line, in the order of the columns"),
    ("rows were rounded and no longer sum to 1", "divided by their sums; refused where rounding cannot explain it",
     "`--renormalise`"),
    ("separated by semicolons, tabs or bars; decimal commas, percent signs, marked thousands, quotes; UTF-16 or "
     "Windows-1252; remarks or `sep=;` above the header; packed as `.csv.gz`, `.csv.bz2`, `.csv.xz`, or alone in a "
     "`.zip`", "read", ""),
    ("the header once more among the rows, as in files that were joined; titles above the table, a row of units below "
     "its header; last rows of "
     "sums and means; stars before numbers; Orange's types and roles below the header", "left out", ""),
    ("a header without a name for the names of rows, as R writes it; Weka's `distribution`", "understood", ""),
    ("a row for each sample and class: an id, a class, a score",
     "if each id has each class once, and the scores are named as such or sum to 1, rows are joined", ""),
    ("columns such as `EST1_cat`, `P (species=dog)` beside a column of \"cat\" and \"dog\"",
     "scores of these classes, if rows sum to 1 or the columns say logits or probabilities", "`--class-columns A,B`"),
    ("one score named after one of three or more labels (`prob_cat`; `home_win_prob` beside H, D and A)",
     "the other labels together are one class", "`--label-column NAME`, `--positive-class NAME`"),
    ("no header", "columns are called `column 1`, `column 2` …; the labels are the only column of texts, or the "
     "only column of whole numbers that are not row numbers", '`--label-column "column 5"`'),
    ("a folder or a pattern of files", "one set, in the order of the names; the same classes in another order are "
     "matched "
     "by name", ""),
    ("the texts of the samples under a name that is not in the list below", "left out and named",
     "`--text-column NAME`; texts stay with their samples"),
    ("lists or numbers by name printed into the cells of a CSV, as `pandas` writes `[0.1, 0.9]`", "read; refused where "
     "the printing left some out (`...`)", ""),
    ("a label, a prediction and one score", "with more than two classes, or if it is never below 0.5, the score is "
     "the prediction's confidence; otherwise it is the probability of one class: "
     "the one predicted in rows whose score is above 0.5",
     "`--positive-class NAME`"),
    ("numbers beside the one score of a binary model: amounts, ages, features", "left out and named, if there are "
     "two kinds of labels and only one column lies between 0 and 1 or is called a score", "`--class-columns NAME`"),
    ("one score in percent", "divided by 100, if it goes above 30, or above 1 under a name that says probability; "
     "refused if it is called percent and never above 1", "`--logits`, `--probs`"),
    ("columns of yes and no, or another pair in the list below, beside labels 0 and 1",
     "1 is the positive one of the pair, wherever it stands", "`--class-columns A,B`"),
    ("`p_wrong`, `error_probability` beside whether answers were right", "1 minus it is the confidence", ""),
    ("two columns of logits that rise and fall together, and with labels of two kinds",
     "refused: they may be scores of one class by two models, or features", "`--class-columns A`, or `A,B` if they are "
     "two classes"),
    ("one score for each sample of a binary model",
     "the score is of the class that its name says (`prob_spam`), or of the positive label of a pair in the list "
     "below; "
     "otherwise both options are named",
     "`--positive-class NAME`: the score is the probability (`--probs`) or the log-odds (`--logits`) of this class"),
    ("JSON lines, an array of objects (also under the only such key), objects by id, an object of lists, as `pandas` "
     "(any `orient`), pipelines, zero-shot pipelines, Spark, Vertex AI, Prodigy and BigQuery write them; scores in an "
     "inner object", "read", ""),
    ("numbers with blanks between them, as `numpy.savetxt` writes", "read", ""),
    ("an array of rows of numbers in a `.json` file", "as for `.npy`", "`--labels FILE`"),
    ("log-probabilities of a language model's likeliest answers (`top_logprobs`)", "read", "`--class-names FILE`"),
    ("a pickle (`.pkl`, `.joblib`)", "never read, because reading one runs the code in it", ""),
)  # fmt: skip
"""(what a file may be like, what is done, the option that overrules it): the table of docs/files.md"""
PERCENT = (
    30.0  # numbers from 0 to more than this, and at most 100, are percent: no log-odds are so sure and never negative
)
TOLERANCE = 1e-3  # for the sum of a row, as in ``checks.probabilities``; half precision is allowed ten times as much


def say(sentences: Iterable[str], stacklevel: int = 3) -> None:
    """Warn of each assumption."""
    for sentence in sentences:
        warnings.warn(sentence, Assumption, stacklevel=stacklevel)


def unknown_kind(name: str, what: str) -> SoftkinError:
    """The error that shows the two options to type."""
    return SoftkinError(
        f"{name} does not say whether {what} are logits or probabilities, and the numbers could be either; "
        "type --logits (any real numbers, before softmax) or --probs (rows that sum to 1, or are divided by their sums "
        "with --renormalise)."
    )


def kind_of(values: Tensor, name: str, what: str) -> tuple[ScoreKind, bool, str]:
    """(kind of scores, whether rows must be divided by their sums, why), from the numbers themselves.

    Args:
        values: (n, K) scores of the first samples.
        name: The file's name, for the sentence.
        what: What the scores are called in it, such as "its columns a, b".

    Raises:
        SoftkinError: The numbers could be either.
    """
    v = values.double()
    if not len(v) or not bool(torch.isfinite(v).all()):
        raise unknown_kind(name, what)
    low, high = (float(end) for end in torch.aminmax(v))
    if v.shape[1] == 1:
        if low >= -checks.UNIT_ROUNDING and high <= 1 + checks.UNIT_ROUNDING:
            return "probs", False, f"{name}: {what} are read as probabilities, being from 0 to 1 (--logits overrules)."
        if low < 0 and high <= 0:
            raise SoftkinError(
                f"{name}: of {what} no number is above 0, as with logarithms of probabilities; save the probabilities "
                "instead, or type --logits if they are log-odds."
            )
        if low < 0:
            return "logits", False, f"{name}: {what} are read as log-odds, since some are negative."
        if are_percent(v):
            return "probs", True, f"{name}: {what} are read as percent, going up to {high:g} (--logits overrules)."
        raise unknown_kind(name, what)
    if sums_to_one(v):
        return "probs", False, f"{name}: {what} are read as probabilities, since rows sum to 1 (--logits overrules)."
    if sum_to_100(v):
        return "probs", True, f"{name}: {what} are read as percent, since rows sum to 100 (--logits overrules)."
    sums = v.sum(dim=1)
    if low < 0 and high <= 1e-6 and float(torch.logsumexp(v, dim=1).abs().max()) <= TOLERANCE:
        return "logits", False, f"{name}: {what} are read as log-probabilities, since their exponentials sum to 1."
    for base in (10, 2) if low < 0 and high <= 1e-6 else ():
        if float(torch.logsumexp(v * math.log(base), dim=1).abs().max()) <= TOLERANCE:
            raise SoftkinError(
                f"{name}: {what} are logarithms of probabilities to the base {base}, since {base} to their power sums "
                f"to 1; multiply them by {math.log(base):.6f}, or save probabilities; --logits reads them as they are."
            )
    if low < -TOLERANCE:
        return "logits", False, f"{name}: {what} are read as logits, since some are negative."
    is_counts = low >= 0 and bool((v == v.round()).all())
    if low >= 0 and high > 1 and not is_counts and float(sums.max() - sums.min()) > 0.001 * float(sums.max()):
        reason = f"since rows sum to anything from {float(sums.min()):.3g} to {float(sums.max()):.3g}"
        return "logits", False, f"{name}: {what} are read as logits, {reason} (--probs --renormalise overrules)."
    raise unknown_kind(name, what)


def are_percent(scores: Tensor) -> bool:
    """Whether single scores are percent."""
    low, high = (float(end) for end in torch.aminmax(scores))
    return low >= 0 and PERCENT < high <= 100


def sums_to_one(values: Tensor) -> bool:
    """Whether rows are probabilities that sum to 1 within the rounding of their numbers."""
    if not values.numel() or not bool(torch.isfinite(values).all()) or float(values.min()) < 0:
        return False
    off = (values.double().sum(dim=1) - 1).abs().max()
    return float(off) <= TOLERANCE or float(off) <= checks.rounding(values)


def sum_to_100(values: Tensor) -> bool:
    """Whether rows are percentages of all classes."""
    return sums_to_one(values.double() / 100)


def sums_to_whole(values: Tensor) -> bool:
    """Whether rows sum to 1, or to 100 as percentages do."""
    return sums_to_one(values) or sum_to_100(values)


def renormalised(p: Tensor, name: str, place: Callable[[int], str]) -> Tensor:
    """Rows divided by their sums; ``place`` says where a row is, for messages."""
    p = p.to(torch.float64)
    sums = p.sum(dim=1, keepdim=True)
    wrong = ((p < 0).any(dim=1) | ~torch.isfinite(sums[:, 0]) | (sums[:, 0] <= 0)).nonzero()[:, 0]
    if len(wrong):
        row = int(wrong[0])
        raise SoftkinError(
            f"{name}, {place(row)}: to be renormalised a row must hold numbers of at least 0 that are not all 0, "
            f"got {[round(value, 6) for value in p[row, :5].tolist()]}."
        )
    return p / sums


def unrounded(p: Tensor, name: str, place: Callable[[int], str]) -> tuple[Tensor, str | None]:
    """(rows, why): rows that do not sum to 1 because of rounding are divided by their sums; others are refused."""
    half = p.dtype in (torch.float16, torch.bfloat16)
    sums = p.sum(dim=1, dtype=torch.float32 if half else torch.float64)
    off = (sums - 1).abs()
    if not len(off) or not bool(torch.isfinite(sums).all()) or float(p.min()) < 0:
        return p, None  # invalid values have their own error
    row = int(off.argmax())
    if float(off[row]) <= TOLERANCE * (10 if half else 1):
        return p, None
    total = float(p[row].sum(dtype=torch.float64))
    if float(off[row]) > checks.rounding(p):
        raise SoftkinError(
            f"{name}: `probabilities` must have rows that sum to 1, but {place(row)} sums to {total:g}; "
            "if that is meant, --renormalise divides each row by its sum; if they are logits, type --logits."
        )
    p = p.to(torch.float64)
    divided = torch.where((off > TOLERANCE)[:, None], p / sums.double()[:, None], p)
    why = f"{name}: rows that were rounded are divided by their sums, such as {place(row)}, which sums to {total:g}."
    return divided, why


def shown(columns: Sequence[str], most: int = 3) -> str:
    """A few columns, for a sentence."""
    return f"{', '.join(columns[:most])}{' …' if len(columns) > most else ''}"

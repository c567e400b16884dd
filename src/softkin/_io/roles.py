"""What columns are called: the one vocabulary of roles, for predictions, data sets, texts, images and trees.

A file of any format has named parts: the columns of a table, the arrays of an archive, the keys of objects. Which part
plays which role is decided here by its name; readers add what only the values can tell.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, get_args

from softkin import SoftkinError
from softkin._core.names import did_you_mean

ScoreKind: TypeAlias = Literal["logits", "probs"]
Role: TypeAlias = Literal[
    "index", "id", "label", "text", "image", "prediction", "outcome", "score", "weight", "group", "time", "part",
    "measure", "parent", "child", "superclass", "answers", "confidence", "votes",
]  # fmt: skip

NAMES: dict[Role, tuple[str, ...]] = {  # earlier names take precedence
    "index": ("", "unnamed_0", "index_level_0", "level_0", "index"),  # as pandas names row numbers
    "id": ("sample_ids", "sample_id", "ids", "id", "uid", "uuid", "guid", "row_id", "idx"),
    "label": (
        "y_true", "true_label", "truth", "ground_truth", "gold", "gold_label", "true_class", "actual_class",
        "actual_label", "correct_label", "correct_class", "true_category", "actual", "y_test", "true",
        "label", "labels", "fine_label", "label_ids", "label_id", "targets", "target", "y", "class", "class_name",
        "class_label", "intent", "category", "annotation", "expected", "correct_answer", "expected_answer", "answer",
        "label_name", "consensus",
    ),
    "text": (
        "text", "texts", "sentence", "utterance", "query", "question", "review", "content", "comment", "message",
        "prompt", "document", "headline", "tweet",
    ),
    "image": ("image", "img", "images", "picture", "photo"),
    "prediction": (
        "prediction", "predictions", "predict", "pred", "preds", "predicted", "predicted_label", "pred_label",
        "predicted_class", "pred_class", "y_pred", "y_hat", "yhat", "argmax", "guess", "guessed", "top1", "winner",
        "prediction_label", "prediction_class", "model_answer", "predicted_answer",
        "scored_labels", "scored_label", "top_1", "top1_label", "top1_class",
    ),
    "outcome": (
        "correct", "is_correct", "outcome", "right", "hit", "was_correct", "is_right", "grade", "tp", "is_tp",
        "true_positive", "exact_match", "verdict", "resolved", "resolution", "happened", "occurred",
    ),
    "score": (
        "score", "scores", "y_score", "y_scores", "y_prob", "y_proba", "y_probs", "y_pred_proba", "y_pred_prob",
        "pred_prob", "pred_proba", "predicted_probability", "p", "confidence", "max_prob", "max_probability",
        "top1_prob", "top1_score", "top1_conf", "top1conf", "pred_score", "predicted_score", "prediction_score",
        "predicted_prob",
        "scored_probabilities", "scored_probability", "decision_function", "raw_score", "log_odds", "logodds",
    ),
    "weight": ("weight", "weights", "sample_weight", "sample_weights"),
    "group": ("group", "groups", "site", "sex", "gender", "device", "model", "annotator"),
    "time": ("time", "date", "datetime", "timestamp", "day", "month", "year"),
    "measure": (
        "loss", "nll", "cross_entropy", "entropy", "margin", "uncertainty", "variance", "energy", "perplexity", "lat",
        "latitude", "lon", "lng", "long", "longitude", "age", "p_value", "pvalue",
    ),
    "part": ("split", "fold", "part", "subset", "partition"),
    "parent": ("parent",),
    "child": ("child",),
    "superclass": ("superclass", "super_class", "coarse_label", "superclasses", "group"),
    "confidence": (
        "calibrated_confidence", "confidence", "confidences", "conf", "certainty", "answer_confidence",
        "model_confidence",
    ),
    "votes": ("votes", "counts", "soft_labels", "vote_counts", "annotations", "label_distribution"),
    "answers": ("top_logprobs", "logprobs", "log_probs", "log_probabilities"),
}  # fmt: skip
ABOVE = (
    "kind", "category", "group", "type", "family", "genus", "supercategory", "coarse", "broader", "hypernym",
    "superclass",
)  # fmt: skip
BELOW = (
    "name", "item", "class", "label", "species", "subcategory", "fine", "narrower", "hyponym", "subclass", "leaf",
)  # fmt: skip
"""Words over the two columns of a tree, besides those that have a role"""
MISTAKES = (
    "wrong", "is_wrong", "was_wrong", "error", "is_error", "incorrect", "is_incorrect", "misclassified",
    "is_misclassified", "mistake", "is_mistake",
)  # fmt: skip
"""What a column is called that says whether an answer was wrong"""
KINDS: dict[ScoreKind, tuple[str, ...]] = {
    "logits": ("logits", "logit"),
    "probs": ("probs", "prob", "probabilities", "probability", "proba"),
}
"""Words that say what scores are"""
WEAK_WORDS: dict[str, ScoreKind | None] = {
    "p": "probs", "softmax": "probs", "%": None, "pct": None, "percent": None, "score": None,
    "scores": None, "output": None, "conf": None, "confidence": None,
    "pred": None, "preds": None, "prediction": None, "class": None, "z": None,
    "logprob": "logits", "logprobs": "logits", "log_prob": "logits", "log_probs": "logits", "logp": "logits",
    "calibrated": "probs", "distribution": "probs",
}  # fmt: skip
"""Words of class columns that several columns must share to count"""
TRUE_WORDS = frozenset(("actual", "confirmed", "final", "gold", "label", "observed", "real", "reference", "target",
    "true", "truth"))  # fmt: skip
GUESS_WORDS = frozenset(("assigned", "decision", "guess", "guessed", "pred", "predict", "predicted", "prediction",
    "proposed", "suggested", "winner"))  # fmt: skip
"""Words that show which of several columns of class names is the labels, and which the predictions"""
CLASS_NAMES = ("class_names", "classes", "label_names", "target_names", "categories", "names")
"""What the names of all classes are called where a file holds them apart from the scores"""
CALIBRATION = "calibration_note"
"""The column in which a calibrated table says, in its first row, that rows are among those of the fit"""
CALIBRATED, CALIBRATED_PAIR = "calibrated_", "calibrated_confidence"
"""The beginning of the names of calibrated columns, and the name of that of pairs"""

_STRONG = "|".join(word for words in KINDS.values() for word in words)
_ANY = f"(?:y_(?:pred_)?)?(?:{_STRONG}|{'|'.join(WEAK_WORDS)})"
_PREFIXED = re.compile(rf"({_ANY})(?:[ _.:/\[(]+(-\d+)[\])]?|[ _.:/\[(-]+(.+?)[\])]?|(\d+))", re.IGNORECASE | re.DOTALL)
_NAMED = re.compile(r"(?:class|label|category)=(?=.)", re.IGNORECASE)
_SUFFIXED = re.compile(rf"(.+?)[ _.:/\[(-]+({_ANY})[\])]?", re.IGNORECASE | re.DOTALL)


def plain(name: str) -> str:
    """A column's name in the form in which the vocabulary lists it.

    Example:
        >>> plain("Ground truth"), plain("Unnamed: 0")
        ('ground_truth', 'unnamed_0')
    """
    return re.sub(r"[\W_]+", "_", name.strip().lower()).strip("_")


def unpointed(name: Any) -> str:
    """A name as text; a whole number that became a float loses its point.

    Example:
        >>> unpointed(3.0), unpointed("a ")
        ('3', 'a')
    """
    text = str(name).strip()
    return text.removesuffix(".0") if re.fullmatch(r"-?\d+\.0", text) else text


def find(columns: Iterable[str], role: Role) -> str | None:
    """The column that plays a role by its name; the order of ``NAMES`` decides between several."""
    called: dict[str, str] = {}
    for column in columns:
        called.setdefault(plain(column), column)
    return next((called[name] for name in NAMES[role] if name in called), None)


def chosen(columns: Sequence[str], role: Role, stated: str | None, option: str, name: str) -> str | None:
    """``find``, unless the caller states the column, which must then be there.

    Args:
        columns: The columns that may play the role.
        role: The role.
        stated: The caller's column.
        option: The option that states it, such as "label_column", for the error.
        name: The file's name, for the error.
    """
    if stated is None:
        return find(columns, role)
    if stated in columns:
        return stated
    held = ", ".join(list(columns)[:10]) or "nothing"
    raise SoftkinError(
        f"{name} has no `{stated}` (--{option.replace('_', '-')}); it has {held}{did_you_mean(stated, columns)}"
    )


def role_of(column: str) -> Role | None:
    """The role that a column's name says; anything that ends in "_id" or "Id" is an id."""
    name = plain(column)
    known: Role | None = next((role for role in get_args(Role) if name in NAMES[role]), None)
    return "id" if known is None and identified_by(column) else known


def may_be_ids(column: str) -> bool:
    """Whether a column is called the ids of something, but not of labels or answers.

    Example:
        >>> may_be_ids("customer_id"), may_be_ids("orderId"), may_be_ids("Loan ID"), may_be_ids("paid")
        (True, True, True, False)
        >>> may_be_ids("Mail no."), may_be_ids("Ticket Number"), may_be_ids("Case #")
        (True, True, True)
        >>> may_be_ids("intent_id"), may_be_ids("true_id"), may_be_ids("class_id"), may_be_ids("p_no")
        (False, False, False, False)
    """
    if _NUMBERED.search(column.strip()) and role_of(column) is None and class_of(column) is None:
        return True
    of_classes = leaning(column) is not None or role_of(identified_by(column)) in ("label", "prediction", "superclass")
    return role_of(column) == "id" and not of_classes


_NUMBERED = re.compile(r"[^\W_][\W_]*(#|[\W_](no|nr|number)\.?)$", re.IGNORECASE)


def identified_by(column: str) -> str:
    """What a column is called the ids of: "customer" of "customer_id"; nothing if it is not called so."""
    name = plain(re.sub(r"(?<=[a-z0-9])I[dD]$", "_id", column.strip()))
    return name.removesuffix("_id") if name.endswith("_id") else ""


def leaning(column: str) -> Literal["label", "prediction"] | None:
    """Whether a word of a column's name says that it holds the truth, or predictions.

    Example:
        >>> leaning("Dx final"), leaning("Predicted label"), leaning("species")
        ('label', 'prediction', None)
    """
    words = set(plain(column).split("_"))
    return "prediction" if words & GUESS_WORDS else "label" if words & TRUE_WORDS else None


def guessed_of(column: str) -> str | None:
    """What a column of predictions is of, by its name; None if its name does not say.

    Example:
        >>> guessed_of("Predicted species"), guessed_of("species_pred"), guessed_of("predicted"), guessed_of("species")
        ('species', 'species', None, None)
    """
    words = plain(column).split("_")
    rest = [word for word in words if word not in GUESS_WORDS]
    return "_".join(rest) if rest and len(rest) < len(words) else None


def listed(role: Role, most: int = 12) -> str:
    """Usual names of a role for a message, its own first, as `a`, `b` or `c`."""
    *first, last = (f"`{name}`" for name in sorted(NAMES[role], key=lambda name: name != role)[:most])
    return f"{', '.join(first)} or {last}" if first else last


def kind_in_words(text: str) -> ScoreKind | None:
    """The kind of scores that a file's or column's name states by one of the words ``logits``, ``probs`` and so on.

    ``log_probs`` may be their logarithms, or a log of them, which only the numbers can tell.
    """
    words = set(re.split(r"[^a-z]+", text.lower()))
    said: list[ScoreKind] = [kind for kind, names in KINDS.items() if words & set(names)]
    return said[0] if len(said) == 1 and not (said == ["probs"] and "log" in words) else None


def class_of(column: str) -> tuple[str, str] | None:
    """(word, class name) of a column of scores such as ``probs_cat`` or ``cat_prob``; None if it has no such word.

    A word after the name is told from one before it by a leading blank.

    Example:
        >>> class_of("probs_cat"), class_of("logits[3]"), class_of("p0"), class_of("cat")
        (('probs', 'cat'), ('logits', '3'), ('p', '0'), None)
        >>> class_of("cat_prob")
        (' prob', 'cat')
        >>> class_of("P(cat)"), class_of("prob_jay (blue)")
        (('p', 'cat'), ('prob', 'jay (blue)'))
        >>> class_of("p_-1"), class_of("p-1")
        (('p', '-1'), ('p', '1'))
        >>> class_of("Probability:Class=cat"), class_of("score For sale (%)")
        (('probability', 'cat'), ('score', 'For sale'))
    """
    if role_of(column) is not None:
        return None
    before, after = _PREFIXED.fullmatch(column), _SUFFIXED.fullmatch(column)
    if before is not None and not (after is not None and before[1].lower() == "class"):  # class_0_score is of class_0
        return before[1].lower(), _NAMED.sub("", without_unit(_closed(before[2] or before[3] or before[4], column)))
    return None if after is None else (f" {after[2].lower()}", after[1])


def without_unit(name: str) -> str:
    """The name of a class without the percent sign that says how its scores are written.

    Example:
        >>> without_unit("For sale (%)"), without_unit("cat %"), without_unit("100%"), without_unit("%")
        ('For sale', 'cat', '100%', '%')
    """
    return _UNIT.sub("", name) or name


_UNIT = re.compile(r"\s*[\[(]\s*(in )?(%|percent|pct)\s*[\])]$|\s+%$|(?<=[^\W\d])%$", re.IGNORECASE)


def _closed(name: str, column: str) -> str:
    """The name of a class with the bracket at the column's end, if that belongs to it: ``prob_jay (blue)``."""
    for opening, closing in ("()", "[]"):
        if column.endswith(closing) and name.count(opening) > name.count(closing):
            return name + closing
    return name


def is_weak(word: str) -> bool:
    """Whether a word of ``class_of`` counts only if several columns share it."""
    return word.startswith(" ") or kind_in_words(word) is None


def kind_of_word(word: str) -> ScoreKind | None:
    """The kind of scores that the word of a class column states."""
    return kind_in_words(word) or WEAK_WORDS.get(word.strip())

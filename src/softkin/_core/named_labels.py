"""Labels that are texts, as class numbers: by the names of a data frame's columns, else in alphabetical order."""

import warnings
from collections.abc import Mapping, Sequence, Set
from itertools import permutations
from typing import Any

import numpy as np
from torch import Tensor

from softkin._core.assumption import Assumption
from softkin._core.names import spelling, within

PAIRS = (
    ("0", "1"), ("-1", "1"), ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"), ("negative", "positive"),
    ("neg", "pos"), ("absent", "present"), ("off", "on"), ("nein", "ja"), ("non", "oui"), ("no", "si"), ("no", "sí"),
    ("não", "sim"), ("nee", "ja"),
)  # fmt: skip
"""Labels of which the second is the positive one"""


def columns_of(scores: Any) -> list[str] | None:
    """The names of a data frame's columns, if they are all texts, or the numbers 0 … K−1 in any order."""
    columns = getattr(scores, "columns", None)
    if columns is None or isinstance(scores, Tensor | np.ndarray):
        return None
    names = list(columns)
    if (
        len(names) > 1
        and not any(isinstance(name, str | bool) for name in names)
        and set(names) == {*range(len(names))}
    ):
        return [str(int(name)) for name in names]
    return names if names and all(isinstance(name, str) for name in names) else None


def names_of(scores: Any, classes: Sequence[str] | None) -> list[str] | None:
    """The columns of a data frame, unless none of them is the name of a class, or holds it."""
    columns = columns_of(scores)
    if columns is None or classes is None:
        return None
    return columns if set(columns) & set(classes) else within(columns, classes)


def in_order(names: Any) -> list[Any]:
    """Names in the order of the labels: of a sequence, or of a mapping from numbers to names or from names to numbers.

    Example:
        >>> in_order({1: "dog", 0: "cat"}), in_order({"dog": 1, "cat": 0})
        (['cat', 'dog'], ['cat', 'dog'])
    """
    if isinstance(names, Mapping):
        for pairs in (names.items(), [(number, name) for name, number in names.items()]):
            by_number = {int(number): name for number, name in pairs if str(number).isdigit()}
            if len(by_number) == len(names) and sorted(by_number) == list(range(len(names))):
                return [by_number[k] for k in range(len(names))]
    if isinstance(names, str):
        raise TypeError(f"`class_names` must be a list of names, got the single text {names!r}.")
    if isinstance(names, Mapping | Set):
        raise TypeError(
            f"`class_names` must be a list in the order of the labels, or a mapping from 0 … K−1 to names, got a "
            f"{type(names).__name__}."
        )
    return list(names)


def texts_of(labels: Any) -> list[str] | None:
    """The labels, if they are texts: of a list, an array, or a column of pandas or polars, categories too."""
    if isinstance(labels, Tensor) or getattr(getattr(labels, "dtype", None), "kind", "O") not in "UOT":
        return None
    listed = (
        labels.tolist() if hasattr(labels, "tolist") else labels.to_list() if hasattr(labels, "to_list") else labels
    )
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(label, str) for label in listed):
        return None
    return [str(label) for label in listed]


def labelled(labels: Any, *beside: Any) -> tuple[Any, ...]:
    """(labels, what stands beside them) without the rows whose label is NaN, None or masked, with a warning.

    Args:
        labels: (N,) or (N, 1) labels of any kind; other shapes are returned as they are.
        beside: Arrays, data frames or lists of N rows; None stays None.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     labelled(["cat", None, "dog"], [0.9, 0.3, 0.2], None)
        (['cat', 'dog'], [0.9, 0.2], None)
    """
    rows = _missing(labels)
    if not rows:
        return labels, *beside
    there = sorted(set(range(len(labels))).difference(rows))
    if not there or any(part is not None and len(part) != len(labels) for part in beside):
        return labels, *beside  # which has an error of its own
    warnings.warn(_without_label(rows, len(labels), " and {are} left out") + ".", Assumption, stacklevel=4)
    kept = [None if part is None else _some(part, there) for part in (labels, *beside)]
    return _as_integers(kept[0]), *kept[1:]


def _without_label(rows: Sequence[int], count: int, end: str = "") -> str:
    have, are, then = ("have", "are", ", the first is") if len(rows) > 1 else ("has", "is", ":")
    said = f"{have} no label in `labels` (NaN, None or masked){end.format(are=are)}"
    return f"{len(rows):,} of {count:,} rows {said}{then} row {rows[0]}"


def _missing(labels: Any) -> list[int]:
    """The rows without a label."""
    if isinstance(labels, Tensor):
        gaps = labels.isnan().cpu().numpy() if labels.is_floating_point() else np.zeros(0, bool)
    elif np.ma.isMaskedArray(labels):
        gaps = np.ma.getmaskarray(labels)
    elif getattr(getattr(labels, "dtype", None), "kind", "O") in "biu" and not hasattr(labels, "isna"):
        return []
    elif hasattr(labels, "isna"):  # of pandas
        gaps = np.asarray(labels.isna())
    else:
        if hasattr(labels, "to_list") or hasattr(labels, "to_pylist"):  # of polars, pyarrow
            labels = labels.to_list() if hasattr(labels, "to_list") else labels.to_pylist()
        if not isinstance(labels, np.ndarray | list | tuple):
            return []
        if isinstance(labels, np.ndarray) and (labels.dtype.kind not in "fO" or labels.ndim > 2):
            return []
        gaps = np.array([_is_none(label) for label in labels]) if len(labels) else np.zeros(0, bool)
    if gaps.ndim == 2 and gaps.shape[1] == 1:
        gaps = gaps[:, 0]
    return np.flatnonzero(gaps).tolist() if gaps.ndim == 1 else []


def _is_none(label: Any) -> bool:
    if isinstance(label, np.ndarray | list) and len(label) == 1:
        label = label[0]
    return label is None or (isinstance(label, float | np.floating) and bool(np.isnan(label))) or str(label) == "<NA>"


def _some(part: Any, rows: list[int]) -> Any:
    """Some rows of an array, a data frame or a list."""
    if isinstance(part, list | tuple):
        return [part[row] for row in rows]
    if hasattr(part, "iloc"):
        return part.iloc[rows]
    return part.take(rows) if hasattr(part, "to_pylist") else part[rows]


def _as_integers(labels: Any) -> Any:
    """Labels that a gap made floats or objects, as the whole numbers that they are."""
    if isinstance(labels, Tensor | list):
        return labels
    array = np.asarray(labels)
    if array.dtype.kind == "O" and all(isinstance(label, bool | np.bool_) for label in array.flat):
        return array.astype(bool)
    if array.dtype.kind == "O" and all(isinstance(label, int | float | np.number) for label in array.flat):
        array = array.astype(np.float64)
    return array.astype(np.int64) if array.dtype.kind == "f" and bool((array == np.floor(array)).all()) else labels


def numbered(labels: Any, scores: Any, names: Sequence[str] | None = None) -> tuple[Any, list[str] | None]:
    """(labels, class names): texts as class numbers, with the names that number them; other labels as given.

    The columns of a data frame are the names unless the caller states others, so that scores whose columns come in
    another order later are never taken for these. Labels with a column for each class come in the order of the scores.

    Args:
        labels: (N,) labels of any kind.
        scores: (N, K) scores; the columns of a data frame name the classes.
        names: The names of the classes in the order of the scores, or with their numbers, if the caller states them.

    Raises:
        TypeError: Nothing says which text is which class.

    Example:
        >>> numbered(["no", "yes", "no"], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], ["no", "yes"])
        (array([0, 1, 0]), ['no', 'yes'])
    """
    texts = texts_of(labels)
    if texts is None and (rows := _missing(labels)):
        raise ValueError(f"{_without_label(rows, len(labels))}; leave rows without a label out.")
    if texts is None:
        own = columns_of(scores)
        columns = own if names is None else in_order(names)
        columns = None if names is None and len(columns or ()) == 1 else columns  # one column is a score
        if columns is not None and own is not None and set(own) == set(columns) and _are_numbers(columns):
            return _as_places(labels, columns), columns
        return _as_classes(labels, columns), columns
    shape = np.shape(scores)
    if not shape:
        raise TypeError(f"the scores must be an array, with a row for each sample, got a {type(scores).__name__}.")
    width = 2 if len(shape) == 1 or shape[1] == 1 else shape[1]
    known = in_order(names) if names is not None else columns_of(scores)
    there = sorted(set(texts))
    if known is not None and not set(there) <= set(known):
        texts, there = _spelled(texts, known)
    if known is None or not set(there) <= set(known):
        if known is not None or len(there) != width:
            held = f"the classes {', '.join(known[:5])}" if known is not None else f"{width} columns without names"
            raise TypeError(
                f"`labels` are texts such as {texts[0]!r}, and the scores have {held}; number the classes in the "
                "order of "
                "the columns, or pass a data frame whose columns have the names of the classes."
            )
        known = there
        if len(shape) == 1 or shape[1] == 1:
            orders = (list(order) for order in permutations(there))
            known = next((order for order in orders if tuple(map(spelling, order)) in PAIRS), there)
        warnings.warn(
            f"the scores are taken to be of {', '.join(known[:5])}{' …' if len(known) > 5 else ''}, the labels in "
            f"{'alphabetical order' if known == there else 'the order of no and yes'}.",
            Assumption,
            stacklevel=4,
        )
    place = {name: k for k, name in enumerate(known)}
    return np.array([place[text] for text in texts]), known


def _are_numbers(columns: Sequence[str]) -> bool:
    return all(name.isdigit() for name in columns)


def _as_places(labels: Any, columns: Sequence[str]) -> Any:
    """Whole numbers as the places of the columns that are called so; anything else as it is."""
    array = np.asarray(labels)
    if (
        array.dtype.kind not in "iu"
        or array.ndim != 1
        or not len(array)
        or not set(map(str, array.tolist())) <= {*columns}
    ):
        return labels
    place = {name: k for k, name in enumerate(columns)}
    return np.array([place[str(label)] for label in array.tolist()])


def _as_classes(labels: Any, classes: Sequence[str] | None) -> Any:
    """A data frame of labels with its columns in the order of the classes that they name; anything else as it is."""
    columns = names_of(labels, classes)
    if columns is None or classes is None or len(columns) == 1 or columns == list(classes):
        return labels
    lacking = [name for name in classes if name not in columns]
    if lacking or len(columns) > len(classes):
        further = [name for name in columns if name not in classes]
        raise ValueError(
            "`labels` must have the columns of the scores, in any order, but "
            + "; ".join(
                f"{words} {', '.join(map(repr, found[:5]))}"
                for words, found in (("it lacks", lacking), ("it also has", further))
                if found
            )
            + "."
        )
    return labels[list(classes)]


def _spelled(texts: list[str], known: Sequence[str]) -> tuple[list[str], list[str]]:
    """(labels, the different ones) as classes are spelled, with a warning; unchanged if some are no class at all."""
    alike: dict[str, list[str]] = {}
    for name in known:
        alike.setdefault(spelling(name), []).append(name)
    found = {text: text if text in known else alike.get(spelling(text), [""])[0] for text in set(texts)}
    if any(not name for name in found.values()) or any(len(names) > 1 for names in alike.values()):
        return texts, sorted(found)
    other = next(text for text, name in sorted(found.items()) if text != name)
    warnings.warn(f"labels are read in any spelling; {other!r} is {found[other]!r}.", Assumption, stacklevel=5)
    return [found[text] for text in texts], sorted(set(found.values()))

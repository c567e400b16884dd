"""Labels that are texts, as class numbers: by the names of a data frame's columns, else in alphabetical order."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from softkin._core.assumption import Assumption
from softkin._core.names import spelling


def columns_of(scores: Any) -> list[str] | None:
    """The names of a data frame's columns, if they are all texts."""
    columns = getattr(scores, "columns", None)
    if columns is None or isinstance(scores, Tensor | np.ndarray):
        return None
    names = list(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def names_of(scores: Any, classes: Sequence[str] | None) -> list[str] | None:
    """The columns of a data frame, unless none of them is the name of a class."""
    columns = columns_of(scores)
    return columns if columns is not None and classes is not None and set(columns) & set(classes) else None


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


def numbered(labels: Any, scores: Any, names: Sequence[str] | None = None) -> tuple[Any, list[str] | None]:
    """(labels, class names): texts as class numbers, with the names that number them; other labels and names as given.

    Args:
        labels: (N,) labels of any kind.
        scores: (N, K) scores; the columns of a data frame name the classes.
        names: The names of the classes in the order of the scores, if the caller states them.

    Raises:
        TypeError: Nothing says which text is which class.

    Example:
        >>> numbered(["no", "yes", "no"], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], ["no", "yes"])
        (array([0, 1, 0]), ['no', 'yes'])
    """
    texts = texts_of(labels)
    if texts is None:
        return labels, None if names is None else list(names)
    shape = np.shape(scores)
    width = 2 if len(shape) == 1 or shape[1] == 1 else shape[1]
    known = list(names) if names is not None else columns_of(scores)
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
        warnings.warn(
            f"the scores are taken to be of {', '.join(known[:5])}{' …' if len(known) > 5 else ''}, the labels in "
            "alphabetical order.",
            Assumption,
            stacklevel=4,
        )
    place = {name: k for k, name in enumerate(known)}
    return np.array([place[text] for text in texts]), known


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

"""Map-style data sets of torch, torchvision and Hugging Face: any object with a length and indexable items."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._core.progress import track
from softkin._io import files, roles
from softkin.lab.data import decoding, labelled_tables
from softkin.lab.data.labelled import WHOLE, DataSource, numbered
from softkin.lab.data.store import Content, SampleKind

TOGETHER = 256  # samples per chunk


def source(dataset: Any) -> DataSource:
    """The source for a data set object; it is read completely, since nothing tells whether it has changed."""
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise TypeError(
            "`source` must be a path, a name, or a data set with a length and items by number, got "
            f"{type(dataset).__name__}; a data set that can only be iterated over has no rows to split."
        )
    if not len(dataset):
        raise SoftkinError(f"{type(dataset).__name__} must hold samples, got none.")
    words = f"{type(dataset).__name__} of {len(dataset):,} samples"

    def read(_part: str, _size: int | None, progress: bool | None) -> Content:
        return _read(dataset, words, progress)

    return DataSource(words, Path(type(dataset).__name__), [], [WHOLE], read)


def _read(dataset: Any, words: str, progress: bool | None) -> Content:
    first, _ = _item(dataset, 0)
    kind: SampleKind = "text" if isinstance(first, str) else "features" if _is_vector(first) else "images"
    labels = np.zeros(len(dataset), dtype=np.int64)
    names = _class_names(dataset)
    class_names = list(names or [])
    texts: list[str] | None = [] if kind == "text" else None

    def chunks() -> Iterator[NDArray[Any]]:
        """Read the samples in one pass, since each may be costly or random; labels are filled in on the way."""
        rows = range(0, len(dataset), TOGETHER)
        for start in track(rows, f"reading {words}", total=len(rows), show=progress):
            values: list[Any] = []
            for row in range(start, min(start + TOGETHER, len(dataset))):
                value, label = _item(dataset, row)
                labels[row] = _label(label, row, class_names if names else None)
                if texts is not None:
                    texts.append(str(value))
                values.append(value if kind == "text" else _value(value, kind, row))
            if kind == "text":
                yield labelled_tables.counts(values)
                continue
            shapes = {value.shape for value in values}
            if len(shapes) > 1:
                raise SoftkinError(
                    f"all samples of {words} must have one shape, got {sorted(shapes)[:3]}; resize them."
                )
            yield np.stack(values)
        if not names:
            class_names.extend(numbered(int(labels.max()) + 1, words))

    return Content(labels, class_names, kind, chunks(), texts)


def _item(dataset: Any, row: int) -> tuple[Any, Any]:
    item = dataset[row]
    if isinstance(item, dict):
        label = item.get(roles.find(item, "label") or "")
        value = item.get(roles.find(item, "image") or roles.find(item, "text") or "")
        if label is None or value is None:
            raise SoftkinError(f"sample {row} must hold a label and an image or text, it holds {', '.join(item)}.")
        return value, label
    if not isinstance(item, tuple | list) or len(item) < 2:
        raise SoftkinError(f"sample {row} must be a pair of a value and its label, got {type(item).__name__}.")
    return item[0], item[1]


def _class_names(dataset: Any) -> list[str] | None:
    """Class names from torchvision's ``classes`` or Hugging Face's ``features``, also behind a ``Subset``."""
    for _ in range(10):  # a Subset of a Subset …
        classes = getattr(dataset, "classes", None)
        if isinstance(classes, list | tuple) and classes and all(isinstance(name, str) for name in classes):
            return list(classes)
        features = getattr(dataset, "features", None)
        if isinstance(features, dict):
            named = features.get(roles.find(features, "label") or "")
            if isinstance(getattr(named, "names", None), list):
                return list(named.names)  # type: ignore[union-attr]
        dataset = getattr(dataset, "dataset", None)
    return None


def _label(label: Any, row: int, names: list[str] | None) -> int:
    try:
        number = int(label)
        whole = number == label
    except (TypeError, ValueError):
        number, whole = -1, False
    if not whole or number < 0 or (names is not None and number >= len(names)):
        most = "on" if names is None else f"to {len(names) - 1}"
        raise SoftkinError(f"the label of sample {row} must be a whole number from 0 {most}, got {label!r}.")
    files.within("classes", number + 1, f"the data set, by the label of sample {row},")
    return number


def _as_array(value: Any) -> NDArray[Any]:
    if hasattr(value, "detach"):  # a tensor with channels first
        value = value.detach().cpu().numpy()
        value = value.transpose(1, 2, 0) if value.ndim == 3 else value
    if hasattr(value, "convert"):  # a PIL image
        value = value if value.mode in ("L", "RGB") else value.convert("RGB")
    array: NDArray[Any] = np.asarray(value)
    return array


def _is_vector(value: Any) -> bool:
    return _as_array(value).ndim == 1


def _value(value: Any, kind: SampleKind, row: int) -> NDArray[Any]:
    array = _as_array(value)
    if kind == "features":
        if array.ndim != 1 or array.dtype.kind not in "biuf":
            raise SoftkinError(f"sample {row} must be numbers of shape (D,), got {array.dtype} {array.shape}.")
        return array.astype(np.float32)
    (image,) = decoding.pixels(decoding.with_channels(array[None], f"sample {row}"), f"sample {row}")
    return np.asarray(image)

"""Images and texts of samples, read from files for the page; an image is decoded when it is needed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from softkin import SoftkinError
from softkin._io import files, roles
from softkin._io import tables as table_files
from softkin.lab.data import decoding as decoding

Ids = Tensor | Sequence[str] | None

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")


class LazyImages:
    """Images that are decoded one at a time, when their thumbnail is made."""

    def __init__(self, count: int, read: Callable[[int], tuple[str, bytes | Path]]) -> None:
        self.count = count
        self.read = read

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> NDArray[np.uint8]:
        """(height, width, 3) of one sample."""
        pieces = decoding.decoded([self.read(row)], total=1, size=None, progress=False)
        return np.asarray(next(iter(pieces))[0])


def images(path: str | Path, ids: Ids, num_samples: int) -> LazyImages:
    """The samples' images from a folder or from a table.

    In a folder, a file belongs to the sample whose id is the file's name, with or without the suffix, or its path below
    the folder. If the ids match no names, the folder must hold exactly one file per sample, and the files are taken in
    the order of their names. A table has one row per sample, or the sample ids are its row numbers.
    """
    path = Path(path)
    if path.is_dir():
        return _from_folder(path, ids, num_samples)
    if table_files.form_of(path) is None:
        raise SoftkinError(f"--images must name a folder of images or a table such as a .parquet file, got {path}.")
    cells = _column(path, "image")
    content: list[Any] = [cell.get("bytes") if isinstance(cell, dict) else cell for cell in cells]
    if not all(isinstance(cell, bytes) for cell in content):
        raise SoftkinError(f"{path} must hold encoded images as bytes in each row.")
    place = _places(len(content), ids, num_samples, str(path), "images")
    return LazyImages(num_samples, lambda row: (f"{path}, row {place(row)}", content[place(row)]))


def _from_folder(folder: Path, ids: Ids, num_samples: int) -> LazyImages:
    inside = sorted(
        file for file in folder.rglob("*") if file.suffix.lower() in ENDINGS and not file.name.startswith(".")
    )
    if isinstance(ids, Tensor) or ids is None:
        names = [str(value) for value in ids.tolist()] if isinstance(ids, Tensor) else None
    else:
        names = list(ids)
    by_name: dict[str, Path] = {}
    for file in inside:
        below = file.relative_to(folder)
        for name in (file.stem, file.name, str(below.with_suffix("")), str(below)):
            by_name.setdefault(name, file)
    if names is not None and all(name in by_name for name in names):
        known = names
        return LazyImages(num_samples, lambda row: (str(by_name[known[row]]), by_name[known[row]]))
    if len(inside) == num_samples:
        return LazyImages(num_samples, lambda row: (str(inside[row]), inside[row]))
    example = "" if names is None else f", and none is called {next(n for n in names if n not in by_name)!r}"
    raise SoftkinError(
        f"{folder} must hold an image for each of the {num_samples:,} samples, named by the sample ids or in their "
        f"order; it holds {len(inside):,}{example}."
    )


def texts(path: str | Path, ids: Ids, num_samples: int) -> list[str]:
    """The samples' texts: the lines of a .txt file, or the text column of any table."""
    path = Path(path)
    if path.suffix.lower() == ".txt":
        cells: list[Any] = files.read_bytes(path, "texts").decode("utf-8", errors="replace").splitlines()
    elif table_files.form_of(path) is not None:
        cells = _column(path, "text")
    else:
        raise SoftkinError(f"--texts must name a .txt file or a table, {', '.join(table_files.FORMATS)}, got {path}.")
    place = _places(len(cells), ids, num_samples, str(path), "texts")
    return [str(cells[place(row)] or "") for row in range(num_samples)]


def _column(path: Path, role: Literal["image", "text"]) -> list[Any]:
    """The cells of the column that plays a role by its name."""
    table = table_files.open_table(path)
    name = roles.find(table.columns, role)
    if name is None:
        raise SoftkinError(f"{path} must have a column of {role}s, called {roles.listed(role)}.")
    return [cell for (cell,) in table.cells(name)]


def _places(count: int, ids: Ids, num_samples: int, name: str, what: str) -> Callable[[int], int]:
    """Map a sample to its row in the file: the same row, or the row whose number is the sample's id."""
    if count == num_samples:
        return lambda row: row
    if isinstance(ids, Tensor) and int(ids.min()) >= 0 and int(ids.max()) < count:
        known = ids
        return lambda row: int(known[row])
    raise SoftkinError(f"{name} must hold as many {what} as there are samples: it holds {count:,} for {num_samples:,}.")

"""Trees of image files: one folder per class, perhaps inside train/, val/ and test/, and Tiny-ImageNet's layout.

Such trees can hold 100,000 files or more. They are walked once, as plain text, and sorted into classes at decoding.
Tiny-ImageNet calls a class n02124075, and ``words.txt`` gives its synonyms.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from softkin import SoftkinError
from softkin._io import files
from softkin.lab.data import decoding
from softkin.lab.data.labelled import WHOLE, DataSource, canonical, is_part
from softkin.lab.data.store import Content

_NUMBER = re.compile(r"n\d{8}")


def lines_of(path: Path) -> list[str]:
    """The lines of a text file."""
    with files.reading(path, "UTF-8 text"):
        return files.read_bytes(path, "text").decode("utf-8").splitlines()


def named(numbers: Sequence[str], words: Path) -> list[str]:
    """The synonyms of each number in ``words.txt``; other names and unknown numbers are returned unchanged."""
    if not all(_NUMBER.fullmatch(number) for number in numbers):
        return list(numbers)
    wanted = set(numbers)
    synonyms = {
        number: rest.strip()
        for number, tab, rest in (line.partition("\t") for line in lines_of(words))
        if tab and rest.strip() and number in wanted
    }
    names = [synonyms.get(number, number) for number in numbers]
    # Two classes may have the same synonyms (crane: a bird and a machine); their numbers then distinguish them.
    counts = Counter(names)
    return [name if counts[name] == 1 else f"{name} ({number})" for name, number in zip(names, numbers, strict=True)]


_SUFFIXES = tuple(sorted(decoding.SUFFIXES))

Classes = tuple[list[str], list[tuple[str, int]]]
"""Class names, and a pair of path and class for each image."""


def class_folders(path: Path) -> DataSource:
    """The source for a tree with one folder of images per class, perhaps below one folder per part."""
    parts = _parts(path)
    classes = {part: [folder.name for folder in _folders(root)] for part, root in parts.items()}
    names = sorted({name for several in classes.values() for name in several})
    for part in parts if "train" in parts else ():
        extra = sorted(set(classes[part]) - set(classes["train"]))
        if extra:
            raise SoftkinError(f"{parts[part]} holds the class {extra[0]!r}, which {parts['train']} does not.")
    files = {part: _images(root) for part, root in parts.items()}
    files = {part: paths for part, paths in files.items() if paths}
    if not files:
        raise SoftkinError(f"{path} must hold one folder of images for each class, but no image was found there.")

    def sort(part: str) -> Classes:
        place = {name: k for k, name in enumerate(names)}
        start = len(os.path.join(parts[part], ""))
        return names, [(file, place[file[start:].split(os.sep, 1)[0]]) for file in files[part]]

    all_files = [file for paths in files.values() for file in paths]
    return _source(path, f"image folder {path.name}", all_files, list(files), sort)


def _parts(path: Path) -> dict[str, Path]:
    """The folders of parts. If any other folder beside them holds images, all folders are classes instead."""
    inside = _folders(path)
    named_so = [folder for folder in inside if is_part(folder.name)]
    if not named_so or any(_images(folder.parent, [folder]) for folder in inside if folder not in named_so):
        return {WHOLE: path}
    parts: dict[str, Path] = {}
    for folder in named_so:
        if canonical(folder.name) in parts:
            raise SoftkinError(f"{path} must hold each part once, but {folder.name} and another mean the same.")
        parts[canonical(folder.name)] = folder
    return parts


def is_tiny_imagenet(path: Path) -> bool:
    """Whether ``path`` is the official Tiny-ImageNet tree."""
    return (path / "val" / "val_annotations.txt").is_file() and (path / "train").is_dir()


def tiny_imagenet(path: Path) -> DataSource:
    """``train/<number>/images``, ``val/images`` with ``val_annotations.txt``, ``words.txt``; test has no labels."""
    numbers_file, words, annotations = path / "wnids.txt", path / "words.txt", path / "val" / "val_annotations.txt"
    training = _images(path / "train")

    def sort(part: str) -> Classes:
        numbers = [folder.name for folder in _folders(path / "train")]
        if numbers_file.is_file():
            numbers = [line.strip() for line in lines_of(numbers_file) if line.strip()]
        names = named(numbers, words) if words.is_file() else numbers
        place = {number: k for k, number in enumerate(numbers)}
        if part == "validation":
            return names, _annotated(annotations, place)
        start = len(os.path.join(path, "train", ""))
        labelled = [(file, file[start:].split(os.sep, 1)[0]) for file in training]
        unknown = next((number for _, number in labelled if number not in place), None)
        if unknown is not None:
            raise SoftkinError(f"{path / 'train'} holds the class {unknown!r}, which {numbers_file} does not name.")
        return names, sorted(((file, place[number]) for file, number in labelled), key=lambda pair: pair[1])

    beside = [str(file) for file in (numbers_file, words, annotations) if file.is_file()]
    files = [*training, *_images(path / "val"), *beside]
    return _source(path, "Tiny-ImageNet", files, ["train", "validation"], sort)


def _annotated(annotations: Path, place: dict[str, int]) -> list[tuple[str, int]]:
    """Each image with its class, from lines of file, class and bounding box; the box is ignored."""
    folder, labelled = annotations.parent / "images", []
    for count, line in enumerate(lines_of(annotations), start=1):
        name, number = [*line.split("\t"), "", ""][:2]
        if number not in place or name in ("", ".", "..") or "/" in name or "\\" in name:
            raise SoftkinError(f"{annotations}, line {count} must hold an image and its class, got {line[:80]!r}.")
        labelled.append((os.path.join(folder, name), place[number]))
    return labelled


def hold_images(path: Path) -> bool:
    """Whether any folder below ``path`` contains an image file."""
    return any(
        where != str(path) and any(name.lower().endswith(_SUFFIXES) for name in names)
        for where, _, names in os.walk(path)
    )


def _source(
    path: Path, words: str, files: list[str], parts: Sequence[str], sort: Callable[[str], Classes]
) -> DataSource:
    def read(part: str, size: int | None, progress: bool | None) -> Content:
        names, own = sort(part)
        if not own:
            raise SoftkinError(f"{path}: part {part} must hold images, got none.")
        encoded = ((file, Path(file)) for file, _ in own)
        chunks = decoding.decoded(encoded, total=len(own), size=size, progress=progress)
        return Content(np.array([k for _, k in own], dtype=np.int64), names, "images", chunks)

    return DataSource(words, path, files, list(parts), read)


def _folders(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _images(folder: Path, inside: Sequence[Path] | None = None) -> list[str]:
    """All images below ``folder``, or below the folders ``inside``, in sorted order, without hidden files."""
    paths: list[str] = []
    due = [str(inner) for inner in (_folders(folder) if inside is None else inside)]
    seen: set[tuple[int, int]] = set()
    while due:
        where = due.pop()
        about = os.stat(where)
        if (about.st_dev, about.st_ino) in seen:  # a link to a parent folder would loop forever
            continue
        seen.add((about.st_dev, about.st_ino))
        with os.scandir(where) as entries:
            for entry in entries:
                if entry.name.lower().endswith(_SUFFIXES):
                    paths.append(entry.path)
                elif entry.is_dir() and not entry.name.startswith("."):
                    due.append(entry.path)
    paths.sort()
    return paths

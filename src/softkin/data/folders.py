"""Trees of image files: a folder for each class, perhaps inside train/, val/ and test/; Tiny-ImageNet's own layout."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from softkin import SoftkinError
from softkin.data import images
from softkin.data.labelled import Content
from softkin.data.source import WHOLE, Source, canonical, is_part
from softkin.data.wordnet import named


def class_folders(path: Path) -> Source:
    """One folder of images for each class, or such folders inside folders of parts."""
    folders = _folders(path)
    parts = {WHOLE: path}
    if folders and all(is_part(folder.name) for folder in folders):
        parts = {}
        for folder in folders:
            if canonical(folder.name) in parts:
                raise SoftkinError(f"{path} must hold each part once, but {folder.name} and another mean the same.")
            parts[canonical(folder.name)] = folder
    found = {part: {folder.name: _images(folder) for folder in _folders(root)} for part, root in parts.items()}
    names = sorted({name for classes in found.values() for name in classes})
    if not any(files for classes in found.values() for files in classes.values()):
        raise SoftkinError(f"{path} must hold one folder of images for each class, but no image was found there.")
    if "train" in found:
        for part, classes in found.items():
            extra = sorted(set(classes) - set(found["train"]))
            if extra:
                raise SoftkinError(f"{parts[part]} holds the class {extra[0]!r}, which {parts['train']} does not.")
    labels = {
        part: [(file, names.index(name)) for name, files in sorted(classes.items()) for file in files]
        for part, classes in found.items()
    }
    return _source(path, f"image folder {path.name}", labels, names, [])


def tiny_imagenet(path: Path) -> Source:
    """``train/<number>/images``, ``val/images`` with ``val_annotations.txt``, ``words.txt``; test has no labels."""
    numbers_file, words, annotations = path / "wnids.txt", path / "words.txt", path / "val" / "val_annotations.txt"
    folders = {folder.name: folder for folder in _folders(path / "train")}
    numbers = sorted(folders)
    if numbers_file.is_file():
        numbers = numbers_file.read_text(encoding="utf-8").split()
    place = {number: k for k, number in enumerate(numbers)}
    labels = {
        "train": [(file, place[number]) for number in numbers if number in folders for file in _images(folders[number])]
    }
    labels["validation"] = []
    for count, line in enumerate(annotations.read_text(encoding="utf-8").splitlines(), start=1):
        name, _, rest = line.partition("\t")
        number = rest.partition("\t")[0]
        if number not in place or "/" in name or "\\" in name:
            raise SoftkinError(f"{annotations}, line {count}: an image and its class are due, got {line[:80]!r}.")
        labels["validation"].append((path / "val" / "images" / name, place[number]))
    beside = [file for file in (numbers_file, words, annotations) if file.is_file()]
    names = named(numbers, words) if words.is_file() else numbers
    return _source(path, "Tiny-ImageNet", labels, names, beside)


def is_tiny_imagenet(path: Path) -> bool:
    """Whether this is the official tree."""
    return (path / "val" / "val_annotations.txt").is_file() and (path / "train").is_dir()


def _source(
    path: Path, words: str, labels: Mapping[str, Sequence[tuple[Path, int]]], names: list[str], beside: Sequence[Path]
) -> Source:
    def read(part: str, size: int | None, progress: bool | None) -> Content:
        own = labels[part]
        if not own:
            raise SoftkinError(f"{path}: part {part} must hold images, got none.")
        encoded = ((str(file), file) for file, _ in own)
        chunks = images.decoded(encoded, total=len(own), size=size, progress=progress)
        return Content(np.array([k for _, k in own], dtype=np.int64), names, "images", chunks)

    files = [file for several in labels.values() for file, _ in several]
    return Source(words, path, [*files, *beside], [part for part in labels if labels[part]], read)


def _folders(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _images(folder: Path) -> list[Path]:
    found: list[str] = []
    for where, _, names in os.walk(folder):
        found += [os.path.join(where, name) for name in names if os.path.splitext(name)[1].lower() in images.SUFFIXES]
    return [Path(name) for name in sorted(found)]

"""Options of distance sources, and what SOURCE stands for: shared by the commands that measure class similarity."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin._io import files, tables
from softkin.cli import choices, running
from softkin.cli.arguments import declare, given

if TYPE_CHECKING:
    from softkin._io.matrices import ClassMatrix
    from softkin.distances import ClassDistances, ClassNames
    from softkin.distances.sources import ClassData

SOURCE = """\
SOURCE is one of
  a .txt file   class names, one per line; or "id<TAB>name, synonym, …" (the first known synonym is used)
  a folder      one folder of images for each class, or parquet files for train and test (train is used); or what
                softkin similarity --output wrote
  .npz          `images` or `features`, `labels`, optional `class_names`
  .parquet      images or text with a label column, as in Hugging Face data sets (text also as .jsonl)
  .safetensors, .csv    a matrix that softkin saved, or a table with class names as its header
  .csv, .json, .yaml    a tree: parent,child or class,superclass lines, or nested names; its leaves are the classes
  digits        scikit-learn's handwritten digits, or another data set by its name (softkin data list)"""


def add_source(command: argparse.ArgumentParser) -> None:
    """Add the argument SOURCE."""
    source = command.add_argument("source", metavar="SOURCE")
    choices.choose(source, "class names, images, features, a matrix or a taxonomy", choices.data_sets, files=True)


def add_measuring(command: argparse.ArgumentParser) -> None:
    """Add all options of measuring: --distance, those of each source, and those of the samples."""
    distance = command.add_argument("--distance")
    choices.choose(
        distance, "how distances are measured: one of {} (default: depends on what SOURCE holds)", choices.distances
    )
    add_word_options(command)
    command.add_argument(
        "--prefer", choices=["words", "entity"], help="vectors of single words, or of whole names (default: words)"
    )
    add_options(command)
    add_sample_options(command)


def add_sample_options(command: argparse.ArgumentParser) -> None:
    """Add the options that choose samples."""
    command.add_argument("--size", type=int, help="resize images to this many pixels on each side")
    command.add_argument("--max-per-class", type=int, help="draw at most this many images of each class at random")
    command.add_argument("--seed", type=int, default=0, help="seed of that draw (default: 0)")
    command.add_argument("--device", help="device to compute on, such as cuda (default: cpu)")


def check(arguments: argparse.Namespace) -> None:
    """Refuse invalid values of the options of measuring."""
    from softkin import distances
    from softkin._core import checks

    if getattr(arguments, "distance", None) is not None:
        distances.SOURCES.canonical(arguments.distance, "--distance")
    checks.count(arguments.seed, "--seed", least=0, most=2**63 - 1)
    if arguments.max_per_class is not None:
        checks.count(arguments.max_per_class, "--max-per-class", least=2, most=10**9)
    if arguments.size is not None:
        checks.count(arguments.size, "--size")
    running.aliases(arguments)


def add_options(command: Any, *, code: bool = True, several: Sequence[str] = (), of: str = "for --distance {}") -> None:
    """Add the options that distance sources declare.

    Args:
        command: A parser, or a group of one.
        code: Whether the command may name code to run, such as an encoder.
        several: The options that may be repeated.
        of: How the help says which source an option is for.
    """
    declared = choices.declared(choices.of_sources)
    declare(command, [option for option in declared if code or not option.runs_code], several=several, of=of)


def add_word_options(command: Any) -> None:
    """Add the options of word vectors."""
    vectors = command.add_argument("--vectors")
    choices.choose(vectors, "word vectors: {} or a file (default: minilm)", choices.word_vectors, files=True)
    running.add_alias(command)


def chosen(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of ``add_options`` that the user gave."""
    return given(arguments, choices.declared(choices.of_sources))


def named_by_options(given: dict[str, Any]) -> str | None:
    """The source that the given options imply where --distance is missing."""
    from softkin.distances import SOURCES

    needed = [name for name, source in SOURCES.items() if set(source.required) & set(given)]
    if len(needed) > 1:
        raise ValueError(f"--distance must say which of {', '.join(needed)} is meant.")
    return needed[0] if needed else None


@dataclass(frozen=True)
class SourceRead:
    """Distances or similarity read from SOURCE, with their classes."""

    matrix: "ClassMatrix"
    """The distances, their classes, and how they were measured"""
    measured: "ClassDistances"
    synonyms: "Sequence[str | Sequence[str]]"
    vectors: Any
    """The word vectors that were used; empty if there were none"""


def read(arguments: argparse.Namespace, *, kind: str = "distances") -> SourceRead:
    """Read or measure the distances, or the similarity, of SOURCE; of a folder of matrices, that of a kind."""
    from softkin import distances
    from softkin.distances import saving as readers

    source = matrix_file(Path(arguments.source), kind)
    classes, origin = classes_of(str(source), size=arguments.size)
    given = chosen(arguments)
    name = arguments.distance or named_by_options(given)
    if name is None and source.suffix.lower() in readers.SUFFIXES and not distances.tree_files.holds_samples(source):
        tree = distances.tree_files.holds_tree(source)
        name, option = ("taxonomy", "tree") if tree else ("file", "matrix")
        given[option] = source
    name = distances.SOURCES.canonical(name or distances.default_source(classes.kind), "--distance")
    known = distances.SOURCES[name]
    if not known.uses_samples:
        for option in ("size", "max_per_class", "device"):
            if getattr(arguments, option) is not None:
                raise ValueError(f"--{option.replace('_', '-')} must be left out: distances of names need no samples.")
    measured = measure(name, classes, arguments, given, vectors=arguments.vectors)
    how = f"{origin}: {measured.how}" if origin and known.uses_samples else measured.how
    matrix = distances.ClassMatrix(measured.matrix, classes.class_names, "distances", how)
    return SourceRead(matrix, measured, classes.synonyms, arguments.vectors if name == "words" else {})


def measure(
    name: str,
    classes: "ClassData",
    arguments: argparse.Namespace,
    given: dict[str, Any],
    *,
    vectors: Any = None,
    only_its_own: bool = False,
) -> "ClassDistances":
    """Measure the classes with a distance source and the user's options.

    Args:
        name: The source.
        classes: The classes to measure.
        arguments: The user's options.
        given: The options of ``add_options`` for this source.
        vectors: Word vectors.
        only_its_own: Leave out options of other sources, because several sources are measured; by default they are
            refused.
    """
    from softkin import distances
    from softkin.lab.training.distances import opened

    usual: dict[str, Any] = {
        "vectors": vectors,
        "aliases": running.aliases(arguments),
        "prefer": arguments.prefer,
        "max_per_class": arguments.max_per_class,
        "seed": arguments.seed,
        "device": arguments.device,
    }
    if only_its_own:
        known = distances.SOURCES[name].options
        usual = {option: value for option, value in usual.items() if option in known}
    return distances.measure(name, classes, **usual, **opened(given, classes.class_names))


def classes_of(source: str, *, size: int | None = None) -> "tuple[ClassData, str | None]":
    """The classes of SOURCE, with samples if it has any, and a description of where the samples come from."""
    from softkin import SoftkinError, distances
    from softkin._core import checks
    from softkin.distances import saving as readers
    from softkin.distances.tree_files import classes_in, holds_samples, holds_tree, read_tree
    from softkin.lab import data
    from softkin.lab.data.loading import is_known_file

    path = matrix_file(Path(source), "distances")
    suffix = path.suffix.lower()
    if suffix == ".txt":
        return read_names(path), None
    is_matrix = suffix in readers.SUFFIXES and (path.exists() or not is_known_file(path))
    if is_matrix:
        files.require_regular(path)
    if is_matrix and not holds_samples(path):
        names = classes_in(read_tree(path)) if holds_tree(path) else read_matrix_names(path)
        files.within("classes", len(names), str(path))
        if len(names) < 2:
            raise SoftkinError(f"{path} must hold at least 2 classes, it holds {len(names)}.")
        with files.named(path):
            return distances.ClassNames(checks.class_names(names), names), None
    if path.is_file() and not is_known_file(path):
        raise SoftkinError(
            f"{source} has no known format: class names come in a .txt file, images, features or text in "
            ".npz, .parquet, .jsonl or the archives of CIFAR and Tiny-ImageNet, "
            "distances in .safetensors or .csv, taxonomies in .csv, .json or .yaml."
        )
    loaded = data.load(source, size=size)
    return loaded, loaded.source


def matrix_file(path: Path, kind: str) -> Path:
    """The file of a kind in a folder that ``softkin similarity --output`` wrote; any other path as it is."""
    from softkin._io import matrices

    made = [path / matrices.file_name(each) for each in matrices.TOGETHER]
    if not all(file.is_file() for file in made) or any(entry.is_dir() for entry in path.iterdir()):  # images
        return path
    matrices.read_together(path)  # which refuses files of two runs
    return path / matrices.file_name(kind)


def read_matrix_names(path: Path) -> list[str]:
    """The class names of a matrix file."""
    from softkin._io import matrices

    return matrices.read_any(path).class_names


def read_names(path: Path) -> "ClassNames":
    """The class names of a text file, and for each the name or synonyms to look up."""
    from softkin import SoftkinError
    from softkin._core import checks
    from softkin.distances import ClassNames

    lines = [line.strip() for _, line in tables.read_lines(path, "class names")]
    ids = [line.partition("\t")[0] for line in lines]
    names: list[str | Sequence[str]] = []
    for line in lines:
        first, tab, synonyms = line.partition("\t")
        names.append([name.strip() for name in synonyms.split(",") if name.strip()] if tab else first)
    files.within("classes", len(ids), str(path))
    if len(ids) < 2:
        raise SoftkinError(f"{path} must name at least 2 classes, one per line, but names {len(ids)}.")
    with files.named(path):
        return ClassNames(checks.class_names(ids), names)

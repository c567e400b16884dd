"""Options of distance sources, and what SOURCE stands for: shared by the commands that measure class similarity."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin import files
from softkin.cli import choices, running

if TYPE_CHECKING:
    from softkin.distances import ClassDistances, ClassNames
    from softkin.distances.sources import ClassData
    from softkin.matrices import ClassMatrix

SOURCE = """\
SOURCE is one of
  a .txt file   class names, one a line; or "id<TAB>name, synonym, …", the first known synonym counting
  a folder      one folder of images for each class, or parquet files for train and test; of parts, train counts
  .npz          `images` or `features`, `labels`, perhaps `class_names`
  .parquet      as Hugging Face data sets have them, images or text with a label column (text also as .jsonl)
  .safetensors, .csv    a matrix that softkin saved, or a table with class names as its header
  .csv, .json, .yaml    a taxonomy: a parent and a child a line, or nested names; its leaves are the classes
  digits        scikit-learn's handwritten digits, or another data set by its name (softkin data list)"""

MEASURES = ("lca", "path", "wu-palmer")
PATHS = {
    "tree": "of --distance taxonomy: a .csv of parent and child, nested .json or .yaml, FILE.parquet:COLUMN of "
    "superclasses, or wordnet",
    "outputs": "of --distance outputs: a model's predictions on held-out rows",
    "confusion": "of --distance confusion: a .csv of counts with class names on both sides",
    "weights": "of --distance weights: a last layer's (K, d) weights, .npy, .npz or .safetensors",
    "matrix": "of --distance file: distances, similarity or a taxonomy",
}
"""Options that are files, by the name that a source has for them"""
NAMES = ("tree", "measure", "encoder", "template", "outputs", "confusion", "weights", "matrix")


def add_source(command: argparse.ArgumentParser) -> None:
    """The argument SOURCE."""
    source = command.add_argument("source", metavar="SOURCE")
    choices.choose(source, "class names, images, features, a matrix or a taxonomy", choices.data_sets, files=True)


def add_measuring(command: argparse.ArgumentParser) -> None:
    """All options of measuring: --distance, those of each source, and of the samples."""
    distance = command.add_argument("--distance")
    choices.choose(distance, "one of {} (default: by what SOURCE holds)", choices.distances)
    add_word_options(command)
    command.add_argument("--prefer", choices=["words", "entity"], help="entity: whole-name vectors (default: words)")
    add_options(command)
    add_sample_options(command)


def add_sample_options(command: argparse.ArgumentParser) -> None:
    """Options of samples."""
    command.add_argument("--size", type=int, help="resize images to this many pixels, square")
    command.add_argument("--max-per-class", type=int, help="a random sample of this many images of each class")
    command.add_argument("--seed", type=int, default=0, help="of that sample (default: 0)")
    command.add_argument("--device", help="where to compute, such as cuda (default: cpu)")


def check(arguments: argparse.Namespace) -> None:
    """Refuse options of measuring that cannot be."""
    from softkin import checks, distances

    if getattr(arguments, "distance", None) is not None:
        distances.SOURCES.canonical(arguments.distance, "--distance")
    checks.count(arguments.seed, "--seed", least=0, most=2**63 - 1)
    if arguments.max_per_class is not None:
        checks.count(arguments.max_per_class, "--max-per-class", least=2, most=10**9)
    if arguments.size is not None:
        checks.count(arguments.size, "--size")
    running.aliases(arguments)


def add_options(command: Any, *, encoder: bool = True, several: Sequence[str] = ()) -> None:
    """Options of the sources that need more than the data: a taxonomy, an encoder, a trained model, a file.

    Args:
        command: A parser, or a group of one.
        encoder: Whether the command may name an encoder.
        several: Those that may be repeated.
    """
    for name, words in PATHS.items():
        action = "append" if name in several else "store"
        choices.path(command.add_argument(f"--{name}", metavar="FILE", help=words, action=action))
    command.add_argument("--measure", choices=MEASURES, help="of --distance taxonomy (default: lca)")
    if encoder:
        command.add_argument(
            "--encoder", metavar="MODEL", help="of --distance encoder: a sentence-transformers model on this machine"
        )
        command.add_argument(
            "--template", action="append", help="of --distance encoder, with {} for the name; several are averaged"
        )


def add_word_options(command: Any) -> None:
    """Options of word vectors."""
    vectors = command.add_argument("--vectors")
    choices.choose(vectors, "{} or a file of word vectors (default: minilm)", choices.word_vectors, files=True)
    running.add_alias(command)


def options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Those of ``add_options`` that were typed."""
    return {name: value for name in NAMES if (value := getattr(arguments, name, None)) is not None}


def named_by_options(chosen: dict[str, Any]) -> str | None:
    """The source whose option was typed, where --distance was not."""
    from softkin.distances import SOURCES

    needed = [name for name, source in SOURCES.items() if set(source.required) & set(chosen)]
    if len(needed) > 1:
        raise ValueError(f"--distance must say which of {', '.join(needed)} is meant.")
    return needed[0] if needed else None


@dataclass(frozen=True)
class SourceRead:
    """What SOURCE and the options came to."""

    matrix: "ClassMatrix"
    """D with its classes and how it was measured"""
    measured: "ClassDistances"
    synonyms: "Sequence[str | Sequence[str]]"
    vectors: Any
    """The word vectors behind it; {} where there are none"""


def read(arguments: argparse.Namespace) -> SourceRead:
    """The distances, or the similarity, of SOURCE, whatever that is."""
    from softkin import distances
    from softkin.distances import files as readers

    source = Path(arguments.source)
    classes, origin = classes_of(arguments.source, size=arguments.size)
    chosen = options(arguments)
    name = arguments.distance or named_by_options(chosen)
    if name is None and source.suffix.lower() in readers.SUFFIXES:
        tree = readers.holds_taxonomy(source)
        name, option = ("taxonomy", "tree") if tree else ("file", "matrix")
        chosen[option] = source
    name = distances.SOURCES.canonical(name or distances.default_source(classes.kind), "--distance")
    known = distances.SOURCES[name]
    if not known.uses_samples:
        for option in ("size", "max_per_class", "device"):
            if getattr(arguments, option) is not None:
                raise ValueError(f"--{option.replace('_', '-')} must be left out: distances of names need no samples.")
    measured = measure(name, classes, arguments, chosen, vectors=arguments.vectors)
    how = f"{origin}: {measured.how}" if origin and known.uses_samples else measured.how
    matrix = distances.ClassMatrix(measured.matrix, classes.class_names, "distances", how)
    return SourceRead(matrix, measured, classes.synonyms, arguments.vectors if name == "words" else {})


def measure(
    name: str, classes: "ClassData", arguments: argparse.Namespace, chosen: dict[str, Any], *, vectors: Any = None
) -> "ClassDistances":
    """What a source measures of the classes, with the options that were typed."""
    from softkin import distances
    from softkin.training.distances import opened

    return distances.measure(
        name,
        classes,
        vectors=vectors,
        aliases=running.aliases(arguments),
        prefer=arguments.prefer,
        max_per_class=arguments.max_per_class,
        seed=arguments.seed,
        device=arguments.device,
        **opened(chosen, classes.class_names),
    )


def classes_of(source: str, *, size: int | None = None) -> "tuple[ClassData, str | None]":
    """The classes of SOURCE with their samples, or their names alone; and where samples come from, in words."""
    from softkin import SoftkinError, data, distances
    from softkin.data.loading import is_known_file
    from softkin.distances import files as readers
    from softkin.distances.taxonomy_files import read_taxonomy

    path = Path(source)
    suffix = path.suffix.lower()
    if suffix == ".txt":
        return read_names(path), None
    if suffix in readers.SUFFIXES and (path.exists() or not is_known_file(path)):
        files.require_regular(path)
        names = read_taxonomy(path).leaves if readers.holds_taxonomy(path) else read_matrix_names(path)
        return distances.ClassNames(names, names), None
    if path.is_file() and not is_known_file(path):
        raise SoftkinError(
            f"{source} is of no known form: class names come in a .txt file, images, features or text in "
            ".npz, .parquet, .jsonl or the archives of CIFAR and Tiny-ImageNet, "
            "distances in .safetensors or .csv, taxonomies in .csv, .json or .yaml."
        )
    loaded = data.load(source, size=size)
    return loaded, loaded.source


def read_matrix_names(path: Path) -> list[str]:
    """The classes of a matrix."""
    from softkin import matrices

    return matrices.read_any(path).class_names


def read_names(path: Path) -> "ClassNames":
    """What the classes are called, and the names or synonyms to look up."""
    from softkin import SoftkinError, checks
    from softkin.distances import ClassNames

    with files.reading(path, "UTF-8 text", hint="save it in that encoding"):
        text = files.read_bytes(path, "class names").decode("utf-8-sig")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ids = [line.partition("\t")[0] for line in lines]
    names: list[str | Sequence[str]] = []
    for line in lines:
        first, tab, synonyms = line.partition("\t")
        names.append([name.strip() for name in synonyms.split(",") if name.strip()] if tab else first)
    if len(ids) < 2:
        raise SoftkinError(f"{path} must name at least 2 classes, one a line, it names {len(ids)}.")
    try:
        return ClassNames(checks.class_names(ids), names)
    except ValueError as error:
        raise SoftkinError(f"{path}: {error}") from error

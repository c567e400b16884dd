"""``softkin similarity``: from class names, images or a distance matrix to labels, seen and saved."""

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin import files
from softkin.cli import choices
from softkin.cli.text import shown

if TYPE_CHECKING:
    from torch import Tensor

    from softkin.distances import ClassNames
    from softkin.distances.sources import ClassData
    from softkin.matrices import ClassMatrix

SUMMARY = "how alike the classes are, and the smooth label of each"
DESCRIPTION = """\
Measure how alike classes are and print each class's nearest classes and its smooth label
(1−α)·one-hot + α·softmax(−β·distance).

SOURCE is one of
  a .txt file   class names, one a line; or "id<TAB>name, synonym, …", the first known synonym counting
  a folder      one folder of images for each class, or parquet files for train and test; of parts, train counts
  .npz          `images` or `features`, `labels`, perhaps `class_names`
  .parquet      as Hugging Face data sets have them, images or text with a label column (text also as .jsonl)
  .safetensors, .csv    a distance matrix that softkin saved, or a table with class names as its header
  digits        scikit-learn's handwritten digits, or another data set by its name (softkin data list)"""
EXAMPLE = "softkin similarity examples/cifar100.txt --beta 2 --alpha 0.1 --output m/"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Options, with the library's names and defaults."""
    source = command.add_argument("source", metavar="SOURCE")
    choices.choose(source, "class names, images, features or distances", choices.data_sets, files=True)
    command.add_argument("--alpha", type=float, default=0.1, help="mass on the other classes (default: 0.1)")
    command.add_argument(
        "--beta", type=_beta, default=2.0, help="how sharp the similarity is; auto: by --baseline, else 1 (default: 2)"
    )
    command.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="predictions of a network trained on one-hot labels, on held-out rows: says whether smoothing will help",
    )
    distance = command.add_argument("--distance")
    choices.choose(distance, "one of {} (default: by what SOURCE holds)", choices.distances)
    vectors = command.add_argument("--vectors")
    choices.choose(vectors, "{} or a file of word vectors (default: minilm)", choices.word_vectors, files=True)
    command.add_argument(
        "--alias", action="append", default=[], metavar="WORD=OTHER", help="look up OTHER for WORD; may be repeated"
    )
    command.add_argument("--prefer", choices=["words", "entity"], help="entity: whole-name vectors (default: words)")
    command.add_argument("--size", type=int, help="resize images to this many pixels, square")
    command.add_argument("--max-per-class", type=int, help="a random sample of this many images of each class")
    command.add_argument("--seed", type=int, default=0, help="of that sample (default: 0)")
    command.add_argument("--device", help="where to compute, such as cuda (default: cpu)")
    command.add_argument(
        "--check", action="store_true", help="ask WordNet and the other word vectors of softkin about sharp labels"
    )
    command.add_argument("--asymmetric", action="store_true", help="allow distances that differ by direction")
    command.add_argument("--top", type=int, default=5, help="how many nearest classes to print (default: 5)")
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    command.add_argument("--output", type=Path, metavar="FOLDER", help="write the matrices there")
    command.add_argument("--force", action="store_true", help="overwrite matrices in that folder")


def _beta(text: str) -> float | str:
    return text if text == "auto" else float(text)


FILES = ("distances.safetensors", "similarity.safetensors", "labels.safetensors", "labels.csv")


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    from softkin import checks, distances

    if arguments.distance is not None:
        distances.SOURCES.canonical(arguments.distance, "--distance")
    checks.alpha(arguments.alpha)
    if arguments.beta != "auto":
        checks.beta(arguments.beta)
    checks.count(arguments.top, "--top", most=10**6)
    checks.count(arguments.seed, "--seed", least=0, most=2**63 - 1)
    if arguments.max_per_class is not None:
        checks.count(arguments.max_per_class, "--max-per-class", least=2, most=10**9)
    if arguments.size is not None:
        checks.count(arguments.size, "--size")
    for alias in arguments.alias:
        if not all(part.strip() for part in alias.partition("=")):
            raise ValueError(f"--alias must be WORD=OTHER, got {alias!r}.")
    if arguments.output is not None and arguments.output.exists() and not arguments.output.is_dir():
        raise ValueError(f"--output must be a folder, but {arguments.output} is a file.")
    if arguments.output is not None:
        files.refuse_to_overwrite(*(arguments.output / name for name in FILES), force=arguments.force)


def run(arguments: argparse.Namespace) -> None:
    """Read, compute, print, write."""
    from softkin import doubts, similarity, smoothing

    matrix, synonyms, vectors = _distances(arguments)
    baseline = None if arguments.baseline is None else _baseline(arguments.baseline, matrix)
    if arguments.beta == "auto":
        arguments.beta = similarity.AUTO_BETA if baseline is None else baseline["beta"]
    s = similarity.from_distances(matrix.values, arguments.beta, asymmetric=arguments.asymmetric)
    labels = smoothing.similarity_labels(s, arguments.alpha)
    report = _report(matrix, s, labels, arguments)
    if baseline is not None:
        report["baseline"] = baseline
    sentences = [doubts.too_sharp(s, arguments.beta)]
    if arguments.check:
        sentences.append(doubts.disagreement(synonyms, s, vectors=vectors, aliases=_aliases(arguments)))
    report["warnings"] = [sentence for sentence in sentences if sentence]
    for sentence in report["warnings"]:
        warnings.warn(sentence, stacklevel=2)
    if arguments.json:
        print(json.dumps(report, ensure_ascii=False, indent=1))
    else:
        _print(report)
    if arguments.output is not None:
        contents = _contents(matrix, s, labels, arguments)
        files.write_together(contents)
        if not arguments.json:
            print("\n".join(f"Wrote {path}" for path in contents))


def _baseline(path: Path, matrix: "ClassMatrix") -> dict[str, Any]:
    """What a baseline's predictions say of smoothing with these similarities."""
    from softkin import SoftkinError, auto_alpha, predictions, similarity

    outputs = predictions.load(path)
    if outputs.num_classes != len(matrix.values) or outputs.class_names not in (None, list(matrix.class_names)):
        raise SoftkinError(f"{path} must have the classes of {matrix.source}, in the same order, but they differ.")
    p, y = outputs.probabilities, outputs.known_labels
    confidence, predicted = p.max(dim=1)
    excess = confidence - (predicted == y).to(p.dtype)
    gap, deviation = float(excess.mean()), float(excess.std() / len(y) ** 0.5)
    beta = similarity.best_beta(matrix.values, p, y)
    return {
        "rows": len(y),
        "gap": gap,
        "beta": beta,
        "words": f"{auto_alpha.what_a_gap_implies(gap, deviation)}; what it confuses asks for β = {beta:.3g}",
    }


def _contents(
    matrix: "ClassMatrix", s: "Tensor", labels: "Tensor", arguments: argparse.Namespace
) -> dict[Path, bytes | str]:
    """What to write, by its path."""
    from softkin.matrices import MatrixFiles, to_csv

    names, folder = matrix.class_names, arguments.output
    with_beta = f"{matrix.source}; beta={arguments.beta:g}"
    with_alpha = f"{with_beta}; alpha={arguments.alpha:g}"
    return {
        folder / FILES[0]: MatrixFiles("distances").content(matrix.values, class_names=names, source=matrix.source),
        folder / FILES[1]: MatrixFiles("similarity").content(s, class_names=names, source=with_beta),
        folder / FILES[2]: MatrixFiles("labels").content(labels, class_names=names, source=with_alpha),
        folder / FILES[3]: to_csv(labels, names, kind="labels"),
    }


def _distances(arguments: argparse.Namespace) -> "tuple[ClassMatrix, Sequence[str | Sequence[str]], Any]":
    """The distance matrix of the source, whatever that is; the classes' names, and the word vectors that it is from."""
    from softkin import SoftkinError, data, distances
    from softkin.data.loading import is_known_file

    source = Path(arguments.source)
    if source.suffix.lower() in (".safetensors", ".csv"):
        matrix = distances.read(source)
        return matrix, matrix.class_names, {}
    if source.suffix.lower() == ".txt":
        return _measured(_read_names(source), arguments)
    if source.is_file() and not is_known_file(source):
        raise SoftkinError(
            f"{source} is of no known form: class names come in a .txt file, images, features or text in "
            ".npz, .parquet, .jsonl or the archives of CIFAR and Tiny-ImageNet, "
            "distances in .safetensors or .csv."
        )
    loaded = data.load(arguments.source, size=arguments.size)
    return _measured(loaded, arguments, origin=loaded.source)


def _measured(
    classes: "ClassData", arguments: argparse.Namespace, origin: str | None = None
) -> "tuple[ClassMatrix, Sequence[str | Sequence[str]], Any]":
    from softkin import distances

    name = arguments.distance or distances.default_source(classes.kind)
    if not distances.SOURCES[name].uses_samples:
        for option in ("size", "max_per_class", "device"):
            if getattr(arguments, option) is not None:
                raise ValueError(f"--{option.replace('_', '-')} must be left out: distances of names need no samples.")
    measured = distances.measure(
        name,
        classes,
        vectors=arguments.vectors,
        aliases=_aliases(arguments),
        prefer=arguments.prefer,
        max_per_class=arguments.max_per_class,
        seed=arguments.seed,
        device=arguments.device,
    )
    how = f"{origin}: {measured.how}" if origin and distances.SOURCES[name].uses_samples else measured.how
    matrix = distances.ClassMatrix(measured.matrix, classes.class_names, "distances", how)
    return matrix, classes.synonyms, {} if distances.SOURCES[name].uses_samples else arguments.vectors


def _aliases(arguments: argparse.Namespace) -> dict[str, str]:
    return dict(alias.split("=", 1) for alias in arguments.alias)


def _read_names(path: Path) -> "ClassNames":
    """What the classes are called, and the names or synonyms to look up."""
    from softkin import SoftkinError, checks
    from softkin.distances import ClassNames

    with files.reading(path, "UTF-8 text", hint="save it in that encoding"):
        text = files.read_bytes(path, "class names").decode("utf-8-sig")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ids = [line.partition("\t")[0] for line in lines]
    names: list[str | list[str]] = []
    for line in lines:
        first, tab, synonyms = line.partition("\t")
        names.append([name.strip() for name in synonyms.split(",") if name.strip()] if tab else first)
    if len(ids) < 2:
        raise SoftkinError(f"{path} must name at least 2 classes, one a line, it names {len(ids)}.")
    try:
        return ClassNames(checks.class_names(ids), names)
    except ValueError as error:
        raise SoftkinError(f"{path}: {error}") from error


def _report(matrix: "ClassMatrix", s: "Tensor", labels: "Tensor", arguments: argparse.Namespace) -> dict[str, Any]:
    """What is printed, as plain data."""
    names = matrix.class_names
    top = min(arguments.top, len(names) - 1)
    far = matrix.values.clone()
    far.diagonal().fill_(float("inf"))
    nearest = far.argsort(dim=1, stable=True)[:, :top]  # by distance: at β = 0 or a large β similarities tie
    classes = []
    for k, name in enumerate(names):
        shown = [
            {
                "name": names[j],
                "distance": float(matrix.values[k, j]),
                "similarity": float(s[k, j]),
                "label": float(labels[k, j]),
            }
            for j in nearest[k].tolist()
        ]
        own = float(labels[k, k])
        rest = max(0.0, 1 - own - sum(float(neighbour["label"]) for neighbour in shown))
        classes.append({"name": name, "label": own, "nearest": shown, "rest": rest})
    return {"source": matrix.source, "alpha": arguments.alpha, "beta": arguments.beta, "classes": classes}


def _print(report: dict[str, Any]) -> None:
    """A table: a class, what its label keeps on itself, its nearest classes with theirs, and the rest."""
    import sys

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    print(f"{report['source']}; alpha = {report['alpha']:g}, beta = {report['beta']:g}")
    if "baseline" in report:
        print(f"The baseline, on {report['baseline']['rows']:,} rows, is {report['baseline']['words']}.")
    table = Table(box=None, pad_edge=False)
    table.add_column("class", overflow="fold")
    table.add_column("itself", justify="right", no_wrap=True)
    table.add_column("nearest classes, and the label's mass on each", overflow="fold")
    table.add_column("others", justify="right", no_wrap=True)
    for row in report["classes"]:
        nearest = ", ".join(f"{shown(other['name'])}{NO_BREAK}{other['label']:.4f}" for other in row["nearest"])
        table.add_row(Text(shown(row["name"])), f"{row['label']:.3f}", Text(nearest), f"{row['rest']:.4f}")
    console.print(table)


NO_BREAK = "\u00a0"  # keeps a name and its number on one line

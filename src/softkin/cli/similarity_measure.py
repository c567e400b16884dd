"""``softkin similarity measure``: from class names, samples or a matrix to smooth labels, printed and saved."""

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin._io import files
from softkin.cli import choices, measuring, running
from softkin.cli.arguments import in_shell
from softkin.cli.printing import json_text, print_table, say, wrote

if TYPE_CHECKING:
    from torch import Tensor

    from softkin._io.matrices import ClassMatrix
    from softkin.distances import ClassDistances

SUMMARY = "measure how alike the classes are, and print the smooth label of each"
DESCRIPTION = f"""\
Measure how alike classes are and print each class's nearest classes and its smooth label
(1−α)·one-hot + α·softmax(−β·distance).

{measuring.SOURCE}"""
EXAMPLE = "softkin similarity examples/cifar100.txt --beta 2 --alpha 0.1 --output m/"
MORE_EXAMPLES = ("softkin similarity classes.csv --beta 2",)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the options, with the library's names and defaults."""
    measuring.add_source(command)
    command.add_argument(
        "--alpha", type=float, default=0.1, help="probability mass on the other classes (default: 0.1)"
    )
    command.add_argument(
        "--beta", type=_beta, help="sharpness of the similarity; auto: fitted to --baseline, 2 without one (default: 2)"
    )
    running.add_top_m(command)
    command.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="held-out predictions of a network trained on one-hot labels, to say whether smoothing will help",
    )
    measuring.add_measuring(command)
    choices.path(
        command.add_argument(
            "--mix",
            action="append",
            default=[],
            metavar="FILE=WEIGHT",
            help="mix in the distances, similarity or taxonomy of FILE; each is normalised, and SOURCE has weight 1; "
            "may be repeated",
        )
    )
    command.add_argument(
        "--check", action="store_true", help="check sharp labels against WordNet and softkin's other word vectors"
    )
    command.add_argument("--asymmetric", action="store_true", help="allow distances that differ by direction")
    command.add_argument("--top", type=int, default=5, help="number of nearest classes to print (default: 5)")
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    command.add_argument("--output", type=Path, metavar="FOLDER", help="folder for the matrices")
    command.add_argument("--force", action="store_true", help="overwrite matrices in that folder")


def _beta(text: str) -> float | str:
    return text if text == "auto" else float(text)


FILES = ("distances.safetensors", "similarity.safetensors", "labels.safetensors", "labels.csv")  # as ``together`` does


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    from softkin._core import checks

    measuring.check(arguments)
    checks.alpha(arguments.alpha)
    if arguments.beta not in (None, "auto"):
        checks.beta(arguments.beta)
    checks.count(arguments.top, "--top", most=10**6)
    _weights(arguments.mix)
    if arguments.top_m is not None:
        checks.count(arguments.top_m, "--top-m")
    if arguments.output is not None and arguments.output.exists() and not arguments.output.is_dir():
        raise ValueError(f"--output must be a folder, but {arguments.output} is a file.")
    if arguments.output is not None:
        files.guard(*(arguments.output / name for name in FILES), force=arguments.force)


def run(arguments: argparse.Namespace) -> None:
    """Read, compute, print, write."""
    from softkin import SoftkinError, similarity, smoothing
    from softkin.distances import name_doubts

    read = measuring.read(arguments)
    matrix, measured = _mixed(read, arguments.mix)
    baseline = None if arguments.baseline is None else _baseline(arguments.baseline, matrix)
    if measured.similarity is not None and (arguments.beta is not None or arguments.top_m is not None):
        option = "--beta" if arguments.beta is not None else "--top-m"
        raise ValueError(
            f"{option} must be left out: {arguments.source} holds a similarity, which already includes its β."
        )
    if arguments.beta == "auto":
        arguments.beta = similarity.AUTO_BETA if baseline is None else baseline["beta"]
    elif arguments.beta is None and measured.similarity is None:
        arguments.beta = 2.0
    if measured.similarity is not None:
        s, arguments.beta = measured.similarity, measured.about.get("beta")
    else:
        try:
            rows: Tensor | similarity.SparseRows = similarity.from_distances(
                matrix.values,
                arguments.beta,
                asymmetric=arguments.asymmetric or measured.asymmetric,
                top_m=arguments.top_m,
            )
        except ValueError as error:
            raise SoftkinError(f"{arguments.source}: {error}") from error
        s = rows.dense() if isinstance(rows, similarity.SparseRows) else rows
    labels = smoothing.similarity_labels(s, arguments.alpha)
    report = _report(matrix, s, labels, arguments)
    if baseline is not None:
        report["baseline"] = baseline
    sentences = [name_doubts.too_sharp(s, arguments.beta) if isinstance(arguments.beta, int | float) else ""]
    doubt = None
    if arguments.check:
        doubt = name_doubts.disagreement(read.synonyms, s, vectors=read.vectors, aliases=running.aliases(arguments))
        sentences.append(doubt)
    report["warnings"] = [sentence for sentence in sentences if sentence]
    for sentence in report["warnings"]:
        warnings.warn(sentence, stacklevel=2)
    if arguments.json:
        print(json_text(report))
    else:
        _print(report)
        if doubt == "":
            say(
                "Check: no class that takes more than half of alpha is far in the kinds of things of WordNet that come "
                "with softkin, or in the other word vectors. This finds few wrong neighbours: look at the table."
            )
    if arguments.output is not None:
        contents = _contents(matrix, measured, s, labels, arguments)
        files.write_together(contents)
        if not arguments.json:
            for path in contents:
                wrote(path)


def _weights(mix: list[str]) -> list[tuple[str, float]]:
    """The files of --mix and their weights."""
    from softkin._core import checks

    weights = []
    for text in mix:
        path, _, weight = text.rpartition("=")
        if not path or not checks.is_number(weight):
            raise ValueError(f"--mix must be FILE=WEIGHT, got {text!r}.")
        weights.append((path, checks.at_least_zero(float(weight), "--mix")))
    return weights


def _mixed(read: measuring.SourceRead, mix: list[str]) -> "tuple[ClassMatrix, ClassDistances]":
    """The distances of SOURCE, or their mixture with those of --mix."""
    if not mix:
        return read.matrix, read.measured
    from softkin import distances

    classes = distances.ClassNames(read.matrix.class_names, read.synonyms)
    matrices, weights, parts = [read.matrix.values], [1.0], [f"1 × ({read.matrix.source})"]
    for path, weight in _weights(mix):
        measured = distances.measure("file", classes, matrix=path)
        matrices.append(measured.matrix)
        weights.append(weight)
        parts.append(f"{weight:g} × ({measured.how})")
    values, how = distances.mixture(matrices, weights), " + ".join(parts)
    matrix = distances.ClassMatrix(values, classes.class_names, "distances", how)
    return matrix, distances.ClassDistances(values, how, asymmetric=True)


def _baseline(path: Path, matrix: "ClassMatrix") -> dict[str, Any]:
    """What a baseline's predictions imply about smoothing with these similarities."""
    from softkin import SoftkinError, predictions, similarity
    from softkin.losses import soft_labels
    from softkin.metrics.intervals import gap_and_error

    outputs = predictions.load(path)
    if outputs.num_classes != len(matrix.values):
        raise SoftkinError(
            f"{path} must have the {len(matrix.values)} classes of {matrix.source}, it has {outputs.num_classes}."
        )
    outputs = outputs.in_order(matrix.class_names, matrix.source)
    p, y = outputs.probabilities, outputs.known_labels
    gap, deviation = gap_and_error(p, y)
    beta = similarity.best_beta(matrix.values, p, y)
    return {
        "rows": len(y),
        "gap": gap,
        "beta": beta,
        "words": f"{soft_labels.what_a_gap_implies(gap, deviation)}; what it confuses asks for β = {beta:.3g}",
    }


def _contents(
    matrix: "ClassMatrix", measured: "ClassDistances", s: "Tensor", labels: "Tensor", arguments: argparse.Namespace
) -> dict[Path, bytes | str]:
    """The content of each file to write, by path."""
    from softkin._io.matrices import ClassMatrix, together

    names, folder = matrix.class_names, arguments.output
    with_beta = matrix.source if arguments.beta is None else f"{matrix.source}; beta={arguments.beta:g}"
    with_beta += "" if arguments.top_m is None else f"; top_m={arguments.top_m}"
    with_alpha = f"{with_beta}; alpha={arguments.alpha:g}"
    kept = {**measured.about, **({"asymmetric": True} if measured.asymmetric or arguments.asymmetric else {})}
    contents = together(
        {
            "distances": ClassMatrix(matrix.values, names, "distances", matrix.source, kept),
            "similarity": ClassMatrix(s, names, "similarity", with_beta),
            "labels": ClassMatrix(labels, names, "labels", with_alpha),
        }
    )
    return {folder / name: content for name, content in contents.items()}


def _report(matrix: "ClassMatrix", s: "Tensor", labels: "Tensor", arguments: argparse.Namespace) -> dict[str, Any]:
    """The printed table as plain data."""
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
    return {
        "source": matrix.source,
        "alpha": arguments.alpha,
        "beta": arguments.beta,
        "top_m": arguments.top_m,
        "classes": classes,
    }


def _print(report: dict[str, Any]) -> None:
    """Print for each class the label's mass on itself, on its nearest classes, and on the rest."""
    sharp = "" if report["beta"] is None else f", beta = {report['beta']:g}"
    few = "" if report["top_m"] is None else f", top-m = {report['top_m']}"
    say(f"{report['source']}; alpha = {report['alpha']:g}{sharp}{few}")
    if "baseline" in report:
        words = in_shell(report["baseline"]["words"], {"--alpha"})
        say(f"The baseline, on {report['baseline']['rows']:,} rows, is {words}.")
    headings = ["class", "itself", "nearest classes, and the label's mass on each", "others"]
    rows = [
        [
            row["name"],
            f"{row['label']:.3f}",
            ", ".join(f"{other['name']} {other['label']:.4f}" for other in row["nearest"]),
            f"{row['rest']:.4f}",
        ]
        for row in report["classes"]
    ]
    print_table(headings, rows, [], left=(0, 2), wrapped=(0, 2))

"""The options that say what files of predictions hold, and the files read with them; several commands share these."""

import argparse
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin.cli import choices
from softkin.cli.arguments import examples
from softkin.predictions.formats import names as formats

if TYPE_CHECKING:
    from softkin.predictions import Predictions
    from softkin.predictions.blocks import PredictionFile


def add_input_arguments(command: argparse.ArgumentParser, *, score: bool = True) -> None:
    """Add the options that say what a file of predictions holds; ``score`` unless --score means something else.

    None is needed where the file is plain.
    """
    group = command.add_argument_group("what the file holds", "needed only where the file itself does not tell")
    kind = group.add_mutually_exclusive_group()
    kind.add_argument("--logits", action="store_const", const="logits", dest="kind", help="read the numbers as logits")
    kind.add_argument(
        "--probs", action="store_const", const="probs", dest="kind", help="read the numbers as probabilities"
    )
    group.add_argument(
        "--format",
        choices=formats(),
        help="format of the files, if their names do not end in it",
    )
    group.add_argument("--label-column", metavar="NAME", help="column, array or key that holds the labels")
    group.add_argument("--text-column", metavar="NAME", help="column or key that holds the texts")
    group.add_argument(
        "--class-columns", default="", metavar="A,B,…", help="columns of scores (default: those that can be classes)"
    )
    group.add_argument("--ignore-columns", default="", metavar="A,B,…", help="columns to leave out")
    choices.path(
        group.add_argument(
            "--class-names", type=Path, metavar="FILE", help="text file of class names in order, one per line"
        )
    )
    group.add_argument(
        "--positive-class", metavar="NAME", help="class whose probability the single score of a binary model is"
    )
    if score:
        group.add_argument(
            "--score",
            dest="score_column",
            metavar="NAME",
            help="column of confidences, for pairs of confidence and outcome",
        )
    group.add_argument(
        "--outcome",
        metavar="NAME",
        help="column that says whether each answer was right, or that each score came true",
    )
    group.add_argument("--weight", metavar="NAME", help="column of the rows' weights")
    group.add_argument(
        "--renormalise",
        action="store_true",
        help="divide each row of probabilities by its sum, however far from 1 it is",
    )


def add_actions(
    command: argparse.ArgumentParser, typed: Mapping[str, str]
) -> Callable[[str, str], argparse.ArgumentParser]:
    """A function that adds an action to the command, given its name and summary."""
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, summary: str) -> argparse.ArgumentParser:
        return actions.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=examples(typed[name]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    return action


def add_file(parser: argparse.ArgumentParser, name: str, words: str) -> None:
    """Add an argument for a file of predictions, which shells complete."""
    choices.path(parser.add_argument(name, metavar=name.upper(), help=words))


def add_common_options(parser: argparse.ArgumentParser, *, score: bool = True) -> None:
    """The options of every action on files of predictions."""
    add_input_arguments(parser, score=score)
    parser.add_argument("--labels", type=Path, metavar="FILE", help="file of labels, if FILE holds none")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--force", action="store_true", help="overwrite existing files")


def reading_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options above as ``predictions.Reading`` takes them."""
    options = (
        "kind", "labels", "label_column", "text_column", "class_names", "positive_class", "renormalise",
        "outcome", "weight",
    )  # fmt: skip
    return {name: getattr(arguments, name) for name in options} | {
        "score": getattr(arguments, "score_column", None),
        "group": getattr(arguments, "group", None),
        "form": arguments.format,
        "class_columns": _columns(arguments.class_columns) or None,
        "ignore_columns": _columns(arguments.ignore_columns),
    }


def _columns(text: str) -> list[str]:
    """The columns in a list such as "a,b"."""
    return [part.strip() for part in text.split(",") if part.strip()]


def opened(path: str, arguments: argparse.Namespace, *, whole: bool = True) -> "tuple[PredictionFile, Predictions]":
    """A file, and its predictions, named after it; unless ``whole``, rows without a label are left out."""
    from dataclasses import replace

    from softkin.predictions import file_sets, reading

    file = file_sets.open_any(path, **reading_options(arguments), keep_unlabelled=whole)
    predictions = reading.read_all(file)
    return file, replace(predictions, name=Path(path).name if path != "-" else predictions.name)


def recognisable(raw: "Predictions", arguments: argparse.Namespace) -> "Predictions":
    """The rows with a label, where labels were left out because some rows have none; otherwise all rows."""
    from softkin import SoftkinError
    from softkin.predictions import Assumption, file_sets

    if raw.labels is not None or arguments.file == "-":
        return raw
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Assumption)  # said when the file was opened
        try:
            file = file_sets.open_any(arguments.file, **reading_options(arguments))
            first = next(file.blocks_of(1), None)
            return raw if first is None or first.labels is None else opened(arguments.file, arguments, whole=False)[1]
        except SoftkinError:  # such as too few labels to believe them
            return raw


def read_labelled(path: str, arguments: argparse.Namespace) -> "Predictions":
    """The predictions of a file with labels: without any it is refused, and rows without one are left out."""
    return opened_labelled(path, arguments)[1]


def opened_labelled(path: str, arguments: argparse.Namespace) -> "tuple[PredictionFile, Predictions]":
    """``read_labelled``, and the file."""
    from softkin import SoftkinError

    file, predictions = opened(path, arguments, whole=False)
    if predictions.labels is None:
        raise SoftkinError(
            f"{path} must have labels for this, one for each row, it has none; name their column with "
            "--label-column, or "
            "a file of them with --labels."
        )
    from softkin.evaluation import doubts

    for sentence in doubts.of_predictions(predictions, predictions.probabilities.amax(dim=1)):
        warnings.warn(f"{predictions.name}: {sentence}", stacklevel=2)
    return file, predictions

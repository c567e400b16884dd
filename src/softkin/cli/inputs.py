"""The options that say what files of predictions hold, and the files read with them; several commands share these."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin.cli import choices
from softkin.predictions.registry import FORMATS

if TYPE_CHECKING:
    from softkin.predictions import Predictions


def add_input_arguments(command: argparse.ArgumentParser) -> None:
    """The options that say what a file of predictions holds."""
    kind = command.add_mutually_exclusive_group()
    kind.add_argument("--logits", action="store_const", const="logits", dest="kind", help="the numbers are logits")
    kind.add_argument("--probs", action="store_const", const="probs", dest="kind", help="… are probabilities")
    command.add_argument(
        "--format",
        choices=list(FORMATS),
        help="of the files, where their names do not end in it",
    )
    command.add_argument("--label-column", metavar="NAME", help="the column, array or key that holds the labels")
    command.add_argument("--text-column", metavar="NAME", help="… that holds the samples' texts (default: text)")
    choices.path(
        command.add_argument("--class-names", type=Path, metavar="FILE", help="class names in their order, one a line")
    )
    command.add_argument(
        "--positive-class", metavar="NAME", help="the files have one score a sample, of a binary model, for this class"
    )
    command.add_argument(
        "--renormalise", action="store_true", help="divide each row by its sum, where probabilities were rounded"
    )


def add_actions(
    command: argparse.ArgumentParser, examples: Mapping[str, str]
) -> Callable[[str, str], argparse.ArgumentParser]:
    """A function that adds an action below the command by its name and summary, with its example."""
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, summary: str) -> argparse.ArgumentParser:
        return actions.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=f"example:\n  {examples[name]}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    return action


def add_file(parser: argparse.ArgumentParser, name: str, words: str) -> None:
    """A file of predictions as an argument, which shells complete."""
    choices.path(parser.add_argument(name, metavar=name.upper(), help=words))


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """What every action on files of predictions takes."""
    add_input_arguments(parser)
    parser.add_argument("--labels", type=Path, metavar="FILE", help="labels, where a file holds none")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--force", action="store_true", help="overwrite what is there")


def reading_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was typed of the options above, as ``predictions.Reading`` takes it."""
    options = ("kind", "labels", "label_column", "text_column", "class_names", "positive_class", "renormalise")
    return {name: getattr(arguments, name) for name in options} | {"form": arguments.format}


def read(path: str, arguments: argparse.Namespace) -> "Predictions":
    """The predictions of a file, named after it."""
    from dataclasses import replace

    from softkin.predictions import formats

    predictions = formats.read(path, **reading_options(arguments))
    return replace(predictions, name=Path(path).name if path != "-" else predictions.name)


def read_labelled(path: str, arguments: argparse.Namespace) -> "Predictions":
    """Like ``read``, but predictions without labels are refused."""
    from softkin import SoftkinError

    predictions = read(path, arguments)
    if predictions.labels is None:
        raise SoftkinError(f"{path} must have labels for this, one for each row; it has none.")
    return predictions

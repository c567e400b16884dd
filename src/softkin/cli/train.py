"""``softkin train``: data, a network and a method → a trained network, its checkpoints and its predictions."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from softkin._core.names import require
from softkin.cli import choices, listing, measuring, running
from softkin.cli.arguments import declare, given, in_shell
from softkin.cli.printing import json_text, say
from softkin.lab.training import CHECKPOINT_EVERY

if TYPE_CHECKING:
    from softkin.lab.training.session import Session

LABELS = ", ".join(choices.listed(choices.label_methods))
MIXES = ", ".join(choices.listed(choices.mix_methods))
SUMMARY = "train a network with smooth, mixed or other labels, and save its predictions"
DESCRIPTION = f"""\
Train a network and write its predictions for validation, test and out-of-distribution data.

SOURCE is any data that softkin reads: digits, a folder of class folders, .npz, .parquet, the official archives of
CIFAR and Tiny-ImageNet, text with a label column.

METHOD is a way to label ({LABELS}), a way to mix ({MIXES}), or one
of each joined by +, such as similarity+mixup.

The same command with the same --output resumes where it was stopped, and ends with the same weights.
Under `accelerate launch -m softkin` or `torchrun -m softkin` the processes split every batch between them."""
EXAMPLE = "softkin train digits --max-per-class 10 --method similarity --distance l2 --epochs 5 --output run/"
MORE_EXAMPLES = (
    "softkin train reviews.csv --method uniform --alpha 0.1 --output run/",
    "softkin train --list-methods",
)

SESSION = (
    *("source", "model", "method", "distance", "vectors", "validation", "test", "max_per_class", "size", "ood"),
    *("recipe", "seed", "device", "output", "force", "checkpoint_every", "log_json"),
)
"""The fields of ``training.session.Session`` that are options of the same name"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the options, with the library's names and defaults."""
    listing.add(command, listing.training_methods)
    source = command.add_argument("source", metavar="SOURCE", nargs="?", action=running.Data)
    choices.choose(source, "data to train on", choices.data_sets, files=True)
    command.add_argument("--data", dest="source", action=running.Data, help=argparse.SUPPRESS)
    networks = (
        "network: one of {}, with options as in wrn(units=2), or package.module:callable (default: depends on SOURCE)"
    )
    choices.choose(command.add_argument("--model"), networks, choices.networks)
    _add_labels(command.add_argument_group("labels"))
    data = command.add_argument_group("data")
    data.add_argument("--validation", type=int, metavar="ROWS", help="number of rows of the validation set")
    data.add_argument("--test", type=int, metavar="ROWS", help="number of rows of the test set")
    per_class = "maximum number of training rows of each class"
    data.add_argument("--max-per-class", "--per-class", type=int, metavar="ROWS", help=per_class)
    data.add_argument("--size", type=int, help="resize images to this many pixels on each side")
    ood = "out-of-distribution data to predict too: uniform, gaussian or another source; may be repeated"
    unknown = data.add_argument("--ood", action="append", default=[], metavar="NAME")
    choices.choose(unknown, ood, choices.unknown_data, files=True)
    recipe = command.add_argument_group("recipe")
    names = "training recipe: one of {} (default: small up to 10,000 training rows, else paper)"
    choices.choose(recipe.add_argument("--recipe"), names, choices.recipes)
    declare(recipe, choices.declared(choices.of_recipes))
    _add_run(command.add_argument_group("run"))


def _add_labels(labels: argparse._ArgumentGroup) -> None:
    method = labels.add_argument("--method", default="one-hot", metavar="METHOD")
    named = "training method, see above, or a distance as in compare, such as we (default: one-hot)"
    choices.choose(method, named, choices.training_methods, separators="+")
    auto = "; train itself defaults to auto, adjusted during training by the validation gap, as compare does"
    for option in choices.declared(choices.of_methods):
        declare(labels, [option], default=auto if option.name == "alpha" else "")
    distance = labels.add_argument("--distance")
    words = "class distance: {}, or a file of distances, similarity or a taxonomy (default: words)"
    choices.choose(distance, words, choices.distances, files=True)
    measuring.add_word_options(labels)
    measuring.add_options(labels)


def _add_run(run: argparse._ArgumentGroup) -> None:
    run.add_argument("--seed", type=int, default=0, help="seed of weights, split, order and mixing (default: 0)")
    run.add_argument("--device", help="device to train on, such as cuda:1 (default: an accelerator if there is one)")
    run.add_argument("--output", type=Path, metavar="FOLDER", help="folder for checkpoints, predictions and the record")
    force = "overwrite a finished run in that folder; an interrupted run is resumed"
    run.add_argument("--force", action="store_true", help=force)
    checkpoints = f"minimum time between two checkpoints (default: {CHECKPOINT_EVERY:g})"
    run.add_argument("--checkpoint-every", type=float, default=CHECKPOINT_EVERY, metavar="SECONDS", help=checkpoints)
    run.add_argument(
        "--log-json", type=Path, metavar="FILE", help="file for a log of one JSON line for each step and epoch"
    )
    tracker = run.add_argument("--tracker", action="append", default=[])
    choices.choose(tracker, "also log to one of {}; may be repeated", choices.trackers)
    run.add_argument("--json", action="store_true", help="print the record as JSON")


def _as_in_compare(arguments: argparse.Namespace) -> None:
    """Understand what `softkin compare` calls methods: similarity by its distance, `learned-` before a prior."""
    from softkin import calibrators
    from softkin.distances import SOURCES
    from softkin.lab.study.columns import LEARNED
    from softkin.lab.training.methods import METHODS, SIMILARITY

    named = []
    for part in arguments.method.split("+"):
        source = SOURCES.find(part.removeprefix(f"{LEARNED}-"))
        if METHODS.find(part) is not None:
            named.append(part)
        elif source is not None:
            if arguments.distance is not None and SOURCES.find(arguments.distance) != source:
                raise ValueError(f"--method {part} is {SIMILARITY.name} by {source}; leave --distance out.")
            named.append(SIMILARITY.name)
            arguments.distance = source
            if part.startswith(LEARNED) and arguments.prior_rows is None:
                arguments.prior_rows = 1
        elif calibrators.REGISTRY.find(part) is not None:
            fit = f"softkin calibrate fit run/validation.safetensors --method {part} --output calibrator/"
            raise ValueError(f"--method {part} is fitted after a training: train without it, then `{fit}`.")
        else:
            named.append(part)
    arguments.method = "+".join(named)


def _session(arguments: argparse.Namespace) -> "Session":
    from softkin.lab.training.methods import parse
    from softkin.lab.training.session import Session

    _as_in_compare(arguments)
    values = given(arguments, choices.declared(choices.of_methods))
    adjusted = any(part.name == "alpha" and part.automatic for part in parse(arguments.method)[0].parameters)
    from_file = arguments.distance is not None and (arguments.distance == "file" or Path(arguments.distance).suffix)
    if adjusted and values.get("alpha") is None and not from_file:  # a file may suggest its own
        values["alpha"] = "auto"  # as compare does: the validation rows say how much smoothing is needed
    return Session(
        **{name: getattr(arguments, name) for name in SESSION},
        values=values,
        aliases=running.aliases(arguments),
        distance_options=measuring.chosen(arguments),
        recipe_changes=given(arguments, choices.declared(choices.of_recipes)),
        trackers=arguments.tracker,
    )


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    from softkin.lab.training.launch import TRACKERS

    if arguments.source is None:
        raise ValueError("SOURCE is missing: name the data to train on, as in `softkin train digits`.")
    _session(arguments).check()
    for name in arguments.tracker:
        require(name, TRACKERS, "--tracker")


def run(arguments: argparse.Namespace) -> None:
    """Train, and print the results."""
    from softkin._core import ranks

    finished = _session(arguments).run()
    if finished is not None:
        if arguments.json:
            print(json_text(finished.record))
        else:
            say(in_shell(finished.text(), {"--alpha"}))
    ranks.leave()

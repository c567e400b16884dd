"""``softkin train``: data, a network and a method → a trained network, its checkpoints and its predictions."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin.cli import choices, running, sources
from softkin.names import require
from softkin.training import AUGMENTATIONS, CHECKPOINT_EVERY, PRECISIONS, SCHEDULES, STOPS
from softkin.training.methods import METHODS, parameters

if TYPE_CHECKING:
    from softkin.training.methods import Value
    from softkin.training.session import Session

LABELS = ", ".join(name for name, method in METHODS.items() if not method.mixes)
MIXES = ", ".join(name for name, method in METHODS.items() if method.mixes)
SUMMARY = "train a network with smooth, mixed or other labels, and save what it predicts"
DESCRIPTION = f"""\
Train a network and write its predictions for validation, test and out-of-distribution data.

SOURCE is anything that softkin reads: digits, a folder of class folders, .npz, .parquet, CIFAR and
Tiny-ImageNet as their makers ship them, text with a label column.

METHOD is a way to label ({LABELS}), a way to mix ({MIXES}), or one
of each joined by +, such as similarity+mixup.

The same command with the same --output resumes where it was stopped, and ends with the same weights.
Under `accelerate launch -m softkin` or `torchrun -m softkin` the processes share every batch."""
EXAMPLE = "softkin train digits --max-per-class 10 --method similarity --distance l2 --epochs 5 --output run/"

RECIPE: dict[str, dict[str, Any]] = {
    "epochs": {"type": int, "help": "passes over the training rows"},
    "batch_size": {"type": int, "help": "images in a step, over all processes"},
    "lr": {"type": float, "help": "learning rate at its highest"},
    "momentum": {"type": float, "help": "momentum of stochastic gradient descent"},
    "weight_decay": {"type": float, "help": "L2 penalty on all parameters"},
    "schedule": {"choices": SCHEDULES, "help": "how the learning rate falls"},
    "warmup_epochs": {"type": float, "help": "epochs in which the learning rate rises from 0"},
    "augmentation": {"choices": AUGMENTATIONS, "help": "how training images are varied"},
    "gradient_accumulation": {"type": int, "help": "parts in which a batch goes through the network"},
    "mixed_precision": {"choices": PRECISIONS, "help": "number format of the network's passes"},
    "stop_by": {
        "choices": STOPS,
        "help": "keep the epoch that validates best by this; refined-nll: NLL after temperature scaling",
    },
}
"""Fields of ``training.Recipe`` that have an option of their own, as argparse takes them"""


SESSION = (
    *("source", "model", "method", "distance", "vectors", "validation", "test", "max_per_class", "size", "ood"),
    *("recipe", "seed", "device", "output", "force", "checkpoint_every", "log_json"),
)
"""Fields of ``training.session.Session`` that are options of the same name"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Options, with the library's names and defaults."""
    choices.choose(command.add_argument("source", metavar="SOURCE"), "the data", choices.data_sets, files=True)
    networks = "one of {}, with options as in wrn(units=2), or package.module:callable (default: by the data)"
    choices.choose(command.add_argument("--model"), networks, choices.networks)
    _add_labels(command.add_argument_group("labels"))
    data = command.add_argument_group("data")
    data.add_argument("--validation", type=int, metavar="ROWS", help="rows of the validation set")
    data.add_argument("--test", type=int, metavar="ROWS", help="rows of the test set")
    per_class = "maximum number of training rows of each class"
    data.add_argument("--max-per-class", "--per-class", type=int, metavar="ROWS", help=per_class)
    data.add_argument("--size", type=int, help="resize images to this many pixels, square")
    ood = "predict these too: uniform, gaussian or another source; may be repeated"
    data.add_argument("--ood", action="append", default=[], metavar="NAME", help=ood)
    recipe = command.add_argument_group("recipe")
    names = "one of {} (default: small up to 10,000 training rows)"
    choices.choose(recipe.add_argument("--recipe"), names, choices.recipes)
    for name, options in RECIPE.items():
        recipe.add_argument(f"--{name.replace('_', '-')}", **options)
    recipe.add_argument("--compile", action="store_true", help="torch.compile the network")
    recipe.add_argument("--no-channels-last", action="store_true", help="keep images in channel planes")
    _add_run(command.add_argument_group("run"))


def _add_labels(labels: argparse._ArgumentGroup) -> None:
    method = labels.add_argument("--method", default="one-hot", metavar="METHOD")
    choices.choose(method, "see above (default: one-hot)", choices.training_methods, separators="+")
    for name in parameters():
        labels.add_argument(f"--{name.replace('_', '-')}", type=_value, metavar="NUMBER", help=_help(name))
    distance = labels.add_argument("--distance")
    words = "{} or a file of distances, similarity or a taxonomy (default: words)"
    choices.choose(distance, words, choices.distances, files=True)
    sources.add_word_options(labels)
    sources.add_options(labels)


def _add_run(run: argparse._ArgumentGroup) -> None:
    run.add_argument("--seed", type=int, default=0, help="of weights, split, order and mixing (default: 0)")
    run.add_argument("--device", help="such as cuda:1 (default: an accelerator if there is one)")
    run.add_argument("--output", type=Path, metavar="FOLDER", help="for checkpoints, predictions and the record")
    force = "overwrite a finished run there; an interrupted one is resumed"
    run.add_argument("--force", action="store_true", help=force)
    checkpoints = f"minimum time between two checkpoints (default: {CHECKPOINT_EVERY:g})"
    run.add_argument("--checkpoint-every", type=float, default=CHECKPOINT_EVERY, metavar="SECONDS", help=checkpoints)
    run.add_argument("--log-json", type=Path, metavar="FILE", help="a JSON line for each step and epoch")
    run.add_argument("--tracker", action="append", default=[], help="tensorboard, wandb or mlflow; may be repeated")
    run.add_argument("--json", action="store_true", help="print the record as JSON")


def _value(text: str) -> "Value":
    """A number, or "auto"."""
    return "auto" if text == "auto" else float(text)


def _help(name: str) -> str:
    """A parameter's meaning, and the default of each method that has it."""
    takers = parameters()[name]
    usual = next(iter(takers.values()))
    others = "".join(
        f"; {method} {parameter.default:g}"
        for method, parameter in takers.items()
        if parameter.default != usual.default
    )
    of = "" if len(takers) > 1 else f", of {next(iter(takers))}"
    auto = "; or auto" if usual.automatic else ""
    return f"{usual.about}{of} (default: {usual.default:g}{others}{auto})"


def _session(arguments: argparse.Namespace) -> "Session":
    from softkin.training.session import Session

    changes: dict[str, Any] = {name: getattr(arguments, name) for name in RECIPE}
    changes["compile"] = True if arguments.compile else None
    changes["channels_last"] = False if arguments.no_channels_last else None
    return Session(
        **{name: getattr(arguments, name) for name in SESSION},
        values={name: getattr(arguments, name) for name in parameters()},
        aliases=running.aliases(arguments),
        distance_options=sources.options(arguments),
        recipe_changes={name: value for name, value in changes.items() if value is not None},
        trackers=arguments.tracker,
    )


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    from softkin.training.launch import TRACKERS

    _session(arguments).check()
    for name in arguments.tracker:
        require(name, TRACKERS, "--tracker")


def run(arguments: argparse.Namespace) -> None:
    """Train, and print what came of it."""
    import torch.distributed as dist

    finished = _session(arguments).run()
    if finished is not None:
        print(json.dumps(finished.record, ensure_ascii=False, indent=1) if arguments.json else finished.text())
    if dist.is_available() and dist.is_initialized():  # the processes end together
        dist.barrier()
        dist.destroy_process_group()

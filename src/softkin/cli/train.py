"""``softkin train``: data, a network and a method → a trained network, its checkpoints and its predictions."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin.cli import choices
from softkin.files import from_number
from softkin.names import require
from softkin.training import CHECKPOINT_EVERY
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

The same command with the same --output goes on where it was stopped, and comes to the same weights.
Under `accelerate launch -m softkin` or `torchrun -m softkin` the processes share every batch."""
EXAMPLE = "softkin train digits --max-per-class 10 --method similarity --distance l2 --epochs 5 --output run/"

RECIPE_OPTIONS = (
    "epochs",
    "batch_size",
    "lr",
    "momentum",
    "weight_decay",
    "schedule",
    "augmentation",
    "warmup_epochs",
    "gradient_accumulation",
    "mixed_precision",
    "stop_by",
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Options, with the library's names and defaults."""
    choices.choose(command.add_argument("source", metavar="SOURCE"), "the data", choices.data_sets, files=True)
    choices.choose(
        command.add_argument("--model"),
        "one of {}, with options as in wrn(units=2), or package.module:callable (default: by the data)",
        choices.networks,
    )
    labels = command.add_argument_group("labels")
    method = labels.add_argument("--method", default="one-hot", metavar="METHOD")
    choices.choose(method, "see above (default: one-hot)", choices.training_methods, separators="+")
    for name in parameters():
        labels.add_argument(f"--{name.replace('_', '-')}", type=_value, metavar="NUMBER", help=_help(name))
    distance = labels.add_argument("--distance")
    choices.choose(distance, "{} or a file of distances (default: words)", choices.distances, files=True)
    vectors = labels.add_argument("--vectors")
    words = "for --distance words: {} or a file of word vectors (default: minilm)"
    choices.choose(vectors, words, choices.word_vectors, files=True)
    labels.add_argument(
        "--alias", action="append", default=[], metavar="WORD=OTHER", help="look up OTHER for WORD; may be repeated"
    )
    data = command.add_argument_group("data")
    data.add_argument("--validation", type=int, metavar="ROWS", help="rows of the validation set")
    data.add_argument("--test", type=int, metavar="ROWS", help="rows of the test set")
    data.add_argument(
        "--max-per-class", "--per-class", type=int, metavar="ROWS", help="at most so many training rows of each class"
    )
    data.add_argument("--size", type=int, help="resize images to this many pixels, square")
    data.add_argument(
        "--ood",
        action="append",
        default=[],
        metavar="NAME",
        help="predict these too: uniform, gaussian or another source; may be repeated",
    )
    recipe = command.add_argument_group("recipe")
    choices.choose(
        recipe.add_argument("--recipe"), "one of {} (default: small up to 10,000 training rows)", choices.recipes
    )
    recipe.add_argument("--epochs", type=int)
    recipe.add_argument("--batch-size", type=int, help="images in a step, over all processes")
    recipe.add_argument("--lr", type=float)
    recipe.add_argument("--momentum", type=float)
    recipe.add_argument("--weight-decay", type=float)
    recipe.add_argument("--schedule", choices=["step", "cosine", "one-cycle", "constant"])
    recipe.add_argument("--warmup-epochs", type=float)
    recipe.add_argument("--augmentation", choices=["none", "flip", "crop-flip"])
    recipe.add_argument("--gradient-accumulation", type=int, help="parts in which a batch goes through the network")
    recipe.add_argument("--mixed-precision", choices=["no", "bf16", "fp16"])
    recipe.add_argument(
        "--stop-by",
        choices=["refined-nll", "nll", "accuracy", "brier", "ece"],
        help="keep the epoch that is best by this on the validation rows; refined-nll: NLL after temperature scaling",
    )
    recipe.add_argument("--compile", action="store_true", help="torch.compile the network")
    recipe.add_argument("--no-channels-last", action="store_true", help="keep images in channel planes")
    run = command.add_argument_group("run")
    run.add_argument("--seed", type=int, default=0, help="of weights, split, order and mixing (default: 0)")
    run.add_argument("--device", help="such as cuda:1 (default: an accelerator if there is one)")
    run.add_argument("--output", type=Path, metavar="FOLDER", help="checkpoints, predictions and the record go there")
    run.add_argument(
        "--force", action="store_true", help="overwrite a finished run there; one that was cut off goes on"
    )
    run.add_argument(
        "--checkpoint-every",
        type=float,
        default=CHECKPOINT_EVERY,
        metavar="SECONDS",
        help=f"minimum time between two checkpoints (default: {CHECKPOINT_EVERY:g})",
    )
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

    for alias in arguments.alias:
        if not all(part.strip() for part in alias.partition("=")):
            raise ValueError(f"--alias must be WORD=OTHER, got {alias!r}.")
    changes: dict[str, Any] = {name: getattr(arguments, name) for name in RECIPE_OPTIONS}
    changes |= {"compile": True if arguments.compile else None}
    changes |= {"channels_last": False if arguments.no_channels_last else None}
    return Session(
        source=arguments.source,
        model=arguments.model,
        method=arguments.method,
        values={name: getattr(arguments, name) for name in parameters()},
        distance=arguments.distance,
        vectors=arguments.vectors,
        aliases=dict(alias.split("=", 1) for alias in arguments.alias),
        validation=arguments.validation,
        test=arguments.test,
        max_per_class=arguments.max_per_class,
        size=arguments.size,
        ood=arguments.ood,
        recipe=arguments.recipe,
        recipe_changes={name: value for name, value in changes.items() if value is not None},
        seed=arguments.seed,
        device=arguments.device,
        output=arguments.output,
        force=arguments.force,
        checkpoint_every=arguments.checkpoint_every,
        log_json=arguments.log_json,
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
    finished = _session(arguments).run()
    if finished is not None and arguments.json:
        print(json.dumps(finished.record, ensure_ascii=False, indent=1))
    elif finished is not None:
        _print(finished.record, finished.written)
    _leave()


def _print(record: dict[str, Any], written: list[Path]) -> None:
    print(f"{record['source']}; {record['network']}, {record['parameters']:,} parameters; {record['method']['name']}")
    print(f"target: {record['effective_target']}")
    if "autoencoder" in record:
        print(record["autoencoder"]["words"])
    if record["overlap"]:
        print(
            f"notice: {record['overlap']:,} validation and test samples have an exact twin among the training samples"
        )
    if "batch_statistics" in record and record["processes"] > 1:
        print(f"batch statistics: {record['batch_statistics']}")
    for name, numbers in record["results"].items():
        if "auroc" in numbers:
            print(f"{name}: {numbers['rows']:,} rows, AUROC of the confidence against test {numbers['auroc']:.4f}")
        else:
            print(
                f"{name}: {numbers['rows']:,} rows, accuracy {100 * numbers['accuracy']:.2f} %, ECE "
                f"{100 * numbers['ece']:.2f} %, NLL {from_number(numbers['nll']):.4f}, Brier {numbers['brier']:.4f}"
            )
    print(f"{record['seconds']:.1f} s of training" + (", resumed" if record["resumed"] else ""))
    for path in written:
        print(f"Wrote {path}")


def _leave() -> None:
    """Let the processes end together, where there are several."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()

"""``softkin train``: data, a network and a method → a trained network, its checkpoints and its predictions."""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softkin.data import Split
    from softkin.distances.autoencoder import AutoencoderFit
    from softkin.predictions import Predictions
    from softkin.training import Method, Recipe, Trained

SUMMARY = "train a network with smooth, mixed or other labels, and save what it predicts"
DESCRIPTION = """\
Train a network and write its predictions for validation, test and out-of-distribution data.

SOURCE is anything that softkin reads: digits, a folder of class folders, .npz, .parquet, CIFAR and
Tiny-ImageNet as their makers ship them, text with a label column.

METHOD is one-hot, uniform, similarity, focal, margin or online, a way to mix (mixup, cutmix), or one
of each joined by +, such as similarity+mixup.

The same command with the same --output goes on where it was stopped, and comes to the same weights.
Under `accelerate launch -m softkin` or `torchrun -m softkin` the processes share every batch."""
EXAMPLE = "softkin train digits --per-class 10 --method similarity --distance l2 --epochs 5 --output run/"

METHODS = ("one-hot", "uniform", "similarity", "focal", "margin", "online", "mixup", "cutmix")
SMALL = 10_000  # training rows up to which the recipe is "small" by default
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
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Options, with the library's names and defaults."""
    command.add_argument("source", metavar="SOURCE", help="the data")
    command.add_argument(
        "--model", help="such as wrn(units=2), resnet18 or package.module:callable (default: by the data)"
    )
    labels = command.add_argument_group("labels")
    labels.add_argument("--method", default="one-hot", metavar="METHOD", help="see above (default: one-hot)")
    labels.add_argument("--alpha", type=float, help="smoothing factor (default: 0.1; online 0.5)")
    labels.add_argument("--beta", type=float, help="how sharp the similarity is (default: 2)")
    labels.add_argument("--distance", help="l1, l2, ae, words or a file of distances (default: words)")
    labels.add_argument("--vectors", type=Path, help="a file of word vectors for --distance words")
    labels.add_argument(
        "--alias", action="append", default=[], metavar="WORD=OTHER", help="look up OTHER for WORD; may be repeated"
    )
    labels.add_argument("--mixing", type=float, help="a of Beta(a, a) (default: 0.2; cutmix 1)")
    labels.add_argument("--gamma", type=float, help="of the focal loss (default: 3)")
    labels.add_argument("--margin", type=float, help="of margin-based smoothing (default: 10)")
    labels.add_argument("--penalty", type=float, help="of margin-based smoothing (default: 0.1)")
    data = command.add_argument_group("data")
    data.add_argument("--validation", type=int, metavar="ROWS", help="rows of the validation set")
    data.add_argument("--test", type=int, metavar="ROWS", help="rows of the test set")
    data.add_argument("--per-class", type=int, metavar="ROWS", help="at most so many training rows of each class")
    data.add_argument("--size", type=int, help="resize images to this many pixels, square")
    data.add_argument(
        "--ood",
        action="append",
        default=[],
        metavar="NAME",
        help="predict these too: uniform, gaussian or another source; may be repeated",
    )
    recipe = command.add_argument_group("recipe")
    recipe.add_argument("--recipe", help=f"paper or small (default: small up to {SMALL:,} training rows)")
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
    recipe.add_argument("--compile", action="store_true", help="torch.compile the network")
    recipe.add_argument("--no-channels-last", action="store_true", help="keep images in channel planes")
    run = command.add_argument_group("run")
    run.add_argument("--seed", type=int, default=0, help="of weights, split, order and mixing (default: 0)")
    run.add_argument("--device", help="such as cuda:1 (default: an accelerator if there is one)")
    run.add_argument("--output", type=Path, metavar="FOLDER", help="checkpoints, predictions and the record go there")
    run.add_argument(
        "--force", action="store_true", help="overwrite a finished run there; one that was cut off goes on"
    )
    run.add_argument("--checkpoint-every", type=float, default=5.0, metavar="SECONDS", help="at most (default: 5)")
    run.add_argument("--log-json", type=Path, metavar="FILE", help="a JSON line for each step and epoch")
    run.add_argument("--tracker", action="append", default=[], help="tensorboard, wandb or mlflow; may be repeated")
    run.add_argument("--json", action="store_true", help="print the record as JSON")


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    from softkin import checks, models
    from softkin.data import distribution, loading
    from softkin.training import Recipe
    from softkin.training.class_distances import known_distance
    from softkin.training.methods import parse

    label, _ = parse(arguments.method)
    loading.check(arguments.source)
    for name in arguments.ood:
        distribution.check(name)
    if arguments.model is not None:
        models.check(arguments.model)
    checks.count(arguments.seed, "--seed", least=0)
    checks.at_least_zero(arguments.checkpoint_every, "--checkpoint-every")
    for option in ("validation", "test", "per_class", "size"):
        if getattr(arguments, option) is not None:
            checks.count(getattr(arguments, option), f"--{option.replace('_', '-')}")
    for option in ("beta", "distance", "vectors"):
        if getattr(arguments, option) is not None and label != "similarity":
            raise ValueError(f"--{option} is for the method similarity, and the method is {arguments.method}.")
    if label == "similarity":
        known_distance(arguments.distance or "words")
        checks.alpha(0.1 if arguments.alpha is None else arguments.alpha)
        checks.beta(2.0 if arguments.beta is None else arguments.beta)
        _labelled(arguments, soft_labels=[[1.0, 0.0], [0.0, 1.0]])  # stands in for what only the data tell
    else:
        _labelled(arguments, alpha=arguments.alpha)
    for alias in arguments.alias:
        if not all(part.strip() for part in alias.partition("=")):
            raise ValueError(f"--alias must be WORD=OTHER, got {alias!r}.")
    Recipe.named(arguments.recipe or "small", **_recipe_changes(arguments))
    output = arguments.output
    if output is not None and output.exists() and not output.is_dir():
        raise ValueError(f"--output must be a folder, but {output} is a file.")
    if output is not None and (output / "record.json").exists() and not arguments.force:
        raise ValueError(f"--output {output} already holds a finished run; pass --force to overwrite it.")


def run(arguments: argparse.Namespace) -> None:
    """Read, train, predict, write."""
    from softkin import data, models, ranks, training

    split = data.split(
        arguments.source,
        seed=arguments.seed,
        validation=arguments.validation,
        test=arguments.test,
        per_class=arguments.per_class,
        size=arguments.size,
    )
    method, autoencoder = _method(arguments, split)
    recipe = _recipe(arguments, len(split.train))
    name = arguments.model or _network(split)
    model = models.build(
        name,
        num_classes=len(split.train.class_names),
        input_shape=split.train.input_shape,
        seed=arguments.seed,
    )
    # Before the training: a name that cannot be read should not cost hours.
    unknown = {one: data.out_of_distribution(one, split.train, seed=arguments.seed) for one in arguments.ood}
    folder = None if arguments.output is None else arguments.output / "checkpoints"
    # Only what is finished: a run that was cut off goes on, with --force in the command or without.
    finished = arguments.output is not None and (arguments.output / "record.json").exists()
    if finished and arguments.force and os.environ.get("RANK", "0") == "0":
        _clear(arguments.output)
    trained = training.fit(
        model,
        split.train,
        split.validation,
        method=method,
        recipe=recipe,
        seed=arguments.seed,
        folder=folder,
        device=arguments.device,
        log_json=arguments.log_json,
        trackers=arguments.tracker,
        checkpoint_every=arguments.checkpoint_every,
    )
    if ranks.world()[0] == 0:
        sources = dict(zip(_files(list(unknown)), unknown, strict=True))
        sets = {
            "validation": split.validation,
            "test": split.test,
            **{file: unknown[source] for file, source in sources.items()},
        }
        predicted = {
            one: training.predict(trained, rows, split_digest=split.digest, name=one) for one, rows in sets.items()
        }
        record = _record(split, trained, predicted, name, sources, autoencoder)
        written = _write(arguments.output, trained, predicted, record) if arguments.output is not None else []
        _print(record, written, as_json=arguments.json)
    _leave()


def _method(arguments: argparse.Namespace, split: "Split") -> "tuple[Method, AutoencoderFit | None]":
    """The method, and the autoencoder that the distances came from, where one did."""
    from softkin import similarity, smoothing, training
    from softkin.training.methods import parse

    if parse(arguments.method)[0] != "similarity":
        return _labelled(arguments, alpha=arguments.alpha), None
    distance = arguments.distance or "words"
    beta = 2.0 if arguments.beta is None else arguments.beta
    measured = training.measured_distances(
        split.train,
        distance,
        seed=arguments.seed,
        device=arguments.device,
        vectors=arguments.vectors,
        aliases=dict(alias.split("=", 1) for alias in arguments.alias),
    )
    s = similarity.from_distances(measured.matrix, beta)
    q = smoothing.similarity_labels(s, 0.1 if arguments.alpha is None else arguments.alpha)
    return _labelled(arguments, soft_labels=q, beta=beta, distance=distance), measured.autoencoder


def _labelled(arguments: argparse.Namespace, **labels: Any) -> "Method":
    from softkin import training

    options = {name: getattr(arguments, name) for name in ("mixing", "gamma", "margin", "penalty")}
    return training.Method(arguments.method, **labels, **options)


def _recipe_changes(arguments: argparse.Namespace) -> dict[str, Any]:
    changes = {name: getattr(arguments, name) for name in RECIPE_OPTIONS if getattr(arguments, name) is not None}
    if arguments.compile:
        changes["compile"] = True
    if arguments.no_channels_last:
        changes["channels_last"] = False
    return changes


def _recipe(arguments: argparse.Namespace, rows: int) -> "Recipe":
    from softkin.training import Recipe

    name = arguments.recipe or ("small" if rows <= SMALL else "paper")
    return Recipe.named(name, **_recipe_changes(arguments))


def _network(split: "Split") -> str:
    """A network that suits the data, where none was named."""
    if split.train.kind != "images":
        return "bag_of_words" if split.train.kind == "text" else "mlp"
    return "small" if min(split.train.values.shape[1:3]) <= 28 else "wrn"


def _clear(output: Path) -> None:
    import shutil

    shutil.rmtree(output / "checkpoints", ignore_errors=True)
    (output / "record.json").unlink(missing_ok=True)


def _files(sources: Sequence[str]) -> list[str]:
    """What to call the predictions of each out-of-distribution set: numbered where two sources have one name."""
    files: list[str] = []
    for source in sources:
        stem = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in Path(source).stem)
        file, number = f"ood-{stem}", 2
        while file in files:
            file, number = f"ood-{stem}-{number}", number + 1
        files.append(file)
    return files


def _record(
    split: "Split",
    trained: "Trained",
    predicted: "dict[str, Predictions]",
    network: str,
    sources: Mapping[str, str],
    autoencoder: "AutoencoderFit | None",
) -> dict[str, Any]:
    from softkin import __version__, metrics

    test = predicted["test"]
    results: dict[str, Any] = {}
    for name, preds in predicted.items():
        p = preds.probabilities
        if preds.labels is None:
            results[name] = {
                "rows": len(preds),
                "source": sources[name],
                "auroc": metrics.auroc(test.probabilities.amax(1), p.amax(1)),
            }
        else:
            results[name] = {
                "rows": len(preds),
                "accuracy": metrics.accuracy(p, preds.labels),
                "ece": metrics.ece_hist(p, preds.labels),
                "nll": metrics.nll(p, preds.labels),
                "brier": metrics.brier(p, preds.labels),
            }
    how = {} if autoencoder is None else {"autoencoder": _errors(autoencoder)}
    return {
        "softkin": __version__,
        "source": split.train.source,
        "split_digest": split.digest,
        "overlap": split.overlap,
        "standardisation": asdict(trained.standardisation),
        "network": network,
        "parameters": sum(weights.numel() for weights in trained.model.parameters()),
        **trained.record,
        **how,
        "seconds": trained.seconds,
        "resumed": trained.resumed,
        "results": results,
        "history": trained.history,
    }


def _errors(autoencoder: "AutoencoderFit") -> dict[str, Any]:
    names = ("latent_dim", "error", "pca_error", "beats_pca", "held_out", "epochs", "seconds")
    return {"words": str(autoencoder)} | {name: getattr(autoencoder, name) for name in names}


def _write(output: Path, trained: "Trained", predicted: "dict[str, Predictions]", record: dict[str, Any]) -> list[Path]:
    from safetensors.torch import save

    from softkin.files import write

    written = []
    for name, preds in predicted.items():
        written.append(output / f"{name}.safetensors")
        preds.save(written[-1], force=True)
    weights = {key: value.cpu().contiguous().clone() for key, value in trained.model.state_dict().items()}
    written.append(output / "weights.safetensors")
    write(written[-1], save(weights))
    written.append(output / "record.json")  # last: it says that the run is finished
    write(written[-1], (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
    return written


def _print(record: dict[str, Any], written: list[Path], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(record, ensure_ascii=False, indent=1))
        return
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
                f"{name}: {numbers['rows']:,} rows, accuracy {100 * numbers['accuracy']:.2f} %, "
                f"ECE {100 * numbers['ece']:.2f} %, NLL {numbers['nll']:.4f}, Brier {numbers['brier']:.4f}"
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

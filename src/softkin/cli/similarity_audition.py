"""``softkin similarity audition``: which source of similarity best predicts actual confusions, before any training."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin._io import files
from softkin.cli import choices, measuring
from softkin.cli.arguments import in_shell
from softkin.cli.printing import (
    add_report,
    check_report,
    json_text,
    rows_that_fit,
    say,
    shown,
    signed,
    write_report,
    wrote,
)

if TYPE_CHECKING:
    from torch import Tensor

    from softkin.audition import Audition, Confusions
    from softkin.distances.sources import ClassData

SUMMARY = "rank sources of similarity by how well they predict actual confusions"
DESCRIPTION = f"""\
Rank sources of class similarity by how well they predict the confusions in --against: by the cross-entropy of each
class's confusions at the β that fits the other classes best (nats per row, smaller is better), by the rank correlation,
and by how many of the five most confused classes are among the five most similar. Intervals are over classes, and
"renamed" is the same source's cross-entropy after its classes are renamed at random. Then suggest a source, β and α.

Sources are softkin's word vectors, the sources of --distances, and those of --tree, --outputs, --confusion, --weights,
--encoder and --matrix (--matrix may be repeated). A mixture of all sources is learned too.

{measuring.SOURCE}"""
EXAMPLE = "softkin similarity audition digits --against examples/digits-validation.npz --output best.safetensors"
MORE_EXAMPLES = ("softkin similarity audition classes.txt --against held-out.csv",)

HEADINGS = (
    *("source", "β", "nats per row", "interval of nats", "renamed", "rank correlation", "interval of ranks"),
    *("top-5", "best in %"),
)
LEFT_OUT_FIRST = (6, 4, 3, 7, 5)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the options, with the library's names and defaults."""
    measuring.add_source(command)
    choices.path(
        command.add_argument(
            "--against",
            required=True,
            metavar="FILE",
            help="confusions to predict: a baseline's held-out predictions, a .csv confusion matrix, or an .npz of "
            "human labels (`clean_label` and `noisy_label`, or `counts` of votes and optional `labels`)",
        )
    )
    listed = command.add_argument("--distances", metavar="A,B,…")
    choices.choose(listed, "distances to measure on the samples of SOURCE, of {}", choices.distances, separators=",")
    measuring.add_word_options(command)
    command.add_argument(
        "--prefer", choices=["words", "entity"], help="vectors of single words, or of whole names (default: words)"
    )
    measuring.add_options(command, several=("matrix",))
    measuring.add_sample_options(command)
    command.add_argument("--no-mixture", action="store_true", help="learn no mixture")
    command.add_argument("--folds", type=int, default=5, help="folds of the classes for choosing β (default: 5)")
    command.add_argument(
        "--resamples", type=int, default=1000, help="resamples of the classes for intervals (default: 1000)"
    )
    command.add_argument("--permutations", type=int, default=100, help="random renamings of the classes (default: 100)")
    command.add_argument("--confidence", type=float, default=0.95, help="level of the intervals (default: 0.95)")
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    command.add_argument(
        "--output",
        type=Path,
        metavar="FILE.safetensors",
        help="file for the suggested similarity, which train --distance, compare --matrix and from_file read",
    )
    add_report(command)
    command.add_argument("--force", action="store_true", help="overwrite existing files")


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    from softkin import audition, distances
    from softkin._core import checks

    measuring.check(arguments)
    listed = [distances.SOURCES.canonical(name, "--distances") for name in _distances(arguments)]
    sampled = any("max_per_class" in distances.SOURCES[name].options for name in listed)
    if arguments.max_per_class is not None and not sampled:
        raise ValueError("--max-per-class must be left out: it is for --distances l1 or l2.")
    checks.count(arguments.folds, "--folds", least=2, most=10**6)
    checks.count(arguments.resamples, "--resamples", least=100, most=10**6)
    checks.count(arguments.permutations, "--permutations", least=audition.FEWEST_RENAMINGS, most=10**6)
    checks.level(arguments.confidence)
    if arguments.output is not None and arguments.output.suffix != ".safetensors":
        raise ValueError(f"--output must end in .safetensors, got {arguments.output}.")
    check_report(arguments)
    files.guard(arguments.output, force=arguments.force)


def _distances(arguments: argparse.Namespace) -> list[str]:
    return [name.strip() for name in (arguments.distances or "").split(",") if name.strip()]


def run(arguments: argparse.Namespace) -> None:
    """Measure every source, rank them, print and write the result."""
    from softkin import audition

    classes, origin = measuring.classes_of(arguments.source, size=arguments.size)
    confusions = _confusions(arguments.against, classes.class_names)
    matrices, words, left_out = _candidates(classes, origin, arguments)
    result = audition.audition(
        matrices,
        confusions,
        mixture=not arguments.no_mixture,
        folds=arguments.folds,
        resamples=arguments.resamples,
        permutations=arguments.permutations,
        confidence=arguments.confidence,
        seed=arguments.seed,
    )
    if arguments.json:
        print(json_text({**result.to_dict(), "sources": words, "left_out": left_out}))
    else:
        _print(result, words, left_out)
    write_report(arguments, "of_audition", {**result.to_dict(), "sources": words, "left_out": left_out})
    if arguments.output is not None:
        result.save(arguments.output, class_names=classes.class_names, sources=words)
        if not arguments.json:
            wrote(arguments.output, f"the distances of {result.chosen}")


def _candidates(
    classes: "ClassData", origin: str | None, arguments: argparse.Namespace
) -> "tuple[dict[str, Tensor], dict[str, str], dict[str, str]]":
    """Distances by name, how each was measured, and why word vectors that do not know the names were left out."""
    import warnings

    from softkin import distances, word_vectors

    matrices: dict[str, Tensor] = {}
    words: dict[str, str] = {}
    left_out: dict[str, str] = {}

    def add(name: str, source: str, chosen: dict[str, Any], vectors: Any = None) -> None:
        measured = measuring.measure(source, classes, arguments, chosen, vectors=vectors, only_its_own=True)
        label = name
        while label in matrices:
            label += "'"
        matrices[label] = measured.matrix
        words[label] = (
            f"{origin}: {measured.how}" if origin and distances.SOURCES[source].uses_samples else measured.how
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the audition itself shows what is wrong with names
        for vectors in dict.fromkeys([*word_vectors.SHIPPED, *([arguments.vectors] if arguments.vectors else [])]):
            try:
                add(Path(vectors).name, "words", {}, vectors)
            except ValueError as error:  # a word without a vector
                if vectors == arguments.vectors:
                    raise
                left_out[vectors] = str(error)
    typed = measuring.chosen(arguments)
    for name in _distances(arguments):
        canonical = distances.SOURCES.canonical(name, "--distances")
        source = distances.SOURCES[canonical]
        if source.uses_samples or not set(source.required) <= set(typed):  # refused where an option is lacking
            add(canonical, canonical, {})
    for path in typed.pop("matrix", []):
        add(Path(path).stem, "file", {"matrix": path})
    for name, source in distances.SOURCES.items():
        mine = {option: value for option, value in typed.items() if option in source.options}
        if source.required and set(source.required) <= set(mine):
            add(name, name, mine)
    if not matrices:
        raise ValueError(
            "there is no source to rank: the word vectors do not know all names "
            f"({next(iter(left_out.values()), '')}); give --tree, --outputs, --encoder, --matrix or --distances."
        )
    return matrices, words, left_out


def _confusions(path: str, class_names: list[str]) -> "Confusions":
    """The confusions of a file of any supported kind."""
    from softkin import SoftkinError, audition, predictions
    from softkin._io.numpy_files import Archive
    from softkin.distances.saving import read_confusion

    name = Path(path).name
    if Path(path).suffix.lower() == ".csv":
        return audition.confusions_of_counts(read_confusion(path, class_names), source=f"the confusion matrix {name}")
    if Path(path).suffix.lower() == ".npz":
        with files.open_file(path) as stream:
            archive = Archive(stream, path)
            if {"clean_label", "noisy_label"} <= set(archive.keys):
                true, seen = (archive.array(key).all() for key in ("clean_label", "noisy_label"))
                source = f"the human labels of {name}"
                return audition.confusions_of_labels(true, seen, num_classes=len(class_names), source=source)
            if "counts" in archive.keys:
                votes = archive.array("counts").all()
                if votes.ndim != 2 or votes.shape[1] != len(class_names):
                    raise SoftkinError(
                        f"{path} must hold votes for the {len(class_names)} classes of SOURCE, got shape {votes.shape}."
                    )
                labels = archive.array("labels").all() if "labels" in archive.keys else None
                source = f"the human votes of {name}" + (" (true is what most chose)" if labels is None else "")
                return audition.confusions_of_votes(votes, labels=labels, source=source)
    outputs = predictions.load(path)
    if outputs.num_classes != len(class_names):
        raise SoftkinError(f"{path} must have the {len(class_names)} classes of SOURCE, it has {outputs.num_classes}.")
    outputs = outputs.in_order(class_names, "SOURCE")
    return audition.confusions_of_outputs(outputs.probabilities, outputs.known_labels, source=f"the outputs in {name}")


def _print(result: "Audition", words: dict[str, str], left_out: dict[str, str]) -> None:
    say(
        f"Against {result.confusions.source}: {result.num_rows} of {result.num_classes} classes; "
        f"uniform labels have {result.uniform:.3f} nats per row."
    )
    rows = []
    for candidate in result.candidates:
        energy, ranks, top = candidate.cross_entropy, candidate.rank_correlation, candidate.overlap
        rows.append(
            (
                shown(candidate.name),
                f"{candidate.beta:.2f}",
                f"{energy.value:.3f}",
                f"{energy.low:.3f} to {energy.high:.3f}",
                f"{energy.control:.3f}",
                f"{ranks.value:.3f}",
                f"{ranks.low:.3f} to {ranks.high:.3f}",
                f"{top.value:.2f}",
                "–" if len(candidate.weights) > 1 else f"{100 * candidate.wins:.0f}",
            )
        )
    lines = [[name, *map(signed, cells)] for name, *cells in rows]
    text, dropped = rows_that_fit(HEADINGS, lines, LEFT_OUT_FIRST)
    print(text)
    if dropped:
        say(f"No room for these columns: {', '.join(dropped)}; --json has all.")
    for candidate in result.candidates:
        if len(candidate.weights) > 1:
            say(
                f"{candidate.name}: "
                + ", ".join(f"{weight:.2f} {shown(name)}" for name, weight in candidate.weights.items())
            )
    for name, how in words.items():
        say(f"{shown(name)}: {shown(how)}")
    for name, why in left_out.items():
        say(f"{shown(name)} was left out: {shown(why)}")
    say("\n" + signed(in_shell("\n".join(result.words), {"--alpha"})))

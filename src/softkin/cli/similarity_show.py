"""``softkin similarity show``: inspect a similarity, class by class and as a whole, and correct it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin._io import files
from softkin.cli import choices, measuring, running
from softkin.cli.printing import json_text, say, shown, wrote

if TYPE_CHECKING:
    from torch import Tensor

    from softkin.audition.inspection import Inspection

LISTED = 10  # rows that may be wrong, most doubtful first
SUMMARY = "inspect a similarity (labels, groups, rows that may be wrong) and correct it"
DESCRIPTION = f"""\
Show the smooth label of a class, its nearest classes, its entropy, and the ε of uniform smoothing with the same
mass or entropy. Also show which rows may be wrong: a neighbour that dominates, a class unlike all others, a name whose
nearest classes are far away in other sources. Without CLASS only the rows that may be wrong are printed. --report,
--picture and --json show the whole similarity; --fix and --fixes correct it, and --output saves the result with its
corrections.

{measuring.SOURCE}"""
EXAMPLE = "softkin similarity show examples/cifar100.txt fox tank --vectors glove --report similarity.html"
MORE_EXAMPLES = ("softkin similarity show distances.csv",)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the options, with the library's names and defaults."""
    measuring.add_source(command)
    command.add_argument(
        "classes", nargs="*", metavar="CLASS", help="classes to show (default: rows that may be wrong)"
    )
    command.add_argument(
        "--alpha", type=float, help="probability mass on the other classes (default: the file's, or 0.1)"
    )
    command.add_argument("--beta", type=float, help="sharpness of the similarity (default: the file's, or 2)")
    measuring.add_measuring(command)
    command.add_argument("--asymmetric", action="store_true", help="allow distances that differ by direction")
    choices.path(
        command.add_argument(
            "--compare-with",
            action="append",
            default=[],
            metavar="FILE",
            help="source to check the meaning of names against: distances, a similarity, a taxonomy or wordnet; may "
            "be repeated (default: softkin's other word vectors)",
        )
    )
    command.add_argument(
        "--fix",
        action="append",
        default=[],
        metavar="CLASS=LIKE,…",
        help='make a class like others, such as "fox=wolf,dog"; may be repeated',
    )
    command.add_argument(
        "--fixes",
        type=Path,
        metavar="FILE.csv",
        help="file of corrections, one per line: a class and the classes that it is like",
    )
    command.add_argument("--top", type=int, default=10, help="number of nearest classes to show (default: 10)")
    command.add_argument("--json", action="store_true", help="print everything as JSON")
    command.add_argument(
        "--report", type=Path, metavar="FILE.html", help="file for a page; its data is written beside it"
    )
    command.add_argument(
        "--picture", type=Path, metavar="FILE.png", help="file for a picture of the heat map and the dendrogram"
    )
    command.add_argument(
        "--output", type=Path, metavar="FILE.safetensors", help="file for the corrected similarity and its provenance"
    )
    command.add_argument("--force", action="store_true", help="overwrite these files")


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    from softkin._core import checks
    from softkin.audition import inspection

    measuring.check(arguments)
    if arguments.alpha is not None:
        checks.alpha(arguments.alpha)
    if arguments.beta is not None:
        checks.beta(arguments.beta)
    checks.count(arguments.top, "--top", most=10**6)
    for text in arguments.fix:
        inspection.parse_fix(text)
    for option, suffix in (("report", ".html"), ("picture", ".png"), ("output", ".safetensors")):
        path = getattr(arguments, option)
        if path is not None and path.suffix.lower() != suffix:
            raise ValueError(f"--{option} must end in {suffix}, got {path}.")
    beside = None if arguments.report is None else arguments.report.with_suffix(".json")
    files.guard(arguments.report, beside, arguments.picture, arguments.output, force=arguments.force)


def run(arguments: argparse.Namespace) -> None:
    """Read, correct, print, write."""
    from softkin import SoftkinError, similarity
    from softkin._core.names import did_you_mean
    from softkin.audition import inspection
    from softkin.distances import name_doubts

    read = measuring.read(arguments, kind="similarity")
    names, measured = read.matrix.class_names, read.measured
    unknown = [name for name in arguments.classes if name not in names]
    if unknown:
        raise ValueError(f"{arguments.source} has no class {unknown[0]!r}{did_you_mean(unknown[0], names)}")
    if measured.similarity is not None and arguments.beta is not None:
        raise ValueError(
            f"--beta must be left out: {arguments.source} holds a similarity, which already includes its β."
        )
    fixes = dict(inspection.parse_fix(text) for text in arguments.fix)
    if arguments.fixes is not None:
        fixes = {**inspection.read_fixes(arguments.fixes), **fixes}
    beta = 2.0 if arguments.beta is None else arguments.beta
    try:
        d, s = inspection.of_measured(measured, names, beta, fixes, asymmetric=arguments.asymmetric)
    except ValueError as error:
        raise SoftkinError(f"{arguments.source}: {error}") from error
    alpha = arguments.alpha
    if alpha is None:
        suggested = measured.about.get("alpha")
        alpha = suggested if isinstance(suggested, int | float) else 0.1
    about: dict[str, Any] = dict(measured.about)
    kept = {**about.get("fixes", {}), **{name: list(like) for name, like in fixes.items()}}
    if kept:
        about["fixes"] = kept
    if measured.similarity is None:
        about["beta"] = beta
    source = read.matrix.source + (f"; corrected: {inspection.in_words(fixes)}" if fixes else "")
    others = _others(read, arguments)
    kinds = None
    if others and not arguments.compare_with:  # a source that was named is trusted alone
        kinds = name_doubts.kinds_of_things(names, running.aliases(arguments))
    seen = inspection.inspect(s, names, alpha=alpha, source=source, others=others, kinds=kinds, about=about)
    _show(seen, arguments, beta if measured.similarity is None else None)
    written: list[Path] = []
    if arguments.report is not None:
        from softkin import report

        data = report.build_inspection(seen, d, beta=beta if measured.similarity is None else None)
        written += report.write(arguments.report, data, force=arguments.force)
    if arguments.picture is not None:
        from softkin.report import inspector

        files.write(arguments.picture, inspector.picture(seen))
        written.append(arguments.picture)
    if arguments.output is not None:
        similarity.save(arguments.output, s, class_names=names, source=source, about=about)
        written.append(arguments.output)
    if not arguments.json:
        for path in written:
            wrote(path)


def _others(read: measuring.SourceRead, arguments: argparse.Namespace) -> "dict[str, Tensor]":
    """Distances from other sources, by name: those of --compare-with, or softkin's other word vectors.

    What a network learned says nothing about the meaning of names.
    """
    from softkin import distances
    from softkin.audition import inspection

    aliases = running.aliases(arguments)
    if not arguments.compare_with and "learned" in read.measured.about:
        return {}
    if not arguments.compare_with:
        return inspection.other_sources(read.synonyms, vectors=read.vectors, aliases=aliases)
    classes = distances.ClassNames(read.matrix.class_names, read.synonyms)
    others = {}
    for path in arguments.compare_with:
        tree = path == "wordnet"
        measured = (
            distances.measure("taxonomy", classes, tree=path, aliases=aliases)
            if tree
            else distances.measure("file", classes, matrix=path)
        )
        others[path if tree else Path(path).name] = measured.matrix
    return others


def _show(seen: "Inspection", arguments: argparse.Namespace, beta: float | None) -> None:
    if arguments.json:
        print(json_text(seen.to_dict(top=arguments.top)))
        return
    sharp = "" if beta is None else f", beta = {beta:g}"
    say(f"{shown(seen.source)}; alpha = {seen.alpha:g}{sharp}, {len(seen.class_names)} classes")
    wanted = arguments.classes
    for name in wanted:
        row = seen.row(seen.class_names.index(name), top=arguments.top)
        say(
            f"\n{shown(name)}: keeps {row['label']:.3f}; entropy {row['entropy']:.2f} nats, over "
            f"{row['effective_classes']:.1f} classes; like uniform ε = {row['uniform_epsilon']:.3f} by mass, "
            f"{row['uniform_epsilon_entropy']:.3f} by entropy"
        )
        most = max((other["label"] for other in row["nearest"]), default=0) or 1
        width = max((len(shown(other["name"])) for other in row["nearest"]), default=0)
        for other in row["nearest"]:
            bar = "█" * round(30 * other["label"] / most)  # none for what is hardly more than 0
            print(f"  {shown(other['name']):<{width}}  {other['label']:.4f}  {bar}")
    oddities = [oddity for oddity in seen.oddities if not wanted or seen.class_names[oddity.k] in wanted]
    if oddities:
        count = "1 row" if len(oddities) == 1 else f"{len(oddities)} rows"
        first = f", of which these are the {LISTED} most doubtful (--report and --json have all)"
        say(f"\n{count} may be worth a look; most such rows are right{first if len(oddities) > LISTED else ''}:")
        for oddity in oddities[:LISTED]:
            say(f"  {shown(oddity.words)}")
        meant = "" if "learned" in seen.about else ", or say what a name means with --alias"
        say(f'Correct a row with --fix "CLASS=LIKE,LIKE"{meant}.')
    elif not wanted:
        say("No row looks wrong.")

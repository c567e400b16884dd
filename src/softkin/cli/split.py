"""``softkin split``: one file of predictions → rows to fit on and others to measure on."""

import argparse
import shlex
from pathlib import Path

from softkin._io import files
from softkin.cli import choices
from softkin.cli.arguments import MOST_SEED, share, within
from softkin.cli.inputs import add_common_options, reading_options
from softkin.cli.printing import json_text, say, wrote

SUMMARY = "divide a file of predictions into rows to fit on and rows to measure on"
DESCRIPTION = """\
Divide one file of predictions: a calibrator or a rule must be measured on rows that it was not fitted on. The parts
keep all columns of a table and are read as the file is. Rows without a label go to a part of their own, `unlabelled`.
Every class gets the same share of each part. If rows of one customer, patient or video resemble each other, keep them
together with --together; if the future differs from the past, use --by with the column of times."""
EXAMPLE = "softkin split examples/tickets.csv --output parts/"
MORE_EXAMPLES = (
    "softkin split examples/churn.csv --into calibrate=40,decide=30,test=30 --output thirds/",
    "softkin split log.csv --by date --output parts/",
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Options, with the library's names and defaults."""
    choices.path(command.add_argument("file", metavar="FILE", help="file of predictions with labels, as for evaluate"))
    command.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="folder for the parts")
    command.add_argument(
        "--into",
        default="fit,test",
        metavar="A,B,…",
        help="names of the parts, perhaps with their shares: fit=60,test=40 (default: fit,test, half each)",
    )
    command.add_argument(
        "--by", metavar="NAME", help="column of times or numbers: the earliest rows go to the first part"
    )
    command.add_argument("--together", metavar="NAME", help="column of groups whose rows stay in one part")
    command.add_argument("--seed", type=int, default=0, help="seed of the order in which rows are dealt (default: 0)")
    add_common_options(command)


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    within(arguments.seed, "--seed", 0, MOST_SEED)
    arguments.shares = _shares(arguments.into)
    if arguments.by is not None and arguments.together is not None:
        raise ValueError("--by and --together exclude each other: an order may divide the rows of a group.")
    if arguments.file == "-":
        raise ValueError("FILE must be a file: standard input can be read only once.")
    if arguments.output.exists() and not arguments.output.is_dir():
        raise ValueError(f"--output must be a folder, but {arguments.output} is a file.")


def _shares(text: str) -> dict[str, float]:
    """The share of each part: "fit=60,test=40", in percent or in any other measure; without numbers all alike."""
    shares: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, size = (piece.strip() for piece in part.partition("="))
        if not name.replace("-", "").replace("_", "").isalnum() or name in shares:
            raise ValueError(f"--into must be different names such as fit,test, got {name!r}.")
        shares[name] = share(size) if size else 1.0
        if not shares[name] > 0:
            raise ValueError(f"--into must give each part a share above 0, got {part!r}.")
    if len(shares) < 2:
        raise ValueError(f"--into must name at least two parts, such as fit,test, got {text!r}.")
    if len({"=" in part for part in text.split(",")}) > 1:
        raise ValueError(f"--into must give all parts a share, or none, got {text!r}.")
    whole = sum(shares.values())
    return {name: size / whole for name, size in shares.items()}


def run(arguments: argparse.Namespace) -> None:
    """Read, divide, write, and say what to do next."""
    from softkin.evaluation import splitting

    parts = splitting.split(
        arguments.file,
        arguments.shares,
        by=arguments.by,
        together=arguments.together,
        seed=arguments.seed,
        **reading_options(arguments),
    )
    folder: Path = arguments.output
    files.guard(*(part.path_in(folder) for part in parts), force=arguments.force)
    for part in parts:
        part.save(folder)
    if arguments.json:
        print(json_text({part.name: {"file": str(part.path_in(folder)), "rows": part.num_samples} for part in parts}))
        return
    for part in parts:
        lacks = " without a label" if part.name == splitting.UNLABELLED else ""
        wrote(part.path_in(folder), f"{part.num_samples:,} rows{lacks}")
    found = splitting.columns(arguments.file, **reading_options(arguments))
    if found.times is not None and arguments.by is None and arguments.together is None:
        say(
            "The rows were dealt at random. To test on the latest, as new rows will be: "
            f"--by {shlex.quote(found.times)}"
        )
    first, *between, last = (part.path_in(folder) for part in parts if part.name != splitting.UNLABELLED)
    repaired = f"repaired{last.suffix}"
    say(
        "To repair and measure:",
        f"  softkin calibrate fit {shlex.quote(str(first))} --output cal/",
        f"  softkin calibrate apply cal/ {shlex.quote(str(last))} --output {repaired}",
        f"  softkin evaluate {shlex.quote(str(last))} {repaired}",
    )
    if not between:
        say("For a rule, too, which needs rows of its own: --into fit,rule,test")
        return
    own = f"for-rule{between[0].suffix}"
    say(
        "Then a rule, on rows of its own:",
        f"  softkin calibrate apply cal/ {shlex.quote(str(between[0]))} --output {own}",
        f"  softkin decide fit {own} --rule abstain --error 0.05 --output rule/",
        f"  softkin decide apply rule/ {repaired} --output answers.csv",
    )
    if found.outcome is not None:
        say(
            "It answers with both classes. For those above a threshold of the score alone: "
            f"--outcome {shlex.quote(found.outcome)}"
        )

"""``softkin check``: a file of predictions against limits; the exit code says whether all are kept."""

import argparse
from pathlib import Path

from softkin._io import files
from softkin.cli import choices
from softkin.cli.arguments import MOST_SEED, check_shares, one_line, percentage, within
from softkin.cli.inputs import add_common_options, reading_options
from softkin.cli.printing import add_report, check_report, json_text, say, write_report, wrote

SUMMARY = "check that a model keeps its limits: a gate for continuous integration"
DESCRIPTION = """\
Measure a file of predictions and compare the numbers with limits. The exit code is 0 if no limit is broken and 1 if one
is. A limit is broken only if the whole confidence interval lies beyond it; with --strict, it is kept only if the whole
interval lies within it.

A limit is METRIC=NUMBER: ece_hist=5% and ece_hist=0.05 are the same. Metrics are those of `softkin evaluate` by their
names in JSON, such as accuracy, nll, brier, ece_hist (or ece), signed_gap (or gap) and aurc. The gap between confidence
and accuracy is signed: --max gap=3% limits it in both directions."""
EXAMPLE = "softkin check examples/digits-test.npz --max ece=10% --max gap=8% --min accuracy=80%"
MORE_EXAMPLES = (
    "softkin check examples/churn.csv --max ece=10%",
    "softkin check pairs.csv --group model --max gap=5%",
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Options, with the library's names and defaults."""
    choices.path(command.add_argument("file", metavar="FILE", help="file of predictions, as for evaluate"))
    command.add_argument(
        "--max",
        action="append",
        default=[],
        metavar="METRIC=NUMBER",
        help="the most that a metric may be; may be repeated",
    )
    command.add_argument(
        "--min", action="append", default=[], metavar="METRIC=NUMBER", help="the least that it may be; may be repeated"
    )
    command.add_argument(
        "--group",
        metavar="NAME",
        help="column of groups of rows: every limit must also hold in each, with intervals that hold together",
    )
    command.add_argument("--multi-label", action="store_true", help="labels are (N, L) zeros and ones, as for evaluate")
    command.add_argument(
        "--ignore-index", type=int, metavar="N", help="label of pixels to leave out, of an .npz with (N, K, …) scores"
    )
    command.add_argument("--strict", action="store_true", help="pass only if the whole interval lies within the limit")
    command.add_argument(
        "--confidence", type=percentage, default=0.95, help="level of the intervals: 0.95 or 95%% (default: 95%%)"
    )
    command.add_argument("--resamples", type=int, default=1000, help="resamples for the intervals (default: 1000)")
    command.add_argument("--n-bins", type=int, default=15, help="number of bins of the histograms (default: 15)")
    command.add_argument("--seed", type=int, default=0, help="seed of the resampling (default: 0)")
    add_report(command)
    command.add_argument("--junit", type=Path, metavar="FILE.xml", help="write a test case for each limit")
    command.add_argument("--output", type=Path, metavar="FILE.json", help="also write the outcome to this file")
    add_common_options(command)


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    for option in ("max", "min"):
        setattr(arguments, option, _limits(getattr(arguments, option), f"--{option}"))
    if not arguments.max and not arguments.min:
        raise ValueError("at least one limit is needed, such as --max ece_hist=5% or --min accuracy=90%.")
    check_shares(arguments, "confidence")
    within(arguments.resamples, "--resamples", 100, 1_000_000)
    within(arguments.n_bins, "--n-bins", 1, 100_000)
    within(arguments.seed, "--seed", 0, MOST_SEED)
    if arguments.junit is not None and arguments.output is not None and arguments.junit == arguments.output:
        raise ValueError("--junit and --output must be two files.")
    if arguments.multi_label and arguments.group is not None:
        raise ValueError("--group must be left out with --multi-label.")
    check_report(arguments)
    files.guard(arguments.output, arguments.junit, force=arguments.force)


def _limits(given: list[str], option: str) -> dict[str, str]:
    limits: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ValueError(f"{option} must be METRIC=NUMBER, such as ece_hist=5%, got {text!r}.")
        if name.strip() in limits:
            raise ValueError(f"{option} names {name.strip()} twice; keep one of the two limits.")
        limits[name.strip()] = value.strip()
    return limits


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, write; 1 if a limit is broken."""
    from softkin.evaluation.limits import check as checked

    reading = reading_options(arguments)
    labels = reading.pop("labels")
    names = ("max", "min", "strict", "confidence", "resamples", "n_bins", "seed", "multi_label", "ignore_index")
    settings = {name: getattr(arguments, name) for name in names}
    result = checked(arguments.file, labels, **settings, **reading)
    text = json_text(result.to_dict())
    if arguments.json:
        print(text)
    else:
        say(*(one_line(line) for line in str(result).splitlines()))
    written = {arguments.output: text, arguments.junit: result.to_junit()}
    for path, content in written.items():
        if path is not None:
            files.write(path, content.encode())
            if not arguments.json:
                wrote(path)
    write_report(arguments, "of_limits", result.to_dict())
    return 0 if result.passed else 1

"""``softkin monitor``: a log of claims and outcomes → windows over time, and a sequential test with an alarm."""

import argparse
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin._io import files
from softkin.cli import choices
from softkin.cli.arguments import check_shares, percentage, share
from softkin.cli.inputs import add_common_options, reading_options
from softkin.cli.printing import (
    add_report,
    check_report,
    json_text,
    print_table,
    say,
    shown,
    signed,
    write_report,
    wrote,
)

if TYPE_CHECKING:
    from softkin.evaluation.monitoring import Log, Monitor, Window

SUMMARY = "watch a log of predictions: does confidence still equal accuracy?"
DESCRIPTION = """\
Read a log of predictions and outcomes, summarise it by day, week or number of rows, and test whether confidence still
matches accuracy. You may run the test as often as you like: as long as the confidences are right, the probability that
it ever raises an alarm is at most --false-alarm. The exit code is 3 if there is an alarm and 0 otherwise.

LOG is a table with a column of confidences (`confidence`, `score` …), a column of outcomes (`correct`, `outcome` …:
0 or 1) and, if you have them, times (`date`, `time` …: 2026-03-01). It may also be a file of predictions with labels,
as for `evaluate`; the highest score of each row is then its confidence. Rows are taken in order of time, or in the
order of the file if there are no times.

--state FILE remembers the test between runs: only rows appended to LOG since the last run are counted, and each run
adds a line to FILE. Run the command from a scheduler and have it notify you on exit code 3."""
EXAMPLE = "softkin monitor examples/digits-test.npz --tolerance 10% --every 200"
MORE_EXAMPLES = ("softkin monitor examples/churn.csv --tolerance 10% --report watch.html",)
ALARM = 3


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Options, with the library's names and defaults."""
    choices.path(
        command.add_argument(
            "file", metavar="LOG", help="table of confidences and outcomes, or predictions with labels"
        )
    )
    command.add_argument("--time", metavar="NAME", help="column of the times")
    command.add_argument("--state", type=Path, metavar="FILE", help="file that remembers the test between runs")
    command.add_argument(
        "--false-alarm", default="5%", help="highest probability of ever raising a false alarm (default: 5%%)"
    )
    command.add_argument(
        "--tolerance", default="0%", help="difference between confidence and accuracy to accept (default: 0%%)"
    )
    command.add_argument(
        "--every", help="size of a window: day, week, month, year, or a number of rows (default: at most 24 windows)"
    )
    command.add_argument(
        "--confidence",
        type=percentage,
        default=0.95,
        help="level at which the intervals of all windows hold at once (default: 0.95)",
    )
    command.add_argument("--output", type=Path, metavar="FILE.json", help="also write the result to this file")
    add_report(command)
    add_common_options(command)


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    for option in ("false_alarm", "tolerance"):
        setattr(arguments, option, _share(getattr(arguments, option), f"--{option.replace('_', '-')}"))
    if not arguments.false_alarm:
        raise ValueError("--false-alarm must be above 0, such as 5%.")
    check_shares(arguments, "confidence")
    if arguments.every is not None:
        arguments.every = _every(arguments.every)
    files.guard(arguments.output, force=arguments.force)
    check_report(arguments)


def _share(text: str, option: str) -> float:
    value = share(text)
    if not 0 <= value < 1:
        raise ValueError(f"{option} must be a share such as 5% or 0.05, got {text}.")
    return value


def _every(text: str) -> str | int:
    if text.isdecimal() and int(text):
        return int(text)
    if text not in ("day", "week", "month", "year"):
        raise ValueError(f"--every must be day, week, month, year or a number of rows, got {text}.")
    return text


def run(arguments: argparse.Namespace) -> int:
    """Read, test, print, write; ``ALARM`` if there is one."""
    from softkin.evaluation import monitoring

    reading = reading_options(arguments) | {"time": arguments.time}
    log = _in_order(monitoring.read_log(arguments.file, **reading))
    monitor = _continued(log, arguments)
    new = slice(monitor.rows, len(log))
    times = None if log.times is None else log.times[new]
    counted = monitor.rows
    monitor.update(log.confidence[new], log.correct[new], times)
    parts = monitoring.windows(
        log.confidence, log.correct, log.times, every=arguments.every, confidence_level=arguments.confidence
    )
    result = {
        "name": Path(arguments.file).name,
        "rows": monitor.rows,
        "new_rows": monitor.rows - counted,
        "evidence": monitor.evidence,
        "needed": 1 / monitor.false_alarm,
        "false_alarm": monitor.false_alarm,
        "tolerance": monitor.tolerance,
        "alarm": None if monitor.alarm is None else vars(monitor.alarm),
        "windows": [part.to_dict() for part in parts],
        "differing": monitoring.differing(parts, monitor.tolerance),
        "unseen": monitoring.unseen(monitor.alarm, parts, monitor.tolerance),
    }
    text = json_text(result)
    if arguments.json:
        print(text)
    else:
        _print(monitor, parts, counted, arguments)
    if arguments.state is not None and (monitor.rows > counted or not os.path.exists(arguments.state)):
        monitor.save(arguments.state)
    if arguments.output is not None:
        files.write(arguments.output, text.encode())
        if not arguments.json:
            wrote(arguments.output)
    if arguments.report is not None:
        since = slice(0 if monitor.alarm is None else monitor.alarm.row, None)
        seen = {
            "course": monitoring.course(log, monitor),
            "since": [len(log.correct[since]), log.confidence[since].sum(), log.correct[since].sum()],
        }
        write_report(arguments, "of_monitor", result | seen)
    return ALARM if monitor.alarm else 0


def _in_order(log: "Log") -> "Log":
    """The rows in the order of their times."""
    from softkin.evaluation.monitoring import Log

    if log.times is None or all(a <= b for a, b in zip(log.times, log.times[1:], strict=False)):
        return log
    warnings.warn("rows are not in the order of their times; they count in that order.", files.Assumption, stacklevel=2)
    order = sorted(range(len(log)), key=log.times.__getitem__)
    return Log(log.confidence[order], log.correct[order], [log.times[row] for row in order])


def _continued(log: "Log", arguments: argparse.Namespace) -> "Monitor":
    """The monitor of --state, if there is one, or a new one."""
    from softkin import SoftkinError
    from softkin.evaluation.monitoring import Monitor, fingerprint

    if arguments.state is None or not os.path.exists(arguments.state):
        return Monitor(arguments.false_alarm, arguments.tolerance)
    monitor = Monitor.load(arguments.state)
    if (monitor.false_alarm, monitor.tolerance) != (arguments.false_alarm, arguments.tolerance):
        raise SoftkinError(
            f"{arguments.state} was begun with --false-alarm {monitor.false_alarm:g} and --tolerance "
            f"{monitor.tolerance:g}; a test cannot change them on the way: use these, or another --state."
        )
    seen = slice(0, monitor.rows)
    same = fingerprint(log.confidence[seen], log.correct[seen], 0) == monitor.fingerprint
    if len(log) < monitor.rows or not same:
        raise SoftkinError(
            f"{arguments.state} has counted {monitor.rows:,} rows that {arguments.file} does not begin with; a log "
            "may only grow at its end. Use another --state for another log."
        )
    return monitor


def _print(monitor: "Monitor", parts: "list[Window]", counted: int, arguments: argparse.Namespace) -> None:
    from softkin.evaluation.monitoring import differing, no_sign, unseen

    if monitor.alarm is not None:
        say(str(monitor.alarm))
    else:
        say(f"No alarm: over the whole log there is {no_sign(monitor.tolerance)}.")
    if why := unseen(monitor.alarm, parts, monitor.tolerance):
        say(why)
    if monitor.alarm is None and (differ := differing(parts, monitor.tolerance)):
        say(differ)
    continued = f", {monitor.rows - counted:,} of them new" if counted else ""
    say(
        f"{shown(Path(arguments.file).name)}: {monitor.rows:,} rows{continued}; evidence {monitor.evidence:.3g}, the "
        f"alarm is at {1 / monitor.false_alarm:g}"
    )
    level = f"{100 * arguments.confidence:g} %"
    rows = [
        [
            part.name,
            f"{part.rows:,}",
            _percent(part.claimed),
            _percent(part.right),
            signed(f"{100 * part.gap:+.1f}"),
            _ends(part),
        ]
        for part in parts
    ]
    print_table(["window", "rows", "claimed", "right", "gap", f"{level} interval"], rows, [1])


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _ends(part: Any) -> str:
    return signed(f"{100 * part.gap.low:+.1f} to {100 * part.gap.high:+.1f}")

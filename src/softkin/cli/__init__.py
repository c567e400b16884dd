"""The command line: one file for each command; torch is imported only when a command runs."""

import argparse
import contextlib
import io
import os
import shutil
import signal
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator, Sequence, Set
from types import FrameType
from typing import Any

from softkin import SoftkinError, __version__
from softkin._io import files
from softkin._io.files import Assumption
from softkin.cli import (
    calibrate,
    check,
    compare,
    completion,
    data,
    decide,
    evaluate,
    monitor,
    paper,
    report,
    running,
    similarity,
    split,
    status,
    train,
)
from softkin.cli.arguments import CommandParser, examples, one_line
from softkin.cli.printing import say

GROUPS = {
    "start here, with a file of predictions": (evaluate, split, calibrate, decide),
    "train, or prepare it": (compare, train, similarity, data),
    "keep watch": (check, monitor),
    "studies and pages": (paper, status, report),
    "shell": (completion,),
}
COMMANDS = {module.__name__.rpartition(".")[2]: module for modules in GROUPS.values() for module in modules}


def parser() -> CommandParser:
    """The whole command line."""
    top = CommandParser(
        prog="softkin",
        description="Class-similarity label smoothing and confidence calibration for PyTorch classifiers.",
        epilog=_grouped(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"softkin {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", help=argparse.SUPPRESS)
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.DESCRIPTION,
            epilog=examples(module.EXAMPLE, *getattr(module, "MORE_EXAMPLES", ())),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
    return top


def _grouped() -> str:
    """The commands in groups, a line or two for each."""
    lines = []
    width = max(40, shutil.get_terminal_size().columns - 2)
    for title, modules in GROUPS.items():
        own = [
            textwrap.fill(f"  {name:11}{module.SUMMARY}", width, subsequent_indent=" " * 13)
            for name, module in COMMANDS.items()
            if module in modules
        ]
        lines += [f"{title}:", *own, ""]
    lines.append("softkin COMMAND --help has the options and examples of each.")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 for success, 2 for wrong usage, 1 for any other failure.

    An exception becomes one line on standard error, or is raised if SOFTKIN_TRACEBACK is set.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started us, as in `softkin … >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, as it stays open
        elif isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # α and − on a terminal that lacks them
    try:
        with _interrupts() as interrupts:
            top = parser()
            typed = list(sys.argv[1:] if argv is None else argv)
            arguments = top.parse_args([*typed[1:], "--help"] if typed[:1] == ["help"] else typed)
            if arguments.command is None:
                top.print_help()
                return 0
            return _run(arguments, interrupts, top.chosen(arguments).options)
    except BrokenPipeError:  # as in `softkin --help | head`
        _silence()
        return 1
    except KeyboardInterrupt:  # while arguments are parsed or help is printed
        print("softkin: interrupted", file=sys.stderr)
        return 130


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """A list that gets an entry for each Ctrl-C: inside an import, a library may swallow the exception."""
    seen: list[int] = []
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield seen  # somebody else handles it
        return

    def remember(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, remember)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, usual)


def _run(arguments: argparse.Namespace, interrupts: Sequence[int], options: Set[str]) -> int:
    command = COMMANDS[arguments.command]
    code = 2
    files.unguard()

    said: set[str] = set()

    def show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        kind = "note" if issubclass(category, Assumption) else "warning"
        line = f"softkin: {kind}: {one_line(str(message), options)}"
        if line not in said:  # a table, a comparison and a page may each find the same
            said.add(line)
            say(line, to=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            warnings.filterwarnings("ignore", ".*joblib will operate in serial mode")  # where there is no /dev/shm
            command.check(arguments)
            request = running.refuse_another(arguments)
            code = 1
            with contextlib.redirect_stdout(_Patient()) if files.outputs() else contextlib.nullcontext():
                code = command.run(arguments) or 0
            running.remember(request)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, as in `softkin … | head`
        _silence()
        return 1
    except KeyboardInterrupt:
        print(f"softkin {arguments.command}: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if os.environ.get("SOFTKIN_TRACEBACK"):
            raise
        if interrupts:  # what follows a broken import may be any error
            print(f"softkin {arguments.command}: interrupted", file=sys.stderr)
            return 130
        say(f"softkin {arguments.command}: {one_line(in_words(error), options)}", to=sys.stderr)
        if isinstance(error, OSError):
            _silence()  # at exit Python would try to write the rest again, and fail again
        if isinstance(error, ValueError | TypeError):  # from an argument; files raise SoftkinError
            return 2
        return code if isinstance(error, SoftkinError | OSError) else 1
    return code


def in_words(error: Exception) -> str:
    """The error as one sentence: our own message, or the first line of a library's with advice."""
    text = str(error).strip()
    first = text.splitlines()[0].strip() if text else ""
    if isinstance(error, MemoryError) or "can't allocate memory" in text or "not enough memory" in text:
        return f"there is not enough memory{f': {first}' if first else ''}; is a size in the input right?"
    if isinstance(error, RecursionError):
        return "the input is nested too deeply."
    if isinstance(error, SoftkinError | ValueError | TypeError):
        return text or type(error).__name__
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}." if error.filename and error.strerror else first
    return f"{type(error).__name__}: {first}; this is a bug in softkin, and SOFTKIN_TRACEBACK=1 shows where."


class _Patient:
    """Standard output whose reader may go, as ``head`` does: a command that writes files goes on without it."""

    def __init__(self) -> None:
        self.stream = sys.stdout

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        try:
            return self.stream.write(text)
        except BrokenPipeError:
            _silence()
            return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except BrokenPipeError:
            _silence()


def _silence() -> None:
    """Send the rest of the output to the null device: the interpreter would fail to write it at exit."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: tests have no real standard output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""The command line: one file a command; torch is imported only when a command runs."""

import argparse
import io
import os
import sys
import warnings
from collections.abc import Sequence

from softkin import SoftkinError, __version__
from softkin.cli import compare, data, similarity, status, train

COMMANDS = {"compare": compare, "data": data, "similarity": similarity, "status": status, "train": train}


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="softkin",
        description="Class-similarity label smoothing and confidence calibration for PyTorch classifiers.",
    )
    top.add_argument("--version", action="version", version=f"softkin {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.DESCRIPTION,
            epilog=f"example:\n  {module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 2 for wrong usage, 1 for whatever else went wrong."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # α and − on a terminal that lacks them
    arguments = parser().parse_args(argv)
    command = COMMANDS[arguments.command]
    code = 2
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(f"softkin: warning: {message}", file=sys.stderr)
            command.check(arguments)
            code = 1
            command.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, as in `softkin … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (SoftkinError, ValueError, TypeError, OSError) as error:
        if os.environ.get("SOFTKIN_TRACEBACK"):
            raise
        print(f"softkin {arguments.command}: {error}", file=sys.stderr)
        return code
    except KeyboardInterrupt:
        print(f"softkin {arguments.command}: interrupted", file=sys.stderr)
        return 130
    return 0

"""Write docs/commands.md and the recorded choices of options from the code, so that they always agree with it.

The page comes from the commands' own help, the choices (src/softkin/cli/choices.json) from the registries.

python scripts/commands_page.py
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

from softkin.cli import choices, parser
from softkin.cli.arguments import subcommands

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
HEAD = """# Commands

This page is written by `scripts/commands_page.py` from `softkin … --help`. Results go to standard output, progress and
warnings to standard error. The exit code is 0 for success, 2 for wrong usage and 1 for any other failure. `--json`
prints the same numbers for machines; its shares and errors are fractions, where tables show percent.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_commands(parser())]).rstrip() + "\n"


def _commands(command: argparse.ArgumentParser) -> Iterator[str]:
    """A section for each command below this one."""
    for action in subcommands(command):
        summaries = {item.dest: item.help for item in action._choices_actions}
        for name, first in action.choices.items():
            yield from _section(first, summaries[name] or "")
            yield from _commands(first)


def _section(command: argparse.ArgumentParser, summary: str) -> Iterator[str]:
    depth = len(command.prog.split())
    yield f"{'#' * depth} {command.prog}\n"
    end = "" if summary.endswith("?") else "."
    yield f"{summary[0].upper()}{summary[1:]}{end}\n"
    if command.description and command.description.rstrip(".") != summary[0].upper() + summary[1:]:
        yield f"```text\n{command.description}\n```\n"
    options = [action for action in command._actions if action.help != argparse.SUPPRESS and action.dest != "help"]
    lines = [_line(action) for action in options if not isinstance(action, argparse._SubParsersAction)]
    if lines:
        yield "\n".join(["| argument | meaning |", "| --- | --- |", *lines]) + "\n"
    example = re.sub(r"^examples?:\n|^  ", "", command.epilog or "", flags=re.MULTILINE)
    if example:
        yield f"```sh\n{example}\n```\n"


def _line(action: argparse.Action) -> str:
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    value = str(action.metavar or choices or action.dest.upper()) if action.nargs != 0 else ""
    names = " ".join(filter(None, [", ".join(action.option_strings), value]))
    return f"| `{names}` | {((action.help or '') % {}).replace('|', '&#124;')} |"


def recorded_choices() -> str:
    """What help and completions list without loading the registries."""
    return json.dumps(choices.current(), indent=1) + "\n"


if __name__ == "__main__":
    choices.RECORDED.write_text(recorded_choices(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    print(f"Wrote {choices.RECORDED} and {PAGE}")

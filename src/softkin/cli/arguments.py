"""An argparse parser whose errors are one line with the nearest name, limits for numbers,
and the options that the code declares (``_core.options``) as arguments of a command.
"""

import argparse
import math
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, NoReturn

from softkin._core.assumption import Assumption
from softkin._core.names import did_you_mean, near
from softkin._core.options import Option
from softkin._io.escape import terminal
from softkin.cli import choices
from softkin.cli.printing import say

_ARGUMENT = re.compile(r"^argument ([^:]+): must")
LONGEST = 2000  # characters of a message
WIDEST = 118  # characters in a line of help, however wide the terminal is
MOST_SEED = 2**63 - 1  # the largest that torch's generators take


def one_line(message: str, options: Set[str] = frozenset()) -> str:
    """A message as one line without terminal control sequences, truncated if it is very long.

    Arguments of the library become the ``options`` of a command, as ``in_shell`` does. A file may hold a class name of
    megabytes, so the message is cut before anything is searched in it.
    """
    line = terminal(" ".join(in_shell(message[: 4 * LONGEST], options).split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


_BOTH = re.compile(
    r"(?P<python>\b[a-z]\w{0,60}=(?:\{[^}]{0,2000}\}|[^\s()]{1,200})|`(?:distances\.from_)?[a-z]\w{0,60}`) "
    r"\((?P<shell>(?P<option>--[a-z-]{1,60})[^()]{0,200})\)"
)
"""What is passed in Python, with the option of a command beside it"""

CONTENTS = ("--logits", "--probs", "--labels", "--class-names", "--distances", "--texts", "--images")
"""Options whose names are also those of what a file holds"""


def in_shell(message: str, options: Set[str]) -> str:
    """A message of the library with its arguments as options, where the command has them.

    Example:
        >>> in_shell("`n_bins` must be at least 1; pass force=True to overwrite it.", {"--n-bins", "--force"})
        '--n-bins must be at least 1; add --force to overwrite it.'
        >>> in_shell("pass aliases={'a': 'b'} (--alias a=b), or `vectors` (--vectors).", {"--alias"})
        'pass --alias a=b, or `vectors`.'
        >>> in_shell("smooth with alpha='auto'.", {"--alpha"})
        'smooth with --alpha auto.'
    """

    def beside(match: re.Match[str]) -> str:
        named = match["python"].strip("`").removeprefix("distances.from_").partition("=")[0].replace("_", "-")
        if not named.startswith(match["option"].removeprefix("--")):  # `aliases` (--alias)
            return match[0]  # what was given for the option, such as a column
        return match["shell"] if match["option"] in options else match["python"]

    def option(match: re.Match[str]) -> str:
        name = f"--{match['name'].replace('_', '-')}"
        if name not in options or name in CONTENTS:
            return match[0]
        return f"add {name}" if match["verb"] else name

    def valued(match: re.Match[str]) -> str:
        name = f"--{match['name'].replace('_', '-')}"
        return f"{name} {match['value']}" if name in options else match[0]

    if "--logits" in options:
        message = message.replace("if these are logits, apply softmax first", "if these are logits, add --logits")
    message = _BOTH.sub(beside, message)
    message = re.sub(r"\b(?P<name>[a-z]\w{0,60})='(?P<value>[\w.-]{1,60})'", valued, message)
    message = re.sub(r"(?P<verb>pass )?\b(?P<name>[a-z]\w{0,60})=(True\b|None\b|(?=[ ;,.)]|$))", option, message)
    message = re.sub(r"^(?P<verb>)`(?P<name>[a-z]\w{0,60})`(?= must)", option, message)
    return re.sub(r"(?<= or )(?P<verb>)`(?P<name>[a-z]\w{0,60})`(?= that)", option, message)


def examples(*commands: str) -> str:
    """The examples at the end of a help page."""
    lines = [line for command in commands for line in command.split("\n")]
    return "\n".join([f"example{'s' * (len(lines) > 1)}:", *(f"  {folded(line)}" for line in lines)])


LINE = 76  # letters of a command in an example, which leaves room for the indent and a backslash


def folded(command: str) -> str:
    r"""A command on several lines if it is long, which a shell reads as one.

    Example:
        >>> print(folded("softkin compare --data data.npz --methods one-hot,ts,we --seeds 3 --output study-of-three/"))
        softkin compare --data data.npz --methods one-hot,ts,we --seeds 3 \
              --output study-of-three/
    """
    lines = [""]
    for word in re.findall(r"""(?:--\S+ (?!-))?(?:"[^"]*"|'[^']*'|\S)+""", command):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > LINE - 4 * (len(lines) > 1):
            lines.append(word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n      ".join(lines)


def fitted(text: str, width: int) -> str:
    """A description in lines of at most so many characters; tables of two columns keep their columns.

    Example:
        >>> print(fitted("  .csv    a column for each class", 26))
          .csv    a column for
                  each class
    """
    lines: list[tuple[int, str]] = []  # where the text of a line begins, and the line
    column = 0
    for line in text.splitlines():
        begins = len(line) - len(line.lstrip())
        cell = _CELL.match(line)
        if lines and lines[-1][1].strip() and line.strip() and begins == column and not 0 < begins <= NAMES:
            lines[-1] = column, f"{lines[-1][1]} {line.strip()}"
            continue
        column = cell.end() if cell is not None else begins
        lines.append((column, line))
    made = []
    for begins, line in lines:
        made += textwrap.wrap(
            line[begins:], max(width, begins + 12), initial_indent=line[:begins], subsequent_indent=" " * begins,
            break_long_words=False, break_on_hyphens=False,
        ) or [""]  # fmt: skip
    return "\n".join(made)


NAMES = 8  # blanks at most before a name in a table of two columns
_CELL = re.compile(rf" {{1,{NAMES}}}\S.*? {{2,}}(?=\S)")


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one sentence; its subcommands have the same class."""

    typed: Sequence[str] = ()
    """The words that are being parsed"""

    def error(self, message: str) -> NoReturn:
        """Print one line, without the usage, and exit with code 2."""
        if message.startswith("the following arguments are required"):
            self._refuse_unknown(self.typed)  # a misspelt option explains more than what is missing beside it
            if not self.typed:
                message += f"; {self.prog} --help has examples"
        message = _ARGUMENT.sub(r"\1 must", message)
        say(f"{self.prog}: {one_line(message if message.endswith(('.', '?')) else f'{message}.')}", to=sys.stderr)
        self.exit(2)

    @property
    def options(self) -> set[str]:
        """The options of this command."""
        return set(self._option_string_actions)

    def format_usage(self) -> str:
        """One line: the options that are required, and what stands without an option."""
        return f"usage: {self._usage()}\n"

    def format_help(self) -> str:
        """The help, with a short usage: the options are listed below it."""
        self.usage = self._usage().replace("%", "%%")
        written = self.description
        self.description = None if written is None else fitted(written, min(WIDEST, get_terminal_size().columns - 2))
        try:
            return super().format_help()
        finally:
            self.description = written

    def _usage(self) -> str:
        words = [self.prog, "[OPTIONS]"]
        for action in self._actions:
            name = str(action.metavar or action.dest.upper())
            if isinstance(action, argparse._SubParsersAction):
                words += [name, "..."]
            elif action.option_strings and action.required:
                words.append(f"{action.option_strings[-1]} {name}")
            elif not action.option_strings:
                words.append({"+": f"{name}...", "*": f"[{name}...]", "?": f"[{name}]"}.get(str(action.nargs), name))
        return " ".join(words)

    def _get_option_tuples(self, option_string: str) -> Any:
        """The options that an abbreviation may stand for; ``-o`` and ``--out`` stand for --output, not --outcome."""
        typed, *rest = option_string.partition("=")
        output = self._option_string_actions.get("--output")
        if output is None or typed not in ("-o", "--out"):
            return super()._get_option_tuples(option_string)
        return [one for one in super()._get_option_tuples("--output" + "".join(rest)) if one[0] is output]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value, or a command, that is not one of the choices."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            listed = "" if near(str(value), names) else f"; there are {', '.join(names)}"
            self.error(f"unknown command {value!r}{listed}{did_you_mean(str(value), names)}")
        self.error(f"{label(action)} must be one of {', '.join(names)}, got {value!r}{did_you_mean(str(value), names)}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; insert the default action where none is named."""
        self.typed = list(sys.argv[1:] if args is None else args)
        usual = next((action.usual for action in subcommands(self) if hasattr(action, "usual")), None)
        if usual is not None and args is not None:
            action = next(subcommands(self))
            if not args or args[0] not in (*action.choices, "-h", "--help"):
                if args and near(args[0], action.choices, cutoff=0.75) and not Path(args[0]).exists():
                    self._check_value(action, args[0])  # refuses it, and suggests the action
                args = [usual, *args]
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; refuse an unknown option and suggest the nearest known one."""
        result, unknown = self.parse_known_args(args, namespace)
        if unknown:
            chosen = self.chosen(result)
            chosen._refuse_unknown(unknown)
            chosen.error(f"there is one argument too many: {unknown[0]!r}")
        return result

    def _refuse_unknown(self, words: Sequence[str]) -> None:
        """Refuse the first of the words that is an unknown option, and suggest the nearest known one."""
        known = {word.lstrip("-"): word for word in self._option_string_actions if word.startswith("--")}
        for word in words:
            option = word.partition("=")[0]
            if word == "--":
                return
            if option.startswith("-") and option != "-" and not self._known_option(option):
                guess = did_you_mean(option.lstrip("-"), known, shown=known.__getitem__)
                self.error(f"unknown option {option}{guess}")

    def _known_option(self, option: str) -> bool:
        """Whether the word is an option, its beginning, or a negative number."""
        beginnings = option.startswith("--") and any(name.startswith(option) for name in self._option_string_actions)
        return beginnings or option[:2] in self._option_string_actions or option[1:2].isdigit()

    def chosen(self, result: argparse.Namespace) -> "CommandParser":
        """The parser of the command and action that were typed."""
        chosen = self
        for action in subcommands(self):
            name = getattr(result, action.dest, None)
            if name in action.choices:
                chosen = action.choices[name].chosen(result)
        return chosen


def subcommands(parser: argparse.ArgumentParser) -> Iterator[Any]:
    """The actions of a parser that hold subparsers."""
    return (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))


def label(action: argparse.Action) -> str:
    """The name of an argument in messages."""
    return max(action.option_strings, key=len) if action.option_strings else str(action.metavar or action.dest)


def within(value: int, option: str, least: int, most: int) -> None:
    """Refuse a whole number outside its limits."""
    if value < least:
        raise ValueError(f"{option} must be at least {least}, got {value}.")
    if value > most:
        raise ValueError(f"{option} must be at most {most:,}, got {value:,}.")


def share(text: str) -> float:
    """A share that is typed as 5% or 0.05; NaN for anything else."""
    try:
        return float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return math.nan


def percentage(text: str) -> float:
    """The type of an option that is a share: 0.95 or 95%; ``check_shares`` also takes 95."""
    value = share(text)
    if math.isnan(value):
        raise argparse.ArgumentTypeError(f"must be a share such as 0.05 or 5%, got {text!r}")
    return value


LEAST_PERCENT = 5  # of numbers without a sign: 1.5 may be a slip, 90 can only be 90 %


def check_shares(arguments: argparse.Namespace, *options: str) -> None:
    """Refuse shares that are not between 0 and 1; take 90 as 90 %, with a note."""
    for name in options:
        value, option = getattr(arguments, name, None), f"--{name.replace('_', '-')}"
        if value is None:
            continue
        if LEAST_PERCENT <= value < 100:
            warnings.warn(Assumption(f"{option} {value:g} is read as {value:g} %."), stacklevel=2)
            setattr(arguments, name, value / 100)
        elif not 0 < value < 1:
            raise ValueError(f"{option} must be between 0 and 1, or between 0% and 100%, got {value:g}.")


def declare(
    command: Any,
    options: Iterable[Option],
    *,
    several: Iterable[str] = (),
    lists: bool = False,
    of: str = "",
    default: str = "",
) -> None:
    """Add each option to a parser, or to a group of one; an option that is not given is None.

    Args:
        command: The parser or group.
        options: The options.
        several: Names of options that this command lets repeat, besides those that always may.
        lists: Whether an option of numbers takes a list of values to try.
        of: How to say what has an option that others do not have, such as "for --distance {}".
        default: What to add to the help of each, such as " (default: the recipe's)".
    """
    for option in options:
        whose = f", {of.format(' or '.join(option.of))}" if of and option.of else ""
        arguments: dict[str, Any] = {"help": f"{option.about}{whose}{default}".replace("%", "%%")}
        if option.kind == "flag":
            arguments["action"] = argparse.BooleanOptionalAction
        else:
            arguments |= {"type": _types(lists)[option.kind], "metavar": _metavar(option)}
            if option.choices:
                arguments |= {"choices": option.choices, "metavar": None}
            if option.repeats or option.name in several:
                arguments["action"] = "append"
        action = command.add_argument(option.flag, **arguments)
        if option.kind == "file":
            choices.path(action)


def given(arguments: argparse.Namespace, options: Iterable[Option]) -> dict[str, Any]:
    """The values of those options that the user gave."""
    return {option.name: value for option in options if (value := getattr(arguments, option.name, None)) is not None}


def _metavar(option: Option) -> str | None:
    return {"file": "FILE", "value": "NUMBER", "numbers": "A,B,…"}.get(option.kind)


def _types(lists: bool) -> dict[str, Callable[[str], Any]]:
    return {
        "int": int,
        "float": float,
        "text": str,
        "file": str,
        "numbers": whole_numbers,
        "value": values if lists else value,
    }


def value(text: str) -> float | str:
    """Parse a number, or "auto"."""
    return "auto" if text == "auto" else float(text)


def values(text: str) -> list[float | str]:
    """Parse a number, "auto", or a list of them."""
    try:
        return [value(part.strip()) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number or a list such as 1,2,4, got {text!r}") from None


def whole_numbers(text: str) -> list[int]:
    """Parse a list of whole numbers."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be whole numbers such as 60,120, got {text!r}") from None


def names(text: str) -> list[str]:
    """Parse a list of names."""
    listed = [part.strip() for part in text.split(",") if part.strip()]
    if not listed:
        raise argparse.ArgumentTypeError(f"must be a name or a list such as one-hot,we, got {text!r}")
    return listed

"""Options that the code declares (``_core.options``) as arguments of a command."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from softkin._core.options import Option
from softkin.cli import choices


def add(
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

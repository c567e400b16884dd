"""Options that code declares beside what they change; commands, help, completion and studies are views of them.

A distance source, a training method and a recipe each declare theirs. This module is light: help lists options without
loading torch.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["int", "float", "text", "file", "flag", "numbers", "value"]
"""How an option is typed: "value" is a number or "auto", "numbers" a list such as 60,120"""


@dataclass(frozen=True)
class Option:
    """An option of something that has a name."""

    name: str
    about: str
    """Its meaning, as a phrase for help"""
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    required: bool = False
    """Whether there is nothing to do without it"""
    repeats: bool = False
    """Whether it may be given several times"""
    of: tuple[str, ...] = ()
    """The names of the things that have it, where others do not"""
    runs_code: bool = False
    """Whether its value names code to run: then a file, such as a study's, must not set it"""

    @property
    def flag(self) -> str:
        """The option in a shell.

        Example:
            >>> Option("latent_dim", "the size of a code").flag
            '--latent-dim'
        """
        return f"--{self.name.replace('_', '-')}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, of the fields that differ from the defaults."""
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        values = {key: value for key, value in dataclasses.asdict(self).items() if value != usual[key]}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Option":
        """An option from plain data."""
        fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**fields)


def setting(default: Any, about: str, kind: Kind | None = None, choices: tuple[str, ...] = ()) -> Any:
    """A field of a dataclass that is also an option; its kind follows from the default."""
    kinds: dict[type, Kind] = {bool: "flag", int: "int", float: "float", tuple: "numbers"}
    kind = kind or kinds.get(type(default), "text")
    return dataclasses.field(default=default, metadata={"about": about, "kind": kind, "choices": choices})


def settings(made: type) -> list[Option]:
    """The options that the fields of a dataclass declare by ``setting``."""
    return [
        Option(field.name, field.metadata["about"], field.metadata["kind"], field.metadata["choices"])
        for field in dataclasses.fields(made)
        if "about" in field.metadata
    ]


def united(options: Iterable[Option]) -> dict[str, Option]:
    """Options by name; one that several things declare is the first declaration."""
    by_name: dict[str, Option] = {}
    for option in options:
        by_name.setdefault(option.name, option)
    return by_name

"""Text and tables for people."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from softkin.escape import terminal

if TYPE_CHECKING:
    from rich.table import Table

FILE = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}  # how shells complete a file's name
FOLDER = {"bash": "_shtab_compgen_dirs", "zsh": "_files -/", "tcsh": "d"}

shown = terminal  # for names that are printed


class LazyHelp(str):
    """Help with the names of what can be chosen, which are asked for only when the help is printed.

    The names stand beside the code that they name, and importing that loads torch.
    """

    names: Callable[[], Sequence[str]]

    def __mod__(self, values: Any) -> str:
        """What argparse calls to fill in the help of an option."""
        return self.replace("{}", ", ".join(self.names()))


def choose(action: argparse.Action, words: str, names: Callable[[], Sequence[str]]) -> None:
    """Make ``words`` an option's help, with "{}" replaced by ``names()`` when it is printed.

    ``softkin completion`` asks the option's ``names`` too.
    """
    action.help = help_text = LazyHelp(words)
    help_text.names = action.names = names  # type: ignore[attr-defined]


def show(table: "Table") -> None:
    """Print a table, as wide as the terminal, or wide where the output goes elsewhere."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 200, highlight=False).print(table)

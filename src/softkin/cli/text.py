"""Text and tables for people."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

FILE = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}  # how shells complete a file's name
FOLDER = {"bash": "_shtab_compgen_dirs", "zsh": "_files -/", "tcsh": "d"}


def shown(name: str) -> str:
    """A name that cannot steer the terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in name)


def show(table: "Table") -> None:
    """Print a table, as wide as the terminal, or wide where the output goes elsewhere."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 200, highlight=False).print(table)

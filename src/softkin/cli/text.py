"""Text and tables for people."""

import sys
from typing import TYPE_CHECKING

from softkin.escape import terminal

if TYPE_CHECKING:
    from rich.table import Table

shown = terminal  # for names that are printed


def show(table: "Table") -> None:
    """Print a table, as wide as the terminal, or wide where the output goes elsewhere."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 200, highlight=False).print(table)

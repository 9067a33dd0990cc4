"""Where verbs print their tables."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

PIPE_COLUMNS = 10_000


def terminal() -> Console:
    """Return standard output: as wide as the terminal is; in a pipe nothing is cut or wrapped."""
    return Console() if sys.stdout.isatty() else Console(width=PIPE_COLUMNS)


def show(console: Console, table: Table) -> None:
    """Print a table; what is too wide for the terminal goes on in the next line, nothing is cut."""
    for column in table.columns:
        column.overflow = "fold"
    console.print(table)

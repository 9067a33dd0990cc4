"""Where verbs print their tables."""

from __future__ import annotations

import shutil
import sys

from rich.console import Console
from rich.table import Table

from streaming.terminal import color_system

PIPE_COLUMNS = 10_000


def terminal() -> Console:
    """Return standard output: as wide as the terminal is; in a pipe nothing is cut or wrapped.

    Brackets and colons stand for themselves: what is shown comes from outside.
    """
    if not sys.stdout.isatty():
        return Console(width=PIPE_COLUMNS, markup=False, emoji=False)
    columns = shutil.get_terminal_size().columns
    return Console(color_system=color_system(), width=columns, markup=False, emoji=False)


def show(console: Console, table: Table) -> None:
    """Print a table; what is too wide for the terminal goes on in the next line, nothing is cut."""
    for column in table.columns:
        column.overflow = "fold"
    console.print(table)

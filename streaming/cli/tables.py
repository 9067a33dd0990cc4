"""Where verbs print their tables."""

from __future__ import annotations

import sys

from rich.console import Console

PIPE_COLUMNS = 10_000


def terminal() -> Console:
    """Return standard output: as wide as the terminal is; in a pipe nothing is cut or wrapped."""
    return Console() if sys.stdout.isatty() else Console(width=PIPE_COLUMNS)

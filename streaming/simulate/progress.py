"""A bar of progress for commands that compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from streaming.terminal import color_system


def tracked(title: str, jobs: Sequence[Any]) -> Iterable[Any]:
    """The jobs, one by one, with a bar on standard error if that is a terminal."""
    from rich.console import Console  # noqa: PLC0415  (a quick --help)
    from rich.progress import track  # noqa: PLC0415

    console = Console(stderr=True, color_system=color_system())
    return track(
        jobs, description=title, console=console, transient=True, disable=not console.is_terminal
    )

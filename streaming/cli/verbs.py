"""How verbs are listed: each with its whole first sentence, however narrow the terminal is."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

SENTENCE_MAX = 1_000


class Verbs(TyperGroup):
    """A group of verbs, whose list wraps lines in place of cutting them."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of verbs."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, verb.get_short_help_str(SENTENCE_MAX))
            for name, verb in found
            if verb is not None and not verb.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

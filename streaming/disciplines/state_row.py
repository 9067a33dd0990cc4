"""A shard's state as Spark keeps it: a row with the same columns in every discipline."""

from __future__ import annotations

from typing import NamedTuple, Self

STATE_FORMAT = 12
"""The format of every discipline's state. A new checkpoint has it in its identity, and keeps it; a
change of what a state's text means takes the next number. Numbers below 11 were used before the
first release. States in it are kept in `tests/streaming/disciplines/states.json`.

12: the text is that of 11; see NAMED_FROM."""

NAMED_FROM = 12
"""From this format on each task gives its state's files names of their own, and Spark's commit log
says which count. Before, a late attempt could replace the state of the one that counts."""

FORMATS_READ = (11, STATE_FORMAT)
"""A checkpoint of another format is refused (`streaming.service.checkpoint`)."""

STATE = "row string"
"""One column: for each, Spark makes code in every task that reads and writes it, and looks it up
whenever it copies the operator while it plans; a small batch waited for both."""


class StateRow(NamedTuple):
    """A shard's state: the latest batch time, the totals (JSON, one line), the core as text.

    Text, as of bytes in a state Spark's JVM makes a string for Python, character by character.
    """

    clock_ms: int = 0
    totals: str = "{}"
    core: str = ""

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the inverse of :meth:`to_text`."""
        clock_ms, totals, core = text.split("\n", 2)
        return cls(int(clock_ms), totals, core)

    def to_text(self) -> str:
        """Return the column of STATE: clock and totals on a line each, then the core."""
        return f"{self.clock_ms}\n{self.totals}\n{self.core}"

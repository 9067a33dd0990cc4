"""A shard's state as Spark keeps it: a row with the same columns in every discipline."""

from __future__ import annotations

from typing import NamedTuple, Self

STATE_FORMAT = 11
"""The format of every discipline's state. A checkpoint has it in its identity, and is refused where
it is another (`streaming.service.checkpoint`); a change of what a state's text means takes the
next number. Numbers below 10 were used before the first release. States in it are kept in
`tests/streaming/disciplines/states.json`."""

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

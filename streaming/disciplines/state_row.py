"""A shard's state as Spark keeps it: a row with the same columns in every discipline."""

from __future__ import annotations

from typing import NamedTuple

STATE_FORMAT = 11
"""The format of every discipline's state. A checkpoint has it in its identity, and is refused where
it is another (`streaming.service.checkpoint`); whoever changes what a state's text means takes the
next number. Numbers below 10 were used before the first release."""

STATE = "clock_ms long, totals string, core string"


class StateRow(NamedTuple):
    """A shard's state, as STATE has it: the latest batch time, the totals (JSON), the core as text.

    Text, as of bytes in a state Spark's JVM makes a string for Python, character by character.
    """

    clock_ms: int = 0
    totals: str = "{}"
    core: str = ""

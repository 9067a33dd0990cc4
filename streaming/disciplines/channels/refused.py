"""Deliveries of channels that Kafka refuses for good: a shard's step that gives their labels up.

A run of the batch names them by key, incarnation and sequence, as they were in that run: the step
is taken again for each run, with what the runs before it refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import google_crc32c
import numpy as np
import pyarrow as pa

from sequencer.channels import Outcome, Reason
from sequencer.channels.state import Int64s
from streaming.arrow.columns import flat
from streaming.disciplines.refused import Found, Refused, text_of
from streaming.wire.blocks import plain_values

REASON = {reason.text: reason for reason in (Reason.TOO_LARGE, Reason.REFUSED)}
Step = Callable[[Mapping[int, Reason]], Outcome]
"""A step where some rows cannot be delivered."""
Records = Callable[[Int64s], pa.Table]
"""Records by their rows, with `key`, `value` and `timestamp`."""


def without_refused(
    step: Step, refused: Refused, records_of: Records
) -> tuple[Outcome, dict[int, str]]:
    """Take a step; return Kafka's answer about each row that it refused, too."""
    rows: dict[int, Reason] = {}
    details: dict[int, str] = {}
    outcome = step(rows)
    for run in refused.runs:
        found = _rows(outcome, run, records_of)
        if found:
            rows |= {row: REASON[each["why"]] for row, each in found.items()}
            details |= {row: each["detail"] for row, each in found.items()}
            outcome = step(rows)
    return outcome, details


def _rows(outcome: Outcome, run: Sequence[Found], records_of: Records) -> dict[int, Found]:
    """The rows of the deliveries that a run names, of those that are this shard's.

    Where the channel is not the key, two may have one name: they differ in what they are.
    """
    delivered = outcome.delivered
    named = {(*each["name"], each["timestamp"], each["checksum"]): each for each in run}
    incarnations, sequences = ([int(each["name"][index]) for each in run] for index in (1, 2))
    at = np.flatnonzero(
        (delivered.row >= 0)
        & np.isin(delivered.sequence, sequences)
        & np.isin(delivered.incarnation, incarnations)
    )
    if not len(at):
        return {}
    rows = delivered.row[at]
    records = records_of(rows)
    keys = [text_of(key) for key in flat(records["key"]).to_pylist()]
    wanted = {name[0] for name in named}
    few = [index for index, key in enumerate(keys) if key in wanted]
    values = flat(plain_values(records.take(pa.array(few, pa.int64())))["value"]).to_pylist()
    stamps = flat(records["timestamp"]).to_pylist()
    found = {}
    for index, value in zip(few, values, strict=True):
        numbers = (str(column[at[index]]) for column in (delivered.incarnation, delivered.sequence))
        name = (keys[index], *numbers, stamps[index], google_crc32c.value(value or b""))
        if name in named:
            found[int(rows[index])] = named[name]
    return found

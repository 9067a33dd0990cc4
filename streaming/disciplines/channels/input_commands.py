"""Commands among the records of inputs: each is about its own channel, and stands where it lies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.channels.commands import PlacedCommand
from streaming.arrow.columns import flat
from streaming.arrow.pack import taken
from streaming.disciplines.channels.commands import ShardCommands, read_own_request
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.commands import asked_in, place_of
from streaming.wire.blocks import plain_values

Int64s = NDArray[np.int64]


def apart(
    tables: Sequence[pa.Table], arrived: Int64s, plan: ChannelPlan
) -> tuple[Int64s, Sequence[PlacedCommand], ShardCommands]:
    """Take commands out of a batch's arrivals (rows of its tables, in their order).

    Returns the others; the commands that can be carried out, each with the arrival before which it
    stands; and all of them, to be answered.
    """
    none = ShardCommands([], [], plan.pipeline)
    if not plan.input_commands:
        return arrived, (), none
    headers = taken([each.select(["headers"]) for each in tables], arrived)
    ops = asked_in(headers, plan.input_commands)
    if not ops:
        return arrived, (), none
    found = np.array([*ops], np.int64)
    rows = plain_values(taken(tables, arrived[found]))
    channels = flat(rows["key" if plan.keyed else "channel"]).to_pylist()
    values = flat(rows["value"]).to_pylist()
    requests = [
        read_own_request(value, op, channel)
        for value, op, channel in zip(values, ops.values(), channels, strict=True)
    ]
    places = rows.select(["topic", "partition", "offset"]).to_pylist()
    before = (found - np.arange(len(found))).tolist()
    placed = [
        (at, request.command)
        for at, request in zip(before, requests, strict=True)
        if request.command is not None
    ]
    asked = ShardCommands(requests, [place_of(place, plan) for place in places], plan.pipeline)
    return np.delete(arrived, found), placed, asked

"""The shard of each peer, sender and record of discipline `multicast`."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streaming.arrow.columns import flat
from streaming.disciplines.exchange import Route
from streaming.disciplines.multicast.nodes import raw
from streaming.disciplines.multicast.plan import MulticastPlan
from streaming.disciplines.state_keys import shard_of_name, shards_of

HOMES_MAX = 1_000_000


def route(plan: MulticastPlan) -> Route:
    """Return a function for the shard of each input record: its sender's; any if it has none."""
    return partial(_route, shards=plan.shards)


def _route(table: pa.Table, shards: int) -> NDArray[np.int32]:
    return shards_of(flat(table["key"]), shards)


class Homes(dict[str, int]):
    """The shard of each name of the protocol; the counter has the empty name."""

    def __init__(self, shards: int) -> None:
        super().__init__()
        self.shards = shards

    def __missing__(self, name: str) -> int:
        if len(self) >= HOMES_MAX:
            self.clear()
        shard = self[name] = shard_of_name(raw(name), self.shards)
        return shard

"""Messages that Kafka refused, on a shard in the orders of clocks or the counter.

See `streaming.disciplines.inquiries.Answering`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

import pyarrow as pa

from sequencer.multicast import Notice
from streaming.arrow.columns import flat, last_headers
from streaming.arrow.schemas import RECORD
from streaming.disciplines.inquiries import Key
from streaming.disciplines.multicast.nodes import latin
from streaming.disciplines.multicast.plan import MulticastPlan
from streaming.disciplines.multicast.protocol.kept_records import KeptRecords
from streaming.disciplines.multicast.protocol.peers import Peers
from streaming.disciplines.multicast.protocol.turn import Turn
from streaming.disciplines.refused import Name
from streaming.disciplines.undelivered import ROW


class Core(Protocol):
    """The part of a shard (`core.MulticastCore`) that is used here."""

    plan: MulticastPlan
    peers: Peers
    rows: KeptRecords
    flying: dict[int, int]
    clock_ms: int


class MulticastRefusals:
    """Answers for one shard. A message is known by its number, its home is its sender's shard.

    ``rows``: the batch's records, ``ids`` their numbers, ``ends`` the rows of destructions.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.rows = RECORD.empty_table()
        self.ids: list[int] = []
        self.ends: set[int] = set()

    def noted(self, deliveries: pa.Table, now: Turn) -> pa.Table:
        """Keep a batch's records; return its deliveries with the rows of theirs."""
        self.rows, self.ids = self.core.rows.table, self.core.rows.ids.tolist()
        index = self.core.rows.index
        self.ends = {index[got.message] for _, got in now.got if isinstance(got, Notice)}  # type: ignore[index]
        rows = [index[got.message] for _, got in now.got]  # type: ignore[index]
        return deliveries.append_column(ROW, pa.array(rows, pa.int64()))

    def unspend(self, counts: Mapping[bytes, int]) -> None:
        """Take back this many of the last sequence numbers of these peers."""
        for key, count in counts.items():
            self.core.peers.count(latin(key), self.core.clock_ms).sequence -= count
        self.core.peers.settle(self.core.clock_ms)

    def source(self, row: int) -> pa.Table:
        """Return the record of a delivery of this batch, or the command that it announces."""
        return self.rows.slice(row, 1)

    def key_of(self, _name: Name, row: int) -> Key | None:
        """Return the message's number; None of a destruction's notice."""
        return None if row in self.ends else [self.ids[row]]

    def home_of(self, key: Key) -> int:
        """Return the shard of the message's sender."""
        return int(key[0]) % self.core.plan.shards

    def destinations_of(self, _name: Name, row: int) -> Collection[str]:
        """Return the peers and nodes that a record names, also nodes that are gone."""
        ((to, _),) = last_headers(flat(self.rows["headers"]).slice(row, 1), ["to"])
        return {each.decode(errors="surrogateescape") for each in to[0].as_py().split(b",")}

    def is_under_way(self, key: Key) -> bool:
        """Return whether a message's transaction continues, so that a queue may not have it yet."""
        return key[0] in self.core.flying

    def has_passed(self, key: Key) -> bool:
        """Return whether a message is in no queue of this shard."""
        return not any(key[0] in ids for ids in self.core.peers.queued.values())

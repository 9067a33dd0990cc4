"""What a shard of the network knows of messages that Kafka refused; see `inquiries.Answering`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa

from sequencer.groups.network.routes import RoutedView
from sequencer.groups.network.shard import GroupShard
from streaming.arrow.payload import carried
from streaming.arrow.schemas import RECORD
from streaming.disciplines.groups.plan import NetworkPlan
from streaming.disciplines.inquiries import Key
from streaming.disciplines.refused import Name
from streaming.disciplines.shards import Count


class Core(Protocol):
    """What is needed of a shard (`core.NetworkCore`)."""

    plan: NetworkPlan
    net: GroupShard
    known: dict[str, Count]


class NetworkRefusals:
    """Answers for one shard.

    A message is known by group, version and number. A shard gives one to all its members at once.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.rows = RECORD.empty_table()
        self.views: dict[int, RoutedView] = {}

    def note(self, rows: pa.Table) -> None:
        """Keep a batch's records, and the views, some of which its end may forget."""
        self.rows, self.views = rows, dict(self.core.net.directory.views)

    def unspend(self, counts: Mapping[bytes, int]) -> None:
        """Take back this number of the last sequence numbers of these subscribers."""
        for key, count in counts.items():
            self.core.known[key.decode()].sequence -= count

    def source(self, row: int) -> pa.Table:
        """Return the record of a delivery of this batch."""
        return carried(self.rows.slice(row, 1), RECORD.names)

    def key_of(self, name: Name, _row: int) -> Key | None:
        """Return group, version and number."""
        (group, version, number, *_), _ = self.core.plan.message_of(name)
        return [group, int(version or 0), int(number or 0)]

    def home_of(self, key: Key) -> int:
        """Return the shard that decides what becomes of a message."""
        return int(key[2]) % self.core.plan.shards

    def destinations_of(self, name: Name, _row: int) -> Collection[str]:
        """Return the members of the message's version of its group."""
        (group, version, *_), _ = self.core.plan.message_of(name)
        return self.views[int(version or 0)].groups[str(group)]

    def is_under_way(self, _key: Key) -> bool:
        """Return False: a shard knows by the numbers of a line what has still to come."""
        return False

    def has_passed(self, key: Key) -> bool:
        """Whether this shard's members of a message's group have got it, or there are none."""
        group, version, number = key
        tables, receivers = self.core.net.tables, self.core.net.receivers
        places = [at for at in np.flatnonzero(tables.view == version) if tables.group[at] == group]
        members = tables.members.lengths
        return all(receivers.line_next[at] > number for at in places if members[at])

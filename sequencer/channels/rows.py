"""The tables that a step works on: channels, and messages to put in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sequencer.channels.rules import Rules
from sequencer.channels.state import NONE, Bools, Int64s, ShardState
from sequencer.labels import LABEL_MAX
from sequencer.lookup import rows_of
from sequencer.sorting import order_by


@dataclass(slots=True)
class Table:
    """The channel table while a step works on it; rows from ``known`` on are new in this batch.

    ``base``: each channel's frontier; while it settles, the lowest position held or arriving.
    """

    keys: pa.Array
    known: int
    columns: dict[str, Int64s]
    exists: Bools
    base: Int64s

    @classmethod
    def of(cls, state: ShardState, new_keys: pa.Array, rules: Rules) -> Table:
        """Return a table of a state's channels, followed by new ones that do not exist yet."""
        known, more = len(state), len(new_keys)
        columns = {
            name: np.concatenate([column, np.zeros(more, dtype=np.int64)])
            for name, column in state.columns().items()
        }
        columns["fin"][known:] = NONE
        columns["start"][known:] = rules.first_start
        columns["rule"][known:] = rules.numbers_of(new_keys)
        exists = np.arange(known + more) < known
        keys = pa.concat_arrays([state.keys, new_keys])
        return cls(keys, known, columns, exists, columns["frontier"])

    def find_bases(
        self, rules: Rules, code: Int64s, position: Int64s, held_channel: Int64s
    ) -> None:
        """Set ``base`` of channels that settle; ``code``: the channels' rows of arrivals."""
        if rules.settle_ms is None:
            return
        frontier, settles = self.columns["frontier"], self.columns["start"] == NONE
        empty = settles.copy()
        empty[held_channel] = False
        base = np.where(empty, LABEL_MAX, frontier)
        of = settles[code]
        np.minimum.at(base, code[of], position[of])
        self.base = np.where(base == LABEL_MAX, frontier, base)

    def limit(self, rules: Rules, name: str, channel: Int64s) -> Int64s:
        """Return the limit ``name`` in the rules of some channels (see `Rules.limit`)."""
        return rules.limit(name, self.columns["rule"][channel] if rules.others else channel)


@dataclass(slots=True)
class Rows:
    """Messages to put in order; parallel arrays."""

    row: Int64s
    channel: Int64s
    position: Int64s
    since_ms: Int64s
    fin: Bools

    def take(self, which: Int64s | Bools | slice) -> Rows:
        """Return the messages at ``which`` (indices, a mask or a slice)."""
        return Rows(
            self.row[which],
            self.channel[which],
            self.position[which],
            self.since_ms[which],
            self.fin[which],
        )


@dataclass(slots=True)
class Passing:
    """Records without a label, which are delivered where they arrive; parallel arrays."""

    row: Int64s
    channel: Int64s

    def take(self, which: Bools) -> Passing:
        """Return the records of a mask."""
        return Passing(self.row[which], self.channel[which])


def open_table(
    state: ShardState, channel: pa.Array, named: Sequence[bytes | None], rules: Rules
) -> tuple[Table, Int64s, Int64s]:
    """Return the table, with new channels in order of arrival, and each arrival's row in it.

    ``channel``: that of each arrival; without one its row is -1. Also returns the rows of further
    channels that are ``named``.
    """
    known, count = len(state), len(channel)
    if named:
        channel = pa.concat_arrays([channel, pa.array(named, channel.type)])
    codes = rows_of(channel, state.keys)
    strange = np.flatnonzero(codes == NONE)
    coded = channel.take(pa.array(strange)).dictionary_encode()
    codes[strange] = known + coded.indices.fill_null(NONE - known).to_numpy()
    return Table.of(state, coded.dictionary, rules), codes[:count], codes[count:]


def merge(first: Rows, second: Rows) -> Rows:
    """Merge both by (channel, position); of equal ones those of ``first`` come first."""
    if not len(second.row):
        return first
    both = Rows(
        np.concatenate([first.row, second.row]),
        np.concatenate([first.channel, second.channel]),
        np.concatenate([first.position, second.position]),
        np.concatenate([first.since_ms, second.since_ms]),
        np.concatenate([first.fin, second.fin]),
    )
    return both.take(order_by(both.channel, both.position))


def of_channel(rows: Rows, code: int) -> Rows:
    """Return the rows of one channel, from rows sorted by channel."""
    first, stop = np.searchsorted(rows.channel, [code, code + 1])
    return rows.take(np.arange(first, stop))

"""Processing of unusual channels, one record at a time.

These have several epochs, a FIN, a full buffer, a gap that is due, or a record that is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, fields

import numpy as np
from numpy.typing import NDArray

from sequencer.channels.happened import Buffer, Range, Results, Waiting
from sequencer.channels.outcome import Reason
from sequencer.channels.plain import Channel
from sequencer.channels.rows import Rows, Table, of_channel
from sequencer.channels.rules import Rules
from sequencer.channels.runs import NOT_COMING, Runs
from sequencer.channels.state import COLUMNS, NONE, Bools, Int64s, Skipped
from sequencer.sorting import order_by

FAULTLESS, PASSES = np.uint8(255), np.uint8(254)
"""In place of a reason: the record has no fault of its own, or passes without a label."""


class PlainChannels:
    """Channels that take the plain step in this batch, opened when first needed."""

    def __init__(
        self,
        table: Table,
        old: Rows,
        skipped: Skipped,
        runs: Runs,
        rules: Rules,
        now_ms: int,
        refused: Mapping[int, Reason],
    ) -> None:
        self.refused = refused
        self.table = table
        self.old = old
        self.skipped = skipped
        self.runs = runs
        self._absent = runs.take(runs.tries == NOT_COMING)
        self.rules = rules
        self.now_ms = now_ms
        self.results = Results()
        self.delivered_channel: list[int] = []
        self.channels: dict[int, Channel] = {}

    def take(
        self,
        code: Int64s,
        in_cycle: Int64s,
        epoch: Int64s,
        row: Int64s,
        fin: Bools,
        fault: NDArray[np.uint8],
    ) -> None:
        """Feed rows, in order of arrival, to their channels.

        ``fault``: a record's own reason for rejection, else FAULTLESS or PASSES.
        """
        columns = (code, in_cycle, epoch, row, fin, fault)
        for channel, at, its_epoch, its_row, its_fin, its_fault in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            if its_fault == FAULTLESS:
                self.open(channel).arrive(at, its_epoch, its_row, self.now_ms, fin=its_fin)
            elif its_fault == PASSES:
                self.open(channel).pass_on(its_row, self.now_ms)
            else:
                self.open(channel).reject(its_row, Reason(its_fault))
            self.tag(channel)

    @property
    def clock_ms(self) -> int:
        """Return the shard's time: later than the batch's after resetting a channel begun then."""
        return max(self.now_ms, *(each.since_ms for each in self.channels.values()), 0)

    def open(self, code: int) -> Channel:
        """Return the channel in a row of the table, as earlier records and commands left it."""
        channel = self.channels.get(code)
        return self._open(code, of_channel(self.old, code)) if channel is None else channel

    def expire(self, quiet: Rows) -> Bools:
        """Begin channels whose time to settle is over, and apply the gap policy to due gaps.

        ``quiet`` are the held messages of the channels not opened yet.

        Returns a mask of the channels that were opened for it.
        """
        due = np.zeros(len(self.table.keys), dtype=np.bool_)
        settle_ms = self.rules.settle_ms
        if settle_ms is None and all(rules.gap.after_ms is None for rules in self.rules.each):
            return due
        for code, channel in self.channels.items():
            channel.expire(self.now_ms)
            self.tag(code)
        wait_ms = self.rules.limit("wait_ms", self.table.columns["rule"][quiet.channel])
        if settle_ms is not None:
            settles = self.table.columns["start"][quiet.channel] == NONE
            wait_ms = np.where(settles, settle_ms, wait_ms)
        old_enough = self.rules.waited(quiet.since_ms, self.now_ms) >= wait_ms
        due[quiet.channel[old_enough]] = True
        for code in np.flatnonzero(due).tolist():
            self._open(code, of_channel(quiet, code)).expire(self.now_ms)
            self.tag(code)
        return due

    def tag(self, code: int) -> None:
        """Note the channel of the deliveries since the last call."""
        more = len(self.results.delivered) - len(self.delivered_channel)
        self.delivered_channel.extend([code] * more)

    def _open(self, code: int, held: Rows) -> Channel:
        table = self.table
        rule = int(table.columns["rule"][code])
        rules = self.rules.each[rule]
        channel = Channel(table.keys[code].as_py(), rules, self.results, self.refused, rule)
        channel.start = rules.first_start
        channel.exists = bool(table.exists[code])
        if channel.exists:
            for name in COLUMNS:
                setattr(channel, name, int(table.columns[name][code]))
        first, stop = np.searchsorted(self.skipped.channel, [code, code + 1])
        skipped = self.skipped
        ranges = (skipped.first, skipped.stop, skipped.incarnation, skipped.gaps, skipped.since_ms)
        channel.skipped = [
            Range(*each)
            for each in zip(*(column[first:stop].tolist() for column in ranges), strict=True)
        ]
        first, stop = np.searchsorted(self._absent.channel, [code, code + 1])
        ends = (self._absent.first[first:stop].tolist(), self._absent.stop[first:stop].tolist())
        channel.absent = list(zip(*ends, strict=True))
        columns = (
            held.position.tolist(),
            held.row.tolist(),
            held.since_ms.tolist(),
            held.fin.tolist(),
        )
        channel.held = Buffer(
            {
                position: Waiting(row, since_ms, fin)
                for position, row, since_ms, fin in zip(*columns, strict=True)
            }
        )
        self.channels[code] = channel
        return channel

    def close(self) -> tuple[Rows, Skipped, Runs]:
        """Write the channels back into the table.

        Returns their held messages, all given-up ranges, and all runs of missing labels.
        """
        if not self.channels:
            return self.old.take(slice(0)), self.skipped, self.runs
        columns = self.table.columns
        held: list[tuple[int, int, int, int, bool]] = []
        ranges: list[tuple[int, ...]] = []
        for code in sorted(self.channels):
            channel = self.channels[code]
            self.table.exists[code] = channel.exists
            for name in COLUMNS:
                columns[name][code] = getattr(channel, name)
            ranges.extend((code, *astuple(each)) for each in channel.skipped)
            held.extend(
                (message.row, code, position, message.since_ms, message.fin)
                for position, message in sorted(channel.held.items())
            )
        opened = np.zeros(len(self.table.keys), dtype=np.bool_)
        opened[list(self.channels)] = True
        kept = self.skipped.take(~opened[self.skipped.channel])
        more = np.array(ranges, dtype=np.int64).reshape(-1, 6)
        columns_of = [getattr(kept, each.name) for each in fields(Skipped)]
        both = [np.concatenate(pair) for pair in zip(columns_of, more.T, strict=True)]
        order = order_by(both[0])
        skipped = Skipped(*(column[order] for column in both))
        numbers = np.array(held, dtype=np.int64).reshape(-1, 5)
        row, channel_at, position, since_ms, fin = numbers.T
        rows = Rows(row, channel_at, position, since_ms, fin.astype(np.bool_))
        return rows, skipped, self._close_runs(opened)

    def _close_runs(self, opened: Bools) -> Runs:
        """Return the runs, with those of opened channels that will not come replaced."""
        absent = [
            (code, first, stop, channel.incarnation, channel.epoch, NOT_COMING, 0)
            for code, channel in sorted(self.channels.items())
            for first, stop in channel.absent
        ]
        runs = self.runs
        if len(self._absent):
            runs = runs.take((runs.tries != NOT_COMING) | ~opened[runs.channel])
        return runs.merged(Runs(*np.array(absent, dtype=np.int64).reshape(-1, 7).T))

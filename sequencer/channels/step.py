"""One batch over all channels of a shard, vectorised.

The result is that of `plain.Channel` taking one record at a time in order of arrival. Channels in
which nothing unusual happens (one epoch, no FIN, no label outside the window, the buffer never
full) are worked out together; a message is deliverable exactly where its distance from the frontier
equals its rank among the channel's messages. The others, and those whose gap is due, take the plain
step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sequencer.channels.outcome import Delivered, Event, Outcome, Reason
from sequencer.channels.plain import Channel, Results, Waiting
from sequencer.channels.rules import Gap, Rules
from sequencer.channels.state import COLUMNS, NONE, Bools, Held, Int64s, ShardState, Skipped
from sequencer.labels import parse_numbers

REJECTED_NOT = np.uint8(255)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A shard's input of one batch in order of arrival; parallel.

    ``channel``, ``label`` and ``epoch`` are binary arrays (null: missing; a missing epoch is 0),
    ``fin`` a bool array.
    """

    channel: pa.Array
    label: pa.Array
    epoch: pa.Array
    fin: Bools

    def __len__(self) -> int:
        return len(self.channel)


@dataclass(slots=True)
class _Table:
    """The channel table while a step works on it; rows from ``known`` on are new in this batch."""

    keys: pa.Array
    known: int
    columns: dict[str, Int64s]
    exists: Bools


@dataclass(slots=True)
class _Rows:
    """Messages to place; parallel arrays."""

    row: Int64s
    channel: Int64s
    position: Int64s
    since_ms: Int64s
    fin: Bools

    def take(self, which: Int64s | Bools | slice) -> _Rows:
        return _Rows(
            self.row[which],
            self.channel[which],
            self.position[which],
            self.since_ms[which],
            self.fin[which],
        )


def step(state: ShardState, arrivals: Arrivals, now_ms: int, rules: Rules) -> Outcome:
    """Take a batch (perhaps empty) at batch time ``now_ms``, then due gaps and retirements.

    Pure: the same arguments give the same outcome. Raises GapFailure under the policy FAIL.
    """
    now_ms = max(now_ms, state.clock_ms)
    held_count = len(state.held)
    table, codes = _open_table(state, arrivals)
    reasons, place, epoch = _judge_alone(arrivals, codes, table, rules)
    good = np.flatnonzero(reasons == REJECTED_NOT)
    code = codes[good]
    _begin_new(table, code, epoch[good], now_ms)

    fin = arrivals.fin[good]
    position, unusual_row = _positions(table, code, place[good], epoch[good], fin, state, rules)
    unusual = np.zeros(len(table.keys), dtype=np.bool_)
    unusual[code[unusual_row]] = True
    touched = np.zeros(len(table.keys), dtype=np.bool_)
    touched[code] = True

    rows = _Rows(
        np.concatenate([np.arange(held_count), good + held_count]),
        np.concatenate([state.held.channel, code]),
        np.concatenate([state.held.position, position]),
        np.concatenate([state.held.since_ms, np.full(len(good), now_ms)]),
        np.concatenate([state.held.fin, fin]),
    )
    placed = _place(table, rows, held_count, touched, unusual, rules)
    unusual = placed.unusual
    reasons[placed.duplicate_row - held_count] = Reason.DUPLICATE
    table.columns["active_ms"][touched & ~unusual] = now_ms

    old = rows.take(slice(held_count))
    plain = _PlainChannels(table, old, state.skipped, rules, now_ms)
    chosen = np.flatnonzero(unusual[code])
    plain.take(
        code[chosen],
        place[good[chosen]],
        epoch[good[chosen]],
        good[chosen] + held_count,
        fin[chosen],
    )
    quiet = np.concatenate([placed.held, np.flatnonzero(~touched[old.channel])])
    quiet_held = rows.take(quiet[np.argsort(rows.channel[quiet], kind="stable")])
    due = plain.expire(quiet_held)
    if due.any():
        quiet_held = quiet_held.take(~due[quiet_held.channel])
    return _close(table, plain, placed, quiet_held, reasons, held_count, now_ms, rules)


def _open_table(state: ShardState, arrivals: Arrivals) -> tuple[_Table, Int64s]:
    """The channel table with new channels appended in order of arrival; each arrival's row in it.

    Arrivals without a channel have row -1.
    """
    known = len(state)
    coded = pc.dictionary_encode(pa.concat_arrays([state.keys, arrivals.channel]))
    codes = coded.indices[known:].fill_null(NONE).to_numpy().astype(np.int64)
    more = len(coded.dictionary) - known
    columns = {
        name: np.concatenate([column, np.zeros(more, dtype=np.int64)])
        for name, column in state.columns().items()
    }
    columns["fin"][known:] = NONE
    exists = np.arange(known + more) < known
    return _Table(coded.dictionary, known, columns, exists), codes


def _judge_alone(
    arrivals: Arrivals, codes: Int64s, table: _Table, rules: Rules
) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], Int64s, Int64s]:
    """Faults that a record shows by itself: (reasons, label places, epochs), parallel."""
    blank = pa.scalar(b"", arrivals.label.type)
    horizon = 0
    if rules.labels.searched:
        horizon = int(table.columns["frontier"].max(initial=0)) + rules.search
    place = rules.labels.positions(pc.fill_null(arrivals.label, blank), horizon)
    if arrivals.epoch.null_count == len(arrivals):
        epoch = np.zeros(len(arrivals), dtype=np.int64)
    else:
        epoch = parse_numbers(pc.fill_null(arrivals.epoch, pa.scalar(b"0", arrivals.epoch.type)))
    reasons = np.full(len(arrivals), REJECTED_NOT)
    reasons[epoch < 0] = Reason.BAD_EPOCH
    reasons[place < 0] = Reason.BAD_LABEL
    if arrivals.label.null_count:
        missing = pc.is_null(arrivals.label).to_numpy(zero_copy_only=False)
        reasons[missing] = Reason.MISSING_LABEL
    reasons[codes < 0] = Reason.MISSING_CHANNEL
    return reasons, place, epoch


def _begin_new(table: _Table, code: Int64s, epoch: Int64s, now_ms: int) -> None:
    """Give new channels the epoch of their first record, for the vectorised way."""
    new = np.flatnonzero(code >= table.known)
    rows, first = np.unique(code[new], return_index=True)
    table.columns["epoch"][rows] = epoch[new[first]]
    table.columns["incarnation"][rows] = now_ms


def _positions(
    table: _Table,
    code: Int64s,
    place: Int64s,
    epoch: Int64s,
    fin: Bools,
    state: ShardState,
    rules: Rules,
) -> tuple[Int64s, Bools]:
    """Positions of the good rows, and which rows make their channel unusual."""
    columns = table.columns
    frontier = columns["frontier"][code]
    ahead = place - frontier
    new = code >= table.known
    unusual = fin | (epoch != columns["epoch"][code]) | (columns["fin"][code] != NONE)
    cycle = rules.labels.cycle
    if cycle is not None:
        # The frontier moves by at most `moves` within this batch; labels on the same side of the
        # window before and after that are clear, the others take the plain step.
        moves = np.bincount(code, minlength=len(table.keys))
        moves += np.bincount(state.held.channel, minlength=len(table.keys))
        reach = rules.window + moves[code]
        ahead %= cycle
        past = ahead > reach
        unusual |= ((ahead > rules.window) & ~past) | (reach >= cycle)
        ahead -= np.where(past, cycle, 0)
    past = ahead < 0
    remembers = np.zeros(len(table.keys), dtype=np.bool_)
    remembers[state.skipped.channel] = True
    unusual |= (ahead > rules.window) | (past & (new | remembers[code]))
    return frontier + ahead, unusual


@dataclass(slots=True)
class _Placed:
    """The vectorised part's results; ``unusual`` also has the channels whose buffer filled up.

    ``held`` are places in the rows that were given, sorted by (channel, position).
    """

    unusual: Bools
    delivered_row: Int64s
    delivered_channel: Int64s
    sequence: Int64s
    held: Int64s
    duplicate_row: Int64s


def _place(
    table: _Table, rows: _Rows, held_count: int, touched: Bools, unusual: Bools, rules: Rules
) -> _Placed:
    """Deliver, hold or drop as duplicate all messages of usual channels that something came for."""
    columns = table.columns
    which = np.flatnonzero((touched & ~unusual)[rows.channel])
    channel = rows.channel[which]
    ahead = np.maximum(rows.position[which] - columns["frontier"][channel], -1)
    # One number for (channel, ahead): both fit, as `ahead` is at most a window, 2**31. The sort is
    # stable and finds the held ones sorted already.
    key = channel * (int(ahead.max(initial=0)) + 2) + ahead
    order = np.argsort(key, kind="stable")
    which, key, ahead = which[order], key[order], ahead[order]
    keep = ahead >= 0
    keep[1:] &= key[1:] != key[:-1]
    duplicate = which[~keep]
    which, ahead = which[keep], ahead[keep]
    channel = rows.channel[which]
    starts = _starts(channel)
    sizes = np.diff(starts, append=len(which))
    rank = np.arange(len(which)) - np.repeat(starts, sizes)
    ready = ahead == rank

    over = _overfull(rows.row[which], starts, sizes, ready, held_count, rules.held_max)
    if over.any():
        full = np.zeros(len(touched), dtype=np.bool_)
        full[channel[starts[over]]] = True
        unusual = unusual | full
        fine = ~full[channel]
        which, channel, ready, rank = which[fine], channel[fine], ready[fine], rank[fine]
        duplicate = duplicate[~full[rows.channel[duplicate]]]
    delivered = channel[ready]
    sequence = columns["sequence"][delivered] + rank[ready]
    count = np.bincount(delivered, minlength=len(touched))
    columns["frontier"] = columns["frontier"] + count
    columns["sequence"] = columns["sequence"] + count
    table.exists = table.exists | (touched & ~unusual)
    return _Placed(
        unusual, rows.row[which[ready]], delivered, sequence, which[~ready], rows.row[duplicate]
    )


def _overfull(
    row: Int64s, starts: Int64s, sizes: Int64s, ready: Bools, held_count: int, limit: int
) -> Bools:
    """Which of the channels (beginning at ``starts``) would exceed ``limit`` at some arrival.

    A message leaves the buffer when it and all below it are there: at the latest arrival among
    those. Counting entries and leavings in order of arrival gives the buffer's length at any time.
    """
    count = len(row)
    if int(sizes.max(initial=0)) <= limit:
        return np.zeros(len(starts), dtype=np.bool_)
    group = np.repeat(np.arange(len(starts)), sizes)
    arrived = np.where(row < held_count, NONE, row)
    # Running maximum within each channel: offsets by group keep the channels apart.
    stride = int(row.max()) + 2
    complete = np.maximum.accumulate(arrived + group * stride) - group * stride
    by_arrival = np.lexsort((arrived, group))
    order = np.empty(count, dtype=np.int64)
    order[by_arrival] = np.arange(count)
    change = np.zeros(count, dtype=np.int64)
    np.add.at(change, order, 1)
    leave = np.searchsorted(
        (arrived + group * stride)[by_arrival], (complete + group * stride)[ready]
    )
    np.add.at(change, leave, -1)
    length = np.cumsum(change)
    before = np.concatenate([[0], length])[starts]
    longest: Int64s = np.maximum.reduceat(length, starts) - before
    return longest > limit


class _PlainChannels:
    """Channels that take the plain step in this batch, opened when first needed."""

    def __init__(
        self, table: _Table, old: _Rows, skipped: Skipped, rules: Rules, now_ms: int
    ) -> None:
        self.table = table
        self.old = old
        self.skipped = skipped
        self.rules = rules
        self.now_ms = now_ms
        self.results = Results()
        self.delivered_channel: list[int] = []
        self.channels: dict[int, Channel] = {}

    def take(self, code: Int64s, place: Int64s, epoch: Int64s, row: Int64s, fin: Bools) -> None:
        """Feed rows, in order of arrival, to their channels."""
        columns = (code.tolist(), place.tolist(), epoch.tolist(), row.tolist(), fin.tolist())
        for each, at, its_epoch, its_row, its_fin in zip(*columns, strict=True):
            channel = self.channels.get(each)
            if channel is None:
                channel = self._open(each, _of_channel(self.old, each))
            channel.arrive(at, its_epoch, its_row, self.now_ms, fin=its_fin)
            self._tag(each)

    def expire(self, quiet: _Rows) -> Bools:
        """Apply the gap policy; ``quiet`` are the held messages of the channels not opened yet.

        Returns a mask of the channels that were opened for it.
        """
        due = np.zeros(len(self.table.keys), dtype=np.bool_)
        if self.rules.gap is Gap.WAIT:
            return due
        for code, channel in self.channels.items():
            channel.expire(self.now_ms)
            self._tag(code)
        old_enough = quiet.since_ms <= self.now_ms - self.rules.gap_after_ms
        due[quiet.channel[old_enough]] = True
        for code in np.flatnonzero(due).tolist():
            self._open(code, _of_channel(quiet, code)).expire(self.now_ms)
            self._tag(code)
        return due

    def _tag(self, code: int) -> None:
        """Note whose the deliveries since the last call are."""
        more = len(self.results.delivered) - len(self.delivered_channel)
        self.delivered_channel.extend([code] * more)

    def _open(self, code: int, held: _Rows) -> Channel:
        table = self.table
        channel = Channel(table.keys[code].as_py(), self.rules, self.results)
        channel.exists = bool(table.exists[code])
        if channel.exists:
            for name in COLUMNS:
                setattr(channel, name, int(table.columns[name][code]))
        first, stop = np.searchsorted(self.skipped.channel, [code, code + 1])
        channel.skipped = list(
            zip(
                self.skipped.first[first:stop].tolist(),
                self.skipped.stop[first:stop].tolist(),
                strict=True,
            )
        )
        columns = (
            held.position.tolist(),
            held.row.tolist(),
            held.since_ms.tolist(),
            held.fin.tolist(),
        )
        channel.held = {
            position: Waiting(row, since_ms, fin)
            for position, row, since_ms, fin in zip(*columns, strict=True)
        }
        self.channels[code] = channel
        return channel

    def close(self) -> tuple[_Rows, Skipped]:
        """Write the channels back into the table; what they hold, and all given-up ranges."""
        if not self.channels:
            return self.old.take(slice(0)), self.skipped
        columns = self.table.columns
        held: list[tuple[int, int, int, int, bool]] = []
        ranges: list[tuple[int, int, int]] = []
        for code in sorted(self.channels):
            channel = self.channels[code]
            self.table.exists[code] = channel.exists
            for name in COLUMNS:
                columns[name][code] = getattr(channel, name)
            ranges.extend((code, first, stop) for first, stop in channel.skipped)
            held.extend(
                (message.row, code, position, message.since_ms, message.fin)
                for position, message in sorted(channel.held.items())
            )
        opened = np.zeros(len(self.table.keys), dtype=np.bool_)
        opened[list(self.channels)] = True
        kept = ~opened[self.skipped.channel]
        more = np.array(ranges, dtype=np.int64).reshape(-1, 3)
        channel_of = np.concatenate([self.skipped.channel[kept], more[:, 0]])
        order = np.argsort(channel_of, kind="stable")
        skipped = Skipped(
            channel_of[order],
            np.concatenate([self.skipped.first[kept], more[:, 1]])[order],
            np.concatenate([self.skipped.stop[kept], more[:, 2]])[order],
        )
        numbers = np.array(held, dtype=np.int64).reshape(-1, 5)
        row, channel_at, position, since_ms, fin = numbers.T
        rows = _Rows(row, channel_at, position, since_ms, fin.astype(np.bool_))
        return rows, skipped


def _close(
    table: _Table,
    plain: _PlainChannels,
    placed: _Placed,
    quiet_held: _Rows,
    reasons: np.ndarray[tuple[int], np.dtype[np.uint8]],
    held_count: int,
    now_ms: int,
    rules: Rules,
) -> Outcome:
    """Put both ways together: the new state and where each record ended."""
    more_held, skipped = plain.close()
    held = _merge(quiet_held, more_held)
    state = ShardState(
        table.keys,
        **table.columns,
        held=Held(held.channel, held.position, held.since_ms, held.fin),
        skipped=skipped,
        clock_ms=now_ms,
    )
    slow = np.array(plain.results.delivered, dtype=np.int64).reshape(-1, 3)
    slow_channel = np.array(plain.delivered_channel, dtype=np.int64)
    channel = np.concatenate([placed.delivered_channel, slow_channel])
    delivered = Delivered(
        np.concatenate([placed.delivered_row, slow[:, 0]]),
        channel,
        np.concatenate([placed.sequence, slow[:, 1]]),
        table.columns["incarnation"][channel],
    )
    rejected_row, rejected_reason = _rejects(reasons, held_count, plain.results)
    state, retired = _retire(state, table.exists, now_ms, rules)
    return Outcome(
        state,
        table.keys,
        delivered,
        rejected_row,
        rejected_reason,
        held.row,
        plain.results.events + retired,
    )


def _rejects(
    reasons: np.ndarray[tuple[int], np.dtype[np.uint8]], held_count: int, results: Results
) -> tuple[Int64s, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    alone = np.flatnonzero(reasons != REJECTED_NOT)
    row = np.concatenate(
        [alone + held_count, np.array([row for row, _ in results.rejected], dtype=np.int64)]
    )
    reason = np.concatenate(
        [reasons[alone], np.array([reason for _, reason in results.rejected], dtype=np.uint8)]
    )
    order = np.argsort(row, kind="stable")
    return row[order], reason[order]


def _retire(
    state: ShardState, exists: Bools, now_ms: int, rules: Rules
) -> tuple[ShardState, list[Event]]:
    """Forget channels that have been idle long enough, and those that never came to exist."""
    idle = exists & (state.active_ms <= now_ms - rules.retire_after_ms)
    idle[state.held.channel] = False
    gone = idle | ~exists
    if not gone.any():
        return state, []
    rows = np.flatnonzero(idle)
    keys = state.keys.take(pa.array(rows)).to_pylist()
    events = [
        Event(
            "retired",
            key,
            int(state.incarnation[row]),
            int(state.epoch[row]),
            int(state.frontier[row]),
            {"sequence": int(state.sequence[row])},
        )
        for key, row in zip(keys, rows.tolist(), strict=True)
    ]
    return state.without(gone), events


def _merge(first: _Rows, second: _Rows) -> _Rows:
    """Both, sorted by (channel, position); of equal ones those of ``first`` come first."""
    if not len(second.row):
        return first
    both = _Rows(
        np.concatenate([first.row, second.row]),
        np.concatenate([first.channel, second.channel]),
        np.concatenate([first.position, second.position]),
        np.concatenate([first.since_ms, second.since_ms]),
        np.concatenate([first.fin, second.fin]),
    )
    return both.take(np.lexsort((both.position, both.channel)))


def _of_channel(rows: _Rows, code: int) -> _Rows:
    """The rows of one channel, of rows sorted by channel."""
    first, stop = np.searchsorted(rows.channel, [code, code + 1])
    return rows.take(np.arange(first, stop))


def _starts(channel: Int64s) -> Int64s:
    """Where each channel begins in a sorted array."""
    if not len(channel):
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.concatenate([[True], channel[1:] != channel[:-1]]))

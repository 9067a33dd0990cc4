"""Operators' commands: labels given up, channels begun at a label or forgotten.

They take effect before a batch's records, one after the other. Each is little work on few channels,
so the plain step does it; only the search for channels that waited long enough is vectorised.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sequencer.channels.outcome import Answer, Delivered, Outcome, Reason, Refusal, Rejected
from sequencer.channels.plain import Channel
from sequencer.channels.rejected import with_plain
from sequencer.channels.rows import Rows, Table, merge
from sequencer.channels.rules import Rules
from sequencer.channels.state import NONE, Held, Int64s, ShardState
from sequencer.channels.unusual import PlainChannels
from sequencer.sorting import order_by

POSITION_MAX = 2**62
"""The farthest position of a command: behind it there is room for all labels that can ever come."""
ABSENT_MAX = 1_000
"""The most ranges that a channel remembers as not coming, until it is their turn."""


class Op(enum.Enum):
    """The operation of a command."""

    SKIP = "skip"
    SEED = "seed"
    RESET = "reset"
    NOT_COMING = "not-coming"


@dataclass(frozen=True, slots=True)
class ChannelCommand:
    """A valid command.

    ``channel`` None: all that have waited ``blocked_ms`` for a label. ``label``, as text: for SEED
    the next label; for SKIP the label up to which missing ones are given up (None: up to the lowest
    held one); for NOT_COMING the end of a range that begins with ``first``, in this ``epoch``.
    ``dry_run``: return the answer without any effect.
    """

    op: Op
    channel: bytes | None
    label: bytes | None = None
    blocked_ms: int = 0
    dry_run: bool = False
    first: bytes | None = None
    epoch: int = 0


PlacedCommand = tuple[int, ChannelCommand]
"""The arrival before which a command to one channel takes effect, and the command."""


def carry_out(
    state: ShardState,
    commands: Sequence[ChannelCommand],
    now_ms: int,
    rules: Rules,
    refused: Mapping[int, Reason],
) -> Outcome:
    """Carry commands out in order; the outcome's rows are the held ones."""
    operations = _Operations(state, commands, max(now_ms, state.clock_ms), rules, refused)
    answers = [operations.carry_out(*each) for each in enumerate(commands)]
    return operations.close(answers)


class _Operations:
    """A shard's channels while commands work on them."""

    def __init__(
        self,
        state: ShardState,
        commands: Sequence[ChannelCommand],
        now_ms: int,
        rules: Rules,
        refused: Mapping[int, Reason],
    ) -> None:
        self.state = state
        self.rules = rules
        names = dict.fromkeys(
            command.channel for command in commands if command.channel is not None
        )
        new, self.rows = _with_names(state.keys, list(names))
        self.table = Table.of(state, new, rules)
        held = state.held
        row = np.arange(len(held))
        self.old = Rows(row, held.channel, held.position, held.since_ms, held.fin)
        self.channels = PlainChannels(
            self.table, self.old, state.skipped, state.runs, rules, now_ms, refused
        )

    def carry_out(self, number: int, command: ChannelCommand) -> Answer:
        """Carry out one command, the one of this number."""
        if command.channel is None:
            of_all = _in_cycle(self.rules, command.label, 0)
            if not self.rules.labels.searched and not _possible(of_all):
                return Answer(refused=Refusal.BAD_LABEL)
            answers = [
                self._to_one(row, number, command) for row in self._blocked(command.blocked_ms)
            ]
            done = [answer for answer in answers if answer.refused is None]
            return Answer(sum(a.channels for a in done), sum(a.given_up for a in done))
        return self._to_one(self.rows[command.channel], number, command)

    def _to_one(self, code: int, number: int, command: ChannelCommand) -> Answer:
        answer = act(self.channels, code, number, command)
        # A channel that begins from now on has another incarnation than the one that a reset ended.
        since_ms = self.channels.channels[code].since_ms
        self.channels.now_ms = max(self.channels.now_ms, since_ms)
        return answer

    def _blocked(self, blocked_ms: int) -> list[int]:
        """Return the channels whose oldest held message arrived this long ago, in table order."""
        since_ms = self.channels.now_ms - blocked_ms
        opened = self.channels.channels
        late = self.old.channel[self.old.since_ms <= since_ms]
        blocked = {code for code in np.unique(late).tolist() if code not in opened}
        for code, channel in opened.items():
            if any(message.since_ms <= since_ms for message in channel.held.values()):
                blocked.add(code)
        return sorted(blocked)

    def close(self, answers: list[Answer]) -> Outcome:
        """Return the state afterwards, and the results."""
        channels = self.channels
        opened = np.zeros(len(self.table.keys), dtype=np.bool_)
        opened[list(channels.channels)] = True
        more, skipped, runs = channels.close()
        held = merge(self.old.take(~opened[self.old.channel]), more)
        columns: dict[str, Any] = self.table.columns
        state = ShardState(
            self.table.keys,
            **columns,
            held=Held(held.channel, held.position, held.since_ms, held.fin),
            skipped=skipped,
            runs=runs,
            clock_ms=channels.clock_ms,
            globs=self.rules.globs,
            delays=self.state.delays,
        ).without(~self.table.exists)
        results = channels.results
        numbers = np.array(results.delivered, dtype=np.int64).reshape(-1, 3)
        delivered = Delivered(
            numbers[:, 0],
            np.array(channels.delivered_channel, dtype=np.int64),
            numbers[:, 1],
            numbers[:, 2],
        )
        return Outcome(
            state,
            self.table.keys,
            delivered,
            with_plain(Rejected.empty(), results),
            np.zeros(len(results.rejected), dtype=np.bool_),
            held.row,
            results.events,
            answers,
            notices=results.notices,
        )


def act(channels: PlainChannels, code: int, number: int, command: ChannelCommand) -> Answer:
    """Carry out a command, the one of this number, on one channel (a row of the table)."""
    channel = channels.open(code)
    known = channel.exists
    if command.op is Op.NOT_COMING:
        answer = _absent(channel, command, channels.now_ms)
    elif command.op is not Op.RESET:
        answer = _passed(channel, command, channels.now_ms)
    else:
        answer = Answer(int(known))
        if known and not command.dry_run:
            channel.forget(number)
    channels.tag(code)
    return replace(answer, known=known)


def _passed(channel: Channel, command: ChannelCommand, now_ms: int) -> Answer:
    stop = _stop(channel, command)
    if isinstance(stop, Refusal):
        return Answer(refused=stop)
    held, first = bool(channel.held), channel.frontier
    settles = channel.start == NONE and (held or stop > first or command.op is Op.SEED)
    if settles:
        first = min(stop, first) if held else stop
    elif stop == first:
        return Answer()
    answer = Answer(1, channel.missing_below(stop, first))
    if not command.dry_run:
        if not channel.exists:
            channel.begin(now_ms)
        if settles:
            channel.begin_at(first, now_ms)
        channel.pass_by(stop, now_ms)
    return answer


def _absent(channel: Channel, command: ChannelCommand, now_ms: int) -> Answer:
    """Give up the missing ones of the labels that will not come."""
    first, stop = (
        _in_cycle(channel.rules, label, channel.frontier)
        for label in (command.first, command.label)
    )
    if first is None or not _possible(first):
        return Answer(refused=Refusal.BAD_LABEL, of_first=True)
    if stop is None or not _possible(stop):
        return Answer(refused=Refusal.BAD_LABEL)
    if channel.exists and command.epoch != channel.epoch:
        return Answer(refused=Refusal.OTHER_EPOCH)
    if not channel.exists or channel.start == NONE:
        return Answer()
    if len(channel.absent) >= ABSENT_MAX:
        return Answer(refused=Refusal.TOO_MANY)
    first, stop = (channel.rules.position(each, channel.frontier) for each in (first, stop))
    given_up = channel.give_up_absent(first, stop, now_ms)
    return Answer(int(given_up > 0), given_up)


def _stop(channel: Channel, command: ChannelCommand) -> int | Refusal:
    """Return the position up to which labels are given up; the frontier if there are none."""
    in_cycle = _in_cycle(channel.rules, command.label, channel.frontier)
    if not _possible(in_cycle):
        return Refusal.BAD_LABEL
    if command.op is Op.SKIP or in_cycle is None:
        return channel.skip_to(in_cycle)
    # A channel that does not exist has no label in the past, not even in a cycle.
    stop = channel.rules.position(in_cycle, channel.frontier) if channel.exists else in_cycle
    if stop <= channel.frontier and channel.start != NONE:
        return Refusal.NOT_AHEAD
    return Refusal.AFTER_FIN if NONE != channel.fin < stop else stop


def _in_cycle(rules: Rules, label: bytes | None, frontier: int) -> int | None:
    """Return a label's position in its cycle; -1 if it is not a label, or too far away."""
    if label is None:
        return None
    text = pa.array([label], pa.binary())
    in_cycle = int(rules.labels.positions(text, rules.search, frontier)[0])
    position = rules.position(in_cycle, frontier)
    return NONE if rules.is_beyond_search(position, frontier) else in_cycle


def _possible(in_cycle: int | None) -> bool:
    return in_cycle is None or 0 <= in_cycle <= POSITION_MAX


def _with_names(keys: pa.Array, names: list[bytes]) -> tuple[pa.Array, dict[bytes, int]]:
    """Return the names that are not among the keys, and each name's row, new ones at the end."""
    rows_or_none = pc.index_in(pa.array(names, pa.binary()), value_set=keys).to_pylist()
    new = [name for name, row in zip(names, rows_or_none, strict=True) if row is None]
    rows = {name: row for name, row in zip(names, rows_or_none, strict=True) if row is not None}
    rows |= {name: len(keys) + at for at, name in enumerate(new)}
    return pa.array(new, pa.binary()), rows


def rows_after(first: Outcome, held_count: int, rows: Mapping[int, Reason]) -> dict[int, Reason]:
    """Renumber rows for a step that begins with the rows that ``first`` left of ``held_count``."""
    if not rows:
        return {}
    after = {row: at for at, row in enumerate(first.held_row.tolist())}
    after |= {row: row - held_count + len(after) for row in rows if row >= held_count}
    return {after[row]: reason for row, reason in rows.items() if row in after}


def joined(first: Outcome, second: Outcome, held_count: int) -> Outcome:
    """Join two outcomes, the second of which began with what the first left of ``held_count``."""

    def before(row: Int64s) -> Int64s:
        """Return the second's rows as rows of both: those held before the first, then arrivals.

        Its notices follow those of the first.
        """
        after = len(first.held_row)
        kept = np.concatenate([first.held_row, [0]])[np.clip(row, 0, after)]
        kept = np.where(row < 0, row - len(first.notices), kept)
        return np.where(row < after, kept, row - after + held_count)

    one, two = first.delivered, second.delivered
    known = len(first.channels)
    order = order_by(np.concatenate([first.rejected.row, before(second.rejected.row)]))
    return Outcome(
        second.state,
        pa.concat_arrays([first.channels, second.channels]),
        Delivered(
            np.concatenate([one.row, before(two.row)]),
            np.concatenate([one.channel, two.channel + known]),
            np.concatenate([one.sequence, two.sequence]),
            np.concatenate([one.incarnation, two.incarnation]),
        ),
        _joined_rejects(first.rejected, second.rejected, before),
        np.concatenate([first.dropped, second.dropped])[order],
        before(second.held_row),
        first.events + second.events,
        first.answers + second.answers,
        second.disorder,
        second.passed,
        [*first.notices, *second.notices],
    )


def _joined_rejects(
    first: Rejected, second: Rejected, before: Callable[[Int64s], Int64s]
) -> Rejected:
    row = np.concatenate([first.row, before(second.row)])
    order = order_by(row)
    gaps = {int(before(np.array([row]))[0]): gap for row, gap in second.gaps.items()}
    return Rejected(
        row[order],
        np.concatenate([first.reason, second.reason])[order],
        np.concatenate([first.incarnation, second.incarnation])[order],
        np.concatenate([first.sequence, second.sequence])[order],
        {**first.gaps, **gaps},
    )

"""A shard's state of its channels, as parallel arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.channels.delays import moved, no_delays
from sequencer.channels.rules import NEVER_MS, Rules
from sequencer.channels.runs import NOT_COMING, Missing, Runs, due_at, found_in, missing_of
from sequencer.custom_labels import Anchors

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

NONE = -1


def _empty() -> Int64s:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Held:
    """Messages that wait for a gap, sorted by (channel, position); parallel arrays.

    ``channel`` is a row of the channel table, ``position`` the label's position (growing without
    end also for cyclic labels), ``since_ms`` the batch time of arrival, ``fin`` the FIN mark. The
    messages themselves stay with the caller, in the same order.
    """

    channel: Int64s
    position: Int64s
    since_ms: Int64s
    fin: Bools

    @classmethod
    def empty(cls) -> Held:
        """Return an object without messages."""
        return cls(_empty(), _empty(), _empty(), np.zeros(0, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.channel)

    def take(self, rows: Int64s | Bools) -> Held:
        """Return the messages at ``rows`` (indices or a mask)."""
        return Held(self.channel[rows], self.position[rows], self.since_ms[rows], self.fin[rows])


@dataclass(frozen=True, slots=True)
class Skipped:
    """Given-up ranges of labels, half-open positions, sorted by (channel, first).

    ``gaps``: the number of gaps in each range; if more than one, it includes the labels delivered
    between. ``incarnation``: its channel's when the (first) gap was announced. ``since_ms``: since
    when messages waited for it; 0 if its channel's rules measure no delays.
    """

    channel: Int64s
    first: Int64s
    stop: Int64s
    incarnation: Int64s
    gaps: Int64s
    since_ms: Int64s

    @classmethod
    def empty(cls) -> Skipped:
        """Return an object without ranges."""
        return cls(*(_empty() for _ in fields(cls)))

    def __len__(self) -> int:
        return len(self.channel)

    def take(self, rows: Int64s | Bools) -> Skipped:
        """Return the ranges at ``rows`` (indices or a mask)."""
        return Skipped(*(getattr(self, each.name)[rows] for each in fields(self)))


@dataclass(frozen=True, slots=True)
class ShardState:
    """All channels of one shard.

    ``keys`` (binary, unique) names the channels; the int64 arrays run parallel to it: ``epoch``,
    ``frontier`` (position below which everything is delivered or given up), ``sequence`` (number of
    the next delivery), ``incarnation`` (batch time at which the channel's state began), ``fin``
    (position of the FIN, -1 before one came), ``active_ms`` (batch time of the last record),
    ``trailing`` (notices behind the last delivery, which took a sequence each), ``start``: the
    position at which its epoch began, -1 where that is not known yet (see `Rules.settle_ms`): then
    ``frontier`` is the lowest position that is held.
    ``rule``: the number of the channel's rules among those whose globs are ``globs``.
    ``runs``: missing labels that were requested or will not come.
    ``delays`` counts them by rule (`sequencer.channels.delays`), where rules measure; else no rows.
    ``anchors``: positions and labels from which a custom sequence without an end is walked again.
    ``clock_ms`` is the latest batch time seen: time never runs backwards for a shard.
    """

    keys: pa.Array
    epoch: Int64s
    frontier: Int64s
    sequence: Int64s
    incarnation: Int64s
    fin: Int64s
    active_ms: Int64s
    start: Int64s
    rule: Int64s
    trailing: Int64s
    held: Held
    skipped: Skipped
    runs: Runs = field(default_factory=Runs.empty)
    clock_ms: int = 0
    globs: tuple[str, ...] = ()
    delays: Int64s = field(default_factory=lambda: no_delays(0))
    anchors: Anchors = ()

    @classmethod
    def empty(cls) -> ShardState:
        """Return a new shard, without channels."""
        numbers: dict[str, Any] = {name: _empty() for name in COLUMNS}
        none = pa.array([], pa.binary())
        return cls(keys=none, held=Held.empty(), skipped=Skipped.empty(), **numbers)

    def __len__(self) -> int:
        return len(self.keys)

    def columns(self) -> dict[str, Int64s]:
        """Return the per-channel numbers by name."""
        return {name: getattr(self, name) for name in COLUMNS}

    def renewed(self, since_ms: int) -> ShardState:
        """Return the state with channels that began before ``since_ms`` beginning anew, then."""
        older = self.incarnation < since_ms
        if not older.any():
            return self
        incarnation = np.where(older, since_ms, self.incarnation)
        return replace(
            self,
            sequence=np.where(older, 0, self.sequence),
            incarnation=incarnation,
            trailing=np.where(older, 0, self.trailing),
            runs=replace(self.runs, incarnation=incarnation[self.runs.channel]),
        )

    def under(self, rules: Rules) -> ShardState:
        """Return the state with each channel's number among these rules."""
        state = self
        if self.globs != rules.globs:
            delays = moved(self.delays, self.globs, rules.globs)
            rule = rules.numbers_of(self.keys)
            state = replace(self, rule=rule, globs=rules.globs, delays=delays)
        if rules.measures != bool(len(state.delays)):
            state = replace(state, delays=no_delays(len(rules.each) if rules.measures else 0))
        return state

    def without(self, gone: Bools) -> ShardState:
        """Return the state without the channels of the mask ``gone``, which hold nothing."""
        keep = ~gone
        kept_row = np.cumsum(keep) - 1
        skipped = self.skipped.take(keep[self.skipped.channel])
        runs = self.runs.take(keep[self.runs.channel])
        numbers: dict[str, Any] = {name: column[keep] for name, column in self.columns().items()}
        return replace(
            self,
            keys=self.keys.filter(pa.array(keep)),
            **numbers,
            held=replace(self.held, channel=kept_row[self.held.channel]),
            skipped=replace(skipped, channel=kept_row[skipped.channel]),
            runs=replace(runs, channel=kept_row[runs.channel]),
        )

    def missing(self, rules: Rules) -> tuple[Missing, Int64s, Int64s]:
        """Return the missing runs that may be requested, their tries, and times of last requests.

        A channel that settles misses none.
        """
        held = self.held
        some = rules.limit("ask_every_ms", self.rule[held.channel]) < NEVER_MS
        some = some & (self.start[held.channel] != NONE)
        columns = (held.channel[some], held.position[some], held.since_ms[some])
        missing = missing_of(*columns, self.frontier).without(self.runs)
        asked = self.runs.take(self.runs.tries != NOT_COMING)
        of = found_in(missing.first, missing.channel, asked)
        same = self.incarnation[missing.channel] == np.append(asked.incarnation, NONE)[of]
        same &= self.epoch[missing.channel] == np.append(asked.epoch, NONE)[of]
        same &= of >= 0
        tries, asked_ms = (np.append(each, 0)[of] for each in (asked.tries, asked.asked_ms))
        return missing, np.where(same, tries, 0), np.where(same, asked_ms, 0)

    def due_ms(self, rules: Rules) -> int | None:
        """Return the batch time from which a step without input would change something.

        None: never. The service sets all timers by this, and `replay` fires them by it.
        """
        state = self.under(rules)
        if state is not self:
            return state.due_ms(rules)
        rules = rules.by_delays(self.delays)
        due: list[int] = []
        idle = np.ones(len(self), dtype=np.bool_)
        idle[self.held.channel] = False
        if idle.any():
            retire_ms = rules.limit("retire_after_ms", self.rule[idle])
            due.append(int((rules.counted(self.active_ms[idle]) + retire_ms).min()))
        if len(self.held):
            wait_ms = rules.limit("wait_ms", self.rule[self.held.channel])
            if rules.settle_ms is not None:
                settles = self.start[self.held.channel] == NONE
                wait_ms = np.where(settles, rules.settle_ms, wait_ms)
            due.append(int((rules.counted(self.held.since_ms) + wait_ms).min()))
        if len(self.held) and rules.asks:
            due_ms = due_at(*self.missing(rules), rules, self.rule)
            due.append(int(due_ms.min(initial=NEVER_MS)))
        return min((at_ms for at_ms in due if at_ms < NEVER_MS), default=None)


COLUMNS = (
    "epoch",
    "frontier",
    "sequence",
    "incarnation",
    "fin",
    "active_ms",
    "start",
    "rule",
    "trailing",
)
assert {each.name for each in fields(ShardState)} >= set(COLUMNS)  # noqa: S101  (a typo guard)

"""One batch over all channels of a shard, vectorised.

The result is that of `plain.Channel` taking one record at a time in order of arrival. Channels in
which nothing unusual happens (one epoch, no FIN, no label outside the window, the buffer never
full) are processed together (`usual`). The others, and those whose gap is due, take the plain step
(`unusual`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.channels.arrivals import Arrivals, judge_alone
from sequencer.channels.commands import (
    ChannelCommand,
    PlacedCommand,
    act,
    carry_out,
    joined,
    rows_after,
)
from sequencer.channels.disorder import Disorder, measure_unsorted
from sequencer.channels.outcome import Answer, ChannelEvent, Delivered, Outcome, Reason, Rejected
from sequencer.channels.rejected import dropped, usual_rejects, with_plain
from sequencer.channels.rows import Passing, Rows, Table, merge, open_table
from sequencer.channels.rules import Rules
from sequencer.channels.runs import NOT_COMING
from sequencer.channels.state import NONE, Bools, Held, Int64s, ShardState
from sequencer.channels.unusual import FAULTLESS, PASSES, PlainChannels
from sequencer.channels.usual import Settled, settle, with_delays
from sequencer.channels.wanted import ask
from sequencer.custom_labels import CustomLabels
from sequencer.sorting import order_by


def step(
    state: ShardState,
    arrivals: Arrivals,
    now_ms: int,
    rules: Rules,
    commands: Sequence[ChannelCommand] = (),
    refused: Mapping[int, Reason] | None = None,
    placed: Sequence[PlacedCommand] = (),
) -> Outcome:
    """Process a batch (perhaps empty) at batch time ``now_ms``, then due gaps and retirements.

    ``commands`` take effect before the arrivals, ``placed`` ones (in order, each to one channel)
    between them; answers are in this order. ``refused``: rows (as in `Outcome`) that cannot be
    delivered; when it is its turn, such a row is rejected and its label given up. Pure: the same
    arguments give the same outcome. Raises GapFailure under the policy FAIL.
    """
    refused = refused or {}
    state = state.under(rules)
    rules = rules.by_delays(state.delays)
    if isinstance(rules.labels, CustomLabels):
        rules.labels.know(state.anchors)
    if not commands:
        outcome = _take(state, arrivals, now_ms, rules, refused, placed)
        return _anchored(ask(outcome, max(now_ms, state.clock_ms), rules), rules)
    held_count = len(state.held)
    first = carry_out(state, commands, now_ms, rules, refused)
    left = rows_after(first, held_count, refused)
    second = _take(first.state, arrivals, now_ms, rules, left, placed, len(commands))
    outcome = ask(joined(first, second, held_count), max(now_ms, first.state.clock_ms), rules)
    return _anchored(outcome, rules)


def _anchored(outcome: Outcome, rules: Rules) -> Outcome:
    """Return the outcome with anchors: labels from which an endless sequence can be walked."""
    if not isinstance(rules.labels, CustomLabels) or not rules.labels.searched:
        return outcome
    search = max(each.search for each in rules.each)
    anchors = rules.labels.anchors(outcome.state.frontier, search)
    return replace(outcome, state=replace(outcome.state, anchors=anchors))


def _take(
    state: ShardState,
    arrivals: Arrivals,
    now_ms: int,
    rules: Rules,
    refused: Mapping[int, Reason],
    placed: Sequence[PlacedCommand],
    number: int = 0,
) -> Outcome:
    now_ms = max(now_ms, state.clock_ms)
    held_count = len(state.held)
    named = [command.channel for _, command in placed]
    table, codes, asked = open_table(state, arrivals.channel, named, rules)
    reasons, in_cycle, epoch = judge_alone(arrivals, codes, table, held_count, rules, placed)
    good = np.flatnonzero(reasons == FAULTLESS)
    code = codes[good]
    alive, passing = good, Passing(good[:0], good[:0])
    if rules.pass_unlabelled:
        alive, passes = np.flatnonzero(reasons >= PASSES), np.flatnonzero(reasons == PASSES)
        passing = Passing(passes + held_count, codes[passes])
    begins = alive[epoch[alive] >= 0]
    _begin_new(table, codes[begins], epoch[begins], now_ms)
    fin = arrivals.fin[good]
    table.find_bases(rules, code, in_cycle[good], state.held.channel)
    position, unusual_row = _positions(table, code, in_cycle[good], epoch[good], fin, state, rules)
    unusual = np.zeros(len(table.keys), dtype=np.bool_)
    unusual[code[unusual_row]] = True
    touched = np.zeros(len(table.keys), dtype=np.bool_)
    touched[codes[alive]] = True
    touched[asked] = unusual[asked] = True
    unusual[state.runs.channel[state.runs.tries == NOT_COMING]] = True
    unusual |= _with_refused(table, state.held.channel, codes, refused)
    unusual &= touched  # of the others, what is held stays unchanged

    rows = Rows(
        np.concatenate([np.arange(held_count), good + held_count]),
        np.concatenate([state.held.channel, code]),
        np.concatenate([state.held.position, position]),
        np.concatenate([state.held.since_ms, np.full(len(good), now_ms)]),
        np.concatenate([state.held.fin, fin]),
    )
    disorder = _disorder(table, rows, held_count, unusual, epoch[good], rules, now_ms)
    settled = settle(table, rows, passing, held_count, touched, unusual, rules, now_ms)
    disorder += settled.disorder
    unusual = settled.unusual
    table.columns["active_ms"][touched & ~unusual] = now_ms

    old = rows.take(slice(held_count))
    plain = PlainChannels(table, old, state.skipped, state.runs, rules, now_ms, refused)
    chosen = np.flatnonzero(np.append(unusual, False)[codes])
    answers: list[Answer] = []
    ends = np.searchsorted(chosen, [*(at for at, _ in placed), len(arrivals)]).tolist()
    for nth, (first, stop) in enumerate(pairwise([0, *ends])):
        some = chosen[first:stop]
        columns = (in_cycle[some], epoch[some], some + held_count, arrivals.fin[some])
        plain.take(codes[some], *columns, reasons[some])
        if nth < len(placed):
            answers.append(act(plain, int(asked[nth]), number + nth, placed[nth][1]))
    reasons[chosen] = FAULTLESS
    reasons[settled.duplicate_row - held_count] = Reason.DUPLICATE
    last = state.sequence - 1 - state.trailing
    rejected = usual_rejects(table, settled, last, codes, reasons, held_count)
    quiet = np.concatenate([settled.held, np.flatnonzero(~touched[old.channel])])
    quiet_held = _held_on(rows, quiet, plain)
    delays = with_delays(state.delays, table, settled, codes, reasons, plain)
    outcome = _close(table, plain, settled, quiet_held, rejected, delays)
    outcome = replace(outcome, dropped=dropped(table, outcome.rejected, codes, held_count, rules))
    return replace(outcome, disorder=disorder, answers=answers)


def _held_on(rows: Rows, row: Int64s, plain: PlainChannels) -> Rows:
    """Return these rows in the order of their channels, without those whose channel is due."""
    held = rows.take(row[order_by(rows.channel[row])])
    due = plain.expire(held)
    return held.take(~due[held.channel]) if due.any() else held


def _begin_new(table: Table, code: Int64s, epoch: Int64s, now_ms: int) -> None:
    """Give new channels the epoch of their first record, for the vectorised way."""
    new = np.flatnonzero(code >= table.known)
    rows, first = np.unique(code[new], return_index=True)
    table.columns["epoch"][rows] = epoch[new[first]]
    table.columns["incarnation"][rows] = now_ms


def _positions(
    table: Table,
    code: Int64s,
    in_cycle: Int64s,
    epoch: Int64s,
    fin: Bools,
    state: ShardState,
    rules: Rules,
) -> tuple[Int64s, Bools]:
    """Return positions of the rows without faults, and which rows make their channel unusual."""
    columns = table.columns
    frontier = table.base[code]
    ahead = in_cycle - frontier
    new = code >= table.known
    unusual = fin | (epoch != columns["epoch"][code]) | (columns["fin"][code] != NONE)
    cycle, window = rules.labels.cycle, table.limit(rules, "window", code)
    if cycle is not None or rules.labels.searched:
        # The most that the frontier moves within this batch.
        moves = np.bincount(code, minlength=len(table.keys))
        moves += np.bincount(state.held.channel, minlength=len(table.keys))
    if cycle is not None:
        # Labels on the same side of the window before and after that are clear, the others take
        # the plain step.
        reach = window + moves[code]
        ahead %= cycle
        past = ahead > reach
        unusual |= ((ahead > window) & ~past) | (reach >= cycle)
        ahead -= np.where(past, cycle, 0)
    if rules.labels.searched:
        # So far behind that it may be beyond the search at its turn.
        unusual |= ahead < moves[code] - table.limit(rules, "search", code)
        unusual |= epoch < 0
    past = ahead < 0
    remembers = columns["start"] > 0
    remembers[state.skipped.channel] = True
    unusual |= (ahead > window) | (past & (new | remembers[code]))
    return frontier + ahead, unusual


def _with_refused(
    table: Table, held_channel: Int64s, codes: Int64s, refused: Mapping[int, Reason]
) -> Bools:
    """Return which channels have a row that cannot be delivered."""
    found = np.zeros(len(table.keys), dtype=np.bool_)
    if refused:
        channel = np.concatenate([held_channel, codes])[list(refused)]
        found[channel[channel >= 0]] = True
    return found


def _disorder(
    table: Table,
    rows: Rows,
    held_count: int,
    unusual: Bools,
    epoch: Int64s,
    rules: Rules,
    now_ms: int,
) -> Disorder:
    """Measure the unusual channels' disorder, for messages of the epoch that they had before."""
    of = np.flatnonzero(unusual[rows.channel])
    if not len(of):
        return Disorder()
    its_epoch = table.columns["epoch"][rows.channel[held_count:]]
    same = np.concatenate([np.ones(held_count, dtype=np.bool_), epoch == its_epoch])
    ahead = rows.position[of] - table.base[rows.channel[of]]
    window = table.limit(rules, "window", rows.channel[of])
    of_epoch = same[of] & (ahead >= 0) & (ahead <= window)
    of, ahead = of[of_epoch], ahead[of_epoch]
    waits_ms = now_ms - rules.counted(rows.since_ms[of])
    return measure_unsorted(rows.channel[of], ahead, rows.row[of], waits_ms, held_count)


def _close(
    table: Table,
    plain: PlainChannels,
    settled: Settled,
    quiet_held: Rows,
    rejected: Rejected,
    delays: Int64s,
) -> Outcome:
    """Join the vectorised and the plain results: the new state and where each record ended."""
    now_ms, rules = plain.now_ms, plain.rules
    more_held, skipped, runs = plain.close()
    held = merge(quiet_held, more_held)
    columns: dict[str, Any] = table.columns
    state = ShardState(
        table.keys,
        **columns,
        held=Held(held.channel, held.position, held.since_ms, held.fin),
        skipped=skipped,
        runs=runs,
        clock_ms=plain.clock_ms,
        globs=rules.globs,
        delays=delays,
    )
    slow = np.array(plain.results.delivered, dtype=np.int64).reshape(-1, 3)
    slow_channel = np.array(plain.delivered_channel, dtype=np.int64)
    channel = np.concatenate([settled.delivered_channel, slow_channel])
    order = order_by(channel) if len(slow) else slice(None)
    channel = channel[order]
    incarnation = table.columns["incarnation"][settled.delivered_channel]
    delivered = Delivered(
        np.concatenate([settled.delivered_row, slow[:, 0]])[order],
        channel,
        np.concatenate([settled.sequence, slow[:, 1]])[order],
        np.concatenate([incarnation, slow[:, 2]])[order],
    )
    state, retired = _retire(state, table.exists, now_ms, rules)
    return Outcome(
        state,
        table.keys,
        delivered,
        with_plain(rejected, plain.results),
        np.zeros(0, dtype=np.bool_),
        held.row,
        plain.results.events + retired,
        passed=settled.passed + plain.results.passed,
        notices=plain.results.notices,
    )


def _retire(
    state: ShardState, exists: Bools, now_ms: int, rules: Rules
) -> tuple[ShardState, list[ChannelEvent]]:
    """Forget channels that have been idle long enough, and those that never existed."""
    retire_ms = rules.limit("retire_after_ms", state.rule)
    idle = exists & (rules.waited(state.active_ms, now_ms) >= retire_ms)
    idle[state.held.channel] = False
    gone = idle | ~exists
    if not gone.any():
        return state, []
    rows = np.flatnonzero(idle)
    keys = state.keys.take(pa.array(rows)).to_pylist()
    events = [
        ChannelEvent(
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

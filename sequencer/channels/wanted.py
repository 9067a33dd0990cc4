"""Requests for missing labels: a function of the state after a batch and of the batch's time.

A request moves no frontier: the sender sends the labels again, or declares them lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from sequencer.channels.outcome import ChannelEvent, Outcome, Reason, Want
from sequencer.channels.rules import NEVER_MS, Rules
from sequencer.channels.runs import NOT_COMING, Missing, Runs, due_at, found_in
from sequencer.channels.state import NONE, Int64s, ShardState
from sequencer.sorting import order_by

WANTED_MAX = 1_000
"""The most runs that a shard requests in one batch, the longest due first; the others follow in the
next batches."""

ANSWERS = ("not-coming", *(reason.text for reason in (Reason.TOO_LARGE, Reason.REFUSED)))
"""Reasons for giving up requested labels that were declared lost, or that arrived."""


def ask(outcome: Outcome, now_ms: int, rules: Rules) -> Outcome:
    """Return the outcome of a batch with the runs to request.

    ``now_ms``: the batch's time. ``rules`` are those of the state, with the batch's gap times.
    """
    state = outcome.state
    if not rules.asks:
        absent = state.runs.tries == NOT_COMING
        if absent.all():
            return outcome
        return replace(outcome, state=replace(state, runs=state.runs.take(absent)))
    missing, tries, asked_ms = state.missing(rules)
    answered = _answered(state, missing, outcome.events, rules)
    due_ms = due_at(missing, tries, asked_ms, rules, state.rule)
    chosen = np.flatnonzero(due_ms <= now_ms)
    if len(chosen) > WANTED_MAX:
        chosen = np.sort(chosen[order_by(due_ms[chosen])[:WANTED_MAX]])
    tries[chosen] += 1
    asked_ms[chosen] = now_ms
    known = np.flatnonzero(tries)
    some = missing.take(known)
    runs = Runs(
        some.channel,
        some.first,
        some.stop,
        state.incarnation[some.channel],
        state.epoch[some.channel],
        tries[known],
        asked_ms[known],
    )
    absent = state.runs.take(state.runs.tries == NOT_COMING)
    state = replace(state, runs=runs.merged(absent))
    wanted = _wants(state, missing.take(chosen), tries[chosen], rules)
    return replace(outcome, state=state, wanted=wanted, answered=answered)


def _wants(state: ShardState, missing: Missing, tries: Int64s, rules: Rules) -> list[Want]:
    columns = (missing.channel, missing.first, missing.stop, tries)
    label = rules.labels.at
    return [
        Want(state.keys[row].as_py(), int(state.epoch[row]), label(first), label(stop), number)
        for row, first, stop, number in zip(*(each.tolist() for each in columns), strict=True)
    ]


def _answered(
    state: ShardState, missing: Missing, events: Iterable[ChannelEvent], rules: Rules
) -> int:
    """Return how many requested labels arrived, or were declared lost.

    They are no longer missing, and were not given up for another reason. Labels of a forgotten
    channel, of one whose rules do not request any more, or beyond a FIN, do not count.
    """
    asked = state.runs.take(state.runs.tries != NOT_COMING)
    asked = asked.take(asked.incarnation == state.incarnation[asked.channel])
    still_requests = rules.limit("ask_every_ms", state.rule[asked.channel]) < NEVER_MS
    asked = asked.take(np.broadcast_to(still_requests, len(asked)))
    if not len(asked):
        return 0
    now = asked.epoch == state.epoch[asked.channel]
    fin = state.fin[asked.channel]
    stop = np.where(now & (fin != NONE), np.minimum(asked.stop, fin + 1), asked.stop)
    gaps, ends = _given_up(events), _ends(events)
    places: list[tuple[bytes, int]] = []
    if gaps or ends:
        keys = state.keys.take(asked.channel).to_pylist()
        places = list(zip(keys, asked.epoch.tolist(), strict=True))
    for row, place in enumerate(places):
        stop[row] = min(stop[row], ends.get(place, stop[row]))
    answered = np.maximum(stop - asked.first, 0)
    of = found_in(missing.first, missing.channel, asked)
    still = (of >= 0) & np.append(now, np.False_)[of]
    np.subtract.at(answered, of[still], (missing.stop - missing.first)[still])
    for row, place in enumerate(places):
        ranges = gaps.get(place, ())
        first, end = int(asked.first[row]), int(stop[row])
        at = max(0, bisect_right(ranges, (first, first)) - 1)
        while at < len(ranges) and ranges[at][0] < end:
            begin, behind = ranges[at]
            answered[row] -= max(0, min(end, behind) - max(first, begin))
            at += 1
    return int(answered.sum())


def _given_up(
    events: Iterable[ChannelEvent],
) -> Mapping[tuple[bytes, int], list[tuple[int, int]]]:
    """Return, by channel and epoch, the ranges that were given up while they were requested.

    They ascend, and do not overlap.
    """
    found: dict[tuple[bytes, int], list[tuple[int, int]]] = {}
    for event in events:
        if event.kind == "gap" and event.fields["reason"] not in ANSWERS:
            stop = event.position + int(event.fields["count"])
            found.setdefault((event.channel, event.epoch), []).append((event.position, stop))
    return {place: sorted(ranges) for place, ranges in found.items()}


def _ends(events: Iterable[ChannelEvent]) -> Mapping[tuple[bytes, int], int]:
    """Return, by channel and epoch, the position behind the FIN that was delivered."""
    return {(e.channel, e.epoch): e.position + 1 for e in events if e.kind == "fin"}

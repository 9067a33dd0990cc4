"""What a shard knows of its channels, for people and programs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from sequencer.channels import Rules
from sequencer.channels.runs import NOT_COMING
from sequencer.channels.state import NONE
from sequencer.labels import Labels, label_or_none
from streaming.arrow.key_text import key_to_json
from streaming.arrow.output import at
from streaming.disciplines.channels.codec import ChannelShard

Range = tuple[int | str, int | str]


def describe(shard: ChannelShard, rules: Rules) -> Iterator[dict[str, Any]]:
    """A dictionary for each channel; ranges of labels are half-open.

    ``channel``: as `key_text.key_to_json` has it. ``next``: the label that is delivered next,
    None while the first one is waited for, and behind the last one of a sequence that ends.
    ``missing``: ranges that held messages wait for. ``given_up``: ranges that were skipped and are
    remembered. ``held_since``, ``active``: RFC 3339. ``rule``: the glob of the channel's rules,
    None for those of the pipeline; ``gap_after_ms``: how long its gaps are waited for now, None for
    ever.
    """
    state, labels = shard.state, rules.labels
    held = _by_channel(state.held.channel, state.held.position, state.held.since_ms)
    skipped = _by_channel(state.skipped.channel, state.skipped.first, state.skipped.stop)
    runs, absent = state.runs, state.runs.tries == NOT_COMING
    asked = _by_channel(*(c[~absent] for c in (runs.channel, runs.first, runs.stop, runs.tries)))
    absent_runs = _by_channel(*(c[absent] for c in (runs.channel, runs.first, runs.stop)))
    columns = {name: column.tolist() for name, column in state.columns().items()}
    rule = rules.numbers_of(state.keys).tolist()
    waits = [each.gap.after_ms for each in rules.by_delays(state.under(rules).delays).each]
    for row, key in enumerate(state.keys.to_pylist()):
        frontier, fin = columns["frontier"][row], columns["fin"][row]
        waiting = held.get(row, [])
        yield {
            "channel": key_to_json(key),
            "epoch": columns["epoch"][row],
            "next": None if columns["start"][row] == NONE else label_or_none(labels, frontier),
            "sequence": columns["sequence"][row],
            "incarnation": columns["incarnation"][row],
            "held": len(waiting),
            "held_since": at(min(since for _, since in waiting)) if waiting else None,
            "missing": _missing(frontier, [position for position, _ in waiting], labels),
            "given_up": [(labels.at(a), label_or_none(labels, b)) for a, b in skipped.get(row, [])],
            "asked": [(labels.at(a), labels.at(b), n) for a, b, n in asked.get(row, [])],
            "not_coming": [(labels.at(a), labels.at(b)) for a, b in absent_runs.get(row, [])],
            "ended": fin != NONE and frontier > fin,
            "active": at(columns["active_ms"][row]),
            "rule": rules.glob_of(rule[row]),
            "gap_after_ms": waits[rule[row]],
        }


def _by_channel(
    channel: np.ndarray[Any, Any], *columns: np.ndarray[Any, Any]
) -> dict[int, list[tuple[int, ...]]]:
    rows = zip(*(column.tolist() for column in (channel, *columns)), strict=True)
    return {code: [entry[1:] for entry in run] for code, run in groupby(rows, lambda row: row[0])}


def _missing(frontier: int, positions: list[int], labels: Labels) -> list[Range]:
    """The ranges between the frontier and the last of some positions, which ascend."""
    runs = []
    for position in positions:
        if position > frontier:
            runs.append((labels.at(frontier), labels.at(position)))
        frontier = position + 1
    return runs

"""What a shard knows of its subscribers, for people and programs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from sequencer.groups.network.tables import pair_names, present_overlaps
from streaming.arrow.output import at
from streaming.disciplines.groups.network.core import NetworkCore


def describe(core: NetworkCore) -> list[dict[str, Any]]:
    """A dictionary for each subscriber that ever got something, is in a group, or waits.

    ``groups``: those that it is in; ``overlaps`` of them, with the next numbers that the subscriber
    is to get of each. ``waiting``: group and `group-sequence` of the messages that
    are held for it. ``active``: when it got something last (RFC 3339).
    """
    tables, receivers = core.net.tables, core.net.receivers
    groups: dict[str, set[str]] = {name: set() for name in core.known}
    for name, members in core.net.directory.groups.items():
        for subscriber in set(members) & set(tables.subscribers):
            groups.setdefault(subscriber, set()).add(name)
    waiting: dict[str, list[tuple[str, int]]] = {}
    held = receivers.held
    places = tables.places(held.line)
    of_held = tables.members.take(places)
    for at_held, who in zip(of_held.owners().tolist(), of_held.values.tolist(), strict=True):
        if not held.last[at_held]:
            messages = waiting.setdefault(tables.subscribers[who], [])
            messages.append((tables.group[places[at_held]], int(held.number[at_held])))
    for name in waiting:  # it may have left before it got anything
        groups.setdefault(name, set())
    numbers = _numbers(core)
    described = []
    for name in sorted(groups):
        pairs = combinations(sorted(groups[name]), 2)
        count = core.known.get(name)
        described.append(
            {
                "subscriber": name,
                "groups": sorted(groups[name]),
                "overlaps": [(*pair, numbers[pair]) for pair in pairs if pair in numbers],
                "sequence": 0 if count is None else count.sequence,
                "incarnation": None if count is None else count.incarnation,
                "held": len(waiting.get(name, ())),
                "waiting": sorted(waiting.get(name, ())),
                "active": None if count is None else at(count.last_ms),
            }
        )
    return described


def _numbers(core: NetworkCore) -> dict[tuple[str, str], int]:
    """The next numbers of double overlaps that a subscriber of this shard is in."""
    tables = core.net.tables
    atoms = present_overlaps(tables, core.net.directory)
    atoms = atoms[tables.here[atoms]]
    numbers = core.net.receivers.atom_next[atoms].tolist()
    return dict(zip(pair_names(tables, atoms), numbers, strict=True))

"""Who waits in a shard of the network, and for what: line by line, as all members get a message."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sequencer.groups.network.shard import GroupShard
from sequencer.groups.network.tables import Tables
from streaming.disciplines.waiting import WAITING_MAX, Wait


def lines_waiting(net: GroupShard, before: Mapping[int, Wait], now_ms: int) -> dict[int, Wait]:
    """Return for each line with messages that are held here what the first of them waits for.

    ``before``: the same after the batch before.
    """
    held = net.receivers.held
    if not len(held):
        return {}
    messages = np.flatnonzero(~held.last)
    order = messages[np.lexsort((held.number[messages], held.line[messages]))]
    lines, first, counts = np.unique(held.line[order], return_index=True, return_counts=True)
    found = {}
    for line, at, count in zip(lines.tolist(), order[first].tolist(), counts.tolist(), strict=True):
        awaited, known = _awaited(net, at), before.get(line)
        since_ms = known.since_ms if known and known.awaited == awaited else now_ms
        found[line] = Wait(since_ms, awaited, count)
    return found


def who_waits(tables: Tables, lines: Mapping[int, Wait]) -> dict[bytes, Wait]:
    """Return the subscribers of these lines, at least those that have waited longest.

    For one in several lines: the longest wait, and all that is held.
    """
    waits: dict[bytes, Wait] = {}
    for line, wait in sorted(lines.items(), key=lambda each: (each[1].since_ms, each[0])):
        place = tables.places(np.array([line]))
        for who in tables.members.take(place).values.tolist():
            name = tables.subscribers[who].encode()
            if name in waits:
                waits[name] = waits[name]._replace(held=waits[name].held + wait.held)
            elif len(waits) < WAITING_MAX:
                waits[name] = wait
    return waits


def _awaited(net: GroupShard, at: int) -> str:
    """What the message ``at`` of those held waits for: the first that fits.

    The message before it in its group or in an overlap, by its number, or the end of a version.
    """
    tables, receivers, held = net.tables, net.receivers, net.receivers.held
    (place,) = tables.places(held.line[[at]]).tolist()
    following = int(receivers.line_next[place])
    if held.number[at] > following:
        return f"{tables.group[place]} {following}"
    one = slice(held.atom.bounds[at], held.atom.bounds[at + 1])
    atoms = np.searchsorted(tables.atom, held.atom.values[one])
    for atom, stamp in zip(atoms.tolist(), held.stamp.values[one].tolist(), strict=True):
        if tables.here[atom] and stamp > receivers.atom_next[atom]:
            pair = "+".join(tables.group[each] for each in tables.pair_lines[atom].tolist())
            return f"{pair} {receivers.atom_next[atom]}"
    view = int(tables.view[place])
    after = {number: each.after for number, each in net.directory.views.items()}
    for other in sorted(receivers.waits_for(view, tables, after)):
        return f"the end of version {tables.view[other]} of {tables.group[other]}"
    return f"{tables.group[place]} {following}"

"""The receivers of a shard: what comes next in each line and atom, and what they hold.

A message is delivered, to all its subscribers of the shard at once, when its numbers are the next
ones: that of its group, and those of all overlaps that some subscriber of the shard is in. For a
single subscriber that may ask more than it needs, never less; all of it is always on its way, so
nothing waits for ever. In return a shard decides once for a message, not once for each subscriber.

`membership.Subscriber` is the definition for one subscriber, message by message;
tests/sequencer/groups/network/test_both_forms.py holds both together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from sequencer.groups.network.hops import Hops
from sequencer.groups.network.tables import Tables
from sequencer.ragged import Ints, Ragged
from sequencer.sorting import order_by, ranks


@dataclass(slots=True)
class Receivers:
    """``line_next``, ``atom_next`` and ``open`` go with the lines and atoms of the tables.

    ``open``: lines with subscribers here whose last message is still to come. ``after``: for each
    view the lines that must end before it begins.
    """

    line_next: Ints
    atom_next: Ints
    open: NDArray[np.bool_]
    held: Hops = field(default_factory=Hops.empty)

    def take(self, arrived: Hops, tables: Tables, after: dict[int, tuple[int, ...]]) -> Hops:
        """Take messages (position DELIVER); what is delivered now, in order, last ones included."""
        both = Hops.concat([self.held, arrived])
        if not len(both):
            return both
        place = tables.places(both.line)
        atoms, stamps = _here(both, tables)
        if not len(self.held) and self._all_next(both, place, atoms, stamps, tables, after):
            self.line_next += np.bincount(place, minlength=len(self.line_next))
            self.atom_next += np.bincount(atoms.values, minlength=len(self.atom_next))
            self.open[place[both.last]] = False
            return both
        search = _Search(self, both, place, atoms, stamps)
        for view in np.unique(tables.view[place]).tolist():
            search.wait(view, tables, self.waits_for(view, tables, after))
        order = search.run()
        self.line_next += np.bincount(place[order], minlength=len(self.line_next))
        numbered = atoms.take(order).values
        self.atom_next += np.bincount(numbered, minlength=len(self.atom_next))
        self.open[place[order[both.last[order]]]] = False
        taken = np.zeros(len(both), dtype=np.bool_)
        taken[order] = True
        self.held = both.take(np.flatnonzero(~taken))
        return both.take(order)

    def _all_next(
        self,
        both: Hops,
        place: Ints,
        atoms: Ragged,
        stamps: Ragged,
        tables: Tables,
        after: dict[int, tuple[int, ...]],
    ) -> bool:
        """Return whether all of them can be delivered as they come."""
        if both.last.any():
            return False
        if any(self.waits_for(view, tables, after) for view in np.unique(tables.view[place])):
            return False
        rank, _, _ = ranks(place)
        if not np.array_equal(both.number, self.line_next[place] + rank):
            return False
        rank, _, _ = ranks(atoms.values)
        return bool(np.array_equal(stamps.values, self.atom_next[atoms.values] + rank))

    def waits_for(self, view: int, tables: Tables, after: dict[int, tuple[int, ...]]) -> set[int]:
        """The lines, by place, that have to end before a view begins here."""
        lines = np.array(after.get(int(view), ()), dtype=np.int64)
        lines = lines[np.isin(lines, tables.line)]  # others have ended long ago
        places = tables.places(lines)
        return set(places[self.open[places]].tolist())


class _Search:
    """A search for what can be delivered: messages after those before them in line and atoms.

    Of several that can be delivered it takes the one that came first. Where one shard numbers all
    messages they can be delivered as they come, and a sender's order holds across groups.

    ``left`` counts for each message the numbers that are not next yet; ``behind`` lists for each
    message those that have one of its numbers plus one.
    """

    def __init__(
        self, receivers: Receivers, both: Hops, place: Ints, atoms: Ragged, stamps: Ragged
    ) -> None:
        count = len(both)
        owner = np.concatenate((np.arange(count), atoms.owners()))
        counter = np.concatenate((place, atoms.values + len(receivers.line_next)))
        number = np.concatenate((both.number, stamps.values))
        following = np.concatenate((receivers.line_next, receivers.atom_next))
        order = order_by(counter, number)
        owner, counter, number = owner[order], counter[order], number[order]
        same = counter[1:] == counter[:-1]
        chained = np.flatnonzero(same & (number[1:] == number[:-1] + 1)) + 1
        ready = number == following[counter]
        self.left = np.bincount(owner[~ready], minlength=count).tolist()
        before, after = owner[chained - 1], owner[chained]
        order = order_by(before)
        self.behind = after[order].tolist()
        counts = np.bincount(before, minlength=count)
        self.bounds = np.concatenate(([0], np.cumsum(counts))).tolist()
        self.place = place
        self.last = both.last.tolist()
        self.ends: dict[int, list[tuple[set[int], list[int]]]] = {}

    def wait(self, view: int, tables: Tables, lines: set[int]) -> None:
        """The view's messages wait until these lines have ended."""
        if lines:
            held = np.flatnonzero(tables.view[self.place] == view).tolist()
            for n in held:
                self.left[n] += 1
            for line in lines:
                self.ends.setdefault(line, []).append((lines, held))

    def run(self) -> Ints:
        """The messages that can be delivered, in order."""
        left, behind, bounds = self.left, self.behind, self.bounds
        order: list[int] = []
        ready = [n for n, count in enumerate(left) if not count]  # sorted, so a heap
        while ready:
            n = heappop(ready)
            order.append(n)
            for other in behind[bounds[n] : bounds[n + 1]]:
                left[other] -= 1
                if not left[other]:
                    heappush(ready, other)
            if self.last[n]:
                for other in self._ended(int(self.place[n])):
                    left[other] -= 1
                    if not left[other]:
                        heappush(ready, other)
        return np.array(order, dtype=np.int64)

    def _ended(self, line: int) -> list[int]:
        """The messages of views that waited for this line last."""
        freed: list[int] = []
        for lines, held in self.ends.pop(line, []):
            lines.discard(line)
            if not lines:
                freed += held
        return freed


def _here(hops: Hops, tables: Tables) -> tuple[Ragged, Ragged]:
    """The places of the atoms that concern this shard, and their numbers."""
    place = np.searchsorted(tables.atom, hops.atom.values).astype(np.int64)
    keep = tables.here[place] if len(place) else np.zeros(0, np.bool_)
    lengths = np.bincount(hops.atom.owners()[keep], minlength=len(hops))
    bounds = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return Ragged(bounds, place[keep]), Ragged(bounds, hops.stamp.values[keep])

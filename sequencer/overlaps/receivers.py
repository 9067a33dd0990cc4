"""The receivers of a shard: what comes next in each line and atom, and what they hold.

A message is delivered, to all its subscribers of the shard at once, when its numbers are the next
ones: that of its group, and those of all overlaps that some subscriber of the shard is in. For a
single subscriber that may ask more than it needs, never less; all of it is always on its way, so
nothing waits for ever. In return a shard decides once for a message, not once for each subscriber.

`membership.Subscriber` is the definition for one subscriber; the tests hold both together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sequencer.overlaps.hops import Hops, ranks
from sequencer.overlaps.tables import Ints, Ragged, Tables


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
        order = _Search(self, tables, after, both, place, atoms, stamps).run()
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
        """Whether all of them can be delivered as they come."""
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
    """Delivers one message after the other, looking only at what a delivery may have freed.

    Of several that can be delivered it takes the one that came first. Where one shard numbers all
    messages they can be delivered as they come, and a sender's order holds across groups.
    """

    def __init__(
        self,
        receivers: Receivers,
        tables: Tables,
        after: dict[int, tuple[int, ...]],
        both: Hops,
        place: Ints,
        atoms: Ragged,
        stamps: Ragged,
    ) -> None:
        self.receivers = receivers
        self.tables = tables
        self.line = place.tolist()
        self.last = both.last.tolist()
        self.view = tables.view[place].tolist()
        bounds = atoms.bounds.tolist()
        pairs = list(zip(atoms.values.tolist(), stamps.values.tolist(), strict=True))
        self.stamps = [pairs[a:b] for a, b in pairwise(bounds)]
        self.line_next = receivers.line_next.tolist()
        self.atom_next = receivers.atom_next.tolist()
        self.lines_of = tables.pair_lines.tolist()
        self.waits = {v: receivers.waits_for(v, tables, after) for v in dict.fromkeys(self.view)}
        self.at: dict[int, dict[int, int]] = {}
        for n, (line, number) in enumerate(zip(self.line, both.number.tolist(), strict=True)):
            self.at.setdefault(line, {})[number] = n

    def run(self) -> Ints:
        """The messages that can be delivered, in order; the receivers are up to date then."""
        order: list[int] = []
        look = [n for line in dict.fromkeys(self.line) if (n := self._next(line)) is not None]
        heapify(look)
        while look:
            n = heappop(look)
            if self._next(self.line[n]) == n and self._can_go(n):
                order.append(n)
                for line in self._deliver(n):
                    if (found := self._next(line)) is not None:
                        heappush(look, found)
        self.receivers.line_next = np.array(self.line_next, dtype=np.int64)
        self.receivers.atom_next = np.array(self.atom_next, dtype=np.int64)
        return np.array(order, dtype=np.int64)

    def _next(self, line: int) -> int | None:
        """The next message of a line, if it is here."""
        return self.at.get(line, {}).get(self.line_next[line])

    def _can_go(self, n: int) -> bool:
        if self.waits[self.view[n]]:
            return False
        following = self.atom_next
        return all(following[atom] == stamp for atom, stamp in self.stamps[n])

    def _deliver(self, n: int) -> list[int]:
        """Count a delivery; the lines whose next message it may have freed."""
        line = self.line[n]
        freed = [line]
        self.line_next[line] += 1
        for atom, stamp in self.stamps[n]:
            self.atom_next[atom] = stamp + 1
            first, second = self.lines_of[atom]
            freed.append(second if first == line else first)
        if self.last[n]:
            self.receivers.open[line] = False
            for view, lines in self.waits.items():
                if line in lines:
                    lines.discard(line)
                    freed += [at for at in self.at if self.tables.view[at] == view]
        return freed


def _here(hops: Hops, tables: Tables) -> tuple[Ragged, Ragged]:
    """The places of the atoms that concern this shard, and their numbers."""
    place = np.searchsorted(tables.atom, hops.atom.values).astype(np.int64)
    keep = tables.here[place] if len(place) else np.zeros(0, np.bool_)
    lengths = np.bincount(hops.atom.owners()[keep], minlength=len(hops))
    bounds = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return Ragged(bounds, place[keep]), Ragged(bounds, hops.stamp.values[keep])

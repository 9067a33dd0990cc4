"""Knots in "delivered before": where no single order of all messages can exist.

The relation is kept as it was observed: one row of messages per receiver (each message comes
before everything later in its row) and optional cause edges. An order of all messages exists if
and only if the graph of neighbours in the rows and of cause edges has no cycle, so the search
for knots is linear in the deliveries; only inside a knot is more work done, to find a witness
that a person can read.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

SEARCH_STEPS_MAX = 2_000_000
"""Bound on the work spent on making a cycle as short as possible."""


SMALL = 100
"""Up to this many messages a graph is sorted in plain Python first."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a cycle: `first` comes before `second`.

    `receiver` is the row where it does, or -1 if `first` is a cause of `second`. All three are
    positions in the lists of the graph that gave the hop.
    """

    first: int
    second: int
    receiver: int


@dataclass(frozen=True, slots=True)
class Knot:
    """A strongly connected part: every message in it comes before every other one.

    `rows` holds (receiver, messages of the knot in the receiver's order) for receivers with two
    or more of them; `effects` maps a message to those that it caused.
    """

    rows: tuple[tuple[int, list[int]], ...]
    effects: dict[int, list[int]]

    def occurrences(self) -> dict[int, list[tuple[int, int]]]:
        """For each message the (row, position in the row) of every row that has it."""
        occurrences: dict[int, list[tuple[int, int]]] = {}
        for number, (_, row) in enumerate(self.rows):
            for position, message in enumerate(row):
                occurrences.setdefault(message, []).append((number, position))
        return occurrences


class DeliveryGraph:
    """Histories and causes with messages and receivers as numbers.

    A message that a receiver got several times counts where it came first. Memory and time are
    linear in the deliveries and causes. Raises ValueError for a message that causes itself.
    """

    def __init__(
        self,
        histories: Mapping[Any, Sequence[Any]],
        causes: Iterable[tuple[Any, Any]] = (),
    ) -> None:
        numbers: dict[Hashable, int] = {}
        self.receivers: list[Hashable] = list(histories)
        self.rows: list[NDArray[np.int64]] = [
            np.fromiter(
                (numbers.setdefault(m, len(numbers)) for m in dict.fromkeys(history)), np.int64
            )
            for history in histories.values()
        ]
        edges = [
            (numbers.setdefault(cause, len(numbers)), numbers.setdefault(effect, len(numbers)))
            for cause, effect in causes
        ]
        self.causes: NDArray[np.int64] = np.array(edges, np.int64).reshape(-1, 2)
        self.messages: list[Hashable] = list(numbers)
        self_caused = self.causes[self.causes[:, 0] == self.causes[:, 1], 0]
        if self_caused.size:
            raise ValueError(f"{self.messages[self_caused[0]]!r} is given as its own cause")

    def knots(self) -> list[Knot]:
        """The strongly connected parts of two or more messages, smallest first."""
        from scipy.sparse import coo_matrix  # noqa: PLC0415  (two tenths of a second)
        from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

        size = len(self.messages)
        if size <= SMALL and self._sorts():
            return []
        sources = np.concatenate([self.causes[:, 0], *(row[:-1] for row in self.rows)])
        targets = np.concatenate([self.causes[:, 1], *(row[1:] for row in self.rows)])
        graph = coo_matrix((np.ones(len(sources), np.int8), (sources, targets)), (size, size))
        count, part = connected_components(graph.tocsr(), directed=True, connection="strong")
        sizes = np.bincount(part, minlength=count)
        if not (sizes > 1).any():
            return []
        rows: dict[int, list[tuple[int, list[int]]]] = {}
        for receiver, row in enumerate(self.rows):
            tied = row[sizes[part[row]] > 1]
            for knot, members in _by_part(tied, part):
                if len(members) > 1:
                    rows.setdefault(knot, []).append((receiver, members))
        effects: dict[int, dict[int, list[int]]] = {}
        for cause, effect in self.causes.tolist():
            if part[cause] == part[effect]:
                effects.setdefault(int(part[cause]), {}).setdefault(cause, []).append(effect)
        tied_parts = sorted(np.flatnonzero(sizes > 1).tolist(), key=lambda knot: int(sizes[knot]))
        return [Knot(tuple(rows.get(knot, ())), effects.get(knot, {})) for knot in tied_parts]

    def _sorts(self) -> bool:
        """Whether a plain topological sort succeeds: a tenth of the time for small graphs."""
        ahead: list[list[int]] = [[] for _ in self.messages]
        edges = chain(*(pairwise(row.tolist()) for row in self.rows), self.causes.tolist())
        waiting = [0] * len(ahead)
        for first, second in edges:
            ahead[first].append(second)
            waiting[second] += 1
        order = [message for message, count in enumerate(waiting) if not count]
        for message in order:
            for later in ahead[message]:
                waiting[later] -= 1
                if not waiting[later]:
                    order.append(later)
        return len(order) == len(ahead)


def _by_part(row: NDArray[np.int64], part: NDArray[np.int32]) -> Iterator[tuple[int, list[int]]]:
    """Split a row into the parts that its messages belong to; the order is kept."""
    split: dict[int, list[int]] = {}
    for message, knot in zip(row.tolist(), part[row].tolist(), strict=True):
        split.setdefault(knot, []).append(message)
    yield from split.items()


def inverted_pair(knot: Knot) -> tuple[Hop, Hop] | None:
    """Two messages that two receivers got in opposite orders, or None.

    Costs at most the sum over the knot's messages of the square of the number of receivers with
    different rows; receivers whose rows are equal are looked at once.
    """
    distinct = {tuple(row): (receiver, row) for receiver, row in knot.rows}
    knot = Knot(tuple(distinct.values()), {})
    occurrences = knot.occurrences()
    for number, (receiver, row) in enumerate(knot.rows):
        latest: dict[int, tuple[int, int]] = {}
        for message in row:
            for other, position in occurrences[message]:
                if other <= number:
                    continue
                before, earlier = latest.get(other, (-1, -1))
                if before > position:
                    elsewhere = knot.rows[other][0]
                    return Hop(earlier, message, receiver), Hop(message, earlier, elsewhere)
                latest[other] = (position, message)
    return None


def shortest_cycle(knot: Knot, enough: int) -> tuple[Hop, ...]:
    """The fewest hops that lead from a message back to itself.

    A hop is any pair of one row, not only neighbours. A cycle of `enough` hops ends the search.
    Exact while messages times deliveries of the knot stay below SEARCH_STEPS_MAX; in larger
    knots the shortest cycle through the first messages.
    """
    occurrences = knot.occurrences()
    starts = sorted(occurrences.keys() | knot.effects.keys())
    work = sum(len(row) for _, row in knot.rows) + sum(map(len, knot.effects.values()))
    best: tuple[Hop, ...] = ()
    for start in starts[: max(1, SEARCH_STEPS_MAX // max(1, work))]:
        cycle = _cycle_through(knot, occurrences, start)
        if cycle and (not best or len(cycle) < len(best)):
            best = cycle
            if len(best) <= enough:
                break
    return best


def _cycle_through(
    knot: Knot, occurrences: dict[int, list[tuple[int, int]]], start: int
) -> tuple[Hop, ...]:
    """Breadth-first search; linear, since each row is walked once from its end towards its start.

    What a row's position leads to is everything behind it, so a later visit adds only what lies
    between the two positions.
    """
    came_by: dict[int, Hop] = {}
    walked = [len(row) for _, row in knot.rows]
    queue = deque([start])
    while queue and start not in came_by:
        message = queue.popleft()
        ahead = [Hop(message, effect, -1) for effect in knot.effects.get(message, ())]
        for number, position in occurrences.get(message, ()):
            receiver, row = knot.rows[number]
            stretch = row[position + 1 : walked[number]]
            walked[number] = min(walked[number], position + 1)
            ahead += [Hop(message, later, receiver) for later in stretch]
        for hop in ahead:
            if hop.second not in came_by:
                came_by[hop.second] = hop
                queue.append(hop.second)
    if start not in came_by:
        return ()
    cycle = [came_by[start]]
    while cycle[-1].first != start:
        cycle.append(came_by[cycle[-1].first])
    return tuple(reversed(cycle))


def effect_first(knot: Knot) -> tuple[Hop, ...] | None:
    """A delivery of an effect before its cause, then the shortest way from cause to effect.

    One pass over the cause edges of the knot for each receiver: what is carried along is the
    latest position of any cause, direct or not. The fewest steps of all receivers are returned,
    or of those looked at when the work reaches SEARCH_STEPS_MAX.
    """
    order = _causes_first(knot.effects)
    numbers = {message: number for number, message in enumerate(order)}
    causes: list[list[int]] = [[] for _ in order]
    for cause, effects in knot.effects.items():
        for effect in effects:
            causes[numbers[effect]].append(numbers[cause])
    shortest: tuple[Hop, ...] | None = None
    for looked_at, (receiver, row) in enumerate(knot.rows):
        if shortest and looked_at * len(order) > SEARCH_STEPS_MAX:
            break
        position = [-1] * len(order)
        for at, message in enumerate(row):
            if message in numbers:
                position[numbers[message]] = at
        early = _effect_too_early(causes, position)
        if early is not None:
            chain = _chain_from_later(causes, early, position)
            if shortest is None or len(chain) < len(shortest):
                way = [order[number] for number in chain]
                hops = (Hop(one, two, -1) for one, two in pairwise(way))
                shortest = (Hop(way[-1], way[0], receiver), *hops)
    return shortest


def _causes_first(effects: dict[int, list[int]]) -> list[int]:
    """All messages of the edges, every cause before its effects."""
    waiting = Counter(effect for ahead in effects.values() for effect in ahead)
    order = [message for message in effects if not waiting[message]]
    for message in order:
        for effect in effects.get(message, ()):
            waiting[effect] -= 1
            if not waiting[effect]:
                order.append(effect)
    return order


def _effect_too_early(causes: list[list[int]], position: list[int]) -> int | None:
    """A message that stands before one of its causes; if any, before a direct one.

    Messages are numbered with causes first; a position of -1 means that it is not in the row.
    """
    latest = position.copy()
    early: list[int] = []
    for message, above in enumerate(causes):
        highest = -1
        for cause in above:
            highest = max(highest, latest[cause])
        if highest > latest[message]:
            latest[message] = highest
            if position[message] >= 0:
                early.append(message)
    direct = (m for m in early if any(position[cause] > position[m] for cause in causes[m]))
    return next(direct, early[0] if early else None)


def _chain_from_later(causes: list[list[int]], effect: int, position: list[int]) -> list[int]:
    """The shortest chain of causes to `effect` from a message delivered after it."""
    leads_to: dict[int, int] = {}
    layer = [effect]
    while layer:
        following: list[int] = []
        for message in layer:
            for cause in causes[message]:
                if cause in leads_to:
                    continue
                leads_to[cause] = message
                following.append(cause)
                if position[cause] > position[effect]:
                    chain = [cause]
                    while chain[-1] != effect:
                        chain.append(leads_to[chain[-1]])
                    return chain
        layer = following
    raise AssertionError("the caller has seen that there is such a chain")

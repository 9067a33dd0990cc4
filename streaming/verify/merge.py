"""One order of all messages, found by merging what the receivers got, or the knots that prevent it.

A message is taken when it is the next one of every row that has it, and all its causes were taken.
Where no message can be taken there is a knot (see `sequencer.judging.cycles`) that nothing outside
comes before: it is at the beginning of each row that has some of it. It is taken as a whole.

```
A: 1 2 3 4      1 is next in A and B: taken
B: 1 3 2 4      then A waits with 2 for B, and B with 3 for A: 2 and 3 are a knot
                4 is next in both: taken
```

In memory are how far each row is, and a knot with what is around it; a number for each message is
in a column.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any, Generic, TypeVar

from sequencer.judging.cycles import DeliveryGraph, Knot
from streaming.verify.columns import Column, Progress, Strand, paced
from streaming.verify.logs import Names

AHEAD = 8
"""Messages of each row that are looked at first to find a knot."""
Key = TypeVar("Key", bound=Hashable)
Row = Strand | list[int]


class Pairs:
    """Causes and effects among messages: each pair once, and a chain of them for each cause."""

    def __init__(self, messages: int) -> None:
        self._pairs: Names[tuple[int, int]] = Names(Column(), Column())
        self._last = Column(messages, -1)
        self._before = Column()

    def add(self, cause: int, effect: int) -> None:
        """Add a pair of two different messages, unless it is there."""
        pair = (cause, effect)
        if cause == effect or self._pairs.find(pair) >= 0:
            return
        self._before.append(self._last[cause])
        self._last[cause] = self._pairs.append(pair)

    def effects(self, cause: int) -> Iterator[tuple[int, int]]:
        """Yield the messages that a message caused, each behind the number of the pair."""
        number = self._last[cause] if len(self) else -1
        while number >= 0:
            yield number, self._pairs[number][1]
            number = self._before[number]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return paced(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)


class _Ahead:
    """A row from some place on, which can be looked at before it is read."""

    def __init__(self, row: Iterable[int]) -> None:
        self._row = _each(row)
        self._seen: deque[int] = deque()

    def next(self) -> int:
        """Return the next message, or -1."""
        return self._seen.popleft() if self._seen else next(self._row, -1)

    def peek(self, count: int) -> Iterator[int]:
        """Look at the next messages."""
        self._seen.extend(islice(self._row, max(0, count - len(self._seen))))
        return islice(self._seen, count)


class Merge(Generic[Key]):
    """Merges rows of messages.

    ``count``: of messages, whose numbers lie below it. ``pairs``: each cause goes before its
    effect.
    """

    def __init__(self, rows: Mapping[Key, Row], count: int, pairs: Pairs) -> None:
        self._count = count
        self._pairs = pairs
        self._rows = {key: _Ahead(row) for key, row in rows.items()}
        self._moving = list(rows)
        self._waiting: dict[int, list[Key]] = {}
        self._column = Column(count)
        self._needed = self._column.view
        for message in paced(chain.from_iterable(map(_each, rows.values()))):
            self._needed[message] += 1
        for _, effect in pairs:
            self._needed[effect] += 1

    def knots(
        self, progress: Progress = lambda *_: None
    ) -> Iterator[tuple[DeliveryGraph, list[Knot]]]:
        """Yield the knots, some at a time, with the graph of these and of what is around them."""
        self._exhaust((), progress)
        ahead = AHEAD
        while self._waiting:
            graph, is_whole = self._graph(ahead)
            knots = graph.knots()
            sources = _sources(graph, knots, self._needed)
            if sources:
                yield graph, [knot for knot, _ in sources]
                self._exhaust(chain.from_iterable(messages for _, messages in sources), progress)
                ahead = AHEAD
            elif is_whole:  # some row has a message twice, with others between
                yield graph, knots
                return
            else:
                ahead *= 2

    def _exhaust(self, tied: Iterable[int], progress: Progress) -> None:
        for _ in paced(self._taken(tied), "merging messages", self._count, progress):
            pass

    def _taken(self, tied: Iterable[int]) -> Iterator[int]:
        """Take messages of knots, then all that can be taken, and yield these."""
        rows, waiting, needed = self._rows, self._waiting, self._needed
        free: list[int] = []

        def take(message: int) -> None:
            needed[message] = 0
            self._moving += waiting.pop(message, ())
            for _, effect in self._pairs.effects(message):
                if needed[effect]:
                    needed[effect] -= 1
                    free.append(effect)

        for message in tied:
            take(message)
        while free or self._moving:
            if free:
                message = free.pop()
            else:
                key = self._moving.pop()
                message = rows[key].next()
                while message >= 0 and not needed[message]:  # taken with a knot
                    message = rows[key].next()
                if message < 0:
                    continue
                waiting.setdefault(message, []).append(key)
            if 0 < needed[message] <= len(waiting.get(message, ())):
                take(message)
                yield message

    def _graph(self, ahead: int) -> tuple[DeliveryGraph, bool]:
        """Return the graph of the next messages of all rows, and whether that is all of them.

        ``ahead``: how many messages behind the first one of each row.
        """
        heads = {key: message for message, keys in self._waiting.items() for key in keys}
        rows = {
            key: [heads[key], *row.peek(ahead)] for key, row in self._rows.items() if key in heads
        }
        there = dict.fromkeys(chain.from_iterable(rows.values()))
        pairs = sorted(
            (number, cause, effect)
            for cause in there
            for number, effect in self._pairs.effects(cause)
            if effect in there
        )
        graph = DeliveryGraph(rows, ((cause, effect) for _, cause, effect in pairs))
        return graph, all(len(row) <= ahead for row in rows.values())


def _sources(
    graph: DeliveryGraph, knots: list[Knot], needed: memoryview
) -> list[tuple[Knot, list[int]]]:
    """Return the knots that are whole and behind nothing outside, each with its messages.

    ``needed``: in how many rows a message is, and how many causes it waits for.
    """
    knot_of: dict[int, int] = {}
    for number, knot in enumerate(knots):
        rows = (row for _, row in knot.rows)
        effects = ((cause, *those) for cause, those in knot.effects.items())
        knot_of.update(dict.fromkeys(chain.from_iterable(chain(rows, effects)), number))
    found: Counter[int] = Counter()
    others: set[int] = set()
    for row in graph.rows:
        before = -1
        for at, message in enumerate(row.tolist()):
            number = knot_of.get(message, -1)
            found[message] += 1
            if at and number != before:
                others.add(number)
            before = number
    for cause, effect in graph.causes.tolist():
        found[effect] += knot_of.get(cause, -1) == knot_of.get(effect, -2)
    numbers: list[Any] = graph.messages
    messages: list[list[int]] = [[] for _ in knots]
    for message, number in knot_of.items():
        messages[number].append(numbers[message])
        if found[message] != needed[numbers[message]]:
            others.add(number)
    return [(knot, messages[number]) for number, knot in enumerate(knots) if number not in others]


def _each(row: Iterable[int]) -> Iterator[int]:
    """Yield a row without a message that comes twice in succession (at two nodes of one owner)."""
    return map(itemgetter(0), groupby(row))

"""One order of all messages, found by merging what the receivers got.

A message is taken when it is the next one of every row that has it, and all its causes were taken.
What is never taken lies on a cycle, behind one, or between two; what lies behind the last one is
taken by the same way from the ends. If all is taken, one order agrees with all rows.

```
A: 1 2 3 4      1 is next in A and B: taken
B: 1 3 2 4      then A waits with 2 for B, and B with 3 for A; from the ends, 4 is taken
                left are A: 2 3 and B: 3 2
```

In memory are the rows' places and what is left; a number for each message is in a column.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, groupby, takewhile
from operator import itemgetter
from typing import TypeVar

from streaming.verify.columns import Column, Progress, Strand, paced
from streaming.verify.logs import Names

Key = TypeVar("Key", bound=Hashable)
Row = Strand | list[int]
exhaust = partial(deque[int], maxlen=0)


class Pairs:
    """Causes and effects among messages: each pair once, found from both sides by chains."""

    def __init__(self, messages: int) -> None:
        self._pairs: Names[tuple[int, int]] = Names(Column(), Column())
        self._last = Column(messages, -1), Column(messages, -1)
        self._before = Column(), Column()

    def add(self, cause: int, effect: int) -> None:
        """Add a pair of two different messages, unless it is there."""
        pair = (cause, effect)
        if cause == effect or self._pairs.find(pair) >= 0:
            return
        number = self._pairs.append(pair)
        for last, before, message in zip(self._last, self._before, pair, strict=True):
            before.append(last[message])
            last[message] = number

    def effects(self, cause: int) -> Iterator[int]:
        """Yield the messages that a message caused."""
        return self._of(0, cause)

    def causes(self, effect: int) -> Iterator[int]:
        """Yield the messages that caused a message."""
        return self._of(1, effect)

    def _of(self, side: int, message: int) -> Iterator[int]:
        number = self._last[side][message] if len(self) else -1
        while number >= 0:
            yield self._pairs[number][1 - side]
            number = self._before[side][number]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return paced(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)


def tied(
    rows: Mapping[Key, Row],
    count: int,
    pairs: Pairs | None = None,
    progress: Progress = lambda *_: None,
) -> dict[Key, list[int]]:
    """Return what is left of the rows; nothing if one order agrees with them all.

    ``count``: of messages, whose numbers lie below it; ``pairs``: of a cause and its effect.
    """
    needed = Column(count)
    view = needed.view
    for message in paced(chain.from_iterable(map(_each, rows.values()))):
        view[message] += 1
    pairs = pairs or Pairs(0)
    for _, effect in pairs:
        view[effect] += 1
    waiting: dict[int, list[Key]] = {}
    starts = {key: _each(row) for key, row in rows.items()}
    taken = _taken(starts, view, pairs.effects, waiting)
    exhaust(paced(taken, "merging messages", count, progress))
    if not waiting:
        return {}
    for cause, effect in pairs:
        if view[cause]:
            view[effect] -= 1
            view[cause] += 1
    ends = {key: takewhile(view.__getitem__, _backwards(row)) for key, row in rows.items()}
    rest: dict[Key, list[int]] = {}
    waiting.clear()
    exhaust(paced(_taken(ends, view, pairs.causes, waiting)))
    for message, there in waiting.items():
        rest.update({key: [message, *ends[key]][::-1] for key in there})
    return {key: rest[key] for key in rows if key in rest}


def _taken(
    rows: Mapping[Key, Iterator[int]],
    needed: memoryview,
    behind: Callable[[int], Iterable[int]],
    waiting: dict[int, list[Key]],
) -> Iterator[int]:
    """Yield messages until no more can be taken.

    ``needed``: in how many rows a message is, and how many messages must be taken before it; 0
    where it was taken. ``behind``: the messages that must be taken after one. ``waiting``: in the
    end, the rows that wait with a message.
    """
    moving = list(rows)
    while moving:
        row = moving.pop()
        message = next(rows[row], -1)
        if message < 0:
            continue
        waiting.setdefault(message, []).append(row)
        free = [message]
        while free:
            message = free.pop()
            if len(waiting.get(message, ())) < needed[message] or not needed[message]:
                continue
            moving += waiting.pop(message)
            needed[message] = 0
            yield message
            for other in filter(needed.__getitem__, behind(message)):
                needed[other] -= 1
                free.append(other)


def _each(row: Iterable[int]) -> Iterator[int]:
    """Yield a row without a message that comes twice in succession (at two nodes of one owner)."""
    return map(itemgetter(0), groupby(row))


def _backwards(row: Row) -> Iterator[int]:
    return _each(reversed(row) if isinstance(row, list) else row.backwards())

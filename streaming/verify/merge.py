"""One order of all messages, found by merging what the receivers got.

A message is taken when it is the next one of every row that has it, and all its causes were taken.
What is never taken lies on a cycle, behind one, or between two; what lies behind the last one is
taken by the same way from the ends. If all is taken, one order agrees with all rows.

```
A: 1 2 3 4      1 is next in A and B: taken
B: 1 3 2 4      then A waits with 2 for B, and B with 3 for A; from the ends, 4 is taken
                left are A: 2 3 and B: 3 2
```

In memory are the rows' places, the causes, and what is left; elsewhere a number for each message.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, groupby, takewhile
from operator import itemgetter
from typing import TypeVar

from streaming.verify.columns import Column, Progress, Strand, paced

Key = TypeVar("Key", bound=Hashable)
Edges = Mapping[int, Collection[int]]
Row = Strand | list[int]
exhaust = partial(deque[int], maxlen=0)


def tied(
    rows: Mapping[Key, Row],
    count: int,
    pairs: Collection[tuple[int, int]] = (),
    progress: Progress = lambda *_: None,
) -> dict[Key, list[int]]:
    """Return what is left of the rows; nothing if one order agrees with them all.

    ``count``: of messages, whose numbers lie below it; ``pairs``: (cause, effect), distinct.
    """
    needed = Column(count)
    view = needed.view
    for message in paced(chain.from_iterable(map(_each, rows.values()))):
        view[message] += 1
    effects: dict[int, list[int]] = defaultdict(list)
    causes: dict[int, list[int]] = defaultdict(list)
    for cause, effect in pairs:
        effects[cause].append(effect)
        causes[effect].append(cause)
        view[effect] += 1
    waiting: dict[int, list[Key]] = {}
    starts = {key: _each(row) for key, row in rows.items()}
    exhaust(paced(_taken(starts, view, effects, waiting), "merging messages", count, progress))
    if not waiting:
        return {}
    for cause, effect in pairs:
        if view[cause]:
            view[effect] -= 1
            view[cause] += 1
    ends = {key: takewhile(view.__getitem__, _backwards(row)) for key, row in rows.items()}
    rest: dict[Key, list[int]] = {}
    waiting.clear()
    exhaust(paced(_taken(ends, view, causes, waiting)))
    for message, there in waiting.items():
        rest.update({key: [message, *ends[key]][::-1] for key in there})
    return {key: rest[key] for key in rows if key in rest}


def _taken(
    rows: Mapping[Key, Iterator[int]],
    needed: memoryview,
    behind: Edges,
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
            for other in filter(needed.__getitem__, behind.get(message, ())):
                needed[other] -= 1
                free.append(other)


def _each(row: Iterable[int]) -> Iterator[int]:
    """Yield a row without a message that comes twice in succession (at two nodes of one owner)."""
    return map(itemgetter(0), groupby(row))


def _backwards(row: Row) -> Iterator[int]:
    return _each(reversed(row) if isinstance(row, list) else row.backwards())

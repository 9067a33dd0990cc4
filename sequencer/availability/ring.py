"""One topic of the in-process broker: a ring of messages under an availability word.

Source: catkit2 pull request 426 (topic header, message header with an id for each nested topic).
"""

from __future__ import annotations

import enum
from typing import Any

from sequencer.availability.atomic import AtomicWord
from sequencer.availability.word import (
    BITS,
    Availability,
    Result,
    floor,
    frontier,
    is_available,
    reserve_next,
)

CAPACITY_MAX = 2**20
NAME_MAX = 127
DEPTH_MAX = 16


class State(enum.IntEnum):
    """Where an entry stands; it leaves OPEN once."""

    OPEN = 0
    PUBLISHED = 1
    ABANDONED = 2


class Entry:
    """One message with its id in each of its nested topics (``ids``: topic name -> id)."""

    __slots__ = ("_state", "filled", "ids", "payload", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.ids: dict[str, int] = {}
        self.payload: Any = None
        self.filled = False
        self._state = AtomicWord(State.OPEN)

    @property
    def state(self) -> State:
        """Where the entry stands now."""
        return State(self._state.load())

    def settle(self, state: State) -> bool:
        """Leave OPEN for ``state``; False if the entry had left it before."""
        return self._state.compare_exchange(State.OPEN, state)


class TopicRing:
    """The last ``capacity`` messages of one topic; message i lies in slot ``i % capacity``.

    One reservation at a time (the broker sees to it); publishing and reading from any thread. The
    word refuses a reservation while an id that would leave it is unpublished, so a slot is never
    handed on while its publisher still writes, and ids below the bitmap were all published.
    """

    __slots__ = ("_slots", "_window", "availability", "capacity", "name")

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self._window = min(BITS, capacity)
        self.availability = Availability(window=self._window)
        self._slots: list[Entry | None] = [None] * capacity

    def has_room(self) -> bool:
        """Whether the next id can be reserved; OverflowError where ids are used up."""
        _, result = reserve_next(self.availability.word, self._window)
        if result == Result.EXHAUSTED:
            raise OverflowError(
                f"topic {self.name!r} has used up its 2**48 - 1 ids. Nothing was reserved; "
                "publish to a topic of another name"
            )
        return bool(result == Result.DONE)

    def take(self, entry: Entry) -> None:
        """Give ``entry`` the next id and its slot. Only after ``has_room``."""
        message_id = self.availability.try_reserve_next()
        if message_id is None:
            raise RuntimeError(f"topic {self.name!r} had room and lost it: two reservers at once")
        entry.ids[self.name] = message_id
        self._slots[message_id % self.capacity] = entry

    def publish(self, entry: Entry) -> None:
        """Make a settled entry available to readers."""
        self.availability.try_make_available(entry.ids[self.name])

    def bounds(self) -> tuple[int, int]:
        """Ids that the ring has slots for, half-open; the lowest of them goes next."""
        last = self.availability.last
        return max(0, last - self.capacity), last

    def find(self, message_id: int) -> Entry | None:
        """The settled entry with this id; None while it is unpublished, or once it is gone."""
        word = self.availability.word
        if message_id >= floor(word, self._window) and not is_available(word, message_id):
            return None
        entry = self._slots[message_id % self.capacity]
        if entry is None or entry.ids.get(self.name) != message_id:
            return None
        return entry

    def oldest_open(self) -> Entry | None:
        """The entry with the lowest unpublished id, which reservations come to wait for."""
        word = self.availability.word
        lowest = frontier(word, self._window)
        return None if lowest == word >> BITS else self._slots[lowest % self.capacity]


def nested(topic: str) -> list[str]:
    """The topic and those that enclose it, deepest first; ValueError for a name that is none.

    >>> nested("a/b/c")
    ['a/b/c', 'a/b', 'a']
    """
    parts = topic.split("/")
    if not all(parts) or len(topic) > NAME_MAX or len(parts) > DEPTH_MAX:
        raise ValueError(
            f"{topic!r} is no topic: it needs 1 to {DEPTH_MAX} names joined by '/', none of them "
            f"empty, in at most {NAME_MAX} characters"
        )
    return ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]

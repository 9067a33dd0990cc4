"""One topic of the in-process broker: a ring of messages under an availability word.

Source: catkit2 pull request 426 (topic header, message header with an id for each nested topic).
"""

from __future__ import annotations

import enum
from typing import Any

from sequencer.availability.atomic import AtomicWord
from sequencer.availability.concurrent import Availability
from sequencer.availability.word import BITS, Result

CAPACITY_MAX = 2**20
NAME_MAX = 127
DEPTH_MAX = 16


class State(enum.IntEnum):
    """The states of an entry; it leaves OPEN once."""

    OPEN = 0
    PUBLISHED = 1
    ABANDONED = 2


class RingEntry:
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

    __slots__ = ("_slots", "availability", "capacity", "name")

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self.availability = Availability(window=min(BITS, capacity))
        self._slots: list[RingEntry | None] = [None] * capacity

    @property
    def begun(self) -> bool:
        """Whether an id was ever reserved, so that the first one is known."""
        return self.availability.word != 0

    def room(self, message_id: int | None = None) -> Result:
        """What reserving this id, or the next one, would say: DONE, FULL, DUPLICATE or OLD.

        DUPLICATE also where a draft has the id. OverflowError where the ids are used up.
        """
        if message_id is not None and self._entry(message_id):
            return Result.DUPLICATE
        result = self.availability.preview(message_id)
        if result is Result.EXHAUSTED:
            raise OverflowError(
                f"topic {self.name!r} has 2**48 - 1 ids, and they do not reach that far. Nothing "
                "was reserved; publish to a topic of another name"
            )
        return result

    def take(self, entry: RingEntry, message_id: int | None = None) -> None:
        """Give ``entry`` this id, or the next one, and its slot. Only where ``room`` says DONE."""
        if message_id is None:
            message_id = self.availability.try_reserve_next()
        elif not self.availability.try_reserve(message_id):
            message_id = None
        if message_id is None:
            raise RuntimeError(f"topic {self.name!r} had room and lost it: two reservers at once")
        entry.ids[self.name] = message_id
        self._slots[message_id % self.capacity] = entry

    def publish(self, entry: RingEntry) -> None:
        """Make a settled entry available to readers."""
        self.availability.try_make_available(entry.ids[self.name])

    def abandon_unreserved(self) -> None:
        """Give up the ids that were passed over by own ids and that nobody has reserved."""
        for message_id in range(self.availability.frontier, self.availability.last):
            if not self._entry(message_id):
                entry = RingEntry(self.name)
                entry.ids[self.name] = message_id
                entry.settle(State.ABANDONED)
                self._slots[message_id % self.capacity] = entry
                self.publish(entry)

    def bounds(self) -> tuple[int, int]:
        """Ids that the ring has slots for, half-open; the lowest of them goes next."""
        last = self.availability.last
        return max(self.availability.first, last - self.capacity), last

    def find(self, message_id: int) -> RingEntry | None:
        """The settled entry with this id; None while it is unpublished, or once it is gone."""
        return self._entry(message_id) if self.availability.was_published(message_id) else None

    def oldest_open(self) -> RingEntry | None:
        """The draft with the lowest unpublished id; None if there is none, or nobody has that id.

        Reservations come to wait for this id, ``availability.frontier``.
        """
        lowest = self.availability.frontier
        return None if lowest == self.availability.last else self._entry(lowest)

    def _entry(self, message_id: int) -> RingEntry | None:
        """The holder of this id, while the ring has its slot."""
        entry = self._slots[message_id % self.capacity]
        return entry if entry is not None and entry.ids.get(self.name) == message_id else None


def nested(topic: str) -> list[str]:
    """The topic and those that enclose it, deepest first; ValueError for a name that is none.

    >>> nested("a/b/c")
    ['a/b/c', 'a/b', 'a']
    """
    parts = topic.split("/")
    if not all(parts) or len(topic) > NAME_MAX or len(parts) > DEPTH_MAX:
        raise ValueError(
            f"{topic!r} is not a topic: it needs 1 to {DEPTH_MAX} names joined by '/', none "
            f"empty, in at most {NAME_MAX} characters"
        )
    return ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]

"""An in-process broker: many threads publish out of order, readers read in order or the newest.

Source: catkit2 pull request 426. A message to ``a/b/c`` is also one of ``a/b`` and ``a`` and has an
id of its own in each; all its ids are reserved together, so any two messages have one order in
every topic that has both. (catkit2 reserves topic by topic and has a root topic ``""`` for all
messages; here that would let one slow publisher hold up all topics.)

Publishing takes three steps: reserve (ids and slots), fill, publish. At most 16 ids of a topic, or
its capacity, are between the first and the last: further reservations wait for the oldest of them.
A draft that will not be published is abandoned: its readers are told that they missed it.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Self

from sequencer.availability.ring import CAPACITY_MAX, Entry, State, TopicRing, nested

CAPACITY_DEFAULT = 32
TOPICS_MAX = 16_384


class Mode(enum.Enum):
    """What a subscription reads next."""

    ORDERED = "ordered"
    """The next id; waits for gaps."""
    NEWEST = "newest"
    """The newest message that there is; passes over what is older."""


class BrokerClosed(Exception):  # noqa: N818  (an end, not a malfunction)
    """The broker was closed; nothing more can be published, and all was read."""


class DraftSettled(Exception):  # noqa: N818  (names the state that the caller met)
    """The draft was published or abandoned before; the call took no effect."""


@dataclass(frozen=True, slots=True)
class Received:
    """One message as a subscription got it.

    ``id`` counts in the subscribed topic, ``ids`` gives the id in each nested topic; ``topic`` is
    the one it was published to. ``missed``: the ids directly before it that this subscription will
    not get (overwritten, abandoned, or, reading the newest, passed over); a half-open range.
    """

    topic: str
    id: int
    ids: Mapping[str, int]
    payload: Any
    missed: range


class _Tree:
    """A topic without '/' and all the topics below it: their rings, and one thing to wait for."""

    def __init__(self, *, closed: bool) -> None:
        self.changed = threading.Condition()
        self.rings: dict[str, TopicRing] = {}
        self.closed = closed

    def notify(self) -> None:
        with self.changed:
            self.changed.notify_all()


class Draft:
    """A handle on a reserved message: fill it, then publish or abandon it, once.

    As a context manager it is published at the end if it was filled, and abandoned if it was not,
    or after an error.
    """

    __slots__ = ("_done", "_entry", "_rings", "_tree")

    def __init__(self, entry: Entry, rings: list[TopicRing], tree: _Tree) -> None:
        self._entry = entry
        self._rings = rings
        self._tree = tree
        self._done = False

    @property
    def ids(self) -> Mapping[str, int]:
        """Topic name -> id, for the topic and each that encloses it."""
        return MappingProxyType(self._entry.ids)

    def fill(self, payload: Any) -> None:
        """Set the payload (again, if need be); readers do not see it yet."""
        if self._entry.state is not State.OPEN:
            raise DraftSettled(f"draft {self._entry.ids} is settled; its payload is as it was")
        self._entry.payload = payload
        self._entry.filled = True

    def publish(self) -> None:
        """Make the message available in all its topics."""
        if not self._entry.filled:
            raise ValueError(f"draft {self._entry.ids} is empty, so not published; fill it first")
        self._settle(State.PUBLISHED)

    def abandon(self) -> None:
        """Give the ids up: readers pass over them and are told so."""
        self._settle(State.ABANDONED)

    def _settle(self, state: State) -> None:
        if not self._entry.settle(state):
            raise DraftSettled(
                f"draft {self._entry.ids} was {self._entry.state.name.lower()} before, which "
                "stands; reserve anew to publish"
            )
        self._done = True
        for ring in self._rings:
            ring.publish(self._entry)
        self._tree.notify()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._done:
            return
        try:
            self._settle(State.PUBLISHED if self._entry.filled and not kind else State.ABANDONED)
        except DraftSettled:
            if kind is None:  # the error that is under way says more
                raise


class Subscription:
    """One reader's place in one topic; for one thread at a time."""

    __slots__ = ("_next", "_poll", "_ring", "_told", "_tree")

    def __init__(self, ring: TopicRing, tree: _Tree, mode: Mode, start: int) -> None:
        self._ring = ring
        self._tree = tree
        self._poll = self._newest if mode is Mode.NEWEST else self._ordered
        self._next = start
        self._told = start

    @property
    def position(self) -> int:
        """The lowest id that can still come."""
        return self._next

    def read(self, timeout_s: float) -> Received:
        """The next message, waiting at most ``timeout_s`` seconds for it; then TimeoutError.

        A timeout takes no effect: what was missed meanwhile is told with the next message.
        BrokerClosed once the broker is closed, no draft is open, and nothing is left to read.
        """
        found = self._attempt()
        if not found:
            with self._tree.changed:
                found = self._tree.changed.wait_for(self._attempt, timeout_s)
        if isinstance(found, Received):
            return found
        if found:
            raise BrokerClosed(f"topic {self._ring.name!r} has ended before id {self._next}")
        raise TimeoutError(
            f"topic {self._ring.name!r} had no message from id {self._next} on within "
            f"{timeout_s} s; nothing was read, read again"
        )

    def _attempt(self) -> Received | bool:
        """A message, or whether there will be none any more."""
        ended = self._tree.closed and self._ring.oldest_open() is None  # before the look, not after
        return self._poll() or ended

    def _ordered(self) -> Received | None:
        while True:
            first, _ = self._ring.bounds()
            self._next = max(self._next, first)
            entry = self._ring.find(self._next)
            if entry is None:
                if self._next < self._ring.bounds()[0]:
                    continue  # overwritten between the two looks
                return None
            self._next += 1
            if entry.state is State.PUBLISHED:
                return self._receive(entry)

    def _newest(self) -> Received | None:
        first, _ = self._ring.bounds()
        for message_id in range(self._ring.availability.end - 1, max(self._next, first) - 1, -1):
            entry = self._ring.find(message_id)
            if entry is not None and entry.state is State.PUBLISHED:
                self._next = message_id + 1
                return self._receive(entry)
        return None

    def _receive(self, entry: Entry) -> Received:
        message_id = self._next - 1
        missed = range(self._told, message_id)
        self._told = self._next
        ids = MappingProxyType(entry.ids)
        return Received(entry.topic, message_id, ids, entry.payload, missed)


class LocalBroker:
    """Topics with the last ``capacity`` messages each, for the threads of one process.

    >>> broker = LocalBroker()
    >>> camera = broker.subscribe("camera")
    >>> first, second = (broker.reserve("camera/images", timeout_s=1) for _ in range(2))
    >>> second.fill("later"); second.publish()  # out of order: the reader waits for the first
    >>> first.fill("sooner"); first.publish()
    >>> [camera.read(timeout_s=1).payload for _ in range(2)]
    ['sooner', 'later']
    """

    def __init__(self, capacity: int = CAPACITY_DEFAULT) -> None:
        if not 1 <= capacity <= CAPACITY_MAX:
            raise ValueError(f"capacity is {capacity}; it must lie in 1 … {CAPACITY_MAX}")
        self.capacity = capacity
        self._lock = threading.Lock()  # guards the two below
        self._trees: dict[str, _Tree] = {}
        self._topics = 0
        self._closed = False

    def reserve(self, topic: str, timeout_s: float) -> Draft:
        """Reserve the next id of ``topic`` and of each topic that encloses it: all, or none.

        Waits at most ``timeout_s`` seconds while a topic is full of unpublished ids; TimeoutError
        then says which draft is in the way (``oldest_open`` gives it). A thread that keeps drafts
        open while it reserves more can come to wait for itself. BrokerClosed after ``close``.
        """
        tree, rings = self._find(topic)
        with tree.changed:
            tree.changed.wait_for(
                lambda: tree.closed or all(ring.has_room() for ring in rings), timeout_s
            )
            if tree.closed:
                raise BrokerClosed(f"nothing was reserved in {topic!r}: the broker is closed")
            for ring in rings:
                if not ring.has_room():
                    blocker = ring.oldest_open()
                    raise TimeoutError(
                        f"nothing was reserved in {topic!r} within {timeout_s} s: topic "
                        f"{ring.name!r} waits for draft {blocker.ids if blocker else None} to be "
                        "published; try again, or abandon that draft"
                    )
            entry = Entry(topic)
            for ring in rings:
                ring.take(entry)
        return Draft(entry, rings, tree)

    def publish(self, topic: str, payload: Any, timeout_s: float) -> Mapping[str, int]:
        """Reserve, fill and publish; returns topic name -> id."""
        with self.reserve(topic, timeout_s) as draft:
            draft.fill(payload)
        return draft.ids

    def subscribe(
        self, topic: str, mode: Mode | str = Mode.ORDERED, start: int | None = None
    ) -> Subscription:
        """Read ``topic``, and with it what is published to the topics that it encloses.

        ``start`` is the first id to read; by default the next one to be assigned. Ids below
        ``start`` never come; those from ``start`` on that are gone already are told as missed.
        """
        tree, rings = self._find(topic)
        if start is None:
            start = rings[0].availability.last
        if start < 0:
            raise ValueError(f"start is {start}; ids are 0 or more")
        return Subscription(rings[0], tree, Mode(mode), start)

    def oldest_open(self, topic: str) -> Draft | None:
        """The draft with the lowest unpublished id of ``topic``, if there is one."""
        tree, rings = self._find(topic)
        with tree.changed:
            entry = rings[0].oldest_open()
        if entry is None:
            return None
        return Draft(entry, [tree.rings[name] for name in entry.ids], tree)

    def topics(self) -> list[str]:
        """Names of all topics that were published to or subscribed, sorted."""
        with self._lock:
            return sorted(name for tree in self._trees.values() for name in tree.rings)

    def close(self) -> None:
        """End: nothing more is reserved; open drafts can be published and read."""
        with self._lock:
            self._closed = True
            trees = list(self._trees.values())
        for tree in trees:
            with tree.changed:
                tree.closed = True
                tree.changed.notify_all()

    def _find(self, topic: str) -> tuple[_Tree, list[TopicRing]]:
        """The topic's tree, and its rings, deepest first; made where they are not there yet."""
        names = nested(topic)
        with self._lock:
            tree = self._trees.get(names[-1]) or _Tree(closed=self._closed)
            new = [name for name in names if name not in tree.rings]
            if self._topics + len(new) > TOPICS_MAX:
                raise ValueError(f"topic {topic!r} was not made: a broker has {TOPICS_MAX} at most")
            self._topics += len(new)
            self._trees[names[-1]] = tree
            for name in new:
                tree.rings[name] = TopicRing(name, self.capacity)
            return tree, [tree.rings[name] for name in names]

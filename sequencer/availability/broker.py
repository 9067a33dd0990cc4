"""An in-process broker: many threads publish out of order, readers read in order or the newest.

Source: catkit2 pull request 426. A message to ``a/b/c`` is also one of ``a/b`` and ``a`` and has an
id of its own in each; all its ids are reserved together, so any two messages have one order in
every topic that has both. (catkit2 reserves topic by topic and has a root topic ``""`` for all
messages; here that would let one slow publisher hold up all topics.)

Publishing takes three steps: reserve (ids and slots), fill, publish. At most 16 ids of a topic, or
its capacity, are between the first and the last: further reservations wait for the oldest of them.
A draft that will not be published is abandoned: its readers count it as missed.

A publisher may also bring an id of its own (messages of another broker that are passed on, say).
Ids that it passes over stay free until the broker is closed; a topic's first id may be any.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from sequencer.availability.drafts import Draft, Tree
from sequencer.availability.ring import CAPACITY_MAX, RingEntry, TopicRing, nested
from sequencer.availability.subscription import BrokerClosed, Mode, Subscription
from sequencer.availability.word import Result

CAPACITY_DEFAULT = 32
TOPICS_MAX = 16_384


class IdTaken(Exception):  # noqa: N818  (names the state that the caller met)
    """An id that somebody has, or that the topic is past; nothing was reserved."""


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
        self._trees: dict[str, Tree] = {}
        self._topics = 0
        self._closed = False

    def reserve(self, topic: str, timeout_s: float, message_id: int | None = None) -> Draft:
        """Reserve an id of ``topic`` and the next one of each topic that encloses it: all or none.

        ``message_id`` is an id of the publisher's own in ``topic``, by default the next one.
        IdTaken if somebody has it or the topic is past it. The first of a topic may be any; later
        ones that pass over ids leave them free, and readers and publishers wait for them as for
        drafts: one that will not be used is reserved and abandoned.

        Waits at most ``timeout_s`` seconds while a topic is full of unpublished ids; TimeoutError
        then says what is in the way (`oldest_open` gives a draft). A thread that keeps drafts
        open while it reserves more can come to wait for itself. BrokerClosed after `close`.
        """
        if message_id is not None and message_id < 0:
            raise ValueError(f"message_id is {message_id}; ids are 0 or more")
        tree, rings = self._find(topic)
        wanted: list[tuple[TopicRing, int | None]] = [(ring, None) for ring in rings]
        wanted[0] = (rings[0], message_id)
        with tree.changed:
            tree.changed.wait_for(
                lambda: tree.closed or Result.FULL not in _rooms(wanted), timeout_s
            )
            if tree.closed:
                raise BrokerClosed(f"nothing was reserved in {topic!r}: the broker is closed")
            for (ring, own_id), room in zip(wanted, _rooms(wanted), strict=False):
                if room is Result.FULL:
                    raise TimeoutError(
                        f"nothing was reserved in {topic!r} within {timeout_s} s: topic "
                        f"{ring.name!r} waits for {_obstacle(ring)}"
                    )
                if room is not Result.DONE:
                    raise IdTaken(
                        f"nothing was reserved in {topic!r}: id {own_id} is "
                        f"{'reserved or published' if room is Result.DUPLICATE else 'too old'}, "
                        f"the next one is {ring.availability.last}"
                    )
            entry = RingEntry(topic)
            for ring, own_id in wanted:
                ring.take(entry, own_id)
        return Draft(entry, rings, tree)

    def publish(
        self, topic: str, payload: Any, timeout_s: float, message_id: int | None = None
    ) -> Mapping[str, int]:
        """Reserve, fill and publish; returns topic name -> id."""
        with self.reserve(topic, timeout_s, message_id) as draft:
            draft.fill(payload)
        return draft.ids

    def subscribe(
        self, topic: str, mode: Mode | str = Mode.ORDERED, start: int | None = None
    ) -> Subscription:
        """Read ``topic``, and with it what is published to the topics that it encloses.

        ``start`` is the first id to read; by default the next one to be assigned, in a topic
        without messages its first one, whatever id that will have. Ids below ``start`` never
        come; those from ``start`` on that are gone already count as missed.
        """
        tree, rings = self._find(topic)
        if start is not None and start < 0:
            raise ValueError(f"start is {start}; ids are 0 or more")
        return Subscription(rings[0], tree, Mode(mode), start)

    def oldest_open(self, topic: str) -> Draft | None:
        """The draft with the lowest unpublished id of ``topic``; None if there is no such draft."""
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
        """End: nothing more is reserved, free ids are given up; open drafts can be published."""
        with self._lock:
            self._closed = True
            rings = [(tree, list(tree.rings.values())) for tree in self._trees.values()]
        for tree, tree_rings in rings:
            with tree.changed:
                tree.closed = True
                for ring in tree_rings:
                    ring.abandon_unreserved()
                tree.changed.notify_all()

    def _find(self, topic: str) -> tuple[Tree, list[TopicRing]]:
        """The topic's tree, and its rings, deepest first; made where they are not there yet."""
        names = nested(topic)
        with self._lock:
            tree = self._trees.get(names[-1]) or Tree(closed=self._closed)
            new = [name for name in names if name not in tree.rings]
            if self._topics + len(new) > TOPICS_MAX:
                raise ValueError(f"topic {topic!r} was not made: a broker has {TOPICS_MAX} at most")
            self._topics += len(new)
            self._trees[names[-1]] = tree
            for name in new:
                tree.rings[name] = TopicRing(name, self.capacity)
            return tree, [tree.rings[name] for name in names]


def _rooms(wanted: list[tuple[TopicRing, int | None]]) -> list[Result]:
    """What reserving would say in each topic; only the first where that one will never do."""
    first, *others = wanted
    room = first[0].room(first[1])
    if room not in (Result.DONE, Result.FULL):
        return [room]
    return [room, *(ring.room(own_id) for ring, own_id in others)]


def _obstacle(ring: TopicRing) -> str:
    """What the topic's reservations wait for."""
    blocker = ring.oldest_open()
    if blocker is not None:
        return f"draft {blocker.ids} to be published; try again, or abandon that draft"
    return (
        f"id {ring.availability.frontier}, which nobody has reserved; if it will not come, reserve "
        "it and abandon the draft"
    )

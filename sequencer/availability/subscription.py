"""The reading side of the in-process broker: in order, or always the newest."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sequencer.availability.drafts import Tree
from sequencer.availability.ring import RingEntry, State, TopicRing


class Mode(enum.Enum):
    """What a subscription reads next."""

    ORDERED = "ordered"
    """The next id; waits for gaps."""
    NEWEST = "newest"
    """The newest message that there is; passes over what is older."""


class BrokerClosed(Exception):  # noqa: N818  (an end, not a malfunction)
    """The end: the broker was closed, and nothing is left to read or can be published."""


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


class Subscription:
    """A reader of one topic, which knows the next id; for one thread at a time.

    ``start`` None: the next id to be assigned, in a topic without any the first one.
    """

    __slots__ = ("_from_the_first", "_missed_from", "_next", "_poll", "_ring", "_tree")

    def __init__(self, ring: TopicRing, tree: Tree, mode: Mode, start: int | None) -> None:
        self._ring = ring
        self._tree = tree
        self._poll = self._newest if mode is Mode.NEWEST else self._ordered
        self._from_the_first = start is None and not ring.begun
        self._next = ring.availability.last if start is None else start
        self._missed_from = self._next

    @property
    def position(self) -> int:
        """The lowest id that can still come."""
        return self._next

    def read(self, timeout_s: float) -> Received:
        """The next message, waiting at most ``timeout_s`` seconds for it; then TimeoutError.

        A timeout takes no effect: what was missed meanwhile comes with the next message.
        BrokerClosed once the broker is closed, no draft is open, and nothing is left to read.
        """
        outcome = self._attempt()
        if not outcome:
            with self._tree.changed:
                outcome = self._tree.changed.wait_for(self._attempt, timeout_s)
        if isinstance(outcome, Received):
            return outcome
        if outcome:
            raise BrokerClosed(f"topic {self._ring.name!r} has ended before id {self._next}")
        raise TimeoutError(
            f"topic {self._ring.name!r} had no message from id {self._next} on within "
            f"{timeout_s} s; nothing was read, read again"
        )

    def _attempt(self) -> Received | bool:
        """A message, or whether there will be none any more."""
        ended = self._tree.closed and self._ring.oldest_open() is None  # before the look, not after
        if self._from_the_first:
            if not self._ring.begun:
                return ended  # without a poll, which could find a topic that begins right now
            self._from_the_first = False
            self._next = self._missed_from = self._ring.availability.first
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

    def _receive(self, entry: RingEntry) -> Received:
        message_id = self._next - 1
        missed = range(self._missed_from, message_id)
        self._missed_from = self._next
        ids = MappingProxyType(entry.ids)
        return Received(entry.topic, message_id, ids, entry.payload, missed)

"""The writing side of the in-process broker: reserved messages, and whom to tell of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self

from sequencer.availability.ring import RingEntry, State, TopicRing


class DraftSettled(Exception):  # noqa: N818  (names the state that the caller met)
    """A draft that was published or abandoned before; the call took no effect."""


class Tree:
    """A topic without '/' and all the topics below it: their rings, and one thing to wait for.

    Every thread may notify; ``changed`` has no other use than to wake those that wait.
    """

    def __init__(self, *, closed: bool) -> None:
        self.changed = threading.Condition()
        self.rings: dict[str, TopicRing] = {}
        self.closed = closed

    def notify(self) -> None:
        """Wake all that wait for a message or for room."""
        with self.changed:
            self.changed.notify_all()


class Draft:
    """A handle on a reserved message: fill it, then publish or abandon it, once.

    As a context manager it is published at the end if it was filled, and abandoned if it was not,
    or after an error.
    """

    __slots__ = ("_done", "_entry", "_rings", "_tree")

    def __init__(self, entry: RingEntry, rings: list[TopicRing], tree: Tree) -> None:
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
        """Give the ids up: readers pass over them and count them as missed."""
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

"""The delivery that a reader has read and not given out yet, as something of its user's raised."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from streaming.clients.deliveries import Delivery
from streaming.clients.followed import FollowedLines

D = TypeVar("D", bound=Delivery)


class Waiting(Generic[D]):
    """At most one delivery; ``lines`` judge whether it is a repeat.

    What `resume` raises is raised before its line has noted the delivery: `resume` is asked again.
    What `on_hole` and `on_disorder` raise is raised behind that: they are called once.
    """

    def __init__(self, lines: FollowedLines) -> None:
        self._lines = lines
        self.delivery: D | None = None
        self._is_noted = False

    def judged(self) -> tuple[D, bool]:
        """Return the delivery, which waits no more, and whether it is no repeat."""
        assert self.delivery is not None  # noqa: S101  (asked before)
        is_next = True
        if not self._is_noted:
            last, is_certain = self._lines.asked(self.delivery)
            self._is_noted = True
            is_next = self._lines.follow(self.delivery, last, is_certain)
        delivery, self.delivery, self._is_noted = self.delivery, None, False
        return delivery, is_next

    def places(self, consumer: Any) -> list[Any] | None:
        """Return the places up to which all was given out; None: they are librdkafka's own."""
        if self.delivery is None:
            return None
        places = consumer.position(consumer.assignment())
        for place in places:
            if (place.topic, place.partition) == (self.delivery.topic, self.delivery.partition):
                place.offset = self.delivery.offset
        return [place for place in places if place.offset >= 0]

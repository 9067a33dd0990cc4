"""Topics of a running service: a look waits until rejects and events of the outputs are there.

The state partitions of a batch commit one after the other, and each may do so in parts, events
last. So the outputs show deliveries of a batch whose rejects and events are not there yet, and the
partitions of the events topic are not read at one moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from streaming.arrow.json_object import object_in
from streaming.verify.records import Record, Topics

TAIL_SECONDS = 1.0
"""What the newest batch may still lack of its events gets this long to appear."""


@dataclass(frozen=True, slots=True)
class Later:
    """Reads rejects and events ``settle_s`` after the outputs; 0: at once."""

    topics: Topics
    settle_s: float = 0.0

    def rejects(self, topic: str) -> Iterator[Record]:
        """Yield the rejects; call it when the outputs are read."""
        time.sleep(self.settle_s)
        yield from self.topics.each(topic)

    def events(self, topic: str) -> Iterator[Record]:
        """Yield the events; if there is time, all of each batch that they name."""
        if not self.settle_s:
            yield from self.topics.each(topic)
            return
        ends: dict[int, int] = {}
        newest = ""
        for record in self.topics.each(topic):
            ends[record.partition] = record.offset + 1
            newest = max(newest, batch_time(record))
            yield record
        time.sleep(min(self.settle_s, TAIL_SECONDS))
        yield from up_to(newest, self.topics.each(topic, ends))


def up_to(newest: str, records: Iterable[Record]) -> Iterator[Record]:
    """Yield the events of batches up to this time; those of later ones may not be complete."""
    return (record for record in records if batch_time(record) <= newest)


def batch_time(event: Record) -> str:
    """Return the batch time of an event; RFC 3339 in one zone and precision sorts as text."""
    at = (object_in(event.value) or {}).get("at")
    return at if isinstance(at, str) else ""

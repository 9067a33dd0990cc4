"""Equal records in different turns of a cycle: which of them was delivered, and which dropped.

A record has no name besides its bytes and time. If copies of one were dropped as duplicates, the
order of arrival says which ones these were: those that were of the past when they came.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from streaming.places import Place
from streaming.verify.channel_readings import Judging, Reading


class Turns:
    """Channels in which duplicates are dropped and labels come again.

    ``past``: inputs (places) that were of the past when they came, of those that are equal to
    others. ``spare``: by content, how many of its copies were not delivered.
    """

    def __init__(
        self,
        work: Judging,
        readings: list[Reading],
        delivered: Mapping[Any, int],
        rejected: set[Place],
    ) -> None:
        self.past: set[Place] = set()
        self.spare: Counter[Any] = Counter()
        cycle = work.settings.labels.cycle
        if cycle is None:
            return
        pairs = zip(work.material.inputs, readings, strict=True)
        taken = [(record, reading) for record, reading in pairs if record.place not in rejected]
        copies = Counter(record.content for record, _ in taken)
        for content, count in copies.items():
            if 0 < delivered.get(content, 0) < count:
                self.spare[content] = count - delivered[content]
        lines: defaultdict[bytes, list[tuple[Place, Reading]]] = defaultdict(list)
        concerned = {reading.channel for record, reading in taken if self.spare[record.content]}
        for record, reading in taken:
            if reading.channel in concerned and reading.reason is None and not reading.passes:
                lines[reading.channel or b""].append((record.place, reading))
        for channel, line in lines.items():
            rule = work.settings.of(channel)
            if rule.drop_duplicates:
                self.past.update(_past(line, cycle, rule.window))

    def is_dropped(self, place: Place, content: Any) -> bool:
        """Return whether a copy is one of those that were not delivered; take it off these."""
        if place not in self.past or not self.spare[content]:
            return False
        self.spare[content] -= 1
        return True


def _past(line: list[tuple[Place, Reading]], cycle: int, window: int) -> set[Place]:
    """Return the records of a line that were of the past when they came, if there was no gap."""
    epoch, expected, held, past = 0, 0, set[int](), set[Place]()
    for place, reading in line:
        if reading.epoch > epoch:
            epoch, expected, held = reading.epoch, 0, set()
        position = expected + (reading.position - expected) % cycle
        if position - expected > window or position in held:
            past.add(place)
            continue
        held.add(position)
        while expected in held:
            held.remove(expected)
            expected += 1
    return past

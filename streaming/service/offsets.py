"""How far a query has read its topics, and what follows: the end of `--once`, a clean transit."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from streaming.config import Config
from streaming.errors import KafkaUnavailable
from streaming.kafka import topics
from streaming.source.positions import offsets_in


class Through:
    """Says when a query has read all that was there when it was first asked."""

    def __init__(self, config: Config, name: str) -> None:
        self.config = config
        self.settings = config.pipelines[name]
        self._ends: dict[tuple[str, int], int] | None = None

    def __call__(self, last: Any) -> bool:
        """Whether the batch of a progress report reached the ends; None: no batch was reported."""
        if self._ends is None:
            self._ends = topics.ends(self.config, self._read())
        if not reached(last, self._ends):
            return False
        transit = self.settings.transit_topic
        return transit is None or reached(last, topics.ends(self.config, (transit,)))

    def _read(self) -> tuple[str, ...]:
        return (*self.settings.input, self.settings.commands)


class TransitCleaner:
    """Deletes what was in transit before the last batch that is done: no restart reads it.

    It stays for `service.transit_kept`, as a restored backup reads it.
    """

    def __init__(self, config: Config, name: str, say: Callable[..., None]) -> None:
        self.config = config
        self.name = name
        self.say = say
        self.topic = config.pipelines[name].transit_topic
        self._kept_s = config.service.transit_kept.ms / 1000
        self._behind: deque[tuple[float, dict[int, int]]] = deque()
        """When offsets were seen to be behind, and which; the newest last."""
        self._refused = False
        self._deleted: dict[int, int] = {}

    def __call__(self, last: Any) -> None:
        """Delete what reports showed to be behind long enough; a refusal is logged once."""
        if self.topic is None or self._refused:
            return
        begin = offsets_of(last, "startOffset").get(self.topic, {})
        behind = {int(at): offset for at, offset in begin.items() if offset}
        now = time.monotonic()
        if behind and (not self._behind or self._behind[-1][1] != behind):
            self._behind.append((now, behind))
        wanted: dict[int, int] = {}
        while self._behind and now - self._behind[0][0] >= self._kept_s:
            wanted = self._behind[0][1]
            if len(self._behind) == 1:
                break
            self._behind.popleft()
        if not wanted or wanted == self._deleted:
            return
        try:
            topics.delete_before(self.config, self.topic, wanted)
        except KafkaUnavailable as error:
            self.say(f"{self.name}: {error}", event="refused", level="warning", pipeline=self.name)
            self._refused = True  # logged once; the next start tries again
        self._deleted = wanted


def reached(progress: Any, ends: dict[tuple[str, int], int]) -> bool:
    """Whether a query's last batch ended at or beyond ``ends``."""
    if progress is None:
        return False
    offsets = offsets_of(progress, "endOffset")
    return all(
        offsets.get(topic, {}).get(str(partition), 0) >= end
        for (topic, partition), end in ends.items()
    )


def read_in(progress: Any) -> int:
    """How many offsets a batch read, of all topics."""
    begin, end = (offsets_of(progress, name) for name in ("startOffset", "endOffset"))
    return sum(
        stop - begin.get(topic, {}).get(partition, 0)
        for topic, of in end.items()
        for partition, stop in of.items()
    )


def offsets_of(progress: Any, name: str) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition at one end of a batch, of all topics read."""
    by_topic: dict[str, dict[str, int]] = {}
    for source in progress["sources"] if progress else ():
        offsets = source[name]
        offsets = json.loads(offsets) if isinstance(offsets, str) else offsets
        if isinstance(offsets, dict):  # the others are ticks
            by_topic |= offsets_in(offsets)
    return by_topic

"""The current groups of pipelines; each event is read once, however many people look."""

from __future__ import annotations

import threading
from copy import deepcopy
from dataclasses import dataclass, field

from streaming.arrow.json_object import object_in
from streaming.config import Config
from streaming.kafka import topics
from streaming.kafka.newest import FETCH, SECONDS_MAX, between
from streaming.kafka.reading import TopicReader
from streaming.places import TopicPartition
from streaming.verify.current import Listed, first, follow


@dataclass(slots=True)
class _Known:
    """A pipeline's groups after the events below ``read``, the next offset of each partition."""

    groups: dict[str, Listed]
    read: dict[TopicPartition, int] = field(default_factory=dict)


class GroupsNow:
    """Follows the events topics of pipelines; request threads share it."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> dict[str, Listed]:
        """Return the groups of a pipeline.

        Raises KafkaUnavailable, and ConfigError where the events topic is missing.
        """
        with self._lock:
            known = self._known.get(name) or _Known(first(self.config, name))
            known = self._followed(name, known)
            self._known[name] = known
            return deepcopy(known.groups)

    def _followed(self, name: str, known: _Known) -> _Known:
        topic = self.config.pipelines[name].events
        count = topics.partitions(self.config, [topic])[topic]
        with TopicReader(self.config, "console", settings=FETCH) as reader:
            bounds = {
                (topic, number): reader.bounds((topic, number), SECONDS_MAX)
                for number in range(count)
            }
            if any(known.read.get(partition, 0) > end for partition, (_, end) in bounds.items()):
                known = _Known(first(self.config, name))  # the topic was made again
            new = {
                partition: (max(low, known.read.get(partition, 0)), end)
                for partition, (low, end) in bounds.items()
                if max(low, known.read.get(partition, 0)) < end
            }
            for record in between(reader, new) if new else ():
                follow(known.groups, object_in(record.value) or {})
                known.read[record.home] = record.offset + 1
        return known

"""How far a query has read its topics, and what follows: the end of `--once`, a clean transit."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from streaming.config import Config
from streaming.errors import FileUnusable, KafkaRefused, KafkaUnavailable
from streaming.kafka import topics
from streaming.service.behind import Behind, Step
from streaming.source.positions import Offsets, offsets_in

STEPS = 100
"""How often within `service.transit_kept` it is noted how far reading was."""


class Through:
    """Says when a query has read all that was there when it was first asked."""

    def __init__(self, config: Config, name: str) -> None:
        self.config = config
        self.settings = config.pipelines[name]
        self._ends: dict[tuple[str, int], int] | None = None

    def __call__(self, done: Offsets) -> bool:
        """Whether all before the ends is done; ``done`` are offsets that batches have reached."""
        if self._ends is None:
            self._ends = self._ends_of(self._read())
        if not reached(done, self._ends):
            return False
        transit = self.settings.transit_topic
        return transit is None or reached(done, self._ends_of((transit,)))

    def _ends_of(self, names: tuple[str, ...]) -> dict[tuple[str, int], int]:
        """Where topics end: a broker that no longer leads may know less of them."""
        return topics.ends(self.config, names, of_most=True)

    def _read(self) -> tuple[str, ...]:
        return (*self.settings.input, self.settings.commands)


class TransitCleaner:
    """Deletes what was in transit before the last batch that is done: no restart reads it.

    It stays for `service.transit_kept`, as a restored backup reads it; the checkpoint keeps what
    was read when, so a service that is started often deletes, too.
    """

    def __init__(
        self,
        config: Config,
        name: str,
        say: Callable[..., None],
        noted: Behind | None = None,
    ) -> None:
        self.config = config
        self.name = name
        self.say = say
        self.topic = config.pipelines[name].transit_topic
        self._kept_s = config.service.transit_kept.ms / 1000
        self._noted = noted if self._kept_s else None
        self._behind: deque[Step] | None = None
        """When offsets were seen to be behind, and which; the newest last. None: not read yet."""
        self._since = time.time() - time.monotonic()
        """When the steady clock was 0. The wall clock may leap; steps age evenly all the same."""
        self._fails = False
        self._due: dict[int, int] = {}
        self._deleted: dict[int, int] = {}

    def __call__(self, last: Any) -> None:
        """Delete what reports showed to be behind long enough.

        What fails is tried again, and logged once.
        """
        if self.topic is None:
            return
        begin = offsets_of(last, "startOffset").get(self.topic, {})
        behind = {int(at): offset for at, offset in begin.items() if offset}
        now = self._since + time.monotonic()
        if self._behind is None:
            self._behind = deque(self._known(behind, now))
        steps, newest = self._behind, self._behind[-1] if self._behind else None
        is_time = newest is None or now - newest[0] >= self._kept_s / STEPS
        if behind and is_time and (newest is None or newest[1] != behind):
            steps.append((now, behind))
            if self._noted:
                self._noted.write([*steps])
        while steps and now - steps[0][0] >= self._kept_s:
            self._due = steps[0][1]
            if len(steps) == 1:
                break
            steps.popleft()
        if self._due != self._deleted:
            self._delete(self.topic)

    def _delete(self, topic: str) -> None:
        try:
            topics.delete_before(self.config, topic, self._due)
        except (KafkaUnavailable, FileUnusable) as error:
            self.config.renew()  # a password in a file may be another one now
            if not self._fails:
                event = "refused" if isinstance(error, KafkaRefused) else "not-deleted"
                said = f"{self.name}: {error}"
                self.say(said, event=event, level="warning", pipeline=self.name)
            self._fails = True
        else:
            self._deleted, self._fails = self._due, False

    def _known(self, behind: dict[int, int], now: float) -> list[Step]:
        """What an earlier start noted, not later than now: its clock may have been ahead.

        Nothing of a topic that was made again and begins at 0.
        """
        steps = self._noted.read() if self._noted else []
        return [
            (min(at, now), of)
            for at, of in steps
            if all(behind.get(n, 0) >= to for n, to in of.items())
        ]


def reached(done: Offsets, ends: dict[tuple[str, int], int]) -> bool:
    """Return whether offsets are at or beyond ``ends``, in topics that sources were asked about."""
    return bool(done) and all(
        topic in done and done[topic].get(str(partition), 0) >= end
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

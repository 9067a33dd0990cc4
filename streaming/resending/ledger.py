"""The ledger: a compacted topic with a record of each reject that was sent back.

Its key is the place where the reject stood as an input, `topic/partition@offset`, so that a reject
which an at-least-once service wrote twice is still one; its value says why it had been rejected and
where it stands now. It is written in the transaction that sends the reject.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from streaming.config import Config
from streaming.errors import ConfigError, KafkaUnavailable
from streaming.kafka import topics
from streaming.kafka.reading import BEGINNING, ENDS, End, Record, TopicReader
from streaming.places import Place

KEY = re.compile(r"(.+)/(\d+)@(\d+)")
RUN = b"run"
"""The key of what a run writes when it begins."""
READ_SECONDS_MAX = 60
MARKER_SECONDS, MARKER_SECONDS_MAX = 0.1, 10.0
NOTED = "What was sent before is noted; nothing else was sent."


@dataclass(slots=True)
class Places:
    """A set of places, some 60 bytes each."""

    offsets: defaultdict[tuple[str, int], set[int]] = field(
        default_factory=lambda: defaultdict(set)
    )

    def add(self, place: Place) -> None:
        """Put a place in."""
        topic, partition, offset = place
        self.offsets[topic, partition].add(offset)

    def __contains__(self, place: Place) -> bool:
        topic, partition, offset = place
        return offset in self.offsets.get((topic, partition), ())


@dataclass(slots=True)
class Ledger:
    """``sent``: where rejects stood as inputs; ``now``: where they stand since."""

    sent: Places = field(default_factory=Places)
    now: Places = field(default_factory=Places)

    def note(self, origin: Place, now: Place) -> None:
        """Note one that was sent."""
        self.sent.add(origin)
        self.now.add(now)


def ledger_of(rejects: str) -> str:
    """The ledger's topic, and the transactional id of those who write it."""
    return f"{rejects}.resent"


def read(config: Config, topic: str, begun: int | None = None) -> Ledger:
    """All that was sent back; nothing where there is no such topic yet.

    ``begun``: where this run has written that it begins, which has to be read. KafkaUnavailable
    where it is not: a broker that has lost the topic, and does not know, has an older one.
    """
    ledger, is_newest = Ledger(), begun is None
    if begun is None and topic not in topics.existing(config):
        return ledger
    for each in records(config, topic):
        is_newest = is_newest or each.offset == begun
        found = KEY.fullmatch((each.key or b"").decode())
        if found is None or each.value is None:
            continue
        origin = (found[1], int(found[2]), int(found[3]))
        coordinates = json.loads(each.value)
        ledger.note(origin, (coordinates["topic"], coordinates["partition"], coordinates["offset"]))
    if not is_newest:
        raise older(topic)
    return ledger


def wait_for(config: Config, topic: str, offset: int) -> None:
    """Wait until a committed record can be read: its marker is written a little later.

    KafkaUnavailable where it is not, as of a broker that no longer leads.
    """
    deadline = time.monotonic() + MARKER_SECONDS_MAX
    while _ends(config, topic)[topic, 0] <= offset:
        if time.monotonic() > deadline:
            raise older(topic)
        time.sleep(MARKER_SECONDS)


def older(topic: str) -> KafkaUnavailable:
    """A broker has given less of the ledger than there is."""
    return KafkaUnavailable(
        f"{topic} was read from a broker that no longer leads it.",
        NOTED,
        "Run it again.",
    )


def record(origin: Place, reason: str, now: Place) -> dict[str, bytes]:
    """The ledger's record of a reject that was sent, as confluent-kafka takes it."""
    topic, partition, offset = origin
    coordinates = dict(zip(("topic", "partition", "offset"), now, strict=True))
    return {
        "key": f"{topic}/{partition}@{offset}".encode(),
        "value": json.dumps({"reason": reason, **coordinates}).encode(),
    }


def make(config: Config, topic: str) -> None:
    """Create the ledger's topic where it is missing."""
    from streaming.wire.admin import NewTopic  # noqa: PLC0415  (a quick --help)

    if topic in topics.existing(config):
        return
    remedy = f"Create {topic}: one partition, cleanup.policy=compact; or give this user the right."
    if not config.service.create_topics:
        raise ConfigError(f"The topic {topic} is missing.", "Nothing was sent.", remedy)
    new = NewTopic(topic, 1, {"cleanup.policy": "compact"})
    topics.make(config, [new], remedy)


def records(
    config: Config, topic: str, begin: int = BEGINNING, *, least: int = 0
) -> Iterator[Record]:
    """Yield the committed records of a topic, up to its current end, partition by partition.

    ``begin``: at this offset. ``least``: where it ends at least. KafkaUnavailable where it does
    not, and where it cannot be read.
    """
    ends = _ends(config, topic)
    if min(ends.values()) < least:
        raise older(topic)
    failed = (
        f"{topic} cannot be read",
        NOTED,
        f"Look at the brokers, and at this user's right to read {topic}; then run it again.",
    )
    with TopicReader(config, "resend", *failed, settings=ENDS) as reader:
        for home, end in sorted(ends.items()):
            reader.assign({home: begin})
            while True:
                taken = reader.take(READ_SECONDS_MAX)
                if not taken:
                    why = f"{failed[0]}: nothing came within {READ_SECONDS_MAX} s."
                    raise KafkaUnavailable(why, *failed[1:])
                (each,) = taken
                if isinstance(each, End) or each.offset >= end:
                    break
                yield each


def _ends(config: Config, topic: str) -> dict[tuple[str, int], int]:
    """Return the end of each of a topic's partitions; KafkaUnavailable."""
    try:
        return topics.ends(config, (topic,))
    except KafkaUnavailable as error:
        raise type(error)(error.message, NOTED, error.remedy) from error

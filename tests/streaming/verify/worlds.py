"""What naive models share: a loop over all records, one at a time, that writes what is right."""

import json
import random
from dataclasses import dataclass, field, replace

import pyarrow as pa

from streaming.arrow.partitioner import partitions_of
from streaming.verify.accounts import Material
from streaming.verify.records import Record

PARTITIONS = 3
AT = "2026-01-01T00:00:{:06.3f}Z"


@dataclass
class Topics:
    """Records by topic and partition, appended."""

    records: dict = field(default_factory=dict)
    holes: bool = True
    at: str = ""

    def put(self, topic, partition, timestamp, key, value, headers=()):
        topic = self.at + topic
        there = self.records.setdefault((topic, partition), [])
        offset = len(there)
        if self.holes:  # as transactions leave them at their ends
            offset = there[-1].offset + (2 if len(there) % 7 == 6 else 1) if there else 5
        record = Record(topic, partition, offset, timestamp, key, value, tuple(headers))
        there.append(record)
        return record

    def all(self, *topics):
        return [r for (t, _), some in sorted(self.records.items()) if t in topics for r in some]


def home(key, count=PARTITIONS):
    return int(partitions_of(pa.array([key or b""], pa.binary()), count)[0])


def number(n):
    return b"%d" % n


class World:
    """What both disciplines have: inputs, rejects, events, deliveries."""

    def __init__(self, seed, prefix="", *, begin_ms=1000, topics=None):
        self.rng = random.Random(seed)
        self.topics = topics or Topics()
        self.begin_ms = begin_ms
        self.prefix = prefix
        self.sequences = {}
        self.clock = 0
        self.ids = 0

    def event(self, kind, key, **fields):
        self.ids += 1
        at = AT.format(self.clock / 1000)
        value = json.dumps({"event": kind, "id": f"e{self.ids}", "at": at, **fields})
        self.topics.put("events", home(key.encode()), self.begin_ms, key.encode(), value.encode())

    def answer(self, command, kind, **fields):
        try:
            said = json.loads(command.value)
            own = said.get("id")
        except (ValueError, AttributeError):
            said, own = {}, None
        fields |= {name: said[name] for name in ("by", "why") if name in said}
        place = dict(zip(("topic", "partition", "offset"), command.place, strict=True))
        self.event(kind, own or "", command=own, **place, **fields)

    def command(self, value, partition=0):
        if isinstance(value, dict):
            value = json.dumps(value).encode()
        return self.topics.put("commands", partition, self.begin_ms, None, value)

    def reject(self, record, reason):
        added = zip(
            ("reject-reason", "reject-topic", "reject-partition", "reject-offset"),
            (
                reason.encode(),
                record.topic.encode(),
                number(record.partition),
                number(record.offset),
            ),
            strict=True,
        )
        added = tuple((self.prefix + name, value) for name, value in added)
        self.topics.put(
            "rejects",
            home(record.key),
            record.timestamp,
            record.key,
            record.value,
            record.headers + added,
        )

    def deliver(self, record, topic, key, added):
        partition = home(key)
        sequence = self.sequences.get(key, 0)
        self.sequences[key] = sequence + 1
        added = (*added, ("sequence", number(sequence)), ("incarnation", b"17"))
        added = tuple((self.prefix + name, value) for name, value in added)
        self.topics.put(
            topic, partition, record.timestamp, key, record.value, record.headers + added
        )

    def value(self):
        """Now and then one that was there before, or null."""
        return self.rng.choice([None, b"", b"same", b"%d" % self.clock, b"%x" % self.clock])


SUBSCRIBERS = [f"s{n}" for n in range(8)]


NOW_MS = 1_767_225_700_000
DAY_MS = 86_400_000


def settings_for(make, world, **more):
    """Settings for a judge whose pipeline has worked through everything."""
    topics = {world.output.replace("{subscriber}", each) for each in (*SUBSCRIBERS, *"ABCD")}
    fields = dict(
        pipeline="p",
        output=world.output,
        partitions=dict.fromkeys(topics, PARTITIONS),
        header_prefix=world.prefix,
        retire_after_ms=DAY_MS,
        now_ms=NOW_MS,
    )
    return make(**fields | more)


def material_for(world):
    """The topics of a world."""
    topics = world.topics
    outputs = [t for t, _ in topics.records if t not in ("in", "rejects", "events", "commands")]
    own = ("rejects", "events", "commands", "in")
    return Material(topics.all(*outputs), *(topics.all(name) for name in own))


def renumber(records, prefix=""):
    """The records with `sequence` as it would be without a hole, by key."""
    counts, out = {}, []
    for record in records:
        at = counts.get(record.key, 0)
        counts[record.key] = at + 1
        headers = list(record.headers)
        headers[-2] = (prefix + "sequence", number(at))
        out.append(replace(record, headers=tuple(headers)))
    return out

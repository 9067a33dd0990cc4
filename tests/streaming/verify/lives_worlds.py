"""Topics in memory with what a pipeline made of records, and what is said of each."""

import json

from streaming.config import parse_config
from streaming.verify.lives import Lives
from streaming.verify.seeking import Span
from tests.streaming.verify.worlds import Topics

ADDED = {
    "group": lambda _key, at: [
        ("sender", b"eve"),
        ("group-sequence", b"%d" % at),
        ("group-version", b"0"),
    ],
    "multicast": lambda key, at: [
        ("from", b"eve"),
        ("destination", key),
        ("timestamp", b"%d" % at),
    ],
}
NAMES = {"group": ("group", b"G"), "multicast": ("to", b"ann,bob,cid")}


class Seeker:
    """Reads topics in memory."""

    def __init__(self, topics):
        self.topics, self.spans = topics, []

    def topic_names(self):
        return list(dict.fromkeys(topic for topic, _ in self.topics.records))

    def one(self, place):
        topic, partition, offset = place
        there = self.topics.records.get((topic, partition), [])
        return next((each for each in there if each.offset == offset), None)

    def behind(self, topic, time_ms):
        spans = []
        for (name, partition), there in sorted(self.topics.records.items()):
            if name == topic:
                later = (each.offset for each in there if each.timestamp >= time_ms)
                stop = there[-1].offset + 1
                spans.append(Span(topic, partition, next(later, stop), stop))
        self.spans += spans
        return spans

    def oldest_first(self, span):
        span.look(span.first, span.stop)
        there = self.topics.records.get((span.topic, span.partition), [])
        return iter([each for each in there if span.first <= each.offset < span.stop])

    def newest_first(self, span, key=None):
        found = reversed(list(self.oldest_first(span)))
        return (each for each in found if key is None or each.key == key)


def config_of(**pipeline):
    table = {"discipline": "channel", **pipeline}
    if table["discipline"] == "group":
        table["groups"] = {"G": ["ann", "bob", "cid"]}
    return parse_config({"pipelines": {"p": table}}, {}, "c.toml")


def delivered(topics, record, sequence, *, origin):
    headers = [*record.headers, ("sequence", b"%d" % sequence), ("incarnation", b"7")]
    if origin:
        place = f"{record.topic}/{record.partition}@{record.offset}"
        headers.append(("origin", place.encode()))
    return topics.put("p.out", 0, record.timestamp, record.key, record.value, headers)


def worked(*, origin):
    """Labels 0, 2, 1 of a channel; then 4, for which 3 was given up; 1 once more; 9 is held."""
    topics = Topics(holes=False)
    sent = [
        topics.put(
            "p.in",
            0,
            102 if at == 4 else 100 + at,
            b"k",
            b"v%d" % label,
            [("label", b"%d" % label)],
        )
        for at, label in enumerate([0, 2, 1, 4, 1, 9])
    ]
    for sequence, at in enumerate([0, 2, 1, 3]):
        delivered(topics, sent[at], sequence, origin=origin)
    gap = {"event": "gap", "id": "g", "channel": "k", "from": 3, "to": 4, "reason": "timeout"}
    topics.put("p.events", 0, 900, b"k", json.dumps(gap).encode())
    said = {"reason": b"duplicate", "topic": b"p.in", "partition": b"0", "offset": b"4"}
    added = [(f"reject-{name}", value) for name, value in said.items()]
    repeat = sent[4]
    topics.put("p.rejects", 0, repeat.timestamp, b"k", repeat.value, [*repeat.headers, *added])
    return topics


def life(topics, *place, **settings):
    found = Lives(config_of(**settings), Seeker(topics)).of(place)
    return found, found["pipelines"][0]

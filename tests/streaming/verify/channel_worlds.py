"""Topics of a channel pipeline as the operator itself writes them, from random histories."""

import json
import random

from streaming.arrow import output
from streaming.disciplines.channels.codec import decode_shard, encode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.state_row import StateRow
from streaming.verify.channel import ChannelSettings, Material
from streaming.verify.records import Record
from tests.streaming.disciplines.channels.plans import pack
from tests.streaming.verify.places import PARTITIONS, partition_of

TOPICS = ("in", "out", "rejects", "events", "commands", "wanted")
COLUMNS = {"key", "value", "headers", "timestamp", "partition"}
KEYS = (b"a", b"b", b"\xff")
ANN = {"by": "ann", "why": "lost"}
SIGNED = (ANN, {}, {"by": "bob"}, {}, {"why": ""}, ANN, {}, {"by": "ann", "why": 1})
"""Who gives commands, and why; the last one says it so that it is refused."""


def command(rng, labels, keys=KEYS):
    """A command's JSON."""
    number = rng.randrange(10**6)
    named = {"id": f"c{number}", "op": rng.choice(["skip", "seed", "reset"])}
    named |= SIGNED[number % len(SIGNED)]
    if rng.random() < 0.3 and named["op"] != "seed":
        return {**named, "blocked": "0 s"}
    key = rng.choice(keys)
    named["channel"] = key.decode() if key != b"\xff" else {"base64": "/w=="}
    if named["op"] == "seed" or (named["op"] == "skip" and rng.random() < 0.5):
        named["label" if named["op"] == "seed" else "to"] = labels.at(rng.randrange(12))
    return named


def absent(rng, labels, near):
    """What somebody says who was asked for labels, perhaps wrongly."""
    first = max(0, near + rng.randrange(-3, 4))
    ends = {"from": labels.at(first), "to": labels.at(first + rng.randrange(1, 4))}
    return {"channel": rng.choice(["a", "b"]), "epoch": 0, **ends, "not_coming": True}


def history(seed, labels, count=80, own=0, answers=0):
    """Records of the input and of the commands, in order of arrival; ``own``: commands among them.

    ``answers``: the share of records that say of labels that they will not come.
    """
    rng = random.Random(seed)
    places = dict.fromkeys((0, 1), -1)
    for n in range(count):
        topic = int(rng.random() < 0.08 + answers / 5)
        places[topic] += 1
        record = {"topic": topic, "partition": 0, "offset": places[topic], "timestamp": 100 + n}
        if topic:
            said = absent(rng, labels, n // 8) if rng.random() < answers else command(rng, labels)
            value = json.dumps(said).encode()
            yield record | {"key": None, "value": value, "headers": None}
            continue
        if rng.random() < own:
            key = rng.choice([*KEYS, *KEYS, None])
            said = command(rng, labels, [key or b"a"])
            value = json.dumps({k: v for k, v in said.items() if k not in ("op", "channel")})
            headers = [{"key": "op", "value": said["op"].encode()}]
            yield record | {"key": key, "value": value.encode(), "headers": headers}
            continue
        position = max(0, n // 8 + rng.randrange(-3, 5))
        headers = [("label", str(labels.at(position)).encode())]
        headers += [("epoch", b"1")] if n > count // 2 and rng.random() < 0.2 else []
        headers += [("fin", None)] if rng.random() < 0.02 else []
        headers = [{"key": key, "value": value} for key, value in headers]
        yield record | {"key": rng.choice(KEYS), "value": b"v%d" % n, "headers": headers}


def batches(records, seed, *, whole=False):
    """The records in batches, each with its time."""
    rng, now_ms, rest = random.Random(seed), 1000, list(records)
    while rest:
        size = len(rest) if whole else rng.randrange(1, 20)
        yield now_ms, rest[:size]
        rest = rest[size:]
        now_ms += rng.choice([0, 1, 20])
    yield now_ms + 100, []


class World:
    """A pipeline of one shard: what its topics have after some batches."""

    def __init__(self, plan, given):
        self.plan, self.row, self.totals = plan, StateRow(), None
        self.topics = {name: [] for name in TOPICS}
        self.run(given)

    def run(self, given):
        """More batches; the plan may be another by now."""
        plan = self.plan
        for now_ms, records in given:
            for each in records:
                headers = tuple((h["key"], h["value"]) for h in each["headers"] or ())
                self.put(plan.reads[each["topic"]], each, headers)
            shard = decode_shard(self.row, record_schema(plan))
            after, writes = step_shard(shard, pack(records, plan), now_ms, plan)
            self.row, self.totals = encode_shard(after), after.totals
            parts = output.events(output.together(after.totals.parts))
            for topic, table in [*writes, (plan.events, parts)]:
                for each in table.to_pylist():
                    own = {"timestamp": now_ms} if topic == plan.wanted else {}
                    self.put(topic, {**each, **own}, tuple(self.headers(each)))

    def headers(self, row):
        for each in row["headers"] or ():
            yield each["key"], each["value"]
        for name, value in row.items():
            if name not in COLUMNS and value is not None:
                text = value if isinstance(value, bytes) else str(value).encode()
                yield name, text

    def put(self, topic, row, headers):
        there = self.topics[topic]
        partition = row.get("partition", 0)
        offset = row.get("offset", sum(each.partition == partition for each in there))
        timestamp = row.get("timestamp", 0)
        there.append(Record(topic, partition, offset, timestamp, row["key"], row["value"], headers))

    def material(self):
        there = self.topics
        out = sorted(there["out"], key=lambda r: (r.partition, r.offset))
        assert all(r.partition == partition_of(r.key) for r in out)
        events = [json.loads(each.value) for each in there["events"]]
        return Material(
            there["in"], out, there["rejects"], events, there["commands"], there["wanted"]
        )

    def settings(self, **more):
        rules = self.plan.rules
        return ChannelSettings(
            "p", rules.labels, rules.window, output_partitions=PARTITIONS,
            held_max=rules.held_max, input_commands=self.plan.input_commands, **more,
        )  # fmt: skip

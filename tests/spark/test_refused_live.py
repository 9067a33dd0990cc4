"""Records that a topic never takes: real Spark, a real broker."""

import json
import random
import string
import time

import pytest

from tests.kafka_helpers import Record, make_topic, produce, read_all, wait_for_records
from tests.service_helpers import (
    WarmService,
    channel_topics,
    run_once,
    status,
    verify,
    write_config,
)

pytestmark = pytest.mark.timeout(600)
AHEAD_MS = 7_200_000
FAR = str(2**63 - 1)
LIMIT = 30_000
PARTS = "tests.faults.small_parts:plans"
ROOM = 200
"""More than headers take of a copy for a short name, and less than for a long one."""


def test_topics_that_the_service_makes_take_every_timestamp(broker, topic_prefix, tmp_path):
    topics = channel_topics(topic_prefix)
    make_topic(broker.bootstrap, topics["input"], message_timestamp_after_max_ms=FAR)
    config = write_config(tmp_path, broker.bootstrap, {"p": topics})
    ahead_ms = round(time.time() * 1000) + AHEAD_MS
    stamps = {b"0": ahead_ms - AHEAD_MS, b"1": ahead_ms, b"2": 0}
    sent = [
        Record(b"k", label, [("label", label)], timestamp=stamp) for label, stamp in stamps.items()
    ]
    sent.append(Record(None, b"no channel", [("label", b"0")], timestamp=ahead_ms))
    produce(broker.bootstrap, topics["input"], sent)
    run_once(config)
    out = read_all(broker.bootstrap, topics["output"])
    assert [each.value for each in out] == [b"0", b"1", b"2"]
    given = {each.value: each.timestamp for each in read_all(broker.bootstrap, topics["input"])}
    assert {each.value: each.timestamp for each in out} == {label: given[label] for label in stamps}
    (reject,) = read_all(broker.bootstrap, topics["rejects"])
    assert (reject.value, reject.timestamp) == (b"no channel", ahead_ms)


def labelled(key, label, value, *more, timestamp=None):
    return Record(key, value, [("label", b"%d" % label), *more], timestamp=timestamp)


def change(bootstrap, topic, name, value):
    """Change one setting of a topic."""
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    asked = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([asked])[asked].result(30)


class Refusals:
    """Three pipelines: of large records, of timestamps, of null keys on a compacted output."""

    def __init__(self, broker, prefix, folder, **service):
        self.bootstrap = broker.bootstrap
        self.topics = {name: channel_topics(f"{prefix}{name}.") for name in ("size", "time", "key")}
        for role in ("input", "output", "rejects"):
            self.make("size", role, max_message_bytes=LIMIT)
        self.make("time", "input", message_timestamp_after_max_ms=FAR)
        self.make("key", "input")
        self.make("key", "output", cleanup_policy="compact")
        pipelines = {name: dict(topics) for name, topics in self.topics.items()}
        pipelines["key"]["channel"] = "header('channel')"
        self.config = write_config(folder, self.bootstrap, pipelines, **service)

    def make(self, name, role, **settings):
        make_topic(self.bootstrap, self.topics[name][role], **settings)

    def send(self, name, *records):
        produce(self.bootstrap, self.topics[name]["input"], [*records])

    def read(self, name, role, count):
        return wait_for_records(self.bootstrap, self.topics[name][role], count)

    def events(self, name):
        return [json.loads(each.value) for each in self.read(name, "events", 1)]

    def send_what_is_refused(self):
        """In each pipeline the label 1 of its channels, which others wait for."""
        noise = random.Random(1).randbytes(LIMIT - 130)  # it fits without the added headers
        self.send(
            "size", labelled(b"k", 2, b"2"), labelled(b"k", 1, noise), labelled(b"k", 0, b"0")
        )
        self.send("size", labelled(b"other", 0, b"0"), labelled(b"other", 1, noise[:-100]))
        change(self.bootstrap, self.topics["time"]["output"], "message.timestamp.after.max.ms", "1")
        ahead_ms = round(time.time() * 1000) + AHEAD_MS
        self.send("time", *(
            labelled(b"k", n, b"%d" % n, timestamp=ahead_ms if n == 1 else ahead_ms - 2 * AHEAD_MS)
            for n in range(3)
        ))  # fmt: skip
        self.send("key", *(
            labelled(None if n == 1 else b"k", n, b"%d" % n, ("channel", b"c")) for n in range(3)
        ))  # fmt: skip
        return noise, ahead_ms

    def topics_done(self):
        """For each pipeline whether all that was sent is worked through."""
        known = status(self.config)
        for name in self.topics:
            figures = known.get(name, {})
            yield figures.get("in") == (5 if name == "size" else 3) and not figures["held"]

    def judge(self, noise, ahead_ms):
        for name in self.topics:
            out = [each for each in self.read(name, "output", 2) if each.key == b"k"]
            assert [each.header("label") for each in out] == [b"0", b"2"], name
            assert [each.header("sequence") for each in out] == [b"0", b"1"], name
            (gap,) = self.events(name)
            reason = "too-large" if name == "size" else "refused"
            assert (gap["event"], gap["reason"]) == ("gap", reason)
            assert (gap["from"], gap["to"], gap["count"]) == (1, 2, 1)
            (reject,) = self.read(name, "rejects", 1)
            assert reject.header("reject-reason") == reason.encode()
            assert reject.header("reject-gap") == gap["id"].encode()
            assert reject.header("reject-after") == b"%s/0" % out[0].header("incarnation")
            detail = reject.header("reject-detail").decode()
            if name == "size":
                assert reject.value is None, "it would be too large for its topic as well"
                assert detail.startswith("MESSAGE_TOO_LARGE")
                assert f"; without its value ({len(noise)} bytes), as" in detail
            elif name == "time":
                assert (reject.value, reject.timestamp) == (b"1", ahead_ms)
                assert detail.startswith("INVALID_TIMESTAMP: ")
            else:
                assert (reject.value, reject.key) == (b"1", None)
                assert detail.startswith("INVALID_RECORD: ")
            figures = status(self.config)[name]
            assert figures["rejected"] == {reason: 1}
            assert (figures["gaps"], figures["held"]) == (1, 0)


def test_what_kafka_refuses_is_rejected_and_the_job_goes_on(broker, topic_prefix, tmp_path):
    world = Refusals(broker, topic_prefix, tmp_path)
    with WarmService(world.config) as service:
        service.until(lambda: "started" in service.said() or "running" in service.said())
        sent = world.send_what_is_refused()
        service.until(lambda: all(world.topics_done()))
        world.judge(*sent)
        assert service.stop() == 0, service.said()
    assert service.said().count("for good") == 4, "the large one's reject was refused, too"
    code, said = verify(world.config)
    assert code == 0, said


@pytest.mark.parametrize("within", ["", pytest.param(PARTS, marks=pytest.mark.slow)])
def test_one_subscriber_s_copy_is_an_event_and_all_copies_a_reject(
    broker, topic_prefix, tmp_path, within
):
    """The name of one makes its copy too large; another message is too large for both.

    By the batch, on a network, by clocks and by the counter; also where each part of a batch has
    one record, and copies of one message are refused in several parts.
    """
    topics = {name: channel_topics(f"{topic_prefix}{name}.") for name in ("g", "net", "clk", "cnt")}
    for name in ("net", "clk", "cnt"):
        topics[name]["transit"] = f"{topic_prefix}{name}.transit"
    for each in topics.values():
        for role in ("input", "output", "rejects"):
            make_topic(broker.bootstrap, each[role], max_message_bytes=LIMIT)
    other = "".join(random.Random(2).choices(string.ascii_letters, k=200))  # lz4 gains nothing
    group = {"discipline": "group", "groups": {"G": ["A", other]}}
    pipelines = {
        "g": group,
        "net": {**group, "sequencing": "network", "nodes": 2},
        "clk": {"discipline": "multicast", "order": "clock"},
        "cnt": {"discipline": "multicast", "order": "counter"},
    }
    made = {name: {**own, **topics[name]} for name, own in pipelines.items()}
    config = write_config(tmp_path, broker.bootstrap, made)
    to = ("to", f"A,{other}".encode())
    headers = {"g": ("group", b"G"), "net": ("group", b"G"), "clk": to, "cnt": to}
    noise = random.Random(1).randbytes(LIMIT)
    for name, header in headers.items():
        # What is left for a value beside the headers, those that are added too, and the name.
        for_one = LIMIT - ROOM - len(header[1])
        for size in (10, for_one, LIMIT - 110 - len(header[1]), 10):  # each a batch of its own
            sent = [Record(b"s", noise[:size], [header])]
            produce(broker.bootstrap, topics[name]["input"], sent)
    run_once(config, within=within)
    for name in topics:
        got = {key: [] for key in (b"A", other.encode())}
        for record in read_all(broker.bootstrap, topics[name]["output"]):
            got[record.key].append((len(record.value), record.header("sequence")))
        large = LIMIT - ROOM - len(headers[name][1])
        assert got[b"A"] == [(10, b"0"), (large, b"1"), (10, b"2")], name
        assert got[other.encode()] == [(10, b"0"), (10, b"1")], name
        told = [json.loads(r.value) for r in read_all(broker.bootstrap, topics[name]["events"])]
        ((event, *_),) = [[e, None] for e in told if e["event"] == "undelivered"]
        assert (event["destination"], event["reason"]) == (other, "too-large")
        assert (event["topic"], event["offset"]) == (topics[name]["input"], 1)
        (reject,) = read_all(broker.bootstrap, topics[name]["rejects"])
        assert reject.header("reject-reason") == b"too-large"
        assert reject.header("reject-offset") == b"2"
    code, said = verify(config)
    assert code == 0, said

"""Labels and channels inside of values: real Spark, a real broker."""

import json
import struct

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all, wait_for_records
from tests.registry import TestRegistry
from tests.service_helpers import (
    Service,
    WarmService,
    called_json,
    channel_topics,
    run_once,
    status,
    verify,
    write_config,
)

pytestmark = pytest.mark.timeout(600)
LABELS = (3, 0, 2, 1, 4)


def event(source, sequence, **more):
    """A CloudEvent in structured mode, as it lies in a Kafka value."""
    known = {"specversion": "1.0", "id": f"{source}-{sequence}", "source": source, "type": "t"}
    return json.dumps({**known, "sequence": sequence, **more}).encode()


ORDER = """
syntax = "proto3";
message Order { message At { string id = 1; } At at = 1; int64 seq = 2; }
"""


def in_protobuf(number, channel, label):
    at = b"\x0a" + bytes([2 + len(channel), 10, len(channel)]) + channel
    return b"\0" + struct.pack(">I", number) + b"\0" + at + (b"\x10%c" % label if label else b"")


def test_cloud_events_in_json_and_orders_in_protobuf(broker, topic_prefix, tmp_path):
    topics, orders = channel_topics(topic_prefix), channel_topics(f"{topic_prefix}q.")
    create_topics(broker.bootstrap, {topics["input"]: 2, orders["input"]: 1})
    fields = {"channel": {"json": "$.source"}, "label": {"json": "$.sequence"}}
    others = {"channel": {"protobuf": "at.id"}, "label": {"protobuf": "seq"}}
    pipelines = {"p": {**topics, **fields}, "q": {**orders, **others}}
    config = write_config(tmp_path, broker.bootstrap, pipelines)
    with TestRegistry(tmp_path) as registry:
        with_registry(config, registry)
        number = registry.register("q", ORDER, schemaType="PROTOBUF")
        values = [in_protobuf(number, name, n) for n in LABELS for name in (b"a", b"b")]
        broken = values[0][:-1]
        produce(broker.bootstrap, orders["input"], [Record(None, v) for v in (broken, *values)])
        judge_events(broker.bootstrap, topics, config)
        out = [each.value for each in read_all(broker.bootstrap, orders["output"])]
        for name in (b"a", b"b"):
            given = [value for value in out if name in value]
            assert given == [in_protobuf(number, name, n) for n in sorted(LABELS)]
        (reject,) = read_all(broker.bootstrap, orders["rejects"])
        assert (reject.value, reject.header("reject-reason")) == (broken, b"missing-channel")
        assert reject.header("reject-detail") == b"the value is not what schema %d says" % number
        code, told = verify(config)
        assert code == 0, told


def judge_events(bootstrap, topics, config):
    """Send events, have the service work them off, and look at what came."""
    bad = {
        b"{": "missing-channel",
        event("/a", 1.5): "bad-label",
        event("/a", None): "missing-label",
    }
    sent = [
        Record(
            b"any key", event(source, sequence if source == "/a" else str(sequence)), partition=0
        )
        for sequence in LABELS
        for source in ("/a", "/b")
    ]
    produce(bootstrap, topics["input"], sent)
    produce(bootstrap, topics["input"], [Record(None, value, partition=1) for value in bad])
    run_once(config)
    out = [json.loads(each.value) for each in read_all(bootstrap, topics["output"])]
    for source in ("/a", "/b"):
        given = [int(each["sequence"]) for each in out if each["source"] == source]
        assert given == sorted(LABELS)
    rejects = read_all(bootstrap, topics["rejects"])
    assert {each.value: each.header("reject-reason").decode() for each in rejects} == bad
    details = {each.header("reject-reason"): each.header("reject-detail") for each in rejects}
    assert details[b"missing-channel"] == b"the value is not JSON"
    counts = status(config)["p"]
    assert (counts["in"], counts["delivered"], counts["held"]) == (13, 10, 0)
    words = ("--pipeline", "p")
    replayed = called_json("replay", config, *words, "--set", "duplicates=drop")["as set"]
    assert (replayed["delivered"], sum(replayed["rejected"].values())) == (10, 3)
    (advice,) = called_json("advise", config, *words, "--measure")["pipelines"].values()
    assert advice["messages"] == 10


def in_avro(number, channel, label):
    """A framed value of schema ``number``; the second schema has the fields the other way round."""
    name, count = bytes([2 * len(channel)]) + channel, bytes([2 * label])
    return b"\0" + struct.pack(">I", number) + (name + count if number == 1 else count + name)


def with_registry(config, registry):
    config.write_text(
        config.read_text().replace("[kafka]\n", f'[kafka]\nschema_registry = "{registry.url}"\n')
    )


def test_a_batch_is_repeated_with_the_schemas_that_it_had(broker, topic_prefix, tmp_path):
    fields = [{"name": "id", "type": "string"}, {"name": "seq", "type": "long"}]
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1})
    pipeline = {**topics, "channel": {"avro": "id"}, "label": {"avro": "seq"}}
    config = write_config(tmp_path, broker.bootstrap, {"p": pipeline})
    sent = [
        in_avro(1, b"a", 2),
        in_avro(1, b"a", 0),
        in_avro(2, b"a", 1),
        b"\0odd",
        in_avro(1, b"b", 0),
    ]
    produce(broker.bootstrap, topics["input"], [Record(b"k", value) for value in sent])
    with TestRegistry(tmp_path) as registry:
        with_registry(config, registry)
        registry.register("s", {"type": "record", "name": "R", "fields": fields})
        fault = {"SEQUENCER_FAULT": f"5-6:{tmp_path / 'killed'}"}
        with Service(config, environment=fault) as service:
            service.wait()
        assert (tmp_path / "killed").exists(), service.said()
        registry.register("s", {"type": "record", "name": "R", "fields": fields[::-1]})
        registry.stop()
        with WarmService(config) as service:
            service.until(lambda: status(config)["p"]["in"] == len(sent))
            rejects = wait_for_records(broker.bootstrap, topics["rejects"], 2)
            details = {each.value: each.header("reject-detail") for each in rejects}
            assert details == {
                sent[2]: b"the registry does not know schema 2",
                sent[3]: b"the value does not begin with a schema's id",
            }
            produce(broker.bootstrap, topics["input"], [Record(b"k", in_avro(2, b"a", 1))])
            service.until(lambda: status(config)["p"]["waits_for"])
            assert status(config)["p"]["waits_for"].startswith("schema 2 of the registry at http")
            registry.start()
            service.until(lambda: status(config)["p"]["delivered"] == 4)
            assert service.stop() == 0, service.said()
        assert "Waiting for it." in service.said()
        assert "the schema registry is back" in service.said()
        out = read_all(broker.bootstrap, topics["output"])
        given = {name: [r.value for r in out if name in r.value] for name in (b"a", b"b")}
        assert given == {b"a": [sent[1], in_avro(2, b"a", 1), sent[0]], b"b": [sent[4]]}
        counts = status(config)["p"]
        assert (counts["in"], counts["held"], counts["waits_for"]) == (6, 0, None)
        assert len(read_all(broker.bootstrap, topics["rejects"])) == 2
        code, told = verify(config)
        assert code == 0, told
        replayed = called_json("replay", config, "--set", "duplicates=drop")["as set"]
        assert replayed["delivered"] == 4, "the registry knows more now"


def test_a_schema_whose_reference_comes_later_is_asked_for_again(broker, topic_prefix, tmp_path):
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1})
    config = write_config(
        tmp_path, broker.bootstrap, {"p": {**topics, "label": {"avro": "order.seq"}}}
    )
    line = {"type": "record", "name": "Line", "fields": [{"name": "order", "type": "Order"}]}
    order = {"type": "record", "name": "Order", "fields": [{"name": "seq", "type": "long"}]}
    refers = [{"name": "Order", "subject": "order", "version": 1}]
    with TestRegistry(tmp_path) as registry:
        with_registry(config, registry)
        number = registry.register("line", line, references=refers)
        first = Record(b"k", b"\0" + struct.pack(">I", number) + b"\0")
        produce(broker.bootstrap, topics["input"], [first])
        run_once(config)
        registry.register("order", order)
        produce(broker.bootstrap, topics["input"], [first])
        run_once(config)
        (reject,) = read_all(broker.bootstrap, topics["rejects"])
        assert reject.header("reject-detail") == (
            b"schema %d cannot be used: it refers to Order, which the registry has not got" % number
        )
        assert len(read_all(broker.bootstrap, topics["output"])) == 1
        code, told = verify(config)
        assert code == 0, told

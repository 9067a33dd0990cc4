"""The service's own source in a running service: no process of its own, its checkpoint, what it cannot read."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.kills import members
from tests.kafka_helpers import (
    SECONDS_MAX,
    Record,
    add_partitions,
    create_topics,
    produce,
    read_all,
)
from tests.service_helpers import (
    Service,
    WarmService,
    channel_topics,
    inspect,
    run_once,
    write_config,
)

pytestmark = pytest.mark.timeout(600)


def message(key, label, **place):
    return Record(key, b"%s %d" % (key, label), [("label", b"%d" % label)], **place)


@pytest.fixture
def topics(broker, topic_prefix):
    names = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, dict.fromkeys(names.values(), 2))
    return names


def delivered(broker, topics):
    """Each channel's values in order of delivery."""
    found = {}
    for record in read_all(broker.bootstrap, topics["output"]):
        found.setdefault(record.key, []).append(record.value)
    return found


def in_order(key, count):
    return [b"%s %d" % (key, label) for label in range(count)]


def stages(folder):
    """How many stages each of a service's batches had, from Spark's log of events."""
    lines = (line for file in folder.rglob("*") if file.is_file() for line in file.open())
    events = (json.loads(line) for line in lines if '"SparkListenerJobStart"' in line)
    return [
        len(event["Stage IDs"])
        for event in events
        if "streaming.sql.batchId" in event["Properties"]
    ]


def test_it_has_no_process_of_its_own_and_few_records_are_read_where_they_are_stepped(
    broker, topics, tmp_path
):
    """Spark has several for a source in Python (`streaming.spark.stream`)."""
    config = write_config(tmp_path, broker.bootstrap, {"p": topics})
    log = tmp_path / "spark"
    log.mkdir()
    settings = '[spark]\n"spark.eventLog.enabled" = "true"\n"spark.eventLog.compress" = "false"\n'
    text = config.read_text().replace("[spark]\n", f'{settings}"spark.eventLog.dir" = "{log}"\n')
    config.write_text(text)
    many = [message(b"%d" % channel, 0) for channel in range(20_001)]
    produce(broker.bootstrap, topics["input"], many)
    with Service(config) as service:
        service.until(lambda: [*Path(config.parent, "checkpoints").rglob("commits/0")])
        produce(broker.bootstrap, topics["input"], [message(b"a", 1), message(b"a", 0)])
        service.until(lambda: delivered(broker, topics).get(b"a") == in_order(b"a", 2))
        lines = [
            Path(f"/proc/{each}/cmdline").read_bytes() for each in members(service.process.pid)
        ]
        assert [line for line in lines if b"java" in line]
        assert not [line for line in lines if b"pyspark.sql" in line]
        assert service.stop() == 0
    first, *others = stages(log)
    assert first == 2, "a stage that reads, and one that steps"
    assert 1 in others, "Spark shuffles a batch of few records"


def test_partitions_that_are_added(broker, topics, tmp_path):
    config = write_config(tmp_path, broker.bootstrap, {"p": topics})
    produce(broker.bootstrap, topics["input"], [message(b"a", 0)])
    with WarmService(config) as service:
        service.until(lambda: delivered(broker, topics) == {b"a": in_order(b"a", 1)})
        add_partitions(broker.bootstrap, topics["input"], 3)
        produce(broker.bootstrap, topics["input"], [message(b"a", 1, partition=2)])
        service.until(lambda: delivered(broker, topics) == {b"a": in_order(b"a", 2)})
        assert service.stop() == 0


EVERY_COLUMN = """concat_ws('|',
    nvl(hex(key), '-'), nvl(hex(value), '-'), topic, partition, offset,
    nvl(cast(timestamp as string), '-'), timestampType,
    concat_ws(',', transform(headers, h -> concat(h.key, '=', nvl(hex(h.value), '-')))))"""


def test_expressions_see_kafkas_rows(broker, topics, tmp_path):
    """The columns of Spark's own Kafka source: as what they say names each record's channel."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    any_time = {"message.timestamp.after.max.ms": f"{2**63 - 1}"}
    stamped = NewTopic(
        f"{topics['input']}.s", 1, 1, config={"message.timestamp.type": "LogAppendTime"}
    )
    far = NewTopic(f"{topics['input']}.far", 1, 1, config=any_time)
    for future in admin.create_topics([stamped, far]).values():
        future.result(SECONDS_MAX)
    label = ("label", b"0")
    rows = [
        Record(b"\xff", b"v", [("", None), label], timestamp=1_700_000_000_123),
        Record(None, None, [label, ("\u00e9", b"")], timestamp=1),
    ]
    produce(broker.bootstrap, topics["input"], [replace(row, partition=0) for row in rows])
    produce(broker.bootstrap, stamped.topic, [Record(b"k", b"w", [label], timestamp=5)])
    produce(broker.bootstrap, far.topic, [Record(b"k", b"x", [label], timestamp=2**62)])
    inputs = [topics["input"], stamped.topic, far.topic]
    given = {role: f"{name}.far" for role, name in topics.items()}  # the service makes them
    given["input"] = inputs
    config = write_config(
        tmp_path, broker.bootstrap, {"p": {**given, "channel": EVERY_COLUMN.replace("\n", " ")}}
    )
    run_once(config)
    (appended,) = read_all(broker.bootstrap, stamped.topic)
    when = datetime.fromtimestamp(appended.timestamp / 1000, UTC)
    seconds = f"{when:%Y-%m-%d %H:%M:%S}.{appended.timestamp % 1000:03}".rstrip("0").rstrip(".")
    found = {each["channel"] for each in inspect(config)["channels"]}
    assert found == {
        f"FF|76|{topics['input']}|0|0|2023-11-14 22:13:20.123|0|=-,label=30",
        f"-|-|{topics['input']}|0|1|1970-01-01 00:00:00.001|0|label=30,\u00e9=",
        f"6B|77|{stamped.topic}|0|0|{seconds}|1|label=30",
        f"6B|78|{far.topic}|0|0|-|0|label=30",
    }
    out = read_all(broker.bootstrap, given["output"])
    assert {record.timestamp for record in out} == {1_700_000_000_123, 1, appended.timestamp, 2**62}


def test_input_that_is_gone(broker, topics, tmp_path):
    """Records that Kafka deleted before they were read end the service."""
    config = write_config(tmp_path, broker.bootstrap, {"p": topics})
    records = [message(b"a", label, partition=0) for label in range(5)]
    produce(broker.bootstrap, topics["input"], records)
    run_once(config)
    more = [message(b"a", label, partition=0) for label in range(5, 10)]
    produce(broker.bootstrap, topics["input"], more)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topics["input"], 0, 8)]).values():
        future.result(SECONDS_MAX)
    with WarmService(config, "--once") as service:
        assert service.wait() == 1
        assert "--accept-lost-input" in service.said()
    assert delivered(broker, topics) == {b"a": in_order(b"a", 5)}

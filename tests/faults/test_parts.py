"""Batches that no single transaction can take: written in parts, each delivery once."""

import json
import signal
import uuid

import pytest
from kafka import KafkaConsumer, TopicPartition

from streaming.crashes import PART_POINTS, POINTS
from tests.faults.dying import FAULTS
from tests.faults.everything import LONG, SHORT, Everything, ends_everywhere
from tests.faults.small_parts import RECORDS_MAX
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import Service, channel_topics, run_once, status, write_config

pytestmark = pytest.mark.timeout(3600)
IN_PARTS = "tests.faults.small_parts"
ONE_PARTITION = {"shards": 4, "state_partitions": 1}
IN_WORKERS = [point for point in POINTS if point not in ("1-2", "5-6")]


def faults(folder, points):
    """What SEQUENCER_FAULT says for these points."""
    return ",".join(f"{point}:{folder}/died-{point}" for point in points)


def died(folder):
    return {path.name.removeprefix("died-") for path in folder.glob("died-*")}


def test_workers_die_around_the_commit_of_a_part(broker, tmp_path):
    """Of one discipline or another: a point is where the first of them comes."""
    die_at(PART_POINTS, Everything(broker, tmp_path, SHORT, **ONE_PARTITION))


@pytest.mark.slow
@pytest.mark.parametrize("discipline", LONG)
def test_workers_die_between_any_two_steps_of_a_batch_in_parts(broker, tmp_path, discipline):
    pipelines = {discipline: LONG[discipline]}
    die_at([*PART_POINTS, *IN_WORKERS], Everything(broker, tmp_path, pipelines, **ONE_PARTITION))


def die_at(points, every):
    """Run it while the sink's workers die at each of these points, and judge."""
    every.send()
    folder = every.config.parent
    environment = {FAULTS: faults(folder, points)}
    run_once(every.config, within=f"{IN_PARTS}:dying_workers", environment=environment)
    assert died(folder) == set(points)
    every.judge()


@pytest.mark.slow
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_operators_end_between_any_two_rows_of_a_batch_in_parts(
    broker, tmp_path, delivery, partitions
):
    """What they gave before is committed, and not given to Kafka again."""
    shards = {"shards": 4, "state_partitions": partitions}
    every = Everything(broker, tmp_path, LONG, delivery=delivery, **shards)
    ends_everywhere(every, f"{IN_PARTS}:torn_operators", **{RECORDS_MAX: "3"})


@pytest.mark.slow
@pytest.mark.parametrize("point", PART_POINTS)
def test_the_service_dies_around_the_commit_of_a_part(broker, tmp_path, point):
    every = Everything(broker, tmp_path, LONG, **ONE_PARTITION)
    every.send()
    environment = {"SEQUENCER_FAULT": faults(tmp_path, [point])}
    how = {"environment": environment, "module": IN_PARTS}
    with Service(every.config, "--once", **how) as service:
        assert service.wait() == -signal.SIGKILL, service.said()
    assert died(tmp_path) == {point}
    run_once(every.config)
    every.judge()


def group_made_by_command(broker, folder, members, publishes, **service):
    """A pipeline whose configuration knows of two subscribers; a command has added ``members``."""
    topics = channel_topics(f"parts-{uuid.uuid4().hex[:8]}.")
    create_topics(broker.bootstrap, {topics["input"]: 1, topics["commands"]: 1})
    pipeline = {"discipline": "group", "groups": {"G0": ["a", "b"]}, **topics}
    config = write_config(folder, broker.bootstrap, {"p": pipeline}, **service)
    names = [f"s{n}" for n in range(members)]
    command = json.dumps({"op": "add", "group": "BIG", "members": names, "id": "c"}).encode()
    produce(broker.bootstrap, topics["commands"], [Record(None, command)])
    records = [Record(b"k", b"m%d" % n, [("group", b"BIG")]) for n in range(publishes)]
    produce(broker.bootstrap, topics["input"], records)
    return config, topics


def with_timeout(config, timeout_ms):
    """The configuration with another limit for transactions."""
    line = f'properties = {{ "transaction.timeout.ms" = "{timeout_ms}" }}'
    config.write_text(config.read_text().replace("[kafka]", f"[kafka]\n{line}"))
    return config


@pytest.mark.slow
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_6_000_publishes_to_a_group_of_2_000_that_a_command_added(broker, tmp_path, delivery):
    """A batch that takes several times as long as a transaction may."""
    config, topics = group_made_by_command(broker, tmp_path, 2_000, 6_000, delivery=delivery)
    run_once(with_timeout(config, 10_000), limit_s=3000, cold=True)
    found = status(config)["p"]
    assert (found["in"], found["delivered"]) == (6_000, 12_000_000)
    assert records_in(broker, topics["output"]) >= 12_000_000


def records_in(broker, topic):
    """How many offsets a topic has: records, and a marker for each transaction and partition."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    try:
        places = [TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic)]
        return sum(consumer.end_offsets(places).values())
    finally:
        consumer.close()

"""An input that is given a partition whose first records are gone before they are read."""

import json
import uuid
from types import SimpleNamespace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.disciplines.source import Limits
from streaming.errors import InputLost
from streaming.source.losses import Acceptance
from streaming.source.planned import lost_of_planned
from streaming.source.positions import begin_of
from streaming.source.reader import Inputs, KafkaReader
from tests.kafka_helpers import SECONDS_MAX, Record, add_partitions, create_topics, produce
from tests.streaming.source.readings import reading_of


def plain(position):
    """As Spark's log has it."""
    return json.loads(json.dumps(position))


def test_it_is_lost_input_and_can_be_accepted(broker):
    topic = f"grown-{uuid.uuid4().hex[:8]}"
    create_topics(broker.bootstrap, {topic: 1})
    produce(broker.bootstrap, topic, [Record(b"k", b"a", partition=0)])
    inputs = Inputs(topics={topic: 0}, properties={"bootstrap.servers": broker.bootstrap})
    first = KafkaReader(inputs, reading_of(topic, Limits()))
    start = plain(first.latest(first.first()))
    first.close()
    add_partitions(broker.bootstrap, topic, 2)
    produce(broker.bootstrap, topic, [Record(b"k", b"%d" % n, partition=1) for n in range(10)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 1, 4)]).values():
        future.result(SECONDS_MAX)
    reader = KafkaReader(inputs, reading_of(topic, Limits()))
    with pytest.raises(InputLost, match=f"{topic}, partition 1: "):
        reader.latest(start)
    reader.close()
    said = []
    accepts = Acceptance({topic}, lambda text, **_: said.append(text))
    reader = KafkaReader(inputs, reading_of(topic, Limits()), accepts)
    end = plain(reader.latest(start))
    assert begin_of(start, end)[topic]["1"] == 4
    assert said
    reader.close()
    planned = plain(end)  # by who did not see that these records are gone
    del planned[f"#{topic}"]["begins"]
    plan = SimpleNamespace(producer=inputs.properties)
    (loss,) = lost_of_planned(plan, start, planned)
    assert (loss.partition, loss.begin) == (1, 4)

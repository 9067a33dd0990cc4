"""A service that its own past fences, by a request that came late, goes on: it is alone."""

from confluent_kafka import Producer

from tests.kafka_helpers import SECONDS_MAX, Record, create_topics, produce, wait_for_records
from tests.service_helpers import WarmService, channel_topics, write_config

TRIES_MAX = 20
SAID = "the only one on its checkpoint"


def send(broker, prefix, label):
    record = Record(b"k", b"%d" % label, [("label", b"%d" % label)])
    produce(broker.bootstrap, f"{prefix}in", [record])


def begin_session(broker, service):
    """As a worker does that stood still for a minute, and then goes on."""
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{service}.p.0"}
    Producer(settings).init_transactions(SECONDS_MAX)


def test_a_late_session_of_a_zombie(broker, topic_prefix, tmp_path):
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 1})
    service = f"{topic_prefix}service"
    settings = {"name": service, "state_partitions": 1, "shards": 1}
    pipelines = {"p": channel_topics(topic_prefix)}
    config = write_config(tmp_path, broker.bootstrap, pipelines, **settings)
    label = 0
    with WarmService(config) as running:
        while SAID not in running.said() and label < TRIES_MAX:  # Spark may choose a new worker
            send(broker, topic_prefix, label)
            label += 1
            out = wait_for_records(broker.bootstrap, f"{topic_prefix}out", label)
            begin_session(broker, service)
        assert SAID in running.said()
        assert running.stop() == 0, running.said()
    assert [each.value for each in out] == [b"%d" % n for n in range(label)]

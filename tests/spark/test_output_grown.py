"""An output that is given partitions: no key moves, and the start says so."""

from confluent_kafka.admin import AdminClient, NewPartitions

from tests.kafka_helpers import SECONDS_MAX, Record, create_topics, produce, read_all
from tests.service_helpers import channel_topics, run_once, verify, write_config

KEYS = [b"k%d" % n for n in range(20)]


def send(broker, topics, label):
    produce(
        broker.bootstrap,
        topics["input"],
        [Record(key, b"%s-%d" % (key, label), [("label", b"%d" % label)]) for key in KEYS],
    )


def test_its_keys_stay_where_they_were(broker, topic_prefix, tmp_path):
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1, topics["output"]: 2})
    config = write_config(tmp_path, broker.bootstrap, {"p": topics}, create_topics=True)
    send(broker, topics, 0)
    assert "partitions now" not in run_once(config)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_partitions([NewPartitions(topics["output"], 5)]).values():
        future.result(SECONDS_MAX)
    send(broker, topics, 1)
    assert f"{topics['output']} has 5 partitions now. Its keys stay in the first 2" in run_once(
        config
    )
    found = read_all(broker.bootstrap, topics["output"])
    assert len(found) == 2 * len(KEYS)
    assert len({(record.key, record.partition) for record in found}) == len(KEYS)
    code, said = verify(config)
    assert code == 0, said

"""An input that is lost stops its pipeline; the others go on, and an option goes on behind it."""

import signal
from collections import Counter

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.kafka_helpers import (
    SECONDS_MAX,
    Record,
    create_topics,
    delete_topic,
    produce,
    read_all,
)
from tests.service_helpers import Service, WarmService, channel_topics, run_once, write_config


def some(key, count):
    return [Record(key, b"%d" % n, [("label", b"%d" % n)], partition=0) for n in range(count)]


def make_again(bootstrap, topic):
    delete_topic(bootstrap, topic)
    create_topics(bootstrap, {topic: 1})


def test_an_input_that_was_made_again(broker, topic_prefix, tmp_path):
    """With more records than before: its beginning would be passed over."""
    names = {name: channel_topics(f"{topic_prefix}{name}.") for name in ("lost", "kept")}
    create_topics(broker.bootstrap, {each["input"]: 1 for each in names.values()})
    config = write_config(
        tmp_path, broker.bootstrap, names, create_topics=True, state_partitions=1, trigger="100 ms"
    )
    for each in names.values():
        produce(broker.bootstrap, each["input"], some(b"old", 10))
    run_once(config)
    make_again(broker.bootstrap, names["lost"]["input"])
    for each in names.values():
        produce(broker.bootstrap, each["input"], some(b"new", 15))
    with WarmService(config, "--once") as service:
        assert service.wait(SECONDS_MAX * 2) == 1
        assert f"{names['lost']['input']} was deleted and made again" in service.said()
        assert "This pipeline is stopped; others go on." in service.said()
    delivered = {
        name: [record.key for record in read_all(broker.bootstrap, each["output"])]
        for name, each in names.items()
    }
    assert delivered["kept"].count(b"new") == 15
    assert delivered["lost"] == [b"old"] * 10

    said = run_once(config, "--accept-lost-input")
    assert "Input is lost, as was accepted" in said
    found = [record.key for record in read_all(broker.bootstrap, names["lost"]["output"])]
    assert found == [b"old"] * 10 + [b"new"] * 15
    assert "Input is lost" not in run_once(config)


def test_with_fewer_records_than_were_read(broker, topic_prefix, tmp_path):
    """Without the option nothing is passed over in silence; with it the new records are read."""
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1})
    config = write_config(tmp_path, broker.bootstrap, {"p": topics}, state_partitions=2)
    produce(broker.bootstrap, topics["input"], some(b"old", 1_000))
    run_once(config)
    make_again(broker.bootstrap, topics["input"])
    produce(broker.bootstrap, topics["input"], some(b"new", 3))
    with WarmService(config, "--once") as service:
        assert service.wait(SECONDS_MAX * 2) == 1
        assert f"{topics['input']} was deleted and made again" in service.said()
    run_once(config, "--accept-lost-input")
    found = Counter(record.key for record in read_all(broker.bootstrap, topics["output"]))
    assert found == {b"old": 1_000, b"new": 3}


def test_what_was_read_may_be_deleted(broker, topic_prefix, tmp_path):
    """As retention does while a service stands: a start goes on, also if one batch read it all."""
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1})
    config = write_config(tmp_path, broker.bootstrap, {"p": topics}, state_partitions=2)
    records = some(b"k", 2_010)
    produce(broker.bootstrap, topics["input"], records[:2_000])
    run_once(config)
    delete_records(broker.bootstrap, topics["input"], 2_000)
    produce(broker.bootstrap, topics["input"], records[2_000:])
    run_once(config)
    assert len(read_all(broker.bootstrap, topics["output"])) == len(records)


def delete_records(bootstrap, topic, before):
    """Those of the first partition."""
    gone = TopicPartition(topic, 0, before)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # its answers end with it
    admin.delete_records([gone])[gone].result(SECONDS_MAX)


def test_a_planned_batch_whose_records_are_gone(broker, topic_prefix, tmp_path):
    """One of two partitions has committed it; what is left of it comes under new incarnations."""
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1})
    sizes = {"shards": 2, "state_partitions": 2}
    config = write_config(tmp_path, broker.bootstrap, {"p": topics}, **sizes)
    config.write_text(config.read_text().replace("local[2]", "local[1]"))  # one after the other
    keys = [b"k%d" % n for n in range(12)]
    produce(broker.bootstrap, topics["input"], [each for key in keys for each in some(key, 2)])
    died = {"SEQUENCER_FAULT": f"4-5:{tmp_path}/died"}
    with Service(config, "--once", environment=died) as service:
        assert service.wait() == -signal.SIGKILL, service.said()
    before = Counter(record.key for record in read_all(broker.bootstrap, topics["output"]))
    assert 0 < len(before) < len(keys), "the batch is in doubt"
    delete_records(broker.bootstrap, topics["input"], 2)  # the first key's
    for options, said in (
        ([], "cannot be repeated without it"),
        (["--accept-lost-input"], "may have been written before the last stop"),
        (["--accept-repeats"], "cannot be repeated without it"),
    ):
        with WarmService(config, "--once", *options) as service:
            assert service.wait(SECONDS_MAX * 2) == 1
            assert said in service.said()
    assert Counter(record.key for record in read_all(broker.bootstrap, topics["output"])) == before
    said = run_once(config, "--accept-lost-input", "--accept-repeats")
    assert "is planned anew" in said
    after = Counter(record.key for record in read_all(broker.bootstrap, topics["output"]))
    assert after == before + Counter(dict.fromkeys(keys[1:], 2))
    names = Counter(
        (record.key, *(dict(record.headers)[name] for name in ("incarnation", "sequence")))
        for record in read_all(broker.bootstrap, topics["output"])
    )
    assert set(names.values()) == {1}

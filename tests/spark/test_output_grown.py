"""An output that is given partitions, or deleted: no key moves, and what happened is said."""

import signal
from functools import partial

import pytest

from tests.kafka_helpers import (
    SECONDS_MAX,
    Record,
    add_partitions,
    create_topics,
    delete_topic,
    produce,
    read_all,
)
from tests.service_helpers import (
    Service,
    WarmService,
    channel_topics,
    run_once,
    verify,
    write_config,
)
from tests.warm import warm

KEYS = [b"k%d" % n for n in range(20)]


def send(broker, topics, label):
    produce(
        broker.bootstrap,
        topics["input"],
        [Record(key, b"%s-%d" % (key, label), [("label", b"%d" % label)]) for key in KEYS],
    )


def test_its_keys_stay_where_they_were(broker, topic_prefix, tmp_path):
    """Also after a move to another number of shards, whose checkpoint is a new one."""
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1, topics["output"]: 2})
    config = write_config(tmp_path, broker.bootstrap, {"p": topics}, create_topics=True)
    send(broker, topics, 0)
    assert "partitions now" not in run_once(config)
    add_partitions(broker.bootstrap, topics["output"], 5)
    send(broker, topics, 1)
    assert f"{topics['output']} has 5 partitions now. Its keys stay in the first 2" in run_once(
        config
    )
    moved = {"checkpoint": str(tmp_path / "moved"), "shards": 4, "state_partitions": 4}
    asked = ("--shards", "4", "--state-partitions", "4", "--to", moved["checkpoint"])
    command = warm().call("rescale", str(config), *asked)
    assert command.poll(SECONDS_MAX) == 0, command.said()
    config = write_config(tmp_path, broker.bootstrap, {"p": topics}, create_topics=True, **moved)
    send(broker, topics, 2)
    run_once(config)
    found = read_all(broker.bootstrap, topics["output"])
    assert len(found) == 3 * len(KEYS)
    assert len({(record.key, record.partition) for record in found}) == len(KEYS)
    code, said = verify(config)
    assert code == 0, said


@pytest.mark.slow
def test_an_output_that_is_deleted(broker, topic_prefix, tmp_path):
    """Its pipeline alone stops; a start makes the topic again, and delivers all that came since."""
    names = {name: channel_topics(f"{topic_prefix}{name}.") for name in ("lost", "kept")}
    create_topics(broker.bootstrap, {each["input"]: 1 for each in names.values()})
    config = write_config(tmp_path, broker.bootstrap, names, create_topics=True)
    gone = names["lost"]["output"]
    with WarmService(config) as service:
        for each in names.values():
            send(broker, each, 0)
        for each in names.values():
            service.until(partial(has, broker, each["output"], len(KEYS)))
        delete_topic(broker.bootstrap, gone)
        for each in names.values():
            send(broker, each, 1)
        service.until(partial(has, broker, names["kept"]["output"], 2 * len(KEYS)))
        service.until(lambda: "This pipeline is stopped; others go on." in service.said(), 150)
        assert f"Topics are missing in Kafka: {gone}." in service.said()
        assert service.stop() == 1, service.said()
    run_once(config)
    found = read_all(broker.bootstrap, gone)
    assert sorted(record.value for record in found) == sorted(b"%s-1" % key for key in KEYS)


def has(broker, topic, count):
    return len(read_all(broker.bootstrap, topic)) == count


@pytest.fixture
def in_doubt(broker, topic_prefix, tmp_path):
    """A service that was killed with its first batch planned, whose output was deleted then."""
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1, topics["output"]: 6})
    config = write_config(tmp_path, broker.bootstrap, {"p": topics}, create_topics=True)
    send(broker, topics, 0)
    fault = {"SEQUENCER_FAULT": f"2-3:{tmp_path}/died"}
    with Service(config, "--once", environment=fault) as service:
        assert service.wait() == -signal.SIGKILL, service.said()
    delete_topic(broker.bootstrap, topics["output"])
    return config, topics["output"]


@pytest.mark.slow
def test_an_output_made_again_with_fewer_partitions_is_given_them_back(broker, in_doubt):
    """A batch in doubt is spread over as many as there were: its start says what to do."""
    config, output = in_doubt
    create_topics(broker.bootstrap, {output: 1})
    with Service(config, "--once") as second:
        assert second.wait() == 2, second.said()
        assert f"{output} has 1 partition and had 6." in second.said()
    add_partitions(broker.bootstrap, output, 6)
    run_once(config)
    assert len(read_all(broker.bootstrap, output)) == len(KEYS)


def test_a_start_makes_it_with_as_many_partitions_as_it_had(broker, in_doubt):
    """The batch in doubt is spread over more than the input has, which new topics get."""
    config, output = in_doubt
    assert f"created topic {output}" in run_once(config)
    found = read_all(broker.bootstrap, output)
    assert sorted(record.key for record in found) == sorted(KEYS)
    assert {record.partition for record in found} == {*range(6)}

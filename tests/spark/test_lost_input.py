"""An input that is lost stops its pipeline; the others go on, and an option goes on behind it."""

import time

from confluent_kafka.admin import AdminClient

from tests.kafka_helpers import SECONDS_MAX, Record, create_topics, produce, read_all
from tests.service_helpers import WarmService, channel_topics, run_once, write_config


def some(key, count):
    return [Record(key, b"%d" % n, [("label", b"%d" % n)], partition=0) for n in range(count)]


def make_again(bootstrap, topic):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(SECONDS_MAX)
    deadline = time.monotonic() + SECONDS_MAX
    while topic in admin.list_topics(timeout=SECONDS_MAX).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)
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

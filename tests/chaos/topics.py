"""Faults of the topics that a service reads and writes."""

import json
import time
from contextlib import contextmanager

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from tests.chaos.fault import Fault
from tests.kafka_helpers import SECONDS_MAX, Record, create_topics, delete_topic, produce

SECONDS = 10
BYTES_MAX = 150
"""Less than most deliveries have with their headers."""
STOPS = "this pipeline stops, the others go on"
ACCEPTED = "the others go on; with --accept-lost-input this one does, too"


def admin(place):
    """A client, to be kept until it has answered."""
    return AdminClient({"bootstrap.servers": place.kafka.bootstrap})


def some_pipeline(place):
    """A pipeline's name and its topics."""
    name = place.rng.choice(list(place.traffic.names))
    return name, place.traffic.pipelines[name]


def given_partitions(role):
    """A topic gets one more."""

    @contextmanager
    def act(place):
        topic = some_pipeline(place)[1][role]
        client = admin(place)
        count = len(client.list_topics(topic).topics[topic].partitions)
        for future in client.create_partitions([NewPartitions(topic, count + 1)]).values():
            future.result(SECONDS_MAX)
        yield

    return act


@contextmanager
def after_a_start(place):
    """Whatever is planned at a start is planned again."""
    assert place.service.stop() == 0, place.service.said()
    place.start()
    yield


@contextmanager
def output_given_partitions(place):
    """The service sees it when it starts."""
    with given_partitions("output")(place), after_a_start(place):
        yield


def set_bytes_max(place, topic, count):
    """None: as before."""
    operation = AlterConfigOpType.DELETE if count is None else AlterConfigOpType.SET
    entry = ConfigEntry("max.message.bytes", str(count or ""), incremental_operation=operation)
    asked = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(place)
    client.incremental_alter_configs([asked])[asked].result(SECONDS_MAX)


@contextmanager
def takes_too_little(place):
    """What does not fit is rejected, and announced."""
    _, topics = some_pipeline(place)
    set_bytes_max(place, topics["output"], BYTES_MAX)
    try:
        yield
    finally:
        set_bytes_max(place, topics["output"], None)


def lost(lose, sentence):
    """Input is lost: its pipeline stops with a sentence, the others go on; then that is accepted.

    ``lose`` gets the place and a topic of input, which nobody writes to meanwhile.
    """

    @contextmanager
    def act(place):
        name, topics = some_pipeline(place)
        place.spoiled.add(name)
        with place.traffic.silent():
            place.service.stop()
            lose(place, topics["input"])
            place.start()
        found = place.until(lambda: sentence in place.service.said())
        assert found, place.service.said()
        place.next_deliveries(but=(name,))
        assert place.service.stop() == 1, place.service.said()
        assert "Traceback" not in place.service.said(), place.service.said()
        place.endings.append(1)
        place.remarks.append(ACCEPTED)
        place.start("--accept-lost-input")
        if name == "channel":
            give_up(place, topics["commands"])
        yield

    return act


def give_up(place, topic):
    """Skip labels that were lost, until what waits for them is delivered."""
    value = json.dumps({"op": "skip", "blocked": "1 s"}).encode()
    place.deliveries.watch()
    while place.deliveries.missing():
        produce(place.kafka.bootstrap, topic, [Record(None, value)])
        place.wait(3)


def make_again(place, topic):
    """Delete it, and make it with as many partitions."""
    client = admin(place)
    count = len(client.list_topics(topic).topics[topic].partitions)
    delete_topic(place.kafka.bootstrap, topic)
    create_topics(place.kafka.bootstrap, {topic: count})


def remove_unread(place, topic):
    """As retention does: what was sent while the service was away goes, unread."""
    with place.traffic.heard():
        time.sleep(3)
    client = admin(place)
    partitions = client.list_topics(topic).topics[topic].partitions
    ends = [TopicPartition(topic, each, -1) for each in partitions]
    for future in client.delete_records(ends).values():
        future.result(SECONDS_MAX)


@contextmanager
def output_deleted(place):
    """Its pipeline cannot write; a start makes the topic again, and what was in it stays gone."""
    name, topics = some_pipeline(place)
    place.spoiled.add(name)
    place.beheaded.add(name)
    delete_topic(place.kafka.bootstrap, topics["output"])
    stopped = "This pipeline is stopped; others go on."
    assert place.until(lambda: stopped in place.service.said()), place.service.said()
    place.next_deliveries(but=(name,))
    assert topics["output"] not in admin(place).list_topics().topics
    place.endings.append(place.service.stop())
    said = place.service.said()
    assert topics["output"] in said, said
    assert "Traceback" not in said, said
    place.remarks.append("the others go on; a start makes it again, and this one does, too")
    place.start()
    yield


FAULTS = (
    Fault("an input is given a partition", given_partitions("input")),
    Fault("an output is given a partition, and the service starts", output_given_partitions),
    Fault("an output is deleted", output_deleted, (1,), words=STOPS),
    Fault("an output takes too little", takes_too_little, seconds=SECONDS),
    Fault(
        "an input is deleted and made again",
        lost(make_again, "deleted and made again"),
        (1,),
        words=STOPS,
    ),
    Fault(
        "unread input is removed", lost(remove_unread, "were deleted before they were read"), (1,)
    ),
)

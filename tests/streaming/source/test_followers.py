"""A leader that names a follower to be read from (KIP-392), as a `replica.selector.class` decides.

Kafka's own selector goes by the client's rack, and the service names none; others go by its
address, say. Such a leader answers without records, at once.
"""

import threading
from functools import partial

import pytest
from kafka.protocol.consumer import FetchRequest

from streaming.source import fetching, waiting
from streaming.source.fetching import Fetching
from streaming.source.ranges import Range
from streaming.source.waiting import Waiting
from streaming.wire.brokers import Brokers
from streaming.wire.fetched import tables
from tests.kafka_helpers import Record, produce

LEADER, FOLLOWER = 1, 7


@pytest.fixture
def asked(monkeypatch):
    """Which broker each request for records went to; the test's one broker is both."""
    nodes = []
    send = Brokers.send

    def send_to(self, request, node):
        if not isinstance(request, FetchRequest):
            return send(self, request, node)
        nodes.append(node)
        future = send(self, request, LEADER)
        if node == LEADER:
            future.add_callback(partial(name, FOLLOWER))
        return future

    monkeypatch.setattr(Brokers, "send", send_to)
    return nodes


def name(replica, answer):
    """Make of a leader's answer one that names a replica."""
    for topic in answer.responses:
        for each in topic.partitions:
            each.records, each.preferred_read_replica = None, replica


def test_ranges_are_read_from_the_follower_that_the_leader_names(
    broker, brokers, topic, asked, monkeypatch
):
    monkeypatch.setattr(fetching, "SECONDS_MAX", 5)
    records = [Record(b"k", b"%d" % at, partition=at % 3) for at in range(30)]
    produce(broker.bootstrap, topic, records)
    ranges = [Range(topic, 0, at, 0, 10) for at in range(3)]
    assert sum(each.num_rows for each in tables(Fetching(brokers, ranges), 2**20)) == 30
    assert set(asked) == {LEADER, FOLLOWER}


def test_leaders_are_asked_again_once_they_are_looked_up(brokers):
    reading = Fetching(brokers, [])
    reading.replicas["t", 0] = FOLLOWER
    reading.stale_topics.add("t")
    reading._look_for_leaders()
    assert reading.replicas == {}


def test_who_waits_does_so_at_the_follower(brokers, topic, asked, monkeypatch):
    """Leaders would answer each request at once."""
    monkeypatch.setattr(waiting, "STAYS_MS", 100)
    waits = Waiting(brokers)
    start = {topic: {"0": 0}, f"#{topic}": {"id": "", "epochs": {}}}
    waits(start, 3.0, threading.Event())
    assert asked[:3] == [LEADER, FOLLOWER, LEADER]

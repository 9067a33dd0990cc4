"""Logs that were cut back, as in an unclean election."""

import pytest
from confluent_kafka import Producer

from streaming.errors import InputLost
from streaming.source.fetching import Fetching
from streaming.source.losses import Acceptance
from streaming.source.positions import begin_of, logs_in, offsets_in
from streaming.source.ranges import Range
from tests.kafka_helpers import SECONDS_MAX
from tests.streaming.source.readings import as_logged, send, values


def test_a_log_that_was_cut_back(broker, topic, reading, elected):
    """A new leader says that what was written up to the old epoch ends before what was read."""
    send(broker, topic, b"v", 10)
    source = reading()
    start = as_logged(source.latest(source.first()))
    epochs = start["#" + topic]["epochs"]
    epochs["0"] -= 1
    asked = elected(10)
    for _ in range(3):
        assert source.latest(start) == start
    assert asked == [{(topic, 0): epochs["0"]}], "once for each leader"
    elected(-1)
    assert reading().latest(start) == start, "who knows nothing of it says nothing of it"
    elected(7)
    with pytest.raises(InputLost, match="partition 0: what was read up to offset 10 ends at 7"):
        reading().latest(start)
    accepting = reading(Acceptance({topic}))
    end = as_logged(accepting.latest(start))
    assert logs_in(end)[topic].begins == {"0": 7}
    assert begin_of(start, end)[topic] == {"0": 7, "1": 0, "2": 0}
    assert offsets_in(end)[topic]["0"] == 10


def test_a_new_leader_that_does_not_know_yet_what_is_committed(broker, topic, reading, elected):
    """Its log has all of it, but replicas have not told it yet: nothing is lost, nor read again."""
    send(broker, topic, b"v", 10)
    source = reading()
    start = as_logged(source.latest(source.first()))
    start[topic]["0"] = 12
    start["#" + topic]["epochs"]["0"] -= 1
    send(broker, topic, b"w", 3, partition=1)
    elected(12)
    end = as_logged(source.latest(start))
    assert offsets_in(end)[topic] == {"0": 12, "1": 3, "2": 0}
    assert logs_in(end)[topic].epochs["0"] == start["#" + topic]["epochs"]["0"]
    assert reading().latest(end) == end, "another driver asks the leader about the epoch, too"
    elected(11)
    with pytest.raises(InputLost, match="partition 0: what was read up to offset 12 ends at 11"):
        reading().latest(end)


def test_a_planned_batch_of_a_log_that_was_cut_back(brokers, elected):
    brokers.topology.epochs["t", 0] = 6
    planned = [Range("t", 0, 0, 3, 10, "", 5)]
    elected(10)
    Fetching(brokers, planned)._look_at_logs()
    elected(9)
    with pytest.raises(InputLost, match="what was read up to offset 10 ends at 9.*cannot be"):
        Fetching(brokers, planned, repeated=True)._look_at_logs()
    # Another partition of the state may have read it, and committed, just before.
    with pytest.raises(InputLost, match="Parts of it may be written, also for what is lost"):
        Fetching(brokers, planned)._look_at_logs()
    Fetching(brokers, [Range("t", 0, 0, 3, 9, "", 5)])._look_at_logs()
    Fetching(brokers, [Range("t", 0, 0, 3, 10, "", 6)])._look_at_logs()


def test_a_transaction_that_is_open_again_hides_what_was_read(broker, topic, reading, elected):
    """Its marker was cut off: readers see less than was read of it, and nothing is read twice."""
    send(broker, topic, b"v", 5)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    for n in range(4):
        producer.produce(topic, key=b"k", value=b"open%d" % n, partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    source = reading()
    start = as_logged(source.latest(source.first()))
    assert offsets_in(start)[topic]["0"] == 5
    start[topic]["0"] = 12  # its marker was at 9, and others behind it
    start["#" + topic]["epochs"]["0"] -= 1
    elected(9)
    accepting = reading(Acceptance({topic}))
    end = as_logged(accepting.latest(start))
    assert begin_of(start, end)[topic]["0"] == offsets_in(end)[topic]["0"] == 9
    for each in (accepting, reading()):
        assert each.latest(end) == end, "all that was read is there; only readers do not see it"
    producer.commit_transaction(SECONDS_MAX)
    later = send(broker, topic, b"w", 3)
    after = as_logged(accepting.latest(end))
    assert values(accepting, end, after) == later

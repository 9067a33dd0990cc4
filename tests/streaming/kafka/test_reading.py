"""The reader of topics, as far as no broker is needed for it."""

from confluent_kafka import KafkaError

from streaming.config.load import at_address
from streaming.kafka.reading import Record, TopicReader


class Message:
    """One of librdkafka's records."""

    def __init__(self, offset=1, partition=0):
        self.values = {"topic": "t", "partition": partition, "offset": offset, "timestamp": (1, 2)}

    def error(self):
        return None

    def __getattr__(self, name):
        return lambda: self.values.get(name)


def reader_of(*messages):
    """A reader of partition 0 to which librdkafka gives these, one by one."""
    polled = iter(messages)
    reader = TopicReader(at_address("127.0.0.1:1"), "test")
    reader.close()
    reader._assigned = {("t", 0)}
    reader._consumer = type("Polled", (), {"poll": lambda _self, _limit_s: next(polled)})()
    return reader


def test_what_was_asked_for_before_is_passed_over():
    reader = reader_of(Message(partition=1), Message(offset=7), None)
    assert reader.take(1) == [Record("t", 0, 7, 2, None, None, ())]
    assert reader.take(1) == []


def test_an_error_that_does_not_matter_is_no_end_of_the_wait():
    """A reader needs no group; without the right to one, librdkafka says so before the records."""
    refused = type("Refused", (), {"code": lambda _self: KafkaError.GROUP_AUTHORIZATION_FAILED})()
    first = type("First", (), {"error": lambda _self: refused})()
    reader = reader_of(first, Message(), None)
    assert reader.take(1) == [Record("t", 0, 1, 2, None, None, ())]
    assert reader.take(1) == []

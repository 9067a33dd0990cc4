"""The reader of topics, as far as no broker is needed for it."""

from confluent_kafka import KafkaError

from streaming.config.load import at_address
from streaming.kafka.reading import Record, TopicReader


class Message:
    """One of librdkafka's records."""

    def error(self):
        return None

    def __getattr__(self, name):
        values = {"topic": "t", "partition": 0, "offset": 1, "timestamp": (1, 2)}
        return lambda: values.get(name)


def test_an_error_that_does_not_matter_is_no_end_of_the_wait():
    """A reader needs no group; without the right to one, librdkafka says so before the records."""
    refused = type("Refused", (), {"code": lambda _self: KafkaError.GROUP_AUTHORIZATION_FAILED})()
    first = type("First", (), {"error": lambda _self: refused})()
    polled = iter([first, Message(), None])
    reader = TopicReader(at_address("127.0.0.1:1"), "test")
    reader.close()
    reader._consumer = type("Polled", (), {"poll": lambda _self, _limit_s: next(polled)})()
    assert reader.take(1) == [Record("t", 0, 1, 2, None, None, ())]
    assert reader.take(1) == []

"""What librdkafka is asked while a group's coordinator moves: no broker can be told to move it."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.sink.librdkafka import committed, noted_id


class Moving:
    """A consumer whose group answers with errors first."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def committed(self, places, _limit):
        if not self.errors:
            return [SimpleNamespace(topic=places[0].topic, offset=7, error=None)]
        whole, code = self.errors.pop(0)
        if whole:
            raise KafkaException(KafkaError(code))
        return [SimpleNamespace(offset=-1001, error=KafkaError(code))]


def test_a_moving_coordinator_is_asked_again():
    consumer = Moving(
        (True, KafkaError.NOT_COORDINATOR), (False, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    )
    assert committed(consumer, "t").offset == 7
    assert not consumer.errors


@pytest.mark.parametrize("whole", [True, False])
def test_other_errors_are_raised_at_once(whole):
    consumer = Moving((whole, KafkaError.GROUP_AUTHORIZATION_FAILED), (True, 0))
    with pytest.raises(KafkaException):
        committed(consumer, "t")
    assert len(consumer.errors) == 1


class Place:
    """What confluent-kafka gives of a committed offset: its metadata go on as the memory does."""

    def __init__(self, memory):
        self.memory = memory

    @property
    def metadata(self):
        return self.memory.decode()


@pytest.mark.parametrize("behind", [b"", b"x", b"\xff\x8f"])
def test_what_lies_behind_a_query_s_id_is_not_part_of_it(behind):
    query = "7f3e1c1e-9d2f-4a53-8a1b-7a0f8a1f2b3c"
    assert noted_id(Place(query.encode() + behind)) == query

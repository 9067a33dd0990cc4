"""A coordinator that has lost a group, and does not know, tells progress that is older."""

import pytest
from kafka.errors import CoordinatorNotAvailableError

from streaming.disciplines.plan import BatchContext
from streaming.errors import KafkaUnavailable
from streaming.sink import writer as writers
from streaming.sink.writer import writer_for
from tests.streaming.sink.numbered import make_plan, numbers, some_rows, values, write


@pytest.fixture
def plan(broker, topic_prefix):
    return make_plan(broker, topic_prefix, {})


def test_progress_of_who_is_no_longer_in_charge_is_not_gone_by(plan):
    """A deposed coordinator told it: who takes the next one is asked (one group, one broker here)."""
    writer = writer_for(plan, 0, BatchContext("q", 0, False))
    assert writer.producer.found == (-1, "")
    writer.producer.found = (7, "older")
    with pytest.raises(KafkaUnavailable, match="no longer in charge"):
        write(writer, 0, 0, 10)
    writers._writers.clear()
    write(writer_for(plan, 0, BatchContext("q", 0, False)), 0, 0, 10)
    assert values(plan) == numbers(10)


def newest(plan):
    """What whoever has the group says; nobody that writes is fenced."""
    asking = writers.make_confirming(plan, 0)
    asking.begin_session()
    return asking.newest_progress()


def test_that_progress_is_gone_is_asked_of_who_is_in_charge(plan):
    """What was written meanwhile is aborted; the next session has nothing to wait for."""
    producer = writer_for(plan, 0, BatchContext("q", 0, True)).producer
    producer.write(plan.output, *some_rows(0, 10))
    producer.confirm_progress()
    producer.confirm_progress()  # once is enough
    assert newest(plan) == (-1, "")
    writers._writers.clear()
    write(writer_for(plan, 0, BatchContext("q", 0, True)), 0, 0, 10)
    assert newest(plan)[0] == 0
    older = writers.make_producer(plan, 0)
    older.begin_session()
    older.found = (-1, "")
    with pytest.raises(CoordinatorNotAvailableError, match="no longer in charge"):
        older.confirm_progress()
    assert values(plan) == numbers(10)

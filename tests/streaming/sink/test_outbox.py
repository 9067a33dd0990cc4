"""Batches on their way while leaders move and answers are late, by hand: no broker is asked."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from kafka.errors import KafkaConnectionError, NodeNotReadyError
from kafka.future import Future

from streaming.sink.outbox import Outbox
from streaming.wire.record_batch import RecordBatch

FIRST, SECOND = ("T", 0), ("T", 1)
NOT_LEADER, OUT_OF_ORDER = 6, 45


class Brokers:
    """Keeps requests until the test answers them; ``later`` are the leaders of the next look."""

    def __init__(self, leaders):
        self.leaders = dict(leaders)
        self.later = dict(leaders)
        self.flights, self.timeouts_ms = [], []
        self.ready, self.request_ms = True, 30_000

    def send(self, request, node):
        future = Future()
        self.timeouts_ms.append(request.timeout_ms)
        if not self.ready:
            return future.failure(NodeNotReadyError(node))
        sent = {
            (topic.name, each.index): bytes(each.records)[-1:].decode()
            for topic in request.topic_data
            for each in topic.partition_data
        }
        self.flights.append((node, sent, future))
        return future

    def find_leaders(self, _topics):
        self.leaders.update(self.later)

    def turn(self, _seconds):
        pass

    @property
    def sent(self):
        """What is unanswered: to whom, and the last byte of each partition's batch."""
        return [(node, sent) for node, sent, _ in self.flights]

    def answer(self, node, errors=None):
        sent, future = self._take(node)
        responses = [
            SimpleNamespace(
                name=name,
                partition_responses=[
                    SimpleNamespace(
                        index=index,
                        error_code=(errors or {}).get((name, index), 0),
                        base_offset=-1,
                        error_message="",
                    )
                ],
            )
            for name, index in sent
        ]
        future.success(SimpleNamespace(responses=responses))

    def lose(self, node):
        self._take(node)[1].failure(KafkaConnectionError("gone"))

    def _take(self, node):
        at = next(n for n, (to, _, _) in enumerate(self.flights) if to == node)
        _, sent, future = self.flights.pop(at)
        return sent, future


@pytest.fixture
def brokers():
    return Brokers({FIRST: 1, SECOND: 3})


@pytest.fixture
def outbox(brokers):
    return Outbox(brokers, (7, 0), "id")


def put(outbox, place, *letters):
    for letter in letters:
        outbox.put(place[0], RecordBatch(place[1], 1, 0, 0, pa.py_buffer(letter.encode())))


def poll(outbox):
    outbox.rest_until = 0.0
    outbox.poll()


def test_a_partition_whose_leader_moves_is_not_sent_twice_at_once(brokers, outbox):
    put(outbox, FIRST, "A", "B", "C")
    put(outbox, SECOND, "X")
    poll(outbox)
    assert brokers.sent == [(1, {FIRST: "A"}), (3, {SECOND: "X"})]
    brokers.later = {FIRST: 2, SECOND: 2}
    brokers.answer(3, {SECOND: NOT_LEADER})
    poll(outbox)
    assert brokers.sent == [(1, {FIRST: "A"}), (2, {SECOND: "X"})]
    brokers.answer(1)
    brokers.answer(2)
    for letter in "BC":
        poll(outbox)
        assert brokers.sent == [(2, {FIRST: letter})]
        brokers.answer(2)
    outbox.wait()
    assert not brokers.sent


def test_a_broker_answers_before_its_answer_is_given_up(brokers, outbox):
    """That it timed out is an answer; without one the session ends with the batch."""
    put(outbox, FIRST, "A")
    poll(outbox)
    assert 0 < max(brokers.timeouts_ms) < brokers.request_ms


def test_who_leads_now_is_asked_when_the_old_leader_is_lost(brokers, outbox):
    put(outbox, FIRST, "A", "B")
    poll(outbox)
    brokers.later = {FIRST: 2, SECOND: 2}
    brokers.lose(1)
    poll(outbox)
    assert brokers.sent == [(2, {FIRST: "A"})]
    assert outbox.unanswered == 1


def test_an_answer_to_what_was_given_up_takes_nothing_off(brokers, outbox):
    put(outbox, FIRST, "A")
    poll(outbox)
    outbox.clear()
    put(outbox, FIRST, "B")
    brokers.answer(1)
    poll(outbox)
    assert brokers.sent == [(1, {FIRST: "B"})]
    assert outbox.waiting_bytes


def test_an_answer_that_cannot_be_understood_is_an_error(brokers, outbox):
    put(outbox, FIRST, "A")
    poll(outbox)
    _, future = brokers._take(1)
    future.success(SimpleNamespace(responses=None))
    with pytest.raises(TypeError):
        poll(outbox)


def test_what_a_broker_refuses_for_good_is_an_error(brokers, outbox):
    put(outbox, FIRST, "A")
    poll(outbox)
    brokers.answer(1, {FIRST: OUT_OF_ORDER})
    with pytest.raises(Exception, match="OutOfOrderSequence"):
        poll(outbox)


def test_a_request_that_was_not_sent_is_not_unanswered(brokers, outbox):
    put(outbox, FIRST, "A")
    brokers.ready = False
    poll(outbox)
    brokers.ready = True
    poll(outbox)
    assert brokers.sent == [(1, {FIRST: "A"})]
    assert not outbox.unanswered

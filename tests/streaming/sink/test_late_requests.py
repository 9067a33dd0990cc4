"""Requests that a client has given up on reach the broker later: in the middle of the next batch."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from kafka.errors import NotCoordinatorError, RequestTimedOutError

from streaming.arrow.schemas import HEADERS
from streaming.disciplines.plan import BatchContext
from streaming.errors import KafkaUnavailable
from streaming.sink import producer
from streaming.sink.claim import Claim
from streaming.sink.producer import BatchProducer
from streaming.sink.progress import Part
from streaming.sink.refusals import RecordsRefused
from streaming.sink.writer import PartitionWriter, make_confirming, make_producer, writer_for
from tests.kafka_helpers import Record, produce, read_all
from tests.proxies import Proxies
from tests.streaming.sink.numbered import make_plan


@pytest.fixture
def proxies(broker):
    with Proxies(broker.bootstrap) as started:
        yield started


@pytest.fixture
def plan(broker, proxies, topic_prefix):
    through = {"bootstrap.servers": proxies.bootstrap}
    return make_plan(broker, topic_prefix, through, count=1)


def rows(*texts):
    count = len(texts)
    return pa.table(
        {
            "key": pa.array([b"k"] * count),
            "value": pa.array([text.encode() for text in texts]),
            "headers": pa.nulls(count, HEADERS),
            "timestamp": pa.array([0] * count),
        }
    )


def put(writer, *texts):
    writer.producer.write(writer.plan.output, rows(*texts), np.zeros(len(texts), np.int32), [])


def write(plan, batch, *texts):
    writer = writer_for(plan, 0, context(batch))
    with writer.batch(context(batch)):
        put(writer, *texts)


def context(batch):
    return BatchContext("q", batch, False, {0: batch - 1})


def values(broker, plan, **settings):
    return [each.value.decode() for each in read_all(broker.bootstrap, plan.output, **settings)]


def cut_when(held, proxies):
    """Cut the client's connections as soon as a request is held."""

    def cut():
        held.wait()
        proxies.cut()

    thread = threading.Thread(target=cut)
    thread.start()
    return thread


def let_arrive(late, proxies, api, writer):
    """Release a request behind what was put, and wait for its answer."""
    writer.producer._send()
    writer.producer.outbox.wait()
    answers = proxies.watch(api, answers=True)
    late.release()
    answers.wait()


@pytest.mark.parametrize(
    "api", ["EndTxn", "TxnOffsetCommit", "AddOffsetsToTxn", "AddPartitionsToTxn", "Produce"]
)
def test_a_request_of_one_batch_arrives_in_the_next(broker, proxies, plan, api):
    late = proxies.hold(api, 1)
    cutting = cut_when(late, proxies)
    write(plan, 0, "a")
    cutting.join()
    writer = writer_for(plan, 0, context(1))
    with writer.batch(context(1)):
        put(writer, "b")
        let_arrive(late, proxies, api, writer)
        assert values(broker, plan) == ["a"], "the batch is not whole"
        put(writer, "c")
    assert values(broker, plan) == ["a", "b", "c"]
    assert values(broker, plan, isolation="read_uncommitted") == ["a", "b", "c"]
    write(plan, 2, "d")
    assert values(broker, plan) == ["a", "b", "c", "d"]


def test_a_request_of_one_part_arrives_in_the_next(broker, proxies, plan):
    late = proxies.hold("EndTxn", 1)
    cutting = cut_when(late, proxies)
    writer = writer_for(plan, 0, context(0))
    with writer.batch(context(0)):
        put(writer, "a")
        writer.end_part(context(0), Part(total=1))
        cutting.join()
        put(writer, "b")
        let_arrive(late, proxies, "EndTxn", writer)
        assert values(broker, plan) == ["a"], "the part is not whole"
        put(writer, "c")
    assert values(broker, plan) == ["a", "b", "c"]


def test_an_abort_before_the_first_batch_arrives_behind_its_records(
    broker, proxies, plan, monkeypatch
):
    """Who begins ends a transaction that hides its progress; what of that had no answer may come."""
    monkeypatch.setattr(producer, "ENDED_SECONDS_MAX", 1.0)
    other = make_confirming(plan, 0)
    other.begin_session()
    other._commit_offset(0, "")  # killed, and open until Kafka ends it
    late = proxies.hold("EndTxn", 1)
    cutting = cut_when(late, proxies)
    writer = writer_for(plan, 0, context(0))
    cutting.join()
    with writer.batch(context(0)):
        put(writer, "a")
        let_arrive(late, proxies, "EndTxn", writer)
    assert values(broker, plan) == ["a"]
    assert make_producer(plan, 0).progress_left()[0] == 0


def test_who_confirms_progress_leaves_nothing_that_may_come_late(proxies, plan):
    """A late TxnOffsetCommit would hide the progress for good where Kafka is 3.6 or older."""
    late = proxies.hold("TxnOffsetCommit", 1)
    cutting = cut_when(late, proxies)
    asking = make_confirming(plan, 0)
    asking.begin_session()
    before = asking.producer
    assert asking.newest_progress() == (-1, "")
    cutting.join()
    assert asking.producer[1] > before[1], "the late one is of an older epoch"
    late.release()
    assert make_producer(plan, 0).progress_left() == (-1, "")


def test_a_driver_that_fails_to_take_the_checkpoint_leaves_no_transaction_open(
    proxies, plan, monkeypatch
):
    """Else it would wait for itself, for a minute, when it tries again."""
    claim = Claim(plan)
    claim.take()
    ended = proxies.watch("EndTxn", answers=True)
    with monkeypatch.context() as patched:
        patched.setattr(BatchProducer, "_newest", fails)
        with pytest.raises(KafkaUnavailable, match="moved"):
            claim.take()
    ended.wait()
    claim.take()


def test_a_slow_first_answer_does_not_keep_a_start_from_ending_what_was_left(plan, monkeypatch):
    """Who has no session cannot end it."""
    killed = make_producer(plan, 0)
    killed.begin_session()
    killed.send_progress(0, "q digest all")
    asked, ask = [], BatchProducer._progress

    def slow(self, *, stable, seconds=producer.SECONDS_MAX, node=None):
        asked.append(seconds)
        if len(asked) == 1:
            raise RequestTimedOutError("slow")
        return ask(self, stable=stable, seconds=min(seconds, 1.0), node=node)

    monkeypatch.setattr(BatchProducer, "_progress", slow)
    assert make_producer(plan, 0).progress_left() == (-1, "")
    assert asked[:2] == [producer.LEFT_OPEN_SECONDS, producer.ENDED_SECONDS_MAX]


def fails(_producer):
    raise NotCoordinatorError("moved")


def test_a_limit_of_seconds_holds_for_one_request_too(broker, plan, monkeypatch):
    """A broker that accepts a request and does not answer is given up on by then."""
    writer = writer_for(plan, 0, context(0))
    limits, manager = [], writer.producer.brokers.manager
    send = manager.send

    def noting(request, *node, request_timeout_ms=None):
        limits.append((type(request).__name__, request_timeout_ms))
        return send(request, *node, request_timeout_ms=request_timeout_ms)

    monkeypatch.setattr(manager, "send", noting)
    with pytest.raises(ZeroDivisionError):
        fail_after(plan, lambda outbox: outbox.wait())
    (limit,) = [each for name, each in limits if name.startswith("EndTxn")]
    assert 0 < limit <= producer.ABORT_SECONDS_MAX * 1000
    assert values(broker, plan) == []


def fail_after(plan, send):
    """A batch that fails after its records have been sent."""
    writer = writer_for(plan, 0, context(0))
    with writer.batch(context(0)):
        put(writer, "never")
        writer.producer._send()
        send(writer.producer.outbox)
        raise ZeroDivisionError


def test_readers_do_not_wait_for_a_batch_that_failed(broker, proxies, plan):
    ended = proxies.watch("EndTxn")
    with pytest.raises(ZeroDivisionError):
        fail_after(plan, lambda outbox: outbox.wait())
    ended.wait()
    produce(broker.bootstrap, plan.output, [Record(None, b"another's", partition=0)])
    assert values(broker, plan) == ["another's"]


def test_a_batch_that_may_still_arrive_leaves_its_transaction_open(broker, proxies, plan):
    """An end in its own epoch would let it begin a transaction that nobody ends."""
    late = proxies.hold("Produce", 1)
    cutting = cut_when(late, proxies)
    ended = proxies.watch("EndTxn")

    def until_lost(outbox):
        while not outbox.unanswered:
            outbox.poll(0.05)

    with pytest.raises(ZeroDivisionError):
        fail_after(plan, until_lost)
    cutting.join()
    assert not ended.seen
    write(plan, 0, "a")
    answers = proxies.watch("Produce", answers=True)
    late.release()
    answers.wait()
    assert values(broker, plan, isolation="read_uncommitted")[-1] == "a"
    assert values(broker, plan) == ["a"]


def test_drivers_of_two_pipelines_write_at_once(broker, plan):
    """Each has a thread of its own in one process, and both write to the same cluster."""
    plans = [replace(plan, pipeline=name, state_partitions=0) for name in ("p", "q")]
    assert len({id(PartitionWriter(own, 0).producer.brokers) for own in plans}) == 2

    def work(own):
        for batch in range(20):
            write(own, batch, f"{own.pipeline}{batch}")

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, plans))
    found = values(broker, plan)
    assert len(found) == len(set(found)) == 40


@pytest.mark.parametrize(("unanswered", "ends"), [(0, [False]), (1, [])])
def test_refused_batches_of_which_one_may_still_come_are_aborted_by_the_next_session(
    monkeypatch, unanswered, ends
):
    """They took no sequence numbers: behind an abort of their own session Kafka would take one."""
    refusing, ended = BatchProducer.__new__(BatchProducer), []
    refusing.transactional, refusing.refusals, refusing.unanswered = True, ["refused"], 0
    refusing.is_open, refusing.brokers = True, SimpleNamespace(unanswered=0)
    refusing.outbox = SimpleNamespace(wait=lambda: None, unanswered=unanswered)
    monkeypatch.setattr(BatchProducer, "_send", lambda _self: None)
    monkeypatch.setattr(
        BatchProducer, "_end", lambda _self, committed, **_: ended.append(committed)
    )
    with pytest.raises(RecordsRefused):
        refusing.finish()
    assert ended == ends

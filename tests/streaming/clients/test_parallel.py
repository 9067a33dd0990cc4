"""One parallel reader on a real broker: order, parking, rejects, limits, marks."""

import asyncio
import json
import logging
import re
import threading
import time

import pytest

from streaming import OrderedConsumer
from streaming.clients import ChangeNotice, Limits, Retry
from streaming.errors import ConfigError, SequencerError
from tests.kafka_helpers import (
    Record,
    create_topics,
    produce,
    read_all,
)
from tests.proxies import Proxies
from tests.streaming.clients.parallel_readers import Handled, Reader, committed, out, until

SOON = Retry(first_s=0.01, factor=1, longest_s=0.01)
KEYS = [b"a", b"b", b"c", b"d"]
WANTED = {(key, number) for key in KEYS for number in range(5)}


@pytest.fixture
def topic(broker, topic_prefix):
    name = f"{topic_prefix}out"
    create_topics(broker.bootstrap, {name: 1})
    return name


def write(broker, topic, keys=KEYS, numbers=range(5)):
    produce(broker.bootstrap, topic, [out(key, number) for number in numbers for key in keys])


def test_channels_of_one_partition_run_side_by_side_each_in_order(broker, topic):
    """Repeats are dropped, a notice passes in its place, and all of it is committed."""
    write(broker, topic)
    produce(broker.bootstrap, topic, [out(b"a", 2), out(b"d", 4)])  # repeats
    detail = [("notice", b"gap"), ("detail", b'{"from": 5}')]
    gap = Record(b"a", None, [*detail, ("sequence", b"5"), ("incarnation", b"1")], 0)
    produce(broker.bootstrap, topic, [gap, out(b"a", 7)])
    handled, together, holes = Handled(), threading.Barrier(len(KEYS)), []

    def handle(delivery):
        with handled.watched(delivery):
            if delivery.sequence == 0:
                together.wait(120)  # which it passes only if four handlers run at once
            if delivery.sequence == 5:
                assert isinstance(delivery, ChangeNotice)
                assert (delivery.word, delivery.detail) == ("gap", {"from": 5})

    with Reader(broker, topic, handle, on_hole=holes.append) as reader:
        until(lambda: (b"a", 7) in handled.ended(), "all")
        assert reader.parallel.running == reader.parallel.parked == []
        with pytest.raises(ConfigError, match="works in parallel"):
            reader.consumer.poll()
        with pytest.raises(ConfigError, match="works in parallel"):
            reader.consumer.commit()
    assert handled.ended() == {*WANTED, (b"a", 5), (b"a", 7)}
    assert len(handled.log) == 2 * len(handled.ended()), "nothing twice"
    assert [(hole.key, hole.expected, hole.found) for hole in holes] == [(b"a", 6, 7)]
    assert committed(broker, topic, topic) == [24]


def test_a_channel_whose_handler_fails_is_parked_and_comes_back(broker, topic, caplog):
    caplog.set_level(logging.WARNING, "streaming.clients")
    handled, mended = Handled(), threading.Event()
    write(broker, topic)

    def handle(delivery):
        if delivery.key == b"b" and delivery.sequence >= 1 and not mended.is_set():
            raise OSError("no\nanswer")
        with handled.watched(delivery):
            pass

    limits = Limits(parked=20, commit_s=0)
    with Reader(broker, topic, handle, retry=SOON, limits=limits) as reader:
        others = {each for each in WANTED if each[0] != b"b" or each[1] < 1}
        until(lambda: handled.ended() == others, "the others")
        (parked,) = until(lambda: reader.parallel.parked, "what is parked")
        assert (parked.delivery.key, parked.delivery.sequence) == (b"b", 1)
        assert (parked.waiting, parked.error) == (4, "OSError: no answer")
        until(lambda: committed(broker, topic, topic) == [5], "the prefix: up to b's second")
        assert reader.parallel.paused == {}

        write(broker, topic, [b"b"], range(5, 21))
        until(lambda: reader.parallel.paused, "the limit")
        assert reader.parallel.paused == {
            (topic, 0): "20 deliveries wait in channels whose handler fails"
        }
        write(broker, topic, [b"e"], range(3))
        assert until(lambda: reader.parallel.parked, "it")[0].waiting == 20
        assert (b"e", 0) not in handled.ended(), "nothing is read while it pauses"
        mended.set()
        until(lambda: {(b"b", 20), (b"e", 2)} <= handled.ended(), "its return")
    handled.judge(WANTED | {(b"b", n) for n in range(21)} | {(b"e", n) for n in range(3)})
    assert committed(broker, topic, topic) == [39]
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert f"The handler failed for {topic}/0@5 of channel b'b': OSError: no answer." in said
    assert f"{topic}/0 pauses: 20 deliveries wait in channels whose handler fails." in said


def test_offsets_far_ahead_of_one_that_is_not_finished_pause_the_partition(broker, topic):
    """So what a crash would repeat is bounded. Nothing of it is said to be complete, either."""
    marks = f"{topic}.marks"
    create_topics(broker.bootstrap, {marks: 1})
    mark = {"read_until_ms": 100, "caught_up_ms": None, "oldest_held_ms": None, "output_end": 1}
    later = {**mark, "read_until_ms": 900, "output_end": 40}
    produce(
        broker.bootstrap, marks, [Record(b"0", json.dumps(each).encode()) for each in (mark, later)]
    )
    write(broker, topic, [b"a", b"b"], range(1))
    write(broker, topic, [b"a", b"c"], range(1, 20))
    handled, go_on = Handled(), threading.Event()

    def handle(delivery):
        with handled.watched(delivery):
            if delivery.key == b"b":
                assert go_on.wait(120)

    limits = Limits(ahead=10, commit_s=0)
    settings = {"limits": limits, "progress": {topic: marks}}
    with Reader(broker, topic, handle, workers=2, **settings) as reader:
        (why,) = until(lambda: list(reader.parallel.paused.values()), "the limit")
        assert re.fullmatch("10 were read from offset [01] on, which is not finished", why)
        until(
            lambda: [each.key for each in reader.parallel.running] == [b"b"], "the one that waits"
        )
        assert reader.consumer.complete_until() == 100
        until(lambda: committed(broker, topic, topic) == [1], "the prefix")
        until(lambda: len(handled.ended()) >= 9, "those that were read")
        assert len(handled.ended()) <= 10
        go_on.set()
        until(lambda: len(handled.ended()) == 40, "all")
        until(lambda: reader.consumer.complete_until() == 900, "the later mark")
    assert committed(broker, topic, topic) == [40]


def test_little_is_kept_in_memory(broker, topic):
    """Records or bytes: at the limit the partition pauses, and all is handled all the same."""
    write(broker, topic, KEYS, range(50))
    handled, most = Handled(), []

    def handle(delivery):
        with handled.watched(delivery), reader.parallel._lock:
            (partition,) = reader.parallel._schedule.partitions.values()
            most.append(partition.unfinished)

    reader = Reader(broker, topic, handle, name=f"{topic}-1", limits=Limits(buffer_records=8))
    with reader:
        until(lambda: len(handled.ended()) == 200, "all")
    assert max(most) <= 8
    handled, most = Handled(), []
    limits = Limits(buffer_bytes=2_000)  # each counts for 202 or 203
    reader = Reader(broker, topic, handle, name=f"{topic}-2", limits=limits)
    with reader:
        until(lambda: len(handled.ended()) == 200, "all")
    assert max(most) <= 10
    handled.judge({(key, number) for key in KEYS for number in range(50)})


def test_a_broker_that_is_away_for_a_while(broker, topic):
    """Handlers go on with what was read; nothing is lost or repeated, and commits are made up."""
    handled, hold = Handled(), threading.Event()

    def handle(delivery):
        with handled.watched(delivery):
            if delivery.sequence >= 5:
                assert hold.wait(120)

    with Proxies(broker.bootstrap) as proxies:
        kafka = {"bootstrap.servers": proxies.bootstrap, "reconnect.backoff.max.ms": 500}
        write(broker, topic, KEYS, range(10))
        with Reader(broker, topic, handle, kafka=kafka, limits=Limits(commit_s=0)) as reader:
            until(lambda: len(reader.parallel.running) == 4, "the sixth of each")
            with proxies.away():
                hold.set()
                until(lambda: len(handled.ended()) == 40, "all that was read")
                write(broker, topic, KEYS, range(10, 12))
            until(lambda: len(handled.ended()) == 48, "the others")
            until(lambda: committed(broker, topic, topic) == [48], "a commit")
    assert handled.judge({(key, number) for key in KEYS for number in range(12)}) == 0


def test_coroutines_side_by_side(broker, topic, topic_prefix):
    """Each channel in order; one fails and is tried again, one is rejected; cancelled, all is committed."""
    rejects = f"{topic_prefix}failed"
    create_topics(broker.bootstrap, {rejects: 1})
    write(broker, topic)
    handled, failed = Handled(), []

    async def main():
        together, last = asyncio.Barrier(len(KEYS)), asyncio.Event()
        kafka = {"bootstrap.servers": broker.bootstrap}
        with OrderedConsumer(kafka, [topic], group=topic) as reader:
            parallel = reader.parallel(4, rejects=rejects, retry=SOON)

            async def handle(delivery):
                if delivery.sequence == 0:
                    await together.wait()
                if (delivery.key, delivery.sequence) == (b"b", 2) and not failed:
                    failed.append(delivery)
                    raise OSError
                if (delivery.key, delivery.sequence) == (b"c", 3):
                    await asyncio.to_thread(parallel.reject, delivery, "no")
                handled.note("begin", delivery)
                await asyncio.sleep(0)
                handled.note("end", delivery)
                if handled.ended() == WANTED:
                    last.set()

            task = asyncio.create_task(parallel.run_async(handle))
            await asyncio.wait_for(last.wait(), 120)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert handled.judge(WANTED) == 0
    assert committed(broker, topic, topic) == [20]
    (reject,) = read_all(broker.bootstrap, rejects)
    assert (reject.key, reject.header("reject-reason")) == (b"c", b"no")


@pytest.mark.slow
def test_a_handler_takes_longer_than_kafka_waits_for_a_poll(broker, topic):
    """The reader goes on polling: it keeps its partition, and nothing is handled twice."""
    kafka = {"max.poll.interval.ms": 6_000, "session.timeout.ms": 6_000}
    handled = Handled()
    write(broker, topic)

    def handle(delivery):
        with handled.watched(delivery):
            if delivery.key == b"a" and delivery.sequence == 1:
                time.sleep(15)

    with Reader(broker, topic, handle, kafka=kafka, limits=Limits(drain_s=5)) as reader:
        until(lambda: (b"a", 4) in handled.ended(), "what is behind it")
        assert reader.assigned == 1
    assert handled.judge(WANTED) == 0
    assert committed(broker, topic, topic) == [20]


def test_what_ends_a_reader(broker, topic):
    """A handler's SystemExit, or a record that is no delivery: raised, with what is done committed."""
    write(broker, topic, KEYS, range(2))

    def leave(_delivery):
        raise SystemExit(3)

    with pytest.raises(SystemExit), Reader(broker, topic, leave, name=f"{topic}-2") as reader:
        reader.thread.join(120)
    assert committed(broker, f"{topic}-2", topic) == [0]

    produce(broker.bootstrap, topic, [Record(b"a", b"", [("own", b"1")], 0)])
    handled = Handled()

    def handle(delivery):
        with handled.watched(delivery):
            pass

    said = f"{topic}/0@8 is not an output of a channel pipeline"
    with pytest.raises(SequencerError, match=said), Reader(broker, topic, handle) as reader:
        reader.thread.join(120)
    done = len(handled.ended())
    (offset,) = committed(broker, topic, topic)
    assert offset <= 8
    assert offset >= done or offset == -1001


NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"workers": 0}, "0 workers cannot be"),
        ({"workers": 1_001}, "1001 workers cannot be"),
        ({"workers": 1, "retry": Retry(tries=2)}, "no topic for rejects"),
        ({"workers": 1, "limits": Limits(drain_s=300)}, "not below max.poll.interval.ms"),
    ],
)
def test_a_wrong_call_is_a_sentence(settings, said):
    consumer = OrderedConsumer(NOBODY, ["t"], group="g")
    with consumer, pytest.raises(ConfigError, match=said):
        consumer.parallel(**settings)


def test_a_coroutine_or_a_second_run_is_refused():
    async def handle(_delivery):
        pass

    with OrderedConsumer(NOBODY, ["t"], group="g") as consumer:
        parallel = consumer.parallel(1)
        with pytest.raises(ConfigError, match="coroutine function"):
            parallel.run(handle)
        parallel.stop()
        parallel.run(print)
        with pytest.raises(ConfigError, match="has run"):
            parallel.run(print)
    with OrderedConsumer(NOBODY, ["t"], group="g") as consumer:
        assert consumer.poll(0) is None
        with pytest.raises(ConfigError, match="has polled"):
            consumer.parallel(1)

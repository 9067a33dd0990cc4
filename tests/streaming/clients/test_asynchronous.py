"""Producers and the plain consumer for asyncio: order, waiting, cancelled tasks, errors."""

import asyncio
import itertools
from contextlib import suppress

import pytest

from streaming import LabelledProducer, OrderedConsumer
from streaming.clients import AsyncConsumer, AsyncSender, GroupPublisher
from streaming.errors import SequencerError
from tests.kafka_helpers import create_topics, produce, read_all
from tests.streaming.clients.parallel_readers import committed, out

COUNT = 12


@pytest.fixture
def topic(broker, topic_prefix):
    create_topics(broker.bootstrap, {f"{topic_prefix}t": 1})
    return f"{topic_prefix}t"


def kafka(broker):
    return {"bootstrap.servers": broker.bootstrap}


def reader_of(broker, topic):
    return AsyncConsumer(OrderedConsumer(kafka(broker), [topic], group="g"))


def test_messages_go_out_in_the_order_of_the_calls_of_all_tasks(broker, topic):
    async def work():
        async with AsyncSender(LabelledProducer(kafka(broker), topic)) as producer:
            return await asyncio.gather(*(producer.send("K", b"%d" % n) for n in range(COUNT)))

    assert asyncio.run(work()) == list(range(COUNT)), "the labels"
    assert [int(each.value) for each in read_all(broker.bootstrap, topic)] == list(range(COUNT))


def test_an_error_of_the_producer_is_raised_where_it_was_called(broker, topic):
    async def work():
        async with AsyncSender(GroupPublisher(kafka(broker), topic, "ann")) as publisher:
            with pytest.raises(SequencerError, match="cannot be sent"):
                await publisher.send("G0", bytes(2_000_000))
            await publisher.send("G0", b"1")
            await publisher.flush()
            return await publisher.run(len, read_all(broker.bootstrap, topic))

    assert asyncio.run(work()) == 1


def test_others_run_while_a_reader_waits(broker, topic):
    async def work():
        async with reader_of(broker, topic) as reader:
            waiting = asyncio.create_task(reader.poll(60))
            await asyncio.sleep(0)
            produce(broker.bootstrap, topic, [out(b"K", 0)])  # while the poll is under way
            return await waiting

    assert asyncio.run(work()).sequence == 0


def test_a_cancelled_poll_loses_nothing_and_commits_nothing_that_was_not_given(broker, topic):
    produce(broker.bootstrap, topic, [out(b"K", n) for n in range(COUNT)])
    given = []

    async def interrupted(reader):
        for turn in itertools.count():
            if len(given) == COUNT:
                return
            with suppress(TimeoutError):
                found = await asyncio.wait_for(reader.poll(), 0.001 * (turn % 3))
                given.extend([found] if found is not None else [])
            if await reader.commit():
                (at,) = await asyncio.to_thread(committed, broker, "g", topic)
                assert at <= len(given), "committed, and never given"

    async def work():
        async with reader_of(broker, topic) as reader:
            await interrupted(reader)
            assert await reader.commit()
            assert reader.reader.holes == []

    asyncio.run(asyncio.wait_for(work(), 120))
    assert [each.sequence for each in given] == list(range(COUNT))
    assert committed(broker, "g", topic) == [COUNT]


class Counting:
    """A reader that has a delivery at every second call."""

    def __init__(self):
        self.calls = self.taken = 0

    def poll(self, _timeout_s):
        self.calls += 1
        if self.calls % 2:
            return None
        self.taken += 1
        return self.taken

    def close(self):
        pass


def test_a_commit_beside_a_poll_comes_before_the_next_delivery_or_behind_its_handling():
    """Also where the poll is about to look again: else what it finds is committed unhandled."""
    reader, handled, committed = Counting(), [], []
    reader.commit = lambda: committed.append((reader.taken, len(handled)))

    async def read(consumer):
        while len(handled) < 20 * COUNT:
            handled.append(await consumer.poll(60))

    async def note(consumer, reading):
        while not reading.done():
            await consumer.commit()

    async def work():
        async with AsyncConsumer(reader) as consumer:
            reading = asyncio.create_task(read(consumer))
            await asyncio.wait_for(note(consumer, reading), 60)

    asyncio.run(work())
    assert committed
    assert all(taken == given for taken, given in committed)


def test_deliveries_are_iterated_by_one_task_and_shared_by_several(broker, topic):
    produce(broker.bootstrap, topic, [out(b"K", n) for n in range(COUNT)])
    seen = []

    async def take(reader):
        async for delivery in reader:
            seen.append(delivery.sequence)
            if len(seen) >= COUNT:
                return

    async def work():
        async with reader_of(broker, topic) as reader:
            tasks = [asyncio.create_task(take(reader)) for _ in range(3)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(asyncio.wait_for(work(), 120))
    assert sorted(seen) == list(range(COUNT)), "each was given to one of them"

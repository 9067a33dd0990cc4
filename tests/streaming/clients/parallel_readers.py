"""Parallel readers in threads of the test, what they handled, and a judge of it."""

import threading
import time
from collections import defaultdict
from contextlib import contextmanager

from streaming import OrderedConsumer
from tests.kafka_helpers import Record, until

__all__ = ["Handled", "Reader", "committed", "out", "until"]

FAST = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}


def out(key, sequence, partition=0, incarnation=1, value=None, more=()):
    """A delivery as the service writes it."""
    headers = [
        *more,
        ("sequence", b"%d" % sequence),
        ("incarnation", b"%d" % incarnation),
    ]
    return Record(key, b"%d" % sequence if value is None else value, headers, partition)


def committed(broker, group, topic, partitions=1):
    """The group's committed offset of each partition, -1001 where there is none."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        return [each.offset for each in consumer.committed(places, 60)]
    finally:
        consumer.close()


class Handled:
    """When handlers of all readers began and ended, in the order in which that happened."""

    def __init__(self):
        self.lock = threading.Lock()
        self.log = []  # ("begin" or "end", key, sequence)

    def note(self, what, delivery):
        with self.lock:
            self.log.append((what, delivery.key, delivery.sequence))

    @contextmanager
    def watched(self, delivery):
        self.note("begin", delivery)
        yield
        self.note("end", delivery)

    def ended(self):
        with self.lock:
            return {(key, number) for what, key, number in self.log if what == "end"}

    def judge(self, wanted):
        """All of `wanted` was handled, each channel's in order; how many were repeated.

        A delivery begins for the first time when all before it in its channel have ended.
        """
        begun, done, repeats = defaultdict(list), defaultdict(set), 0
        for what, key, number in self.log:
            if what == "end":
                done[key].add(number)
            elif number in begun[key]:
                repeats += 1
            else:
                assert number == len(begun[key]), f"{key}: {number} after {begun[key][-3:]}"
                assert done[key] >= set(range(number)), f"{key}: {number} too early"
                begun[key].append(number)
        assert self.ended() == set(wanted)
        return repeats


class Reader:
    """A parallel reader at work in a thread."""

    def __init__(self, broker, topic, handle, workers=4, kafka=None, name="", **settings):
        kafka = {"bootstrap.servers": broker.bootstrap, **FAST, **(kafka or {})}
        more = {
            key: settings.pop(key) for key in ("progress", "on_hole", "resume") if key in settings
        }
        self.consumer = OrderedConsumer(kafka, [topic], group=name or topic, **more)
        self.parallel = self.consumer.parallel(workers, **settings)
        self.error = None
        self.thread = threading.Thread(target=self._run, args=(handle,))
        self.thread.start()

    def _run(self, handle):
        try:
            self.parallel.run(handle)
        except BaseException as error:  # noqa: BLE001  (raised where the test ends)
            self.error = error

    def stop(self):
        self.parallel.stop()
        self.thread.join(120)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error

    @property
    def assigned(self):
        return len(self.parallel._schedule.partitions)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.parallel.stop()
        self.thread.join(120)
        if kind is None:
            self.stop()


def settled(*readers, partitions):
    """Whether the readers share all partitions, each some of them."""
    counts = [each.assigned for each in readers]
    return sum(counts) == partitions and min(counts) >= partitions // len(readers)


def pause_a_moment():
    time.sleep(0.002)

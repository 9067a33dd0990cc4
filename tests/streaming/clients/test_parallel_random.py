"""Parallel readers on a pretended Kafka that moves partitions between them at random.

Real threads of the readers, handlers that fail, partitions that are revoked or lost, commits that
fail, readers that stop and others that begin. Whatever comes of it: each channel is begun in order,
nothing is committed that nobody finished, nothing is left out, no hole is seen where there is none.
"""

import logging
import random
import threading
import time
from collections import defaultdict
from operator import attrgetter
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.clients import Limits, Retry
from streaming.clients.deliveries import read
from streaming.clients.followed import FollowedLines
from streaming.clients.parallel import Lent, ParallelConsumer
from tests.seeds import seeds
from tests.streaming.clients.parallel_readers import Handled

TOPIC, PARTITIONS, CHANNELS, LENGTH = "out", 3, 6, 15
SECONDS_MAX = 120


def records(rng, partition):
    """Deliveries (offset, key, sequence) of some channels, mixed; repeats, offsets with holes."""
    order = [channel for channel in range(CHANNELS) for _ in range(LENGTH)]
    rng.shuffle(order)
    found, sequences, offset = [], defaultdict(int), 0
    for channel in order:
        key, number = b"%d-%d" % (partition, channel), sequences[channel]
        sequences[channel] += 1
        first = max(0, number - 3) if rng.random() < 0.05 else number
        for each in range(first, number + 1):
            offset += rng.choice([1, 1, 2])
            found.append((offset, key, each))
    return found


class PretendedKafka:
    """Partitions, who has each of them, and what is committed."""

    def __init__(self, rng):
        self.lock = threading.RLock()
        self.records = [records(rng, partition) for partition in range(PARTITIONS)]
        self.wanted = {each[1:] for some in self.records for each in some}
        self.owner = dict.fromkeys(range(PARTITIONS))
        self.committed = dict.fromkeys(range(PARTITIONS), 0)
        self.handled = Handled()
        self.finished = set()
        self.faults = []

    def commit(self, reader, place):
        """Take a commit of the partition's owner; others are refused."""
        partition, offset = place.partition, place.offset
        if self.owner[partition] is not reader:
            return False
        read_before = (each[1:] for each in self.records[partition] if each[0] < offset)
        if not self.finished.issuperset(read_before):
            self.faults.append(f"{partition}@{offset} is committed, and not all is finished")
        if offset < self.committed[partition]:
            self.faults.append(f"{partition}@{offset} is behind {self.committed[partition]}")
        self.committed[partition] = offset
        return True


class PretendedConsumer:
    """confluent-kafka's consumer, as far as a parallel reader uses it; rebalances come in `poll`."""

    def __init__(self, kafka, rng, holes):
        self.kafka, self.rng = kafka, rng
        self.coming, self.answers, self.positions, self.paused = [], [], {}, set()
        self.lines = FollowedLines("channel", None, holes.append, None, attrgetter("key"))
        limits = Limits(
            buffer_records=rng.choice([3, 20, 1000]),
            ahead=rng.choice([10, 50, 1000]),
            parked=rng.choice([3, 20]),
            drain_s=rng.choice([0, 0.01, 1]),
            commit_s=0.003,
        )
        retry = Retry(first_s=0.001, longest_s=0.01)
        source = Lent(self, self.lines, self.read, self.leave, self.leave)
        self.parallel = ParallelConsumer(source, rng.choice([1, 3, 6]), limits, retry, None)
        self.error = None
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        try:
            self.parallel.run(self.handle)
        except BaseException as error:  # noqa: BLE001  (the test looks at it)
            self.error = error

    def handle(self, delivery):
        with self.kafka.handled.watched(delivery):
            chance, seconds = self.rng.random(), self.rng.random() / 250
            if chance < 0.3:
                time.sleep(seconds)
            if chance > 0.9:
                raise ValueError("it is tried again")
        with self.kafka.lock:
            self.kafka.finished.add((delivery.key, delivery.sequence))

    def read(self, message):
        record = {"topic": TOPIC, "timestamp": 0, "value": b""}
        record |= {name: getattr(message, name)() for name in ("partition", "offset", "key")}
        headers = (("sequence", b"%d" % message.sequence), ("incarnation", b"1"))
        return read("channel", record, headers, "")

    def rebalance(self):
        while True:
            with self.kafka.lock:
                if not self.coming:
                    return
                what, partition = self.coming.pop(0)
                if what == "assigned":
                    if self.kafka.owner[partition] is not self:
                        continue
                    self.positions[partition] = self.kafka.committed[partition]
                    self.paused.discard(partition)
            place = (TOPIC, partition)
            getattr(self.parallel, what)({place})
            if what != "assigned":
                self.lines.doubt([place])
                self.positions.pop(partition, None)
                with self.kafka.lock:
                    if self.kafka.owner[partition] is self:
                        self.kafka.owner[partition] = None

    def poll(self, timeout_s=0):
        self.rebalance()
        if self.answers:
            self.parallel.committed(*self.answers.pop(0))
        for partition in self.rng.sample(sorted(self.positions), len(self.positions)):
            position = self.positions[partition]
            there = (each for each in self.kafka.records[partition] if each[0] >= position)
            found = None if partition in self.paused else next(there, None)
            if found is not None:
                offset, key, sequence = found
                self.positions[partition] = offset + 1
                methods = {"topic": TOPIC, "partition": partition, "offset": offset, "key": key}
                methods |= {"value": b"", "error": None}
                return SimpleNamespace(
                    **{name: lambda value=value: value for name, value in methods.items()},
                    sequence=sequence,
                )
        time.sleep(min(timeout_s, 0.002))
        return None

    def pause(self, places):
        self.paused |= {each.partition for each in places}

    def resume(self, places):
        self.paused -= {each.partition for each in places}

    def commit(self, offsets, asynchronous):
        if self.rng.random() < 0.1:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        with self.kafka.lock:
            taken = [each for each in offsets if self.kafka.commit(self, each)]
        refused = KafkaError(KafkaError.ILLEGAL_GENERATION) if len(taken) < len(offsets) else None
        if asynchronous:
            self.answers.append((refused, taken))
        elif refused:
            raise KafkaException(refused)
        return taken

    def leave(self):
        with self.kafka.lock:
            mine = [each for each, owner in self.kafka.owner.items() if owner is self]
            self.coming += [("revoked", each) for each in mine]
        self.rebalance()


def move(kafka, rng, readers):
    """Give a partition to somebody, or take one away, in order or without asking."""
    with kafka.lock:
        partition, chance = rng.randrange(PARTITIONS), rng.random()
        owner, new = kafka.owner[partition], rng.choice(readers)
        if owner is None:
            kafka.owner[partition] = new
            new.coming.append(("assigned", partition))
        elif chance < 0.25:
            owner.coming.append(("revoked", partition))
        elif chance < 0.35 and new is not owner:
            owner.coming.append(("lost", partition))
            kafka.owner[partition] = new
            new.coming.append(("assigned", partition))


@pytest.mark.parametrize("seed", seeds(6, 300))
def test_partitions_move_at_random(seed, caplog):
    caplog.set_level(logging.CRITICAL, "streaming.clients")
    rng, holes = random.Random(seed), []
    kafka = PretendedKafka(rng)

    def begin():
        return PretendedConsumer(kafka, random.Random(rng.random()), holes)

    readers, ended = [begin(), begin()], []
    deadline = time.monotonic() + SECONDS_MAX
    try:
        while kafka.finished < kafka.wanted:
            assert time.monotonic() < deadline, kafka.wanted - kafka.finished
            assert not [each.error for each in readers if each.error]
            time.sleep(rng.random() / 50)
            move(kafka, rng, readers)
            if rng.random() < 0.02:
                ended.append(readers.pop(0))
                ended[-1].parallel.stop()
                ended[-1].thread.join(SECONDS_MAX)
                readers.append(begin())
    finally:
        for each in readers:
            each.parallel.stop()
        for each in (*readers, *ended):
            each.thread.join(SECONDS_MAX)
    assert [each.error for each in (*readers, *ended)] == [None] * len((*readers, *ended))
    assert kafka.faults == []
    assert holes == []
    kafka.handled.judge(kafka.wanted)

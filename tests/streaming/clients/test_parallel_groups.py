"""Several parallel readers of one group: they come, go, hang, are killed and interrupted."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from streaming.clients import Limits
from streaming.errors import SequencerError
from tests.kafka_helpers import create_topics, produce
from tests.streaming.clients.parallel_readers import (
    Handled,
    Reader,
    committed,
    out,
    pause_a_moment,
    settled,
    until,
)

PARTITIONS = 4
KEYS = [b"k%d" % number for number in range(16)]


@pytest.fixture
def topic(broker, topic_prefix):
    name = f"{topic_prefix}out"
    create_topics(broker.bootstrap, {name: PARTITIONS})
    return name


def write(broker, topic, numbers):
    rows = [out(key, number, at % PARTITIONS) for number in numbers for at, key in enumerate(KEYS)]
    produce(broker.bootstrap, topic, rows)


def wanted(numbers):
    return {(key, number) for key in KEYS for number in numbers}


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_readers_come_and_go(broker, topic, strategy):
    """Two, three, one: each channel is handled in order, nothing is left out."""
    handled = Handled()
    kafka = {"partition.assignment.strategy": strategy}

    def handle(delivery):
        with handled.watched(delivery):
            pause_a_moment()

    write(broker, topic, range(60))
    with ExitStack() as stack:
        readers = [stack.enter_context(Reader(broker, topic, handle, kafka=kafka))]
        until(lambda: len(handled.ended()) > 100, "a start")
        for count in (2, 3):
            readers.append(stack.enter_context(Reader(broker, topic, handle, kafka=kafka)))
            until(lambda: settled(*readers, partitions=PARTITIONS), f"{count} readers")
            write(broker, topic, range(30 * count, 30 * count + 30))
        readers.pop(0).stop()
        until(lambda: settled(*readers, partitions=PARTITIONS), "two readers")
        write(broker, topic, range(120, 140))
        readers.pop(0).stop()
        until(lambda: handled.ended() == wanted(range(140)), "all")
    repeats = handled.judge(wanted(range(140)))
    assert sum(committed(broker, topic, topic, PARTITIONS)) == 140 * len(KEYS)
    assert repeats <= 4 * 16 * 60, "no more than what was read and not finished when they left"


def test_a_handler_that_hangs_is_left_behind(broker, topic):
    """Its partition goes to another reader, and what it does from then on counts nowhere."""
    handled, hung, go_on, outcome = Handled(), threading.Event(), threading.Event(), []

    def hang(delivery):
        if delivery.sequence == 1 and delivery.key == KEYS[0]:
            hung.set()
            assert go_on.wait(240)
            with pytest.raises(SequencerError, match="not being handled here"):
                first.parallel.reject(delivery)
            outcome.append("ended")
            return
        with handled.watched(delivery):
            pass

    def handle(delivery):
        with handled.watched(delivery):
            pass

    write(broker, topic, range(3))
    limits = Limits(drain_s=0.2, commit_s=0)
    with Reader(broker, topic, hang, limits=limits, rejects="unused") as first:
        until(lambda: hung.is_set() and len(handled.ended()) == 46, "all but two of its channel")
        with Reader(broker, topic, handle) as second:
            until(lambda: settled(first, second, partitions=PARTITIONS), "two readers")
            lost = (topic, 0) not in first.parallel._schedule.partitions
            if not lost:  # the assignor left it where it is: the first reader goes as a whole
                first.parallel.stop()
            until(lambda: handled.ended() == wanted(range(3)), "the other reader has it")
            go_on.set()
            until(lambda: outcome, "the end of what hung")
    assert committed(broker, topic, topic, PARTITIONS) == [12] * PARTITIONS


WORKER = """
import os, sys, time
from streaming import OrderedConsumer
from streaming.clients import Limits

bootstrap, topic, path = sys.argv[1:]
log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def handle(delivery):
    time.sleep(0.002)
    os.write(log, b"%s %d\\n" % (delivery.key, delivery.sequence))

kafka = {"bootstrap.servers": bootstrap, "session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
with OrderedConsumer(kafka, [topic], group=topic) as reader:
    reader.parallel(4, limits=Limits(commit_s=0.05)).run(handle)
"""


class Worker:
    """A reader in a process of its own, which notes in a file what it has handled."""

    def __init__(self, broker, topic, path):
        words = [sys.executable, "-c", WORKER, broker.bootstrap, topic, path]
        self.path = path
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)

    def end(self, number):
        os.kill(self.process.pid, number)
        _, said = self.process.communicate(timeout=120)
        return self.process.returncode, said


@pytest.fixture
def start_worker(broker, topic):
    """Starts workers on the topic; those that a test leaves are killed."""
    started = []

    def start(path):
        started.append(Worker(broker, topic, path))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


def noted(path):
    """What was handled, in order."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(key.encode(), int(number)) for key, number in map(str.split, lines)]


def first_times(handled):
    """Each channel's deliveries, in the order in which they were handled for the first time."""
    found = {key: [] for key in KEYS}
    for key, number in dict.fromkeys(handled):
        found[key].append(number)
    return found


def test_a_reader_that_is_killed_or_interrupted(broker, topic, tmp_path, start_worker):
    """Killed: the next one goes on, and what it repeats had not been committed. Ctrl-C: a prefix."""
    path = tmp_path / "handled"
    write(broker, topic, range(100))
    worker = start_worker(path)
    until(lambda: len(noted(path)) > 300, "a start")
    worker.end(signal.SIGKILL)
    done = len(noted(path))
    assert done < 1600
    worker = start_worker(path)
    until(lambda: len(noted(path)) > done + 300, "the next one")
    code, said = worker.end(signal.SIGINT)
    assert said.rstrip().endswith("KeyboardInterrupt"), said
    assert code != 0
    done = noted(path)
    for partition, offset in enumerate(committed(broker, topic, topic, PARTITIONS)):
        rows = [(key, n) for n in range(100) for key in KEYS[partition::PARTITIONS]]
        unfinished = next((at for at, row in enumerate(rows) if row not in set(done)), len(rows))
        assert offset == unfinished, "all that is finished without a break was committed"
    worker = start_worker(path)
    until(lambda: {*noted(path)} == wanted(range(100)), "all")
    worker.end(signal.SIGTERM)
    assert first_times(noted(path)) == {key: list(range(100)) for key in KEYS}


def test_a_reader_that_stood_still(broker, topic, tmp_path, start_worker):
    """Another one has its partitions by then: what it goes on with is repeated, never committed."""
    path = tmp_path / "handled"
    write(broker, topic, range(100))
    worker = start_worker(path)
    until(lambda: len(noted(path)) > 300, "a start")
    os.kill(worker.process.pid, signal.SIGSTOP)
    other = start_worker(path)
    until(lambda: {*noted(path)} == wanted(range(100)), "the other one has all")
    until(lambda: committed(broker, topic, topic, PARTITIONS) == [400] * PARTITIONS, "its commits")
    os.kill(worker.process.pid, signal.SIGCONT)
    write(broker, topic, range(100, 120))
    until(lambda: {*noted(path)} == wanted(range(120)), "the rest")
    # The other one may still be at what this one did again when it no longer had it.
    until(lambda: committed(broker, topic, topic, PARTITIONS) == [480] * PARTITIONS, "all commits")
    for each in (worker, other):
        each.end(signal.SIGINT)
    assert first_times(noted(path)) == {key: list(range(120)) for key in KEYS}
    assert committed(broker, topic, topic, PARTITIONS) == [480] * PARTITIONS

"""What the benchmarks share: a broker, writers, jobs in processes of their own, their figures.

Every rate is of the second half of a job's batches (the first half warms up), and is given as a
ratio to the copy's of the same run: absolute figures belong to one machine on one day.
"""

import argparse
import functools
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from process_tree import watched

from streaming.demo.flights import load, messages
from streaming.kafka.embedded import EmbeddedBroker

JOB = Path(__file__).with_name("job.py")
KINDS = ("copy", "at-least-once", "exactly-once")
PARTITIONS = 4
SIZE = 100
SENDERS = 50
ROLES = ("", ".rejects", ".events", ".commands", ".transit")
TURNS = itertools.count()


def options(about, rate, seconds):
    """A parser with the options of every benchmark."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-latency", action="store_true")
    parser.add_argument("--rate", type=int, default=rate, help="records/s written, for latency")
    parser.add_argument("--seconds", type=float, default=seconds, help="measured, for latency")
    return parser


@contextmanager
def warm_broker():
    """A new broker that has had its first transaction, which waits for topics of its own."""
    with EmbeddedBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "bench"})
        producer.init_transactions(120)
        del producer  # or it tells of the broker's end
        yield broker


def create(bootstrap, *names):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS) for name in names]).values():
        future.result(60)


def remove(bootstrap, *names):
    """Give the disk back what topics take, where it is no longer asked for."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics([*names]).values():
        future.result(60)


def fill(bootstrap, topic, records, size=SIZE, *, distinct=False):
    """Write a new topic (see `produce`)."""
    create(bootstrap, topic)
    produce(bootstrap, topic, records, size, distinct=distinct)


def produce(bootstrap, topic, records, size=SIZE, *, distinct=False):
    """Write messages of so many bytes, (key, headers) each, as fast as it goes.

    Their values are cut out of a text of flights as JSON, each from another place; or they are
    random bytes (``distinct``): then nothing makes them smaller.
    """
    rng = random.Random(1)
    text = flights()

    def valued():
        for key, headers in records:
            at = rng.randrange(len(text) - size)
            yield key, headers, rng.randbytes(size) if distinct else text[at : at + size]

    send(bootstrap, topic, valued())


def send(bootstrap, topic, records, **settings):
    """Write messages, (key, headers, value) each, as fast as it goes."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "partitioner": "murmur2_random",
            **settings,
        }
    )
    for key, headers, value in records:
        while True:
            try:
                producer.produce(topic, value, key, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


@functools.cache
def flights():
    """What the demo's producers publish, one message behind the other."""
    planned = messages(load(40_000), 1, 1)
    return b"\n".join(each.value for some in planned.values() for each in some)


def fill_by_senders(bootstrap, topic, headers):
    """A message for each list of headers, from one sender after another."""
    fill(bootstrap, topic, ((b"p%03d" % (n % SENDERS), each) for n, each in enumerate(headers)))


def send_paced(bootstrap, topic, record, per_second, stop):
    """So many messages a second until `stop` is set: `record(n)` is the n-th key and headers.

    A value begins with the time of its writing in ns: nineteen digits.
    """
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "partitioner": "murmur2_random"}
    )
    sent, began, pad = 0, time.monotonic(), bytes(SIZE - 19)
    while not stop.is_set():
        due = int((time.monotonic() - began) * per_second)
        for number in range(sent, due):
            key, headers = record(number)
            producer.produce(topic, b"%019d" % time.time_ns() + pad, key, headers=headers)
        sent = max(sent, due)
        producer.poll(0)
        time.sleep(0.005)
    producer.flush(30)


def watched_job(broker, kind, *arguments):
    """The batches of a job that runs until it has done what `--until` says; its Watch.

    `broker` is the process of the broker.
    """
    process = subprocess.Popen(
        [sys.executable, str(JOB), kind, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        with watched(process.pid, broker) as watch:
            said, _ = process.communicate(timeout=3600)
    finally:
        if process.poll() is None:  # it has a session of its own, which no Ctrl-C reaches
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, f"{kind} failed"
    return json.loads(said.splitlines()[-1]), watch


def rates(batches, watch):
    """Records/s read and written after the first quarter, by the clock; CPU for a record read.

    CPU is in microseconds of a core, of the JVM, of Python and of the broker: unlike a rate, it
    hardly depends on what else the machine does.
    """
    skipped = first_quarter(batches)
    kept = batches[skipped:]
    begin, end = kept[0][-1], kept[-1][-1] + kept[-1][1]
    seconds = (end - begin) / 1000
    written = batches[-1][4] - (batches[skipped - 1][4] if skipped else 0)
    rows = sum(rows for rows, *_ in kept)
    cpu = {kind: spent / rows * 1e6 for kind, spent in watch.spent(begin, end).items()}
    return {"read": rows / seconds, "written": written / seconds, "cpu_us": cpu}


def first_quarter(batches):
    """How many of a job's batches read the first quarter of its records; at least one is left."""
    read = np.cumsum([rows for rows, *_ in batches])
    return min(int(np.searchsorted(read, read[-1] / 4)) + 1, len(batches) - 1)


def warm(batches, watch):
    """Of the second half of the batches: done in a second; CPU for each, broker and all, in µs."""
    half = len(batches) // 2 - 1
    done = batches[-1][3] - batches[half][3]
    kept = batches[half + 1 :]
    spent = sum(watch.spent(kept[0][-1], kept[-1][-1] + kept[-1][1]).values())
    return done / sum(ms for _, ms, *_ in kept) * 1000, spent / done * 1e6


def measured(bootstrap, job_words, record, per_second, warm_up, seconds):
    """When messages were sent and read (ms; n by 2) while a job runs; its batches meanwhile.

    `job_words` are a job's kind and options, `record` as in `send_paced`.
    """
    topic = f"latency-{next(TURNS)}"
    output = f"{topic}-out"
    create(bootstrap, topic, *(f"{output}{role}" for role in ROLES))
    kind, *words = job_words
    limit = str(seconds + warm_up)
    process = subprocess.Popen(
        [sys.executable, str(JOB), kind, bootstrap, topic, output, *words, "--seconds", limit],
        stdout=subprocess.PIPE,
        text=True,
    )
    stop = threading.Event()
    sender = threading.Thread(target=send_paced, args=(bootstrap, topic, record, per_second, stop))
    sender.start()
    try:
        found = read_latencies(bootstrap, output, warm_up, seconds)
    finally:
        stop.set()
        sender.join()
        said, _ = process.communicate(timeout=300)
    batches = json.loads(said.splitlines()[-1])
    return found, [each for each in batches if found[0, 0] < each[-1] < found[-1, 1]]


def in_order(number, channels=10_000):
    """The n-th message: one channel after another, each in order."""
    label, channel = divmod(number, channels)
    return b"c%07d" % channel, [("label", b"%d" % label)]


def channel_latency(bootstrap, given, warm_up):
    """p50, p99 and batch of an exactly-once channel pipeline at the same rate of deliveries."""
    words = ["exactly-once"]
    found = summary(*measured(bootstrap, words, in_order, given.rate, warm_up, given.seconds))
    say(f"latency of channels: p50 {found[0]:.0f}, p99 {found[1]:.0f} ms")
    return found


def read_latencies(bootstrap, topic, warm_up, seconds):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    began, found = time.monotonic(), []
    while time.monotonic() < began + warm_up + seconds:
        messages = consumer.consume(5000, 0.05)
        now = time.time_ns()
        if time.monotonic() > began + warm_up:
            found += [(int(m.value()[:19]) / 1e6, now / 1e6) for m in messages if not m.error()]
    consumer.close()
    return np.array(found)


def summary(found, spent):
    """Latency's p50 and p99, and the median length of a batch, in ms."""
    p50, p99 = np.percentile(found[:, 1] - found[:, 0], [50, 99])
    return p50, p99, statistics.median(ms for _, ms, *_ in spent)


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

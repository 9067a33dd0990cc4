"""Throughput and latency beside a stateless Spark copy, all in one run on one broker.

Every rate is of the second half of a job's batches (the first half warms up), and is given as a
ratio to the copy's of the same run: absolute figures belong to one machine on one day. What is
counted is the mean of messages read and written: with few messages to a channel most are held in
the first half and written in the second.

    python bench/bench.py                     # the whole (about half an hour on two cores)
    python bench/bench.py --messages 200000 --no-latency
"""

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.embedded import EmbeddedBroker

JOB = Path(__file__).with_name("job.py")
KINDS = ("copy", "at-least-once", "exactly-once")
PARTITIONS = 4
WINDOW = 20
SIZE = 100
WARM_UP_SECONDS = 90  # the JVM's compiler is busy for some minutes at such small batches


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="measured; as many warm up")
    parser.add_argument("--many", type=int, default=500_000, help="channels of the second topic")
    parser.add_argument("--no-latency", action="store_true")
    parser.add_argument("--rate", type=int, default=5_000, help="messages/s for latency")
    parser.add_argument("--seconds", type=float, default=30, help="measured, for latency")
    given = parser.parse_args()
    with EmbeddedBroker() as broker:
        begin_transactions(broker.bootstrap)
        rates = {}
        for channels in (10_000, given.many):
            topic = f"in-{channels}"
            say(f"writing {2 * given.messages:,} messages of {channels:,} channels")
            fill(broker.bootstrap, topic, 2 * given.messages, channels)
            for kind in KINDS:
                rates[channels, kind] = throughput(broker.bootstrap, topic, kind, given.messages)
        table_throughput(rates)
        if not given.no_latency:
            table_latency({kind: latency(broker.bootstrap, kind, given) for kind in KINDS}, given)


def fill(bootstrap, topic, count, channels):
    """`count` messages, each channel's labels disordered within a window of 20."""
    create(bootstrap, topic)
    rng = np.random.default_rng(1)
    rounds = count // channels
    place = np.arange(rounds)[None, :] + rng.uniform(0, WINDOW, (channels, rounds))
    labels = np.argsort(place, axis=1, kind="stable")
    value = bytes(SIZE)
    produce_all(
        bootstrap,
        (
            (topic, value, b"c%07d" % channel, [("label", b"%d" % label)])
            for turn in range(rounds)
            for channel, label in enumerate(labels[:, turn].tolist())
        ),
    )


def produce_all(bootstrap, records):
    """Write (topic, value, key, headers), as fast as it goes."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "partitioner": "murmur2_random",
        }
    )
    for topic, value, key, headers in records:
        while True:
            try:
                producer.produce(topic, value, key, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def throughput(bootstrap, topic, kind, messages):
    output = f"{topic}-{kind}"
    create(bootstrap, output, f"{output}.rejects", f"{output}.events")
    batches = job(
        kind, bootstrap, topic, output, "--batch", str(messages // 4), "--until", str(2 * messages)
    )
    rate = warm_rate([each for each in batches if each[0] > messages // 8])
    say(f"{topic} {kind}: {rate:,.0f} messages/s warm")
    return rate


def warm_rate(batches):
    """What was done in a second in the second half of the batches."""
    half = len(batches) // 2 - 1
    done = batches[-1][3] - batches[half][3]
    return done / sum(ms for _, ms, *_ in batches[half + 1 :]) * 1000


def latency(bootstrap, kind, given):
    """p50 and p99 (ms) from produce to read_committed consumption, after a warm-up."""
    topic, output = f"lat-{kind}", f"lat-{kind}-out"
    create(bootstrap, topic, output, f"{output}.rejects", f"{output}.events")
    send = partial(send_at, bootstrap, topic, given.rate)
    found, spent = measured([kind, bootstrap, topic, output], send, WARM_UP_SECONDS, given.seconds)
    for name in ("addBatch", "walCommit", "commitOffsets", "queryPlanning", "latestOffset"):
        say(f"  {kind} {name}: {statistics.median(s.get(name, 0) for _, _, s, *_ in spent):.0f} ms")
    p50, p99 = np.percentile(found[:, 1] - found[:, 0], [50, 99])
    say(f"latency {kind}: p50 {p50:.0f} ms, p99 {p99:.0f} ms, {len(found):,} messages")
    return p50, p99


def measured(job_arguments, send, warm_up, seconds):
    """When messages were sent and read (ms; n by 2) while ``send(stop)`` sends; the batches."""
    _, bootstrap, _, output, *_ = job_arguments
    limit = str(seconds + warm_up)
    process = subprocess.Popen(
        [sys.executable, str(JOB), *job_arguments, "--seconds", limit],
        stdout=subprocess.PIPE,
        text=True,
    )
    stop = threading.Event()
    sender = threading.Thread(target=send, args=(stop,))
    sender.start()
    try:
        found = read_latencies(bootstrap, output, warm_up=warm_up, seconds=seconds)
    finally:
        stop.set()
        sender.join()
        said, _ = process.communicate(timeout=300)
    batches = json.loads(said.splitlines()[-1])
    return found, [each for each in batches if found[0, 0] < each[-1] < found[-1, 1]]


def send_at(bootstrap, topic, rate, stop):
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "partitioner": "murmur2_random"}
    )
    channels, sent, began = 10_000, 0, time.monotonic()
    pad = bytes(SIZE - 19)
    while not stop.is_set():
        due = int((time.monotonic() - began) * rate)
        for number in range(sent, due):
            producer.produce(
                topic,
                b"%019d" % time.time_ns() + pad,
                b"c%07d" % (number % channels),
                headers=[("label", b"%d" % (number // channels))],
            )
        sent = max(sent, due)
        producer.poll(0)
        time.sleep(0.005)
    producer.flush(30)


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


def job(kind, *arguments):
    done = subprocess.run(
        [sys.executable, str(JOB), kind, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=3600,
    )
    return json.loads(done.stdout.splitlines()[-1])


def begin_transactions(bootstrap):
    """The first transaction of a new broker waits for topics of the broker's own."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "bench"})
    producer.init_transactions(120)


def create(bootstrap, *names):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS) for name in names]).values():
        future.result(60)


def table_throughput(rates):
    print("\n| channels | job | messages/s | of the copy |\n|---|---|---|---|")
    for (channels, kind), rate in rates.items():
        print(f"| {channels:,} | {kind} | {rate:,.0f} | {rate / rates[channels, 'copy']:.2f} |")
    few, many = sorted({channels for channels, _ in rates})
    for kind in KINDS[1:]:
        print(
            f"\n{kind}: {many:,} channels at {rates[many, kind] / rates[few, kind]:.2f} of {few:,}"
        )


def table_latency(found, given):
    print(f"\nAt {given.rate:,} messages/s:\n")
    print("| job | p50 ms | p99 ms | p50 / copy |\n|---|---|---|---|")
    for kind, (p50, p99) in found.items():
        print(f"| {kind} | {p50:.0f} | {p99:.0f} | {p50 / found['copy'][0]:.1f} |")


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

"""Channels beside other systems that keep state, all on one broker: a table.

Each job reads the same topic with two cores and ends when it has delivered everything; a checker
judges each output. The jobs take turns, in each run another one begins, and before the first the
broker has served one that does not count. Everything is seen from outside, alike for all: how far a
reader with `read_committed` gets, memory and CPU of the job's processes. Ours is `sequencer run`
with a file that says nothing of speed. At the end each job is given messages at a steady rate: how
long each takes to a reader. Java 17 and Maven are needed; Maven fetches libraries, once.

    python bench/compare.py                # the whole
    python bench/compare.py --scale 0.25 --runs 1 --no-latency   # the short form
"""

import json
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from channels import CHANNELS, disordered, machine, middle
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from harness import (
    PARTITIONS,
    ROLES,
    create,
    fill,
    in_order,
    options,
    read_latencies,
    remove,
    say,
    send_paced,
    warm_broker,
)
from peers import check
from process_tree import watched
from rivals import ENDLESS, JOBS, build, command

MESSAGES = 4_000_000
LIMIT_SECONDS = 900
WARM_UP_SECONDS, RATE, SECONDS = 30, 5_000, 60
STOP_SECONDS_MAX = 60
LOOK_SECONDS = 0.1


def main():
    parser = options(__doc__, RATE, SECONDS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of messages")
    parser.add_argument("--only", nargs="*", choices=JOBS, default=list(JOBS))
    parser.add_argument(
        "--intervals",
        nargs="*",
        type=int,
        default=[200, 2000],
        help="between two commits of Flink and Kafka Streams, in ms: each is measured with each",
    )
    parser.add_argument("--output", type=Path, default=Path("bench-peers.json"))
    given = parser.parse_args()
    if any(JOBS[name].commits for name in given.only):
        build()
    ways = [
        (name, interval)
        for name in given.only
        for interval in (given.intervals if JOBS[name].commits else [None])
    ]
    rounds = max(1, round(MESSAGES * given.scale) // CHANNELS)
    found = {"machine": machine(), "messages": rounds * CHANNELS, "jobs": {}, "latency": {}}
    with warm_broker() as broker:
        say(f"writing {rounds * CHANNELS:,} messages")
        fill(broker.bootstrap, "input", disordered(rounds * CHANNELS, CHANNELS))
        say(f"before the first: {measured(broker, *ways[-1], 'before', rounds)}")
        for run in range(given.runs):
            for name, interval in in_turn(ways, run):
                figures = measured(broker, name, interval, run, rounds)
                found["jobs"].setdefault(way_of(name, interval), []).append(figures)
                say(f"{way_of(name, interval)}: {figures}")
        for name, interval in [] if given.no_latency else ways:
            if JOBS[name].lives:
                figures = latency(broker, name, interval, given)
                found["latency"][way_of(name, interval)] = figures
                say(f"{way_of(name, interval)}: p50 and p99 {figures} ms")
    given.output.write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(table(found)))


def in_turn(ways, run):
    """The ways, another one first in each run: who comes first finds another machine."""
    first = run * len(ways) // 3 % len(ways)
    return [*ways[first:], *ways[:first]]


def way_of(name, interval):
    """A job and its interval in words."""
    return f"{name} {interval or ''}".strip()


def measured(broker, name, interval, run, rounds):
    """The figures of one job, which commits every `interval` ms where it has one."""
    count, output = rounds * CHANNELS, f"{name}-{interval}-{run}"
    topics = [f"{output}{role}" for role in ROLES]
    create(broker.bootstrap, *topics)
    places = (broker.bootstrap, "input", output)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, Reach(broker, output) as reach:
        began = time.time() * 1000
        process = subprocess.Popen(
            command(name, interval, places, count, folder),
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            with watched(process.pid, broker.pid) as watch:
                process.wait(LIMIT_SECONDS)
        finally:
            end(process)
    assert process.returncode == 0, f"{name} failed"
    if JOBS[name].ordered:
        deliveries = check.read(broker.bootstrap, output, PARTITIONS)
        wrong = list(check.faults(deliveries, CHANNELS, rounds))
        assert not wrong, f"{name}: {wrong}"
    remove(broker.bootstrap, *topics)
    return figures(reach.turns, count, began, watch)


def latency(broker, name, interval, given):
    """p50 and p99 in ms from producing to reading, at a steady rate, after WARM_UP_SECONDS."""
    topic, output = (f"{part}-{name}-{interval}" for part in ("paced", "ordered"))
    create(broker.bootstrap, topic, *(f"{output}{role}" for role in ROLES))
    stop = threading.Event()
    paced = (broker.bootstrap, topic, in_order, given.rate, stop)
    sender = threading.Thread(target=send_paced, args=paced)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        process = subprocess.Popen(
            command(name, interval, (broker.bootstrap, topic, output), ENDLESS, folder),
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        sender.start()
        try:
            found = read_latencies(broker.bootstrap, output, WARM_UP_SECONDS, given.seconds)
        finally:
            stop.set()
            sender.join()
            end(process)
    assert len(found), f"{name} delivered nothing"
    return [round(float(each)) for each in np.percentile(found[:, 1] - found[:, 0], [50, 99])]


def end(process):
    """Have a job stop, by force where it does not."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS_MAX)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Reach:
    """How many records a reader with `read_committed` could have got, again and again: `turns`."""

    def __init__(self, broker, topic):
        self.turns = []  # ms of the clock, offsets of all partitions together
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        self._wanted = {
            TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)
        }
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self._look()
        del self._admin  # or it tells of the broker's end

    def _run(self):
        while not self._stop.wait(LOOK_SECONDS):
            with suppress(KafkaException):  # a new topic may have no leader yet
                self._look()

    def _look(self):
        asked = self._admin.list_offsets(
            self._wanted, isolation_level=IsolationLevel.READ_COMMITTED
        )
        far = sum(future.result(30).offset for future in asked.values())
        self.turns.append((time.time() * 1000, far))


def window(turns):
    """The measured part: the first look with a quarter of all records, the first with 9 of 10.

    What is readable grows with each commit, so it begins and ends with one; the end is left out,
    as a job may wait there for its next commit.
    """
    last = turns[-1][1]
    begin, end = (next(turn for turn in turns if turn[1] >= last * part) for part in (0.25, 0.9))
    assert end[0] > begin[0], "too few messages: nearly all became readable with one commit"
    return begin, end


def figures(turns, count, began, watch):
    """What was measured of a job: records/s, seconds since its start, CPU for a record.

    CPU is in microseconds of a core. `count` records are in the output; offsets count commits, too.
    """
    begin, end = window(turns)
    records = (end[1] - begin[1]) / turns[-1][1] * count
    cpu = {kind: s / records * 1e6 for kind, s in watch.spent(begin[0], end[0]).items()}
    broker = cpu.pop("broker")
    first, all_read = (next(at for at, far in turns if far >= part) for part in (1, turns[-1][1]))
    return {
        "records_per_second": records / (end[0] - begin[0]) * 1000,
        "first_output_s": (first - began) / 1000,
        "all_s": (all_read - began) / 1000,
        "cpu_us": sum(cpu.values()),
        "cpu_broker_us": broker,
        "memory_mib": watch.memory["all"],
    }


def table(found):
    """Lines of Markdown: what the page on performance shows."""
    yield (
        "| job | guarantee | state | commit every, ms | records/s | first output, s "
        "| peak memory, MiB | CPU of the job, µs a record | of the broker | p50, p99, ms |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for way, runs in found["jobs"].items():
        name, _, interval = way.partition(" ")
        job = JOBS[name]
        rates = [run["records_per_second"] for run in runs]
        rate = middle(rates) if len(runs) > 1 else f"{rates[0]:,.0f}"
        first, memory, own, broker = (
            statistics.median(run[what] for run in runs)
            for what in ("first_output_s", "memory_mib", "cpu_us", "cpu_broker_us")
        )
        yield (
            f"| {job.title} | {job.guarantee} | {job.state} | {interval} | {rate} "
            f"| {first:.1f} | {memory:,.0f} | {own:.1f} | {broker:.1f} "
            f"| {', '.join(map(str, found['latency'].get(way, [])))} |"
        )
    yield f"\n{found['messages']:,} messages. {json.dumps(found['machine'])}"


if __name__ == "__main__":
    main()

"""Channels beside other systems that keep state, all in one run on one broker: a table.

Each job reads the same topic with two cores and ends when it has delivered everything; a checker
judges each output. Everything is seen from outside, alike for all: how far a reader with
`read_committed` gets, memory and CPU of the job's processes. Java 17 and Maven are needed; Maven
fetches the others' libraries, once.

    python bench/compare.py                # the whole
    python bench/compare.py --scale 0.25 --intervals 2000   # the short form
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from channels import CHANNELS, disordered, machine, middle
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from harness import JOB, PARTITIONS, ROLES, create, fill, say, warm_broker
from peers import check
from process_tree import watched

from streaming.disciplines.source import BATCH_RECORDS
from streaming.errors import SequencerError
from streaming.kafka.jars import java

PEERS = Path(__file__).with_name("peers")
MESSAGES = 4_000_000
LIMIT_SECONDS = 900
JAVA_PROGRAMS = {"flink", "streams"}
LOOK_SECONDS = 0.1
JVM = ("-Xmx1g", "-XX:+UseParallelGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


class Job(NamedTuple):
    """One way to do it: how it is started, and what it guarantees."""

    words: tuple[str, ...]
    title: str
    guarantee: str
    state: str
    ordered: bool = True

    @property
    def commits(self):
        """Whether it commits at an interval that it is given."""
        return self.words[0] in JAVA_PROGRAMS


JOBS = {
    "copy": Job(("job", "copy"), "Spark copy", "at-least-once, no order", "none", ordered=False),
    "exactly-once": Job(("job", "exactly-once"), "**ours**", "exactly-once", "RocksDB, checkpoint"),
    "at-least-once": Job(
        ("job", "at-least-once"), "**ours**", "at-least-once", "RocksDB, checkpoint"
    ),
    "flink-rocksdb": Job(
        ("flink", "FlinkPeer", "rocksdb", "array"), "Flink", "exactly-once", "RocksDB, checkpoint"
    ),
    "flink-rocksdb-entries": Job(
        ("flink", "FlinkPeer", "rocksdb", "entries"),
        "Flink, an entry for each held message",
        "exactly-once",
        "RocksDB, checkpoint",
    ),
    "flink-heap": Job(
        ("flink", "FlinkPeer", "hashmap", "array"), "Flink", "exactly-once", "heap, checkpoint"
    ),
    "streams": Job(
        ("streams", "StreamsPeer"), "Kafka Streams", "exactly-once", "RocksDB, changelog"
    ),
    "dictionaries": Job(
        ("dictionaries",), "plain Python", "none: a crash loses what is held", "dictionaries"
    ),
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of messages")
    parser.add_argument("--only", nargs="*", choices=JOBS, default=list(JOBS))
    parser.add_argument(
        "--intervals",
        nargs="*",
        type=int,
        default=[1000, 2000, 5000],
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
    found = {"machine": machine(), "messages": rounds * CHANNELS, "jobs": {}}
    with warm_broker() as broker:
        say(f"writing {rounds * CHANNELS:,} messages")
        fill(broker.bootstrap, "input", disordered(rounds * CHANNELS, CHANNELS))
        for run in range(given.runs):
            for name, interval in ways:
                figures = measured(broker, name, interval, run, rounds)
                way = f"{name} {interval or ''}".strip()
                found["jobs"].setdefault(way, []).append(figures)
                say(f"{way}: {figures}")
    given.output.write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(table(found)))


def build():
    """Compile the Java programs; ends with a message where Java or Maven is missing."""
    without = "Nothing was measured. Without the two that need it: --only " + " ".join(
        name for name, job in JOBS.items() if not job.commits
    )
    try:
        java()
    except SequencerError as error:
        sys.exit(f"{error}\n{without}")
    maven = shutil.which("mvn")
    if maven is None:
        sys.exit(f"There is no mvn on the PATH: Flink and Kafka Streams need Maven.\n{without}")
    say("compiling the programs for Flink and Kafka Streams")
    command = [maven, "-q", "-B", "-f", str(PEERS / "pom.xml"), "package"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"Maven could not build bench/peers.\n{without}\n{done.stdout[-3000:]}")


def command(name, interval, bootstrap, output, count, folder):
    """How a job is started."""
    kind, *words = JOBS[name].words
    if kind == "job":
        limit = str(min(BATCH_RECORDS, count // 8))
        options = ("--batch", limit, "--until", str(count))
        return [sys.executable, str(JOB), *words, bootstrap, "input", output, *options]
    if kind == "dictionaries":
        return [sys.executable, str(PEERS / "dictionaries.py"), bootstrap, "input", output]
    target = PEERS / kind / "target"
    classes = os.pathsep.join((str(target / "classes"), str(target / "dependency" / "*")))
    program, *settings = words
    asked = (program, bootstrap, "input", output, str(count), folder, str(interval), *settings)
    return [java(), *JVM, "-cp", classes, *asked]


def measured(broker, name, interval, run, rounds):
    """The figures of one job, which commits every `interval` ms where it has one."""
    count, output = rounds * CHANNELS, f"{name}-{interval}-{run}"
    create(broker.bootstrap, *(f"{output}{role}" for role in ROLES))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, Reach(broker, output) as reach:
        began = time.time() * 1000
        process = subprocess.Popen(
            command(name, interval, broker.bootstrap, output, count, folder),
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            with watched(process.pid, broker.pid) as watch:
                process.wait(LIMIT_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert process.returncode == 0, f"{name} failed"
    if JOBS[name].ordered:
        deliveries = check.read(broker.bootstrap, output, PARTITIONS)
        wrong = list(check.faults(deliveries, CHANNELS, rounds))
        assert not wrong, f"{name}: {wrong}"
    return figures(reach.turns, count, began, watch)


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
        "| peak memory, MiB | CPU of the job, µs a record | of the broker |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
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
            f"| {first:.1f} | {memory:,.0f} | {own:.1f} | {broker:.1f} |"
        )
    yield f"\n{found['messages']:,} messages. {json.dumps(found['machine'])}"


if __name__ == "__main__":
    main()

"""A service for an hour at a steady rate: does anything grow, memory or latency?

`sequencer run` with the defaults; messages of 100 bytes in 10,000 channels come at about half the
highest rate (`--rate`), mixed within each tenth of a second. A reader takes a quarter of the output
with `read_committed` and judges each message of it: a channel's labels without a gap or a repeat.
Told for each minute: latency from producing to reading, memory, threads, open files, files of the
checkpoint. The topics keep some minutes.

    python bench/steady.py --plot steady.png                     # an hour
    python bench/steady.py --minutes 6 --rate 100000
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from harness import PARTITIONS, flights, say, warm_broker
from latency import ROLES, cpu, written
from matplotlib.figure import Figure
from process_tree import resident, session_processes
from service import ended

from streaming.arrow.partitioner import partitions_of
from streaming.arrow.schemas import HEADERS
from streaming.kafka.choice import own_settings
from streaming.sink.producer import BatchProducer

CHANNELS, SIZE = 10_000, 100
TICK_SECONDS = 0.1
KEPT = {"retention.ms": "300000", "segment.bytes": str(64 * 2**20)}
TIME, LABEL, CHANNEL = 19, 12, 7
"""A value's first digits: when it was written (ns), its label, its channel."""
MEASURES = {
    "p50": "ms",
    "p99": "ms",
    "jvm": "MiB",
    "python": "MiB",
    "threads": "",
    "handles": "",
    "files": "of the checkpoint",
    "cpu": "% of a core",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rate", type=int, default=400_000, help="messages a second")
    parser.add_argument("--plot", type=Path, help="draw a picture to this file")
    parser.add_argument("--output", type=Path, help="write the minutes to this file, as JSON")
    parser.add_argument("--send", nargs=2, metavar=("BOOTSTRAP", "TOPIC"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.send:
        return send(*given.send, given.rate)
    minutes = measured(given.minutes, given.rate)
    print("\n".join(table(minutes)))
    if given.output:
        given.output.write_text(json.dumps(minutes, indent=1) + "\n")
    if given.plot:
        draw(minutes, given.plot)
    return 0


def send(bootstrap, topic, rate):
    """Write until this process is ended; what was late is written at once, as users would."""
    settings = own_settings({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    producer = BatchProducer(settings, None, topic, topic)
    producer.begin_session()
    producer.brokers.connect(60)
    text, rng = flights(), np.random.default_rng(1)
    rest = SIZE - TIME - LABEL - CHANNEL
    cuts = pa.array([text[at : at + rest] for at in rng.integers(0, len(text) - rest, 5_000)])
    names = np.array([b"c%07d" % each for each in range(CHANNELS)])
    places = partitions_of(pa.array(names, pa.binary()), PARTITIONS)
    sent, began = 0, time.monotonic()
    while True:
        time.sleep(TICK_SECONDS - (time.monotonic() - began) % TICK_SECONDS)
        due = int((time.monotonic() - began) * rate)
        numbers = rng.permutation(np.arange(sent, due))
        labels, channels = np.divmod(numbers, CHANNELS)
        now = np.full(len(numbers), b"%019d" % time.time_ns())
        digits = [digits_of(labels, LABEL), digits_of(channels, CHANNEL)]
        parts = [pa.array(each, pa.binary()) for each in (now, *digits)]
        values = pc.binary_join_element_wise(*parts, cuts.take(numbers % len(cuts)), b"")
        rows = pa.table(
            {
                "key": pa.array(names[channels], pa.binary()),
                "value": values,
                "headers": pa.array([[]] * len(numbers), HEADERS),
            }
        )
        producer.write(topic, rows, places[channels], [("label", pa.array(labels))])
        producer.finish()
        sent = due


def digits_of(numbers, width):
    return np.char.zfill(numbers.astype(f"S{width}"), width)


def measured(minutes, rate):
    """A dictionary for each minute, with the names of MEASURES."""
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(warm_broker())
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        names = ["steady.in", *(f"steady.out{role}" for role in ROLES)]
        new = [NewTopic(name, PARTITIONS, config=KEPT) for name in names]
        for future in admin.create_topics(new).values():
            future.result(60)
        config = Path(folder, "service.toml")
        config.write_text(written("channel", "steady", folder, broker.bootstrap, ""))
        run = [sys.executable, "-m", "streaming.cli", "run", str(config)]
        service = stack.enter_context(ended(run, Path(folder, "log")))
        words = ["--send", broker.bootstrap, "steady.in", "--rate", str(rate)]
        sender = stack.enter_context(
            ended([sys.executable, __file__, *words], Path(folder, "sent"))
        )
        reader = Reader(broker.bootstrap, "steady.out")
        stack.callback(reader.close)
        found = []
        for minute in range(minutes):
            before = sum(cpu(service.pid).values())
            waits = reader.read(time.monotonic() + 60)
            spent = sum(cpu(service.pid).values()) - before
            for process, log in ((service, "log"), (sender, "sent")):
                if process.poll() is not None:
                    raise SystemExit(
                        f"{log}: it has ended\n" + Path(folder, log).read_text()[-2000:]
                    )
            if not len(waits):
                raise SystemExit("nothing is delivered\n" + Path(folder, "log").read_text()[-2000:])
            found.append(taken(service.pid, folder, waits) | {"cpu": spent / 60 * 100})
            told = ", ".join(f"{name} {value:,.0f}" for name, value in found[-1].items())
            say(f"minute {minute + 1}: {told}; {reader.judged:,} judged")
        return found


class Reader:
    """Reads one partition of the output; AssertionError where labels are not in order."""

    def __init__(self, bootstrap, topic):
        settings = {"group.id": topic, "isolation.level": "read_committed"}
        self.consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
        self.consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self.close = self.consumer.close
        self.next = np.zeros(CHANNELS, int)
        self.judged = 0

    def read(self, until):
        """The latencies (ms) of all that came."""
        found = []
        while time.monotonic() < until:
            messages = [each.value() for each in self.consumer.consume(20_000, 0.02)]
            at = time.time_ns()
            if messages:
                rows = np.frombuffer(b"".join(messages), f"S{SIZE}").view("S1").reshape(-1, SIZE)
                found.append((at - self._numbers(rows, 0, TIME)) / 1e6)
                self._judge(
                    self._numbers(rows, TIME, LABEL), self._numbers(rows, TIME + LABEL, CHANNEL)
                )
        return np.concatenate([*found, np.zeros(0)])

    @staticmethod
    def _numbers(rows, first, width):
        return (
            np.ascontiguousarray(rows[:, first : first + width]).view(f"S{width}")[:, 0].astype(int)
        )

    def _judge(self, labels, channels):
        order = np.argsort(channels, kind="stable")
        labels, channels = labels[order], channels[order]
        starts = np.flatnonzero(np.diff(channels, prepend=-1))
        counts = np.diff(starts, append=len(channels))
        first = self.next[channels[starts]]
        wanted = np.repeat(first - starts, counts) + np.arange(len(channels))
        wrong = np.flatnonzero(labels != wanted)
        assert not len(wrong), (
            f"channel {channels[wrong[0]]}: {labels[wrong[0]]}, not {wanted[wrong[0]]}"
        )
        self.next[channels[starts]] = first + counts
        self.judged += len(labels)


def taken(session, folder, waits):
    """What a service has now, and what its readers had waited."""
    threads = handles = 0
    for process in session_processes(session):
        with contextlib.suppress(OSError):
            threads += len(list(Path(f"/proc/{process}/task").iterdir()))
            handles += len(list(Path(f"/proc/{process}/fd").iterdir()))
    p50, p99 = np.percentile(waits, [50, 99])
    files = sum(len(names) for _, _, names in os.walk(Path(folder, "checkpoints")))
    counts = {"threads": threads, "handles": handles, "files": files}
    return {"p50": p50, "p99": p99, **resident(session), **counts}


def table(minutes):
    """Lines of Markdown: the middle of each tenth of the minutes."""
    size = max(1, len(minutes) // 10)
    tenths = [minutes[at : at + size] for at in range(0, len(minutes), size)]
    yield (
        "| minutes | "
        + " | ".join(f"{name} {unit}".strip() for name, unit in MEASURES.items())
        + " |"
    )
    yield "|---" * (len(MEASURES) + 1) + "|"
    for number, some in enumerate(tenths):
        middles = (statistics.median(each[name] for each in some) for name in MEASURES)
        span = f"{number * size + 1} to {number * size + len(some)}"
        yield f"| {span} | " + " | ".join(f"{each:,.0f}" for each in middles) + " |"


def draw(minutes, path):
    """A line for each measure, minute by minute."""
    figure = Figure(figsize=(8, 10), layout="constrained")
    for axes, (name, unit) in zip(
        figure.subplots(len(MEASURES), sharex=True), MEASURES.items(), strict=True
    ):
        axes.plot(range(1, len(minutes) + 1), [each[name] for each in minutes])
        axes.set_ylim(bottom=0)
        axes.set_title(f"{name}, {unit}" if unit else name, loc="left", fontsize=9)
    axes.set_xlabel("minute")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())

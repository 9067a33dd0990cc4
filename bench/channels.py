"""Channels beside a stateless Spark copy at its best, all in one run on one broker: a table.

Throughput is counted in records read after the first quarter of them, by the clock. Reading and
writing differ where labels are disordered and channels many: then most records are held in the
first part and written in the last; records written are in the JSON, too. The topic `even` has each
channel's first label in its first quarter: behind it as many are written as are read.

    python bench/channels.py                                    # the whole
    python bench/channels.py --runs 1 --scale 0.1 --only throughput
    python bench/channels.py --runs 1 --only throughput --topics channels-10k channels-10m-even
"""

import json
import platform
import statistics
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness import (
    KINDS,
    ROLES,
    create,
    fill,
    in_order,
    measured,
    options,
    rates,
    remove,
    say,
    summary,
    warm_broker,
    watched_job,
)
from picture import draw
from service import seconds_to_output

from streaming.config.tables import Service
from streaming.disciplines.source import BATCH_RECORDS, BATCH_RECORDS_GROWN

CHANNELS = 10_000
WINDOW = 20
WARM_UP_SECONDS = 60  # the JVM's compiler is busy for some minutes at such small batches
BATCH_BYTES = Service().batch_bytes_max  # the copy's, too
PARTS = ("throughput", "latency", "start")
LONG = "channels-10m-even"
"""It takes five minutes, and is measured where it is asked for."""


class Topic(NamedTuple):
    """One input: so many messages of so many bytes."""

    name: str
    channels: int
    size: int
    messages: int
    kinds: tuple[str, ...] = KINDS
    even: bool = False


TOPICS = (
    Topic("channels-10k", CHANNELS, 100, 4_000_000),
    Topic("channels-1m", 1_000_000, 100, 4_000_000, ("exactly-once",)),
    Topic("channels-1m-even", 1_000_000, 100, 4_000_000, ("exactly-once",), even=True),
    Topic("channels-10m-even", 10_000_000, 100, 40_000_000, ("exactly-once",), even=True),
    Topic("values-1kb", CHANNELS, 1_000, 2_000_000, ("copy", "exactly-once")),
    Topic("values-10kb", CHANNELS, 10_000, 200_000, ("copy", "exactly-once")),
)


def main():
    parser = options(__doc__, rate=5_000, seconds=30)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of messages")
    parser.add_argument("--topics", nargs="*", choices=[each.name for each in TOPICS])
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--output", type=Path, default=Path("bench-channels.json"))
    given = parser.parse_args()
    parts = set(given.only) - ({"latency"} if given.no_latency else set())
    found = {"machine": machine(), "throughput": {}, "latency": {}, "start": {}}
    with warm_broker() as broker:
        bootstrap = broker.bootstrap
        if "throughput" in parts:
            names = given.topics or [each.name for each in TOPICS if each.name != LONG]
            topics = [each for each in TOPICS if each.name in names]
            counts = [filled(bootstrap, topic, given.scale) for topic in topics]
            for run in range(given.runs):
                for topic, count in zip(topics, counts, strict=True):
                    throughput(broker, topic, count, run, found["throughput"])
        if "latency" in parts:
            for kind in KINDS:
                found["latency"][kind] = latency(bootstrap, kind, given)
        if "start" in parts:
            turns = [seconds_to_output(bootstrap, turn) for turn in range(given.runs)]
            found["start"] = {name: [turn[name] for turn in turns] for name in turns[0]}
            say(f"seconds to output: {found['start']}")
    given.output.write_text(json.dumps(found, indent=1) + "\n")
    draw(found, given.output.with_suffix(".png"))
    print("\n".join(table(found)))


def machine():
    """What this was measured on."""
    told = dict(line.split(":", 1) for line in lines("/proc/cpuinfo") if ":" in line)
    memory = next(line.split()[1] for line in lines("/proc/meminfo"))
    return {
        "processor": {k.strip(): v.strip() for k, v in told.items()}.get("model name", ""),
        "cores": len([line for line in lines("/proc/cpuinfo") if line.startswith("processor")]),
        "memory_gib": round(int(memory) / 2**20),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def lines(file):
    return Path(file).read_text().splitlines()


def disordered(count, channels, *, even=False):
    """`count` messages, each channel's labels disordered within a window of 20.

    `even`: but the first one, which comes first.
    """
    rng = np.random.default_rng(1)
    rounds = max(1, count // channels)
    place = np.arange(rounds)[None, :] + rng.uniform(0, WINDOW, (channels, rounds))
    place[:, 0] -= WINDOW * even
    labels = np.argsort(place, axis=1, kind="stable")
    for turn in range(rounds):
        for channel, label in enumerate(labels[:, turn].tolist()):
            yield b"c%07d" % channel, [("label", b"%d" % label)]


def filled(bootstrap, topic, scale):
    """Write the topic; how many messages it has."""
    count = round(topic.messages * scale)
    channels = min(topic.channels, count // 4)
    count -= count % channels
    say(f"writing {count:,} messages of {topic.size:,} bytes, {channels:,} channels")
    fill(bootstrap, topic.name, disordered(count, channels, even=topic.even), topic.size)
    return count


def throughput(broker, topic, count, run, found):
    """One run of each kind of job, one after the other."""
    bootstrap = broker.bootstrap
    for kind in topic.kinds:
        output = f"{topic.name}-{kind}-{run}"
        create(bootstrap, *(f"{output}{role}" for role in ROLES))
        asked = (*batch_of(kind, topic.size, count), "--until", str(count))
        batches, watch = watched_job(broker.pid, kind, bootstrap, topic.name, output, *asked)
        remove(bootstrap, *(f"{output}{role}" for role in ROLES))
        one = rates(batches, watch) | {"memory_mib": watch.memory}
        cpu = ", ".join(f"{what} {spent:.1f}" for what, spent in one["cpu_us"].items())
        memory = f"{watch.memory['all']:,.0f} MiB"
        say(f"{output}: {one['read']:,.0f} read/s, {one['written']:,.0f} written/s, {memory}")
        say(f"{output}: microseconds of a core for a record: {cpu}")
        runs = found.setdefault(f"{topic.name} {kind}", {"size": topic.size, "runs": []})
        runs["runs"].append(one)


def batch_of(kind, size, count):
    """A job's words for its batches: the service's own, the copy's as large as is good for it.

    There are four of the service's at least, so a smaller topic has smaller ones.
    """
    if kind == "copy":
        return "--batch", str(min(BATCH_RECORDS_GROWN, BATCH_BYTES // size, count // 4))
    return () if count // 4 >= BATCH_RECORDS else ("--batch", str(count // 4))


def latency(bootstrap, kind, given):
    """p50 and p99 (ms) from produce to read_committed consumption, after a warm-up."""
    words = [kind, "--linger", "0"]  # each at its best, here
    spent_ms, batches = measured(
        bootstrap, words, in_order, given.rate, WARM_UP_SECONDS, given.seconds
    )
    p50, p99, batch = summary(spent_ms, batches)
    say(f"latency {kind}: p50 {p50:.0f} ms, p99 {p99:.0f} ms, {len(spent_ms):,} messages")
    phases = ("addBatch", "walCommit", "commitOffsets", "queryPlanning", "latestOffset")
    spent = {name: statistics.median(each[2].get(name, 0) for each in batches) for name in phases}
    return {"p50_ms": p50, "p99_ms": p99, "batch_ms": batch, "phases_ms": spent}


def middle(values):
    """Median and spread, as a table says them."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):,.0f} ({low:,.0f} to {high:,.0f})"


def of_the_other(read, other):
    """Median and spread of the ratios, run by run."""
    if other is None:
        return ""
    ratios = sorted(mine / theirs for mine, theirs in zip(read, other, strict=True))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def table(found):
    """Lines of Markdown: what the page on performance shows.

    A ratio is the median of each run's own, as the machine's speed may change from run to run.
    """
    yield (
        "| what | records read/s, median and spread | of the copy, run by run "
        "| CPU, µs a record: JVM, Python, broker | peak memory MiB |"
    )
    yield "|---|---|---|---|---|"
    rates_read = {
        name: [run["read"] for run in one["runs"]] for name, one in found["throughput"].items()
    }
    for name, one in found["throughput"].items():
        topic, kind = name.split()
        read = rates_read[name]
        memory = max(run["memory_mib"]["all"] for run in one["runs"])
        copy = rates_read.get(f"{topic} copy")
        ratio = "1" if kind == "copy" else of_the_other(read, copy)
        cpu = ", ".join(
            f"{statistics.median(run['cpu_us'][what] for run in one['runs']):.1f}"
            for what in ("jvm", "python", "broker")
        )
        yield f"| {topic}, {kind} | {middle(read)} | {ratio} | {cpu} | {memory:,.0f} |"
    moved = {
        name: [(run["read"] + run["written"]) / 2 for run in one["runs"]]
        for name, one in found["throughput"].items()
    }
    few = "channels-10k exactly-once"
    for name in ("channels-1m", "channels-1m-even", LONG):
        many = f"{name} exactly-once"
        if few in moved and many in moved:
            both = of_the_other(moved[many], moved[few])
            by_read = of_the_other(rates_read[many], rates_read[few])
            yield f"\n{name} at {both} of the rate of 10,000 channels, {by_read} by records read."
    if found["latency"]:
        yield "\n| job | p50 ms | p99 ms | p50 of the copy | p99 |\n|---|---|---|---|---|"
        copy = found["latency"]["copy"]
        for kind, one in found["latency"].items():
            of = [one[name] / copy[name] for name in ("p50_ms", "p99_ms")]
            times = f"{one['p50_ms']:.0f} | {one['p99_ms']:.0f}"
            yield f"| {kind} | {times} | {of[0]:.1f} | {of[1]:.1f} |"
    if found["start"]:
        yield "\n| from | to the next delivery, s |\n|---|---|"
        for name, values in found["start"].items():
            told = ", ".join(f"{each:.1f}" for each in sorted(values))
            yield f"| {name} | {told} |"
    yield f"\n{json.dumps(found['machine'])}"


if __name__ == "__main__":
    main()

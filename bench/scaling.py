"""How channels scale on a Spark standalone cluster: executors of one core each, on this machine.

Each setting works through the same topic, exactly once; its values cannot be compressed. Told are:
records a second by the clock; microseconds of a core for a record, of executors (JVM and Python),
driver and broker; shuffle bytes for a record, and how many of them went from one executor to
another; the driver's time for a batch, of a core, and the time in which no task ran. Then small
batches with many state partitions: what each of them costs the driver. Rates need a quiet machine
with a core for each executor; CPU hardly does.

    PYTHONPATH=. python bench/scaling.py              # ten minutes
    PYTHONPATH=. python bench/scaling.py --scale 0.2
"""

import argparse
import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
from channels import disordered, machine
from harness import ROLES, create, fill, first_quarter, say, warm_broker, watched_job
from process_tree import watched

from tests.cluster import HOST, Standalone

CHANNELS = 10_000
MESSAGES = 2_000_000
BATCH = 100_000
SMALL_BATCH, SMALL_BATCHES = 5_000, 40


class Setting(NamedTuple):
    """Executors (0: the driver's own cores), state partitions, and the length of a batch."""

    name: str
    executors: int
    partitions: int
    batch: int = BATCH


SETTINGS = (
    Setting("local[1]", 0, 1),
    Setting("local[2]", 0, 2),
    Setting("1 executor", 1, 1),
    Setting("2 executors", 2, 2),
    *(Setting(f"{n} state partitions", 2, n, SMALL_BATCH) for n in (2, 8, 32, 128)),
)
EVENTS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
ALL_THERE = {
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.shuffle.readHostLocalDisk": "false",
}
"""Executors take each other's blocks over sockets, as on hosts of their own."""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of messages")
    parser.add_argument("--only", nargs="*", choices=[each.name for each in SETTINGS])
    parser.add_argument("--output", type=Path, default=Path("bench-scaling.json"))
    given = parser.parse_args()
    count = round(MESSAGES * given.scale / CHANNELS) * CHANNELS
    figures = {"machine": machine()}
    with warm_broker() as broker:
        say(f"writing {count:,} messages of 100 bytes, {CHANNELS:,} channels")
        fill(broker.bootstrap, "in", disordered(count, CHANNELS), distinct=True)
        for number, setting in enumerate(SETTINGS):
            if not given.only or setting.name in given.only:
                figures[setting.name] = measure(broker, setting, f"out-{number}", count)
                say(f"{setting.name}: {json.dumps(figures[setting.name])}")
    given.output.write_text(json.dumps(figures, indent=1) + "\n")
    print("\n".join(table(figures)))


def measure(broker, setting, output, count):
    """One job's figures."""
    create(broker.bootstrap, *(f"{output}{role}" for role in ROLES))
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ExitStack() as stack:
        folder = Path(name)
        events = folder / "events"
        events.mkdir()
        spark = {**EVENTS, "spark.eventLog.dir": events.as_uri()}
        workers = []
        if setting.executors:
            cluster = stack.enter_context(Standalone(folder, setting.executors))
            workers = [worker.process.pid for worker in cluster.workers]
            spark |= on(cluster)
        else:
            spark |= {"spark.master": setting.name}
        words = ["--batch", str(setting.batch), "--state-partitions", str(setting.partitions)]
        until = min(count, setting.batch * SMALL_BATCHES)
        words += ["--until", str(until), "--spark", json.dumps(spark)]
        watches = [stack.enter_context(watched(worker, None)) for worker in workers]
        batches, watch = watched_job(
            broker.pid, "exactly-once", broker.bootstrap, "in", output, *words
        )
        return figures_of(batches, [watch, *watches], events)


def on(cluster):
    """What Spark is told of a cluster whose hosts have this Python and this source."""
    return {
        **ALL_THERE,
        "spark.master": cluster.url,
        "spark.driver.host": HOST,
        "spark.executor.memory": "1g",
        "spark.cores.max": str(cluster.count),
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1]),
    }


def figures_of(batches, watches, events):
    """After the first quarter of the records; ``watches``: the driver's, then the executors'."""
    kept = batches[first_quarter(batches) :]
    begin, end = kept[0][-1], kept[-1][-1] + kept[-1][1]
    rows = sum(rows for rows, *_ in kept)
    driver, *executors = [watch.spent(begin, end) for watch in watches]
    cpu = {
        "executors' JVM": sum(spent["jvm"] for spent in executors),
        "executors' Python": sum(spent["python"] for spent in executors),
        "driver": driver["jvm"] + driver["python"],
        "broker": driver["broker"],
    }
    tasks, busy_ms = of_tasks(events, begin, end)
    shuffled = tasks["local"] + tasks["remote"]
    return {
        "batches": len(kept),
        "records_a_batch": round(rows / len(kept)),
        "records_per_second": round(rows / (end - begin) * 1000),
        "cpu_us_a_record": {kind: round(spent / rows * 1e6, 2) for kind, spent in cpu.items()},
        "shuffle_bytes_a_record": round(shuffled / rows, 1),
        "shuffle_share_remote": round(tasks["remote"] / shuffled, 2),
        "tasks_a_batch": round(tasks["tasks"] / len(kept), 1),
        "driver_cpu_ms_a_batch": round(cpu["driver"] / len(kept) * 1000),
        "ms_a_batch": round((end - begin) / len(kept)),
        "ms_a_batch_without_tasks": round((end - begin - busy_ms) / len(kept)),
    }


def of_tasks(events, begin, end):
    """Sums over the tasks that ended in this time, from Spark's event log; ms in which any ran."""
    sums = {"tasks": 0, "local": 0, "remote": 0}
    spans = []
    for path in events.rglob("*"):
        for line in path.read_text().splitlines() if path.is_file() else ():
            event = json.loads(line) if line.startswith('{"Event":"SparkListenerTaskEnd"') else None
            if event is None or not begin <= event["Task Info"]["Finish Time"] <= end:
                continue
            read = event["Task Metrics"]["Shuffle Read Metrics"]
            sums["tasks"] += 1
            sums["local"] += read["Local Bytes Read"]
            sums["remote"] += read["Remote Bytes Read"]
            spans.append((event["Task Info"]["Launch Time"], event["Task Info"]["Finish Time"]))
    busy, reached = 0.0, begin
    for launched, finished in np.sort(np.array(spans), axis=0):
        busy += max(0, finished - max(reached, launched))
        reached = max(reached, finished)
    return sums, float(busy)


def table(figures):
    """As Markdown."""
    yield (
        "| setting | records/s | CPU a record, µs: executors' JVM + Python, driver, broker | "
        "shuffle, bytes a record (to another executor) | tasks a batch | driver, CPU ms a batch | "
        "ms a batch (no task running) |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name, one in figures.items():
        if name != "machine":
            jvm, python, driver, broker = one["cpu_us_a_record"].values()
            yield (
                f"| {name} | {one['records_per_second']:,} | {jvm} + {python}, {driver}, {broker} "
                f"| {one['shuffle_bytes_a_record']} ({one['shuffle_share_remote']:.0%}) "
                f"| {one['tasks_a_batch']} | {one['driver_cpu_ms_a_batch']} "
                f"| {one['ms_a_batch']} ({one['ms_a_batch_without_tasks']}) |"
            )


if __name__ == "__main__":
    main()

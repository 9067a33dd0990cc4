"""Channels that wait, among 1,000,000: what their list costs, how soon it is seen, all released.

A service takes a record of each channel, and one more of one in a hundred, which waits for a label;
then one more of a quarter of the others. Told are: its CPU for a record in this second round; how
long `sequencer status --blocked` takes as a process while the service runs; what the list of who
waits costs (an operator's shard with and without it, batch by batch in turn, and the driver's
part), as a share of that CPU. Then `sequencer skip --blocked 1s` releases all of them at once: that
each gap is announced, and each channel delivered, is read from the topics. Exit status 1 where not.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer
from harness import create, warm_broker
from process_tree import watched
from service import COMMAND, running, wait_until

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.arrow.ipc import to_body
from streaming.arrow.totals import Totals
from streaming.config import load_config
from streaming.disciplines.channels import core
from streaming.disciplines.channels.codec import decode_shard, encode_shard
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.channels.records import arrival_schema, record_schema
from streaming.replay.recorded import Recorded
from streaming.service.checkpoint import Checkpoint

BLOCKED_OF = 100
SHARDS = 16
BATCH = 200_000
TURNS = 60
LIMIT_SECONDS = 900
NAMES = ("out", "rejects", "events", "commands")


def config_file(folder, bootstrap):
    create(bootstrap, "p.in", *(f"p.{name}" for name in NAMES))
    path = folder / "service.toml"
    path.write_text(
        f'[service]\nname = "bench"\ncheckpoint = "{folder}/checkpoints"\nshards = {SHARDS}\n'
        f'[kafka]\nbootstrap_servers = "{bootstrap}"\n[spark]\n"spark.master" = "local[2]"\n'
        '[pipelines.p]\ndiscipline = "channel"\n'
    )
    return path


def send(bootstrap, channels, label, which):
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "lz4"}
    )
    headers, count = [("label", b"%d" % label)], 0
    for channel in range(channels):
        if which(channel):
            count += 1
            while len(producer) > 90_000:
                producer.poll(0.01)
            producer.produce("p.in", bytes(100), b"c%d" % channel, headers=headers)
    assert producer.flush(300) == 0
    return count


def blocks(channel):
    return channel % BLOCKED_OF == 0


def goes_on(channel):
    """Which channels get more in the second round; none of those that wait."""
    return channel % 4 == 1


def figures(config, *words):
    """What `sequencer status --json` says; the command's seconds, on the clock and of a core."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [*COMMAND, "status", str(config), "--json", *words]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(answer.stdout)["pipelines"]["p"], time.monotonic() - began, spent


def list_cost(channels):
    """Microseconds of a core for a record: an operator's step with the list of who waits and
    without, what of it the list took by itself, and what the driver does with the list.
    """
    per_shard, rows = channels // SHARDS, BATCH // SHARDS
    waiting = per_shard // BLOCKED_OF
    plan = ChannelPlan(
        service="s",
        pipeline="p",
        inputs=("p.in",),
        rules=Rules(LinearLabels()),
        partitions=dict.fromkeys(("p.out", "p.rejects", "p.events"), 4),
        **{role: f"p.{role.replace('output', 'out')}" for role in ("output", *NAMES[1:])},
    )
    shard = decode_shard(None, record_schema(plan))
    label = np.zeros(per_shard, dtype=np.int64)
    everyone = np.arange(per_shard)
    shard, _ = core.step_shard(shard, [pack(plan, everyone, label)], 1_000, plan)
    label[:waiting] = 2  # these wait for 1
    label[waiting:] = 1
    spent = {True: [], False: []}
    usual, at, text, in_list = core.waiting_report, waiting, "", []

    def timed(before, after):
        began = time.process_time()
        told = usual(before, after)
        in_list.append(time.process_time() - began)
        return told

    for turn in range(TURNS):
        on = turn % 2 == 0
        some = waiting + (at - waiting + np.arange(rows - 5)) % (per_shard - waiting)
        some = np.concatenate([np.arange(5) + 5 * turn % (waiting - 5), some])  # the list changes
        packed = pack(plan, some, label[some])
        label[some] += 1
        at = int(some[-1]) + 1
        core.waiting_report = timed if on else lambda _before, _after: None
        began = time.process_time()
        shard, _ = core.step_shard(shard, [packed], 2_000 + turn, plan)
        encode_shard(shard)
        spent[on].append(time.process_time() - began)
        text = shard.totals.waiting or text
    core.waiting_report = usual
    turns = (spent[True], spent[False], in_list)
    with_list, without, itself = (statistics.median(each) / rows * 1e6 for each in turns)
    line = Totals(waiting=text).to_json()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Checkpoint(folder, "p")
        began = time.process_time()
        for _ in range(10):
            told = {number: Totals.from_json(line).waiting for number in range(SHARDS)}
            checkpoint.write_waiting(told)
        driver = (time.process_time() - began) / 10 / BATCH * 1e6
    return with_list, without, itself, driver


def pack(plan, channels, labels):
    schema = arrival_schema(plan)
    count = len(channels)
    columns = {
        "topic": np.zeros(count, np.int32),
        "partition": np.zeros(count, np.int32),
        "offset": np.arange(count),
        "timestamp": np.zeros(count, np.int64),
        "key": pa.array([b"c%d" % each for each in channels.tolist()], pa.binary()),
        "value": pa.array([bytes(100)] * count, pa.binary()),
        "headers": pa.nulls(count, schema.field("headers").type),
        "label": pa.array([b"%d" % each for each in labels.tolist()], pa.binary()),
        "epoch": pa.nulls(count, pa.binary()),
        "fin": np.zeros(count, np.bool_),
    }
    (batch,) = pa.table(columns, schema=schema).combine_chunks().to_batches()
    return to_body(batch)


def judge(config, channels):
    """Faults in what the topics say after all were released."""
    settings = load_config(config)
    events = [json.loads(row["value"]) for _, row in Recorded(settings, ("p.events",))]
    gaps = sorted((e["channel"], e["from"], e["to"]) for e in events if e["event"] == "gap")
    wanted = sorted((f"c{each}", 1, 2) for each in range(0, channels, BLOCKED_OF))
    delivered = sum(1 for _ in Recorded(settings, ("p.out",)))
    faults = [] if gaps == wanted else [f"{len(gaps)} gaps announced, {len(wanted)} there were"]
    due = channels + len(wanted) + len(range(1, channels, 4))
    return faults + ([] if delivered == due else [f"{delivered} delivered, {due} were due"])


def run(channels, folder, broker):
    config = config_file(folder, broker.bootstrap)
    waiting = channels // BLOCKED_OF
    sent = send(broker.bootstrap, channels, 0, lambda _: True)
    sent += send(broker.bootstrap, channels, 2, blocks)
    with running(config, folder / "log") as service:
        with watched(service.pid, None) as watch:
            wait_until(config, sent, LIMIT_SECONDS)
            began = time.time() * 1000
            second = send(broker.bootstrap, channels, 1, goes_on)
            wait_until(config, sent + second, LIMIT_SECONDS)
            time.sleep(2)  # the watch looks once a second
            spent = watch.spent(began, time.time() * 1000)
        record_us = (spent["jvm"] + spent["python"]) / second * 1e6
        times = [figures(config, "--blocked") for _ in range(5)]
        assert all(len(each["waiting"]) == waiting for each, _, _ in times)
        print(
            f"{channels:,} channels, {waiting:,} of them wait; {record_us:.1f} us of CPU a record"
        )
        told = ", ".join(f"{seconds:.2f} ({core:.2f})" for _, seconds, core in times)
        print(f"status --blocked --json while the service runs: {told} s (of a core)")
        with_list, without, itself, driver = list_cost(channels)
        cost = max(with_list - without, itself) + driver
        print(
            f"a shard's step {with_list:.3f} us a record with the list, {without:.3f} without; "
            f"the list itself {itself:.3f}, the driver's part {driver:.3f}: at most "
            f"{cost / record_us:.2%} of the service's CPU"
        )
        began = time.monotonic()
        options = ("--blocked", "1s", "--why", "bench", "--timeout", "300")
        skip = [*COMMAND, "skip", str(config), *options]
        answer = subprocess.run(skip, check=True, capture_output=True, text=True).stdout.strip()
        print(f"skip --blocked 1s: {answer}, {time.monotonic() - began:.1f} s")
        wait_until(config, sent + second, LIMIT_SECONDS)
    return judge(config, channels)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--channels", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, warm_broker() as broker:
        faults = run(options.channels, Path(folder), broker)
    print("; ".join(faults) or "every gap is announced once, everything is delivered")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

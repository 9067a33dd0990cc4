"""Groups beside a Spark copy that writes the same records, for more and more groups.

Subscribers and Zipf sizes of groups as in "Decentralized Message Ordering for Publish/Subscribe
Systems", section 4.1. Rates are of the second half of a job's batches, in records written; ratios
are to the copy of the same run; latency is beside that of a channel pipeline in the same run.

    python bench/groups.py                    # 8, 16, 32 and 64 groups
    python bench/groups.py --groups 1024 --subscribers 100000 --sequencing batch --no-stamps
    python bench/groups.py --groups 32 --records 500000 --no-latency
"""

import json
import statistics
import time
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from confluent_kafka import Consumer, TopicPartition
from harness import (
    KINDS,
    ROLES,
    SENDERS,
    channel_latency,
    create,
    fill_by_senders,
    measured,
    options,
    say,
    summary,
    warm,
    warm_broker,
    watched_job,
)

from sequencer.groups.network.routes import Directory
from sequencer.simulation.workload import names, zipf_groups
from streaming.disciplines.groups.network.route import ingress, subscriber_shard
from streaming.disciplines.groups.plan import NetworkPlan

SUBSCRIBERS = 128
WARM_UP_SECONDS = 50
VECTOR_BYTES = 8 * SUBSCRIBERS


@dataclass
class Row:
    groups: int
    fan_out: float
    hops: list
    stamps: float = 0.0
    rates: dict = None
    latencies: dict = None


def main():
    parser = options(__doc__, rate=3_000, seconds=20)
    parser.add_argument("--groups", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--records", type=int, default=2_000_000, help="written by each job")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--subscribers", type=int, default=SUBSCRIBERS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS[1:], default=KINDS[1:])
    parser.add_argument("--sequencing", nargs="+", default=["batch", "network"])
    parser.add_argument("--no-stamps", dest="stamps", action="store_false")
    given = parser.parse_args()
    rows, channel = [], None
    with warm_broker() as broker:
        bootstrap = broker.bootstrap
        if not given.no_latency:
            channel = channel_latency(bootstrap, given, WARM_UP_SECONDS)
        for count in given.groups:
            groups = membership(count, given.subscribers)
            fan_out = statistics.mean(map(len, groups.values()))
            trips = hops(groups, given.nodes) if "network" in given.sequencing else [0]
            row = Row(count, fan_out, trips, rates={}, latencies={})
            topic = f"in-{count}"
            messages = round(given.records / fan_out)
            fill_by_senders(bootstrap, topic, (to_group(each) for each in drawn(groups, messages)))
            for kind in (KINDS[0], *product(given.kinds, given.sequencing)):
                row.rates[kind] = throughput(broker, topic, kind, groups, given, messages)
            if given.stamps:
                row.stamps = stamps_bytes(bootstrap, f"{topic}-exactly-once-{given.sequencing[0]}")
            if not given.no_latency:
                for kind in product(["exactly-once"], given.sequencing):
                    row.latencies[kind] = latency(bootstrap, kind, groups, given, count)
            rows.append(row)
    table(rows, channel)


def membership(count, subscribers=SUBSCRIBERS):
    groups = zipf_groups(np.random.default_rng(1), names("s", subscribers), count)
    return {name: sorted(members) for name, members in groups.items()}


def drawn(groups, count):
    """The names of groups, as often as messages are to be sent to them."""
    known = list(groups)
    chosen = np.random.default_rng(2).integers(len(known), size=count).tolist()
    return [known[at] for at in chosen]


def to_group(name):
    return [("group", name.encode())]


def throughput(broker, topic, kind, groups, given, messages):
    bootstrap = broker.bootstrap
    output = f"{topic}-{told(kind)}"
    create(bootstrap, *(f"{output}{role}" for role in ROLES))
    job_kind, *words = command(kind, groups, given)
    ran = watched_job(
        *(broker.pid, job_kind, bootstrap, topic, output, *words),
        *("--batch", str(max(1000, messages // 12)), "--until", str(int(given.records * 0.9))),
    )
    rate, cpu = warm(*ran)
    say(f"{topic} {told(kind)}: {rate:,.0f} records/s warm, {cpu:.1f} µs of a core for each")
    return rate, cpu


def told(kind):
    """A job's name: the copy, or its delivery and sequencing."""
    return kind if isinstance(kind, str) else "-".join(kind)


def command(kind, groups, given):
    """The kind and the options of a job."""
    words = ["--groups", json.dumps(groups)]
    if isinstance(kind, str):
        return [kind, *words]
    delivery, sequencing = kind
    words += ["--sequencing", sequencing, "--nodes", str(given.nodes)]
    return [delivery, *words, *([] if given.stamps else ["--no-stamps"])]


def latency(bootstrap, kind, groups, given, count):
    known, rng = list(groups), np.random.default_rng(3)

    def record(number):
        return b"p%03d" % (number % SENDERS), to_group(known[rng.integers(len(known))])

    words = command(kind, groups, given)
    per_second = given.rate / statistics.mean(map(len, groups.values()))
    found = measured(bootstrap, words, record, per_second, WARM_UP_SECONDS, given.seconds)
    p50, p99, batch = summary(*found)
    say(f"latency {count} {told(kind)}: p50 {p50:.0f}, p99 {p99:.0f} ms; a batch {batch:.0f} ms")
    return p50, p99, batch


def hops(groups, nodes):
    """Trips through the transit topic for each pair of a group and a subscriber of it."""
    roles = dict.fromkeys(("output", "rejects", "events", "commands", "transit"), "")
    plan = NetworkPlan(
        service="", pipeline="", inputs=(), partitions={}, shards=2, groups=groups, nodes=nodes,
        **roles,
    )  # fmt: skip
    directory = Directory(nodes, lambda node: node % plan.shards, remember_ms=0)
    directory.begin(groups)
    found = []
    for view in directory.views.values():
        for name, runs in view.paths.items():
            first = runs[0].shard if runs else ingress(name, plan)
            stops = [first, *(run.shard for run in runs)]
            inside = sum(a != b for a, b in pairwise(stops))
            found += [inside + (subscriber_shard(each, plan) != stops[-1]) for each in groups[name]]
    return found


def stamps_bytes(bootstrap, topic, count=20_000):
    """Mean size of the header `stamps` among some deliveries, none counting as 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "stamps"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
    sizes = []
    deadline = time.monotonic() + 60
    while len(sizes) < count and time.monotonic() < deadline:
        some = [each for each in consumer.consume(1000, 1.0) if not each.error()]
        sizes += [len(dict(each.headers()).get("stamps", b"")) for each in some]
    consumer.close()
    return statistics.mean(sizes)


def table(rows, channel):
    print(
        "\n| groups | records/message | job | of the copy | records/s | CPU, µs a record "
        "| hops, median and most | stamps, bytes | vector, bytes |\n" + "|---" * 9 + "|"
    )
    for row in rows:
        for kind, (rate, cpu) in row.rates.items():
            trips = f"{statistics.median(row.hops):.0f}, {max(row.hops)}"
            ratio = rate / row.rates["copy"][0]
            print(
                f"| {row.groups} | {row.fan_out:.1f} | {told(kind)} | {ratio:.2f} | {rate:,.0f} "
                f"| {cpu:.1f} | {trips if 'network' in kind else ''} | {row.stamps:.0f} "
                f"| {VECTOR_BYTES} |"
            )
    if rows and rows[0].latencies:
        print(
            "\n| groups | job | p50 ms | p99 ms | p50 / channel | ms a batch |"
            "\n|---|---|---|---|---|---|"
        )
        print(f"| | channel | {channel[0]:.0f} | {channel[1]:.0f} | 1.0 | {channel[2]:.0f} |")
        for row in rows:
            for kind, (p50, p99, batch) in row.latencies.items():
                print(
                    f"| {row.groups} | {told(kind)} | {p50:.0f} | {p99:.0f} "
                    f"| {p50 / channel[0]:.1f} | {batch:.0f} |"
                )


if __name__ == "__main__":
    main()

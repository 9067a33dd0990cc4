"""Multicast beside a Spark copy that writes the same records, and beside groups.

First the membership of `bench/groups.py`: every message goes to all members of a group, named one
by one. Then more and more destinations among 1,000 peers, and at last latency, in ms and in
micro-batches. Rates are of the second half of a job's batches, in records written.

    python bench/multicast.py
    python bench/multicast.py --records 200000 --no-latency
"""

import argparse
import json
import statistics
import time
from functools import partial

import numpy as np
from confluent_kafka import Producer
from groups import ROLES, SENDERS, SUBSCRIBERS, WARM_UP_SECONDS

from bench import begin_transactions, create, job, measured, produce_all, say, warm_rate
from sequencer.simulation.workload import names, zipf_groups
from streaming.embedded import EmbeddedBroker

GROUPS = 32
PEERS = 1_000
ORDERS = ("clock", "counter")
DELIVERY = "exactly-once"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000, help="written by each job")
    parser.add_argument("--destinations", type=int, nargs="+", default=[1, 4, 16, 50])
    parser.add_argument("--no-latency", action="store_true")
    parser.add_argument("--rate", type=int, default=1_000, help="records/s written, for latency")
    parser.add_argument("--seconds", type=float, default=20, help="measured, for latency")
    given = parser.parse_args()
    with EmbeddedBroker() as broker:
        begin_transactions(broker.bootstrap)
        rates = {"groups": on_groups(broker.bootstrap, given)}
        for count in given.destinations:
            rates[count] = on_peers(broker.bootstrap, given, count)
        found = {}
        if not given.no_latency:
            for order in ("copy", *ORDERS):
                found[order] = latency(broker.bootstrap, order, given)
    table(rates)
    if found:
        table_latency(found)


def on_groups(bootstrap, given):
    """Rates of a copy, of `group` and of both orders, with the same receivers."""
    groups = zipf_groups(np.random.default_rng(1), names("s", SUBSCRIBERS), GROUPS)
    groups = {name: sorted(members) for name, members in groups.items()}
    fan_out = statistics.mean(map(len, groups.values()))
    topic, count = "in-groups", round(given.records / fan_out)
    known, rng = list(groups), np.random.default_rng(2)
    chosen = rng.integers(len(known), size=count).tolist()
    fill(bootstrap, topic, ([("group", known[at].encode())] for at in chosen))
    everyone = {name: ",".join(members).encode() for name, members in groups.items()}
    fill(bootstrap, "to-groups", ([("to", everyone[known[at]])] for at in chosen))
    more = ["--groups", json.dumps(groups)]
    return {
        "copy": run(bootstrap, "copy", "to-groups", given, count, ["--order", "clock"]),
        "group": run(bootstrap, DELIVERY, topic, given, count, more),
        **{
            order: run(bootstrap, DELIVERY, "to-groups", given, count, ["--order", order])
            for order in ORDERS
        },
    }


def on_peers(bootstrap, given, destinations):
    """Rates with so many destinations for each message, drawn from all peers."""
    topic, count = f"in-{destinations}", round(given.records / destinations)
    fill(bootstrap, topic, (receivers(rng, destinations) for rng in repeat(count)))
    return {
        name: run(bootstrap, kind, topic, given, count, ["--order", order])
        for name, kind, order in (
            ("copy", "copy", "clock"),
            *((order, DELIVERY, order) for order in ORDERS),
        )
    }


def repeat(count):
    rng = np.random.default_rng(3)
    return (rng for _ in range(count))


def receivers(rng, destinations):
    to = rng.choice(PEERS, destinations, replace=False).tolist()
    return [("to", b",".join(b"p%03d" % each for each in to))]


def fill(bootstrap, topic, headers):
    """One message of 100 bytes for each list of headers."""
    create(bootstrap, topic)
    value = bytes(100)
    rows = ((topic, value, b"p%03d" % (n % SENDERS), each) for n, each in enumerate(headers))
    produce_all(bootstrap, rows)


def run(bootstrap, kind, topic, given, messages, more):
    output = f"{topic}-{kind}-{more[-1] if more[0] == '--order' else 'group'}"
    create(bootstrap, *(f"{output}{role}" for role in ROLES))
    limits = ["--batch", str(max(200, messages // 6)), "--until", str(int(given.records * 0.9))]
    rate = warm_rate(job(kind, bootstrap, topic, output, *limits, *more))
    say(f"{output}: {rate:,.0f} records/s warm")
    return rate


def latency(bootstrap, order, given):
    """p50 and p99 in ms, then in batches that began meanwhile; ms of a batch in the median."""
    topic, output = f"lat-{order}", f"lat-{order}-out"
    create(bootstrap, topic, *(f"{output}{role}" for role in ROLES))
    kind, meant = ("copy", "clock") if order == "copy" else (DELIVERY, order)
    command = [kind, bootstrap, topic, output, "--order", meant]
    sender = partial(send, bootstrap, topic, given.rate)
    found, spent = measured(command, sender, WARM_UP_SECONDS, given.seconds)
    began = np.array([start for *_, start in spent])
    found = found[found[:, 0] > began[0]]
    batches = np.searchsorted(began, found[:, 1]) - np.searchsorted(began, found[:, 0])
    ms = np.percentile(found[:, 1] - found[:, 0], [50, 99])
    batch = statistics.median(ms for _, ms, *_ in spent)
    say(f"latency {order}: {ms}, {len(found):,} records; a batch {batch:.0f} ms")
    return (*ms, *np.percentile(batches, [50, 99]), batch)


def send(bootstrap, topic, rate, stop, destinations=8):
    """So many records a second once they are delivered, from random senders."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    rng = np.random.default_rng(4)
    sent, began = 0, time.monotonic()
    while not stop.is_set():
        due = int((time.monotonic() - began) * rate / destinations)
        while sent < due:
            value = b"%019d" % time.time_ns() + bytes(81)
            key = b"p%03d" % rng.integers(PEERS)
            producer.produce(topic, value, key, headers=receivers(rng, destinations))
            sent += 1
        producer.poll(0)
        time.sleep(0.005)
    producer.flush(30)


def table(rates):
    print("\n| destinations | copy, records/s | clock of it | counter of it | `group` of it |")
    print("|---|---|---|---|---|")
    for name, each in rates.items():
        copy = each["copy"]
        what = "as 32 groups" if name == "groups" else name
        group = f"{each['group'] / copy:.2f}" if "group" in each else ""
        ratios = " | ".join(f"{each[order] / copy:.3f}" for order in ORDERS)
        print(f"| {what} | {copy:,.0f} | {ratios} | {group} |")


def table_latency(found):
    print("\n| job | p50 ms | p99 ms | p50 batches | p99 batches | ms a batch |")
    print("|---|---|---|---|---|---|")
    for name, (p50, p99, b50, b99, batch) in found.items():
        print(f"| {name} | {p50:.0f} | {p99:.0f} | {b50:.0f} | {b99:.0f} | {batch:.0f} |")


if __name__ == "__main__":
    main()

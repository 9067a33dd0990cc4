"""Multicast beside a Spark copy that writes the same records, and beside groups.

First the membership of `bench/groups.py`: every message goes to all members of a group, named one
by one. Then more and more destinations among 1,000 peers, and at last latency, in ms and in
micro-batches. Rates are in records written.

    python bench/multicast.py
    python bench/multicast.py --records 200000 --no-latency
"""

import json
import statistics

import numpy as np
from groups import WARM_UP_SECONDS, drawn, membership, to_group
from harness import (
    ROLES,
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

GROUPS = 32
PEERS = 1_000
ORDERS = ("batch", "clock", "counter")
DELIVERY = "exactly-once"
LATENCY_DESTINATIONS = 8


def main():
    parser = options(__doc__, rate=1_000, seconds=20)
    parser.add_argument("--records", type=int, default=500_000, help="written by each job")
    parser.add_argument("--destinations", type=int, nargs="+", default=[1, 8, 50])
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=ORDERS)
    given = parser.parse_args()
    with warm_broker() as broker:
        bootstrap = broker.bootstrap
        rates = {"as 32 groups": to_groups(broker, given)}
        for count in given.destinations:
            rates[str(count)] = to_peers(broker, given, count)
        table(rates)
        if not given.no_latency:
            channel = channel_latency(bootstrap, given, WARM_UP_SECONDS)
            told = {name: latency(bootstrap, name, given) for name in given.orders}
            table_latency(told, channel[0])


def to_groups(broker, given):
    """Rates of a copy, of all orders and of `group`, with the same receivers."""
    groups = membership(GROUPS)
    count = round(given.records / statistics.mean(map(len, groups.values())))
    chosen = drawn(groups, count)
    everyone = {name: ",".join(members).encode() for name, members in groups.items()}
    fill_by_senders(broker.bootstrap, "to-peers", ([("to", everyone[name])] for name in chosen))
    rates = {
        name: throughput(broker, name, "to-peers", given, count) for name in ("copy", *given.orders)
    }
    fill_by_senders(broker.bootstrap, "to-groups", map(to_group, chosen))
    rates["group"] = throughput(broker, "group", "to-groups", given, count, groups)
    return rates


def to_peers(broker, given, destinations):
    """Rates of a copy and of all orders, each message to peers drawn from all."""
    topic, count = f"to-{destinations}", round(given.records / destinations)
    rng = np.random.default_rng(3)
    fill_by_senders(broker.bootstrap, topic, (receivers(rng, destinations) for _ in range(count)))
    return {name: throughput(broker, name, topic, given, count) for name in ("copy", *given.orders)}


def receivers(rng, destinations):
    to = rng.choice(PEERS, destinations, replace=False).tolist()
    return [("to", b",".join(b"p%03d" % each for each in to))]


def throughput(broker, name, topic, given, messages, groups=None):
    bootstrap, output = broker.bootstrap, f"{topic}-{name}"
    create(bootstrap, *(f"{output}{role}" for role in ROLES))
    limits = ["--batch", str(max(200, messages // 6)), "--until", str(int(given.records * 0.9))]
    how = ["--groups", json.dumps(groups)] if groups else ["--order", order_of(name)]
    words = (kind_of(name), bootstrap, topic, output, *limits, *how)
    rate, cpu = warm(*watched_job(broker.pid, *words))
    say(f"{output}: {rate:,.0f} records/s warm, {cpu:.1f} µs of a core for each")
    return rate, cpu


def kind_of(name):
    return "copy" if name == "copy" else DELIVERY


def order_of(name):
    """The order of a job; for the copy any, to say that it is one of multicasts."""
    return "batch" if name == "copy" else name


def latency(bootstrap, name, given):
    """p50 and p99 in ms, then in batches that began meanwhile; ms of a batch in the median."""
    rng = np.random.default_rng(4)

    def record(_number):
        return b"p%03d" % rng.integers(PEERS), receivers(rng, LATENCY_DESTINATIONS)

    words = [kind_of(name), "--order", order_of(name)]
    per_second = given.rate / LATENCY_DESTINATIONS
    found, spent = measured(bootstrap, words, record, per_second, WARM_UP_SECONDS, given.seconds)
    began = np.array([start for *_, start in spent])
    found = found[found[:, 0] > began[0]]
    batches = np.searchsorted(began, found[:, 1]) - np.searchsorted(began, found[:, 0])
    p50, p99, batch = summary(found, spent)
    say(f"latency {name}: p50 {p50:.0f}, p99 {p99:.0f} ms, {len(found):,} records")
    return p50, p99, *np.percentile(batches, [50, 99]), batch


def table(rates):
    """Of the copy's rate, and CPU: of the job and the broker, for a record written."""
    print("\n| destinations | job | of the copy | records/s | CPU, µs a record |")
    print("|---|---|---|---|---|")
    for what, jobs_rates in rates.items():
        copy, _ = jobs_rates["copy"]
        for name, (rate, cpu) in jobs_rates.items():
            print(f"| {what} | {name} | {rate / copy:.2f} | {rate:,.0f} | {cpu:.1f} |")


def table_latency(found, channel):
    """`channel`: the p50 of a channel pipeline in the same run."""
    print("\n| job | p50 ms | p99 ms | p50 / channel | p50 batches | p99 batches | ms a batch |")
    print("|---|---|---|---|---|---|---|")
    for name, (p50, p99, b50, b99, batch) in found.items():
        times = f"{p50:.0f} | {p99:.0f} | {p50 / channel:.1f}"
        print(f"| {name} | {times} | {b50:.0f} | {b99:.0f} | {batch:.0f} |")


if __name__ == "__main__":
    main()

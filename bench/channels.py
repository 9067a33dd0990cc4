"""Throughput and latency of channels beside a stateless Spark copy, all in one run on one broker.

What is counted is the mean of messages read and written: with few messages to a channel most are
held in the first half and written in the second.

    python bench/channels.py                  # the whole (a quarter of an hour on two cores)
    python bench/channels.py --messages 200000 --no-latency
"""

import statistics
from functools import partial

import numpy as np
from harness import (
    KINDS,
    create,
    fill,
    job,
    measured,
    options,
    say,
    send_paced,
    summary,
    warm_broker,
    warm_rate,
)

CHANNELS = 10_000
WINDOW = 20
WARM_UP_SECONDS = 90  # the JVM's compiler is busy for some minutes at such small batches


def main():
    parser = options(__doc__, rate=5_000, seconds=30)
    parser.add_argument("--messages", type=int, default=1_000_000, help="measured; as many warm up")
    parser.add_argument("--many", type=int, default=500_000, help="channels of the second topic")
    given = parser.parse_args()
    with warm_broker() as bootstrap:
        rates = {}
        for channels in (CHANNELS, given.many):
            topic = f"in-{channels}"
            say(f"writing {2 * given.messages:,} messages of {channels:,} channels")
            fill(bootstrap, topic, disordered(2 * given.messages, channels))
            for kind in KINDS:
                rates[channels, kind] = throughput(bootstrap, topic, kind, given.messages)
        table_throughput(rates)
        if not given.no_latency:
            table_latency({kind: latency(bootstrap, kind, given) for kind in KINDS}, given)


def disordered(count, channels):
    """`count` messages, each channel's labels disordered within a window of 20."""
    rng = np.random.default_rng(1)
    rounds = count // channels
    place = np.arange(rounds)[None, :] + rng.uniform(0, WINDOW, (channels, rounds))
    labels = np.argsort(place, axis=1, kind="stable")
    for turn in range(rounds):
        for channel, label in enumerate(labels[:, turn].tolist()):
            yield b"c%07d" % channel, [("label", b"%d" % label)]


def throughput(bootstrap, topic, kind, messages):
    output = f"{topic}-{kind}"
    create(bootstrap, output, f"{output}.rejects", f"{output}.events")
    batches = job(
        kind, bootstrap, topic, output, "--batch", str(messages // 4), "--until", str(2 * messages)
    )
    rate = warm_rate([each for each in batches if each[0] > messages // 8])
    say(f"{topic} {kind}: {rate:,.0f} messages/s warm")
    return rate


def latency(bootstrap, kind, given):
    """p50 and p99 (ms) from produce to read_committed consumption, after a warm-up."""
    topic, output = f"lat-{kind}", f"lat-{kind}-out"
    create(bootstrap, topic, output, f"{output}.rejects", f"{output}.events")
    send = partial(send_paced, bootstrap, topic, in_order, given.rate)
    found, spent = measured([kind, bootstrap, topic, output], send, WARM_UP_SECONDS, given.seconds)
    for name in ("addBatch", "walCommit", "commitOffsets", "queryPlanning", "latestOffset"):
        say(f"  {kind} {name}: {statistics.median(s.get(name, 0) for _, _, s, *_ in spent):.0f} ms")
    p50, p99, _ = summary(found, spent)
    say(f"latency {kind}: p50 {p50:.0f} ms, p99 {p99:.0f} ms, {len(found):,} messages")
    return p50, p99


def in_order(number):
    """The n-th message: one channel after another, each in order."""
    label, channel = divmod(number, CHANNELS)
    return b"c%07d" % channel, [("label", b"%d" % label)]


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


if __name__ == "__main__":
    main()

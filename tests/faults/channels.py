"""Channels of shuffled messages, and what must come out of them: for tests that kill."""

import itertools
import random

from tests.kafka_helpers import Record, create_topics, read_all
from tests.service_helpers import channel_topics, write_config

KEYS = [b"k%02d" % n for n in range(20)]
READ_SECONDS_MAX = 600
"""For half a million records, on a machine that does other things besides."""


def value_of(key, n, size=0):
    """The n-th message of a channel; nothing makes so many bytes of it smaller."""
    return b"%s-%d" % (key, n) + random.Random(f"{key}{n}").randbytes(size)


def some_messages(first, count, rng, keys=KEYS, size=0):
    """Labels first … first + count - 1 of every channel, shuffled within a window, some twice."""
    placed = []
    for key, n in itertools.product(keys, range(first, first + count)):
        record = Record(key, value_of(key, n, size), [("label", b"%d" % n)])
        placed.append((n + rng.uniform(0, 8), record))
        if rng.random() < 0.02:
            placed.append((n + rng.uniform(0, 8), record))
    return [record for _, record in sorted(placed, key=lambda each: each[0])]


def judge(bootstrap, prefix, count, sent, figures, keys=KEYS, size=0):
    """Every message once, in order, sequences without a hole; every record accounted for."""
    out = read_all(bootstrap, f"{prefix}out", limit_s=READ_SECONDS_MAX)
    by_key = {key: [] for key in keys}
    for record in out:
        by_key[record.key].append(record)
    for key, records in by_key.items():
        assert [r.value for r in records] == [value_of(key, n, size) for n in range(count)], key
        assert [int(r.header("sequence")) for r in records] == list(range(count)), key
        assert len({r.header("incarnation") for r in records}) == 1, key
    rejects = read_all(bootstrap, f"{prefix}rejects", limit_s=READ_SECONDS_MAX)
    assert {r.header("reject-reason") for r in rejects} <= {b"duplicate"}
    places = [(r.header("reject-partition"), r.header("reject-offset")) for r in rejects]
    assert len(set(places)) == len(places), "each reject once"
    assert len(out) + len(rejects) == sent
    assert figures["in"] == sent
    assert figures["delivered"] == len(out)
    assert sum(figures["rejected"].values()) == len(rejects)
    assert figures["held"] == 0


def make_topics(broker, prefix):
    create_topics(broker.bootstrap, {f"{prefix}in": 3})


def prepare(broker, prefix, folder, **service):
    make_topics(broker, prefix)
    return write_config(folder, broker.bootstrap, {"p": channel_topics(prefix)}, **service)

"""Bad records of every kind among good ones: each rejected with its reason, untouched."""

import itertools
import random
import time
from collections import Counter
from functools import partial

import pytest

from streaming.resending.choice import MORE
from tests.kafka_helpers import Record, create_topics, produce, read_all, wait_for_records
from tests.service_helpers import WarmService, status, write_config

SEED = 11
SECONDS_MAX = 300
LABELS = {"kind": "linear", "start": 10, "step": 2}
HELD, WINDOW = 5, 1_000
BAD_NUMBERS = [
    *(b"", None, b"x", b"-1", b"+5", b" 7", b"7 ", b"1e3", b"0x1f", b"12.0", b"NaN"),
    *(b"9223372036854775808", b"9" * 20, b"0" * 20, b"\xff\xfe", "١٢".encode(), b"\x00", b"12\n"),
]
NOW = int(time.time() * 1000)
pytestmark = pytest.mark.timeout(900)


class Writer:
    """Makes records whose header "expect" says what must become of them."""

    def __init__(self):
        self.rng = random.Random(SEED)
        self.made = []
        self.n = itertools.count()

    def add(self, expect, key, *headers):
        """A record with a value and foreign headers of any bytes."""
        n = next(self.n)
        value = [None, b"", self.rng.randbytes(self.rng.randrange(200)), b"v%d" % n][n % 4]
        foreign = [("x", self.rng.randbytes(3)), ("x", None), ("", b"")][: n % 4]
        named = [*foreign, *headers, ("expect", expect.encode())]
        self.made.append(Record(key, value, named, timestamp=NOW + n % 1000))


def label(place):
    return ("label", b"%d" % (LABELS["start"] + LABELS["step"] * place))


def rejecting(count):
    """Every reason but "late", so many times each; good ones in between."""
    make = Writer()
    for channel in (b"known", b"old", b"ended", b"full"):
        epoch = [("epoch", b"5")] if channel == b"old" else []
        fin = [("fin", None)] if channel == b"ended" else []
        make.add("", channel, label(0), *epoch, *fin)
    for place in range(2, 2 + HELD):
        make.add("held", b"full", label(place))
    for n in range(count):
        make.add("", b"good %d" % (n % 50), label(n // 50))
        make.add("missing-channel", None, label(n))
        make.add("missing-label", b"known", ("Label", b"10"))
        wrong = [*BAD_NUMBERS, b"8", b"0", b"11", b"%d" % (2 * n + 1)][n % (len(BAD_NUMBERS) + 4)]
        make.add("bad-label", b"known", label(1), ("label", wrong))
        make.add("bad-epoch", b"known", label(1), ("epoch", BAD_NUMBERS[n % len(BAD_NUMBERS)]))
        make.add("stale-epoch", b"old", label(n), ("epoch", b"%d" % (n % 5)))
        make.add("after-fin", b"ended", label(1 + n))
        make.add("outside-window", b"known", label(1 + WINDOW + n + 1))
        make.add("duplicate", b"known", label(0))
        make.add("buffer-full", b"full", label(2 + HELD + n % (WINDOW - HELD - 2)))
    return make.made


def skipping(count):
    """With full = "skip", place 1 of every channel is given up; then it comes late."""
    make = Writer()
    for n in range(count):
        key = b"c%d" % (n // 50)
        if n % 50 == 0:
            for place in (0, *range(2, 3 + HELD)):
                make.add("", key, label(place))
        make.add("late", key, label(1))
    return make.made


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_each_is_rejected_with_its_reason_and_the_job_goes_on(
    broker, topic_prefix, tmp_path, count
):
    sent = {"refuse": rejecting(count), "skip": skipping(count)}
    topics = {
        name: {
            each: f"{topic_prefix}{name}.{each}"
            for each in ("input", "output", "rejects", "events")
        }
        for name in sent
    }
    create_topics(broker.bootstrap, {each["input"]: 3 for each in topics.values()})
    buffer = {"held": HELD, "window": WINDOW}
    common = {"labels": LABELS, "retire_after": "1 day"}
    config = write_config(
        tmp_path,
        broker.bootstrap,
        {
            "refuse": {**topics["refuse"], **common, "buffer": buffer},
            "skip": {**topics["skip"], **common, "buffer": {**buffer, "full": "skip"}},
        },
    )
    for name, records in sent.items():
        produce(broker.bootstrap, topics[name]["input"], records)
    counts = {name: Counter(expected(each) for each in sent[name]) for name in sent}
    bad = sum(n for some in counts.values() for why, n in some.items() if why)
    assert bad >= 10 * count
    with WarmService(config) as service:
        for name, records in sent.items():
            wanted = sum(n for why, n in counts[name].items() if why not in ("", "held"))
            service.until(partial(has_read, config, name, len(records)))
            judge_rejects(broker.bootstrap, topics[name], wanted)
            assert len(read_all(broker.bootstrap, topics[name]["output"])) == counts[name][""]
            figures = status(config)[name]
            assert figures["rejected"] == {
                why: n for why, n in counts[name].items() if why not in ("", "held")
            }
            assert (figures["in"], figures["held"]) == (len(records), counts[name]["held"])
        more = [Record(b"later", b"%d" % n, [label(n)]) for n in (2, 0, 1)]
        produce(broker.bootstrap, topics["refuse"]["input"], more)
        good = counts["refuse"][""] + 3
        out = wait_for_records(broker.bootstrap, topics["refuse"]["output"], good)
        assert [each.value for each in out if each.key == b"later"] == [b"0", b"1", b"2"]
        assert service.stop() == 0, service.said()


def has_read(config, name, count):
    """Whether the batch is done that has the last of so many records."""
    return status(config)[name]["in"] == count


def expected(record):
    return record.header("expect").decode()


def judge_rejects(bootstrap, topics, wanted):
    """Every reject is its input record, byte for byte, with the reason that was expected."""
    rejects = wait_for_records(bootstrap, topics["rejects"], wanted, limit_s=SECONDS_MAX)
    assert len(rejects) == wanted
    given = {(each.partition, each.offset): each for each in read_all(bootstrap, topics["input"])}
    for reject in rejects:
        headers = [each for each in reject.headers if each[0] not in MORE]
        *own, why, topic, partition, offset = headers
        source = given.pop((int(partition[1]), int(offset[1])))
        assert (why[0], why[1].decode()) == ("reject-reason", expected(source))
        assert topic == ("reject-topic", topics["input"].encode())
        assert (reject.key, reject.value, own) == (source.key, source.value, source.headers)
        assert reject.timestamp == source.timestamp
    assert {expected(each) for each in given.values()} <= {"", "held"}

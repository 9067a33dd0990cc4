"""Live topics read by the service's reader, kafka-python's consumer and librdkafka's alike."""

import time
import uuid
from contextlib import ExitStack, closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streaming.wire.compression import COMPRESSIONS
from tests.kafka_helpers import Record, make_topic
from tests.originals.comparing import all_alike, contents, write
from tests.originals.readers import Readers, give_codecs
from tests.originals.writers import LIBRDKAFKA, OURS, writers
from tests.seeds import examples

PARTITIONS = 2
OF_VARINTS = [b"x" * size for size in (63, 64, 8_191, 8_192)]
"""A size on either side of where its number takes another byte."""

maybe_bytes = st.none() | st.just(b"") | st.binary(max_size=30) | st.sampled_from(OF_VARINTS)
names = st.text(max_size=8).filter(lambda name: "\0" not in name) | st.sampled_from(["h", "é" * 40])
headers = st.lists(st.tuples(names, maybe_bytes), max_size=5)
record = st.builds(
    Record,
    key=maybe_bytes,
    value=maybe_bytes,
    headers=headers | st.lists(st.tuples(st.just("same"), maybe_bytes), min_size=40, max_size=70),
    partition=st.integers(0, PARTITIONS - 1),
    timestamp=st.integers(1, 2**42),
)
WRITERS = 2 * len(COMPRESSIONS) + len(LIBRDKAFKA) + len(OURS)
turn = st.tuples(
    st.integers(0, WRITERS - 1),
    st.lists(record, min_size=1, max_size=12),
    st.sampled_from(["committed", "aborted", "goes on"]),
)
parts = st.tuples(st.floats(0, 1), st.floats(0, 1))
"""Where reading begins, and how much of what is behind it is read."""


@pytest.fixture(scope="module")
def world(broker):
    """Readers and writers, and a topic for each kind of timestamp."""
    topics = {}
    for kind in ("CreateTime", "LogAppendTime"):
        topics[kind] = f"originals-{uuid.uuid4().hex[:8]}"
        make_topic(
            *(broker.bootstrap, topics[kind], PARTITIONS),
            message_timestamp_type=kind,
            message_timestamp_after_max_ms=2**63 - 1,
        )
    with ExitStack() as stack:
        give_codecs(stack.enter_context(pytest.MonkeyPatch.context()))
        readers = stack.enter_context(Readers(broker.bootstrap))
        made = [stack.enter_context(closing(each)) for each in writers(broker.bootstrap)]
        yield readers, made, topics


def ends_behind(readers, topic, before, committed):
    """The ends of a topic when readers may see all of this: a commit is answered earlier."""
    deadline = time.monotonic() + 30
    while True:
        after = readers.ends(topic)
        found = readers.by_ours(topic, {at: (before[at], after[at]) for at in before})
        if len(found) >= len(committed) or time.monotonic() > deadline:
            return after
        time.sleep(0.02)


def check(world, kind, turns, part):
    readers, made, topics = world
    topic = topics[kind]
    before = readers.ends(topic)
    committed = write(made, topic, turns)
    after = ends_behind(readers, topic, before, committed)
    found = all_alike(readers, topic, {at: (before[at], after[at]) for at in before})
    assert contents(found) == contents(committed)
    if kind == "CreateTime":
        assert sorted(each.timestamp for each in found) == sorted(r.timestamp for r in committed)
    else:
        assert all(each.kind == 1 for each in found)
    first = before[0] + int(part[0] * (after[0] - before[0]))
    stop = first + int(part[1] * (after[0] - first))
    within = [each for each in found if each.partition == 0 and first <= each.offset < stop]
    assert readers.by_ours(topic, {0: (first, stop)}) == within


SAME = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
@settings(max_examples=examples(8), **SAME)
@given(turns=st.lists(turn, min_size=1, max_size=12), part=parts)
def test_the_same_records(world, kind, turns, part):
    check(world, kind, turns, part)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
@settings(max_examples=examples(300), **SAME)
@given(turns=st.lists(turn, min_size=1, max_size=30), part=parts)
def test_the_same_records_at_length(world, kind, turns, part):
    check(world, kind, turns, part)

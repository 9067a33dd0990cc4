"""Logs of a broker's own: old formats, compaction, sizes at their limit, and Kafka's own tool."""

import random
import time
import uuid
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from streaming.kafka.embedded import EmbeddedBroker
from streaming.sink.refusals import RecordsRefused
from streaming.wire.compression import COMPRESSIONS
from streaming.wire.record_batch import RecordBatch
from tests.kafka_helpers import Record, make_topic
from tests.originals.comparing import all_alike, contents
from tests.originals.readers import Readers, give_codecs
from tests.originals.segments import OLD_CODECS, dumped, message_set, put_in_front, segment
from tests.originals.writers import ByLibrdkafka, ByOurs, batches_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SECONDS_MAX = 120
CLEANING = {"log.cleaner.backoff.ms": "200", "log.retention.ms": "-1"}
HEAD_BYTES = 16
"""Base offset, length and leader epoch: what a broker writes itself. A checksum covers the rest."""


@pytest.fixture(scope="module")
def world():
    with ExitStack() as stack:
        give_codecs(stack.enter_context(pytest.MonkeyPatch.context()))
        broker = stack.enter_context(EmbeddedBroker(properties=CLEANING))
        yield broker


def some(count, rng):
    """Records of all kinds that every format has: keys and values that are null, empty, long."""
    kinds = [None, b"", b"k", b"x" * 63, b"x" * 64, b"x" * 8_192, bytes(range(256))]
    return [
        Record(rng.choice(kinds), rng.choice(kinds), [], 0, 1_000 + rng.randrange(10**9))
        for _ in range(count)
    ]


def whole(readers, topic):
    """All that the three find in a topic with one partition."""
    return all_alike(readers, topic, {0: (0, readers.ends(topic)[0])})


def test_old_formats_in_a_log(world):
    """Formats 0 and 1 in every codec, then format 2 behind them, in one partition."""
    topic, rng, data, written = f"old-{uuid.uuid4().hex[:8]}", random.Random(1), b"", []
    make_topic(world.bootstrap, topic)
    for magic in (0, 1):
        for codec in OLD_CODECS:
            for appended_ms in (-1, 5_000) if magic and codec != "none" else (-1,):
                if magic == 0 and codec == "lz4":
                    continue
                records = some(rng.randrange(1, 6), rng)
                data += message_set(magic, codec, len(written), records, appended_ms)
                written += [replace(each, timestamp=-1) if not magic else each for each in records]
                if appended_ms >= 0:
                    at = len(written) - len(records)
                    written[at:] = [replace(each, timestamp=appended_ms) for each in records]
    put_in_front(world, topic, data)
    for make in (ByOurs, ByLibrdkafka):
        with closing(make(world.bootstrap, "zstd")) as writer:
            records = some(5, rng)
            writer.send(topic, records)
            writer.end(committed=True)
            written += records
    with Readers(world.bootstrap) as readers:
        found = whole(readers, topic)
        assert [(each.key, each.value, each.timestamp) for each in found] == [
            (each.key, each.value, each.timestamp) for each in written
        ]
        for first in range(len(written)):  # also from the middle of a compressed message
            stop = min(first + 2, len(written))
            assert readers.by_ours(topic, {0: (first, stop)}) == found[first:stop]


def test_a_compacted_log(world):
    """With transactions of both fates; batches lack records, and some have none any more."""
    topic, rng = f"compacted-{uuid.uuid4().hex[:8]}", random.Random(2)
    make_topic(
        *(world.bootstrap, topic),
        **{"cleanup.policy": "compact", "segment.ms": 500, "max.compaction.lag.ms": 1},
        min_cleanable_dirty_ratio=0.001,
        delete_retention_ms=0,
    )
    with ExitStack() as stack:
        name = uuid.uuid4().hex
        made = [
            stack.enter_context(closing(make(world.bootstrap, "lz4", f"{name}-{make.__name__}")))
            for make in (ByOurs, ByLibrdkafka)
        ]
        readers = stack.enter_context(Readers(world.bootstrap))
        committed = []
        for turn in range(12):
            keys = [b"k%d" % rng.randrange(6) for _ in range(10)]
            records = [Record(key, b"%d" % turn, [], 0, 1_000 + turn) for key in keys]
            made[turn % 2].send(topic, records)
            is_committed = rng.random() < 0.7
            made[turn % 2].end(committed=is_committed)
            committed += records if is_committed else []
        deadline = time.monotonic() + SECONDS_MAX
        last = {}
        while len(found := settled(readers, topic)) > len(committed) // 2:
            assert time.monotonic() < deadline, "nothing was compacted"
            last = {b"last": b""}
            made[0].send(topic, [Record(b"last", b"", [], 0, 2_000)])  # rolls the segment
            made[0].end(committed=True)
            time.sleep(1)
    newest = {each.key: each.value for each in committed}
    assert {**newest, **last} == {each.key: each.value for each in found}
    assert {(e.key, e.value) for e in found} <= {(e.key, e.value) for e in committed} | {
        (b"last", b"")
    }


def settled(readers, topic):
    """All that the three find, once nothing was compacted while they read."""
    while True:
        ranges = {0: (0, readers.ends(topic)[0])}
        before = readers.by_ours(topic, ranges)
        others = readers.by_librdkafka(topic, ranges), readers.by_python(topic, ranges)
        if before == readers.by_ours(topic, ranges):
            assert (before, before) == others
            return before


def test_a_batch_at_the_limit_of_its_topic_and_one_byte_beyond(world):
    record = [Record(b"k", b"v" * 300_000, [], 0, 1_000)]
    (batch,) = batches_of(record)
    topics = {}
    for spare in (0, -1):
        topics[spare] = f"limit-{uuid.uuid4().hex[:8]}"
        make_topic(world.bootstrap, topics[spare], max_message_bytes=batch.size + spare)
    with closing(ByOurs(world.bootstrap, "none")) as ours, Readers(world.bootstrap) as readers:
        ours.send(topics[0], record)
        assert contents(whole(readers, topics[0])) == contents(record)
        ours.send(topics[-1], record)
        with pytest.raises(RecordsRefused) as refused:
            ours.end(committed=True)
        (only,) = refused.value.refusals
        assert only.why == "too-large"
        ours.producer.outbox.refusals.clear()


@pytest.mark.parametrize("size", [1_048_576, 15_000_000])
def test_records_of_many_megabytes(world, size):
    topic, rng = f"large-{uuid.uuid4().hex[:8]}", random.Random(size)
    make_topic(world.bootstrap, topic, max_message_bytes=2**25)
    written = []
    with Readers(world.bootstrap) as readers:
        for make in (ByOurs, ByLibrdkafka):
            with closing(make(world.bootstrap, "none")) as writer:
                records = [Record(b"k", rng.randbytes(size), [("h", b"")], 0, 1_000)]
                writer.send(topic, records)
                written += records
        assert contents(whole(readers, topic)) == contents(written)


def test_the_log_has_the_bytes_that_ours_sent(world, monkeypatch):
    """And Kafka's own tool finds each batch valid, with as many records, of these sizes."""
    topic, rng, sent, written = f"bytes-{uuid.uuid4().hex[:8]}", random.Random(3), [], []
    # One, though the markers of transactions have the time of now, and records that of 1970.
    make_topic(world.bootstrap, topic, segment_ms=2**42)
    finished = RecordBatch.finished

    def noted(self, *arguments, **more):
        sent.append(bytes(finished(self, *arguments, **more)))
        return sent[-1]

    monkeypatch.setattr(RecordBatch, "finished", noted)
    for codec in COMPRESSIONS:
        for name in ("", uuid.uuid4().hex):
            with closing(ByOurs(world.bootstrap, codec, name)) as writer:
                for _ in range(3):
                    records = some(rng.randrange(1, 20), rng)
                    headers = [("h", None), ("", b""), ("é" * 40, b"x" * 64)]
                    writer.send(topic, [replace(each, headers=headers) for each in records])
                    written += records
                writer.end(committed=True)
    with Readers(world.bootstrap) as readers:
        assert len(whole(readers, topic)) == len(written)
    world.stop()
    path = segment(world, topic)
    data, batches = path.read_bytes(), dumped(path)
    world.start()
    at, ours = 0, []
    for each in batches:
        is_marker = bool(int.from_bytes(data[at + 21 : at + 23], "big") & 0x20)
        if not is_marker:
            ours.append((data[at + HEAD_BYTES : at + each["size"]], each))
        at += each["size"]
    assert at == len(data)
    assert [body for body, _ in ours] == [each[HEAD_BYTES:] for each in sent]
    sizes = [
        (len(r.key) if r.key is not None else -1, len(r.value) if r.value is not None else -1)
        for r in written
    ]
    assert [sizes_of[1:] for _, each in ours for sizes_of in each["records"]] == sizes

"""How large what a batch may read is, on a real broker; and how many records it reads for that."""

from dataclasses import replace

import google_crc32c
import pytest
from confluent_kafka import Producer

from streaming.disciplines.source import Limits
from streaming.source import reader, sizes
from streaming.source.positions import offsets_in
from streaming.source.ranges import Range, ranges
from streaming.source.reader import Inputs, KafkaReader
from streaming.wire.bounds import LATEST
from streaming.wire.fetched import fetched
from streaming.wire.record_batch import CHECKED, HEAD
from tests.kafka_helpers import SECONDS_MAX, Record, produce, wait_for_records
from tests.streaming.source.helpers import offsets
from tests.streaming.source.readings import reading_of

SMALL, LARGE = 200, 40_000


def whole(brokers, topic):
    ends = offsets(brokers, [topic], LATEST)[topic]
    return [Range(topic, 0, at, 0, end) for at, end in ends.items()]


@pytest.fixture
def batch_of(broker, topic):
    """How many records a batch reads from some offsets on, with limits."""
    made = []

    def read(limits, start=None):
        inputs = Inputs(topics={topic: 0}, properties={"bootstrap.servers": broker.bootstrap})
        mine = KafkaReader(inputs, reading_of(topic, limits, 2))
        made.append(mine)
        begin = start or mine.first()
        return sum(map(len, ranges(*map(offsets_in, (begin, mine.latest(begin))), inputs.topics)))

    yield read
    for each in made:
        each.close()


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "zstd"])
def test_bytes_are_those_of_records_that_are_not_compressed(broker, brokers, topic, compression):
    records = [Record(b"k%d" % n, b"v" * SMALL) for n in range(5_000)]
    produce(broker.bootstrap, topic, records, **{"compression.type": compression})
    there = whole(brokers, topic)
    assert 1 <= sizes.bytes_of(brokers, there) / (len(records) * (SMALL + 12)) < 1.1
    half = [replace(each, first=each.stop // 2) for each in there]
    assert 0.45 < sizes.bytes_of(brokers, half) / (len(records) * (SMALL + 12)) < 0.6


def test_batches_that_are_larger_than_what_is_asked_for(broker, brokers, topic):
    produce(broker.bootstrap, topic, [Record(b"k%d" % n, bytes(700_000)) for n in range(9)])
    there = whole(brokers, topic)
    assert 1 <= sizes.bytes_of(brokers, there) / (9 * 700_000) < 1.1


def test_partitions_that_are_not_asked_are_as_the_others(broker, brokers, topic, monkeypatch):
    records = [Record(b"k%d" % n, b"v" * SMALL) for n in range(3_000)]
    produce(broker.bootstrap, topic, records)
    there = whole(brokers, topic)
    monkeypatch.setattr(sizes, "PLACES_MAX", 1)
    assert 1 <= sizes.bytes_of(brokers, there) / (len(records) * (SMALL + 12)) < 1.1


def test_a_batch_without_a_record_has_the_bytes_that_it_takes():
    """As compaction leaves the last batch of a producer: nothing is divided by zero."""
    left = CHECKED.pack(0, 19_999, 1, 1, 7, 0, 19_999, 0)
    data = HEAD.pack(0, HEAD.size - 12 + len(left), -1, 2, google_crc32c.value(left)) + left
    assert sizes._offset_bytes(fetched((0, 0), (0, 1), data)) == len(data) / 20_000


def test_a_batch_reads_what_its_bytes_allow(broker, topic, batch_of):
    produce(broker.bootstrap, topic, [Record(b"k%d" % n, bytes(LARGE)) for n in range(300)])
    assert batch_of(Limits(1_000, 10**9)) == 300
    assert 85 <= batch_of(Limits(1_000, 100 * LARGE)) <= 100
    assert 85 <= batch_of(Limits(0, 100 * LARGE)) <= 100
    assert 47 <= batch_of(Limits(50, 100 * LARGE)) <= 50
    assert batch_of(Limits(1_000, 1)) == 3, "each partition gives one"
    assert batch_of(Limits(1_000, 0)) == batch_of(Limits()) == 300


def test_a_batch_grows_with_the_state(broker, topic, batch_of):
    produce(broker.bootstrap, topic, [Record(b"k%d" % n, bytes(LARGE)) for n in range(300)])
    kept = [0]
    limits = Limits(60, 10**9, 150, lambda: kept[0])
    found = []
    for kept[0] in (0, 60, 100, 150, 10**6):
        found.append(batch_of(limits))
    assert found == [60, 60, 100, 150, 150]
    assert 85 <= batch_of(limits._replace(size=100 * LARGE)) <= 100, "bytes have the last word"


def test_sizes_are_looked_at_where_they_may_matter(broker, topic, batch_of, monkeypatch):
    looked = []
    monkeypatch.setattr(reader, "bytes_of", lambda *given: looked.append(given) or 1.0)
    produce(broker.bootstrap, topic, [Record(b"k%d" % n, b"v") for n in range(100)])
    assert batch_of(Limits(1_000, 200_000_000)) == 100
    assert not looked
    assert batch_of(Limits(1_000, 9_000_000)) == 100
    shares = [share for _, _, share in looked]
    assert shares == [0.0, 0.5, 1.0], "with 100,000 bytes each they might be too many"
    monkeypatch.setattr(reader, "LOOK_RECORDS", 100)
    assert batch_of(Limits(1_000, 200_000_000)) == 100
    assert len(looked) == 6


@pytest.fixture
def bytes_in(broker):
    """The bytes of values that each batch reads of a partition, one after the other, by a limit."""

    def read(topic, sizes_of_offsets, limit):
        inputs = Inputs(topics={topic: 0}, properties={"bootstrap.servers": broker.bootstrap})
        mine = KafkaReader(inputs, reading_of(topic, Limits(1_000_000, limit)))
        begin, found = mine.first(), []
        try:
            while (end := mine.latest(begin)) is not begin:
                offset, stop = (offsets_in(each)[topic]["0"] for each in (begin, end))
                found.append(sum(sizes_of_offsets[offset:stop]))
                begin = end
        finally:
            mine.close()
        return found

    return read


def one_by_one(broker, topic, sizes_of_records):
    """Write records of these sizes to partition 0, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for size in sizes_of_records:
        producer.produce(topic, key=b"k", value=bytes(size), partition=0)
        assert producer.flush(SECONDS_MAX) == 0


def test_a_large_batch_behind_a_small_one_counts(broker, topic, bytes_in):
    """It does not fit into what is asked for first, so an answer has the small one alone."""
    records = [100, 150_000] * 40
    one_by_one(broker, topic, records)
    found = bytes_in(topic, records, 1_000_000)
    assert sum(found) == sum(records)
    assert max(found) <= 1_300_000


def test_a_large_batch_behind_a_marker_counts(broker, topic, bytes_in):
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": topic}
    producer = Producer(settings)
    producer.init_transactions(SECONDS_MAX)
    for _ in range(30):
        producer.begin_transaction()
        producer.produce(topic, key=b"k", value=bytes(150_000), partition=0)
        producer.commit_transaction(SECONDS_MAX)
    wait_for_records(broker.bootstrap, topic, 30)
    records = [150_000, 0] * 30
    found = bytes_in(topic, records, 1_000_000)
    assert sum(found) == sum(records)
    assert max(found) <= 1_300_000


def test_records_that_become_larger_behind_the_first_count(broker, topic, bytes_in):
    records = [100] * 100 + [20_000] * 200
    one_by_one(broker, topic, records)
    found = bytes_in(topic, records, 1_000_000)
    assert sum(found) == sum(records)
    assert max(found) <= 1_300_000


def test_what_was_found_once_does_not_hold_for_later_records(broker, topic):
    """A limit of 1 MB: 40 of 100,000 bytes are looked at, whatever those before them took."""
    produce(broker.bootstrap, topic, [Record(b"k", b"v") for _ in range(60)])
    limits = Limits(1_000_000, 1_000_000)
    inputs = Inputs(topics={topic: 0}, properties={"bootstrap.servers": broker.bootstrap})
    mine = KafkaReader(inputs, reading_of(topic, limits))
    try:
        small = mine.latest(mine.first())
        produce(broker.bootstrap, topic, [Record(b"k", bytes(100_000)) for _ in range(60)])
        large = mine.latest(small)
    finally:
        mine.close()
    read = sum(map(len, ranges(*map(offsets_in, (small, large)), inputs.topics)))
    assert 8 <= read <= 12

"""Ranges read from a real broker, against what kafka-python's consumer finds."""

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from streaming.arrow.schemas import RECORD
from streaming.errors import InputDamaged, InputLost, KafkaUnavailable
from streaming.source import fetching
from streaming.source.fetching import Fetching
from streaming.source.ranges import Range
from streaming.source.reader import Inputs, KafkaReader, rows_of_share
from streaming.wire import bounds, connections, fetch
from streaming.wire.bounds import EARLIEST, LATEST, BoundsReader
from streaming.wire.fetched import tables
from tests.kafka_helpers import (
    SECONDS_MAX,
    Record,
    add_partitions,
    produce,
    read_all,
    read_by_librdkafka,
    until,
)
from tests.streaming.source.helpers import offsets
from tests.streaming.source.readings import reading_of


def found(brokers, ranges, bytes_max=2**20):
    """Key, value, headers, partition, offset and time of each record, by partition and offset."""
    parts = Fetching(brokers, ranges)
    rows = pa.concat_tables(each.cast(RECORD) for each in tables(parts, bytes_max)).to_pylist()
    records = [
        (
            row["partition"],
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            [(pair["key"], pair["value"]) for pair in row["headers"] or ()],
        )
        for row in rows
    ]
    assert len({record[:2] for record in records}) == len(records)
    for partition in {record[0] for record in records}:
        mine = [record[1] for record in records if record[0] == partition]
        assert mine == sorted(mine)
    return sorted(records, key=lambda record: record[:2])


def as_found(records):
    return [(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers) for r in records]


def whole(topic, ends):
    return [Range(topic, 0, at, 0, end) for at, end in ends[topic].items()]


def test_what_is_asked_twice_is_read_once(broker, brokers, topic, monkeypatch):
    """An answer comes while leaders are looked for; the next requests go before it was taken."""
    poll = Fetching.poll

    def twice(self, seconds=0):
        poll(self, seconds)
        if self.answers:
            poll(self, seconds)
            poll(self, 0.2)

    monkeypatch.setattr(Fetching, "poll", twice)
    monkeypatch.setattr(fetching, "PARTITION_BYTES_MIN", 1_000)
    monkeypatch.setattr(fetching, "PARTITION_BYTES_MAX", 1_000)
    for first in range(0, 300, 30):
        records = [Record(b"k", b"v%d" % n * 9, partition=0) for n in range(first, first + 30)]
        produce(broker.bootstrap, topic, records)
    given = found(brokers, [Range(topic, 0, 0, 0, 300)])
    assert [offset for _, offset, *_ in given] == [*range(300)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_all_that_is_there(broker, brokers, topic, compression):
    records = [
        Record(b"k%d" % (n % 50), b"v%d" % n * (n % 90), [("n", b"%d" % n)] * (n % 3))
        for n in range(3_000)
    ]
    records += [Record(b"large", bytes(700_000)), Record(None, None), Record(b"k", b"last")]
    produce(broker.bootstrap, topic, records, **{"compression.type": compression})
    ends = offsets(brokers, [topic], LATEST)
    assert sum(ends[topic].values()) == len(records)
    assert offsets(brokers, [topic], EARLIEST) == {topic: dict.fromkeys(range(3), 0)}
    there = as_found(read_by_librdkafka(broker.bootstrap, topic, len(records)))
    assert found(brokers, whole(topic, ends)) == there
    part = Range(topic, 0, 1, 17, 400)
    assert found(brokers, [part]) == [r for r in there if r[0] == 1 and 17 <= r[1] < 400]


def test_small_answers(broker, brokers, topic, monkeypatch):
    """Many requests, by turns to each partition; the first batch comes whole all the same."""
    produce(broker.bootstrap, topic, [Record(b"k%d" % n, b"v" * 500) for n in range(2_000)])
    there = as_found(read_all(broker.bootstrap, topic))
    monkeypatch.setattr(fetch, "RESPONSE_BYTES_MAX", 10_000)
    monkeypatch.setattr(fetching, "PARTITION_BYTES_MAX", 4_000)
    monkeypatch.setattr(fetching, "PARTITION_BYTES_MIN", 100)
    assert found(brokers, whole(topic, offsets(brokers, [topic], LATEST)), 5_000) == there


@pytest.mark.parametrize(("large", "received"), [(1, 7), (1, 2**20), (1_000, 100), (2**40, 999)])
def test_answers_that_come_in_pieces(broker, brokers, topic, monkeypatch, large, received):
    """Wherever one ends: in what was received for itself, or among what came with the next."""
    records = [Record(b"k%d" % n, b"v" * (n % 300)) for n in range(2_000)]
    produce(broker.bootstrap, topic, records)
    there = as_found(read_all(broker.bootstrap, topic))
    monkeypatch.setattr(connections, "LARGE_BYTES", large)
    monkeypatch.setattr(connections, "RECEIVE_BYTES", received)
    monkeypatch.setattr(fetching, "PARTITION_BYTES_MAX", 50_000)
    assert found(brokers, whole(topic, offsets(brokers, [topic], LATEST))) == there


def test_transactions(broker, brokers, topic):
    """What is aborted is not read, what is open is behind the end."""
    settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0}
    producers = [Producer({**settings, "transactional.id": f"{topic}-{n}"}) for n in range(3)]
    for each in producers:
        each.init_transactions(SECONDS_MAX)
    for turn in range(6):
        for number, each in enumerate(producers):
            each.begin_transaction()
            for n in range(20):
                each.produce(topic, b"%d %d %d" % (number, turn, n), partition=n % 2)
            each.flush(SECONDS_MAX)
        for number, each in enumerate(producers):
            end = each.abort_transaction if (turn + number) % 3 == 0 else each.commit_transaction
            end(SECONDS_MAX)
    producers[0].begin_transaction()
    producers[0].produce(topic, b"open", partition=0)
    producers[0].flush(SECONDS_MAX)
    producers[1].begin_transaction()
    producers[1].produce(topic, b"behind it", partition=0)
    producers[1].commit_transaction(SECONDS_MAX)
    there = as_found(read_all(broker.bootstrap, topic))
    assert len(there) == 6 * 2 * 20
    ends = offsets(brokers, [topic], LATEST)
    assert found(brokers, whole(topic, ends)) == there
    cut = [Range(topic, 0, 0, 31, 77), Range(topic, 0, 1, 5, 6)]
    assert found(brokers, cut) == [
        r for r in there if (r[0] == 0 and 31 <= r[1] < 77) or (r[0] == 1 and r[1] == 5)
    ]
    producers[0].abort_transaction(SECONDS_MAX)


def test_deleted_records_are_told(broker, brokers, topic):
    produce(broker.bootstrap, topic, [Record(b"k", b"v", partition=0) for _ in range(10)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        future.result(SECONDS_MAX)
    assert offsets(brokers, [topic], EARLIEST)[topic][0] == 5
    assert len(found(brokers, [Range(topic, 0, 0, 5, 10)])) == 5
    with pytest.raises(InputLost, match="partition 0: offsets 4 to 4 were deleted"):
        list(Fetching(brokers, [Range(topic, 0, 0, 4, 10)]))


def test_new_partitions_are_seen(broker, brokers, topic):
    assert set(offsets(brokers, [topic], LATEST)[topic]) == {0, 1, 2}
    add_partitions(broker.bootstrap, topic, 5)
    reader = BoundsReader(brokers, [topic])
    until(reader.refresh)
    assert set(reader(LATEST)[topic]) == set(range(5))


def test_a_missing_topic_and_what_never_comes(brokers, topic, monkeypatch):
    monkeypatch.setattr(fetching, "SECONDS_MAX", 0.5)
    monkeypatch.setattr(bounds, "SECONDS_MAX", 0.5)
    monkeypatch.setattr(fetch, "WAIT_MS", 50)
    with pytest.raises(KafkaError, match="no-such-topic"):
        offsets(brokers, [topic, "no-such-topic"], LATEST)
    with pytest.raises(KafkaError, match="partition 0, from offset 0 on"):
        list(Fetching(brokers, [Range(topic, 0, 0, 0, 1)]))
    with pytest.raises(KafkaError, match="no-such-topic"):
        list(Fetching(brokers, [Range("no-such-topic", 0, 0, 0, 1)]))


def test_a_right_that_is_withdrawn_is_spoken_of(brokers):
    errors = Inputs(topics={"in": 0}, properties={}).errors("could not be read", brokers)
    with (
        pytest.raises(KafkaUnavailable, match=r"in could not .*at the rights of this user"),
        errors,
    ):
        raise TopicAuthorizationFailedError("in")


def test_a_leader_that_is_another(broker, brokers, topic):
    """What is remembered of leaders may be wrong: they are looked for again."""
    produce(broker.bootstrap, topic, [Record(b"k", b"v", partition=0)])
    brokers.connect()
    brokers.leaders[topic, 0] = 99
    assert len(found(brokers, [Range(topic, 0, 0, 0, 1)])) == 1


def test_a_damaged_batch(broker, topic, monkeypatch):
    """Its place is named, whatever is wrong with it."""
    produce(broker.bootstrap, topic, [Record(b"k", b"value", partition=1) for _ in range(10)])
    sound = fetching.fetched
    monkeypatch.setattr(
        *(fetching, "fetched"),
        lambda place, wanted, data, *more: sound(place, wanted, data[:-1] + b"\xff", *more),
    )
    inputs = Inputs(topics={topic: 0}, properties={"bootstrap.servers": broker.bootstrap})
    reader = KafkaReader(inputs, reading_of(topic))
    start = reader.first()
    (share,) = reader.rows(start, reader.latest(start)).shares
    reader.close()
    with pytest.raises(InputDamaged, match=f"offset 0 of {topic}, partition 1, is damaged"):
        list(rows_of_share(share, inputs, RECORD, list))
    monkeypatch.setattr(
        fetching, "fetched", lambda place, wanted, data, *_: sound(place, wanted, data[:9])
    )
    with pytest.raises(InputDamaged, match="longer than the 9 bytes of the answer"):
        list(rows_of_share(share, inputs, RECORD, list))

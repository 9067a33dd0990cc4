"""Reading parts of topics on a broker: what is there, in which order, and what is said of it."""

import pytest
from confluent_kafka import Producer

from streaming.config import parse_config
from streaming.errors import KafkaUnavailable
from streaming.verify import seeking
from streaming.verify.seeking import Seeker
from tests.kafka_helpers import create_topics

BATCHES, SIZE = 6, 3
"""Transactions, and records of each; behind each is a marker, and one in three is aborted."""


@pytest.fixture(scope="module")
def topic(broker):
    """Records 0, 1, 2, … whose times are 1,000 ms, 1,100 ms, …; their offsets have holes."""
    name = "seeking"
    create_topics(broker.bootstrap, {name: 2})
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": name}
    producer = Producer(settings)
    producer.init_transactions(120)
    number = 0
    for batch in range(BATCHES):
        producer.begin_transaction()
        is_kept = batch % 3 != 1
        for _ in range(SIZE):
            value = b"%d" % number if is_kept else b"aborted"
            producer.produce(
                name, value, b"k", 0, timestamp=1_000 + 100 * number, headers=[("h", b"")]
            )
            number += is_kept
        assert producer.flush(60) == 0
        (producer.commit_transaction if is_kept else producer.abort_transaction)(60)
    return name


@pytest.fixture
def seeker(broker, monkeypatch):
    monkeypatch.setattr(seeking, "CHUNK", 5)
    config = parse_config(
        {
            "kafka": {"bootstrap_servers": broker.bootstrap},
            "pipelines": {"p": {"discipline": "channel"}},
        },
        {},
        "c.toml",
    )
    said = []
    with Seeker(config, lambda *said_now: said.append(said_now)) as found:
        found.said = said
        yield found


def values(records):
    return [int(each.value) for each in records]


def test_all_of_a_partition_from_either_end(seeker, topic):
    span, empty = seeker.behind(topic, 0)
    assert (span.first, span.stop) == (0, BATCHES * (SIZE + 1))
    assert (empty.first, empty.stop) == (0, 0)
    assert values(seeker.newest_first(span)) == [*reversed(range(12))]
    assert span.looked == (span.first, span.stop)
    assert [what for what, *_ in seeker.said] == [f"reading {topic}"] * 5, "after each step"
    assert seeker.said[-1] == (f"reading {topic}", 12, 24)
    assert values(seeker.oldest_first(span)) == [*range(12)]
    assert list(seeker.newest_first(empty)) == list(seeker.oldest_first(empty)) == []
    assert values(seeker.newest_first(span, b"k")) == [*reversed(range(12))]
    assert list(seeker.newest_first(span, b"other")) == []
    assert span.looked == (span.first, span.stop)


def test_what_is_looked_at_ends_where_the_search_does(seeker, topic):
    span, _ = seeker.behind(topic, 0)
    assert next(seeker.newest_first(span)).value == b"11"
    assert span.looked == (span.stop - 5, span.stop)


def test_from_a_time_on(seeker, topic):
    """Perhaps from before it on, as markers of transactions have times of their own."""
    span, _ = seeker.behind(topic, 1_400)
    found = values(seeker.oldest_first(span))
    assert found == [*range(found[0], 12)]
    assert found[0] <= 4
    later = seeker.behind(topic, 10**15)
    assert [(each.first, each.stop) for each in later] == [(24, 24), (0, 0)]
    assert seeker.behind("there-is-none", 0) == []


def test_one_record(seeker, topic):
    record = seeker.one((topic, 0, 1))
    assert (record.value, record.key, record.headers) == (b"1", b"k", (("h", b""),))
    assert (record.timestamp, record.place) == (1_100, (topic, 0, 1))
    for offset in (3, 4, 23, 24, 10**12):
        assert seeker.one((topic, 0, offset)) is None, "a marker, aborted, or behind the end"
    assert seeker.one((topic, 7, 0)) is None
    assert seeker.one(("there-is-none", 0, 0)) is None


def test_without_kafka():
    config = parse_config(
        {
            "kafka": {"bootstrap_servers": "127.0.0.1:1"},
            "pipelines": {"p": {"discipline": "channel"}},
        },
        {},
        "c.toml",
    )
    with pytest.raises(KafkaUnavailable, match="127.0.0.1:1"):
        Seeker(config, print)

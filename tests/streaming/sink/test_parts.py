"""A batch written in parts: any cuts, any crashes between them, and any order of its shards."""

import contextlib
import random
from dataclasses import replace
from types import SimpleNamespace

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest

from streaming.arrow.schemas import HEADERS
from streaming.disciplines.plan import BatchContext, Headers
from streaming.errors import KafkaUnavailable, ProgressMissing
from streaming.sink import parts, writer
from streaming.sink.progress import BatchProgress, Part
from streaming.sink.refusals import RecordsRefused
from streaming.sink.sink import Sink
from streaming.wire.blocks import blocked
from streaming.wire.encoded import encoded
from streaming.wire.record_batch import rows_within
from tests.seeds import seeds
from tests.streaming.sink.small_kafka import (
    PARTITIONS,
    PLAN,
    TOPICS,
    Crash,
    FakeProducer,
    cut_once,
    make_plan,
    rows_of,
    small_kafka,
    table_of,
    write,
)


@pytest.fixture
def topics(monkeypatch):
    return small_kafka(monkeypatch)


def some_table(rng, name, count):
    """Records that say who they are; values of a few and of many bytes, some shared."""
    values = [f"{name}:{n}:".encode() + b"x" * rng.choice([0, 3, 200]) for n in range(count)]
    table = {
        "key": pa.array([b"k%d" % rng.randrange(9) for _ in range(count)]),
        "value": pa.array(values),
        "headers": pa.nulls(count, HEADERS),
        "timestamp": pa.array([1_700_000_000_000 + n for n in range(count)]),
        "sequence": pa.array(range(count)),
    }
    if rng.random() < 0.5:
        table["value"] = table["value"].dictionary_encode()
    return pa.table(table)


def some_batch(rng, shards, *, as_batches):
    """For each shard its rows: (topic, table)."""
    made = {}
    for shard in range(shards):
        for number in range(rng.randrange(4)):
            topic = rng.choice(TOPICS)
            table = some_table(rng, f"{shard}/{number}", rng.randrange(1, 40))
            if as_batches and topic != "events":
                table = small_batches(table, rng)
            made.setdefault(shard, []).append((topic, table))
    return made


def small_batches(table, rng):
    """The table as record batches of a few records each."""
    some, first = [], 0
    while first < len(table):
        piece = table.slice(first, rng.randrange(1, 9))
        some.append(encoded(piece, PARTITIONS, Headers(), "none", 0))
        first += len(piece)
    return pa.concat_tables(some).combine_chunks()


def by_shard(topics):
    """What of each shard is in a topic's partition, in order; shards may come in any order."""
    found = {}
    for place, values in topics.values.items():
        for value in values:
            name = value[value.index(b"/") - 1 : value.index(b"/")] if b"/" in value else b""
            found.setdefault((place, name), []).append(value)
    return found


@pytest.mark.parametrize("seed", seeds(60, 3000))
def test_any_cuts_any_crashes_and_any_order_of_shards_give_what_one_transaction_gives(topics, seed):
    rng = random.Random(seed)
    delivery = "exactly-once"
    whole, shards = make_plan(delivery=delivery), rng.choice([1, 2, 5])
    made = some_batch(rng, shards, as_batches=rng.random() < 0.5)
    order = list(made)
    if not order:
        return
    write(whole, rows_of(made, order))
    expected = by_shard(topics)
    assert topics.transactions == [len(topics.all())]

    topics.values, topics.progress, topics.transactions = {}, (-1, ""), []
    plan = make_plan(
        delivery=delivery,
        part_records_max=rng.choice([1, 3, 10, 1000]),
        part_bytes_max=rng.choice([1, 500, 5000, 10**6]),
    )
    topics.crash = lambda: rng.random() < likely and crash()

    def crash():
        raise Crash

    for attempt in range(200):
        likely = 0 if attempt == 199 else rng.choice([0.05, 0.3])
        rng.shuffle(order)
        with contextlib.suppress(Crash):
            found = write(plan, rows_of(made, order))
            break
    assert by_shard(topics) == expected
    topics.crash = lambda: None
    assert write(plan, rows_of(made, order)).found == 1
    assert by_shard(topics) == expected
    assert found.transactions <= len(topics.transactions)


CHANGES = {
    "one less before the cut": [("out", table_of(*range(1, 40)))],
    "one more before the cut": [("out", table_of(7, *range(40)))],
    "another topic": [("rejects", table_of(*range(40)))],
    "fewer than were written": [("out", table_of(*range(5)))],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_shard_that_gives_something_else_on_a_repeat_is_written_no_further(topics, change):
    cut_once(topics, PLAN, rows_of({3: [("out", table_of(*range(40)))]}, [3]))
    before = topics.all()
    assert len(before) == 10
    with pytest.raises(ProgressMissing, match=r"written in part.*gives something else now"):
        write(PLAN, rows_of({3: CHANGES[change]}, [3]))
    assert topics.all() == before


def test_a_shard_of_which_all_was_written_has_to_give_as_many_again(topics):
    made = {1: [("out", table_of(*range(8)))], 2: [("out", table_of(*range(40)))]}
    cut_once(topics, PLAN, rows_of(made, [1, 2]))
    made[1] = [("out", table_of(*range(7)))]
    with pytest.raises(ProgressMissing):
        write(PLAN, rows_of(made, [2, 1]))


def test_what_is_behind_a_cut_may_change(topics):
    """A record that Kafka refused, for instance."""
    cut_once(topics, PLAN, rows_of({3: [("out", table_of(*range(40)))]}, [3]))
    write(PLAN, rows_of({3: [("out", table_of(*range(39))), ("rejects", table_of(39))]}, [3]))
    assert sorted(topics.all(), key=int) == [b"%d" % n for n in range(40)]


@pytest.mark.parametrize("is_reusable", [True, False])
def test_what_is_refused_in_any_part_is_known_after_one_run(topics, monkeypatch, is_reusable):
    """Else the operators would take a message that nobody gets for one that others still get.

    A part with a request that was not answered ends its session.
    """
    monkeypatch.setattr(FakeProducer, "is_reusable", is_reusable)
    topics.refused = (b"15", b"38", b"39")
    with pytest.raises(RecordsRefused) as refused:
        write(PLAN, rows_of({3: [("out", table_of(*range(40)))]}, [3]))
    assert refused.value.refusals == [b"15", b"38", b"39"]
    assert topics.all() == [b"%d" % n for n in range(10)], "the parts before the first"
    rest = [n for n in range(40) if b"%d" % n not in topics.refused]
    topics.refused = ()
    made = {3: [("out", table_of(*rest)), ("rejects", table_of(15, 38, 39))]}
    write(PLAN, rows_of(made, [3]), decisions={"refused": [[]]})
    assert sorted(topics.all(), key=int) == [b"%d" % n for n in range(40)]


def test_a_late_attempt_does_not_write_what_was_refused(topics):
    """The next run leaves it out, and so does the state, though Kafka would take it by now."""
    topics.refused = (b"15",)
    rows = rows_of({3: [("out", table_of(*range(20)))]}, [3])
    with pytest.raises(RecordsRefused):
        write(PLAN, rows)
    topics.refused = ()
    before = topics.all()
    with pytest.raises(KafkaUnavailable, match="Another attempt"):
        write(PLAN, rows)
    assert topics.all() == before == [b"%d" % n for n in range(10)]
    rest = [n for n in range(20) if n != 15]
    made = {3: [("out", table_of(*rest)), ("rejects", table_of(15))]}
    write(PLAN, rows_of(made, [3]), decisions={"refused": [[]]})
    assert sorted(topics.all(), key=int) == [b"%d" % n for n in range(20)]
    write(PLAN, rows, batch=1)
    assert len(topics.all()) == 40


def test_a_partition_of_which_all_was_refused_may_have_nothing_to_write_then(topics):
    """Another one rejects it; the progress that keeps late attempts away is no part of a batch."""
    topics.refused = (b"1",)
    with pytest.raises(RecordsRefused):
        write(PLAN, rows_of({3: [("out", table_of(1))]}, [3]))
    context = BatchContext("q", 0, in_doubt=True, decisions={"refused": [[]]})
    Sink(PLAN)._require_unwritten(context, 0, [])
    with pytest.raises(KafkaUnavailable):
        Sink(PLAN)._require_unwritten(replace(context, decisions={}), 0, [])


def test_a_record_batch_is_never_cut(topics):
    cut_once(topics, PLAN, rows_of({3: [("out", each) for each in batches(10, 10, 10)]}, [3]))
    with pytest.raises(ProgressMissing):
        write(PLAN, rows_of({3: [("out", each) for each in batches(9, 11, 10)]}, [3]))
    assert len(topics.all()) == 1


def batches(*counts):
    """Tables of one record batch each, of so many records."""
    first, made = 0, []
    for count in counts:
        piece = table_of(*range(first, first + count))
        made.append(encoded(piece, 1, Headers(), "none", 0))
        first += count
    return made


def test_there_is_no_cut_within_a_table_of_record_batches(topics):
    """Of records that Kafka refuses the next run makes no batches, and others of their table."""
    table = pa.concat_tables(batches(10, 10, 10)).combine_chunks()
    found = write(PLAN, rows_of({3: [("out", table), ("out", table)]}, [3]))
    assert found.transactions == 2
    assert len(topics.all()) == 6


def test_progress_that_was_forgotten_stays_so_while_parts_are_written(topics):
    """Else a part of those who never wrote would hide that others are in doubt."""
    made = {1: [("out", table_of(*range(20)))], 2: [("out", table_of(*range(5)))]}
    rows = rows_of(made, [1, 2])
    for row in rows:
        row["wrote_before"] = row["shard"] == 2
    for _ in range(2):
        writer._writers.clear()
        context = BatchContext("q", 7, in_doubt=True)
        with pytest.raises(ProgressMissing, match="may have been written"):
            Sink(PLAN).write(context, 0, rows[0], iter(rows[1:]), [])
    assert len(topics.all()) == 10


def test_a_transaction_that_is_open_for_long_is_committed_before_more_is_written(
    topics, monkeypatch
):
    clock = iter(range(0, 10**6, 6))
    monkeypatch.setattr(parts, "time", SimpleNamespace(monotonic=clock.__next__, time=lambda: 9.0))
    rows = rows_of({1: [("out", table_of(n)) for n in range(20)]}, [1])
    found = write(make_plan(), rows)
    assert found.transactions == len(topics.transactions) > 3
    assert topics.all() == [b"%d" % n for n in range(20)]


def test_without_transactions_parts_are_waited_for(topics):
    plan = make_plan(delivery="at-least-once", part_records_max=10)
    found = write(plan, rows_of({1: [("out", table_of(*range(35)))]}, [1]))
    assert (found.transactions, len(topics.transactions)) == (0, 4)
    assert topics.all() == [b"%d" % n for n in range(35)]


@pytest.mark.usefixtures("topics")
def test_deliveries_are_measured_once_each():
    found = write(PLAN, rows_of({1: [("out", table_of(*range(35)))]}, [1]))
    assert sum(found.latency_ms[:-1]) == 35


def test_progress_as_text():
    part = Part((1 << 1023) + 1, {7: (10**12, 2**32 - 1, 9), 8: (1, 0)}, 10**13, True, 10**9)
    some = [(part, None), (Part(), None), (None, None), (None, 0), (None, 2**40)]
    for each, read in some:
        progress = BatchProgress(12, "query", "digest", each, read)
        assert BatchProgress.from_text(12, progress.to_text()) == progress
        assert len(progress.to_text()) < 1000, "Kafka takes 4,096 characters"
    assert BatchProgress.from_text(-1, "") is None
    assert BatchProgress.from_text(3, "of another kind of group") is None


def test_how_many_rows_fit():
    table = pa.table({"value": pa.array([b"x" * 10] * 100), "key": pa.array([b"k"] * 100)})
    assert rows_within(table, 1000, 10**6)[0] == 100
    assert rows_within(table, 7, 10**6)[0] == 7
    assert rows_within(table, 0, 0)[0] == 1
    assert rows_within(table, 1000, 55) == (5, 55)
    large = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100, np.int32)), [b"x" * 1000])
    assert rows_within(pa.table({"value": large}), 1000, 5_500) == (5, 5_000)
    small = pa.DictionaryArray.from_arrays(
        pa.array(np.ones(100, np.int32)), [b"x" * 1000, b"x" * 10]
    )
    assert rows_within(pa.table({"value": small}), 1000, 55_000) == (100, 1_000)


@pytest.mark.parametrize("large", [False, True])
def test_a_record_looks_the_same_whatever_columns_others_of_its_table_have(large):
    """Seed 8081026: without a record that Kafka refused, the table has a notice, too."""
    row = {"key": b"k", "value": b"v" * 5_000 if large else b"v", "sequence": 3}
    alone = pa.table({name: [value] for name, value in row.items()})
    notice = {"key": b"k", "value": None, "notice": "gap", "sequence": 4}
    beside = pa.Table.from_pylist([{**row, "notice": None}, notice])
    beside = beside.select(["key", "notice", "value", "sequence"])
    seen = {parts._looks("out", each, 1)[0] for each in (alone, beside, blocked(beside))}
    assert len(seen) == 1
    assert parts._looks("out", beside, 2)[0] not in seen
    assert parts._looks("out", beside, 1)[1] == google_crc32c.value(
        f"out {beside.slice(0, 1).to_pylist()[0]}".encode()  # as version 1.0.0 had it
    )

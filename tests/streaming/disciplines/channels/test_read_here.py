"""A batch that shards read themselves gives what one does that is read in tasks of its own."""

import random
from dataclasses import replace
from functools import partial

import pytest

from sequencer.channels import Rules, Skip
from sequencer.labels import LinearLabels
from streaming.arrow.pack import PACKED, in_order, share_in, share_row
from streaming.arrow.schemas import RECORD
from streaming.arrow.totals import Totals
from streaming.disciplines.channels.core import ChannelOperator
from streaming.disciplines.channels.records import arrival_schema, make_packs
from streaming.disciplines.source import Limits, Reading
from streaming.disciplines.state_keys import shard_keys
from streaming.disciplines.state_row import StateRow
from streaming.errors import SequencerError
from streaming.source.positions import offsets_in
from streaming.source.reader import HERE_KEPT, HERE_RECORDS, Inputs, KafkaReader, rows_of_share
from tests.kafka_helpers import Record, create_topics, produce
from tests.simulated.group_state import GroupState
from tests.streaming.disciplines.channels.plans import plan

SHARDS, PARTITIONS, NOW_MS = 6, 2, 1_000


@pytest.fixture
def p(topic_prefix):
    given = plan(Rules(LinearLabels()))
    topics = {"inputs": (f"{topic_prefix}in",), "commands": f"{topic_prefix}commands"}
    return replace(given, shards=SHARDS, state_partitions=PARTITIONS, compression="lz4", **topics)


@pytest.fixture
def reader(broker, p):
    create_topics(broker.bootstrap, dict.fromkeys(p.reads, 3))
    keys = shard_keys(SHARDS, PARTITIONS)
    making = partial(make_packs, keys=keys, schema=arrival_schema(p), label="label", inputs=1)
    topics = {topic: number for number, topic in enumerate(p.reads)}
    inputs = Inputs(topics=topics, properties={"bootstrap.servers": broker.bootstrap})
    reading = Reading(topics, RECORD, making, PACKED, PARTITIONS, Limits(), keys)
    made = KafkaReader(inputs, reading)
    yield made
    made.close()


def read(reader, share):
    reading = reader.reading
    return rows_of_share(share, reader.inputs, reading.schema, reading.making)


def elsewhere(reader, start, end):
    """Each state key's packs, of a batch that tasks of its own read."""
    reader.reading = reader.reading._replace(keys=())
    rows = reader.rows(start, end)
    reader.reading = reader.reading._replace(keys=shard_keys(SHARDS, PARTITIONS))
    assert rows.here is None
    assert len(rows.shares) > 1
    found = {}
    for share in rows.shares:
        for made in read(reader, share):
            for row in made.to_pylist():
                found.setdefault(row["shard"], []).append(row["rows"])
    return found


def stepped(operator, key, packs, row):
    """The rows of OUTPUT and the state after a batch."""
    step, rows = operator.step(key, packs, row, NOW_MS), []
    while True:
        try:
            rows.append(next(step))
        except StopIteration as ended:
            return rows, operator.keep(key, ended.value)


def frames(*rows):
    return iter([{"rows": rows}])


def state_of(row, passed_ms=0):
    return GroupState(row, NOW_MS + passed_ms, timed_out=False)


def messages(rng, count, labels):
    """Of some channels in some disorder; also bad ones, and values that are large."""
    for _ in range(count):
        channel = rng.randrange(20)
        label = labels[channel] = labels.get(channel, -1) + rng.choice([0, 1, 1, 2])
        value = rng.randbytes(rng.choice([0, 10, 3_000]))
        header = b"x" if rng.random() < 0.05 else b"%d" % label
        yield Record(b"c%d" % channel, value, [("label", header)], partition=rng.randrange(3))


@pytest.mark.parametrize("seed", range(3))
def test_both_give_the_same(broker, p, reader, seed):
    rng, labels = random.Random(seed), {}
    here, there = ChannelOperator(p, partial(read, reader)), ChannelOperator(p)
    states = {key: StateRow() for key in reader.reading.keys}
    start = reader.first()
    for number in range(4):
        produce(broker.bootstrap, p.inputs[0], [*messages(rng, 200, labels)])
        command = b'{"op": "seed", "channel": "c1", "next": %d}' % (1_000 + number)
        produce(broker.bootstrap, p.commands, [Record(b"", command)])
        end = reader.latest(start)
        rows = reader.rows(start, end)
        packs = elsewhere(reader, start, end)
        for key, state in states.items():
            own = here.packs(key, rows.here)
            assert bool(own) == (key in packs)
            found = [
                stepped(o, key, given, state)
                for o, given in ((here, own), (there, packs.get(key, [])))
            ]
            (rows_here, state_here), (rows_there, state_there) = found
            assert state_here == state_there
            for one, other in zip(rows_here, rows_there, strict=True):
                assert one.equals(other)
            states[key] = state_here
        start = end


def test_what_a_task_reads_it_reads_once_for_all_of_its_shards(broker, p, reader):
    produce(broker.bootstrap, p.inputs[0], [*messages(random.Random(0), 50, {})])
    start = reader.first()
    rows, asked = reader.rows(start, reader.latest(start)), []

    def counted(share):
        asked.append(share)
        return read(reader, share)

    operator = ChannelOperator(p, counted)
    assert any(len(operator.packs(key, rows.here)) for key in reader.reading.keys[::PARTITIONS])
    assert len(asked) == 1


def test_a_shard_without_records_stays_as_it_is_until_its_timer_is_due(broker, p, reader):
    rules = Rules(LinearLabels(), gap=Skip(5_000))
    operator = ChannelOperator(replace(p, rules=rules), partial(read, reader))
    produce(broker.bootstrap, p.inputs[0], [Record(b"k", b"v", [("label", b"1")])])
    start = reader.first()
    end = reader.latest(start)
    called = dict.fromkeys(reader.reading.keys, reader.rows(start, end).here)
    (key,) = [key for key, share in called.items() if operator.packs(key, share)]
    operator = ChannelOperator(operator.plan, operator.read)
    held = state_of(None)
    assert list(operator((key,), frames(called[key]), held))
    assert held.timeout_ms == NOW_MS + 4_999, "Spark's timers fire in batches later than they"
    other = next(each for each in called if each != key)
    fresh = state_of(None)
    assert not list(operator((other,), frames(called[other]), fresh))
    assert (fresh.row, fresh.timeout_ms) == (None, None)
    produce(broker.bootstrap, p.inputs[0], [Record(b"elsewhere", b"v", [("label", b"x")])])
    called = dict.fromkeys(called, reader.rows(end, reader.latest(end)).here)
    later = state_of(held.row, 1)
    assert not list(operator((key,), frames(called[key]), later))
    assert (later.row, later.timeout_ms) == (held.row, held.timeout_ms)
    not_yet = state_of(held.row, 4_999)
    assert not list(operator((key,), frames(called[key]), not_yet)), "as Spark's timers"
    due = state_of(held.row, 5_000)
    assert list(operator((key,), frames(called[key]), due)), "a timer does not wait for records"
    assert due.row != held.row
    assert due.timeout_ms > NOW_MS + 5_000, "until the channel is retired"
    woken = state_of(held.row, 1)
    assert list(operator((key,), frames(called[key], b""), woken)), "it is to be looked at"


def test_a_state_that_does_not_say_when_its_timer_is_due_is_stepped(broker, p, reader):
    """One of a version before: it was written without that."""
    operator = ChannelOperator(p, partial(read, reader))
    produce(broker.bootstrap, p.inputs[0], [Record(b"k", b"v", [("label", b"1")])])
    start = reader.first()
    share = reader.rows(start, reader.latest(start)).here
    for key in reader.reading.keys:
        row = StateRow(NOW_MS, Totals().to_json(), operator.core(operator.shards[key]).dump())
        assert list(operator((key,), frames(share), state_of((row.to_text(),), 1)))


def test_what_is_large_is_read_once(broker, p, reader, monkeypatch):
    """By all state partitions together."""
    monkeypatch.setattr("streaming.source.reader.HERE_BYTES", 100_000)
    start = reader.first()
    produce(broker.bootstrap, p.inputs[0], [Record(b"k", b"v" * 10_000)] * 4)
    end = reader.latest(start)
    assert reader.rows(start, end).here
    produce(broker.bootstrap, p.inputs[0], [Record(b"k", b"v" * 10_000)] * 4)
    assert reader.rows(start, reader.latest(start)).shares
    few = reader.reading.limits._replace(kept=lambda: HERE_KEPT + 1)
    reader.reading = reader.reading._replace(limits=few)
    assert reader.rows(start, end).shares, "each shard's state would go to Python and back"
    reader.reading = reader.reading._replace(limits=Limits(), tasks=4)
    assert reader.rows(start, end).shares, "Spark would shuffle rows whose partitions differ"


def test_many_records_are_read_elsewhere_and_none_nowhere(broker, p, reader):
    start = reader.first()
    assert reader.rows(start, reader.latest(start)) == (None, ())
    assert reader.rows(start, start) == (None, ())
    most = HERE_RECORDS // PARTITIONS
    produce(broker.bootstrap, p.inputs[0], [Record(b"k", b"v")] * most)
    whole = reader.latest(start)
    assert sum(offsets_in(whole)[p.inputs[0]].values()) == most
    assert reader.rows(start, whole).here
    produce(broker.bootstrap, p.inputs[0], [Record(b"k", b"v")])
    rows = reader.rows(start, reader.latest(start))
    assert rows.shares
    assert rows.here is None


def test_a_share_is_no_pack(p):
    row = share_row(b"what is to be read")
    assert share_in(row) == b"what is to be read"
    with pytest.raises(SequencerError, match="damaged on their way"):
        share_in(row[:-1] + b"x")
    with pytest.raises(SequencerError, match="damaged on their way"):
        in_order([row])
    with pytest.raises(AssertionError):
        ChannelOperator(p).packs(0, row)

"""Labels and channels inside of values: from records through packs to a shard's step."""

import json
import random
from dataclasses import replace

import pyarrow as pa
import pytest

from sequencer.channels import Rules
from sequencer.custom_labels import CustomLabels
from sequencer.labels import LinearLabels
from streaming.arrow.ipc import from_body
from streaming.arrow.schemas import RECORD, has_blocks
from streaming.disciplines.channels.codec import decode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.fields import fields_of
from streaming.disciplines.channels.records import arrival_schema, make_packs, record_schema
from streaming.disciplines.channels.sql import header_name
from streaming.disciplines.state_row import StateRow
from streaming.settings.fields import value_field
from streaming.wire.blocks import plain_values
from tests.streaming.disciplines.channels.plans import plan

CHANNEL, LABEL = value_field({"json": "$.id"}), value_field({"json": "$.n.seq"})


def some_labels(label):
    if len(label) > 100:
        raise StopIteration
    return f"{label}!"


def record(offset, value, headers=None, topic=0):
    fields = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    return dict(zip(fields, (topic, 0, offset, 1000 + offset, b"key", value, headers), strict=True))


def in_value(channel, label, **more):
    return json.dumps({"id": channel, "n": {"seq": label}, **more}).encode()


def made(records, p, **options):
    """Packs of the records, all for one shard, as the way in makes them."""
    table = pa.Table.from_pylist(records, schema=RECORD)
    packs = make_packs(
        table, [0], arrival_schema(p), header_name(p.label), 1,
        fields=fields_of(p.channel, p.label), **options,
    )  # fmt: skip
    return packs["rows"].to_pylist()


def stepped(batches, p):
    """Deliveries as (channel, label), and rejects as (offset, reason, detail), of batches."""
    shard = decode_shard(StateRow(), record_schema(p))
    delivered, rejected = [], []
    for number, batch in enumerate(batches):
        shard, writes = step_shard(shard, made(batch, p) if batch else [], 1000 + number, p)
        for topic, table in writes:
            for row in plain_values(table).to_pylist():
                if topic == "out":
                    value = json.loads(row["value"])
                    delivered.append((value["id"], int(value["n"]["seq"])))
                elif topic == "rejects":
                    names = ("reject-offset", "reject-reason", "reject-detail")
                    rejected.append(tuple(row[name] for name in names))
    return delivered, sorted(rejected), shard


@pytest.mark.parametrize("seed", range(4))
def test_channels_in_order_however_the_input_falls_into_batches(seed):
    rng = random.Random(seed)
    sent = [(channel, label) for channel in ("a", "b", 7) for label in range(20)]
    rng.shuffle(sent)
    records = [
        record(offset, in_value(channel, rng.choice([label, str(label)])))
        for offset, (channel, label) in enumerate(sent)
    ]
    p = replace(plan(Rules(LinearLabels())), channel=CHANNEL, label=LABEL)
    for _ in range(2):
        cuts = sorted(rng.sample(range(len(records)), 3))
        batches = [records[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
        delivered, rejected, shard = stepped(batches, p)
        assert not rejected
        assert len(shard.state.held) == 0
        for channel in ("a", "b", 7):
            assert [label for each, label in delivered if each == channel] == [*range(20)]


def test_what_cannot_be_read_is_rejected_with_why_and_nobody_else_is():
    p = replace(plan(Rules(LinearLabels())), channel=CHANNEL, label=LABEL)
    batch = [
        record(0, in_value("a", 0)),
        record(1, b"\x00broken"),
        record(2, in_value("a", 1.5)),
        record(3, in_value("a", None)),
        record(4, in_value(None, 1)),
        record(5, in_value({"x": 1}, 1)),
        record(6, None),
        record(7, in_value("a", "")),
        record(8, in_value("a", -1)),
        record(9, in_value("a", 1)),
    ]
    delivered, rejected, shard = stepped([batch], p)
    assert delivered == [("a", 0), ("a", 1)]
    assert rejected == [
        (1, "missing-channel", "the value is not JSON"),
        (2, "bad-label", "$.n.seq is neither a whole number nor text"),
        (3, "missing-label", None),
        (4, "missing-channel", None),
        (5, "missing-channel", "$.id is neither a whole number nor text"),
        (6, "missing-channel", None),
        (7, "bad-label", None),
        (8, "bad-label", None),
    ]
    assert (shard.totals.seen, shard.totals.delivered) == (10, 2)


def test_only_the_label_in_the_value_and_the_channel_is_the_key():
    p = replace(plan(Rules(LinearLabels())), label=LABEL)
    delivered, rejected, _ = stepped(
        [[record(1, in_value("x", 1)), record(0, in_value("x", 0)), record(2, b"?")]], p
    )
    assert delivered == [("x", 0), ("x", 1)]
    assert rejected == [(2, "bad-label", "the value is not JSON")]


def test_no_label_of_a_custom_sequence_is_mistaken_for_one_that_cannot_be_read():
    rules = Rules(CustomLabels("the value is not JSON", some_labels))
    p = replace(plan(rules), label=LABEL)
    _, rejected, _ = stepped([[record(0, b"?")]], p)
    assert rejected == [(0, "bad-label", "the value is not JSON")]


def test_commands_are_not_looked_into():
    p = replace(plan(Rules(LinearLabels())), channel=CHANNEL, label=LABEL)
    command = json.dumps({"op": "skip", "channel": "a", "to": 5}).encode()
    records = [
        record(0, in_value("a", 5)),
        record(0, command, topic=1),
        record(1, in_value("a", 6)),
    ]
    (body,) = made(records, p)
    rows = pa.Table.from_batches([from_body(body, arrival_schema(p))]).to_pylist()
    read = [(row["topic"], row["channel"], row["label"]) for row in rows]
    assert sorted(read, key=str) == [(0, b"a", b"5"), (0, b"a", b"6"), (1, None, None)]
    delivered, rejected, _ = stepped([[records[0], records[2]], [records[1]]], p)
    assert (delivered, rejected) == ([("a", 5), ("a", 6)], [])


def test_large_values_are_read_before_they_are_compressed():
    p = replace(plan(Rules(LinearLabels())), channel=CHANNEL, label=LABEL)
    records = [record(n, in_value("a", n, more="x" * 10_000)) for n in range(3)]
    (body,) = made(records, p, blocks=True)
    batch = from_body(body, arrival_schema(p))
    assert has_blocks(batch.schema)
    assert batch["label"].to_pylist() == [b"0", b"1", b"2"]

"""What a label in the value costs beside one in a header: a worker's share, no Spark, no Kafka.

    python bench/values.py [RECORDS]

Records of 100 and of 1,000 bytes are packed, stepped and encoded as the service's workers do it, in
turns: the label in a header, then in the value as JSON, Avro and Protobuf. It prints ratios of the
processor's time, the least of several times, and what reading the label takes for a record.
"""

import io
import json
import struct
import sys
import time
from dataclasses import replace

import fastavro
import pyarrow as pa
from google.protobuf import message_factory

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.arrow.pack import pack_by_shard
from streaming.arrow.schemas import RECORD
from streaming.disciplines.channels.codec import decode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.fields import fields_of, read_fields, with_fields
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.channels.records import arrival_schema, labelled, record_schema
from streaming.disciplines.channels.sql import header_name
from streaming.disciplines.plan import Headers
from streaming.disciplines.state_row import StateRow
from streaming.settings.fields import value_field
from streaming.values.protobuf_files import compiled
from streaming.values.protobuf_values import file_of
from streaming.values.schemas import Schema, Schemas
from streaming.wire.encoded import encoded

ROUNDS = 4
CHANNELS = 100
LINES = {100: 0, 1000: 12}
AVRO = {
    "type": "record", "name": "Trade", "fields": [
        {"name": "id", "type": "string"},
        {"name": "seq", "type": "long"},
        {"name": "note", "type": "string"},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [
                {"name": "sku", "type": "string"},
                {"name": "count", "type": "int"},
                {"name": "price", "type": "double"},
            ]}}},
        {"name": "last", "type": "long"},
    ],
}  # fmt: skip
PROTOBUF = """
syntax = "proto3";
message Trade {
  message Line { string sku = 1; int32 count = 2; double price = 3; }
  string id = 1; int64 seq = 2; string note = 3; repeated Line lines = 4; int64 last = 5;
}
"""
FILE = compiled(PROTOBUF, {})
TRADE = message_factory.GetMessageClass(file_of(FILE).message_types_by_name["Trade"])
SCHEMAS = Schemas({1: Schema("AVRO", json.dumps(AVRO)).packed(), 2: FILE.packed()})
PARSED = fastavro.parse_schema(AVRO)


def in_avro(trade):
    file = io.BytesIO()
    file.write(b"\0" + struct.pack(">I", 1))
    fastavro.schemaless_writer(file, PARSED, trade)
    return file.getvalue()


def in_protobuf(trade):
    return b"\0" + struct.pack(">I", 2) + b"\0" + TRADE(**trade).SerializeToString()


WRITERS = {
    "json": lambda trade: json.dumps(trade).encode(),
    "avro": in_avro,
    "protobuf": in_protobuf,
}


def trades(count, size, write):
    """Trades whose values have about this size."""
    lines = [{"sku": f"item-{n}", "count": n, "price": 1.5 * n} for n in range(LINES[size])]
    for number in range(count):
        trade = {"id": f"K{number % CHANNELS}", "seq": number // CHANNELS, "note": ""}
        trade |= {"lines": lines, "last": number // CHANNELS}
        short = size - len(write(trade))
        yield write({**trade, "note": "x" * max(0, short - 1 - (short > 128))})


def table(values):
    count = len(values)
    rows = {
        "topic": [0] * count,
        "partition": [0] * count,
        "offset": range(count),
        "timestamp": [1_767_225_600_000] * count,
        "key": [b"K%d" % (number % CHANNELS) for number in range(count)],
        "value": values,
        "headers": [
            [{"key": "label", "value": b"%d" % (number // CHANNELS)}] for number in range(count)
        ],
    }
    return pa.table([pa.array(rows[each.name], each.type) for each in RECORD], schema=RECORD)


def plan(**fields):
    names = {"output": "out", "rejects": "rejects", "events": "events"}
    given = {name: value_field(each) for name, each in fields.items()}
    return ChannelPlan(
        service="s", pipeline="p", inputs=("in",), commands="commands", rules=Rules(LinearLabels()),
        partitions=dict.fromkeys(names.values(), 3), **names, **given,
    )  # fmt: skip


def work(records, p):
    """What workers do about records: read fields, pack, step, encode; how many come out."""
    read = with_fields(records, fields_of(p.channel, p.label), 1, SCHEMAS)
    rows = labelled(read, arrival_schema(p), header_name(p.label))
    packs = pack_by_shard(rows, pa.array([0] * len(rows)).to_numpy(), [0])["rows"].to_pylist()
    _, writes = step_shard(decode_shard(StateRow(), record_schema(p)), packs, 1_767_225_601_000, p)
    for topic, each in writes:
        encoded(each, p.partitions[topic], Headers(), "lz4", 1_767_225_601_000)
    return sum(len(each) for topic, each in writes if topic == "out")


def seconds(action):
    begin = time.process_time()
    action()
    return time.process_time() - begin


def main(count=20_000):
    print("| bytes | label in | rate beside a header | of which reading, µs a record |")
    print("| --- | --- | --- | --- |")
    for size in LINES:
        cases = []
        for encoding, write in WRITERS.items():
            records = table([*trades(count, size, write)])
            path, last = ("$.seq", "$.last") if encoding == "json" else ("seq", "last")
            both = {"channel": {encoding: path.replace("seq", "id")}, "label": {encoding: path}}
            cases += [
                (f"{encoding}", records, plan(label={encoding: path})),
                (f"{encoding}, the channel, too", records, plan(**both)),
                (f"{encoding}, last of the fields", records, plan(label={encoding: last})),
            ]
        best = {}
        for _ in range(ROUNDS):
            for name, records, p in cases:
                header = replace(plan(), label="header('label')")
                fields = fields_of(p.channel, p.label)
                values = records["value"].combine_chunks()
                taken = (
                    seconds(lambda: work(records, header)),  # noqa: B023  (called at once)
                    seconds(lambda: work(records, p)),  # noqa: B023
                    seconds(lambda: read_fields(values, fields, SCHEMAS)),  # noqa: B023
                )
                best[name] = tuple(map(min, zip(taken, best.get(name, taken), strict=True)))
        for name, records, p in cases:
            assert work(records, p) == count
            in_header, in_value, reading = best[name]
            each = reading / count * 1e6
            print(f"| {size:,} | {name} | {in_header / in_value:.2f} | {each:.1f} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

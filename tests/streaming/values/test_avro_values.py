"""Fields of values in Avro: what fastavro writes, what the judge reads, and bytes of no kind."""

import io
import json
import random
import struct

import pyarrow as pa
import pytest

from streaming.errors import SchemasNeeded
from streaming.settings.fields import value_field
from streaming.values.avro_values import DEPTH_MAX, read_avro, require_avro
from streaming.values.framing import ID_MAX, UNFRAMED, BadSchema
from streaming.values.schemas import NEEDED_MAX, Schema, Schemas, ids_needed
from streaming.verify.avro import AvroSchema, Unreadable
from streaming.verify.values import Registered, in_frame
from tests.seeds import seeds

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, {"name": "seq", "type": "long"}]}  # fmt: skip
TREE = {"type": "record", "name": "Tree", "fields": [{"name": "next", "type": ["null", "Tree"]}]}
EVERYTHING = {
    "type": "record", "name": "T", "namespace": "a.b", "fields": [
        {"name": "first", "type": "int"},
        {"name": "nothing", "type": "null"},
        {"name": "flag", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": ["null", "double", {"type": "fixed", "name": "F", "size": 3}]},
        {"name": "kind", "type": {"type": "enum", "name": "E", "symbols": ["x", "y"]}},
        {"name": "tree", "type": TREE},
        {"name": "map", "type": {"type": "map", "values": "float"}},
        {"name": "orders", "type": {"type": "array", "items": ORDER}},
        {"name": "empty", "type": {"type": "array", "items": "null"}},
        {"name": "raw", "type": "bytes"},
        {"name": "maybe", "type": ["null", "a.b.Order"]},
        {"name": "last", "type": "Order"},
        {"name": "fixed", "type": "a.b.F"},
    ],
}  # fmt: skip
PATHS = ("first", "at", "kind", "raw", "last.seq", "last.id", "maybe.seq", "fixed", "flag", "orders", "price", "no", "last.no", "first.x", "nothing", "tree.next", "maybe")  # fmt: skip


def framed(schema, value, number=7):
    import fastavro

    file = io.BytesIO()
    file.write(b"\0" + struct.pack(">I", number))
    fastavro.schemaless_writer(file, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return file.getvalue()


def known(schemas):
    return Schemas({n: Schema("AVRO", json.dumps(each)).packed() for n, each in schemas.items()})


def read(values, path, schemas):
    texts = read_avro(pa.array(values, pa.binary()), path, tuple(path.split(".")), schemas)
    return [
        (True, None) if row in texts.faults else (text is not None, text)
        for row, text in enumerate(texts.texts.to_pylist())
    ]


def judged(values, path, schemas):
    registered = Registered(None, {n: AvroSchema.of([json.dumps(s)]) for n, s in schemas.items()})
    return [in_frame(value, value_field({"avro": path}), registered) for value in values]


def some(rng):
    order = {
        "id": rng.choice(["", "K1", "é"]),
        "seq": rng.choice([0, -1, 2**62, rng.randrange(99)]),
    }
    tree = {"next": None}
    for _ in range(rng.randrange(4)):
        tree = {"next": tree}
    return {
        "first": rng.randrange(-(2**31), 2**31), "nothing": None, "flag": rng.random() < 0.5,
        "at": rng.randrange(2**40), "price": rng.choice([None, 1.5, b"abc"]), "kind": "y",
        "tree": tree, "map": {"k" * n: 1.0 for n in range(rng.randrange(3))},
        "orders": [order] * rng.randrange(4), "empty": [None] * rng.randrange(9),
        "raw": rng.randbytes(rng.randrange(5)), "maybe": rng.choice([None, order]), "last": order,
        "fixed": b"xyz",
    }  # fmt: skip


def mutated(rng, value):
    value = bytearray(value)
    for _ in range(rng.choice([0, 1, 3])):
        at = rng.randrange(5, len(value))
        change = rng.randrange(3)
        if change == 0:
            value[at] = rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])
        elif change == 1:
            del value[at : at + rng.randrange(4)]
        else:
            value[at:at] = rng.choice([b"\xff" * 9, b"\x80" * 12, b"\0", b"\x02"])
    return bytes(value)


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_what_was_written_is_read_and_mutated_bytes_as_the_judge_reads_them(seed):
    rng = random.Random(seed)
    whole = [some(rng) for _ in range(50)]
    values = [framed(EVERYTHING, each) for each in whole]
    schemas = known({7: EVERYTHING})
    assert read(values, "at", schemas) == [(True, b"%d" % each["at"]) for each in whole]
    assert read(values, "raw", schemas) == [(True, each["raw"]) for each in whole]
    assert read(values, "last.id", schemas) == [(True, w["last"]["id"].encode()) for w in whole]
    assert read(values, "maybe.seq", schemas) == [
        (w["maybe"] is not None, w["maybe"] and b"%d" % w["maybe"]["seq"]) for w in whole
    ]
    broken = [*values, *(mutated(rng, rng.choice(values)) for _ in range(150)), None]
    for path in PATHS:
        assert read(broken, path, schemas) == judged(broken, path, {7: EVERYTHING}), path


def test_schemas_that_evolve_each_value_by_its_own():
    later = {**ORDER, "fields": [{"name": "new", "type": "string"}, *reversed(ORDER["fields"])]}
    gone = {**ORDER, "fields": ORDER["fields"][:1]}
    schemas = {1: ORDER, 2: later, 3: gone}
    values = [
        framed(ORDER, {"id": "a", "seq": 5}, 1),
        framed(later, {"new": "x", "id": "a", "seq": 6}, 2),
        framed(gone, {"id": "a"}, 3),
        framed(ORDER, {"id": "a", "seq": 7}, 1),
    ]
    expected = [(True, b"5"), (True, b"6"), (False, None), (True, b"7")]
    assert read(values, "seq", known(schemas)) == expected == judged(values, "seq", schemas)


def test_a_schema_that_nobody_was_told_of_is_asked_for():
    values = pa.array([framed(ORDER, {"id": "a", "seq": 5}, n) for n in (9, 8, 7, 8)], pa.binary())
    schemas = Schemas(known({7: ORDER}).known, {9})
    with pytest.raises(SchemasNeeded) as asked:
        read_avro(values, "seq", ("seq",), schemas)
    assert ids_needed(asked.value) == [8]
    told = Schemas(schemas.known, {8, 9})
    texts = read_avro(values, "seq", ("seq",), told)
    assert texts.texts.to_pylist() == [None, None, b"5", None]
    assert texts.faults[1] == "the registry does not know schema 8"
    many = pa.array([b"\0" + struct.pack(">I", n) for n in range(NEEDED_MAX + 5)], pa.binary())
    with pytest.raises(SchemasNeeded) as asked:
        read_avro(many, "seq", ("seq",), schemas)
    assert len(ids_needed(asked.value)) == NEEDED_MAX


def test_what_no_schema_is_needed_for():
    values = pa.array(
        [None, b"", b"\0\0\0", b"\1\0\0\0\7\2", b"\0" + struct.pack(">I", ID_MAX + 1)]
    )
    texts = read_avro(values.cast(pa.binary()), "seq", ("seq",), Schemas())
    unknown = f"the registry does not know schema {ID_MAX + 1}"
    assert texts.faults == {**dict.fromkeys((1, 2, 3), UNFRAMED), 4: unknown}


def test_a_value_is_read_as_deep_as_the_limit():
    nested = {"type": "record", "name": "T", "fields": [{"name": "tree", "type": TREE}, {"name": "seq", "type": "int"}]}  # fmt: skip
    values = [
        b"\0\0\0\0\7" + b"\2" * (depth - 1) + b"\0" + b"\4"
        for depth in (DEPTH_MAX // 2 - 1, DEPTH_MAX // 2, DEPTH_MAX * 1000)
    ]
    found = read(values, "seq", known({7: nested}))
    assert found == judged(values, "seq", {7: nested}) == [(True, b"2"), (True, None), (True, None)]


@pytest.mark.parametrize("kind", [{"type": "array"}, {"type": "map"}])
def test_arrays_and_maps_nest_as_deep_as_the_limit(kind):
    """Of a schema in which few records nest: beyond Python's stack a task would fail again and again."""
    inner, levels = "Deep", 12
    for _ in range(levels):
        inner = {**kind, "items": inner, "values": inner}
    fields = [{"name": "a", "type": {"type": "record", "name": "Deep", "fields": [{"name": "d", "type": inner}]}}, {"name": "seq", "type": "int"}]  # fmt: skip
    schema = {"type": "record", "name": "T", "fields": fields}
    one = b"\2" + b"\0" * (kind["type"] == "map")
    rounds = (1, (DEPTH_MAX - 2) // (levels + 1), (DEPTH_MAX - 2) // (levels + 1) + 1, 90)
    values = []
    for each in rounds:
        nested = b"\0"
        for _ in range(each):
            nested = one * levels + nested + b"\0" * levels
        values.append(b"\0\0\0\0\7" + nested + b"\4")
    found = read(values, "seq", known({7: schema}))
    assert found == judged(values, "seq", {7: schema})
    assert found == [(True, b"2"), (True, b"2"), (True, None), (True, None)]


def test_a_schema_s_unions_are_read_once():
    """A field below a union of a thousand records, whose field is that union again: else 10^18."""
    fields = [{"name": "a", "type": ["null", *["Wide"] * 1_000]}, {"name": "seq", "type": "int"}]
    wide = {"type": "record", "name": "Wide", "fields": fields}
    values = [b"\0\0\0\0\7" + b"\2" * 6 + b"\0\4"]
    path = "a.a.a.a.a.a.seq"
    assert read(values, path, known({7: wide})) == judged(values, path, {7: wide}) == [(True, b"2")]


@pytest.mark.parametrize(
    "text",
    ["", "{", "3", "[]x", '"unknown"', '{"type": "record"}', '{"type": "array"}', '{"name": "a"}',
     '{"type": "record", "name": "T", "fields": [{"name": "a", "type": "Nope"}]}',
     '{"type":' * 3000 + '"int"' + "}" * 3000],
)  # fmt: skip
def test_what_is_no_schema(text):
    with pytest.raises(BadSchema):
        require_avro(Schema("AVRO", text))
    schemas = Schemas({7: Schema("AVRO", text).packed()})
    assert read([b"\0\0\0\0\7\2"], "a", schemas) == [(True, None)]
    with pytest.raises(Unreadable):
        AvroSchema.of([text])


def test_attributes_that_avro_does_not_know():
    """A schema may have any, also with names that mean something in another type."""
    kind = {"type": "enum", "name": "E", "symbols": ["x", "y"], "values": {"x": 1}, "items": 3}
    unit = {"type": "string", "fields": [{"label": "kg"}], "values": [{"unit": "kg"}]}
    counts = {"type": "map", "values": "long", "items": "string", "fields": [0]}
    fields = [{"name": "kind", "type": kind}, {"name": "unit", "type": unit}, {"name": "counts", "type": counts}, {"name": "seq", "type": "long"}]  # fmt: skip
    schema = {"type": "record", "name": "T", "items": [3], "fields": fields}
    values = [framed(schema, {"kind": "y", "unit": "kg", "counts": {"a": 3}, "seq": 5})]
    for path, expected in (("seq", b"5"), ("kind", b"y"), ("unit", b"kg")):
        assert read(values, path, known({7: schema})) == [(True, expected)]
        assert judged(values, path, {7: schema}) == [(True, expected)]


def test_an_empty_namespace_is_none():
    """Two types of one name, one of them in the namespace of the record around it."""
    outer = {"type": "record", "name": "T", "namespace": "", "fields": [{"name": "n", "type": "string"}]}  # fmt: skip
    inner = {"type": "record", "name": "T", "fields": [{"name": "seq", "type": "long"}]}
    fields = [{"name": "a", "type": outer}, {"name": "b", "type": inner}, {"name": "c", "type": "T"}]  # fmt: skip
    schema = {"type": "record", "name": "Whole", "namespace": "x", "fields": fields}
    values = [framed(schema, {"a": {"n": "text"}, "b": {"seq": 5}, "c": {"seq": 6}})]
    for path, expected in (("a.n", b"text"), ("b.seq", b"5"), ("c.seq", b"6")):
        assert read(values, path, known({7: schema})) == [(True, expected)]
        assert judged(values, path, {7: schema}) == [(True, expected)]


def test_a_schema_of_nothing_costs_nothing():
    """Types that take no byte, doubled forty times, and arrays of them with any count."""
    last = {"type": "record", "name": "R0", "fields": [{"name": "n", "type": "null"}]}
    for level in range(1, 40):
        fields = [{"name": "a", "type": last}, {"name": "b", "type": f"R{level - 1}"}]
        last = {"type": "record", "name": f"R{level}", "fields": fields}
    many = {"type": "record", "name": "T", "fields": [{"name": "a", "type": {"type": "array", "items": last}}, {"name": "seq", "type": "int"}]}  # fmt: skip
    value = b"\0\0\0\0\7" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\0\4"
    assert read([value], "seq", known({7: many})) == [(True, b"2")]
    assert judged([value], "seq", {7: many}) == [(True, b"2")]


def test_another_kind_of_schema_and_one_that_cannot_be_used():
    schemas = Schemas(
        {7: Schema("JSON").packed(), 8: Schema("AVRO", unusable="it is odd").packed()}
    )
    values = pa.array([b"\0\0\0\0\7{}", b"\0\0\0\0\x08"], pa.binary())
    assert read_avro(values, "a", ("a",), schemas).faults == {
        0: "schema 7 cannot be used: it is of JSON, not of AVRO",
        1: "schema 8 cannot be used: it is odd",
    }


@pytest.mark.parametrize("name", ["\ud800", "x" * 1_000_000, "\x1b[2J\n"])
def test_what_is_said_of_a_schema_can_be_a_header(name):
    """Each reject says it; a schema may have any text."""
    with pytest.raises(BadSchema, match="it does not define") as found:
        require_avro(Schema("AVRO", json.dumps(name)))
    schemas = Schemas({7: Schema("AVRO", unusable=str(found.value)).packed()})
    texts = read_avro(pa.array([b"\0\0\0\0\7"], pa.binary()), "a", ("a",), schemas)
    assert texts.faults[0].isprintable()
    assert len(texts.faults[0]) < 300
    assert texts.as_labels(texts.faults).to_pylist()[0].decode(errors="replace")


@pytest.mark.parametrize("size", ["1e999", "null", '"many"'])
def test_a_size_that_is_none(size):
    fields = [{"name": "f", "type": {"type": "fixed", "name": "F", "size": "SIZE"}}, {"name": "seq", "type": "int"}]  # fmt: skip
    schema = json.dumps({"type": "record", "name": "T", "fields": fields})
    text = schema.replace('"SIZE"', size)
    with pytest.raises(BadSchema):
        require_avro(Schema("AVRO", text))
    registered = Registered(None, {7: AvroSchema.of([text])})
    field = value_field({"avro": "seq"})
    assert in_frame(b"\0\0\0\0\7abc", field, registered) == (True, None)

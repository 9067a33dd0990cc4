"""Fields of values in Protobuf: what its runtime writes, what the judge reads, any bytes."""

import random
import struct

import pyarrow as pa
import pytest

from streaming.settings.fields import value_field
from streaming.values.framing import BadSchema
from streaming.values.schemas import Schemas
from streaming.verify.values import Registered, in_frame
from tests.seeds import seeds

TIMES = 'syntax = "proto3"; package t; message Time { int64 ms = 1; }'
SHOP = """
syntax = "proto3";
package shop;
import "times.proto";
import "google/protobuf/timestamp.proto";
enum Kind { BUY = 0; SELL = 1; }
message Order {
  message Line { string sku = 1; Line inner = 2; int32 n = 3; }
  string id = 1; int64 seq = 2; Line line = 3; optional uint32 maybe = 4; Kind kind = 5;
  bytes raw = 6; repeated int32 many = 7; map<string, Line> map = 8; bool flag = 9; double price = 10;
  oneof one { string text = 11; Line other = 12; sint64 zigzag = 13; }
  fixed64 wide = 14; sfixed32 small = 15; t.Time time = 16; google.protobuf.Timestamp at = 17; int32 int = 18;
  sint32 zag = 19;
}
message Second { string id = 1; int64 seq = 2; }
"""
OLD = """
syntax = "proto2";
message Old {
  required int64 seq = 1;
  enum Kind { A = 1; B = 2; }
  optional Kind kind = 2 [default = B];
  optional group G = 3 { optional string id = 4; }
  optional string name = 5 [default = "none"];
}
"""
PATHS = ("seq", "id", "line.sku", "line.inner.inner.sku", "line.n", "maybe", "kind", "raw", "many", "map.sku", "flag", "price", "text", "other.sku", "other.inner.sku", "zigzag", "wide", "small", "time.ms", "at.seconds", "at", "line", "int", "zag", "no", "seq.no", "line.no")  # fmt: skip
OLD_PATHS = ("seq", "kind", "g.id", "name", "g")

_known = {}


def schema(text, references=()):
    from streaming.values.protobuf_files import compiled

    if text not in _known:
        _known[text] = compiled(text, dict(references))
    return _known[text]


def shop():
    return schema(SHOP, [("times.proto", TIMES)])


def message(of, name):
    from google.protobuf import message_factory

    from streaming.values.protobuf_values import file_of

    return message_factory.GetMessageClass(file_of(of).message_types_by_name[name])


def framed(content, indexes=b"\0", number=7):
    return b"\0" + struct.pack(">I", number) + indexes + content


def read(values, path, of):
    from streaming.values.protobuf_values import read_protobuf

    steps = tuple(path.split("."))
    texts = read_protobuf(pa.array(values, pa.binary()), path, steps, Schemas({7: of.packed()}))
    return [
        (True, None) if row in texts.faults else (text is not None, text)
        for row, text in enumerate(texts.texts.to_pylist())
    ]


def judged(values, path, of):
    from streaming.values.protobuf_values import file_of
    from streaming.verify.protobuf import ProtobufSchema

    registered = Registered(None, {7: ProtobufSchema(file_of(of))})
    return [in_frame(value, value_field({"protobuf": path}), registered) for value in values]


def some(rng):
    order = message(shop(), "Order")()
    line = {"sku": rng.choice(["", "a", "é"]), "n": rng.choice([0, -1, 5]), "inner": {"sku": "in"}}
    parts = {
        "id": rng.choice(["", "K1"]), "seq": rng.choice([0, 7, -1, 2**63 - 1]), "line": line,
        "maybe": rng.choice([0, 2**32 - 1]), "kind": rng.choice([0, 1, 9]), "raw": b"\xff\0",
        "many": [1, 2], "map": {"k": line}, "flag": True, "price": 1.5, "wide": 2**64 - 1,
        "small": -(2**31), "time": {"ms": 5}, "at": {"seconds": 3}, "int": -5, "zag": -(2**31),
        **rng.choice([{"text": "t"}, {"other": line}, {"zigzag": -(2**63)}]),
    }  # fmt: skip
    for name in rng.sample(sorted(parts), rng.randrange(len(parts))):
        order.MergeFrom(type(order)(**{name: parts[name]}))
    return order


def mutated(rng, values):
    value = bytearray(rng.choice(values))
    if rng.random() < 0.3:  # two messages in one: fields come twice
        value += rng.choice(values)[6:]
    for _ in range(rng.choice([0, 1, 2])):
        at = rng.randrange(5, len(value) + 1)
        change = rng.randrange(3)
        if change == 0 and at < len(value):
            value[at] = rng.randrange(256)
        elif change == 1:
            del value[at : at + rng.randrange(4)]
        else:
            value[at:at] = rng.choice(
                [b"\xff" * 9 + b"\1", b"\x80" * 12, b"\x0b", b"\x0c", b"\x10\xff\xff\xff\xff\xff\1"]
            )
    return bytes(value)


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_what_was_written_is_read_and_mutated_bytes_as_the_judge_reads_them(seed):
    rng = random.Random(seed)
    orders = [some(rng) for _ in range(60)]
    values = [framed(each.SerializeToString()) for each in orders]
    assert read(values, "seq", shop()) == [(True, b"%d" % each.seq) for each in orders]
    assert read(values, "id", shop()) == [(True, each.id.encode()) for each in orders]
    assert read(values, "line.sku", shop()) == [
        (each.HasField("line"), each.line.sku.encode() if each.HasField("line") else None)
        for each in orders
    ]
    broken = [*values, *(mutated(rng, values) for _ in range(150)), None, b"", b"\0\0\0\0\7"]
    for path in PATHS:
        assert read(broken, path, shop()) == judged(broken, path, shop()), path


@pytest.mark.parametrize("seed", seeds(2, 50))
def test_the_older_syntax(seed):
    rng = random.Random(seed)
    old = schema(OLD)
    kind = message(old, "Old")
    values = []
    for _ in range(40):
        one = kind(seq=rng.randrange(9))
        if rng.random() < 0.5:
            one.kind = 1
        if rng.random() < 0.5:
            one.g.id = "in a group"
        values.append(framed(one.SerializeToString()))
    broken = [*values, *(mutated(rng, values) for _ in range(150)), framed(b"\x08\1\x10\7")]
    for path in OLD_PATHS:
        assert read(broken, path, old) == judged(broken, path, old), path
    assert read([framed(b"")], "seq", old) == [(False, None)], "its runtime requires nothing"
    assert read([framed(b"\x08\1")], "kind", old) == [(False, None)], "a default is not there"


@pytest.mark.parametrize(
    ("indexes", "said"),
    [
        (b"\0", (True, b"5")),
        (b"\2\0", (True, b"5")),
        (b"\2\2", (True, b"5")),
        (b"\2\4", (True, None)),
        (b"\2\1", (True, None)),
        (b"\1", (True, None)),
        (b"\4\0\0", (False, None)),
        (b"\4\0\4", (True, None)),
        (b"\x7f" * 3, (True, None)),
        (b"", (True, None)),
    ],
)
def test_which_message_of_the_file_it_is(indexes, said):
    value = framed(b"\x10\5" if indexes else b"", indexes)
    assert read([value], "seq", shop()) == [said] == judged([value], "seq", shop())


def test_a_field_s_kinds():
    value = framed(message(shop(), "Order")(seq=0, kind=1).SerializeToString())
    for path, said in {
        "seq": (True, b"0"), "kind": (True, b"SELL"), "maybe": (False, None), "id": (True, b""),
        "flag": (True, None), "price": (True, None), "many": (True, None), "line": (False, None),
        "line.sku": (False, None), "map.sku": (False, None), "no": (False, None),
    }.items():  # fmt: skip
        assert read([value], path, shop()) == [said], path


AS_REGISTRIES_WRITE = """
syntax = "proto3";
package shop;
import "confluent/meta.proto";
import "confluent/types/decimal.proto";
import "google/type/date.proto";
message Order {
  option (confluent.message_meta) = { doc: "an order", tags: ["PII"] };
  repeated .shop.Order.TagsEntry tags = 1;
  confluent.type.Decimal price = 2 [(confluent.field_meta) = { params: [
    { value: "8", key: "precision" }, { value: "3", key: "scale" }
  ] }];
  google.type.Date day = 3;
  int64 seq = 4;
  message TagsEntry { option map_entry = true; string key = 1; string value = 2; }
}
"""


def test_schemas_as_registries_write_them():
    """With maps written out, and imports that no schema names among its references."""
    of = schema(AS_REGISTRIES_WRITE)
    order = message(of, "Order")(seq=7)
    order.tags.add(key="colour", value="red")
    order.price.precision, order.price.scale, order.price.value = 8, 3, b"\x01"
    order.day.year = 2026
    values = [framed(order.SerializeToString())]
    for path, expected in (("seq", b"7"), ("price.scale", b"3"), ("day.year", b"2026")):
        assert read(values, path, of) == [(True, expected)] == judged(values, path, of)
    assert read(values, "tags.key", of) == [(False, None)] == judged(values, "tags.key", of)


def test_every_known_import():
    from streaming.values.known_files import KNOWN_FILES

    for path in KNOWN_FILES:
        schema(f'syntax = "proto3"; import "{path}"; message M {{ int64 seq = 1; }}')


def test_nested_without_an_end():
    deep = b""
    for _ in range(150):
        size = len(deep)
        deep = (
            b"\x12"
            + (bytes([size]) if size < 128 else bytes([size % 128 + 128, size // 128]))
            + deep
        )
    size = bytes([len(deep) % 128 + 128, len(deep) // 128])
    values = [framed(b"\x1a" + size + deep), framed(b"\x0b" * 100_000)]
    assert read(values, "seq", shop()) == [(True, None)] * 2 == judged(values, "seq", shop())


@pytest.mark.parametrize(
    ("text", "references", "why"),
    [
        ("message {", {}, "protoc refuses it: value.proto:1:9: Expected message name."),
        (
            "message M {" + "".join(f"optional string f{n} = {n};" for n in range(1, 5000)) + "}",
            {},
            "Message size exceeded",
        ),
        ('syntax = "proto3"; import "no.proto";', {}, "protoc refuses it: no.proto"),
        ("", {"../evil.proto": ""}, "'../evil.proto' is not the name of a file"),
        ("", {"/evil.proto": ""}, "'/evil.proto' is not the name of a file"),
        ("", {"a": "", "a/b.proto": ""}, "cannot be a file"),
    ],
)
def test_what_is_no_schema(text, references, why):
    from streaming.values.protobuf_files import compiled

    with pytest.raises(BadSchema) as refused:
        compiled(text, references)
    assert why in str(refused.value)

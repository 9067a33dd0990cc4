"""Encoded batches against kafka-python's decoder, which knows nothing of the encoder."""

import struct
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.arrow.pieces import varints
from streaming.arrow.schemas import HEADERS
from streaming.wire import record_batch
from streaming.wire.blocks import blocked
from streaming.wire.compression import compressed
from streaming.wire.record_batch import batches, next_sequence
from tests.seeds import examples
from tests.streaming.wire.reading import read

NOW_MS = 1_700_000_000_000
FRAME = 11  # a frame's own bytes

maybe_bytes = st.none() | st.binary(max_size=40) | st.sampled_from([b"", b"x" * 200, b"y" * 20_000])
names = st.text(max_size=12) | st.just("a\0b") | st.just("é" * 70)
header = st.fixed_dictionaries({"key": names, "value": maybe_bytes})
row = st.fixed_dictionaries(
    {
        "key": maybe_bytes,
        "value": maybe_bytes,
        "headers": st.none() | st.lists(header, max_size=4),
        "timestamp": st.integers(0, 2**52) | st.integers(-1, 2),
        "partition": st.integers(0, 3),
        "number": st.none() | st.integers(-(2**63), 2**63 - 1),
        "text": st.none() | st.text(max_size=8),
    }
)
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "timestamp": pa.int64(),
    "number": pa.int64(),
    "text": pa.string(),
}


def column(name, rows, *, shared):
    array = pa.array([each[name] for each in rows], TYPES[name])
    if not shared:
        return array
    if shared == "by value" or name == "headers":  # Arrow makes no dictionaries of lists
        return pa.DictionaryArray.from_arrays(pa.array(range(len(rows)), pa.int32()), array)
    return array.dictionary_encode()


def expected(rows, added):
    """By partition, in order: what a reader must find."""
    found = {}
    for each in rows:
        own = [(pair["key"], pair["value"]) for pair in each["headers"] or []]
        more = [(name, str(each[name]).encode()) for name in added if each[name] is not None]
        record = (each["timestamp"], each["key"], each["value"], own + more)
        found.setdefault(each["partition"], []).append(record)
    return found


def encode(rows, *, shared=MappingProxyType({}), added=("number", "text"), blocks=False):
    table = pa.table(
        {
            name: column(name, rows, shared=shared.get(name))
            for name in ("key", "value", "headers", "timestamp")
        }
    )
    table = blocked(table, 150) if blocks else table
    more = [(name, column(name, rows, shared=shared.get(name))) for name in added]
    partitions = np.array([each["partition"] for each in rows], np.int32)
    return list(batches(table, partitions, more, NOW_MS))


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4"])
@settings(max_examples=examples(80), deadline=None)
@given(
    rows=st.lists(row, min_size=1, max_size=30),
    shared=st.dictionaries(st.sampled_from(list(TYPES)), st.sampled_from(["by value", "by index"])),
    body_bytes_max=st.sampled_from([1, 300, 50_000, 1_000_000]),
    encoded_bytes_max=st.sampled_from([1, 500, 2**25]),
    blocks=st.booleans(),
)
def test_a_reader_finds_the_rows(
    compression, rows, shared, body_bytes_max, encoded_bytes_max, blocks
):
    blocks = blocks and compression == "lz4"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batch, "BODY_BYTES_MAX", body_bytes_max)
        patch.setattr(record_batch, "ENCODED_BYTES_MAX", encoded_bytes_max)
        made = encode(rows, shared=shared, blocks=blocks)
    found = {}
    sequence = 2**31 - 3
    for each in made:
        encoded = each.compressed(compression).finished((77, 5), sequence, transactional=True)
        records, batch = read(encoded)
        assert batch.base_sequence == sequence
        assert (batch.producer_id, batch.producer_epoch) == (77, 5)
        assert batch.is_transactional
        assert batch.base_offset == 0
        assert batch.last_offset_delta == len(records) - 1 == each.count - 1
        assert batch.max_timestamp == max(record[0] for record in records)
        assert each.count == 1 or each.body.size <= body_bytes_max + FRAME * blocks
        sequence = next_sequence(sequence, len(records))
        found.setdefault(each.partition, []).extend(records)
    assert found == expected(rows, ["number", "text"])


def test_slices_of_tables_and_chunks():
    rows = [
        {
            "key": b"k%d" % n,
            "value": b"v" * n,
            "headers": None if n % 3 else [{"key": "h", "value": b"%d" % n}] * n,
            "timestamp": 5 - n,
            "partition": n % 2,
            "number": n or None,
            "text": None,
        }
        for n in range(20)
    ]
    for shared in ((), ("key", "value", "headers", "number")):
        whole = pa.table(
            {
                name: column(name, rows, shared=name in shared)
                for name in ("key", "value", "headers", "timestamp", "number")
            }
        )
        parts = pa.concat_tables([whole.slice(3, 4), whole.slice(7, 0), whole.slice(7, 9)])
        partitions = np.array([each["partition"] for each in rows[3:16]], np.int32)
        number = parts["number"].combine_chunks()
        number = number.chunk(0) if isinstance(number, pa.ChunkedArray) else number
        made = batches(parts.drop_columns(["number"]), partitions, [("number", number)], NOW_MS)
        found = {
            each.partition: read(each.finished((1, 0), 0, transactional=False))[0] for each in made
        }
        assert found == expected(rows[3:16], ["number"])


def test_no_rows_make_no_batches():
    assert encode([]) == []


def test_null_headers_that_own_bytes_have_none():
    pairs = pa.array([{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}], HEADERS.value_type)
    bounds, none = pa.array([0, 1, 2], pa.int32()), pa.array([True, False])
    table = pa.table(
        {
            "key": pa.array([b"", None], pa.binary()),
            "value": pa.array([None, b""], pa.binary()),
            "headers": pa.ListArray.from_arrays(bounds, pairs, mask=none),
        }
    )
    (made,) = batches(table, np.zeros(2, np.int32), [], NOW_MS)
    records, batch = read(made.compressed("lz4").finished((1, 0), 0, transactional=False))
    assert records == [(NOW_MS, b"", None, []), (NOW_MS, None, b"", [("b", b"2")])]
    assert not batch.is_transactional


def test_a_record_larger_than_a_batch_stands_alone():
    sizes = [10, 1_500_000, 10, 999_960, 10]
    rows = [
        {"key": None, "value": bytes(size), "headers": None, "timestamp": 1, "partition": 0}
        for size in sizes
    ]
    made = encode(rows, added=())
    assert [each.count for each in made] == [1, 1, 1, 1, 1]
    assert [each.body.size > record_batch.BODY_BYTES_MAX for each in made].count(True) == 1


def decoded(data):
    """The zigzag varints in the bytes, one at a time."""
    numbers, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number // 2 if number % 2 == 0 else -(number + 1) // 2)
            number, shift = 0, 0
    return numbers


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70), max_size=20))
def test_varints(numbers):
    assert [decoded(each) for each in varints(np.array(numbers, np.int64)).to_pylist()] == [
        [number] for number in numbers
    ]
    turned = np.array(numbers[::-1], np.int64)
    assert [decoded(each) for each in varints(np.array(numbers, np.int64), turned).to_pylist()] == [
        [number, other] for number, other in zip(numbers, reversed(numbers), strict=True)
    ]


def test_lz4_frames_have_independent_blocks_and_any_size():
    """Kafka's Java readers refuse linked blocks; lz4's own decoder reads what it is told."""
    import lz4.frame

    noise = np.random.default_rng(0).bytes(5_000_000)
    for body in (
        b"",
        b"x",
        noise[:65_536],
        b"ab" * 40_000,
        noise[:70_000],
        noise,
        bytes(9_000_000),
    ):
        frame = compressed(pa.py_buffer(body), "lz4").to_pybytes()
        magic, flags = struct.unpack_from("<IB", frame)
        assert magic == 0x184D2204
        assert flags & 0x20
        assert lz4.frame.decompress(frame) == body

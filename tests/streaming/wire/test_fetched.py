"""Record batches as kafka-python writes them, read as a broker gives them out."""

import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from streaming.wire import record_columns
from streaming.wire.decompression import decompressed
from streaming.wire.fetched import Unreadable, heads_in
from tests.seeds import examples
from tests.streaming.wire.batches import (
    PLAIN,
    batch,
    finished,
    marker,
    old_messages,
    read,
    rows_of,
    with_checksum,
)

maybe_bytes = st.none() | st.binary(max_size=20) | st.sampled_from([b"", b"x" * 200, b"y" * 20_000])
header = st.tuples(st.text(max_size=5) | st.just("é" * 70), maybe_bytes)
record = st.fixed_dictionaries(
    {
        "key": maybe_bytes,
        "value": maybe_bytes,
        "headers": st.lists(header, max_size=3) | st.just([("h", b"1")] * 40),
        "timestamp": st.integers(0, 2**52) | st.integers(0, 2),
    }
)


@settings(max_examples=examples(150), deadline=None)
@given(
    batches=st.lists(
        st.tuples(st.lists(record, min_size=1, max_size=8), st.sampled_from(PLAIN)), max_size=6
    ),
    bytes_max=st.sampled_from([1, 500, 2**23]),
    few=st.sampled_from([1, 2, 16]),
    within=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    cut=st.integers(0, 60),
)
def test_what_was_written_is_read(batches, bytes_max, few, within, cut):
    data, expected, first = b"", [], 100
    for records, compression in batches:
        data += batch(records, first, compression)
        expected += rows_of(records, first)
        first += len(records)
    begin, stop = 100 + min(within), 100 + max(within)
    whole = data
    if len(batches) > 1 and cut:  # the last batch is not there as a whole
        whole = data[:-cut]
        expected = expected[: -len(batches[-1][0])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_columns, "FEW", few)
        patch.setattr(record_columns, "FEW_BATCHES", few)
        assert read(whole, bytes_max=bytes_max) == expected
        if expected and begin <= expected[-1]["offset"]:
            some = read(whole, first=begin, stop=stop, bytes_max=bytes_max)
            assert some == [row for row in expected if begin <= row["offset"] < stop]


@settings(max_examples=examples(100), deadline=None)
@given(
    script=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["write", "write", "commit", "abort"])),
        max_size=25,
    )
)
def test_what_was_aborted_is_not_read(script):
    """Three producers write by turns; producer 0 without transactions."""
    data, expected, aborted, first = b"", [], [], 0
    opened = {}
    for producer, what in script:
        if what == "write" or producer == 0:
            each = {"key": b"", "value": b"%d" % first, "headers": [], "timestamp": 1}
            data += batch([each], first, transactional=producer > 0, producer=producer)
            if producer == 0:
                expected.append(first)
            else:
                opened.setdefault(producer, []).append(first)
        elif producer in opened:
            data += marker(first, producer, abort=what == "abort")
            mine = opened.pop(producer)
            if what == "abort":
                aborted.append((producer, mine[0]))
            else:
                expected += mine
        else:
            continue
        first += 1
    # What is open yet is not given out by a broker; here it ends with the data.
    still = sorted(offset for mine in opened.values() for offset in mine)
    stop = still[0] if still else first
    found = [row["offset"] for row in read(data, stop=stop, aborted=aborted)]
    assert found == sorted(offset for offset in expected if offset < stop)


def test_a_transaction_that_began_before():
    """The broker tells of it; its marker ends it, and what the producer writes then counts."""
    each = {"key": b"", "value": b"", "headers": [], "timestamp": 1}
    data = batch([each], 7, transactional=True, producer=1) + marker(8, 1, abort=True)
    data += batch([each], 9, transactional=True, producer=1) + marker(10, 1, abort=False)
    assert [row["offset"] for row in read(data, first=7, aborted=[(1, 3)])] == [9]


def test_a_batch_with_gaps():
    """Compaction takes records out of batches, sometimes all of them."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, 0, -1, 2**20)
    builder.append(0, 5, b"a", b"", [])
    builder.append(9, 5, b"b", b"", [])
    data = with_checksum(finished(builder.build(), 50, last_delta=12))
    empty = bytearray(finished(builder.build()[:61], 63, last_delta=4))
    struct.pack_into(">i", empty, 8, 49)
    struct.pack_into(">i", empty, 57, 0)
    data += with_checksum(empty)
    assert [head.last for head in heads_in(data)] == [62, 67]
    assert [row["offset"] for row in read(data)] == [50, 59]


def test_the_brokers_own_time():
    each = {"key": b"", "value": b"", "headers": [], "timestamp": 1}
    data = bytearray(batch([each, {**each, "timestamp": 9}], 0))
    struct.pack_into(">h", data, 21, 0x08)
    struct.pack_into(">q", data, 35, 77)
    assert [row["timestamp"] for row in read(with_checksum(data))] == [77, 77]


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_a_changed_bit_is_found(data):
    each = {"key": b"key", "value": b"value" * 9, "headers": [("h", b"1")], "timestamp": 5}
    whole = bytearray(batch([each] * 3, 0, data.draw(st.sampled_from(PLAIN))))
    at = data.draw(st.integers(17, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(Unreadable) as raised:
        read(bytes(whole))
    assert raised.value.args[:3] == (4, 0, 0)


def test_a_batch_that_became_a_marker_is_not_passed_over():
    """One bit of the attributes, which the checksum covers, says that it has no records."""
    whole = bytearray(batch([{"key": b"k", "value": b"v", "headers": [], "timestamp": 5}], 0))
    whole[22] ^= 0x20
    with pytest.raises(Unreadable, match="checksum"):
        read(bytes(whole))


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_nonsense_with_a_right_checksum(data):
    """Either it can be read all the same, or it is said that it cannot; nothing else."""
    each = {"key": b"key", "value": b"value" * 9, "headers": [("h", b"1")] * 2, "timestamp": 5}
    whole = bytearray(batch([each] * 3, 0, data.draw(st.sampled_from(PLAIN))))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(61, len(whole) - 1))
        whole[at] = data.draw(st.sampled_from([0x00, 0x01, 0x7F, 0x80, 0xFF]))
    with pytest.MonkeyPatch.context() as patch:
        few = data.draw(st.sampled_from([1, 16]))
        patch.setattr(record_columns, "FEW", few)
        patch.setattr(record_columns, "FEW_BATCHES", few)
        try:
            found = read(with_checksum(whole))
        except Unreadable:
            return
    assert len(found) <= 3


def test_names_that_are_no_text():
    each = {"key": b"", "value": b"", "headers": [("abc", b"1")], "timestamp": 1}
    data = batch([each], 0).replace(b"abc", b"a\xffc")
    assert read(with_checksum(data))[0]["headers"] == [{"key": "a\ufffdc", "value": b"1"}]


@pytest.mark.parametrize("name", [b"abc", b"a\xffc"])
@pytest.mark.parametrize("few", [1, 16])
def test_a_header_without_a_name(name, few, monkeypatch):
    monkeypatch.setattr(record_columns, "FEW", few)
    headers = [("b", b"1"), ("abc", b"2")]
    data = batch([{"key": b"", "value": b"", "headers": headers, "timestamp": 1}], 0)
    at = data.index(b"\x02b")
    whole = bytearray(data.replace(b"abc", name))
    whole[at : at + 2] = b"\x01\x00"  # a size of -1, and a value of no bytes: "1" is left over
    with pytest.raises(Unreadable):
        read(with_checksum(whole))
    whole[at : at + 4] = b"\x01\x04\x021"  # of -1, and a value of two bytes
    told = read(with_checksum(whole))[0]["headers"]
    assert [each["key"] for each in told] == ["", name.decode(errors="replace")]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("appended", [True, False])
@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "xerial", "lz4"])
def test_old_formats(magic, compression, appended):
    """Brokers keep old segments as they are."""
    own_ms = 77 if appended else None
    old = old_messages(magic, range(3), compression, own_ms=own_ms)
    each = {"key": b"", "value": b"new", "headers": [], "timestamp": 7}
    found = read(old + batch([each], 3) + batch([each], 4), first=1, stop=4)
    assert [row["offset"] for row in found] == [1, 2, 3]
    assert [row["key"] for row in found] == [b"", None, b""]
    assert [row["value"] for row in found] == [None, b"v2", b"new"]
    old_ms = [77, 77] if appended else [1001, 1002]
    assert [row["timestamp"] for row in found] == (old_ms if magic else [-1, -1]) + [7]


def test_snappy():
    """Java's frames, and one block as others write it."""
    body = b"some bytes, some bytes, some bytes" * 1_000
    block = pa.Codec("snappy").compress(body).to_pybytes()
    framed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for part in (body[:20_000], body[20_000:]):
        packed = pa.Codec("snappy").compress(part).to_pybytes()
        framed += struct.pack(">i", len(packed)) + packed
    for each in (block, framed):
        assert decompressed(memoryview(each), "snappy") == body

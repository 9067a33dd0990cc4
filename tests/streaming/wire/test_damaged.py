"""Bytes that are not what they claim to be: an error with place and reason, in bounded time."""

import gzip
import random
import re
import struct
import zlib
from pathlib import Path

import lz4.frame
import pyarrow as pa
import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from streaming.wire import decompression
from streaming.wire.decompression import decompressed
from streaming.wire.fetched import Unreadable, fetched, tables
from tests.streaming.wire.batches import CODES, batch, finished, marker, read, with_checksum

RECORD = {"key": b"key", "value": b"value", "headers": [("h", b"1")], "timestamp": 5}
MIB = 2**20

pytestmark = pytest.mark.timeout(60)


def old_head(offset, length, magic):
    return struct.pack(">qiIb", offset, length, 0, magic)


def raised(data, **wanted):
    with pytest.raises(Unreadable) as found:
        read(data, **wanted)
    topic, partition, offset, why = found.value.args
    assert (topic, partition) == (4, 0)
    return offset, str(why)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (old_head(0, 5, 2), "format 2 and a length of 5 bytes"),
        (old_head(0, -12, 1) + bytes(100), "format 1 and a length of -12 bytes"),
        (old_head(0, 13, 0) + bytes(100), "format 0 and a length of 13 bytes"),
        (old_head(0, 0, 2) + bytes(100), "format 2 and a length of 0 bytes"),
        (old_head(0, 100, 3) + bytes(100), "format 3"),
        (old_head(0, 100, -1) + bytes(100), "format -1"),
        (old_head(-1, 14, 0) + bytes(100), "offsets 7 to -1"),
        (old_head(0, 2**31 - 1, 2) + bytes(100), "longer than the 117 bytes of the answer"),
        (b"\0" * 5, "longer than the 5 bytes of the answer"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_a_head_that_cannot_be(data, why, before):
    whole = batch([RECORD] * 7, 0) if before else b""
    if not before:
        why = why.replace("7 to", "0 to")
    elif "longer" in why:  # as a batch is that was cut off
        assert len(read(whole + data)) == 7
        return
    offset, found = raised(whole + data)
    assert offset == (7 if before else 0)
    assert why in found


def test_offsets_that_go_back():
    data = batch([RECORD] * 3, 10) + batch([RECORD], 12)
    assert raised(data) == (13, "it claims to have offsets 12 to 12")
    assert raised(finished(batch([RECORD], 5), 5, last_delta=-1))[0] == 0


def test_what_comes_is_not_what_was_asked_for():
    """Asked again it would be the same."""
    assert raised(batch([RECORD], 5), first=6) == (6, "the answer ends with offset 5")


@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("count", [2, 4, -1, 2**31 - 1])
def test_a_number_of_records_that_is_another(compression, count):
    data = bytearray(batch([RECORD] * 3, 7, compression))
    struct.pack_into(">i", data, 57, count)
    offset, why = raised(batch([RECORD] * 7, 0) + with_checksum(data))
    assert offset == 7
    assert "number" in why or f"{count:,} records" in why


@pytest.mark.parametrize("code", [5, 6, 7])
def test_an_unknown_compression(code):
    data = bytearray(batch([RECORD], 3))
    data[22] |= code
    assert raised(with_checksum(data)) == (3, f"compression {code} is unknown")


def test_a_marker_that_is_none():
    data = bytearray(marker(3, 1, abort=True))
    data[61:] = b"\xff" * (len(data) - 61)
    offset, why = raised(with_checksum(data))
    assert offset == 3
    assert "not a valid transaction marker" in why


BOMB = bytes(8 * MIB)


@pytest.mark.parametrize(
    ("compression", "packed"),
    [
        ("lz4", lz4.frame.compress(BOMB, store_size=False)),
        ("lz4", lz4.frame.compress(BOMB)),
        ("zstd", pa.Codec("zstd").compress(BOMB).to_pybytes()),
        ("gzip", gzip.compress(BOMB, mtime=0)),
        ("snappy", pa.Codec("snappy").compress(BOMB).to_pybytes()),
        ("snappy", b"\xff\xff\xff\xff\x0f" + bytes(20)),
        ("snappy", b"\xff" * 30),
    ],
)
def test_what_claims_to_be_huge(compression, packed, monkeypatch):
    monkeypatch.setattr(decompression, "_damaged", set())  # behind a damaged body it may be that
    with pytest.raises(ValueError, match=r"it claims [\d,]+ bytes, and can have [\d,]+"):
        decompressed(memoryview(packed), compression, MIB)
    whole = bytearray(batch([RECORD], 3))
    whole[22] |= CODES[compression]
    struct.pack_into(">i", whole, 8, 49 + len(packed))
    offset, why = raised(with_checksum(bytes(whole[:61]) + packed))
    assert offset == 3
    assert "cannot be decompressed" in why or "records" in why


def test_what_is_just_small_enough():
    body = bytes(range(256)) * 4_096
    packed = {
        "gzip": gzip.compress(body, mtime=0),
        "lz4": lz4.frame.compress(body, store_size=False),
        "snappy": pa.Codec("snappy").compress(body).to_pybytes(),
        "zstd": pa.Codec("zstd").compress(body).to_pybytes(),
    }
    for name, data in packed.items():
        assert decompressed(memoryview(data), name, MIB) == body
        with pytest.raises(ValueError, match="claims"):
            decompressed(memoryview(data), name, MIB - 1)


@pytest.mark.parametrize("compression", ["gzip", "lz4", "snappy", "zstd"])
@pytest.mark.parametrize("large", [True, False])
def test_what_was_cut_off(compression, large):
    limit = MIB if large else 2**29
    packed = {
        "gzip": gzip.compress(bytes(9_000), mtime=0),
        "lz4": lz4.frame.compress(b"ab" * 9_000, store_size=False),
        "snappy": b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 100) + bytes(50),
        "zstd": pa.Codec("zstd").compress(bytes(9_000)).to_pybytes(),
    }[compression]
    head = 19 if compression == "snappy" else 0  # of nothing nothing comes
    for end in range(head + 1, len(packed), 3):
        with pytest.raises(ValueError, match=r".+"):
            decompressed(memoryview(packed[:end]), compression, limit)


@pytest.mark.parametrize("compression", ["gzip", "lz4", "snappy", "zstd"])
def test_damaged_bytes_keep_no_memory(compression):
    body = bytes(range(256)) * 100
    packed = {
        "gzip": gzip.compress(body, mtime=0),
        "lz4": lz4.frame.compress(body, store_size=False),
        "snappy": pa.Codec("snappy").compress(body).to_pybytes(),
        "zstd": pa.Codec("zstd").compress(body).to_pybytes(),
    }[compression]
    damaged = bytearray(packed)
    damaged[len(packed) // 2 :] = b"\xff" * (len(packed) - len(packed) // 2)

    def grown(count):
        for _ in range(count):
            with pytest.raises(ValueError, match=r".+"):
                decompressed(memoryview(damaged), compression)
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = grown(200)
    assert grown(2_000) - before < 20 * MIB


def test_gzip_of_several_members():
    parts = [b"a" * 300_000, b"", b"b"]
    packed = b"".join(gzip.compress(part, mtime=0) for part in parts)
    assert decompressed(memoryview(packed), "gzip") == b"".join(parts)


@pytest.mark.parametrize("size", [-4, -100, 2**31 - 1])
def test_a_block_of_snappy_that_cannot_be(size):
    """A size of -4 would be read for ever."""
    packed = b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, size) + bytes(9)
    with pytest.raises(ValueError, match="a block of"):
        decompressed(memoryview(packed), "snappy")


def old(magic, compression="none", count=3):
    builder = LegacyRecordBatchBuilder(magic, CODES[compression], 2**20)
    for at in range(count):
        builder.append(at, 1_000 + at, b"k", b"v%d" % at)
    return bytes(builder.build())


def with_old_checksum(message):
    return message[:12] + struct.pack(">I", zlib.crc32(message[16:])) + message[16:]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_changed_bit_in_old_formats(magic, compression):
    """Of the checksum, or of what it covers."""
    message = old(magic, compression, count=1)
    for at in range(12, len(message)):
        changed = bytearray(message)
        changed[at] ^= 1
        if at != 16:  # the format, which says how long a head is
            assert raised(bytes(changed)) == (0, "its checksum does not match")


@pytest.mark.parametrize("magic", [0, 1])
def test_a_changed_bit_in_a_message_of_messages(magic):
    inner = bytearray(old(magic))
    inner[-1] ^= 1
    packed = gzip.compress(bytes(inner), mtime=0)
    head = struct.pack(">bb", magic, CODES["gzip"]) + (b"\0" * 8 if magic else b"")
    message = b"\0\0\0\0" + head + struct.pack(">ii", -1, len(packed)) + packed
    data = with_old_checksum(struct.pack(">qi", 2, len(message)) + message)
    assert raised(data) == (2, "its checksum does not match")


@pytest.mark.parametrize(
    ("attributes", "value", "why"),
    [
        (1, None, "has no value"),
        (1, b"", "the stream has no end"),
        (1, gzip.compress(b"", mtime=0), "is not a set of messages"),
        (1, gzip.compress(old(0), mtime=0), "is not a set of messages"),
        (1, gzip.compress(old(1, "gzip"), mtime=0), "is not a set of messages"),
        (1, gzip.compress(old(1)[:-1], mtime=0), "cannot be"),
        (1, gzip.compress(old_head(0, -12, 1) + bytes(40), mtime=0), "length of -12"),
        (2, b"\xff\xff\xff\xff\x0f", "claims"),
        (3, b"abc", "LZ4F"),
        (4, b"abc", "compression 4 is unknown"),
    ],
)
def test_messages_that_are_none(attributes, value, why):
    sized = struct.pack(">i", -1 if value is None else len(value)) + (value or b"")
    message = bytes(4) + struct.pack(">bbq", 1, attributes, 7) + struct.pack(">i", -1) + sized
    offset, found = raised(with_old_checksum(struct.pack(">qi", 9, len(message)) + message))
    assert offset == 9
    assert re.search(why, found), found


def test_every_batch_of_a_table_is_looked_at_for_the_one_that_is_damaged():
    good = batch([RECORD] * 3, 0)
    bad = bytearray(batch([RECORD] * 3, 3))
    bad[61] = 0x7F  # the first record's size
    part = fetched((4, 0), (0, 100), good + with_checksum(bad) + batch([RECORD], 6))
    with pytest.raises(Unreadable) as found:
        list(tables([part], 2**23))
    assert found.value.args[2] == 3


@pytest.fixture(params=[(), ("zstd",)], ids=["at first", "once bytes were damaged"])
def damaged_before(request, monkeypatch):
    """What the process has met."""
    monkeypatch.setattr(decompression, "_damaged", {*request.param})


@pytest.mark.usefixtures("damaged_before")
@pytest.mark.parametrize("size", [0, 3, 6_000, 3 * MIB])
def test_frames_of_zstd(size):
    body = random.Random(size).randbytes(size // 3) * 3
    frame = pa.Codec("zstd").compress(body).to_pybytes()
    assert decompressed(memoryview(frame), "zstd") == body
    assert decompressed(memoryview(frame + frame), "zstd") == 2 * body
    assert decompressed(memoryview(frame), "zstd", max(size, 1)) == body
    for bad in (frame[:-1], frame + b"xx", b"xx" + frame, b"\x00" * 40):
        with pytest.raises(ValueError, match=r"ZSTD|runcated"):
            decompressed(memoryview(bad), "zstd")
    far = bytes([*frame[:4], frame[4] & ~0x20, 0xFF, *frame[5:]])
    with pytest.raises(ValueError, match=r"too far|ZSTD|runcated"):
        decompressed(memoryview(far), "zstd")
    if size:
        with pytest.raises(ValueError, match="claims"):
            decompressed(memoryview(frame), "zstd", size - 1)


def test_damaged_frames_of_zstd_keep_no_memory(monkeypatch):
    monkeypatch.setattr(decompression, "_damaged", set())
    frame = pa.Codec("zstd").compress(b"value" * 99).to_pybytes()

    def refuse(count):
        for _ in range(count):
            with pytest.raises(ValueError, match="ZSTD"):
                decompressed(memoryview(frame[:-4] + b"\xff\xff\xff\xff"), "zstd")

    def resident_kib():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4

    refuse(100)
    before = resident_kib()
    refuse(3_000)
    assert resident_kib() - before < 8_000

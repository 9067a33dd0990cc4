"""Record batches as kafka-python writes them, as a broker stores them; and how ours reads them."""

import gzip
import struct
import zlib

import google_crc32c
import lz4.frame
import pyarrow as pa
from kafka.record.default_records import DefaultRecordBatchBuilder

from streaming.arrow.schemas import RECORD
from streaming.wire.compression import COMPRESSIONS
from streaming.wire.fetched import fetched, tables

CODES = {name: code for code, name in enumerate(COMPRESSIONS)}
PLAIN = ["none", "gzip", "lz4", "zstd"]


def finished(built, first, last_delta=None):
    """The batch from its first offset on, as the broker makes it; its CRC does not cover that."""
    data = bytearray(built)
    struct.pack_into(">q", data, 0, first)
    if last_delta is not None:
        struct.pack_into(">i", data, 23, last_delta)
    return bytes(data)


def with_checksum(data):
    data = bytearray(data)
    struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def batch(records, first, compression="none", *, transactional=False, producer=-1):
    code = CODES[compression] if compression != "zstd" else 0
    builder = DefaultRecordBatchBuilder(2, code, transactional, producer, 0, -1, 2**30)
    for at, each in enumerate(records):
        builder.append(at, each["timestamp"], each["key"], each["value"], each["headers"])
    data = finished(builder.build(), first)
    return data if compression != "zstd" else zstd(data)


def zstd(data):
    """kafka-python writes none."""
    head = bytearray(data[:61])
    body = pa.Codec("zstd").compress(data[61:]).to_pybytes()
    struct.pack_into(">i", head, 8, 49 + len(body))
    head[22] |= CODES["zstd"]
    return with_checksum(bytes(head) + body)


def marker(first, producer, *, abort):
    """What ends a transaction: one control record."""
    builder = DefaultRecordBatchBuilder(2, 0, True, producer, 0, -1, 2**20)
    builder.append(0, 0, struct.pack(">hh", 0, 0 if abort else 1), b"\0" * 6, [])
    data = bytearray(finished(builder.build(), first))
    (attributes,) = struct.unpack_from(">h", data, 21)
    struct.pack_into(">h", data, 21, attributes | 0x20)
    return with_checksum(data)


def old_messages(magic, offsets, compression=None, *, own_ms=None):
    """Messages of format 0 or 1, as one that is compressed, or as they are.

    ``own_ms``: the broker's time, which replaces each one's. Keys and values by turns are empty,
    null, and something.
    """
    every = list(offsets)
    base = every[0] if magic and compression else 0
    parts = [
        old_message(
            *(magic, offset - base, 1_000 + offset if own_ms is None or compression else own_ms),
            *([b"k", b"", None][at % 3], [b"", None, b"v%d" % offset][at % 3]),
            attributes=0 if own_ms is None else OLD_APPENDED,
        )
        for at, offset in enumerate(every)
    ]
    if compression is None:
        return b"".join(parts)
    body = b"".join(parts)
    code = CODES["snappy" if compression == "xerial" else compression]
    packed = {
        "gzip": gzip.compress,
        "snappy": lambda data: pa.Codec("snappy").compress(data).to_pybytes(),
        "xerial": xerial,
        "lz4": lz4.frame.compress if magic else old_lz4,
    }[compression](body)
    attributes = code | (0 if own_ms is None else OLD_APPENDED)
    return old_message(magic, every[-1], own_ms or 5, None, packed, attributes=attributes)


OLD_APPENDED = 0x08


def old_message(magic, offset, timestamp, key, value, *, attributes=0):
    sized = b"".join(
        struct.pack(">i", -1 if each is None else len(each)) + (each or b"")
        for each in (key, value)
    )
    own = struct.pack(">bb", magic, attributes) + struct.pack(">q", timestamp) * magic + sized
    return struct.pack(">qiI", offset, 4 + len(own), zlib.crc32(own)) + own


def xerial(data, size=20):
    """Snappy in Java's frames."""
    out = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for begin in range(0, len(data), size):
        packed = pa.Codec("snappy").compress(data[begin : begin + size]).to_pybytes()
        out += struct.pack(">i", len(packed)) + packed
    return out


def old_lz4(data):
    """A frame whose head has another checksum, as Kafka's clients before 0.10 wrote it."""
    frame = bytearray(lz4.frame.compress(data, store_size=False))
    frame[6] ^= 0x5A
    return bytes(frame)


def rows_of(records, first, partition=0):
    return [
        {
            "topic": 4,
            "partition": partition,
            "offset": first + at,
            **each,
            "headers": [{"key": key, "value": value} for key, value in each["headers"]] or None,
        }
        for at, each in enumerate(records)
    ]


def read(data, *, first=0, stop=2**40, aborted=(), partition=0, bytes_max=2**23):
    if not data:
        return []
    part = fetched((4, partition), (first, stop), data, aborted)
    found = [table.cast(RECORD) for table in tables([part], bytes_max)]
    return pa.concat_tables([RECORD.empty_table(), *found]).to_pylist()

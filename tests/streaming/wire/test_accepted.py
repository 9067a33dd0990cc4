"""What a broker accepts can be read: else whoever may send could stop those who read."""

import gzip
import struct
import time
import uuid

import lz4.frame
import pyarrow as pa
import pytest

from streaming.wire.brokers import Brokers
from streaming.wire.produce import produce, results
from tests.kafka_helpers import create_topics
from tests.streaming.wire.batches import CODES, batch, read, with_checksum

COUNT = 3
BODY_AT, LAST_DELTA_AT, COUNT_AT = 61, 23, 57
LZ4_SIZE_AT, LZ4_SUM_AT = 6, 14
SNAPPY_HEAD = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
GROUP_OF_SEVEN, MORE = 0x7F, 0x80


def number(value, bits=0):
    """A zigzag varint in five bytes; ``bits``: further ones, for which 32 have no place."""
    raw = 2 * value | bits << 32
    parts = [raw >> 7 * at & GROUP_OF_SEVEN for at in range(5)]
    return bytes([*(part | MORE for part in parts[:-1]), parts[-1]])


def body(wide=None):
    """Three records; ``wide``: the field whose numbers have too many bits."""
    records = b""
    for at in range(COUNT):
        fields = (("delta", at, b""), ("key", 1, b"k"), ("value", 50, b"v" * 50))
        fields += (("headers", 1, b""), ("name", 5, b"label"), ("text", 1, b"%d" % at))
        parts = (number(size, name == wide) + data for name, size, data in fields)
        record = bytes(2) + b"".join(parts)
        records += number(len(record), wide == "size") + record
    return records


RECORDS = body()


def batch_of(records, compression="none"):
    head = bytearray(batch([], 0)[:BODY_AT])
    struct.pack_into(">i", head, 8, 49 + len(records))
    head[22] |= CODES[compression]
    struct.pack_into(">i", head, LAST_DELTA_AT, COUNT - 1)
    struct.pack_into(">qq", head, 27, *[round(time.time() * 1000)] * 2)
    struct.pack_into(">i", head, COUNT_AT, COUNT)
    return with_checksum(bytes(head) + records)


def lz4_frame(**settings):
    settings = {"store_size": False, "block_linked": False, **settings}
    return bytearray(lz4.frame.compress(RECORDS, **settings))


def lz4_that_claims(size):
    frame = lz4_frame(store_size=True)
    struct.pack_into("<Q", frame, LZ4_SIZE_AT, size)
    for frame[LZ4_SUM_AT] in range(256):
        try:
            lz4.frame.get_frame_info(bytes(frame))
        except RuntimeError:
            continue
        return bytes(frame)
    raise AssertionError


def lz4_with_another_checksum():
    frame = lz4_frame(content_checksum=True)
    frame[-1] ^= 1
    return bytes(frame)


def snappy_block(records):
    packed = pa.Codec("snappy").compress(records).to_pybytes()
    return struct.pack(">i", len(packed)) + packed


PACKED = {
    "gzip, then something": ("gzip", gzip.compress(RECORDS) + b"something"),
    "gzip, then zeros": ("gzip", gzip.compress(RECORDS) + bytes(40)),
    "gzip, then no whole head": ("gzip", gzip.compress(RECORDS) + gzip.compress(b"")[:9]),
    "gzip, then no right head": ("gzip", gzip.compress(RECORDS) + b"\x1f\x8b\x08\xff" + bytes(40)),
    "gzip in two members": ("gzip", gzip.compress(RECORDS[:9]) + gzip.compress(RECORDS[9:])),
    "lz4 with another checksum": ("lz4", lz4_with_another_checksum()),
    "lz4, one byte more": ("lz4", lz4_that_claims(len(RECORDS) + 1)),
    "lz4, 2^60 bytes": ("lz4", lz4_that_claims(2**60)),
    "lz4, then something": ("lz4", bytes(lz4_frame()) + b"something"),
    "snappy, then two bytes": ("snappy", SNAPPY_HEAD + snappy_block(RECORDS) + bytes(2)),
    "snappy, two frames": (
        "snappy",
        SNAPPY_HEAD + snappy_block(RECORDS[:9]) + SNAPPY_HEAD + snappy_block(RECORDS[9:]),
    ),
}
WIDE = ["size", "delta", "key", "value", "headers", "name", "text"]
EVERY = [batch_of(packed, name) for name, packed in PACKED.values()]
EVERY += [batch_of(body(field)) for field in WIDE]
NAMES = [*PACKED, *(f"{field} of more than 32 bits" for field in WIDE)]


@pytest.fixture
def accepted(broker):
    """Sends a batch as it is; the broker has to accept it."""
    brokers = Brokers({"bootstrap_servers": broker.bootstrap.split(",")})
    topic = f"accepted-{uuid.uuid4().hex[:8]}"
    create_topics(broker.bootstrap, {topic: 1})
    brokers.connect()

    def send(data):
        brokers.find_leaders([topic])
        answer = brokers.send(produce({(topic, 0): data}, None, 20), brokers.leaders[(topic, 0)])
        while not answer.is_done:
            brokers.turn(0.05)
        return [each.error_code for _, each in results(answer.value)]

    yield send
    brokers.close()


def test_a_broker_accepts_them(accepted):
    assert [accepted(data) for data in EVERY] == [[0]] * len(EVERY)


@pytest.mark.parametrize("data", EVERY, ids=NAMES)
def test_they_are_read(data):
    found = read(data)
    assert [each["offset"] for each in found] == [*range(COUNT)]
    assert {(each["key"], each["value"]) for each in found} == {(b"k", b"v" * 50)}
    labels = [each["headers"] for each in found]
    assert labels == [[{"key": "label", "value": b"%d" % at}] for at in range(COUNT)]

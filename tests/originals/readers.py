"""The same places read by the service's reader, by kafka-python's consumer and by librdkafka's."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place
from kafka import KafkaConsumer, TopicPartition

from streaming.arrow.schemas import TYPED_RECORD
from streaming.source.fetching import Fetching
from streaming.source.ranges import Range
from streaming.wire.bounds import LATEST
from streaming.wire.brokers import Brokers
from streaming.wire.fetched import tables
from tests.kafka_helpers import SECONDS_MAX
from tests.streaming.source.helpers import offsets

TABLE_BYTES = 300_000


class Found(NamedTuple):
    """A record, and all that a reader says of it; ``kind`` of timestamp as clients number it."""

    partition: int
    offset: int
    kind: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


Ranges = dict[int, tuple[int, int]]
"""By partition: offsets from the first to before the second."""


class Readers:
    """Three readers of one cluster; a context manager."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.brokers = Brokers({"bootstrap_servers": bootstrap.split(",")})
        self.python = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="none",
            max_poll_records=10_000,
            fetch_max_wait_ms=5,
        )
        self.librdkafka = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "log_level": 0,
                "fetch.wait.max.ms": 5,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.brokers.manager.close()
        self.python.close()
        self.librdkafka.close()

    def ends(self, topic: str) -> dict[int, int]:
        """Where each partition ends, as soon as no transaction is open in it.

        Markers are written behind the answer to who ended a transaction.
        """
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            stable = offsets(self.brokers, [topic], LATEST)[topic]
            if stable == {
                at: self.librdkafka.get_watermark_offsets(Place(topic, at), SECONDS_MAX)[1]
                for at in stable
            }:
                return stable
            assert time.monotonic() < deadline, f"a transaction in {topic} stays open"

    def by_ours(self, topic: str, wanted: Ranges) -> list[Found]:
        ranges = [Range(topic, 0, at, *each) for at, each in wanted.items() if each[0] < each[1]]
        parts = Fetching(self.brokers, ranges)
        rows = [
            row for each in tables(parts, TABLE_BYTES, TYPED_RECORD) for row in each.to_pylist()
        ]
        return sorted(
            Found(
                row["partition"],
                row["offset"],
                row["timestampType"],
                row["timestamp"],
                row["key"],
                row["value"],
                [(pair["key"], pair["value"]) for pair in row["headers"] or ()],
            )
            for row in rows
        )

    def by_python(self, topic: str, wanted: Ranges) -> list[Found]:
        consumer = self.python
        left = {TopicPartition(topic, at): stop for at, (first, stop) in wanted.items()}
        consumer.assign(list(left))
        for at, (first, _) in wanted.items():
            consumer.seek(TopicPartition(topic, at), first)
        found = []
        deadline = time.monotonic() + SECONDS_MAX
        while any(consumer.position(place) < stop for place, stop in left.items()):
            assert time.monotonic() < deadline, f"{topic} was not read: {left}"
            for place, messages in consumer.poll(timeout_ms=20).items():
                found += [
                    Found(
                        place.partition,
                        each.offset,
                        -1 if each.timestamp_type is None else each.timestamp_type,
                        -1 if each.timestamp is None else each.timestamp,
                        each.key,
                        each.value,
                        list(each.headers),
                    )
                    for each in messages
                    if each.offset < left[place]
                ]
        return sorted(found)

    def by_librdkafka(self, topic: str, wanted: Ranges) -> list[Found]:
        consumer = self.librdkafka
        consumer.assign([Place(topic, at, first) for at, (first, _) in wanted.items()])
        left = {at: stop for at, (first, stop) in wanted.items() if first < stop}
        found: list[Any] = []
        deadline = time.monotonic() + SECONDS_MAX
        while left:
            assert time.monotonic() < deadline, f"{topic} was not read: {left}"
            for message in consumer.consume(1_000, 0.02):
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    if message.offset() >= wanted[message.partition()][1]:
                        left.pop(message.partition(), None)
                elif message.offset() < wanted[message.partition()][1]:
                    found.append(message)
        return sorted(
            Found(
                each.partition(),
                each.offset(),
                each.timestamp()[0] - 1,
                each.timestamp()[1] if each.timestamp()[0] else -1,  # format 0 has none
                each.key(),
                each.value(),
                each.headers() or [],
            )
            for each in found
        )


def give_codecs(patch: Any) -> None:
    """Give kafka-python what it decompresses Snappy and Zstandard with, where it has nothing."""
    from kafka import codec

    def decompress(block: bytes) -> bytes:
        size = shift = 0
        for byte in block:
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        return pa.Codec("snappy").decompress(block, size).to_pybytes()

    class Stream:
        def stream_reader(self, source: io.BytesIO, **_: object) -> Any:
            return pa.input_stream(pa.py_buffer(source.read()), compression="zstd")

    patch.setattr(codec, "snappy", SimpleNamespace(decompress=decompress))
    patch.setattr(codec, "zstd", SimpleNamespace(ZstdDecompressor=Stream))

"""Producers of all kinds on one topic: librdkafka's and the service's, in transactions or not."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from streaming.arrow.schemas import HEADERS
from streaming.kafka.choice import ProducerSettings
from streaming.sink.producer import BatchProducer
from streaming.wire.compression import COMPRESSIONS
from streaming.wire.record_batch import batches
from tests.kafka_helpers import SECONDS_MAX, Record

LIBRDKAFKA = ("gzip", "zstd")
OURS = ("snappy", "lz4")
LAST_SEQUENCES = 2**31 - 40
"""Where the service's producer begins, so that its numbers pass 2^31 soon."""


def table_of(records: Sequence[Record]) -> pa.Table:
    """Records as the sink gets them."""
    headers = [[{"key": k, "value": v} for k, v in each.headers] for each in records]
    return pa.table(
        {
            "key": pa.array([each.key for each in records], pa.binary()),
            "value": pa.array([each.value for each in records], pa.binary()),
            "headers": pa.array(headers, HEADERS),
            "timestamp": pa.array([each.timestamp for each in records], pa.int64()),
        }
    )


class ByLibrdkafka:
    """librdkafka's producer with one compression; transactional where it has an id."""

    def __init__(self, bootstrap: str, compression: str, transactional_id: str = "") -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": compression,
                "enable.idempotence": True,
                "message.max.bytes": 20_000_000,
                "linger.ms": 1,
                "log_level": 0,
                **({"transactional.id": transactional_id} if transactional_id else {}),
            }
        )
        self.is_open = False
        self.transactional = bool(transactional_id)
        if self.transactional:
            self.producer.init_transactions(SECONDS_MAX)

    def send(self, topic: str, records: Sequence[Record]) -> None:
        if self.transactional and not self.is_open:
            self.producer.begin_transaction()
            self.is_open = True
        errors: list[Any] = []
        for each in records:
            self.producer.produce(
                topic,
                value=each.value,
                key=each.key,
                headers=each.headers,
                partition=each.partition,
                timestamp=each.timestamp,
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
        assert not self.producer.flush(SECONDS_MAX)
        assert not errors, errors[0]

    def end(self, *, committed: bool) -> None:
        if self.is_open:
            producer = self.producer
            (producer.commit_transaction if committed else producer.abort_transaction)(SECONDS_MAX)
            self.is_open = False

    def close(self) -> None:
        self.end(committed=False)


class ByOurs:
    """The service's own producer; the sequence numbers of each partition soon pass 2^31."""

    def __init__(self, bootstrap: str, compression: str, transactional_id: str = "") -> None:
        settings = ProducerSettings(
            {"bootstrap_servers": bootstrap.split(",")}, compression, 60_000
        )
        group = uuid.uuid4().hex
        self.producer = BatchProducer(settings, transactional_id or None, group, "none", group)
        self.producer.begin_session()
        self.is_open = False
        self.transactional = bool(transactional_id)

    def send(self, topic: str, records: Sequence[Record]) -> None:
        self.is_open = True
        partitions = [each.partition or 0 for each in records]
        for at in partitions:
            if not self.transactional:  # a new producer of the partition may begin anywhere
                self.producer.outbox.sequences.setdefault((topic, at), LAST_SEQUENCES)
        self.producer.write(topic, table_of(records), np.array(partitions, np.int32), [])
        self.producer._send()
        self.producer.outbox.wait()

    def end(self, *, committed: bool) -> None:
        if not self.is_open:
            return
        if committed or not self.transactional:
            self.producer.finish()
        else:
            self.producer.abort()
        self.is_open = False

    def close(self) -> None:
        self.end(committed=False)
        self.producer.brokers.close()


def writers(bootstrap: str) -> list[ByLibrdkafka | ByOurs]:
    """Both kinds with every compression, then both in transactions."""
    name = uuid.uuid4().hex
    return [
        *(ByLibrdkafka(bootstrap, each) for each in COMPRESSIONS),
        *(ByOurs(bootstrap, each) for each in COMPRESSIONS),
        *(ByLibrdkafka(bootstrap, each, f"{name}-{each}") for each in LIBRDKAFKA),
        *(ByOurs(bootstrap, each, f"{name}-{each}") for each in OURS),
    ]


def batches_of(records: Sequence[Record]) -> list[Any]:
    """The batches that the sink makes of the records of one partition."""
    return list(batches(table_of(records), np.zeros(len(records), np.int32), [], 0))

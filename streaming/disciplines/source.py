"""Where a pipeline's records come from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from streaming.arrow.kafka_rows import KAFKA_ROW, RECORD_COLUMNS, kafka_rows
from streaming.arrow.pack import PACKED, Pack, packs_of
from streaming.arrow.schemas import RECORD, TYPED_RECORD

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BATCH_MAX = "maxOffsetsPerTrigger"
FETCH_WAIT, FETCH_WAIT_MS = "kafka.fetch.max.wait.ms", "5"
"""How long the broker keeps a request for more than there is. Behind a range of offsets Spark asks
where the partition ends, on the same connection, and the answer waits for that request: by default
500 ms, in each partition, wherever a batch reads up to the end."""

ASSUMED_BYTES = 1_000
"""What Spark's source takes a record for."""

BATCH_RECORDS, BATCH_RECORDS_GROWN = 500_000, 2_000_000
"""Of a batch where nobody says how many: of a small state, and of the largest."""


class Limits(NamedTuple):
    """What a batch reads at most; 0: any number. ``size`` is in bytes.

    With every batch all of the state is read and written. So a batch has as many records as the
    state has entries (``kept``) where these are more than ``records``, but ``grown`` at most: then
    a record's share of it is that of one entry, however many there are. Where records have more and
    more deliveries, it has fewer: ``fewer`` at most, if that is not 0.
    """

    records: int = 0
    size: int = 0
    grown: int = 0
    kept: Callable[[], int] = lambda: 0
    fewer: Callable[[], int] = lambda: 0

    def records_now(self) -> int:
        """Of the batch that comes next."""
        records, fewer = max(self.records, min(self.kept(), self.grown)), self.fewer()
        return min(records, fewer) if records and fewer else records

    def without_size(self) -> int:
        """Records, for a source that does not know how large they are."""
        records = self.records_now()
        return min(records, max(self.size // ASSUMED_BYTES, 1)) if self.size else records


class Reading(NamedTuple):
    """What a source reads, and how its rows are made.

    ``topics`` with their numbers; ``making`` makes rows of the DDL ``rows`` of records of
    ``schema``; in ``tasks`` at most; ``limits`` are a batch's.
    """

    topics: Mapping[str, int]
    schema: pa.Schema
    making: Pack
    rows: str
    tasks: int
    limits: Limits


OwnFrame: TypeAlias = "Callable[[Reading], DataFrame]"


@dataclass(frozen=True, slots=True)
class Source:
    """A pipeline's topics, read by the service itself (``own``), or by Spark's Kafka source.

    Spark's has to where ``own`` is None; ``options`` are its own, without a limit. ``limits`` are a
    batch's. ``ticks`` has no rows, but something new every second. Where ``ended`` is set, nothing
    new comes, and nobody waits for Kafka.
    """

    spark: SparkSession
    options: Mapping[str, str]
    limits: Limits
    ticks: Callable[[], DataFrame]
    ended: threading.Event
    own: OwnFrame | None = None

    def packs(
        self,
        topics: Sequence[str],
        reads: Sequence[str],
        making: Pack,
        tasks: int,
        *,
        limited: bool = True,
    ) -> DataFrame:
        """What ``making`` makes of the topics' records (PACKED), in so many tasks at most.

        A topic travels as its number in ``reads``.
        """
        limits = self.limits if limited else Limits()
        if self.own is not None:
            numbers = {topic: reads.index(topic) for topic in topics}
            return self.own(Reading(numbers, RECORD, making, PACKED, tasks, limits))
        rows = self._records(topics, reads, limited=limited).selectExpr(*RECORD_COLUMNS)
        return packs_of(rows.coalesce(tasks), making)

    def rows(self, reads: Sequence[str], tasks: int) -> DataFrame:
        """The records of all topics, read in so many tasks at most, as rows of KAFKA_ROW."""
        if self.own is not None:
            numbers = {topic: number for number, topic in enumerate(reads)}
            making = partial(kafka_rows, topics=reads)
            return self.own(Reading(numbers, TYPED_RECORD, making, KAFKA_ROW, tasks, self.limits))
        return self._records(reads, reads, limited=True).coalesce(tasks)

    def _records(self, topics: Sequence[str], reads: Sequence[str], *, limited: bool) -> DataFrame:
        """The topics' records with their headers, read_committed, from the beginning, by Spark."""
        limit = {BATCH_MAX: str(self.limits.without_size())} if limited else {}
        number = " ".join(f"when '{name}' then {at}" for at, name in enumerate(reads))
        return (
            self.spark.readStream.format("kafka")
            .options(**{FETCH_WAIT: FETCH_WAIT_MS, **self.options, **limit})
            .option("subscribe", ",".join(topics))
            .option("includeHeaders", "true")
            .option("startingOffsets", "earliest")
            .option("failOnDataLoss", "true")
            .option("kafka.isolation.level", "read_committed")
            .load()
            .selectExpr(
                "*",
                f"cast(case topic {number} end as int) as _topic",
                "unix_millis(timestamp) as _timestamp",
            )
        )

"""Where a pipeline's records come from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from streaming.arrow.kafka_rows import KAFKA_ROW, kafka_rows
from streaming.arrow.pack import PACKED, Pack
from streaming.arrow.schemas import RECORD, TYPED_RECORD

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BATCH_RECORDS, BATCH_RECORDS_GROWN = 1_000_000, 2_000_000
"""Of a batch where nobody says how many: of a small state, and of the largest."""


class Limits(NamedTuple):
    """What a batch reads at most; 0: any number. ``size`` is in bytes.

    With every batch all of the state is read and written. So a batch has as many records as the
    state has entries (``kept``) where these are more than ``records``, but ``grown`` at most: then
    a record's share of it is that of one entry, however many there are. Where records have more and
    more deliveries, it has fewer: ``fewer`` at most, if that is not 0. Where the
    state has many bytes, a batch has ``smaller`` bytes at most, if that is not 0.
    """

    records: int = 0
    size: int = 0
    grown: int = 0
    kept: Callable[[], int] = lambda: 0
    fewer: Callable[[], int] = lambda: 0
    smaller: Callable[[], int] = lambda: 0

    def records_now(self) -> int:
        """Return how many records the next batch has at most."""
        records, fewer = max(self.records, min(self.kept(), self.grown)), self.fewer()
        return min(records, fewer) if records and fewer else records

    def size_now(self) -> int:
        """Return how many bytes the next batch has at most; it has one record in any case."""
        smaller = self.smaller()
        return min(self.size, smaller) if self.size and smaller else self.size


class SourceRows(NamedTuple):
    """What a batch gives Spark: a row of PACKED for every shard, or what tasks are to read.

    ``here``: that row's pack, or share. ``shares``: what each task reads.
    """

    here: bytes | None = None
    shares: Sequence[bytes] = ()


class Reading(NamedTuple):
    """What a source reads, and how its rows are made.

    ``topics`` with their numbers; ``making`` makes rows of the DDL ``rows`` of records of
    ``schema``; in ``tasks`` at most; ``limits`` are a batch's. ``keys``: those of the shards that
    can read for themselves (`Packs`), as `state_keys.shard_keys` has them for the partitions.
    ``own``: whether only the query itself writes these topics; a new one begins at their ends.
    """

    topics: Mapping[str, int]
    schema: pa.Schema
    making: Pack
    rows: str
    tasks: int
    limits: Limits
    keys: Sequence[int] = ()
    own: bool = False


Read: TypeAlias = "Callable[[bytes], Iterator[pa.RecordBatch]]"
"""From a share of a batch to what is made of it: rows of PACKED."""


class Packs(NamedTuple):
    """A source's rows of PACKED, and how a shard reads a share that it gets in place of its packs.

    A small batch has no stage that reads: every state partition reads all of it, and keeps what is
    its own.
    """

    frame: DataFrame
    read: Read


@dataclass(frozen=True, slots=True)
class Source:
    """A pipeline's topics, read by the service itself.

    ``frame`` makes a streaming frame of what is to be read, ``read`` what reads a share of it.
    ``limits`` are a batch's. ``ticks`` has no records, but something new where a timer is due.
    Where ``ended`` is set, nothing new comes, and nobody waits for Kafka.
    """

    spark: SparkSession
    limits: Limits
    frame: Callable[[Reading], DataFrame]
    read: Callable[[Reading], Read]
    ticks: Callable[[], DataFrame]
    ended: threading.Event

    def packs(
        self,
        topics: Sequence[str],
        reads: Sequence[str],
        making: Pack,
        tasks: int,
        *,
        own: bool = False,
        keys: Sequence[int] = (),
    ) -> Packs:
        """What ``making`` makes of the topics' records (PACKED), in this many tasks at most.

        A topic travels as its number in ``reads``. ``own``, ``keys``: see `Reading`; what is the
        query's own is read without a limit.
        """
        numbers = {topic: reads.index(topic) for topic in topics}
        limits = Limits() if own else self.limits
        reading = Reading(numbers, RECORD, making, PACKED, tasks, limits, keys, own)
        return Packs(self.frame(reading), self.read(reading))

    def rows(self, reads: Sequence[str], tasks: int) -> DataFrame:
        """The records of all topics, read in this many tasks at most, as rows of KAFKA_ROW."""
        numbers = {topic: number for number, topic in enumerate(reads)}
        making = partial(kafka_rows, topics=reads)
        return self.frame(Reading(numbers, TYPED_RECORD, making, KAFKA_ROW, tasks, self.limits))

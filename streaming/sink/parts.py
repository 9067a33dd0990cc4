"""What a state partition writes of a batch, cut into transactions where it is too much for one.

What a batch will write is not known when its offsets are logged: a command may have made a group of
thousands, a message may have thousands of destinations, one record may free millions that waited.
So the sink commits a *part* where it has become large, or has been open for long, together with how
far that is (`progress.Part`), and goes on in another transaction. The usual batch is one part.

What is certain on a repeat is the order of the records of one shard: its step depends on state,
rows and time alone, and Spark takes what it yields as it comes. Which shard comes first is not
certain: those with rows come by their keys, those whose time is due as the state store has them.
So a part names the shards of which all is written, and of those that were cut the number of records
that are. A repeated batch passes over exactly these, whatever order its shards come in. Where its
own parts end makes no difference, so cuts may go by time, too.

That a shard gives again what it gave is checked where that costs nothing: by how many records it
got (an input may be compacted meanwhile), by those of all shards, and by what the last one before a
cut looked like. Where it does not, nothing more is written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streaming.arrow.columns import flat, plain
from streaming.arrow.histograms import LATENCY_MS, counted, together
from streaming.arrow.schemas import is_encoded
from streaming.sink.progress import Part
from streaming.wire.blocks import plain_values
from streaming.wire.encoded import (
    NUMBERS,
    batches_of,
    headers_in,
    partitions_in,
    stamps_of,
)
from streaming.wire.record_batch import rows_within

if TYPE_CHECKING:
    from streaming.disciplines.plan import BatchContext
    from streaming.sink.writer import PartitionWriter

OPEN_SHARE_MAX = 0.25
"""Of the time that a transaction may take: it is committed then, before more is written."""
ALL = sys.maxsize
NO_STAMPS = np.zeros(0, np.int64)


class PartChanged(Exception):  # noqa: N818  (who knows the batch says it in a sentence)
    """A repeated batch does not begin with what was written of it."""


class FewerRead(PartChanged):
    """Shards got ``before`` records of the batch when it was begun, and get ``read`` now."""

    def __init__(self, before: int, read: int) -> None:
        super().__init__(before, read)
        self.before, self.read = before, read


class Parts:
    """Writes the tables of a state partition's shards, but for what earlier transactions wrote.

    ``transactions``: those committed before the one that is open. ``latency_ms``: of the deliveries
    in them, from their timestamps to the commit (see `streaming.arrow.histograms`).
    """

    def __init__(self, writer: PartitionWriter, context: BatchContext) -> None:
        self.transactions = 0
        self.latency_ms: list[int] = []
        self._writer, self._context = writer, context
        self._plan = writer.plan.under(context.decisions)
        self._earlier = writer.part or Part(forgotten=writer.forgotten)
        self._whole, self._total = self._earlier.whole, self._earlier.total
        self._cut = dict(self._earlier.cut)
        # How many records of the batch the shards have that are whole, and, of these, those
        # that were so before.
        self._read, self._read_again = self._earlier.read, 0
        # The shard that gives its records now, how many it got, and how many it gave; of those, how
        # many are still to be passed over; what it wrote last. ``_passed``: of all shards.
        # ``_came``: which did.
        self._shard, self._got, self._records, self._pass = -1, 0, 0, 0
        self._last: tuple[str, pa.Table, int] | None = None
        self._passed = self._came = 0
        # Of the open transaction.
        self._new = self._size = 0
        self._began = time.monotonic()
        self._stamps: list[NDArray[np.int64]] = []

    def write(self, shard: int, topic: str, table: pa.Table, got: int = 0) -> None:
        """Write a shard's next table; ``got``: how many records of the batch the shard has.

        Raises PartChanged where the shard gave something else, or got fewer. Rejects and events
        behind a refused delivery are left to the next run of the batch, which gives other numbers.
        """
        if topic in (self._plan.rejects, self._plan.events) and self._writer.has_refused():
            return
        if shard != self._shard:
            self._enter(shard, got)
        stamps = _stamps(table) if self._plan.delivers_to(topic) else NO_STAMPS
        first = 0
        whole = is_encoded(table)
        for unit, count in _units(table):
            done = self._pass_over(topic, unit, count)
            while done < count:
                # Within a table of record batches there is no cut: without a record that Kafka
                # refused, those before it in the table are made in another way.
                if self._is_full() and not (whole and first):
                    self._end_part()
                rows = self._put(topic, unit, done, count)
                self._stamps.append(stamps[first + done : first + done + rows])
                done += rows
            first += count

    def finish(self) -> None:
        """Take leave of the last shard, before the last commit. Raises PartChanged."""
        self._leave()
        before = self._earlier.read
        if before is not None and before != self._read_again:
            raise FewerRead(before, self._read_again)
        if self._passed != self._earlier.total:
            raise PartChanged

    def committed(self) -> None:
        """Count what a commit has made visible."""
        self.transactions += self._writer.producer.transactional
        self.latency_ms = together([self.latency_ms, _latency_ms(self._stamps)])
        self._new = self._size = 0
        self._began = time.monotonic()
        self._stamps = []

    # --- What earlier transactions wrote.

    def _enter(self, shard: int, got: int) -> None:
        self._leave()
        if self._came >> shard & 1:
            raise PartChanged
        self._came |= 1 << shard
        if self._whole >> shard & 1:
            self._pass = ALL
            self._read_again += got
        else:
            self._pass, _, *before = self._cut.get(shard, (0, 0))
            if before not in ([], [got]):
                raise FewerRead(before[0], got)
        self._shard, self._got, self._records, self._last = shard, got, 0, None

    def _leave(self) -> None:
        if self._shard < 0:
            return
        is_whole = self._whole >> self._shard & 1
        if self._pass and not is_whole:
            raise PartChanged
        if self._read is not None and not is_whole:
            self._read += self._got
        self._whole |= 1 << self._shard
        self._cut.pop(self._shard, None)
        self._shard = -1

    def _pass_over(self, topic: str, unit: pa.Table, count: int) -> int:
        """Pass over what is written of a unit; how many of its records."""
        written = min(self._pass, count)
        if not written:
            return 0
        self._records += written
        self._passed += written
        if self._pass != ALL:
            self._pass -= written
            if is_encoded(unit) and written < count:
                raise PartChanged
            if not self._pass and self._cut[self._shard][1] not in _looks(topic, unit, written):
                raise PartChanged
        return written

    # --- What this one does.

    def _is_full(self) -> bool:
        plan = self._plan
        if self._new >= plan.part_records_max or self._size >= plan.part_bytes_max:
            return True
        open_s = time.monotonic() - self._began
        return self._new > 0 and open_s > self._writer.open_seconds_max * OPEN_SHARE_MAX

    def _put(self, topic: str, unit: pa.Table, done: int, count: int) -> int:
        """Write what fits of a unit, one record at least; how many."""
        if is_encoded(unit):
            rows, size = count, len(unit["body"][0].as_buffer())
        else:
            unit = unit.slice(done)
            room = (self._plan.part_records_max - self._new, self._plan.part_bytes_max - self._size)
            rows, size = rows_within(unit, *room)
            unit = unit.slice(0, rows)
        self._produce(topic, unit)
        self._new += rows
        self._size += size
        self._records += rows
        self._total += rows
        self._last = (topic, unit, rows)
        return rows

    def _produce(self, topic: str, table: pa.Table) -> None:
        """Write a table (see `streaming.arrow.output`) to a topic."""
        writer = self._writer
        if is_encoded(table):
            writer.producer.put(topic, batches_of(table))
            return
        partitions = partitions_in(table, partial(writer.partitions, topic))
        writer.producer.write(topic, table, partitions, headers_in(table, self._plan.headers))

    def _end_part(self) -> None:
        if self._last is not None:
            self._cut[self._shard] = (self._records, _looks(*self._last)[0], self._got)
        part = Part(self._whole, self._cut, self._total, self._earlier.forgotten, self._read)
        self._writer.end_part(self._context, part)
        self.committed()


def _units(table: pa.Table) -> Iterator[tuple[pa.Table, int]]:
    """What is written whole or not at all, and its records: a record batch; a table can be cut."""
    if not is_encoded(table):
        yield table, len(table)
        return
    for row, count in enumerate(table["count"].to_pylist()):
        yield table.slice(row, 1), count


def _looks(topic: str, unit: pa.Table, rows: int) -> tuple[int, ...]:
    """Checksums of what the last of a unit's first ``rows`` records looks like: as it is noted,
    and as version 1.0.0 noted it.

    Of a record in a table alone, whatever columns others need: without a record that Kafka refused,
    tables are put together in another way. (1.0.0 passed over that.)
    """
    if is_encoded(unit):
        (last,) = unit.select(NUMBERS).to_pylist()
        last["checksum"] = google_crc32c.value(unit["body"][0].as_buffer())
        return (_checksum(f"{topic} {last}"),)
    row = unit.slice(rows - 1, 1)
    (plain,), (before,) = plain_values(row).to_pylist(), row.to_pylist()
    there = sorted((name, value) for name, value in plain.items() if value is not None)
    return _checksum(f"{topic} {there}"), _checksum(f"{topic} {before}")


def _checksum(text: str) -> int:
    return int(google_crc32c.value(text.encode()))


def _stamps(table: pa.Table) -> NDArray[np.int64]:
    """The records' timestamps (ms); none where a topic's records have Kafka's own."""
    if is_encoded(table):
        return stamps_of(table)
    if "timestamp" in table.column_names:
        return np.array(plain(flat(table["timestamp"])))  # a copy: the table may go
    return NO_STAMPS


def _latency_ms(stamps: Sequence[NDArray[np.int64]]) -> list[int]:
    """How old the records of these timestamps are now; none is from the future."""
    if not any(map(len, stamps)):
        return []
    ages_ms = round(time.time() * 1000) - np.concatenate(stamps)
    return counted(LATENCY_MS, np.maximum(ages_ms, 0))

"""Operators whose shards all see every record: groups and multicast in the order of the batch.

The offset log has fixed which records a batch has, and order of arrival (topic, partition, offset)
is one order that every shard knows. So each shard gets all of them, works out by itself what
concerns its keys, and none asks another. A `Core` is the discipline's part of one shard; this
module is what such disciplines share: who gets what, in which order, state, output slice by slice.

What only one shard may do (count a record, reject it, answer a command) falls to its `home`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from streaming.arrow.columns import flat
from streaming.arrow.ipc import from_body, to_body
from streaming.arrow.output import OUTPUT, Write, output_row, output_rows_of
from streaming.arrow.pack import PACKED, in_packs, packed, source_columns
from streaming.arrow.partitioner import murmur2
from streaming.arrow.schemas import RECORD
from streaming.arrow.totals import Totals
from streaming.disciplines.discipline import Described, Reader
from streaming.disciplines.plan import Plan
from streaming.disciplines.source import Source
from streaming.disciplines.state_keys import shard_keys
from streaming.errors import StateFormatError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

STATE_FORMAT = 1
STATE = "format int, clock_ms long, core binary, totals string"

Row = tuple[int, int, bytes, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastPlan(Plan):
    """A pipeline whose shards all see every record."""

    commands: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The inputs, then the commands."""
        return (*self.inputs, self.commands)


@dataclass(frozen=True, slots=True)
class Work:
    """A batch, the same for every shard: commands take effect before the records.

    Both have the columns of RECORD, each as one chunk, in order of arrival. ``now_ms`` never falls.
    """

    records: pa.Table
    commands: pa.Table
    now_ms: int


class Core(ABC):
    """One shard of a discipline. Equal state and work give equal results, to the byte.

    ``totals`` are its own to count in (`batches` apart).
    """

    def __init__(self) -> None:
        self.totals = Totals()

    @abstractmethod
    def step(self, work: Work) -> Iterable[Write]:
        """Take a batch: what to write, in order, in tables of bounded size (`sequencer.slices`).

        The state is complete when all of them have been taken.
        """

    @abstractmethod
    def dump(self) -> bytes:
        """The state, without the totals."""

    @abstractmethod
    def load(self, state: bytes) -> None:
        """Become what ``state`` was dumped from."""


class BroadcastOperator(ABC):
    """The function that Spark calls for each shard."""

    cores: ClassVar[dict[tuple[str, str, int], tuple[bytes, Core]]] = {}
    """This worker's cores with the state that they are in: used again where the state store has
    the same, which spares decoding it."""

    def __init__(self, plan: BroadcastPlan) -> None:
        self.plan = plan
        self.shards = {key: at for at, key in enumerate(_keys(plan))}

    @abstractmethod
    def core(self, shard: int) -> Core:
        """A new core, as at the beginning of the checkpoint."""

    def renewed(self, shard: int, _stale: Core) -> Core:
        """A new core where this worker has one whose state is not the shard's any more.

        What it knows may be of use in loading; it is not needed after that.
        """
        return self.core(shard)

    def __call__(
        self, key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Step one shard; its rows of OUTPUT come piece by piece, then the state changes."""
        packs = [blob for frame in frames for blob in frame["rows"]]
        row = state.get if state.exists else None
        after = yield from self.step(key[0], packs, row, state.getCurrentProcessingTimeMs())
        state.update(after)

    def step(
        self, key: int, packs: Sequence[bytes], row: tuple[Any, ...] | None, now_ms: int
    ) -> Generator[pd.DataFrame, None, Row]:
        """Take a batch's packs, in any order: rows of OUTPUT; returns the new row of STATE."""
        shard = self.shards[key]
        form, clock_ms, blob, totals = row or (STATE_FORMAT, 0, b"", "{}")
        if form != STATE_FORMAT:
            raise StateFormatError(form, STATE_FORMAT)
        now_ms = max(now_ms, clock_ms)
        name = (self.plan.service, self.plan.pipeline, shard)
        core = self._core(name, bytes(blob))
        core.totals = Totals.from_json(totals)
        wrote_before, wrote = core.totals.batches > 0, False
        for write in core.step(read_packs(packs, len(self.plan.inputs), now_ms)):
            for rows in output_rows_of(key, write, wrote_before=wrote_before):
                wrote = True
                yield rows
        core.totals.batches += wrote
        yield output_row(key, totals=core.totals.to_json(), wrote_before=wrote_before)
        blob = core.dump()
        self.cores[name] = (blob, core)
        return STATE_FORMAT, now_ms, blob, core.totals.to_json()

    def reader(self, describe: Callable[[Any], Described]) -> Reader:
        """Reads rows of the state store back, by what ``describe`` says of a core."""

        def read(row: Iterable[Any]) -> Described:
            key, *state = row
            return describe(self.restored(key, tuple(state)))

        return read

    def restored(self, key: int, row: tuple[Any, ...]) -> Core:
        """The shard in a row of STATE, for a look at it."""
        form, _, blob, _ = row
        if form != STATE_FORMAT:
            raise StateFormatError(form, STATE_FORMAT)
        core = self.core(self.shards[key])
        if blob:
            core.load(bytes(blob))
        return core

    def _core(self, name: tuple[str, str, int], blob: bytes) -> Core:
        kept, core = self.cores.pop(name, (None, None))
        if core is not None and blob and kept == blob:
            return core
        if not blob:
            return self.core(name[2])
        core = self.core(name[2]) if core is None else self.renewed(name[2], core)
        core.load(blob)
        return core


def broadcast(source: Source, plan: BroadcastPlan, operator: BroadcastOperator) -> DataFrame:
    """The query between Kafka and the sink: rows of OUTPUT."""
    rows = source.records(plan.reads).selectExpr(*source_columns(plan.reads))
    return (
        rows.coalesce(plan.state_partitions)
        .mapInArrow(partial(_pack_task, keys=_keys(plan)), PACKED)
        .groupBy("shard")
        .applyInPandasWithState(operator, OUTPUT, STATE, "append", "NoTimeout")
    )


def _keys(plan: BroadcastPlan) -> list[int]:
    return shard_keys(plan.shards, plan.state_partitions)


def _pack_task(batches: Iterator[pa.RecordBatch], keys: list[int]) -> Iterator[pa.RecordBatch]:
    for table in in_packs(batches):
        yield pack_for_all(table, keys)


def pack_for_all(table: pa.Table, keys: list[int]) -> pa.RecordBatch:
    """Rows of PACKED: all rows of a table (RECORD) for every shard, under its state key."""
    (rows,) = table.cast(RECORD).combine_chunks().to_batches()
    return packed(np.arange(len(keys)), [to_body(rows)] * len(keys), keys)


def read_packs(packs: Sequence[bytes], inputs: int, now_ms: int) -> Work:
    """The work in a batch's packs, given in any order; ``inputs``: how many topics have records."""
    table = pa.Table.from_batches([from_body(pack, RECORD) for pack in packs], schema=RECORD)
    names = ("offset", "partition", "topic")
    order = np.lexsort([flat(table[name]).to_numpy() for name in names])
    table = table.take(pa.array(order)).combine_chunks()
    first = int(np.searchsorted(flat(table["topic"]).to_numpy(), inputs))
    return Work(table.slice(0, first), table.slice(first), now_ms)


def homes(names: pa.Array, shards: int) -> NDArray[np.int64]:
    """The shard of each subscriber or peer (binary, no nulls); the same for ever."""
    return (murmur2(names) & np.int32(0x7FFFFFFF)).astype(np.int64) % shards


def record_homes(records: pa.Table, shards: int) -> NDArray[np.int64]:
    """The shard of each record (RECORD), by where it was read: no shard counts it but this."""
    partition, offset = (flat(records[name]).to_numpy() for name in ("partition", "offset"))
    return np.asarray((partition + offset) % shards)

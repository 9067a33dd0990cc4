"""Ingress: records in packs, one Arrow body for each shard.

Spark shuffles and sorts a few large rows instead of every message, and payloads never become
Python objects on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.sorting import order_by
from streaming.arrow.columns import flat
from streaming.arrow.ipc import BODY_HEAD, body_pieces, checked, from_body
from streaming.arrow.large_rows import set_aside
from streaming.arrow.pieces import of_lengths
from streaming.arrow.schemas import RECORD
from streaming.versions import require_drivers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PACKED = "shard int, rows binary"
Pack: TypeAlias = Callable[[pa.Table], pa.RecordBatch]
"""Makes packs (PACKED) of records (RECORD), for the shards that they concern."""

SHARE = 2
"""Marks a share, in the byte where a pack says whether it has blocks."""
PACK_BYTES = 512 * 2**10
"""The approximate size of a pack during a backlog, if packs go through Spark. It copies each some
ten times into arrays of its own: with packs four times as large the JVM spent twice the time in the
kernel (fresh memory, page by page), and its collector copied short-lived arrays. Smaller packs cost
Python more."""
TABLE_BYTES_MIN, TABLE_BYTES_MAX = 2 * 2**20, 8 * 2**20
"""Bounds of a table whose rows are packed together. For larger ones allocators take memory from the
system and return it each time."""


def table_bytes(shards: int, *, in_files: bool = False, for_all: bool = False) -> int:
    """Return the size in bytes at which a table is cut before its rows are packed for the shards.

    ``in_files``: packs do not go through Spark (`streaming.arrow.large_rows`), and may be large.
    ``for_all``: each shard gets all rows. All packs of a table leave together, as an array, which
    has room for 2 GiB.
    """
    if in_files:
        return TABLE_BYTES_MAX
    if for_all:
        return PACK_BYTES
    return min(max(TABLE_BYTES_MIN, shards * PACK_BYTES), TABLE_BYTES_MAX)


def in_packs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield a task's rows in tables that end when they reach TABLE_BYTES_MAX."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if len(batch):
            waiting.append(batch)
        size += batch.nbytes
        if size >= TABLE_BYTES_MAX:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def packs_of(records: DataFrame, making: Pack) -> DataFrame:
    """Return packs of Spark's rows."""
    return records.mapInArrow(partial(_pack_task, making=making), PACKED)


def _pack_task(batches: Iterator[pa.RecordBatch], making: Pack) -> Iterator[pa.RecordBatch]:
    require_drivers()
    return map(making, in_packs(batches))


def packed(
    shards: NDArray[Any],
    packs: Sequence[tuple[bytes, pa.Buffer]],
    keys: list[int],
    large_rows: str = "",
) -> pa.RecordBatch:
    """Return rows of PACKED: the packs (`body_pieces`) of some shards under their state keys.

    ``large_rows``: see `large_rows.set_aside`.
    """
    rows = set_aside(packs, large_rows)
    if rows is None:
        lengths = np.array([sum(map(len, pieces)) for pieces in packs], np.int64)
        column = of_lengths(lengths, pa.py_buffer(b"".join(chain.from_iterable(packs))))
    else:
        column = pa.array(rows, pa.binary())
    state_keys = pa.array([keys[shard] for shard in shards.tolist()], pa.int32())
    return pa.RecordBatch.from_arrays([state_keys, column], names=["shard", "rows"])


def share_row(share: bytes) -> bytes:
    """Return the row for a shard that reads its share of a batch itself, in place of packs."""
    return BODY_HEAD.pack(google_crc32c.value(share), SHARE) + share


def share_in(row: bytes) -> bytes | None:
    """Return the share in a row of PACKED, None if it has a pack; SequencerError if damaged."""
    if BODY_HEAD.unpack_from(row)[1] != SHARE:
        return None
    share: bytes = checked(row)[1].to_pybytes()
    return share


def pack_by_shard(
    rows: pa.Table,
    shard: NDArray[Any],
    keys: list[int],
    values: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    *,
    large_rows: str = "",
) -> pa.RecordBatch:
    """Return rows of PACKED: one pack for each shard that has rows, in the order of the rows.

    ``shard``: each row's. ``values`` converts the values of the sorted rows. ``large_rows``: the
    folder for large packs, which are then not compressed.
    """
    order = order_by(shard)
    present, first = np.unique(shard[order], return_index=True)
    if not len(present):
        return packed(present, [], keys)
    (batch,) = values(rows.take(pa.array(order))).combine_chunks().to_batches()
    bounds = pairwise([*first.tolist(), len(order)])
    bodies = [body_pieces(batch.slice(a, b - a), as_it_is=bool(large_rows)) for a, b in bounds]
    return packed(present, bodies, keys, large_rows)


def unpacked(packs: Sequence[bytes], schema: pa.Schema = RECORD) -> list[pa.Table]:
    """Return the rows (``schema``, or the same with blocks) of packs, unsorted, an empty one first.

    `order_of_arrival` gives their order.
    """
    tables = (pa.Table.from_batches([from_body(pack, schema)]) for pack in packs)
    return [schema.empty_table(), *tables]


def order_of_arrival(rows: pa.Table) -> NDArray[np.int64]:
    """Return the rows of a batch by topic, partition and offset.

    A shard takes records and commands in this order: packs arrive in any order, and a repeated
    batch must give the same bytes.
    """
    return order_by(*(flat(rows[name]).to_numpy() for name in ("topic", "partition", "offset")))


def taken(tables: Sequence[pa.Table], rows: NDArray[np.int64]) -> pa.Table:
    """Return rows of tables of one chunk each, numbered through all of them, in this order.

    Arrow's own `take` joins all chunks first, which are more than an array's 2 GiB if the tables
    are large, however few the rows.
    """
    starts = np.cumsum([0, *map(len, tables[:-1])])
    of = np.searchsorted(starts, rows, side="right") - 1
    found = np.unique(of)
    if len(found) <= 1:
        number = int(found[0]) if len(found) else 0
        return tables[number].take(pa.array(rows - starts[number]))
    order = order_by(of)
    parts = [
        tables[number].take(pa.array(rows[of == number] - starts[number]))
        for number in found.tolist()
    ]
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows))
    return pa.concat_tables(parts).combine_chunks().take(pa.array(place))


def in_order(packs: Sequence[bytes]) -> pa.Table:
    """Return the records (RECORD) of packs in order of arrival."""
    tables = unpacked(packs)
    return taken(tables, order_of_arrival(pa.concat_tables(tables)))

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

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PACKED = "shard int, rows binary"
Pack: TypeAlias = Callable[[pa.Table], pa.RecordBatch]
"""Records (RECORD) to packs for the shards that they concern (PACKED)."""

SHARE = 2
"""In the place where a pack says whether it has blocks."""
PACK_BYTES = 512 * 2**10
"""About the size of a pack behind a backlog, where packs pass Spark. It copies each some ten times,
into arrays of its own: with packs four times as large the JVM spent twice the time in the kernel
(fresh memory, page by page), and its collector copied arrays that die soon. Smaller packs cost
Python more."""
TABLE_BYTES_MIN, TABLE_BYTES_MAX = 2 * 2**20, 8 * 2**20
"""Bounds of a table whose rows are packed together. Allocators take memory for larger ones from the
system and give it back each time."""


def table_bytes(shards: int, *, in_files: bool = False) -> int:
    """Return at how many bytes a table is cut whose rows become packs for this many shards.

    ``in_files``: packs do not pass Spark (`streaming.arrow.large_rows`), and may be large.
    """
    if in_files:
        return TABLE_BYTES_MAX
    return min(max(TABLE_BYTES_MIN, shards * PACK_BYTES), TABLE_BYTES_MAX)


def in_packs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """A task's rows in tables that are large, but no larger than need be."""
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
    """Packs of Spark's rows."""
    return records.mapInArrow(partial(_pack_task, making=making), PACKED)


def _pack_task(batches: Iterator[pa.RecordBatch], making: Pack) -> Iterator[pa.RecordBatch]:
    return map(making, in_packs(batches))


def packed(
    shards: NDArray[Any],
    packs: Sequence[tuple[bytes, pa.Buffer]],
    keys: list[int],
    large_rows: str = "",
) -> pa.RecordBatch:
    """Rows of PACKED: the packs (`body_pieces`) of some shards under their state keys.

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
    """What a shard gets in place of its packs where it is to read a share of a batch itself."""
    return BODY_HEAD.pack(google_crc32c.value(share), SHARE) + share


def share_in(row: bytes) -> bytes | None:
    """Return the share in a row of PACKED; None: it has a pack. SequencerError: it is damaged."""
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

    ``shard``: that of each row. ``values`` puts the values of the sorted rows in their form.
    ``large_rows``: the folder for large packs; then nothing is compressed.
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
    """Return the rows (``schema``, or the same with blocks) of packs as they come.

    An empty table comes first. Their order is `order_of_arrival`.
    """
    tables = (pa.Table.from_batches([from_body(pack, schema)]) for pack in packs)
    return [schema.empty_table(), *tables]


def order_of_arrival(rows: pa.Table) -> NDArray[np.int64]:
    """Return the rows of a batch by topic, partition and offset.

    The one order in which a shard takes records and commands: packs come in any order, and a
    repeated batch gives the same bytes.
    """
    return order_by(*(flat(rows[name]).to_numpy() for name in ("topic", "partition", "offset")))


def in_order(packs: Sequence[bytes]) -> pa.Table:
    """Return the records (RECORD) of packs in order of arrival."""
    table = pa.concat_tables(unpacked(packs))
    return table.take(pa.array(order_of_arrival(table))).combine_chunks()

"""Encoding of what does not depend on a record's offset: keys, values and headers.

Arrow's kernels encode all rows at once; what rows share (dictionaries) is encoded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streaming.arrow.columns import Int64s, row_bytes
from streaming.arrow.pieces import (
    NO_BYTES,
    Piece,
    ends_and_bytes,
    joined,
    lengths_of,
    varints,
)
from streaming.wire.compression import stored_heads

MINUS_ONE = b"\x01"


@dataclass(frozen=True, slots=True)
class Shared:
    """A dictionary column whose entries are encoded; ``counts``: each entry's headers."""

    indices: pa.Array
    known: pa.Array
    counts: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    @staticmethod
    def of(column: pa.Array) -> Shared:
        """Encode a dictionary of bytes (each behind its length) or of headers."""
        known = column.dictionary
        indices = column.indices
        if known.null_count:  # null by its value is null by its index
            indices = pc.if_else(known.is_valid().take(indices), indices, None)
        if not pa.types.is_list(known.type):
            return Shared(indices, joined(*_sized(known)))
        counts, own = _own_headers(known)
        own = pa.repeat(own, len(counts)) if isinstance(own, pa.Scalar) else own
        return Shared(indices, own, counts)

    @property
    def null_count(self) -> int:
        """Return the number of null rows."""
        return int(self.indices.null_count)

    def is_valid(self) -> pa.Array:
        """Return which rows are not null."""
        return self.indices.is_valid()

    def slice(self, first: int, count: int) -> Shared:
        """Return some of the rows."""
        return Shared(self.indices.slice(first, count), self.known, self.counts)

    def bytes(self, null: bytes) -> pa.Array:
        """Return each row's bytes, ``null`` where it is null."""
        taken = self.known.take(self.indices)
        return taken.fill_null(null) if taken.null_count else taken


Column: TypeAlias = Any
"""An Arrow array, or a Shared."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The parts of records that do not depend on their offsets.

    ``begin`` has all of it; if rows have lz4 blocks, only what precedes a value: its blocks and
    what follows them are apart. ``lengths`` are those without lz4.
    """

    begin: Sequence[Piece]
    lengths: Int64s
    block: pa.Array | None = None
    end: pa.Array | None = None

    def take(self, order: pa.Array) -> Contents:
        """Return the rows in another order."""
        begin, lengths = [joined(*self.begin).take(order)], self.lengths[order]
        if self.block is None or self.end is None:
            return Contents(begin, lengths)
        return Contents(begin, lengths, self.block.take(order), self.end.take(order))

    def numbered(self, numbers: pa.Array) -> pa.Array:
        """Return each record, or its blocks: those of its value between two stored ones."""
        begin = joined(numbers, *self.begin)
        if self.block is None or self.end is None:
            return begin
        heads = [stored_heads(lengths_of(each)) for each in (begin, self.end)]
        return joined(heads[0], begin, self.block, heads[1], self.end)


def contents(record: Sequence[Column], added: Sequence[tuple[str, Column]]) -> Contents:
    """Encode each row's key, value, number of headers, and headers."""
    keys, *values, headers = record
    counts, own = _own_headers(headers)
    tail: list[Piece] = []
    for name, column in added:
        named = name.encode()
        named = varints(np.array([len(named)]))[0].as_py() + named
        if column.null_count:
            there = column.is_valid()
            counts = counts + there.to_numpy(zero_copy_only=False)
            piece = joined(pa.scalar(named, pa.binary()), *_sized(column))
            tail.append(pc.if_else(there, piece, NO_BYTES))
        else:
            counts = counts + 1
            tail += [pa.scalar(named, pa.binary()), *_sized(column)]
    tail = [_numbers(counts), own, *tail]
    if len(values) == 1:
        pieces = [*_sized(keys), *_sized(values[0]), *tail]
        return Contents(pieces, sum(map(_bytes_in, pieces), np.zeros(len(counts), np.int64)))
    block, size = values
    begin = joined(*_sized(keys), _numbers(size.fill_null(-1).to_numpy()))
    end = joined(*tail)
    if isinstance(end, pa.Scalar):
        end = pa.repeat(end, len(begin))
    lengths = lengths_of(begin) + size.fill_null(0).to_numpy() + lengths_of(end)
    return Contents([begin], lengths, block, end)


def _own_headers(headers: pa.Array | Shared) -> tuple[Int64s, Piece]:
    """Return each row's number of headers, and their bytes."""
    if isinstance(headers, Shared):
        known = np.append(headers.counts, 0)  # the last is for null
        at = headers.indices.fill_null(len(known) - 1)
        return known[at.to_numpy()], headers.bytes(b"")
    bounds = headers.offsets.to_numpy()
    pairs = headers.values.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
    if not len(pairs):
        return np.zeros(len(headers), np.int64), NO_BYTES
    names, values = as_binary(pairs.field("key")), pairs.field("value")
    ends, data = ends_and_bytes(joined(*_sized(names), *_sized(values)))
    ends = np.ascontiguousarray(ends[bounds - bounds[0]])
    buffers = [None, pa.py_buffer(ends), data]
    own = pa.BinaryArray.from_buffers(pa.binary(), len(headers), buffers)
    counts = np.diff(bounds).astype(np.int64)
    if headers.null_count:  # a null may own bytes
        counts[headers.is_null().to_numpy(zero_copy_only=False)] = 0
        own = pc.if_else(headers.is_valid(), own, NO_BYTES)
    return counts, own


def _sized(column: pa.Array | Shared) -> list[Piece]:
    """Return the column's bytes, each behind its length; -1 is null."""
    if isinstance(column, Shared):
        return [column.bytes(MINUS_ONE)]
    lengths = pc.binary_length(column)
    lengths = lengths.fill_null(-1) if lengths.null_count else lengths
    return [_numbers(lengths.to_numpy()), column]


def _bytes_in(piece: Piece) -> Int64s:
    """Return each row's number of bytes in a piece; one number if all share it."""
    if isinstance(piece, pa.Scalar):
        return np.asarray(len(piece.as_buffer()))
    return row_bytes(piece)


def _numbers(numbers: NDArray[np.integer]) -> Piece:
    """Return the numbers as varints; one for all if they are equal."""
    if len(numbers) and (numbers == numbers[0]).all():
        return varints(numbers[:1])[0]
    return varints(numbers)


def as_binary(column: pa.Array) -> pa.Array:
    """Return texts and numbers as bytes."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, as_binary(column.dictionary))
    if pa.types.is_binary(column.type):
        return column
    return column.cast(pa.string()).cast(pa.binary())

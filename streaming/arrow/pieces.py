"""Building the bytes of many rows at once, from pieces such as varints."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streaming.arrow.columns import Int64s

_ONE_EMPTY = [None, pa.py_buffer(bytes(8)), pa.py_buffer(b"")]
NO_BYTES = pa.BinaryArray.from_buffers(pa.binary(), 1, _ONE_EMPTY)[0]
"""An empty value; `pa.scalar` imports pandas, 40 MB for commands that never need it."""

Piece: TypeAlias = Any
"""Bytes of each row (an array), or the same for all (a scalar)."""


def varints(*columns: NDArray[np.integer]) -> pa.Array:
    """Encode each row's numbers as zigzag varints (KIP-98) in a sequence; at most 64 bits each."""
    zigzags = [_zigzag(column) for column in columns]
    sizes = [max(1, -(-int(each.max(initial=0)).bit_length() // 7)) for each in zigzags]
    rows = len(zigzags[0])
    matrix = np.empty((rows, sum(sizes)), np.uint8)
    is_there = np.ones(matrix.shape, np.bool_)
    lengths = np.full(rows, len(columns), np.int32)
    for rest, size, begin in zip(zigzags, sizes, np.cumsum(sizes) - sizes, strict=True):
        seven, low = rest.dtype.type(7), rest.dtype.type(0x7F)
        for at in range(begin, begin + size - 1):
            byte = (rest & low).astype(np.uint8)
            rest = rest >> seven  # noqa: PLW2901
            is_there[:, at + 1] = more = rest != 0
            matrix[:, at] = byte | more.view(np.uint8) << 7
            lengths += more
        matrix[:, begin + size - 1] = rest
    ends = np.zeros(rows + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    data = pa.py_buffer(np.ascontiguousarray(matrix[is_there]))
    return pa.BinaryArray.from_buffers(pa.binary(), rows, [None, pa.py_buffer(ends), data])


def _zigzag(numbers: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """Return the numbers in zigzag encoding, in four bytes each if that is enough."""
    wide = numbers.astype(np.int64, copy=False)
    zigzag = (wide << 1 ^ wide >> 63).view(np.uint64)
    return zigzag.astype(np.uint32) if zigzag.max(initial=0) < 1 << 32 else zigzag


def varint_sizes(numbers: Int64s) -> Int64s:
    """Return the number of bytes of each number's varint."""
    zigzag = _zigzag(numbers)
    sizes = np.ones(len(numbers), np.int64)
    for bits in range(7, int(zigzag.max(initial=0)).bit_length(), 7):
        sizes += zigzag >= zigzag.dtype.type(1 << bits)
    return sizes


def joined(*pieces: Piece) -> pa.Array:
    """Concatenate the pieces of each row; null is empty."""
    return pc.binary_join_element_wise(
        *pieces, NO_BYTES, null_handling="replace", null_replacement=b""
    )


def ends_and_bytes(column: pa.Array) -> tuple[NDArray[np.int32], pa.Buffer]:
    """Return the offset where each row ends (and the first begins), and the bytes."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return ends, data if data is not None else pa.py_buffer(b"")


def lengths_of(column: pa.Array) -> Int64s:
    """Return the number of bytes of each row."""
    return np.diff(ends_and_bytes(column)[0]).astype(np.int64)


def of_lengths(lengths: Int64s, data: pa.Buffer) -> pa.Array:
    """Cut the bytes into rows of these lengths; ArrowInvalid above 2 GiB."""
    ends = pa.array(np.append(0, np.cumsum(lengths)), pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, ends, data])

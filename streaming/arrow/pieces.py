"""Bytes of many rows, piece by piece: varints, and what is joined of them."""

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
    """Each row's numbers as zigzag varints (KIP-98), one behind the other; at most 64 bits."""
    parts, masks = [], []
    for column in columns:
        wide = column.astype(np.int64)
        zigzag = (wide << 1 ^ wide >> 63).view(np.uint64)
        size = max(1, -(-int(zigzag.max(initial=0)).bit_length() // 7))
        shifted = zigzag[:, None] >> (np.arange(size, dtype=np.uint64) * np.uint64(7))[None, :]
        more = np.zeros(shifted.shape, np.uint8)
        more[:, :-1] = (shifted[:, 1:] != 0) * np.uint8(0x80)
        parts.append((shifted & np.uint64(0x7F)).astype(np.uint8) | more)
        mask = shifted != 0
        mask[:, 0] = True
        masks.append(mask)
    matrix, mask = np.concatenate(parts, axis=1), np.concatenate(masks, axis=1)
    ends = np.zeros(len(matrix) + 1, np.int32)
    np.cumsum(mask.sum(axis=1), out=ends[1:])
    data = pa.py_buffer(np.ascontiguousarray(matrix[mask]))
    return pa.BinaryArray.from_buffers(pa.binary(), len(matrix), [None, pa.py_buffer(ends), data])


def varint_sizes(numbers: Int64s) -> Int64s:
    """How many bytes each number's varint has."""
    zigzag = (numbers << 1 ^ numbers >> 63).view(np.uint64)
    sizes = np.ones(len(numbers), np.int64)
    for bits in range(7, int(zigzag.max(initial=0)).bit_length(), 7):
        sizes += zigzag >> np.uint64(bits) != 0
    return sizes


def joined(*pieces: Piece) -> pa.Array:
    """The pieces of each row, one behind the other; null is empty."""
    return pc.binary_join_element_wise(
        *pieces, NO_BYTES, null_handling="replace", null_replacement=b""
    )


def ends_and_bytes(column: pa.Array) -> tuple[NDArray[np.int32], pa.Buffer]:
    """Where each row ends (and the first begins), and the bytes."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return ends, data if data is not None else pa.py_buffer(b"")


def lengths_of(column: pa.Array) -> Int64s:
    """How many bytes each row has."""
    return np.diff(ends_and_bytes(column)[0]).astype(np.int64)


def of_lengths(lengths: Int64s, data: pa.Buffer) -> pa.Array:
    """Rows of these lengths, one behind the other in the bytes; ArrowInvalid above 2 GiB."""
    ends = pa.array(np.append(0, np.cumsum(lengths)), pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, ends, data])

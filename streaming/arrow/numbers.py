"""Frame-of-reference encoding: each column as offsets from its minimum, in the narrowest type.

Numbers in tables of channels are close to each other: one epoch, small labels and sequences, batch
times of the last hour. A compressor of the 8-byte numbers took four times as long.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

ROWS = struct.Struct("<I")
COLUMN = struct.Struct("<qB")
"""A column's minimum, and the bytes of each offset: 0, or WHOLE plus the width of an integer.
An older form, without WHOLE, has the least number of bytes, all lowest bytes first."""
WHOLE = 16


def to_bytes(columns: Sequence[Int64s]) -> bytes:
    """Encode columns of one length, one behind the other."""
    rows = len(columns[0])
    heads, bodies = [ROWS.pack(rows)], []
    for column in columns:
        least = int(column.min()) if rows else 0
        above = column.astype("<i8", copy=False)
        above = above - least if least else above  # modulo 2**64
        most = int(above.view(np.uint64).max(initial=0))
        width = np.min_scalar_type(most).itemsize if most else 0
        heads.append(COLUMN.pack(least, width and WHOLE + width))
        if width:
            bodies.append(above.astype(f"<u{width}").tobytes())
    return b"".join(heads + bodies)


def from_bytes(body: pa.Buffer, columns: int) -> tuple[list[Int64s], pa.Buffer]:
    """Return the inverse of :func:`to_bytes`, for this many columns, and the bytes that follow."""
    data = memoryview(body)
    (rows,) = ROWS.unpack_from(data)
    at = ROWS.size + columns * COLUMN.size
    found = []
    for least, width in COLUMN.iter_unpack(data[ROWS.size : at]):
        stop = at + rows * (width % WHOLE)
        if width > WHOLE:
            above = np.frombuffer(data[at:stop], f"<u{width % WHOLE}")
            found.append(np.add(above, least, dtype=np.int64, casting="unsafe"))
        elif width:
            found.append(_of_planes(data[at:stop], rows, width) + least)
        else:
            found.append(np.full(rows, least))
        at = stop
    return found, body.slice(at)


def _of_planes(data: memoryview, rows: int, width: int) -> Int64s:
    whole = np.zeros((rows, 8), np.uint8)
    whole[:, :width] = np.frombuffer(data, np.uint8).reshape(width, rows).T
    return whole.reshape(-1).view("<i8")

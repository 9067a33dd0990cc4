"""The records of Kafka's batches (message format 2) as columns.

The positions of records are found for all batches together, one record of each batch at a time.
Their fields are then decoded for all records together, and each column is gathered at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from streaming.arrow.columns import Bools, Int64s
from streaming.arrow.schemas import (
    CREATE_TIME,
    HEADERS,
    LOG_APPEND_TIME,
    RECORD,
    TIMESTAMP_TYPE,
)

Bytes = NDArray[np.uint8]

FEW = 16
"""Once at most this many rows have further headers, these are read one by one."""
FEW_BATCHES = 80
"""At most this many batches are read record by record: a vectorised step costs as much as 80
records."""
STRETCH = 64
"""About the number of records in a stretch; stretches of a batch are searched side by side."""
WINDOWS_SHARE, GUESSES_MAX = 4, 16
"""The most bytes (a share of all) and candidates (for each stretch) that are searched; beyond that
records are found one by one. Bytes may be hostile."""
USUAL_BYTES_MAX = 700
"""Records larger than this are so few that finding them one by one is faster than guessing."""
VARINT_BITS_MAX = 70
INT_BITS = 32
INT_MASK = 2**INT_BITS - 1
NUMBERS_BYTES = 40
"""The most bytes that a size, the attributes and two deltas can take."""

Omitted = tuple[int, ...]
"""Fields of a batch that its records omit: number of records, topic, partition, base offset, first
ms, the batch's own ms or NO_OWN_MS, wanted from, wanted to."""
NO_OWN_MS = -(2**63)


class Body(NamedTuple):
    """A batch's records: ``size`` bytes of ``data``, from ``begin`` on."""

    data: bytes
    begin: int
    size: int


def columns(
    bodies: Sequence[Body], omitted: Sequence[Omitted], schema: pa.Schema = RECORD
) -> pa.Table:
    """Return the wanted records of some batches as rows of RECORD.

    ``omitted[i]``: the fields of batch i that its records omit.

    With TYPED_RECORD as ``schema`` rows also have the type of their timestamps. Values are not
    copied: they are a dictionary whose unused entries are the bytes between them.
    Raises ValueError, IndexError or OverflowError if the bytes are not records. No batch is empty.
    """
    whole, begin = _in_one(bodies)
    data = np.frombuffer(whole, np.uint8)
    records, topic, partition, base, first_ms, own_ms, wanted, stop = np.array(omitted, np.int64).T
    sizes = np.array([each.size for each in bodies])
    at, size = _places(whole, begin, sizes, records)
    last = np.cumsum(records) - 1
    if (at[last] + size[last] != begin + sizes).any():
        raise ValueError("there are more or fewer than their number")
    batch = np.repeat(np.arange(len(records)), records)
    delta_ms, p = varints(data, at + 1, is_long=True)  # behind the attributes
    delta, p = varints(data, p)
    offset = base[batch] + delta
    keep = (offset >= wanted[batch]) & (offset < stop[batch])
    if not keep.all():
        at, size, batch, delta_ms, p, offset = (
            each[keep] for each in (at, size, batch, delta_ms, p, offset)
        )
    key_size, key_at = varints(data, p)
    value_size, value_at = varints(data, key_at + np.maximum(key_size, 0))
    headers, p = _headers(data, value_at + np.maximum(value_size, 0))
    if (p != at + size).any():
        raise ValueError("longer, or shorter")
    own = own_ms[batch]
    appended = own != NO_OWN_MS
    found = [
        pa.array(topic[batch].astype(np.int32)),
        pa.array(partition[batch].astype(np.int32)),
        pa.array(offset),
        pa.array(np.where(appended, own, first_ms[batch] + delta_ms)),
        _gathered(data, key_at, key_size),
        _found(data, value_at, value_size),
        headers,
    ]
    if TIMESTAMP_TYPE.name in schema.names:
        found.append(pa.array(np.where(appended, LOG_APPEND_TIME, CREATE_TIME).astype(np.int32)))
    return pa.Table.from_arrays(found, names=schema.names)


def _in_one(bodies: Sequence[Body]) -> tuple[bytes, Int64s]:
    """Return the bytes of all bodies and where each begins; bodies of one answer are not copied."""
    data = bodies[0].data
    if all(each.data is data for each in bodies):
        return data, np.array([each.begin for each in bodies])
    sizes = np.array([each.size for each in bodies])
    parts = (memoryview(each.data)[each.begin : each.begin + each.size] for each in bodies)
    return b"".join(parts), np.cumsum(sizes) - sizes


def varints(
    data: Bytes, at: Int64s, *, guess: bool = False, is_long: bool = False
) -> tuple[Int64s, Int64s]:
    """Return the zigzag varints at these positions, and the positions behind them.

    They have 32 bits, or 64 (``is_long``): brokers, as Java's clients, drop further ones.
    ``guess``: a position may hold no varint; its number is then arbitrary.
    """
    byte = data[at]
    value = (byte & 0x7F).astype(np.int64)
    at = at + 1
    more = np.flatnonzero(byte > 0x7F)
    shift = 7
    while len(more):
        byte = data[at[more]]
        value[more] |= (byte & 0x7F).astype(np.int64) << shift
        at[more] += 1
        more = more[byte > 0x7F]
        shift += 7
        if shift > VARINT_BITS_MAX:
            if guess:
                break
            raise ValueError("a number without an end")
    if shift > INT_BITS and not is_long:
        value &= INT_MASK
    # The sign is the lowest bit; the rest is shifted as unsigned, as all 64 bits may be used.
    half = (value.view(np.uint64) >> np.uint64(1)).view(np.int64)
    return half ^ -(value & 1), at


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the zigzag varint of 32 bits at a position, and the position behind it."""
    value = shift = 0
    while shift < VARINT_BITS_MAX:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= INT_MASK
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise ValueError("a number without an end")


def _places(whole: bytes, begin: Int64s, sizes: Int64s, records: Int64s) -> tuple[Int64s, Int64s]:
    """Return where each record begins (behind its size), and its size; in order of batch.

    ``begin``: the position of each batch's first size. Batches of many records are searched in
    stretches, side by side, if each ends where the next one begins; else record by record.
    """
    with suppress(ValueError, IndexError):
        guessed, counts, is_first = _stretches(whole, begin, begin + sizes, records)
        at, size = _walked(whole, guessed, counts)
        ends = np.cumsum(counts) - 1
        if (is_first[1:] | ((at + size)[ends[:-1]] == guessed[1:])).all():
            return at, size
    return _walked(whole, begin, records)


def _stretches(
    whole: bytes, begin: Int64s, stop: Int64s, records: Int64s
) -> tuple[Int64s, Int64s, Bools]:
    """Return where stretches may begin, their numbers of records, and which are a batch's first.

    A guess: a zero (the attributes) follows a size, and the record behind it has the next offset.
    The offset delta is the number of records before.
    """
    usual = int(np.median((stop - begin) // records))
    look, width = usual * 3 // 2 + NUMBERS_BYTES, 1 + (usual >= 1 << 6) + (usual >= 1 << 13)
    more = records // STRETCH * (stop - begin > (records // STRETCH + 2) * look)
    plain = (begin, records, np.ones(len(begin), np.bool_))
    if usual > USUAL_BYTES_MAX or not more.any():
        return plain
    if int(more.sum()) * look > len(whole) // WINDOWS_SHARE:
        return plain
    data = np.frombuffer(whole, np.uint8)
    batch = np.repeat(np.arange(len(begin)), more)
    nth = np.arange(1, len(batch) + 1) - np.repeat(np.cumsum(more) - more, more)
    target = begin[batch] + (stop - begin)[batch] * nth // (more[batch] + 1)
    windows = sliding_window_view(data, look)[target]
    guess, place = np.nonzero(_may_begin(windows, width))
    if len(guess) > GUESSES_MAX * len(target):
        return plain
    at, batch = target[guess] + place, batch[guess]
    delta, behind = _offset_at(data, at, stop[batch])
    after, _ = _offset_at(data, behind, stop[batch])
    good = np.flatnonzero((after == delta + 1) & (delta > 0) & (after < records[batch]))
    good = good[np.unique(guess[good], return_index=True)[1]]
    # Each has more records before it than those before: all together have the batch's number.
    rank = batch[good] * int(records.max()) + delta[good]
    good = good[np.diff(np.maximum.accumulate(rank), prepend=-1) > 0]
    at = np.concatenate([begin, at[good]])
    batch = np.concatenate([np.arange(len(begin)), batch[good]])
    before = np.concatenate([np.zeros(len(begin), np.int64), delta[good]])
    order = np.argsort(batch, kind="stable")
    at, batch, before = at[order], batch[order], before[order]
    is_first = np.diff(batch, prepend=-1) > 0
    counts = np.where(np.append(is_first[1:], True), records[batch], np.append(before[1:], 0))
    return at, counts - before, is_first


def _may_begin(windows: Bytes, width: int) -> Bools:
    """Return whether each row's bytes look like a size of this width with a zero behind it."""
    found: Bools = (windows[:, width:] == 0) & (windows[:, width - 1 : -1] < 0x80)
    return found & (windows[:, :-width] >= 0x80) if width > 1 else found


def _offset_at(data: Bytes, at: Int64s, stop: Int64s) -> tuple[Int64s, Int64s]:
    """Return the offset delta of the record whose size is here (-1: no record), and its end."""
    size, at = varints(data, np.minimum(at, stop - NUMBERS_BYTES), guess=True)
    is_record = (size > 0) & (size <= stop - at) & (data[at] == 0)
    _, p = varints(data, at + 1, guess=True)
    delta, _ = varints(data, p, guess=True)
    return np.where(is_record, delta, -1), np.where(is_record, at + size, stop)


def _walked(whole: bytes, begin: Int64s, records: Int64s) -> tuple[Int64s, Int64s]:
    """Find records by going from one to the next; a step finds one of each batch or stretch."""
    first = np.cumsum(records) - records
    data = np.frombuffer(whole, np.uint8)
    at, size = np.empty((2, int(records.sum())), np.int64)
    order = np.argsort(-records, kind="stable")
    place, slot = begin[order], first[order]
    alive = np.searchsorted(-records[order], -np.arange(1, int(records.max()) + 1), side="right")
    steps = int(np.searchsorted(-alive, -FEW_BATCHES, side="right"))
    for step, live in enumerate(alive[:steps].tolist()):
        size_here, place = varints(data, place[:live])
        at[slot[:live] + step] = place
        size[slot[:live] + step] = size_here
        place = place + size_here
    for row in range(int(alive[steps]) if steps < len(alive) else 0):
        rest = slice(int(slot[row]) + steps, int(slot[row] + records[order[row]]))
        begins = _begins(whole, int(place[row]), rest.stop - rest.start)
        size[rest], at[rest] = varints(data, np.array(begins))
    return at, size


def _begins(data: bytes, at: int, count: int) -> list[int]:
    """Return where each of ``count`` records begins; they lie one behind the other."""
    begins = []
    for _ in range(count):
        begins.append(at)
        size = data[at]
        if size < 0x80:
            at += 1 + (size >> 1)
        elif (more := data[at + 1]) < 0x80:
            at += 2 + ((size & 0x7F | more << 7) >> 1)
        else:
            size, at = varint(data, at)
            at += size
    return begins


def _headers(data: Bytes, at: Int64s) -> tuple[pa.Array, Int64s]:
    """Return the headers at these positions, null where there are none; the positions behind."""
    count, p = varints(data, at)
    if (count < 0).any() or count.sum() > len(data):
        raise ValueError("a wrong number of headers")
    bounds = np.append(0, np.cumsum(count))
    key_at, key_size, value_at, value_size = np.empty((4, int(bounds[-1])), np.int64)
    rows = np.flatnonzero(count)
    step = 0
    while len(rows) >= FEW:
        slot = bounds[rows] + step
        key_size[slot], key_at[slot] = varints(data, p[rows])
        value_size[slot], value_at[slot] = varints(
            data, key_at[slot] + np.maximum(key_size[slot], 0)
        )
        p[rows] = value_at[slot] + np.maximum(value_size[slot], 0)
        step += 1
        rows = rows[count[rows] > step]
    view = data.data
    for row in rows.tolist():
        cursor = int(p[row])
        for index in range(int(bounds[row]) + step, int(bounds[row + 1])):
            key, cursor = varint(view, cursor)
            key_size[index], key_at[index] = key, cursor
            value, cursor = varint(view, cursor + max(key, 0))
            value_size[index], value_at[index] = value, cursor
            cursor += max(value, 0)
        p[row] = cursor
    pairs = pa.StructArray.from_arrays(
        [_text(_gathered(data, key_at, key_size)), _gathered(data, value_at, value_size)],
        fields=list(HEADERS.value_type),
    )
    none = count == 0
    mask = pa.array(none) if none.any() else None
    ends = pa.array(bounds.astype(np.int32))
    return pa.ListArray.from_arrays(ends, pairs, type=HEADERS, mask=mask), p


def _gathered(data: Bytes, at: Int64s, size: Int64s) -> pa.Array:
    """Return the bytes at these ascending positions; null where the size is negative."""
    return _found(data, at, size).dictionary_decode()


def _found(data: Bytes, at: Int64s, size: Int64s) -> pa.DictionaryArray:
    """Return the same as :func:`_gathered` as a dictionary, without a copy."""
    rows = len(at)
    bounds = np.stack([at, at + np.maximum(size, 0)], axis=1).ravel()
    if rows and (bounds[-1] > min(len(data), 2**31 - 1) or (np.diff(bounds) < 0).any()):
        raise ValueError("one lies in another")
    # Elements alternate: a wanted one, then the bytes up to the next.
    every = pa.Array.from_buffers(
        pa.binary(),
        max(2 * rows - 1, 0),
        [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(data)],
    )
    missing = size < 0
    which = np.arange(0, 2 * rows, 2, dtype=np.int32)
    indices = pa.array(which, mask=missing if missing.any() else None)
    return pa.DictionaryArray.from_arrays(indices, every, safe=False)


def _text(keys: pa.Array) -> pa.Array:
    """Return headers' names, "" where there is none; invalid UTF-8 is replaced as Java does."""
    keys = keys.fill_null(b"")
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())

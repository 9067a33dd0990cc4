"""Where names stand among many known ones."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Hashes: TypeAlias = NDArray[np.uint64]

MANY = 2**17
"""From this many known names on Arrow's table of hashes is too large for the processor's caches: to
make it, and to look into it for each name, takes three times as long as to sort all hashes."""
WORD_BYTES = 8
MASKS = np.array([2 ** (8 * size) - 1 for size in range(WORD_BYTES + 1)], np.uint64)
"""The lowest bytes of a word, by how many."""
FACTORS = np.array([0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53], np.uint64)
"""Of MurmurHash3's last step (64 bits), which spreads each bit over all others."""


def rows_of(names: pa.Array, known: pa.Array) -> Ints:
    """The row of each name (binary) among distinct known ones (no nulls); -1 where it has none."""
    if len(known) < MANY:
        return _looked_up(names, known)
    there = names.fill_null(b"") if names.null_count else names
    rows = _with_its_hash(there, known)
    different = pc.not_equal(there, known.take(pa.array(rows, mask=rows < 0)))
    others = pc.indices_nonzero(different).to_numpy()
    if len(others):  # two names have one hash
        rows[others] = _looked_up(there.take(pa.array(others)), known)
    if names.null_count:
        rows[names.is_null().to_numpy(zero_copy_only=False)] = -1
    return rows


def _looked_up(names: pa.Array, known: pa.Array) -> Ints:
    rows = pc.index_in(names, value_set=known).fill_null(-1)
    return np.asarray(rows.to_numpy().astype(np.int64))


def _with_its_hash(names: pa.Array, known: pa.Array) -> Ints:
    """For each name the first of the known rows whose name has the same hash; -1: there is none."""
    count = len(known)
    keys = np.concatenate([_hashes(known), _hashes(names)])
    rows = np.arange(len(keys), dtype=np.uint64)
    bits = len(keys).bit_length()
    keys >>= np.uint64(bits + 1)  # a hash loses what a row needs, and stays above 0 with a sign
    ordered = (keys << np.uint64(bits) | rows).view(np.int64)
    ordered.sort()
    at = ordered & ((1 << bits) - 1)
    ordered >>= bits
    begins = np.diff(ordered, prepend=-1) != 0
    found = np.empty(len(keys), np.int64)
    found[at] = at[begins][np.cumsum(begins) - 1]
    found = found[count:]
    found[found >= count] = -1
    return found


def _hashes(names: pa.Array) -> Hashes:
    """A hash of each name, eight of its bytes at a time."""
    _, offsets, data = names.buffers()
    ends = np.frombuffer(offsets, np.int32)[names.offset : names.offset + len(names) + 1]
    ends = ends.astype(np.int64)
    own = np.zeros(ends[-1] - ends[0] + WORD_BYTES, np.uint8)  # the last word reaches behind them
    if data is not None:
        own[:-WORD_BYTES] = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    words = np.ndarray(len(own) - WORD_BYTES + 1, "<u8", own, strides=(1,))  # from each byte on
    begins, sizes = ends[:-1] - ends[0], np.diff(ends)
    hashes: Hashes = sizes.astype(np.uint64)
    for at in range(0, int(sizes.max(initial=0)), WORD_BYTES):
        some = np.flatnonzero(sizes > at) if at else slice(None)
        word = words[begins[some] + at] & MASKS[np.minimum(sizes[some] - at, WORD_BYTES)]
        mixed = (hashes[some] ^ word) * FACTORS[0]
        hashes[some] = mixed ^ mixed >> np.uint64(32)
    hashes *= FACTORS[1]
    return hashes

"""Spark's `xxhash64` of bytes: XXH64 (Yann Collet's specification) with the seed 42.

Shards of channels are told by it, so it must be the same for ever, whoever reads the records.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streaming.arrow.partitioner import by_length

SEED = 42
U64: TypeAlias = NDArray[np.uint64]

P1, P2, P3, P4, P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def xxhash64(keys: pa.Array) -> NDArray[np.int64]:
    """The hash of each key (binary); of null it is the seed."""
    hashes = np.full(len(keys), SEED, dtype=np.uint64)
    for rows, matrix in by_length(keys.fill_null(b"") if keys.null_count else keys):
        hashes[rows] = _same_length(matrix)
    if keys.null_count:
        hashes[keys.is_null().to_numpy(zero_copy_only=False)] = SEED
    return hashes.view(np.int64)


def shards_of(keys: pa.Array, shards: int) -> NDArray[np.uint16]:
    """The shard of each key, as Spark's ``pmod(xxhash64(key), shards)``."""
    return (xxhash64(keys) % shards).astype(np.uint16)


def _same_length(matrix: NDArray[np.uint8]) -> U64:
    """Of the rows of a byte matrix."""
    count, length = matrix.shape
    words = np.ascontiguousarray(matrix[:, : length // 8 * 8]).view("<u8").T
    seed = np.uint64(SEED)
    nothing: U64 = np.zeros(count, np.uint64)
    hashes: U64 = nothing + (seed + P5)
    at = 0
    with np.errstate(over="ignore"):
        if length >= 32:
            lanes = [nothing + start for start in (seed + P1 + P2, seed + P2, seed, seed - P1)]
            for at in range(0, length // 32 * 4, 4):
                lanes = [_round(lane, words[at + i]) for i, lane in enumerate(lanes)]
            at += 4
            turned = (_turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
            hashes = np.add.reduce(list(turned))
            for lane in lanes:
                hashes = (hashes ^ _round(nothing, lane)) * P1 + P4
        hashes = hashes + np.uint64(length)
        for word in words[at:]:
            hashes = _turned(hashes ^ _round(nothing, word), 27) * P1 + P4
        at = length // 8 * 8
        if length - at >= 4:
            half = np.ascontiguousarray(matrix[:, at : at + 4]).view("<u4")[:, 0].astype(np.uint64)
            hashes = _turned(hashes ^ half * P1, 23) * P2 + P3
            at += 4
        for byte in matrix[:, at:].T.astype(np.uint64):
            hashes = _turned(hashes ^ byte * P5, 11) * P1
        hashes = (hashes ^ hashes >> np.uint64(33)) * P2
        hashes = (hashes ^ hashes >> np.uint64(29)) * P3
    return hashes ^ hashes >> np.uint64(32)


def _round(lane: U64, word: U64) -> U64:
    return _turned(lane + word * P2, 31) * P1


def _turned(lane: U64, by: int) -> U64:
    return lane << np.uint64(by) | lane >> np.uint64(64 - by)

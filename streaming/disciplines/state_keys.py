"""Hashes as Spark has them: state keys spread evenly over the partitions, channels' shards."""

from __future__ import annotations

import struct


def shard_keys(shards: int, partitions: int) -> list[int]:
    """For each shard a state key that Spark's hash partitioning sends to ``shard % partitions``.

    Spark spreads few keys unevenly; keys chosen by their hash give each state partition its share.
    """
    candidate = 0
    wanted: dict[int, list[int]] = {at: [] for at in range(partitions)}
    per_partition = -(-shards // partitions)
    while any(len(keys) < per_partition for keys in wanted.values()):
        keys = wanted[_spark_hash_int(candidate) % partitions]
        if len(keys) < per_partition:
            keys.append(candidate)
        candidate += 1
    return [wanted[shard % partitions][shard // partitions] for shard in range(shards)]


def _spark_hash_int(value: int, seed: int = 42) -> int:
    """Spark's Murmur3 (x86, 32 bit) hash of an int, signed: what HashPartitioning takes modulo."""
    mask = 0xFFFFFFFF

    def rotate(number: int, by: int) -> int:
        return (number << by | number >> (32 - by)) & mask

    k = rotate(value * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (rotate(seed ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_MASK = 2**64 - 1


def channel_shard(channel: bytes, shards: int) -> int:
    """The shard of a channel: Spark's ``pmod(xxhash64(channel), shards)``."""
    number = xxhash64(channel)
    return (number - 2**64 if number >> 63 else number) % shards


def xxhash64(data: bytes, seed: int = 42) -> int:
    """XXH64 of some bytes, unsigned; the seed is that of Spark's SQL function."""
    one, two, _, _, five = _PRIMES
    at = 0
    if len(data) >= 32:
        lanes = [seed + one + two, seed + two, seed, seed - one]
        for at in range(0, len(data) - 31, 32):
            words = struct.unpack_from("<4Q", data, at)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
        at += 32
        mixed = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            mixed = (mixed ^ _round(0, lane)) * one + _PRIMES[3]
    else:
        mixed = seed + five
    return _avalanche(_tail(mixed + len(data), data[at:]))


def _tail(mixed: int, rest: bytes) -> int:
    """What is left behind the last 32 bytes: words of 8 bytes, one of 4, single bytes."""
    one, two, three, four, five = _PRIMES
    words = len(rest) // 8
    for word in struct.unpack_from(f"<{words}Q", rest):
        mixed = _rotated(mixed ^ _round(0, word), 27) * one + four
    rest = rest[words * 8 :]
    if len(rest) >= 4:
        mixed = _rotated(mixed ^ int.from_bytes(rest[:4], "little") * one, 23) * two + three
        rest = rest[4:]
    for byte in rest:
        mixed = _rotated(mixed ^ byte * five, 11) * one
    return mixed


def _round(lane: int, word: int) -> int:
    return _rotated(lane + word * _PRIMES[1], 31) * _PRIMES[0] & _MASK


def _rotated(number: int, by: int) -> int:
    number &= _MASK
    return (number << by | number >> (64 - by)) & _MASK


def _avalanche(mixed: int) -> int:
    mixed &= _MASK
    mixed = (mixed ^ mixed >> 33) * _PRIMES[1] & _MASK
    mixed = (mixed ^ mixed >> 29) * _PRIMES[2] & _MASK
    return mixed ^ mixed >> 32

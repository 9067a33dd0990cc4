"""XXH64 of many keys against XXH64 of one, written down as its specification says it."""

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.arrow.xxhash64 import shards_of, xxhash64

PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
MASK = 2**64 - 1


def turned(number, by):
    number &= MASK
    return (number << by | number >> (64 - by)) & MASK


def mixed_in(lane, word):
    return turned(lane + word * PRIMES[1], 31) * PRIMES[0] & MASK


def of_one(data, seed):
    one, two, three, four, five = PRIMES
    found = seed + five
    at = 0
    if len(data) >= 32:
        lanes = [seed + one + two, seed + two, seed, seed - one]
        for at in range(0, len(data) - 31, 32):
            words = struct.unpack_from("<4Q", data, at)
            lanes = [mixed_in(lane, word) for lane, word in zip(lanes, words, strict=True)]
        at += 32
        found = sum(turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            found = (found ^ mixed_in(0, lane)) * one + four
    found += len(data)
    while at + 8 <= len(data):
        (word,) = struct.unpack_from("<Q", data, at)
        found = turned(found ^ mixed_in(0, word), 27) * one + four
        at += 8
    if at + 4 <= len(data):
        (word,) = struct.unpack_from("<I", data, at)
        found = turned((found & MASK) ^ word * one & MASK, 23) * two + three
        at += 4
    for byte in data[at:]:
        found = turned((found & MASK) ^ byte * five & MASK, 11) * one
    found &= MASK
    found = (found ^ found >> 33) * two & MASK
    found = (found ^ found >> 29) * three & MASK
    return found ^ found >> 32


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_the_model_is_xxhash(data, found):
    """The values are those of XXH64's own test program, with its seed."""
    assert of_one(data, 0) == found


@given(keys=st.lists(st.none() | st.binary(max_size=100), max_size=20))
def test_many_are_hashed_as_one_is(keys):
    signed = [42 if key is None else of_one(key, 42) for key in keys]
    signed = [each - 2**64 if each >> 63 else each for each in signed]
    assert xxhash64(pa.array(keys, pa.binary())).tolist() == signed
    sliced = pa.array([b"before", *keys], pa.binary()).slice(1)
    assert shards_of(sliced, 7).tolist() == [each % 7 for each in signed]


def test_hashes_that_spark_gave():
    """`select xxhash64(k)` of these, and of null."""
    keys = [b"", b"a", b"c0000001", bytes(range(31)), bytes(range(32)), b"x" * 1_000, None]
    assert xxhash64(pa.array(keys, pa.binary())).tolist() == [
        -7444071767201028348,
        -8582455328737087284,
        -907040373279362523,
        -8988936099728967847,
        -8644129751861931918,
        -8448076897081045321,
        42,
    ]

"""Names among many known ones, the same as by a dictionary, whatever their hashes are."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer import lookup
from sequencer.lookup import rows_of

NAMES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"\0", b"\0\0", b"a", b"a\0", b"12345678", b"12345678\0", b"1234567812"]),
)
OWN = lookup._hashes
HASHES = {
    "own": OWN,
    "one for all": lambda names: np.zeros(len(names), np.uint64),
    "few": lambda names: OWN(names) >> np.uint64(62) << np.uint64(62),
    "largest": lambda names: np.full(len(names), 2**64 - 1, np.uint64),
}
"""Names of one hash are told apart."""


def plainly(names, known):
    """The row of each by a dictionary."""
    rows = {name: row for row, name in enumerate(known)}
    return [rows.get(name, -1) for name in names]


def cut(names, before):
    """The names as an array, before which others lie in its buffers."""
    return pa.array([*before, *names], pa.binary()).slice(len(before))


@given(
    known=st.lists(NAMES, max_size=30, unique=True),
    others=st.lists(st.none() | NAMES, max_size=30),
    picked=st.lists(st.integers(0, 29), max_size=30),
    before=st.lists(NAMES, max_size=3),
    hashes=st.sampled_from(sorted(HASHES)),
)
def test_as_by_a_dictionary(known, others, picked, before, hashes):
    names = [*others, *(known[at] for at in picked if at < len(known))]
    with pytest.MonkeyPatch.context() as put:
        put.setattr(lookup, "MANY", 0)
        put.setattr(lookup, "_hashes", HASHES[hashes])
        found = rows_of(cut(names, before), cut(known, before))
    assert found.tolist() == plainly(names, known)
    assert found.dtype == np.int64


def test_many_names():
    rng = np.random.default_rng(3)
    numbers = rng.permutation(4 * lookup.MANY)
    known = [b"channel-%d" % number for number in numbers[: lookup.MANY].tolist()]
    names = [b"channel-%d" % number for number in rng.permutation(numbers).tolist()]
    found = rows_of(pa.array(names, pa.binary()), pa.array(known, pa.binary()))
    assert found.tolist() == plainly(names, known)
    fewer = rows_of(pa.array(names[:99], pa.binary()), pa.array(known[:-1], pa.binary()))
    assert fewer.tolist() == plainly(names[:99], known[:-1])


def test_hashes_are_spread():
    """Names that count up, and those that differ in one bit, have as many hashes as there are."""
    counted = [b"c%07d" % number for number in range(100_000)]
    long = [bytes(at) + bytes([1 << bit]) + bytes(63 - at) for at in range(64) for bit in range(8)]
    for names in (counted, long, [bytes(size) for size in range(300)]):
        hashes = lookup._hashes(pa.array(names, pa.binary()))
        assert len(np.unique(hashes >> np.uint64(24))) == len(names)

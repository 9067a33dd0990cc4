"""Lists of names with commas between, as senders write them: each distinct list is read once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Lists:
    """Distinct lists of distinct names.

    ``of`` (records): the list of each record. ``starts`` (lists + 1): where a list's names begin in
    ``name``, which has places in ``names`` (binary). A name stands in a list once, where it was
    first.
    """

    of: Int64s
    starts: Int64s
    name: Int64s
    names: pa.Array

    @property
    def sizes(self) -> Int64s:
        """Names in each list."""
        return np.diff(self.starts)

    def list_of_name(self) -> Int64s:
        """The list of each entry of `name`."""
        return np.repeat(np.arange(len(self.starts) - 1), self.sizes)

    def counts(self, which: Bools) -> Int64s:
        """In each list, the names of which ``which`` (names) is true."""
        return np.diff(np.concatenate(([0], np.cumsum(which[self.name])))[self.starts])

    def only(self, which: Bools) -> Lists:
        """The lists with only those entries of ``name`` where ``which`` is true."""
        starts = np.concatenate(([0], np.cumsum(which)))[self.starts]
        return Lists(self.of, starts, self.name[which], self.names)

    def texts(self) -> pa.Array:
        """Each list as it would be written (binary)."""
        words = self.names.take(pa.array(self.name))
        return pc.binary_join(
            pa.ListArray.from_arrays(pa.array(self.starts, pa.int32()), words), b","
        )


def read_lists(texts: pa.Array, *, empty_is_none: bool = False) -> Lists:
    """The list in each text (binary; null is empty).

    An empty text is a list of one empty name, or with ``empty_is_none`` a list without names.
    """
    coded = pc.fill_null(texts, b"").dictionary_encode()
    split = pc.split_pattern(coded.dictionary, ",")
    sizes = np.diff(split.offsets.to_numpy()).astype(np.int64)
    words = split.flatten().dictionary_encode()
    name = words.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    lists = Lists(
        coded.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        starts,
        name,
        words.dictionary,
    )
    which = _first(lists.list_of_name() * max(len(words.dictionary), 1) + name)
    if empty_is_none:
        none = pc.equal(coded.dictionary, b"").to_numpy(zero_copy_only=False)
        which &= ~none[lists.list_of_name()]
    return lists if which.all() else lists.only(which)


def _first(values: Int64s) -> Bools:
    """Where a value stands that was not there before."""
    codes = pa.array(values).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    before = np.concatenate(([-1], np.maximum.accumulate(codes)[:-1])) if len(codes) else codes
    return np.asarray(codes > before)

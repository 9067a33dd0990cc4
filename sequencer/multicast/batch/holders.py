"""Who holds a handle to which node: one sorted array of pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sequencer.multicast.batch.lists import Bools, Int64s

ROW_BITS = 32
ROW_MASK = (1 << ROW_BITS) - 1


@dataclass(slots=True)
class Holders:
    """The pairs of a node's number (below 2^31) and a peer's row (below 2^32), sorted, distinct.

    Pairs that were released or destroyed are marked, and go with `settle`: until then no pair may
    be added.
    """

    pairs: Int64s
    gone: Bools

    @classmethod
    def of(cls, pairs: Int64s) -> Holders:
        """From sorted pairs."""
        return cls(pairs, np.zeros(len(pairs), np.bool_))

    def release(self, node: int, row: int) -> None:
        """A peer gives a handle back; nothing happens where it has none."""
        pair = node << ROW_BITS | row
        at = int(np.searchsorted(self.pairs, pair))
        if at < len(self.pairs) and self.pairs[at] == pair:
            self.gone[at] = True

    def destroy(self, node: int) -> Int64s:
        """The rows of those who hold the node's handle, ascending; they hold it no longer."""
        first, stop = np.searchsorted(self.pairs, [node << ROW_BITS, node + 1 << ROW_BITS])
        rows = self.pairs[first:stop][~self.gone[first:stop]] & ROW_MASK
        self.gone[first:stop] = True
        return np.asarray(rows)

    def settle(self) -> None:
        """Drop what was marked."""
        if self.gone.any():
            self.pairs = self.pairs[~self.gone]
            self.gone = np.zeros(len(self.pairs), np.bool_)

    def add(self, nodes: Int64s, rows: Int64s) -> None:
        """Peers get handles, some of which they may have."""
        new = np.unique(nodes << ROW_BITS | rows)
        at = np.searchsorted(self.pairs, new)
        inside = at < len(self.pairs)
        there = np.zeros(len(new), np.bool_)
        there[inside] = self.pairs[at[inside]] == new[inside]
        if not there.all():
            self.pairs = np.insert(self.pairs, at[~there], new[~there])
            self.gone = np.zeros(len(self.pairs), np.bool_)

    def keep(self, kept: Bools) -> None:
        """Only some peers stay (a mask over their rows), and their rows move up."""
        row = self.pairs & ROW_MASK
        moved = np.cumsum(kept) - 1
        stays = kept[row]
        self.pairs = self.pairs[stays] & ~ROW_MASK | moved[row[stays]]
        self.gone = np.zeros(len(self.pairs), np.bool_)

    def nodes_of(self) -> tuple[Int64s, Int64s]:
        """All pairs as rows and numbers of nodes."""
        return self.pairs & ROW_MASK, self.pairs >> ROW_BITS

"""What subscribers see of a message's stamps: those of the overlaps that they are in."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sequencer.groups.network.hops import Hops
from sequencer.groups.network.tables import Tables


@dataclass(frozen=True, slots=True)
class Shown:
    """``visible``: sorted numbers (atom's place times subscribers plus subscriber's place), one for
    each double overlap and each subscriber in it. ``prefix``: by atom's place, its JSON up to the
    stamp.
    """

    tables: Tables
    visible: NDArray[np.int64]
    prefix: pa.Array

    def texts(
        self,
        hops: Hops,
        owner: NDArray[np.int64],
        who: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> pa.Array | pa.ChunkedArray:
        """The header `stamps` of deliveries: message ``owner[n]`` to subscriber ``who[n]``.

        Null where there is none. Overlaps that are over are not shown behind the end of the other
        group's line; ``ends``: by line's place how many of the messages are before that.
        """
        atoms, stamps = hops.atom.take(owner), hops.stamp.take(owner)
        delivery = atoms.owners()
        place = np.searchsorted(self.tables.atom, atoms.values).astype(np.int64)
        number = place * len(self.tables.subscribers) + who[delivery]
        at = np.minimum(np.searchsorted(self.visible, number), max(len(self.visible) - 1, 0))
        seen = (
            np.flatnonzero(self.visible[at] == number)
            if len(self.visible)
            else np.empty(0, np.int64)
        )
        line = self.tables.places(hops.line)[owner][delivery[seen]]
        other = self.tables.pair_lines[place[seen]].sum(axis=1) - line
        seen = seen[~self.tables.over[place[seen]] | (owner[delivery[seen]] < ends[other])]
        order = seen[np.lexsort((place[seen], delivery[seen]))]  # atoms' places: pairs are sorted
        digits = pa.array(stamps.values[order]).cast(pa.string())
        entries = pc.binary_join_element_wise(
            self.prefix.take(pa.array(place[order])), digits, pa.scalar("]"), ""
        )
        counts = np.bincount(delivery[order], minlength=len(owner))
        bounds = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(bounds), entries)
        inner = pc.binary_join(lists, ",")
        texts = pc.binary_join_element_wise(pa.scalar("["), inner, pa.scalar("]"), "")
        return pc.if_else(pa.array(counts > 0), texts, pa.scalar(None, pa.string()))


def stamps_shown(tables: Tables) -> Shown:
    """Compile which subscriber of a shard sees which atom."""
    members = [
        set(joined.tolist())
        for joined in np.split(tables.members.values, tables.members.bounds[1:-1])
    ]
    visible: list[int] = []
    prefix: list[str] = []
    for at, (first, second) in enumerate(tables.pair_lines.tolist()):
        if tables.double[at]:
            common = members[first] & members[second]
            visible += [at * len(tables.subscribers) + overlap for overlap in common]
        pair = (json.dumps(tables.group[line], ensure_ascii=False) for line in (first, second))
        prefix.append(f"[{','.join(pair)},")
    return Shown(tables, np.array(sorted(visible), dtype=np.int64), pa.array(prefix, pa.string()))

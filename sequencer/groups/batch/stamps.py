"""The header `stamps`: numbers of the overlaps that a subscriber is in, as text, in bulk.

The number of an overlap is how many messages its two groups had since it began (`overlaps`).
Subscribers of a group that are in the same overlaps see the same text: they are one *kind*, and a
text is made once for a message and a kind.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sequencer.groups.batch.circles import Circles
from sequencer.groups.batch.numbers import Numbered
from sequencer.groups.batch.overlaps import Overlaps
from sequencer.ragged import Ints, Ragged

NUMBER_BYTES = 12
"""About how many bytes a stamp has besides its names."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What some subscribers of a group see. ``groups``: those that it has overlaps with (numbers,
    sorted by name); ``begun``: the messages of both when these began; ``prefix``: their stamps up
    to the number; ``kinds``: lists of places in ``groups``; ``kind``: of each subscriber.
    """

    groups: Ints
    begun: Ints
    prefix: pa.Array
    kinds: Ragged
    kind: Ints

    def sizes(self) -> Ints:
        """About how many bytes each subscriber's text has."""
        entry = pc.binary_length(self.prefix).to_numpy().astype(np.int64) + NUMBER_BYTES
        ends = np.concatenate(([0], np.cumsum(entry[self.kinds.values])))
        return np.diff(ends[self.kinds.bounds])[self.kind]

    def part(self, first: int, stop: int) -> Shown:
        """The same for some of the subscribers."""
        _, at, kind = np.unique(self.kind[first:stop], return_index=True, return_inverse=True)
        kinds = self.kinds.take(self.kind[first:stop][at])
        return Shown(self.groups, self.begun, self.prefix, kinds, kind.astype(np.int64))


def shown(circles: Circles, overlaps: Overlaps, group: int, members: Ints, own: Ints) -> Shown:
    """What ``own``, some of a group's ``members``, see. Kinds are in order of appearance."""
    seen = np.zeros(len(circles.names), np.bool_)
    seen[circles.partners(group, members)] = True
    known: dict[bytes, int] = {}
    lists: list[Ints] = []
    distinct, at, inverse = np.unique(circles.of[own], return_index=True, return_inverse=True)
    kind = np.zeros(len(distinct), np.int64)
    for circle in np.argsort(at).tolist():
        groups = circles.lists[distinct[circle]]
        groups = groups[seen[groups]]
        kind[circle] = known.setdefault(groups.tobytes(), len(lists))
        if kind[circle] == len(lists):
            lists.append(groups)
    present = np.unique(np.concatenate(lists)) if lists else np.empty(0, np.int64)
    groups = np.array(sorted(present.tolist(), key=circles.names.__getitem__), np.int64)
    index = np.zeros(len(circles.names), np.int64)
    index[groups] = np.arange(len(groups))
    kinds = Ragged.of(index[seen_groups].tolist() for seen_groups in lists)
    prefixes = _prefixes(circles.names, group, groups)
    return Shown(groups, overlaps.first(group, groups), prefixes, kinds, kind[inverse])


def _prefixes(names: Sequence[str], group: int, groups: Ints) -> pa.Array:
    """Each overlap's stamp up to the number: its names, the smaller one first."""
    name = names[group]
    pairs = (sorted((name, names[other])) for other in groups.tolist())
    texts = [
        f"[{json.dumps(one, ensure_ascii=False)},{json.dumps(two, ensure_ascii=False)},"
        for one, two in pairs
    ]
    return pa.array(texts, pa.string())


def texts(
    lines: Sequence[Shown], line: Ints, message: Ints, numbered: Numbered
) -> tuple[pa.Array, Ints]:
    """Texts of messages: for each of them one for each kind of its line, null where that sees none.

    ``line``: of each message, its index in ``lines``. Also where each message's texts begin.
    """
    groups = _joined([view.groups for view in lines])
    entries = groups.take(line)
    of = message[entries.owners()]
    entry = Ragged(groups.bounds, np.arange(groups.bounds[-1])).take(line).values
    begun = np.concatenate([view.begun for view in lines])[entry]
    numbers = numbered.before[of] + numbered.counts(entries.values, of) - begun
    prefixes = pa.concat_arrays([view.prefix for view in lines]).take(pa.array(entry))
    stamps = pc.binary_join_element_wise(
        prefixes, pa.array(numbers).cast(pa.string()), pa.scalar("]"), ""
    )
    kinds = _stacked([view.kinds for view in lines])
    counts = _bounds(np.array([len(view.kinds) for view in lines], np.int64))
    rows = Ragged(counts, np.arange(counts[-1])).take(line)
    lists = kinds.take(rows.values)
    first = entries.bounds[:-1][rows.owners()]
    chosen = stamps.take(pa.array(lists.values + np.repeat(first, lists.lengths)))
    arrays = pa.ListArray.from_arrays(pa.array(lists.bounds.astype(np.int32)), chosen)
    joined = pc.binary_join(arrays, ",")
    whole = pc.binary_join_element_wise(pa.scalar("["), joined, pa.scalar("]"), "")
    none = pa.scalar(None, pa.string())
    return pc.if_else(pa.array(lists.lengths > 0), whole, none), rows.bounds[:-1]


def _bounds(lengths: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _joined(lists: Sequence[Ints]) -> Ragged:
    lengths = np.array([len(values) for values in lists], np.int64)
    return Ragged(_bounds(lengths), np.concatenate(lists))


def _stacked(parts: Sequence[Ragged]) -> Ragged:
    lengths = np.concatenate([part.lengths for part in parts])
    return Ragged(_bounds(lengths), np.concatenate([part.values for part in parts]))

"""Label sequences that are known by their next function alone.

Source: "In-Order Message Delivery" (2011), section "Message Labels": both ends agree on an initial
label and a function that gives the label after a label.

Such a function cannot say where a label lies: the sequence is walked until the label is met. So a
label is looked for near a frontier only, and what is kept of an endless sequence is bounded: labels
in *blocks* of 4,096, at most 2,441 of them, those used last; and the first label of every block
that was walked, from which it can be walked again::

    block      0              1              2              3
    firsts     a              m              y              k'
    kept       -              m n o … x      y z a' … j'    -       z lies at 2 * 4096 + 1
                                             └ frontier
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sequencer.labels import Int64s

BLOCK = 4_096
"""Labels of a block. States name the first labels of blocks, so this never changes."""
BLOCKS_MAX = 10_000_000 // BLOCK
CYCLE_SEARCH_MAX = 100_000
CUSTOM_LABEL_MAX = 1_000
"""Characters of a custom label; a sequence whose labels grow and grow would fill the memory."""

Anchors: TypeAlias = tuple[tuple[int, str], ...]
"""Labels and their positions, from which a sequence is walked after a restart."""


class CustomLabels:
    """Any sequence: an initial label and a function that gives the label after a label.

    ``next`` is called with labels that it made itself, never with input. It may raise
    StopIteration where the sequence ends. A sequence that comes back to its initial label within
    100,000 labels is cyclic; a longer cycle has to be given as ``cycle``, its number of labels.
    ValueError for one that comes back to another label, as far as that is seen.

    >>> labels = CustomLabels("a", lambda label: chr(ord(label) + 1))
    >>> labels.initial, labels.next("a"), labels.at(2)
    ('a', 'b', 'c')
    """

    def __init__(
        self,
        initial: str,
        next: Callable[[str], str],  # noqa: A002  the text's word
        cycle: int | None = None,
    ) -> None:
        if cycle is not None and cycle < 4:
            raise ValueError(f"cycle is {cycle}; it must be 4 or more")
        self.initial = initial
        self.next = next
        self.cycle = cycle
        self._end: int | None = None
        """The number of labels of a sequence that ends, once its end was seen."""
        self._firsts: dict[int, str] = {0: initial}
        self._blocks: OrderedDict[int, list[str]] = OrderedDict()
        self._known: dict[str, int] = {}
        """The position of each label of `_blocks`."""
        self._kept = -(-CYCLE_SEARCH_MAX // BLOCK)
        """These first blocks are never let go."""
        for block in range(self._kept):
            self._load(block)
        self.searched = self.cycle is None or self.cycle > CYCLE_SEARCH_MAX

    @property
    def always(self) -> int:
        """How many labels from the initial one on are known wherever a frontier is."""
        return self._kept * BLOCK

    def positions(
        self, texts: pa.Array, horizon: int | Int64s = 0, near: int | Int64s = 0
    ) -> Int64s:
        """As in :class:`sequencer.labels.Labels`; -1 where no such label was found."""
        return self._positions(list(map(_decoded, texts.to_pylist())), horizon, near)

    def position(self, label: object, horizon: int = 0, near: int = 0) -> int:
        """As in :class:`sequencer.labels.Labels`; -1 where no such label was found."""
        return int(self._positions([label], horizon, near)[0]) if isinstance(label, str) else -1

    def _positions(
        self, labels: list[str | None], horizon: int | Int64s, near: int | Int64s
    ) -> Int64s:
        found = np.array(
            [-1 if label is None else self._known.get(label, -1) for label in labels], np.int64
        )
        for block in np.unique(found[found >= 0] // BLOCK).tolist():
            self._blocks.move_to_end(block)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            reach = np.broadcast_to(np.asarray(horizon, np.int64), len(labels))
            middle = np.broadcast_to(np.asarray(near, np.int64), len(labels))
            self._search(labels, missing, reach, middle, found)
        return found

    def at(self, position: int) -> str:
        """The label at ``position``; IndexError past the end of a finite sequence."""
        if self.cycle is not None:
            position %= self.cycle
        return self._load(position // BLOCK)[position % BLOCK]

    def anchors(self, frontiers: Int64s, search: int) -> Anchors:
        """Return labels from which all that lies ``search`` before these frontiers can be walked.

        One for each block, without the initial label; sorted.
        """
        first = np.maximum(frontiers - search, 0)
        blocks = np.unique((first % self.cycle if self.cycle else first) // BLOCK).tolist()
        walked = ((block, self._first_of(block)) for block in blocks if block)
        return tuple((block * BLOCK, label) for block, label in walked if label is not None)

    def know(self, anchors: Iterable[tuple[int, str]]) -> None:
        """Take what :meth:`anchors` gave in an earlier life of the process."""
        for position, label in anchors:
            self._firsts.setdefault(position // BLOCK, label)

    def _search(
        self, labels: list[str | None], rows: Int64s, reach: Int64s, near: Int64s, found: Int64s
    ) -> None:
        """Look for the labels of these rows in the blocks that may have them, the nearest first."""
        sought: dict[tuple[int, ...], dict[str, list[int]]] = defaultdict(dict)
        for row in rows.tolist():
            label = labels[row]
            if label is not None and len(label) <= CUSTOM_LABEL_MAX:
                blocks = self._region(int(near[row]), int(reach[row]))
                sought[blocks].setdefault(label, []).append(row)
        for (middle, first, last, start), pending in sought.items():
            blocks_near = chain(range(middle, last + 1), range(middle - 1, first - 1, -1))
            for block in dict.fromkeys(chain(blocks_near, range(start + 1))):
                if not pending:
                    break
                self._look(self._wrapped(block), pending, found)

    def _region(self, near: int, reach: int) -> tuple[int, int, int, int]:
        """The block of ``near``, the first and last within reach of it, the last from the start."""
        start = max(reach - 1, 0) // BLOCK
        if self.cycle is None:
            first, last = max(near - reach, 0), max(near + reach - 1, 0)
            return near // BLOCK, first // BLOCK, last // BLOCK, start
        count = -(-self.cycle // BLOCK)
        middle, more = near % self.cycle // BLOCK, min(start + 2, count)
        return middle, middle - more, middle + more, min(start, count - 1)

    def _wrapped(self, block: int) -> int:
        return block if self.cycle is None else block % -(-self.cycle // BLOCK)

    def _look(self, block: int, pending: dict[str, list[int]], found: Int64s) -> None:
        labels = self._load(block)
        few = len(pending) < len(labels)
        met = (
            [label for label in pending if label in self._known]
            if few
            else [label for label in labels if label in pending]
        )
        for label in met:
            found[pending.pop(label)] = self._known[label]

    def _load(self, block: int) -> list[str]:
        """Return the labels of a block, which are then the ones used last; [] beyond the end."""
        labels = self._blocks.get(block)
        if labels is not None:
            self._blocks.move_to_end(block)
            return labels
        first = self._first_of(block)
        if first is None:
            return []
        labels = self._walked(block, first)
        for at, label in enumerate(labels, block * BLOCK):
            known = self._known.setdefault(label, at)
            if known != at:
                for unloaded in labels[: at - block * BLOCK]:
                    self._known.pop(unloaded, None)
                raise ValueError(_repeats(label, at, self.initial))
        self._blocks[block] = labels
        while len(self._blocks) > BLOCKS_MAX:
            oldest = next(each for each in self._blocks if each >= self._kept)
            for label in self._blocks.pop(oldest):
                del self._known[label]
        return labels

    def _first_of(self, block: int) -> str | None:
        """Return the first label of a block, None where the sequence ends before it."""
        if block in self._firsts:
            return self._firsts[block]
        below = block - 1
        while below not in self._firsts:
            below -= 1
        for walked in range(below, block):
            if self._past_end(walked + 1):
                return None
            self._walked(walked, self._firsts[walked])
        return self._firsts.get(block)

    def _past_end(self, block: int) -> bool:
        ends = [each for each in (self._end, self.cycle) if each is not None]
        return any(block * BLOCK >= end for end in ends)

    def _walked(self, block: int, first: str) -> list[str]:
        """Walk a block; notes its end, or the first label of the next one."""
        labels = [first]
        for label in self._following(first):
            at = block * BLOCK + len(labels)
            if label == self.initial or at == self.cycle:
                self._close(label, at)
                return labels
            if len(labels) == BLOCK:
                self._firsts[block + 1] = label
                return labels
            labels.append(label)
        self._end = block * BLOCK + len(labels)
        return labels

    def _following(self, label: str) -> Iterator[str]:
        while True:
            try:
                following = self.next(label)
            except StopIteration:
                return
            if not isinstance(following, str):
                raise TypeError(
                    f"the label after {label!r} is {following!r}; labels must be text (str)"
                )
            if len(following) > CUSTOM_LABEL_MAX:
                raise ValueError(
                    f"the label after {label[:20]!r}… has {len(following)} characters; "
                    f"{CUSTOM_LABEL_MAX} are allowed"
                )
            yield following
            label = following

    def _close(self, label: str, count: int) -> None:
        """The sequence came back after ``count`` labels, or should have."""
        if label != self.initial:
            raise ValueError(
                f"cycle is {count}, but label {count} is {label!r}, not {self.initial!r}"
            )
        if count < 4:
            raise ValueError(f"the label sequence has a cycle of {count}; it needs 4 or more")
        if self.cycle is None and count <= CYCLE_SEARCH_MAX:
            self.cycle = count
        if self.cycle != count:
            raise ValueError(
                f"the label sequence comes back to {label!r} after {count} labels; write cycle = "
                f"{count}"
            )


def _repeats(label: str, position: int, initial: str) -> str:
    return (
        f"the label sequence repeats {label!r} after {position} labels; a cyclic sequence must "
        f"come back to its initial label {initial!r}"
    )


def _decoded(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None

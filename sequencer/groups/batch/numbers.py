"""Numbers of a batch's messages, counted from their order alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sequencer.ragged import Ints
from sequencer.sorting import order_by


@dataclass(frozen=True, slots=True)
class Numbered:
    """``group``: of each message, in their order. ``before``: how many its group had before it.

    ``first``: by group, how many it had before the batch.
    """

    group: Ints
    before: Ints
    first: Ints
    _keys: Ints
    _starts: Ints

    def __len__(self) -> int:
        return len(self.group)

    def counts(self, group: Ints, message: Ints) -> Ints:
        """Return how many messages groups had before messages of the batch; element by element."""
        at = np.searchsorted(self._keys, group * len(self.group) + message)
        return self.first[group] + at - self._starts[group]

    def after(self) -> Ints:
        """By group, how many it has after the batch."""
        return self.first + np.diff(self._starts, append=len(self.group))


def number(group: Ints, count: Ints) -> Numbered:
    """Number messages to groups, given in their order; ``count``: messages so far, by group."""
    order = order_by(group)
    ordered = group[order]
    starts = np.searchsorted(ordered, np.arange(len(count)))
    before = np.empty(len(group), np.int64)
    before[order] = count[ordered] + np.arange(len(group)) - starts[ordered]
    return Numbered(group, before, count.copy(), ordered * len(group) + order, starts)

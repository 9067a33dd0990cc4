"""What a shard counts of its own subscribers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sequencer.ragged import Ints
from sequencer.sorting import ranks

UNBORN = -1


@dataclass(slots=True)
class Subscribers:
    """By subscriber's number: its next `sequence`, its incarnation (ms), its last delivery (ms).

    ``mine``: whether it belongs to this shard. One that never got anything, or was forgotten, has
    the incarnation UNBORN.
    """

    mine: NDArray[np.bool_]
    sequence: Ints
    incarnation: Ints
    last_ms: Ints

    @classmethod
    def fresh(cls, mine: NDArray[np.bool_]) -> Subscribers:
        """Subscribers that got nothing yet."""
        zeros = np.zeros(len(mine), np.int64)
        return cls(mine, zeros, np.full(len(mine), UNBORN, np.int64), zeros.copy())

    def __len__(self) -> int:
        return len(self.mine)

    @property
    def born(self) -> NDArray[np.bool_]:
        """Those that got something."""
        return np.asarray(self.incarnation != UNBORN)

    def grow(self, mine: NDArray[np.bool_]) -> None:
        """Put more behind them."""
        more = Subscribers.fresh(mine)
        for name in ("mine", "sequence", "incarnation", "last_ms"):
            setattr(self, name, np.concatenate((getattr(self, name), getattr(more, name))))

    def take(self, which: Ints) -> Subscribers:
        """Some of them."""
        return Subscribers(
            self.mine[which], self.sequence[which], self.incarnation[which], self.last_ms[which]
        )

    def deliver(self, who: Ints, now_ms: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Count deliveries: `sequence` and `incarnation` of each; the distinct subscribers, and
        for each delivery its index among them.
        """
        rank, distinct, counts = ranks(who)
        index = np.searchsorted(distinct, who)
        fresh = distinct[self.incarnation[distinct] == UNBORN]
        self.incarnation[fresh] = now_ms
        self.last_ms[distinct] = now_ms
        sequence = self.sequence[distinct][index] + rank
        self.sequence[distinct] += counts
        return sequence, self.incarnation[distinct][index], distinct, index

    def renew(self, since_ms: int) -> None:
        """Begin the numbers of those who were born before ``since_ms`` anew, then."""
        older = self.born & (self.incarnation < since_ms)
        self.sequence[older] = 0
        self.incarnation[older] = since_ms

    def idle(self, grouped: NDArray[np.bool_], since_ms: int) -> Ints:
        """Those born that are in no group (``grouped``) and got nothing after ``since_ms``."""
        return np.flatnonzero(self.born & ~grouped & (self.last_ms < since_ms))

    def forget(self, who: Ints) -> None:
        """Let them be as if they had never got anything."""
        self.sequence[who] = self.last_ms[who] = 0
        self.incarnation[who] = UNBORN

"""kdbus' receiving queue: copies of messages before and after they have their number.

Source: kdbus, "Message Ordering". A copy has `seq_lower`, the global counter when its queueing
started, and later `seq`, the counter incremented when all copies were in. The queue's order, for
copies A and B:

    neither has seq:  A < B  if  A.seq_lower < B.seq_lower
    only B has it:    A < B  if  A.seq_lower < B.seq
    only A has it:    A < B  if  A.seq <= B.seq_lower
    both have it:     A < B  if  A.seq < B.seq

It is one comparison of pairs: (seq_lower, 1) for a copy without seq, (seq, 0) for one with it.
For the first two and the last case that is plain; in the third, A < B says that A's pair with 0
is not above B's with 1, and equal numbers decide for A. Pairs compare totally, so the four cases
are a total order at every moment, but for copies without seq and with equal seq_lower, which are
tied; they take the order of arrival, which nobody sees, as neither can be dequeued before it has
its seq. A commit moves one copy back, since seq > seq_lower, and leaves the order of all others.

Costs, n being the length of the queue: a binary heap whose items know their places, O(log n) for
each copy, commit, removal and dequeue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from sequencer.multicast.protocol.words import ENTRIES_MAX, LimitError, ProtocolError, Stamp, clone

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


@dataclass(frozen=True, slots=True)
class Instance:
    """A queue's copy of one message. `stamp` is None until it is committed."""

    token: Hashable
    seq_lower: int
    arrival: int
    stamp: Stamp | None
    contents: tuple[Any, ...]

    def key(self) -> tuple[int, int, int]:
        """The four cases as one comparison."""
        if self.stamp is None:
            return (self.seq_lower, 1, self.arrival)
        return (self.stamp.timestamp, 0, 0)


class CounterQueue:
    """Copies in the order of the four cases; the front is given out once it is committed."""

    def __init__(self, name: str, *, entries_max: int = ENTRIES_MAX) -> None:
        self.name = name
        self.entries_max = entries_max
        self._heap: list[Instance] = []
        self._keys: list[tuple[int, int, int]] = []
        self._places: dict[Hashable, int] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._heap)

    def copy_in(
        self, token: Hashable, seq_lower: int, contents: Sequence[Any], *, limited: bool = True
    ) -> None:
        """Put a copy in, not committed yet. LimitError: it is `limited` and the queue is full."""
        if token in self._places:
            raise ProtocolError(f"{self.name}: {token} has a copy here already")
        if limited and len(self._heap) >= self.entries_max:
            raise LimitError(
                f"{self.name}: {self.entries_max} messages are queued; nothing was added, "
                "send again when messages were dequeued"
            )
        instance = Instance(token, seq_lower, self._arrivals, None, tuple(contents))
        self._arrivals += 1
        self._heap.append(instance)
        self._keys.append(instance.key())
        self._places[token] = len(self._heap) - 1
        self._up(len(self._heap) - 1)

    def commit(self, token: Hashable, stamp: Stamp, contents: Sequence[Any]) -> None:
        """Give a copy its seq, and the contents to give out; none removes it."""
        at = self._place(token)
        old = self._heap[at]
        if old.stamp is not None or stamp.timestamp <= old.seq_lower:
            raise ProtocolError(f"{self.name}: {old} cannot take {stamp}")
        if not contents:
            self._remove(at)
            return
        new = Instance(token, old.seq_lower, old.arrival, stamp, tuple(contents))
        self._set(at, new.key(), new)
        self._down(at)

    def drop(self, token: Hashable) -> None:
        """Remove a copy that is not committed; its message will not come."""
        at = self._place(token)
        if self._heap[at].stamp is not None:
            raise ProtocolError(f"{self.name}: {self._heap[at]} is committed; it was kept")
        self._remove(at)

    def contents(self, token: Hashable) -> tuple[Any, ...]:
        """What a copy has to give out."""
        return self._heap[self._place(token)].contents

    def front(self) -> tuple[Stamp, Any] | None:
        """The least copy's stamp and next content; None if it has no seq: the queue is empty."""
        if not self._heap or self._heap[0].stamp is None:
            return None
        return self._heap[0].stamp, self._heap[0].contents[0]

    @property
    def uncommitted(self) -> Hashable | None:
        """The token of the least copy, where it has no seq."""
        return self._heap[0].token if self._heap and self._heap[0].stamp is None else None

    def dequeue(self) -> tuple[Stamp, Any] | None:
        """Take the front out; None where `front` gives None."""
        front = self.front()
        if front is not None:
            first = self._heap[0]
            rest = first.contents[1:]
            if rest:
                # The key stays: what is left of one message keeps its place.
                self._heap[0] = Instance(
                    first.token, first.seq_lower, first.arrival, first.stamp, rest
                )
            else:
                self._remove(0)
        return front

    def instances(self) -> tuple[Instance, ...]:
        """All copies in the order of the four cases. O(n log n)."""
        return tuple(sorted(self._heap, key=Instance.key))

    def state(self) -> tuple[Any, ...]:
        """All there is to know, in plain tuples; equal states behave alike. O(n log n)."""
        return tuple((i.token, i.seq_lower, i.stamp, i.contents) for i in self.instances())

    def load(self, state: tuple[Any, ...]) -> None:
        """Become what `state` was taken from."""
        # Sorted is a heap; the arrivals are counted anew, as only the order of tied ones matters.
        self._heap = [Instance(t, low, at, s, c) for at, (t, low, s, c) in enumerate(state)]
        self._keys = [instance.key() for instance in self._heap]
        self._places = {instance.token: at for at, instance in enumerate(self._heap)}
        self._arrivals = len(self._heap)

    def copy(self) -> Self:
        """An independent queue in the same state; contents are shared."""
        other = clone(self)
        other._heap, other._keys = self._heap.copy(), self._keys.copy()  # noqa: SLF001 -- of the same class
        other._places = self._places.copy()  # noqa: SLF001 -- likewise
        return other

    def _place(self, token: Hashable) -> int:
        if token not in self._places:
            raise ProtocolError(f"{self.name}: {token} has no copy here")
        return self._places[token]

    def _set(self, at: int, key: tuple[int, int, int], instance: Instance) -> None:
        self._heap[at] = instance
        self._keys[at] = key
        self._places[instance.token] = at

    def _swap(self, one: int, two: int) -> None:
        first = (self._keys[one], self._heap[one])
        self._set(one, self._keys[two], self._heap[two])
        self._set(two, *first)

    def _remove(self, at: int) -> None:
        last = len(self._heap) - 1
        self._swap(at, last)
        del self._places[self._heap.pop().token]
        self._keys.pop()
        if at < last:
            self._down(at)
            self._up(at)

    def _up(self, at: int) -> None:
        while at and self._keys[at] < self._keys[(at - 1) // 2]:
            self._swap(at, (at - 1) // 2)
            at = (at - 1) // 2

    def _down(self, at: int) -> None:
        while True:
            children = range(2 * at + 1, min(2 * at + 3, len(self._heap)))
            least = min(children, key=self._keys.__getitem__, default=at)
            if self._keys[at] <= self._keys[least]:
                return
            self._swap(at, least)
            at = least

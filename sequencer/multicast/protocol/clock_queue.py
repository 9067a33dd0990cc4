"""One receiving queue with a Lamport clock: the only state that bus1's protocol synchronises on.

Source: bus1 wiki, "Message ordering". A queue holds messages sorted by their stamp (timestamp,
sender) and blocks, each at a timestamp. A message can be dequeued if no block precedes it. Every
method below is one atomic operation of the protocol, and none of them waits for another queue.

Costs, n being the length of the queue: messages are a binary heap, O(log n) for each one put in
or taken out. A block is placed at the clock, and the clock never goes back, so blocks in the
order of placing are sorted already: a linked list gives the lowest one, and removes any, in O(1).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Self

from sequencer.multicast.protocol.words import ENTRIES_MAX, LimitError, ProtocolError, Stamp, clone

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

TIMESTAMP_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Entry:
    """What a queue gives out: a message's stamp and one of its contents."""

    stamp: Stamp
    content: Any


class ClockQueue:
    """Messages in the order of their stamps, held back by blocks.

    `entries_max` bounds the messages that are there plus those that blocks have reserved room
    for, so that a message whose block was placed always finds room.
    """

    def __init__(self, name: str, *, entries_max: int = ENTRIES_MAX) -> None:
        self.name = name
        self.entries_max = entries_max
        self.clock = 0
        self._messages: list[tuple[int, str, int, Any]] = []
        self._blocks: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        self._reserved = 0
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def blocked(self) -> bool:
        """Whether a message has announced itself and is not here yet."""
        return bool(self._blocks)

    @property
    def first_block(self) -> Hashable | None:
        """The token of the lowest block."""
        return next(iter(self._blocks), None)

    def propose(self) -> int:
        """The clock as it stands: every message that is here has a timestamp up to it."""
        return self.clock

    def sync(self, timestamp: int) -> None:
        """Put the clock forward to `timestamp`; one that is ahead stays."""
        if timestamp >= TIMESTAMP_MAX:
            raise ProtocolError(f"{self.name}: no timestamp may reach {TIMESTAMP_MAX}")
        self.clock = max(self.clock, timestamp)

    def tick(self) -> int:
        """Advance the clock by one and return it: a timestamp that it never gave before."""
        self.sync(self.clock + 1)
        return self.clock

    def block(self, token: Hashable, estimate: int = 0, room: int = 1) -> int:
        """Sync to `estimate`, place a block at the clock, reserve `room`; return the clock.

        With `room` 0 the message finds room beyond the limit.
        The nearer the estimate is to the timestamp that the message will get, the fewer messages
        of others wait behind the block. Raises LimitError if there is no room left.
        """
        if token in self._blocks:
            raise ProtocolError(f"{self.name}: {token} has a block here already")
        self._check_room(room)
        self.sync(estimate)
        self._blocks[token] = (self.clock, room)
        self._reserved += room
        return self.clock

    def unblock(self, token: Hashable) -> None:
        """Remove a block and what it reserved; its message will not come."""
        if token not in self._blocks:
            raise ProtocolError(f"{self.name}: {token} has no block here")
        self._reserved -= self._blocks.pop(token)[1]

    def queue(self, token: Hashable, stamp: Stamp, contents: Sequence[Any]) -> None:
        """Put a message in, once for each of its contents, and remove its block."""
        if stamp.timestamp > self.clock:
            raise ProtocolError(f"{self.name}: sync the clock to {stamp} before queueing")
        self.unblock(token)
        self._put(stamp, contents)

    def arrive(
        self, sender: str, estimate: int, contents: Sequence[Any], *, limited: bool = True
    ) -> Stamp:
        """Take a timestamp above `estimate` and above the clock, and put the message in.

        For a message that goes to no other queue: there is no moment between its timestamp and
        its being here, so nothing has to be blocked. Raises LimitError if it is `limited` and
        there is no room left.
        """
        self._check_room(len(contents) if limited else 0)
        self.sync(estimate)
        stamp = Stamp(self.tick(), sender)
        self._put(stamp, contents)
        return stamp

    def front(self) -> Entry | None:
        """The message that can be dequeued now; None if there is none or a block precedes it."""
        if not self._messages:
            return None
        timestamp, sender, _, content = self._messages[0]
        if self._blocks and next(iter(self._blocks.values()))[0] < timestamp:
            return None
        return Entry(Stamp(timestamp, sender), content)

    def dequeue(self) -> Entry | None:
        """Take the front out; None where `front` gives None."""
        entry = self.front()
        if entry is not None:
            heappop(self._messages)
        return entry

    def contents(self) -> Iterator[Any]:
        """All that lies here, in the order of stamps. O(n log n)."""
        return (content for *_, content in sorted(self._messages))

    def copy(self) -> Self:
        """An independent queue in the same state; contents are shared."""
        other = clone(self)
        other._messages = self._messages.copy()  # noqa: SLF001 -- of the same class
        other._blocks = self._blocks.copy()  # noqa: SLF001 -- likewise
        return other

    def state(self) -> tuple[Any, ...]:
        """All there is to know, in plain tuples; equal states behave alike. O(n log n)."""
        messages = tuple((t, s, content) for t, s, _, content in sorted(self._messages))
        return (self.clock, messages, tuple(self._blocks.items()))

    def load(self, state: tuple[Any, ...]) -> None:
        """Become what `state` was taken from."""
        self.clock, messages, blocks = state
        # Sorted is a heap; the arrivals are counted anew, as only their order matters.
        self._messages = [(t, s, at, content) for at, (t, s, content) in enumerate(messages)]
        self._arrivals = len(messages)
        self._blocks = OrderedDict(blocks)
        self._reserved = sum(room for _, room in self._blocks.values())

    def _check_room(self, room: int) -> None:
        if room and len(self._messages) + self._reserved + room > self.entries_max:
            raise LimitError(
                f"{self.name}: no room for {room} more in {self.entries_max} entries; "
                "nothing was queued, send again when messages were dequeued"
            )

    def _put(self, stamp: Stamp, contents: Sequence[Any]) -> None:
        # The arrival keeps the contents of one message in their order; contents never compare.
        for content in contents:
            heappush(self._messages, (*stamp, self._arrivals, content))
            self._arrivals += 1

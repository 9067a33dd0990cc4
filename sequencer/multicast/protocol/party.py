"""A party answers requests under a name: a peer with its queue, or the counter.

What a bus and a shard ask of any of them is here; what only one protocol has is with its class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sequencer.multicast.protocol.words import Dequeued, Parcel, Reply, Request, Stamp


class Party(ABC):
    """One name's part of a protocol. Where nothing else is said, it has no queue and no handles."""

    @property
    @abstractmethod
    def needed(self) -> bool:
        """Whether it has to stay although nothing is on its way: it keeps nodes, or the counter."""

    @property
    def held(self) -> frozenset[str]:
        """The nodes that it has a valid handle to."""
        return frozenset()

    @property
    def clock(self) -> int:
        """The clock of its queue; 0 where there is none."""
        return 0

    @property
    def awaited(self) -> str | None:
        """Whose message has announced itself and comes first; None where nothing has to wait."""
        return None

    @abstractmethod
    def handle(self, request: Request) -> tuple[Reply, ...]:
        """Carry out one step; returns the replies that it brings about."""

    def front(self) -> Stamp | None:
        """The stamp of what can be dequeued now."""
        return None

    def dequeue(self) -> Dequeued | None:
        """Take out the front; None if there is none."""
        return None

    def queued(self) -> Iterable[Parcel]:
        """What lies in the queue, in its order, also what has no stamp yet."""
        return ()

    def release_all(self) -> tuple[tuple[str, int], ...]:
        """Give all handles back: nodes and the registrations that may be taken back, sorted."""
        return ()

    @abstractmethod
    def state(self) -> tuple[Any, ...]:
        """All there is to know, in plain tuples; `load` takes it back."""

    @abstractmethod
    def load(self, state: tuple[Any, ...]) -> None:
        """Become what `state` was taken from; the limits stay."""

    @abstractmethod
    def copy(self) -> Self:
        """An independent one in the same state."""

"""What a reader holds each delivery of a key against: the numbers that the contract gives it.

A line is what is remembered of one key; it says what is wrong with the next delivery, and then goes
on from there. Versions, numbers and timestamps rise for a key of one incarnation; a new one begins
anew, as the service has forgotten the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from sequencer.change import GROUPS_MAX
from streaming.clients.deliveries import (
    ChangeNotice,
    Delivery,
    GroupDelivery,
    MulticastDelivery,
    Notice,
)

Name = TypeVar("Name", str, tuple[str, str])

REMEMBERED_MAX = 2 * GROUPS_MAX
"""How many groups of a subscriber are remembered, and how many overlaps; of more, the half that had
messages last. Groups come and go for as long as a reader lives; there are GROUPS_MAX at a time."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Missing deliveries of a channel: from ``expected`` up to, but not including, ``found``.

    ``key`` is the channel's name; of other disciplines the subscriber's, or the peer's.
    """

    key: bytes | None
    incarnation: int
    expected: int
    found: int


@dataclass(frozen=True, slots=True)
class Disorder:
    """A delivery out of the order that its own numbers state; ``what`` is a sentence."""

    delivery: Delivery
    what: str


class Line(Protocol):
    """What is remembered of one key; ``handles``: nodes whose handles it holds."""

    handles: set[str]

    def follow(self, delivery: Any) -> Iterator[str]:
        """What is wrong with the order of this delivery; sentences."""


@dataclass(slots=True)
class ChannelLine:
    """Channels have `sequence` alone, which shows holes; labels are the sender's."""

    handles: set[str] = field(default_factory=set)

    def follow(self, delivery: Any) -> Iterator[str]:
        """Nothing beyond holes shows."""
        del delivery
        return iter(())


@dataclass(slots=True)
class GroupLine:
    """Of a subscriber: the last number of each group, and of each overlap.

    ``doubts``: by group, what is wrong with numbers of its overlaps if it still has a version.
    """

    groups: dict[str, tuple[int, int]] = field(default_factory=dict)
    overlaps: dict[tuple[str, str], int] = field(default_factory=dict)
    doubts: dict[str, dict[str, tuple[int, str]]] = field(default_factory=dict)
    handles: set[str] = field(default_factory=set)

    def follow(self, delivery: GroupDelivery | ChangeNotice) -> Iterator[str]:
        """(`group-version`, `group-sequence`) rises in a group, the number in an overlap.

        An overlap's numbers may begin again with a new version of one of its groups; of the one
        whose message it is not, a later message says whether there was one.
        """
        if isinstance(delivery, ChangeNotice):
            return
        group, point = delivery.group, (delivery.group_version, delivery.group_sequence)
        before = self.groups.get(group, (-1, -1))
        if point <= before:
            yield (
                f"message {point[1]} of version {point[0]} of {group} comes after message "
                f"{before[1]} of version {before[0]}"
            )
        self.groups.pop(group, None)  # it goes behind those that had messages before
        self.groups[group] = max(point, before)
        for forgotten in _forget_first(self.groups):
            self.doubts.pop(forgotten, None)
        for version, what in self.doubts.pop(group, {}).values():
            if point[0] == version:
                yield what
        for one, two, number in delivery.stamps:
            last = self.overlaps.pop((one, two), -1)
            self.overlaps[one, two] = number
            other = two if one == group else one
            if number <= last and point[0] <= before[0] and other in self.groups:
                what = f"number {number} of the overlap of {one} and {two} comes after {last}"
                self.doubts.setdefault(other, {})[group] = (self.groups[other][0], what)
        _forget_first(self.overlaps)


@dataclass(slots=True)
class MulticastLine:
    """Of a peer: its last place in the order, and the nodes whose handles it holds."""

    last: tuple[int, bytes] = (-1, b"")
    handles: set[str] = field(default_factory=set)

    def follow(self, delivery: MulticastDelivery | Notice) -> Iterator[str]:
        """(`timestamp`, `from`) rises; several deliveries of one message have the same."""
        point = (delivery.stamp, delivery.sender)
        if point < self.last:
            yield f"timestamp {point[0]} comes after {self.last[0]}"
        self.last = max(point, self.last)
        if isinstance(delivery, Notice):
            self.handles.discard(delivery.node)
            return
        self.handles.difference_update(delivery.handles_invalid)
        self.handles.update(delivery.handles or ())


def _forget_first(known: dict[Name, Any]) -> list[Name]:
    """Forget the first half where there is too much, and return it."""
    forgotten = list(known)[: len(known) // 2] if len(known) > REMEMBERED_MAX else []
    for name in forgotten:
        del known[name]
    return forgotten


LINES: dict[str, Callable[[], Line]] = {
    "channel": ChannelLine,
    "label": ChannelLine,
    "group": GroupLine,
    "multicast": MulticastLine,
}

"""One channel's held messages, given-up ranges, and the results of its records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from sequencer.channels.outcome import ChannelEvent, GapName, Reason


@dataclass(slots=True)
class Waiting:
    """A held message: the caller's row, batch time of arrival (ms), FIN mark."""

    row: int
    since_ms: int
    fin: bool


class Buffer(dict[int, Waiting]):
    """Held messages by position, with the lowest and the oldest one found in logarithmic time.

    Both are needed for each gap that is given up, and there may be as many gaps as messages. The
    oldest one above a position is needed for each message that arrives, if delays are measured.

    Messages are added in order of arrival, and leave from the lowest on (or by `pop_above`).
    """

    __slots__ = ("_heaps", "_oldest")

    def __init__(self, messages: Mapping[int, Waiting] | None = None) -> None:
        super().__init__(messages or {})
        self._heaps: tuple[list[int], list[tuple[int, int]]] | None = None
        """Positions, and times with positions; made when needed. Some may be of messages gone."""
        self._oldest: tuple[list[int], list[int]] | None = None
        """Ascending positions, and times, of messages that are older than all above them; made when
        needed. Some may be of messages gone."""

    def __setitem__(self, position: int, message: Waiting) -> None:
        if not self:
            self._oldest = None  # a new epoch may begin, with lower positions
        super().__setitem__(position, message)
        if self._heaps is not None:
            heappush(self._heaps[0], position)
            heappush(self._heaps[1], (message.since_ms, position))
        if self._oldest is not None and position > self._oldest[0][-1]:
            self._oldest[0].append(position)
            self._oldest[1].append(message.since_ms)

    def pop_above(self, position: int) -> list[Waiting]:
        """Remove the messages above a position, and return them in the order of their positions."""
        self._oldest = None
        return [self.pop(each) for each in sorted(self) if each > position]

    def since_ms_above(self, position: int, default: int) -> int:
        """Return when the oldest message above a position arrived; ``default`` if there is none."""
        if not self:
            return default
        if self._oldest is None:
            self._oldest = [], []
            for each in sorted(self, reverse=True):
                if not self._oldest[0] or self[each].since_ms < self._oldest[1][-1]:
                    self._oldest[0].append(each)
                    self._oldest[1].append(self[each].since_ms)
            self._oldest = self._oldest[0][::-1], self._oldest[1][::-1]
        positions, times = self._oldest
        at = bisect_right(positions, position)
        return times[at] if at < len(times) else default

    def lowest(self, default: int) -> int:
        """Return the lowest position; ``default`` if nothing is held."""
        positions, _ = self._made()
        while positions and positions[0] not in self:
            heappop(positions)
        return positions[0] if positions else default

    def since_ms(self, default: int) -> int:
        """Return when the oldest message arrived; ``default`` if nothing is held."""
        _, times = self._made()
        while times and (times[0][1] not in self or self[times[0][1]].since_ms != times[0][0]):
            heappop(times)
        return times[0][0] if times else default

    def _made(self) -> tuple[list[int], list[tuple[int, int]]]:
        if self._heaps is None:
            times = sorted((message.since_ms, position) for position, message in self.items())
            self._heaps = sorted(self), times
        return self._heaps


@dataclass(frozen=True, slots=True)
class Range:
    """Given-up labels, half-open positions; see `state.Skipped`."""

    first: int
    stop: int
    incarnation: int
    gaps: int = 1
    since_ms: int = 0


@dataclass(slots=True)
class Results:
    """The results of one channel's records; rows are the caller's.

    ``delivered``: row, sequence, incarnation. ``rejected``: row, reason, and the incarnation and
    sequence of the delivery before. ``delays``: rule and delay (ms) of arrivals, if rules measure.
    ``gaps``: see `outcome.Rejected`. ``passed``: the number of delivered rows without a label.
    ``notices``: events in the channel's stream; the delivered row of notice n is -1 - n.
    """

    delivered: list[tuple[int, int, int]] = field(default_factory=list)
    rejected: list[tuple[int, Reason, int, int]] = field(default_factory=list)
    gaps: dict[int, GapName] = field(default_factory=dict)
    delays: list[tuple[int, int]] = field(default_factory=list)
    events: list[ChannelEvent] = field(default_factory=list)
    notices: list[ChannelEvent] = field(default_factory=list)
    passed: int = 0


def with_range(ranges: list[tuple[int, int]], first: int, stop: int) -> list[tuple[int, int]]:
    """Return ascending ranges with one more, merged with those that it touches."""
    below = [each for each in ranges if each[1] < first]
    above = [each for each in ranges if stop < each[0]]
    touched = ranges[len(below) : len(ranges) - len(above)]
    both = [*touched, (first, stop)]
    return [*below, (min(a for a, _ in both), max(b for _, b in both)), *above]

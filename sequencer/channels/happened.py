"""One channel's held messages, given-up ranges, and the results of its records."""

from __future__ import annotations

from dataclasses import dataclass, field

from sequencer.channels.outcome import ChannelEvent, GapName, Reason


@dataclass(slots=True)
class Waiting:
    """A held message: the caller's row, batch time of arrival (ms), FIN mark."""

    row: int
    since_ms: int
    fin: bool


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
    apart = [each for each in ranges if each[1] < first or stop < each[0]]
    touched = [each for each in ranges if each not in apart]
    both = [*touched, (first, stop)]
    return sorted([*apart, (min(a for a, _ in both), max(b for _, b in both))])

"""What inputs of channels have of each label, epoch and FIN, by what became of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from sequencer.channels.rules import SKIPPED_RANGES_MAX
from streaming.places import Place
from streaming.verify.accounts import REFUSALS
from streaming.verify.added import Reject
from streaming.verify.channel_readings import Judging, Reading
from streaming.verify.records import Record

LATER = ("after-fin", "reset", *REFUSALS)
"""Reasons of records that may have waited before they were rejected."""
Label = tuple[bytes, int, int]
"""Channel, epoch, position."""


class Tally:
    """By channel and epoch: how often each label came, all, the lowest FIN; where epochs began.

    A record that was rejected when it came ends no epoch and begins none. ``turned_away``: how
    many copies of a label were. ``later``: labels of which a copy may have waited for its reject.
    """

    def __init__(
        self, records: list[Record], readings: list[Reading], rejects: Iterable[Reject | None]
    ) -> None:
        self.copies: Counter[Label] = Counter()
        self.turned_away: Counter[Label] = Counter()
        self.count: Counter[tuple[bytes, int]] = Counter()
        self.fin: dict[tuple[bytes, int], int] = {}
        self._begun: defaultdict[bytes, dict[tuple[int, str, int], int]] = defaultdict(dict)
        self.later: set[Label] = set()
        reasons = {each.origin: each.reason for each in rejects if each}
        for record, reading in zip(records, readings, strict=True):
            if reading.reason is not None or reading.channel is None or reading.passes:
                continue
            channel, epoch = reading.channel, reading.epoch
            self.copies[channel, epoch, reading.position] += 1
            self.count[channel, epoch] += 1
            reason = reasons.get(record.place)
            if reason in LATER:
                self.later.add((channel, epoch, reading.position))
            elif reason is not None:
                self.turned_away[channel, epoch, reading.position] += 1
                continue
            if epoch:
                name = (epoch, record.topic, record.partition)
                first = self._begun[channel].get(name, record.offset)
                self._begun[channel][name] = min(first, record.offset)
            if reading.fin:
                lowest = self.fin.get((channel, epoch), reading.position)
                self.fin[channel, epoch] = min(lowest, reading.position)

    def taken(self, label: Label) -> int:
        """Return how many copies of a label were not rejected when they came."""
        return self.copies[label] - self.turned_away[label]

    def may_be_over(self, channel: bytes, epoch: int, place: Place) -> bool:
        """Return whether a higher epoch may have begun before the record at a place came.

        In another partition it may.
        """
        topic, partition, offset = place
        return any(
            higher > epoch and ((topic, partition) != where or first < offset)
            for (higher, *at), first in self._begun.get(channel, {}).items()
            for where in [tuple(at)]
        )


def given_up(work: Judging, reading: Reading) -> bool:
    """Return whether the label was announced as given up, in any life of its channel."""
    cycle = work.settings.labels.cycle
    for ranges in work.given_up.get((reading.channel or b"", reading.epoch), ()):
        for first, stop in ranges:
            offset = reading.position - first
            if 0 <= (offset % cycle if cycle else offset) < stop - first:
                return True
        if len(ranges) > SKIPPED_RANGES_MAX:  # the oldest are remembered as one
            lowest, beyond = min(ranges)[0], max(ranges)[1]
            if cycle or lowest <= reading.position < beyond:
                return True
    return False

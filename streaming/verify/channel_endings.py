"""Where each input of a channel pipeline ended: delivery, reject, dropped, or held back.

Of copies of a label one is delivered or held. Others are dropped, if duplicates are: a copy that
went nowhere while no other one was delivered or held is lost. Labels of a cycle come again, and
those beyond the window count as past: there a record at the label that is next is lost, unless it
may have come a turn before.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from streaming.verify.channel_readings import ChannelLife, Judging, Reading
from streaming.verify.channel_tally import Tally
from streaming.verify.channel_turns import Turns
from streaming.verify.inputs import is_due
from streaming.verify.records import Record

Source = tuple[str, int]
"""Topic and partition of an input."""


@dataclass(frozen=True, slots=True)
class Left:
    """An input that went nowhere.

    ``delivered``: how many earlier inputs of its partition were delivered in its channel.
    """

    record: Record
    reading: Reading
    delivered: int

    @property
    def label(self) -> tuple[int, int]:
        """Epoch and position."""
        return self.reading.epoch, self.reading.position


@dataclass(slots=True)
class Leftovers:
    """What is left of each channel; in a cycle also the positions of what was delivered.

    These are in the order of the inputs, by partition.
    """

    of: dict[bytes, list[Left]] = field(default_factory=lambda: defaultdict(list))
    positions: dict[bytes, dict[Source, array[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(lambda: array("q")))
    )

    def behind(self, channel: bytes, leftover: Left) -> array[int] | None:
        """Return the delivered positions of later inputs; None where no order is known."""
        source, positions = leftover.record.place[:2], self.positions[channel]
        return None if positions.keys() - {source} else positions[source][leftover.delivered :]


@dataclass(frozen=True, slots=True)
class Frontier:
    """Where a channel may wait: ``epoch``, and the position that is next (None: nobody knows).

    ``missing``: whether no record is there for it.
    """

    epoch: int
    following: int | None
    cycle: int | None
    missing: bool

    def may_hold(self, reading: Reading) -> bool:
        """Return whether a record waits for the next label, or may do so."""
        if self.following is None or reading.epoch != self.epoch:
            return reading.epoch == self.epoch
        ahead = reading.position - self.following
        return self.missing and (ahead > 0 if self.cycle is None else self._is_near(ahead))

    def _is_near(self, ahead: int) -> bool:
        return self.cycle is not None and 0 < ahead % self.cycle <= self.cycle // 2

    def is_next(self, reading: Reading) -> bool:
        """Return whether this is the label that is next."""
        return (reading.epoch, reading.position) == (self.epoch, self.following)


def judge_endings(
    work: Judging,
    readings: list[Reading],
    delivered: Counter[Any],
    rejected: set[tuple[str, int, int]],
    tally: Tally,
) -> None:
    """Each input ended in exactly one place: delivery, reject, dropped, or held."""
    turns = Turns(work, readings, delivered, rejected)
    leftovers = _left_over(work, readings, delivered, rejected, turns)
    work.verdict.look(held=0, dropped=0)
    known = work.lasting()
    for channel in leftovers.of:
        known.update([channel] * _judge_channel(work, channel, leftovers, tally))
    for content, count in delivered.items():
        if count > 0:
            key = content[0]
            work.verdict.find(
                "invented", f"a delivery of key {key!r} has no such input: {content!r}"
            )
    # Channels as `status` counts them: without those that retired.
    work.verdict.look(channels=len(known))


def _judge_channel(work: Judging, channel: bytes, leftovers: Leftovers, tally: Tally) -> bool:
    """Judge what is left of a channel; return whether some of it is held."""
    records = leftovers.of[channel]
    life, drops = work.lives.get(channel), work.settings.of(channel).drop_duplicates
    lives = [life, None] if life and work.may_begin_again(channel, life) else [life]
    lives += _begun(work, channel, life)
    cyclic = work.settings.labels.cycle is not None
    counts = Counter(each.label for each in records)
    copied = {each for each in counts if tally.taken((channel, *each)) > counts[each]}
    past: set[Left] = set()  # perhaps of the past; ``outdated``: for certain
    outdated: set[Left] = set()
    if drops and cyclic:
        past, outdated = _of_the_past(work, channel, lives, leftovers)
        past |= {each for each in records if (channel, *each.label) in tally.later}
    elif drops:
        past = {each for each in records if each.label in copied}
    # What is not due neither ends an epoch nor fills a gap yet.
    due = [each for each in records if is_due(each.record.place, work.due)]
    current = [each.reading for each in due if each not in past]
    frontiers = [_frontier(work, channel, tried, current) for tried in lives]
    waiting: set[tuple[int, int]] = set()
    dropped, held = 0, len(records) - len(due)
    for each in due:
        record, reading = each.record, each.reading
        waits = any(frontier.may_hold(reading) for frontier in frontiers)
        if reading.passes:
            work.verdict.find("lost", f"{record} has no label, and did not pass")
        elif (
            reading.reason is None and waits and each.label not in waiting and each not in outdated
        ):
            waiting.add(each.label)
        elif drops and reading.reason is None and (each in past or each.label in waiting):
            dropped += 1
        elif (drops and cyclic and reading.reason is None) and not any(
            frontier.is_next(reading) for frontier in frontiers
        ):
            dropped += 1  # farther ahead than the window: it counts as one of the past
        else:
            work.verdict.find("lost", f"{record} was neither delivered, rejected nor held back")
    work.verdict.look(held=held + len(waiting), dropped=dropped)
    return bool(waiting or held)


def _left_over(
    work: Judging,
    readings: list[Reading],
    delivered: Counter[Any],
    rejected: set[tuple[str, int, int]],
    turns: Turns,
) -> Leftovers:
    """Inputs neither rejected nor delivered; takes those found off ``delivered``."""
    leftovers = Leftovers()
    cyclic = work.settings.labels.cycle is not None
    for record, reading in zip(work.material.inputs, readings, strict=True):
        if record.place in rejected:
            continue
        channel = reading.channel or b""
        source = record.place[:2]
        dropped = turns.is_dropped(record.place, record.content)
        if delivered[record.content] > 0 and not dropped:
            delivered[record.content] -= 1
            if cyclic and not reading.passes:
                leftovers.positions[channel][source].append(reading.position)
        else:
            before = len(leftovers.positions[channel][source]) if cyclic else 0
            leftovers.of[channel].append(Left(record, reading, before))
    return leftovers


def _begun(work: Judging, channel: bytes, life: ChannelLife | None) -> list[ChannelLife | None]:
    """Lives and epochs of which there are gaps, and no delivery yet."""
    last = (life.incarnation, life.epoch) if life else (-1, -1)
    names = {(born, epoch) for born, epoch, _ in work.passed.get(channel, {})}
    return [ChannelLife(born, epoch=epoch) for born, epoch in names if (born, epoch) > last]


def _frontier(
    work: Judging, channel: bytes, life: ChannelLife | None, readings: list[Reading]
) -> Frontier:
    """Where a channel waits after this life; ``readings``: of what went nowhere."""
    cycle = work.settings.labels.cycle
    # A higher epoch takes over at its arrival, also where its first label is missing.
    labelled = [reading for reading in readings if not reading.passes]
    epochs = [reading.epoch for reading in labelled if reading.reason is None]
    epoch = max([life.epoch if life else 0, *epochs])
    expected: int | None
    if life and life.epoch == epoch:  # perhaps by a notice, before the epoch's start is known
        settles = work.start(channel, epoch, life.incarnation) is None
        expected = None if settles else work.reached(channel, life)
    else:
        expected = _first(work, channel, life, epoch)
    following = expected if expected is None or cycle is None else expected % cycle
    missing = following not in {each.position for each in readings if each.epoch == epoch}
    return Frontier(epoch, following, cycle, missing)


def _of_the_past(
    work: Judging, channel: bytes, lives: list[ChannelLife | None], leftovers: Leftovers
) -> tuple[set[Left], set[Left]]:
    """Return what may be of the past in a cycle, and of it what is for certain.

    A record was farther ahead than the window if a later one was delivered so far below the next
    label. Where a gap was given up near the end, nobody knows how far the channel was when a record
    came; but not farther behind the last delivery than the window, if that was of an earlier one.
    And a record before all deliveries of this life may be of an earlier life of its channel.
    """
    window, (life, *others) = work.settings.of(channel).window, lives
    cycle = work.settings.labels.cycle or 1
    unsure = unsure_last = bool(others)
    reached, in_life = 0, len(work.material.inputs)
    if life is not None:
        if work.first_lives[channel] != life.incarnation:
            in_life = life.labelled
        reached = work.reached(channel, life)
        gaps = work.gaps.get((channel, life.incarnation, life.epoch), ())
        least = life.expected - 1 - window
        unsure_last |= reached > life.expected
        unsure_last |= any(first <= least < stop for first, stop in gaps)
        unsure |= any(stop > least - window for _, stop in gaps)
    past, outdated = set(), set()
    for each in leftovers.of[channel]:
        behind = leftovers.behind(channel, each)
        if behind is None:
            past.add(each)
        elif len(behind) > window or any((reached - at - 1) % cycle >= window for at in behind):
            outdated.add(each)
            past.add(each)
        elif len(behind) >= in_life or (unsure if behind else unsure_last):
            past.add(each)
    return past, outdated


def _first(work: Judging, channel: bytes, life: ChannelLife | None, epoch: int) -> int | None:
    if not work.settings.first_seen:
        return 0
    starts = work.starts.get((channel, epoch), {-1: -1})
    latest = max(starts)
    is_over = (channel, latest) in work.retired or work.asked.may_have_reset(channel)
    is_old = is_over or latest < (life.incarnation if life else 0)
    return None if is_old else starts[latest]

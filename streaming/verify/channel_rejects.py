"""Rejects of a channel pipeline: untouched, once, with a reason that can be the right one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from sequencer.channels.rules import SKIPPED_RANGES_MAX
from streaming.verify.accounts import REFUSALS
from streaming.verify.added import reject
from streaming.verify.channel_places import Claim, judge_places
from streaming.verify.channel_readings import Judging, Reading

STATIC = ("missing-channel", "missing-label", "bad-label", "bad-epoch")


def judge_rejects(
    work: Judging, readings: list[Reading], tally: Tally
) -> set[tuple[str, int, int]]:
    """Rejects untouched, once, with a reason that can be; the places of what was rejected."""
    verdict, inputs = work.verdict, work.material.inputs
    at = {record.place: index for index, record in enumerate(inputs)}
    rejected: dict[tuple[str, int, int], Any] = {}
    claims = []
    for record in work.material.rejects:
        said = reject(record, work.settings.header_prefix)
        if said is None:
            verdict.find("bad-output", f"{record} lacks the reject headers")
            continue
        place = said.origin
        if place in rejected:
            if not work.settings.repeats_allowed or rejected[place] != record.content:
                verdict.find("reject-repeat", f"{record}: input {place} was rejected before")
            continue
        rejected[place] = record.content
        index = at.get(place)
        if index is None:
            verdict.find("invented", f"{record} names the input {place}, which is not there")
            continue
        if not said.is_of(inputs[index]):
            verdict.find("reject-altered", f"{record} differs from its input {inputs[index]}")
        if not _possible(work, said.reason, readings[index], tally):
            verdict.find("wrong-reason", f"{record}: {said.reason} does not fit {inputs[index]}")
        elif said.reason in REFUSALS:
            work.refused[_label(readings[index], said.reason)] -= 1
        claims.append(Claim(str(record), said, inputs[index], readings[index]))
    judge_places(work, claims)
    for channel, epoch, position, reason in sorted(+work.refused):
        at_label = f"label {work.settings.labels.at(position)} (epoch {epoch}) of {channel!r}"
        verdict.find("unfounded-gap", f"{at_label} was given up as {reason}: no such reject")
    return set(rejected)


def _label(reading: Reading, reason: str) -> tuple[bytes, int, int, str]:
    return reading.channel or b"", reading.epoch, reading.position, reason


class Tally:
    """By channel and epoch: how often each label came, all, the lowest FIN; the highest epoch."""

    def __init__(self, readings: list[Reading]) -> None:
        self.copies: Counter[tuple[bytes, int, int]] = Counter()
        self.count: Counter[tuple[bytes, int]] = Counter()
        self.fin: dict[tuple[bytes, int], int] = {}
        self.epoch: dict[bytes, int] = {}
        for reading in readings:
            if reading.reason is not None or reading.channel is None or reading.passes:
                continue
            self.copies[reading.channel, reading.epoch, reading.position] += 1
            self.count[reading.channel, reading.epoch] += 1
            self.epoch[reading.channel] = max(self.epoch.get(reading.channel, 0), reading.epoch)
            if reading.fin:
                name = (reading.channel, reading.epoch)
                self.fin[name] = min(self.fin.get(name, reading.position), reading.position)


def _possible(work: Judging, reason: str, reading: Reading, tally: Tally) -> bool:
    """Return whether the reason can be the right one, as far as the topics show."""
    labels = work.settings.labels
    if reading.reason is not None or reason in STATIC:
        return reason == reading.reason or (
            reason == "bad-label" and labels.searched and reading.reason is None
        )
    if reading.passes:
        return reason in REFUSALS
    channel, epoch = reading.channel or b"", reading.epoch
    cyclic = labels.cycle is not None
    bounds = work.settings.of(channel)
    fin = tally.fin.get((channel, epoch))
    possible: dict[str, Callable[[], bool]] = {
        "stale-epoch": lambda: tally.epoch[channel] > epoch,
        "after-fin": lambda: fin is not None and (cyclic or reading.position > fin),
        # The frontier is 0 or above.
        "outside-window": lambda: cyclic or reading.position > bounds.window,
        "late": lambda: work.begins_behind(reading) or _given_up(work, reading),
        "duplicate": lambda: cyclic or tally.copies[channel, epoch, reading.position] > 1,
        **dict.fromkeys(REFUSALS, lambda: work.refused[_label(reading, reason)] > 0),
        "reset": lambda: work.asked.may_have_reset(channel),
        "buffer-full": lambda: tally.count[channel, epoch] > bounds.held_max,
    }
    return reason in possible and possible[reason]()


def _given_up(work: Judging, reading: Reading) -> bool:
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

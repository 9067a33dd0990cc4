"""Where rejects say that they belong: behind which delivery of their channel, and in which gap."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sequencer.channels.rules import SKIPPED_RANGES_MAX
from streaming.arrow.key_text import key_from_json
from streaming.places import Place
from streaming.verify.accounts import REFUSALS
from streaming.verify.added import Reject
from streaming.verify.channel_readings import Judging, Name, Reading
from streaming.verify.channel_tally import LATER, Tally, given_up
from streaming.verify.inputs import is_due
from streaming.verify.records import Record

AFTER = re.compile(rb"([0-9]{1,19})/([0-9]{1,19})")
EARLY = ("duplicate", "outside-window", "buffer-full")
"""Reasons that depend on how far the channel was when the record came."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A reject, where it lies, and the input that it names."""

    where: str
    said: Reject
    source: Record
    reading: Reading

    def behind(self, places: Sequence[Place], *, surely: bool) -> bool:
        """Return whether the input lies behind one of these, ``surely`` behind all of them.

        In another partition anything may have come before it, and nothing has for sure.
        """
        topic, partition, offset = self.source.place
        before = [
            place[2] < offset if place[:2] == (topic, partition) else not surely for place in places
        ]
        return bool(before) and (all(before) if surely else any(before))


def judge_places(
    work: Judging, claims: Sequence[Claim], readings: Sequence[Reading], tally: Tally
) -> None:
    """Hold the headers `reject-after` and `reject-gap` of all rejects against the other topics.

    ``readings``: of all inputs.
    """
    named = [(claim, _named(claim.said.after)) for claim in claims]
    sources, shown = _sources(work, named, readings)
    for claim, numbers in named:
        if claim.said.after is None:
            _judge_first(work, claim, sources)
        elif numbers is None or claim.reading.channel is None:
            what = f"{claim.said.after!r} names no delivery of its channel"
            work.verdict.find("wrong-after", f"{claim.where}: {what}")
        else:
            _judge_after(work, claim, (claim.reading.channel, *numbers), sources)
        name = (claim.reading.channel or b"", *(numbers or (-1, -1)))
        if claim.said.reason in EARLY and (numbers is None or name in shown):
            _judge_frontier(work, claim, shown.get(name), tally)
    gaps = _gaps(work, {claim.said.gap for claim in claims} - {None})
    for claim in claims:
        if wrong := _fault_of_gap(work, claim, gaps):
            work.verdict.find("wrong-gap", f"{claim.where}: {wrong}")


def _named(after: bytes | None) -> tuple[int, int] | None:
    found = AFTER.fullmatch(after or b"")
    return None if found is None else (int(found[1]), int(found[2]))


def _sources(
    work: Judging,
    named: Iterable[tuple[Claim, tuple[int, int] | None]],
    readings: Sequence[Reading],
) -> tuple[dict[Name, list[Place]], dict[Name, Reading]]:
    """The places of the inputs that deliveries may be of: those that are named, and the next.

    Returned are also the readings of these.
    """
    shown: dict[Name, Reading] = {}
    wanted: dict[int, list[Name]] = defaultdict(list)
    found: dict[Name, list[Place]] = {}
    for claim, numbers in named:
        channel = claim.reading.channel or b""
        incarnation, sequence = numbers or (work.first_lives.get(channel, -1), -1)
        for name in ((channel, incarnation, sequence), (channel, incarnation, sequence + 1)):
            if name in work.contents and name not in found:
                found[name] = []
                wanted[work.contents[name]].append(name)
    for record, reading in zip(work.material.inputs, readings, strict=True) if wanted else ():
        for name in wanted.get(hash(record.content), ()):
            found[name].append(record.place)
            shown[name] = reading
    return found, shown


def _judge_after(work: Judging, claim: Claim, name: Name, sources: dict[Name, list[Place]]) -> None:
    """The delivery is there; its input came before; the next one's did not, if it waited for none.

    What follows its label in the same epoch goes out as soon as both are there.
    """
    channel, incarnation, sequence = name
    what = f"{claim.where}: delivery {incarnation}/{sequence} of its channel"
    if name not in work.contents and not is_due(claim.source.place, work.due):
        return  # the outputs may have been read before that delivery
    if name not in work.contents:
        work.verdict.find("wrong-after", f"{what} is not there")
    elif claim.said.reason not in LATER and not claim.behind(sources[name], surely=False):
        work.verdict.find("wrong-after", f"{what} came behind it")
    following = (channel, incarnation, sequence + 1)
    if following in work.adjacent and claim.behind(sources[following], surely=True):
        work.verdict.find("wrong-after", f"{what} is not the last one before it")


def _judge_first(work: Judging, claim: Claim, sources: dict[Name, list[Place]]) -> None:
    """A reject behind no delivery came before the first one, unless its channel began again."""
    channel = claim.reading.channel
    first = work.first_lives.get(channel or b"")
    if channel is None or first is None or work.asked.may_have_reset(channel):
        return
    if first != work.lives[channel].incarnation or (channel, first) in work.retired:
        return
    name = (channel, first, 0)
    if name in work.adjacent and claim.behind(sources[name], surely=True):
        witness = f"{claim.where}: it names no delivery, and {first}/0 was one before it"
        work.verdict.find("wrong-after", witness)


def _judge_frontier(work: Judging, claim: Claim, after: Reading | None, tally: Tally) -> None:
    """How far the channel was when the record came fits the reason: it was behind ``after``.

    Nothing that is next is rejected for its label, nor what is no farther than the window.
    """
    reading, reason, cycle = claim.reading, claim.said.reason, work.settings.labels.cycle
    if reading.reason is not None or reading.passes or (after is not None and after.passes):
        return
    channel, epoch = reading.channel or b"", reading.epoch
    is_begun = after is not None and after.epoch == epoch
    if not is_begun and work.settings.first_seen:
        return  # nobody knows where it begins
    ahead = reading.position - (after.position + 1 if after is not None and is_begun else 0)
    ahead = ahead if cycle is None else ahead % cycle
    near = ahead <= work.settings.of(channel).window
    if after is not None and after.epoch > epoch:
        wrong = True  # it is of an epoch that is over
    elif reason == "outside-window":
        wrong = near
    elif reason == "buffer-full":
        wrong = ahead <= 0 and not (cycle and given_up(work, reading))  # then a turn farther on
    else:
        only = cycle is not None and near and tally.copies[channel, epoch, reading.position] == 1
        wrong = (ahead == 0 or only) and not given_up(work, reading)
    if wrong:
        where = f"{ahead} ahead of" if ahead > 0 else "below" if ahead else "at"
        behind = (claim.said.after or b"no delivery").decode()
        witness = f"{claim.where}: {reason} does not fit {where} the label behind {behind}"
        work.verdict.find("wrong-reason", witness)


def _gaps(work: Judging, ids: set[bytes | None]) -> dict[bytes, dict[str, Any]]:
    return {
        event["id"].encode(): event
        for event in work.material.events
        if event["event"] == "gap" and event["id"].encode() in ids
    }


def _fault_of_gap(work: Judging, claim: Claim, gaps: dict[bytes, dict[str, Any]]) -> str:
    """What is wrong with the gap that a reject names, or does not name."""
    reading, reason, named = claim.reading, claim.said.reason, claim.said.gap
    if reason not in ("late", *REFUSALS) or reading.passes:
        return "" if named is None else f"a record that is {reason} is of no gap"
    if named is None:
        lives = work.given_up.get((reading.channel or b"", reading.epoch), ())
        forgotten = any(len(ranges) > SKIPPED_RANGES_MAX for ranges in lives)
        forgotten |= work.begins_behind(reading)
        return "" if forgotten and reason == "late" else "it does not name the gap of its label"
    event = gaps.get(named)
    what = f"{named.decode(errors='replace')} is"
    if event is None:
        return f"{what} no gap"
    same = key_from_json(event["channel"]) == reading.channel and event["epoch"] == reading.epoch
    if not same or not _within(work, event, reading.position):
        return f"{what} not the gap of its label"
    return f"{what} of another reason" if reason not in ("late", event["reason"]) else ""


def _within(work: Judging, event: dict[str, Any], position: int) -> bool:
    labels, settings = work.settings.labels, work.settings
    horizon = settings.horizon(len(work.material.inputs))
    first = pa.array([str(event["from"]).encode()], pa.binary())
    offset = position - int(labels.positions(first, horizon)[0])
    count: int = event["count"]
    return 0 <= (offset % labels.cycle if labels.cycle else offset) < count

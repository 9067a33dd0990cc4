"""Rejects of a channel pipeline: untouched, once, with a reason that can be the right one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streaming.places import Place
from streaming.verify.accounts import REFUSALS
from streaming.verify.added import Reject
from streaming.verify.channel_places import Claim, judge_places
from streaming.verify.channel_readings import Judging, Reading
from streaming.verify.channel_tally import Tally, given_up

STATIC = ("missing-channel", "missing-label", "bad-label", "bad-epoch")


def judge_rejects(
    work: Judging, readings: list[Reading], tally: Tally, rejects: list[Reject | None]
) -> set[tuple[str, int, int]]:
    """Rejects untouched, once, with a reason that can be; the places of what was rejected.

    ``rejects``: what each record of the rejects' topic says.
    """
    verdict, inputs = work.verdict, work.material.inputs
    at = {record.place: index for index, record in enumerate(inputs)}
    rejected: dict[tuple[str, int, int], Any] = {}
    claims = []
    for record, said in zip(work.material.rejects, rejects, strict=True):
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
        if not _possible(work, said.reason, place, readings[index], tally):
            verdict.find("wrong-reason", f"{record}: {said.reason} does not fit {inputs[index]}")
        elif said.reason in REFUSALS:
            work.refused[_label(readings[index], said.reason)] -= 1
        claims.append(Claim(str(record), said, inputs[index], readings[index]))
    judge_places(work, claims, readings, tally)
    for channel, epoch, position, reason in sorted(+work.refused):
        at_label = f"label {work.settings.labels.at(position)} (epoch {epoch}) of {channel!r}"
        verdict.find("unfounded-gap", f"{at_label} was given up as {reason}: no such reject")
    return set(rejected)


def _label(reading: Reading, reason: str) -> tuple[bytes, int, int, str]:
    return reading.channel or b"", reading.epoch, reading.position, reason


def _possible(work: Judging, reason: str, place: Place, reading: Reading, tally: Tally) -> bool:
    """Return whether the reason can be the right one, as far as the topics show."""
    labels = work.settings.labels
    if reading.reason is not None or reason in STATIC:
        return reason == reading.reason or (
            reason == "bad-label" and labels.searched and reading.reason in (None, "bad-epoch")
        )
    if reading.passes:
        return reason in REFUSALS
    channel, epoch = reading.channel or b"", reading.epoch
    cyclic = labels.cycle is not None
    bounds = work.settings.of(channel)
    fin = tally.fin.get((channel, epoch))
    possible: dict[str, Callable[[], bool]] = {
        "stale-epoch": lambda: tally.may_be_over(channel, epoch, place),
        "after-fin": lambda: fin is not None and (cyclic or reading.position > fin),
        # The frontier is 0 or above.
        "outside-window": lambda: not cyclic and reading.position > bounds.window,
        "late": lambda: work.begins_behind(reading) or given_up(work, reading),
        # One of the copies was not: it was delivered, or it waits.
        "duplicate": lambda: cyclic or tally.taken((channel, epoch, reading.position)) > 0,
        **dict.fromkeys(REFUSALS, lambda: work.refused[_label(reading, reason)] > 0),
        "reset": lambda: work.asked.may_have_reset(channel),
        "buffer-full": lambda: tally.count[channel, epoch] > bounds.held_max,
    }
    return reason in possible and possible[reason]()

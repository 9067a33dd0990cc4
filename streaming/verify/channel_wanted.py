"""What was asked for, and what was said not to come, held against inputs, gaps and commands.

A label that is asked for was missing then: something above it had come, and it had not, nor had it
been given up. Tries of a run ascend, one by one. Labels that were given up as not coming have a
command that says so.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streaming.arrow.key_text import escaped, key_from_json
from streaming.places import Place
from streaming.verify.channel_readings import Judging, Reading, announced, covered
from streaming.verify.commands import Command
from streaming.verify.records import Record

TRIES_MAX = 8
FIELDS = {"channel", "epoch", "from", "to", "try"}
NOT_COMING = "not-coming"
Line = tuple[bytes, int]
"""A channel and an epoch."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run of labels that was asked for, half-open positions; ``at_ms``: when."""

    record: Record
    line: Line
    first: int
    stop: int
    tries: int

    @property
    def at_ms(self) -> int:
        """The batch's time."""
        return self.record.timestamp

    @property
    def name(self) -> str:
        """Where it lies, and of which channel it is."""
        return f"{self.record} (key {escaped(self.line[0])}, try {self.tries})"


def judge_wanted(work: Judging, readings: list[Reading], rejected: set[Place]) -> None:
    """Hold what was asked for against what was there; and what will not come against commands."""
    found = [one for record in work.material.wanted if (one := _read(work, record)) is not None]
    work.verdict.look(wanted=len(work.material.wanted))
    if found:
        _judge_tries(work, found)
        _judge_missing(work, found, readings, rejected)
        _judge_times(work, found)
    _judge_not_coming(work)


def _read(work: Judging, record: Record) -> Wanted | None:
    try:
        said = json.loads(record.value or b"")
        line = key_from_json(said["channel"]), int(said["epoch"])
        first, stop = _range(work, said)
        is_whole = set(said) == FIELDS and 1 <= said["try"] <= TRIES_MAX and line[0] == record.key
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        is_whole = False
    if not is_whole or not 0 <= first < stop:
        work.verdict.find("bad-wanted", f"{record} asks for no run of labels")
        return None
    return Wanted(record, line, first, stop, said["try"])


def _range(work: Judging, said: Mapping[str, Any]) -> tuple[int, int]:
    """The positions that `from` and `to` mean; within the cycle, if there is one, and beyond."""
    labels = work.settings.labels
    horizon = work.settings.horizon(len(work.material.inputs))
    first, stop = (labels.position(said[name], horizon) for name in ("from", "to"))
    return first, first + (stop - first) % labels.cycle if labels.cycle else stop


def _judge_tries(work: Judging, wanted: list[Wanted]) -> None:
    """Each try of a run follows the one before it, of the whole run or of a larger one.

    Not where the channel may have begun again, nor in a cycle, where its labels come again.
    """
    if work.settings.labels.cycle is not None:
        return
    before: dict[Line, list[Wanted]] = defaultdict(list)
    for one in wanted:
        if _may_have_begun_again(work, one.line[0]):
            continue
        same = [
            each for each in before[one.line] if each.first < one.stop and one.first < each.stop
        ]
        last = max(same, key=lambda each: each.tries, default=None)
        if last is not None and work.settings.repeats_allowed and last.tries >= one.tries:
            continue
        if one.tries != (last.tries if last else 0) + 1:
            why = f"follows {last.name}" if last else "is the first of these labels"
            work.verdict.find("wrong-try", f"{one.name} {why}")
        elif last is not None and not last.first <= one.first < one.stop <= last.stop:
            work.verdict.find("wrong-try", f"{one.name} is of more labels than {last.name}")
        before[one.line].append(one)


def _judge_missing(
    work: Judging, wanted: list[Wanted], readings: list[Reading], rejected: set[Place]
) -> None:
    """Something behind a run had come, and nothing of the run had come before that.

    A run ends at a label that came, or at one that will not come. Arrivals of one partition have an
    order; a label that was rejected when it came was missing.
    """
    lines = {one.line for one in wanted}
    arrived: dict[Line, dict[int, Place]] = defaultdict(dict)
    any_copy: dict[Line, dict[int, Place]] = defaultdict(dict)
    for record, reading in zip(work.material.inputs, readings, strict=True):
        line = (reading.channel or b"", reading.epoch)
        if line in lines and reading.reason is None and not reading.passes:
            any_copy[line].setdefault(reading.position, record.place)
            if record.place not in rejected:
                arrived[line].setdefault(reading.position, record.place)
    cycle = work.settings.labels.cycle
    for one in wanted:
        stop = one.stop % cycle if cycle else one.stop
        above = any_copy[one.line].get(stop)
        if above is None and not cycle and max(any_copy[one.line], default=-1) < stop:
            work.verdict.find("false-wanted", f"{one.name}: nothing behind it had come")
        if above is None or cycle or _may_have_begun_again(work, one.line[0]):
            continue
        there = arrived[one.line]
        labels = range(one.first, one.stop)
        near = labels if len(labels) < len(there) else [at for at in there if at in labels]
        early = [there[at] for at in near if at in there and there[at][:2] == above[:2]]
        if early and min(early) < above:
            place = min(early)
            witness = f"one of its labels lies at {place[0]}/{place[1]}@{place[2]}"
            work.verdict.find("false-wanted", f"{one.name}: {witness}")


def _judge_times(work: Judging, wanted: list[Wanted]) -> None:
    """Nothing is asked for that was given up in an earlier batch."""
    if work.settings.labels.cycle is not None:
        return
    gone: dict[Line, list[tuple[int, int, int]]] = defaultdict(list)
    for event in work.material.events:
        if event.get("event") == "gap" and "at" in event:
            at_ms = round(datetime.fromisoformat(event["at"]).timestamp() * 1000)
            name = (key_from_json(event["channel"]), event["epoch"])
            gone[name].append((at_ms, *_range(work, event)))
    for one in wanted:
        if _may_have_begun_again(work, one.line[0]):
            continue
        for at_ms, first, stop in gone[one.line]:
            if first < one.stop and one.first < stop and at_ms < one.at_ms:
                work.verdict.find("false-wanted", f"{one.name}: its labels were given up before")
                break


def _judge_not_coming(work: Judging) -> None:
    """Labels that were given up as not coming were in a command that said so."""
    said: dict[Line, list[tuple[int, int]]] = defaultdict(list)
    cycle = work.settings.labels.cycle
    turns = (0,) if cycle is None else (-cycle, 0, cycle)
    for name, ranges in work.asked.not_coming.items():
        ends = [_range(work, each) for each in ranges]
        ends = [(first, stop) for first, stop in ends if first >= 0]
        said[name] = [(first + turn, stop + turn) for first, stop in ends for turn in turns]
    gaps = announced(work.material.events, work.settings, len(work.material.inputs))
    for (channel, _, epoch, reason), given_up in gaps.items():
        for begin, end in given_up if reason == NOT_COMING else ():
            first = begin if cycle is None else begin % cycle
            stop = first + end - begin
            if not covered(first, stop, said[channel, epoch]):
                witness = f"labels {work.settings.labels.at(first)} and on ({stop - first})"
                what = f"key {escaped(channel)}: {witness} were given up as not coming"
                work.verdict.find("unasked-gap", f"{what}, and nobody said so")


def _may_have_begun_again(work: Judging, channel: bytes) -> bool:
    return work.asked.may_have_reset(channel) or any(channel == name for name, _ in work.retired)


def read_answer(command: Command, said: Mapping[str, Any]) -> tuple[Line, Mapping[str, Any]] | None:
    """Read a command that says which labels will not come; None where it is another one."""
    try:
        if said["not_coming"] is not True or "op" in said:
            return None
        line = key_from_json(said["channel"]), int(said["epoch"])
        ends = {"from": said["from"], "to": said["to"]}
    except (ValueError, KeyError, TypeError, OverflowError):  # an infinite epoch
        return None
    command.op = NOT_COMING
    return line, ends

"""Destructions of nodes, and releases in inputs: each has a stamp of its own.

Those in inputs have their sender's place: what it sent before them has lower stamps, what it sends
after them higher ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from operator import itemgetter

from streaming.places import StreamPoint
from streaming.verify.columns import Column, paced
from streaming.verify.commands import Command
from streaming.verify.faults import Verdict
from streaming.verify.inputs import Inputs
from streaming.verify.multicast_deliveries import MulticastDeliveries
from streaming.verify.nodes import Stamp

LEAST: Stamp = (-1, b"")
RELEASE = "release"


def placed_releases(verdict: Verdict, commands: Iterable[Command]) -> dict[Stamp, Command]:
    """The releases that senders placed among their messages, by stamp."""
    placed: dict[Stamp, Command] = {}
    for command in commands:
        if command.op != RELEASE or not command.in_input or command.sender is None:
            continue
        if not command.done or not command.answered:
            continue
        answer = command.answers[0]
        timestamp, sender = answer.fields.get("timestamp"), answer.fields.get("from")
        if type(timestamp) is not int or not isinstance(sender, str):
            verdict.find("wrong-answer", f"{answer.where} has no timestamp and from")
            continue
        stamp = (timestamp, command.sender)
        if stamp in placed:
            verdict.find("wrong-answer", f"{answer.where} has another command's timestamp")
        placed[stamp] = command
    return placed


def judge_streams(
    verdict: Verdict, releases: Mapping[Stamp, Command], deliveries: MulticastDeliveries
) -> None:
    """Where a release says that a peer's stream was fits its stamp."""
    by_peer: dict[bytes, list[tuple[Stamp, StreamPoint, Command]]] = {}
    for stamp, command in sorted(releases.items(), key=itemgetter(0)):
        if (point := _stream_point(command)) is not None:
            by_peer.setdefault(command.others[0].encode(), []).append((stamp, point, command))
    for peer, there in by_peer.items():
        stamps = [stamp for stamp, _, _ in there]
        points = [point for _, point, _ in there]
        highest = [*accumulate(points, max)]
        lowest = [*accumulate(reversed(points), min)]
        for handle in deliveries.held(peer):
            place = (handle.incarnation, handle.sequence)
            own = deliveries.stamps[handle.message]
            at = bisect_right(stamps, own)
            above = len(there) - at
            if (not at or highest[at - 1] <= place) and (not above or place < lowest[above - 1]):
                continue
            for stamp, point, command in there:
                if (place < point) != (own < stamp):
                    name = deliveries.name(handle.message)
                    witness = f"{command.answers[0].where} is on the wrong side of {name}"
                    verdict.find("wrong-answer", witness)


def _stream_point(command: Command) -> StreamPoint | None:
    """Return where the answer to a release says that the peer's stream was."""
    incarnation, sequence = map(command.answers[0].fields.get, ("incarnation", "sequence"))
    if type(incarnation) is int and type(sequence) is int:
        return incarnation, sequence
    return None


def judge_ends(
    verdict: Verdict,
    ends: Mapping[Stamp, Command],
    releases: Mapping[Stamp, Command],
    deliveries: MulticastDeliveries,
    inputs: Inputs,
    of: Column,
) -> None:
    """Judge the stamps of commands; ``of``: each message's input, below 0 where unknown."""
    for stamp, command in (*ends.items(), *releases.items()):
        message = deliveries.stamps.find(stamp)
        if message >= 0 and (stamp in releases or message not in deliveries.notices):
            witness = f"{command.answers[0].where} has the stamp of {deliveries.name(message)}"
            by = deliveries.histories.first_place(message)
            verdict.find("same-stamp", f"{witness}, got by {by}")
    asked = {stamp: command for stamp, command in ends.items() if command.in_input}
    asked.update(releases)
    if asked:
        _judge_places(verdict, asked, deliveries, inputs, of)


def _judge_places(
    verdict: Verdict,
    ends: Mapping[Stamp, Command],
    deliveries: MulticastDeliveries,
    inputs: Inputs,
    of: Column,
) -> None:
    """What a partition has of a sender before its command comes before it, and no more."""
    lines: dict[tuple[str, int, bytes | None], list[tuple[int, Stamp, str]]] = {}
    for stamp, command in ends.items():
        topic, partition, offset = command.place
        line = lines.setdefault((topic, partition, command.sender), [])
        line.append((offset, stamp, command.where))
    for message in paced(deliveries.in_order()):
        record = of[message]
        if record >= 0:
            where = inputs.partitions[inputs.partition[record]]
            name = (where.topic, where.number, inputs.senders[record])
            if name in lines:
                lines[name].append((inputs.offset[record], deliveries.stamps[message], ""))
    for line in lines.values():
        highest, end = LEAST, (LEAST, "")
        for _, stamp, place in sorted(line):
            if stamp < (highest if place else end[0]):
                witness = f"{place or end[1]} has not its place among its sender's messages"
                verdict.find("sender-order", witness)
            highest = max(highest, stamp)
            end = max(end, (stamp, place)) if place else end

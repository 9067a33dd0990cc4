"""Destructions of nodes: each has a stamp of its own, and those in inputs their sender's place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streaming.verify.commands import Command
from streaming.verify.faults import Verdict
from streaming.verify.inputs import Inputs
from streaming.verify.multicast_deliveries import MulticastDeliveries
from streaming.verify.nodes import Stamp

LEAST: Stamp = (-1, b"")


def judge_ends(
    verdict: Verdict,
    ends: Mapping[Stamp, Command],
    deliveries: MulticastDeliveries,
    inputs: Inputs,
    of: Sequence[int],
) -> None:
    """Judge the stamps of destructions; ``of``: each message's input, below 0 where unknown."""
    for stamp, command in ends.items():
        message = deliveries.numbers.get(stamp, -1)
        if message >= 0 and message not in deliveries.notices:
            witness = f"{command.answers[0].where} has the stamp of {deliveries.name(message)}"
            by = deliveries.histories.first_place(message)
            verdict.find("same-stamp", f"{witness}, got by {by}")
    asked = {stamp: command for stamp, command in ends.items() if command.in_input}
    if asked:
        _judge_places(verdict, asked, deliveries, inputs, of)


def _judge_places(
    verdict: Verdict,
    ends: Mapping[Stamp, Command],
    deliveries: MulticastDeliveries,
    inputs: Inputs,
    of: Sequence[int],
) -> None:
    """What a partition has of a sender before its destruction comes before it, and no more."""
    lines: dict[tuple[str, int, bytes | None], list[tuple[int, Stamp, str]]] = {}
    for stamp, command in ends.items():
        topic, partition, offset = command.place
        line = lines.setdefault((topic, partition, command.sender), [])
        line.append((offset, stamp, command.where))
    for message in deliveries.in_order():
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

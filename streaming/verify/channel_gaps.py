"""Gap times, held against the rules of the channels: no label is given up too early.

An event `gap` with the reason `timeout` says how long the longest of the held messages had waited.
That was no shorter than the gap time of the channel's rule. One that sets itself lies between its
bounds, and is the longest until enough messages came. Nothing says when a rule was
changed: gaps are judged by the rules of today.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from streaming.arrow.key_text import escaped, key_from_json
from streaming.verify.channel_readings import ChannelRule, ChannelSettings, Judging, Reading

SAMPLES_MIN = 1_000
"""Messages after which a gap time may follow from their delays (docs/channels.md)."""


def judge_gap_times(
    work: Judging, readings: list[Reading], few: set[ChannelRule] | None = None
) -> None:
    """Find labels that were given up earlier than the rule of their channel says.

    ``few``: see :func:`rules_with_few`, where the readings are those of some channels only.
    """
    ended = [event for event in work.material.events if event.get("reason") == "timeout"]
    timed = [event for event in ended if event["event"] == "gap"]
    work.verdict.look(timeouts=len(timed))
    if few is None:
        few = _rules_with_few(work, readings) if timed else set()
    for event in timed:
        channel = key_from_json(event["channel"])
        rule = work.settings.of(channel)
        if rule.gap is None:
            continue
        longest = rule.gap.least_ms is not None and rule in few
        due_ms = rule.gap.most_ms if longest else rule.gap.least_ms
        waited_ms = event.get("waited_ms")
        what = f"event {event['id']}: labels {event['from']} and on of key {escaped(channel)}"
        if not isinstance(waited_ms, int) or isinstance(waited_ms, bool):
            work.verdict.find("early-gap", f"{what} do not say how long they were waited for")
        elif due_ms is None:
            work.verdict.find("early-gap", f"{what} timed out, and are to be waited for")
        elif waited_ms < due_ms:
            witness = f"{what} were given up after {waited_ms} ms, not {due_ms}"
            work.verdict.find("early-gap", witness)


def _rules_with_few(work: Judging, readings: list[Reading]) -> set[ChannelRule]:
    channels = Counter(reading.channel for reading in readings)
    of_rule: Counter[ChannelRule] = Counter()
    for channel, count in channels.items():
        of_rule[work.settings.of(channel or b"")] += count
    ends: dict[tuple[str, int], int] = {}
    for record in work.material.inputs:
        place: tuple[Any, ...] = record.place
        ends[place[0], place[1]] = max(place[2] + 1, ends.get((place[0], place[1]), 0))
    return rules_with_few(work.settings, of_rule, sum(ends.values()) - len(readings))


def rules_with_few(
    settings: ChannelSettings, of_rule: Counter[ChannelRule], removed: int
) -> set[ChannelRule]:
    """Return the rules whose channels never had SAMPLES_MIN messages.

    The ``removed`` records, which Kafka has no longer, may have been theirs.
    """
    every = {settings.of(b"\xff"), *settings.rules}
    return {rule for rule in every if of_rule[rule] + removed < SAMPLES_MIN}

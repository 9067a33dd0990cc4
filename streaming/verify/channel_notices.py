"""Notices in channels' streams: each says what its event does, once, in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from streaming.arrow.key_text import key_from_json
from streaming.verify.channel_readings import ChannelLife, Judging
from streaming.verify.commands import DONE
from streaming.verify.notices import Notice
from streaming.verify.records import Record

WORDS = ("gap", "fin", "epoch", "reset")


class Notices:
    """Holds notices against events, and against the channels' lives as deliveries show them."""

    def __init__(self, work: Judging) -> None:
        self.work = work
        self.events = {event["id"]: event for event in work.material.events}
        self.seen: set[tuple[bytes, str]] = set()

    def take(self, record: Record, notice: Notice, life: ChannelLife) -> None:
        """Take the next record of a channel, which is a notice; it moves the channel's place."""
        wrong = self._fault(record.key or b"", notice, life)
        if wrong:
            self.work.verdict.find("wrong-notice", f"{record}, a notice of {notice.word}: {wrong}")

    def _fault(self, key: bytes, notice: Notice, life: ChannelLife) -> str:
        detail, word = notice.detail, notice.word
        name = str(detail.get("id"))
        event = self.events.get(name)
        if event is None:
            return f"there is no event {name}"
        if any(event.get(each) != value for each, value in detail.items() if each != "at"):
            return f"its detail is not the event {name}"
        if (key, name) in self.seen:
            return f"its channel has a notice of {name} already"
        self.seen.add((key, name))
        if word == "reset":
            life.ended = True
            fits = (event["event"], event.get("op")) == (DONE, "reset")
            return "" if fits and _concerns(event, key) else f"{name} is no reset of its channel"
        same = (event["event"], event["incarnation"]) == (word, life.incarnation)
        if not same or not _concerns(event, key):
            return f"{name} is no {word} of its channel then"
        return self._misplaced(key, event, life)

    def _misplaced(self, key: bytes, event: Mapping[str, Any], life: ChannelLife) -> str:
        """What is wrong with the place of a notice among the deliveries of its channel."""
        before, epoch = life.epoch, event["epoch"]
        if epoch > before:
            start = self.work.start(key, epoch, life.incarnation) or 0
            life.epoch, life.expected, life.fin = epoch, start, None
            life.begins = self.work.settings.first_seen
        if epoch < before or (event["event"] == "epoch" and epoch == before):
            return f"its channel is at epoch {before} already"
        if event["event"] == "gap":
            fits = self._reach(key, event["from"], life)
            life.expected += event["count"]
            life.begins = True  # what is next may have waited for the gap to end
        elif event["event"] == "fin":
            fits = self._is_at(event["label"], life.expected - 1)
            life.fin = life.expected - 1
        else:
            fits = True
        return "" if fits else "it is not where the labels before and behind it lie"

    def _reach(self, key: bytes, label: int | str, life: ChannelLife) -> bool:
        """Move to a label over those that were given up without a notice (`notices` was off)."""
        ranges = self.work.gaps.get((key, life.incarnation, life.epoch), [])
        for start, stop in sorted(ranges):
            if self._is_at(label, life.expected):
                break
            if start <= life.expected < stop:
                life.expected = stop
        return self._is_at(label, life.expected)

    def _is_at(self, label: int | str, position: int) -> bool:
        labels, settings = self.work.settings.labels, self.work.settings
        horizon = settings.horizon(len(self.work.material.inputs))
        place = int(labels.positions(pa.array([str(label).encode()], pa.binary()), horizon)[0])
        return place == (position % labels.cycle if labels.cycle else position)


def _concerns(event: Mapping[str, Any], key: bytes) -> bool:
    """Whether an event is about a key; a command may name any key in base64."""
    try:
        return "blocked" in event or key_from_json(event.get("channel")) == key
    except ValueError:
        return False

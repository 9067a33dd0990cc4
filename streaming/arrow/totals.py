"""What a shard has done since its state began, as numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from streaming.arrow.histograms import together

ANSWERS_MAX = 50
"""Answers that are reported of a batch by each shard; the others are on the events topic."""


OVERLAPS_MAX = 100
"""Overlaps that are listed."""


@dataclass(slots=True)
class Totals:
    """A shard's counts since its state began; of records, but ``gaps`` counts events.

    ``commands`` are those in the inputs, which ``seen`` does not count. ``passed`` are those of the
    ``delivered`` that have no label.

    ``asked`` are the requests for missing labels, ``answered`` the labels that were asked for and
    then came, or will not come as somebody said.

    ``transit`` are the messages that this shard sent to others less those that it took from others:
    over all shards, what is on its way. ``batches`` counts the batches that wrote anything.
    ``histograms``: by name, as in `streaming.arrow.histograms`. ``overlaps``: those of groups with
    their next numbers, each listed by one shard.

    Some fields are no counts but news of one batch, for the driver alone. ``parts``: this shard's
    parts of answers to commands that concern all shards (``shared`` counts them since the state
    began). ``answers``: the first of this shard's answers to commands, where they go to the sink
    encoded. ``waiting``: who waits now, as text that the discipline understands; None: as before.

    ``due_ms``: from which batch time on a step without records would change something, news that
    is sent with every step; None: never. A state has it, too (`disciplines.shards.NEVER_MS`).

    ``read``: how many records the shard got of the batch, of all topics; likewise news.

    ``in_transit``: how many messages the batch sent to other shards, and the least record time of
    what they carry; likewise news.

    Two are for progress marks alone, in ms. ``read_ms``: the largest record time read, by
    `topic/partition`. ``oldest_ms``: the least record time of what is held or in transit, by output
    partition ("": it may be any); None: not known.
    """

    seen: int = 0
    delivered: int = 0
    dropped: int = 0
    passed: int = 0
    gaps: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    undelivered: int = 0
    notices: int = 0
    commands: int = 0
    asked: int = 0
    answered: int = 0
    held: int = 0
    blocked: int = 0
    channels: int = 0
    transit: int = 0
    batches: int = 0
    shared: int = 0
    histograms: dict[str, list[int]] = field(default_factory=dict)
    overlaps: list[Any] = field(default_factory=list)
    read_ms: dict[str, int] = field(default_factory=dict)
    oldest_ms: dict[str, int] | None = None
    read: int = 0
    in_transit: list[int] = field(default_factory=list)
    due_ms: int | None = None
    parts: list[dict[str, Any]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)
    waiting: str | None = None

    def reject(self, reason: str, count: int = 1) -> None:
        """Count rejected records."""
        self.rejected[reason] = self.rejected.get(reason, 0) + count

    def measure(self, name: str, counts: list[int]) -> None:
        """Add to a histogram."""
        self.histograms = {
            **self.histograms,
            name: together([self.histograms.get(name, []), counts]),
        }

    def to_json(self) -> str:
        """One line; keys sorted, so that equal totals give equal bytes."""
        values = {total.name: getattr(self, total.name) for total in fields(self)}
        if self.due_ms is None:
            del values["due_ms"]
        if not self.read:
            del values["read"]
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def without_news(self) -> Totals:
        """The counts alone."""
        counts = replace(self, parts=[], answers=[], waiting=None)
        return replace(counts, read=0, in_transit=[], due_ms=None)

    @classmethod
    def sum(cls, parts: Iterable[Totals]) -> Totals:
        """All of them together."""
        every = list(parts)
        whole = cls(oldest_ms=_least([part.oldest_ms for part in every]))
        for part in every:
            for name, time in part.read_ms.items():
                whole.read_ms[name] = max(time, whole.read_ms.get(name, time))
            for name in _NUMBERS:
                setattr(whole, name, getattr(whole, name) + getattr(part, name))
            whole.overlaps += part.overlaps
            for reason, count in part.rejected.items():
                whole.reject(reason, count)
            for name, counts in part.histograms.items():
                whole.measure(name, counts)
        whole.overlaps = sorted(whole.overlaps)[:OVERLAPS_MAX]
        return whole

    @classmethod
    def from_json(cls, text: str) -> Totals:
        """The inverse of :meth:`to_json`."""
        counts: dict[str, Any] = json.loads(text)
        return cls(**counts)


def _least(parts: list[dict[str, int] | None]) -> dict[str, int] | None:
    """The least of each partition; None where one of the parts is not known, or there is none."""
    least: dict[str, int] = {}
    for part in parts:
        if part is None:
            return None
        least |= {name: min(time, least.get(name, time)) for name, time in part.items()}
    return least if parts else None


_NUMBERS = [each.name for each in fields(Totals) if each.type == "int"]

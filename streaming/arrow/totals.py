"""A shard's counts since its state began."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from streaming.arrow.histograms import together

ANSWERS_MAX = 50
"""The most answers that each shard reports of a batch; all are on the events topic."""


OVERLAPS_MAX = 100
"""The most overlaps that are listed."""


@dataclass(slots=True)
class Totals:
    """A shard's counts of records since its state began; ``gaps`` counts events.

    ``commands`` are those in the inputs, which ``seen`` does not count. ``passed`` are the
    ``delivered`` records without a label.

    ``asked`` are the requests for missing labels, ``answered`` the requested labels that then
    arrived, or were declared lost.

    ``transit``: the messages that this shard sent to others minus those that it received; over all
    shards, the messages in transit. ``batches`` counts the batches that wrote anything.
    ``histograms``: by name, as in `streaming.arrow.histograms`. ``overlaps``: those of groups with
    their next numbers, each listed by one shard.

    Some fields are not counts but news of one batch, for the driver alone. ``parts``: this shard's
    parts of answers to commands that concern all shards (``shared`` counts them since the state
    began). ``answers``: the first of this shard's answers to commands, if they go to the sink
    encoded. ``waiting``: what waits now, as text that the discipline parses; None: unchanged.

    ``due_ms``: the batch time from which a step without records would change something, sent with
    every step; None: never. A state has it, too (`disciplines.shards.NEVER_MS`).

    ``read``: the number of records, of all topics, that the shard got in the batch.

    ``in_transit``: the number of messages that the batch sent to other shards, and the least record
    time among their contents.

    ``kept_bytes``: the bytes of the records in the state, if shards send each other messages.

    ``expected``: the number of the batch's messages and of the deliveries that they will have, from
    shards that send messages to others first; None: ``delivered`` counts them at once.

    Two are for progress marks alone, in ms. ``read_ms``: the largest record time read, by
    `topic/partition`. ``oldest_ms``: the least record time held or in transit, by output partition
    ("": it may be any); None: not known.
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
    kept_bytes: int = 0
    in_transit: list[int] = field(default_factory=list)
    expected: list[int] | None = None
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
        """Return one line of JSON; keys are sorted, so that equal totals give equal bytes."""
        values = {total.name: getattr(self, total.name) for total in fields(self)}
        for name in ("due_ms", "expected"):
            if values[name] is None:
                del values[name]
        for name in ("read", "kept_bytes"):
            if not values[name]:
                del values[name]
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def without_news(self) -> Totals:
        """Return the totals without the news of one batch."""
        counts = replace(self, parts=[], answers=[], waiting=None)
        counts = replace(counts, in_transit=[], expected=None, due_ms=None)
        return replace(counts, read=0, kept_bytes=0)

    @classmethod
    def sum(cls, parts: Iterable[Totals]) -> Totals:
        """Add up totals of shards or batches."""
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
        """Return the inverse of :meth:`to_json`."""
        counts: dict[str, Any] = json.loads(text)
        return cls(**counts)


def expected_in(news: Iterable[Totals]) -> tuple[int, int] | None:
    """Return a batch's messages and the deliveries that they will have; None if not given."""
    known = [each.expected for each in news if each.expected is not None]
    return (sum(each[0] for each in known), sum(each[1] for each in known)) if known else None


def _least(parts: list[dict[str, int] | None]) -> dict[str, int] | None:
    """Return the least of each partition; None if a part is not known, or there is none."""
    least: dict[str, int] = {}
    for part in parts:
        if part is None:
            return None
        least |= {name: min(time, least.get(name, time)) for name, time in part.items()}
    return least if parts else None


_NUMBERS = [each.name for each in fields(Totals) if each.type == "int"]

"""What the driver knows of a pipeline while it runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from streaming.arrow.totals import Totals
from streaming.sink.sink import Written
from streaming.source.pacing import UNKNOWN


@dataclass(slots=True)
class Progress:
    """What the driver knows of a pipeline: counts by shard, last batch written by partition.

    ``waiting``: what each shard reported last of what waits; ``waiting_changed``: whether one did
    in the last batch. ``written``: what the sinks did since the service began, ``began_ms``.
    ``copies``: deliveries for each record, in the last batches. ``last_records``, ``last_seconds``:
    of the last batch that had any records; 0 before that. ``transit_ms``: the least record time of
    what shards have sent each other and not taken yet, None for nothing, 0 where it is not known.
    ``timers``: when each shard's timer is due that has said so since the start (batch time; None:
    never). ``kept_bytes``: the bytes of records in each shard's state, where shards send each other
    messages. ``waits_for``: what a batch cannot go on without. ``remembered``, ``latest``: as in
    `BatchContext`.

    The query's thread changes it, within a batch; other threads (run loop, metrics) only read, and
    may see a batch half noted.
    """

    query: str = ""
    batch: int = -1
    batch_ms: int = 0
    in_doubt: int = -1
    remembered: set[int] = field(default_factory=set)
    shards: dict[int, Totals] = field(default_factory=dict)
    waiting: dict[int, str] = field(default_factory=dict)
    waiting_changed: bool = False
    wrote: dict[int, int] = field(default_factory=dict)
    latest: dict[int, int] = field(default_factory=dict)
    written: Written = field(default_factory=Written)
    began_ms: int = field(default_factory=lambda: round(time.time() * 1000))
    copies: float = 0.0
    last_records: int = 0
    last_seconds: float = 0.0
    waits_for: str = ""
    transit_ms: int | None = 0
    timers: dict[int, int | None] = field(default_factory=dict)
    kept_bytes: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take the deliveries for each record since the checkpoint began, until a batch is done."""
        seen, delivered = self.counts()
        self.copies = self.copies or (delivered / seen if seen else 0.0)

    def totals(self) -> Totals:
        """The sum of all shards' totals."""
        return Totals.sum(list(self.shards.values()))  # a batch may change it meanwhile

    def due_ms(self, shards: int) -> int | None:
        """Return when the first timer is due, None for never, UNKNOWN before all said so."""
        if len(self.timers) < shards:
            return UNKNOWN
        every = [*self.timers.values()]  # a batch may change it meanwhile
        return min((due_ms for due_ms in every if due_ms is not None), default=None)

    def kept(self) -> int:
        """About how many entries the state has: channels and what waits."""
        return sum(each.channels + each.held for each in self.shards.values())

    def counts(self) -> tuple[int, int]:
        """Records and deliveries so far."""
        shards = self.shards.values()
        return sum(each.seen for each in shards), sum(each.delivered for each in shards)

    def note_transit(self, news: list[Totals]) -> None:
        """Note what is on its way behind a batch: what it sent, and perhaps what was before it."""
        sent = [each.in_transit for each in news if each.in_transit]
        known = [oldest_ms for each in sent for oldest_ms in each[1:]]
        is_all = self.totals().transit <= sum(each[0] for each in sent)
        if not is_all and self.transit_ms is not None:
            known.append(self.transit_ms)
        self.transit_ms = min(known, default=None)

    def measure(
        self, before: tuple[int, int], seconds: float, expected: tuple[int, int] | None
    ) -> None:
        """Note a batch's time, and deliveries for each record (`Totals`); earlier count less.

        After a damaged status a shard's counts are of all batches so far; ``expected`` is not.
        """
        seen, delivered = (after - was for after, was in zip(self.counts(), before, strict=True))
        if seen > 0:
            self.last_records, self.last_seconds = seen, max(seconds, 1e-9)
        messages, deliveries = (seen, delivered) if expected is None else expected
        if messages > 0:
            self.copies = max(deliveries / messages, self.copies / 2)


def shards_in(status: dict[str, Any]) -> dict[int, Totals]:
    """The totals of each shard that a status file has; see `status_of`."""
    return {int(shard): Totals(**fields) for shard, fields in status.get("shards", {}).items()}


def status_of(shards: Mapping[int, Totals]) -> dict[str, Any]:
    """The inverse, as all versions of the state format read it: without what came later."""
    found = {str(shard): asdict(totals) for shard, totals in shards.items()}
    for each in found.values():
        del each["expected"], each["kept_bytes"]
    return found

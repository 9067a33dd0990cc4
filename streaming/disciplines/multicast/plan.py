"""What workers need to know of a pipeline of discipline `multicast`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from streaming.disciplines.broadcast import BroadcastPlan
from streaming.disciplines.plan import ExchangePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticastPlan(ExchangePlan):
    """One pipeline of discipline ``multicast`` by a protocol between shards."""

    discipline: ClassVar[str] = "multicast"
    order: Literal["clock", "counter"] = "clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMulticastPlan(BroadcastPlan):
    """One pipeline of discipline ``multicast`` in the order of the batch."""

    discipline: ClassVar[str] = "multicast"

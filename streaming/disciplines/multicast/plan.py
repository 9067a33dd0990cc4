"""What workers need to know of a pipeline of discipline `multicast`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from streaming.disciplines.broadcast import BroadcastPlan
from streaming.disciplines.plan import ExchangePlan, Plan

Name = tuple[str | None, ...]
"""What a delivery is known by; see `streaming.disciplines.refused`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _MulticastPlan(Plan):
    discipline: ClassVar[str] = "multicast"
    decided: ClassVar[tuple[str, ...]] = (*Plan.decided, "input_commands")

    def identifying(self) -> tuple[str, ...]:
        """Return the headers that name a message, and whom or what it is for."""
        return self.headers("timestamp"), self.headers("from"), self.headers("destination")

    def message_of(self, name: Name) -> tuple[Name, str]:
        """Return timestamp and sender; the destination is a peer or a node."""
        return name[1:3], name[3] or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticastPlan(_MulticastPlan, ExchangePlan):
    """One pipeline of discipline ``multicast`` by a protocol between shards."""

    order: Literal["clock", "counter"] = "clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMulticastPlan(_MulticastPlan, BroadcastPlan):
    """One pipeline of discipline ``multicast`` in the order of the batch.

    ``input_commands``: what records of inputs may ask for.
    """

    input_commands: Sequence[str] = ()

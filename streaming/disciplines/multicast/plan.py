"""What workers need to know of a pipeline of discipline `multicast`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from streaming.disciplines.plan import ExchangePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticastPlan(ExchangePlan):
    """One pipeline of discipline ``multicast``."""

    discipline: ClassVar[str] = "multicast"
    order: Literal["clock", "counter"] = "clock"

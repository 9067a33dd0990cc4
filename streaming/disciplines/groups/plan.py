"""What workers need to know of a pipeline of discipline `group`."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from streaming.disciplines.broadcast import BroadcastPlan
from streaming.disciplines.plan import ExchangePlan, Plan

Name = tuple[str | None, ...]
"""What a delivery is known by; see `streaming.disciplines.refused`."""

DECIDED = (*Plan.decided, "stamps", "notices", "input_commands", "taken")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPlan(ExchangePlan):
    """One pipeline with `sequencing = "network"`; ``groups`` is the first membership.

    ``stamps``, ``notices``: as by the batch. ``ingress`` has the shards of groups whose ingress is
    not where their name says. With one node, which also numbers at all ingresses, a sender's
    messages keep their order across groups.
    """

    discipline: ClassVar[str] = "group"
    decided: ClassVar[tuple[str, ...]] = DECIDED
    groups: dict[str, tuple[str, ...]]
    ingress: dict[str, int] = field(default_factory=dict)
    nodes: int = 4
    stamps: bool = True
    notices: bool = False

    def identifying(self) -> tuple[str, ...]:
        """Return the headers that name a message of a group, and a notice.

        Also without ``notices``: those of changes before this was switched off may still wait.
        """
        return _identifying(self, notices=True)

    def message_of(self, name: Name) -> tuple[Name, str]:
        """Return group, version and number, or a notice's detail; the key is the subscriber."""
        return _message_of(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan(BroadcastPlan):
    """One pipeline with `sequencing = "batch"`.

    ``membership``: the first one, as `batch.codec.encode_first` gives it: a plan goes to every task
    of every batch. ``stamps``: whether deliveries have them. ``notices``: whether subscribers are
    sent notices of changes. ``input_commands``: what records of inputs may ask for.
    """

    discipline: ClassVar[str] = "group"
    decided: ClassVar[tuple[str, ...]] = DECIDED
    membership: bytes = field(repr=False)
    stamps: bool = True
    notices: bool = False
    input_commands: Sequence[str] = ()

    def identifying(self) -> tuple[str, ...]:
        """Return the headers that name a message of a group, and a notice."""
        return _identifying(self, notices=self.notices)

    def message_of(self, name: Name) -> tuple[Name, str]:
        """Return group, version and number, or a notice's detail; the key is the subscriber."""
        return _message_of(name)


def _identifying(plan: NetworkPlan | BatchPlan, *, notices: bool) -> tuple[str, ...]:
    message = ("group", plan.headers("group-version"), plan.headers("group-sequence"))
    return (*message, plan.headers("detail")) if notices else message


def _message_of(name: Name) -> tuple[Name, str]:
    return name[1:], base64.b64decode(name[0] or "").decode()

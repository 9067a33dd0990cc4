"""What the service may do in Kafka, and what it needs to: asked before it begins.

Kafka returns to each client the operations that it is authorized to on topics (KIP-430), without
doing any of them. Of consumer groups that are not there yet, and of transactional ids, it returns
nothing: these are tried under a name that nobody uses, with the prefix that the service's have.
What Kafka does not tell (an older broker, or one that is no Apache Kafka; one that is just
starting) is let pass: a refusal then comes with the work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from streaming.config import Config
from streaming.errors import KafkaRefused
from streaming.kafka import client_settings

BY_ROLE = {
    "input": ("Read",),
    "commands": ("Read",),
    "output": ("Write",),
    "rejects": ("Write",),
    "events": ("Write", "Read"),
    "progress": ("Write",),
    "wanted": ("Write",),
    "transit": ("Write", "Read", "Delete"),
}
"""Operations of the service on topics of each role; each of them implies Describe.

Progress is a committed offset on the events topic, which takes Read; what nobody can ask for again
is deleted from the transit topic.
"""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One operation on one resource, in the words of `kafka-acls`."""

    operation: str
    resource: str
    name: str

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource} {self.name}"


def require(config: Config, names: Iterable[str]) -> None:
    """KafkaRefused that names what this user may not do, of what these pipelines need."""
    lacking = missing(config, names)
    if lacking:
        raise KafkaRefused(
            f"This user lacks rights in Kafka: {', '.join(map(str, lacking))}.",
            "Nothing was started.",
            "Have them granted (kafka-acls --add --allow-principal …; docs/operations.md has all "
            "that are needed), or look whether the names are right.",
        )


def missing(config: Config, names: Iterable[str]) -> list[Right]:
    """Rights that these pipelines need and this user has not; topics that are missing left out."""
    from kafka.errors import KafkaError  # noqa: PLC0415  (a quick --help)

    from streaming.kafka import choice  # noqa: PLC0415
    from streaming.wire import admin  # noqa: PLC0415

    chosen = list(names)
    exactly_once = config.service.delivery == "exactly-once"
    prefixes = [f"{config.service.name}.{name}" for name in chosen]
    lacking: list[Right] = []
    with contextlib.suppress(KafkaError), choice.opened(client_settings.words(config)) as brokers:
        wanted = _wanted(config, chosen, exactly_once=exactly_once)
        for topic, allowed in admin.allowed_on(brokers, wanted).items():
            lacking += [Right(each, "Topic", topic) for each in sorted(wanted[topic] - allowed)]
        if exactly_once:  # who repeats keeps no progress in Kafka
            for prefix in prefixes:
                if not admin.may_read_group(brokers, f"{prefix}.rights"):
                    lacking.append(Right("Read", "Group", f"{prefix}.*"))
            for prefix in prefixes:
                if not admin.may_write_as(brokers, f"{prefix}.rights"):
                    lacking.append(Right("Write", "TransactionalId", f"{prefix}.*"))
    return lacking


def _wanted(config: Config, names: list[str], *, exactly_once: bool) -> dict[str, set[str]]:
    """The operations on each topic."""
    wanted: dict[str, set[str]] = {}
    for name in names:
        for role, topic in config.pipelines[name].topics():
            operations = BY_ROLE[role] if role != "events" or exactly_once else ("Write",)
            wanted.setdefault(topic, set()).update(operations)
    return wanted

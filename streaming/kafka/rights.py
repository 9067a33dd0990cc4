"""Check before the start that the service has the rights in Kafka that it needs.

Kafka returns the operations on topics that a client is authorized to (KIP-430), without doing any
of them. For consumer groups that do not exist yet, and for transactional ids, it returns nothing:
these are tried under an unused name with the prefix of the service's own. If Kafka does not answer
that (an older broker, one that is not Apache Kafka, or one that is just starting), the right is
assumed, and a refusal follows during the work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from streaming.config import Config
from streaming.errors import KafkaRefused
from streaming.kafka import client_settings
from streaming.storage.files import is_local

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

Progress is a committed offset on the events topic, which needs Read; messages that cannot be needed
again are deleted from the transit topic.
"""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One operation on one resource, in the words of `kafka-acls`."""

    operation: str
    resource: str
    name: str

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource} {self.name}"


def require(config: Config, names: Iterable[str], effect: str = "Nothing was started.") -> None:
    """Raise KafkaRefused, naming the rights, if this user lacks any that these pipelines need."""
    lacking = missing(config, names)
    if lacking:
        raise KafkaRefused(
            f"This user lacks rights in Kafka: {', '.join(map(str, lacking))}.",
            effect,
            "Have them granted (kafka-acls --add --allow-principal …; docs/operations.md has all "
            "that are needed), or look whether the names are right.",
        )


def missing(config: Config, names: Iterable[str]) -> list[Right]:
    """Return the rights that these pipelines need and this user lacks, on existing topics."""
    from kafka.errors import KafkaError  # noqa: PLC0415  (a quick --help)

    from streaming.kafka import choice  # noqa: PLC0415
    from streaming.wire import admin  # noqa: PLC0415

    chosen = list(names)
    service = config.service
    # An object store has no lock that keeps a second driver out: its commits do (`sink.claim`).
    commits = service.delivery == "exactly-once" or not is_local(service.checkpoint)
    prefixes = [f"{config.service.name}.{name}" for name in chosen]
    lacking: list[Right] = []
    with contextlib.suppress(KafkaError), choice.opened(client_settings.words(config)) as brokers:
        wanted = _wanted(config, chosen, commits=commits)
        for topic, allowed in admin.allowed_on(brokers, wanted).items():
            lacking += [Right(each, "Topic", topic) for each in sorted(wanted[topic] - allowed)]
        if commits:  # with at-least-once there is no progress in Kafka
            for prefix in prefixes:
                if not admin.may_read_group(brokers, f"{prefix}.rights"):
                    lacking.append(Right("Read", "Group", f"{prefix}.*"))
            for prefix in prefixes:
                if not admin.may_write_as(brokers, f"{prefix}.rights"):
                    lacking.append(Right("Write", "TransactionalId", f"{prefix}.*"))
    return lacking


def _wanted(config: Config, names: list[str], *, commits: bool) -> dict[str, set[str]]:
    """Return the operations on each topic."""
    wanted: dict[str, set[str]] = {}
    for name in names:
        for role, topic in config.pipelines[name].topics():
            operations = BY_ROLE[role] if role != "events" or commits else ("Write",)
            wanted.setdefault(topic, set()).update(operations)
    return wanted

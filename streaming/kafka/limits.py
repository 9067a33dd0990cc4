"""Topics' limits: the size of a record, its timestamp, whether it needs a key.

Kafka refuses records outside these limits for good. So the topics that the service creates accept
all that their inputs accept (`settings`), and others are compared with the inputs before anything
starts (`narrower`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from streaming.config import Config
from streaming.errors import ConfigError
from streaming.kafka import client_settings

SECONDS_MAX = 30
RECORD_BYTES_DEFAULT = 1_048_588
ADDED_BYTES = 16 * 2**20
"""The most that a record grows: by headers that the service adds, the envelope of a transit chunk,
and decompression."""
UNLIMITED = 2**63 - 1
SIZE, AFTER, BEFORE, COMPACTION = (
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "cleanup.policy",
)
RETAINED = "retention.bytes"
TYPE, BY_BROKER = "message.timestamp.type", "LogAppendTime"
DIFFERENCE = "message.timestamp.difference.max.ms"
"""The setting of brokers before Kafka 3.6 in place of AFTER and BEFORE; before 4.0 both exist."""
OF_BROKERS = "log."
"""The prefix of a broker's names for the last four."""
READ = {"input": "The input", "commands": "The topic of commands"}
"""Roles of the topics that users write, in words."""
UNFIT_FOR_COMPACTION = {
    "rejects": "rejects may have no key",
    "transit": "what compaction removes before it is read is lost",
}
"""Roles of topics that must not be compacted, and why."""
FORWARDED = ("output", "rejects")
"""Roles of the topics that get the inputs' records unchanged, with their timestamps."""


@dataclass(frozen=True, slots=True)
class Limits:
    """A topic's limits: ``bytes_max`` of a record batch, a timestamp's distance from now.

    ``compacted``: records without a key are refused. ``stamped``: the broker sets the timestamps,
    whatever a record has. ``retained``: of how many bytes of a partition the last are kept, -1 for
    all. ``names``: those of the topic's settings.
    """

    bytes_max: int = RECORD_BYTES_DEFAULT
    after_ms: int = UNLIMITED
    before_ms: int = UNLIMITED
    compacted: bool = False
    stamped: bool = False
    retained: int = -1
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Limits:
        """Return the limits in a topic's settings, by name; a missing one does not limit."""

        def number(*names: str) -> int:
            return min(int(found[name]) if name in found else UNLIMITED for name in names)

        limits = cls(
            int(found.get(SIZE, RECORD_BYTES_DEFAULT)),
            number(AFTER, DIFFERENCE),
            number(BEFORE, DIFFERENCE),
            "compact" in str(found.get(COMPACTION, "")),
            found.get(TYPE) == BY_BROKER,
            int(found.get(RETAINED, -1)),
            frozenset(found),
        )
        if limits.stamped:  # the broker's own time is within any limit
            return replace(limits, after_ms=UNLIMITED, before_ms=UNLIMITED)
        return limits

    def of_its_records(self) -> Limits:
        """Return the limits that the records have; one that a broker stamped is never ahead."""
        return replace(self, after_ms=0) if self.stamped else self


@dataclass(frozen=True, slots=True)
class Narrower:
    """A setting for which a topic refuses, or loses, records that an input accepts."""

    topic: str
    role: str
    setting: str
    value: int | str
    wanted: int | str
    input: str = ""

    def __str__(self) -> str:
        if self.setting == COMPACTION:
            return f"{self.topic} is compacted, and {UNFIT_FOR_COMPACTION[self.role]}"
        return (
            f"{self.topic} has {self.setting} = {self.value}, "
            f"but {self.input}, whose records it gets, {self.wanted}"
        )


def narrower(config: Config, names: Iterable[str]) -> list[Narrower]:
    """Find settings for which topics of these pipelines lose or refuse records of the inputs.

    Only topics that exist, and whose settings this user may read, are compared. The inputs of a
    pipeline that reads another's output are that one's.
    """
    chosen = list(names)
    topics = {topic for name in chosen for _, topic in config.pipelines[name].topics()}
    topics |= {topic for name in chosen for topic in origins(config, name)}
    found = read(config, topics)
    faults: dict[tuple[str, str], Narrower] = {}
    for name in chosen:
        inputs = {
            topic: found[topic].of_its_records()
            for topic in origins(config, name)
            if topic in found
        }
        for role, topic in config.pipelines[name].topics():
            if role in (*FORWARDED, "transit") and topic in found:
                for each in _compared(role, topic, found[topic], inputs):
                    faults[each.topic, each.setting] = each
    return list(faults.values())


def _compared(
    role: str, topic: str, limits: Limits, inputs: Mapping[str, Limits]
) -> Iterable[Narrower]:
    numbers: dict[str, Callable[[Limits], int]] = {SIZE: lambda of: of.bytes_max}
    if role in FORWARDED:
        numbers |= {
            AFTER if AFTER in limits.names else DIFFERENCE: lambda of: of.after_ms,
            BEFORE if BEFORE in limits.names else DIFFERENCE: lambda of: of.before_ms,
        }
    for setting, value in numbers.items():
        widest = max(inputs, key=lambda name: value(inputs[name]), default=None)
        if widest is not None and value(limits) < (wanted := value(inputs[widest])):
            yield Narrower(topic, role, setting, value(limits), wanted, widest)
    if role in UNFIT_FOR_COMPACTION and limits.compacted:
        yield Narrower(topic, role, COMPACTION, "compact", "delete")


def require(config: Config, names: Iterable[str]) -> None:
    """Raise ConfigError if a topic refuses, or loses, records that the inputs accept."""
    faults = narrower(config, names)
    if faults:
        commands = "".join(f"\n  {_mending(config, each)}" for each in faults)
        raise ConfigError(
            f"Topics do not take what the pipelines may have to write: "
            f"{'; '.join(map(str, faults))}.",
            "Nothing was started.",
            f"Change the settings, for instance with:{commands}",
        )


def remarks(config: Config, names: Iterable[str]) -> list[str]:
    """Return warnings: topics that are read and lose records, and where brokers set timestamps."""
    uses = {(topic, role) for name in names for role, topic in config.pipelines[name].topics()}
    found = read(config, {topic for topic, role in uses if role in (*READ, *FORWARDED, "transit")})
    compacted = [
        f"{READ[role]} {topic} is compacted. What compaction removes before it is read is lost "
        f"without a word, and a batch that is repeated after a crash lacks what was removed since; "
        f"where some of it was written before, the pipeline stops. Set {COMPACTION} = delete."
        for topic, role in sorted(uses)
        if role in READ and topic in found and found[topic].compacted
    ]
    stamped = [
        f"{topic} has {TYPE} = {BY_BROKER}: its records get the time at which they are written in "
        f"place of their own, and sequencer verify takes them for altered. Set {TYPE} = CreateTime."
        for topic, role in sorted(uses)
        if role in FORWARDED and topic in found and found[topic].stamped
    ]
    cut = [
        f"{topic} has {RETAINED} = {found[topic].retained}: beyond it Kafka deletes messages "
        f"between shards that are unread, or that a backup needs. Set {RETAINED} = -1; the service "
        "deletes what nobody needs."
        for topic, role in sorted(uses)
        if role == "transit" and topic in found and found[topic].retained >= 0
    ]
    return compacted + stamped + cut


def _mending(config: Config, fault: Narrower) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {config.kafka.bootstrap_servers} --alter "
        f"--entity-type topics --entity-name {fault.topic} "
        f"--add-config {fault.setting}={fault.wanted}"
    )


def origins(config: Config, name: str) -> set[str]:
    """Return the topics of a pipeline's records, including those of the pipelines before it."""
    found: set[str] = set()
    for topic in config.pipelines[name].input:
        writers = [
            other
            for other, pipeline in config.pipelines.items()
            if topic in (at for role, at in pipeline.topics() if role in FORWARDED)
        ]
        found |= {each for other in writers for each in origins(config, other)} or {topic}
    return found


def settings(config: Config, there: Iterable[str]) -> dict[str, str]:
    """Return settings of a new topic that accepts all records of the inputs that are ``there``.

    Deliveries and rejects keep their records' timestamps, and rejects may have no key.
    """
    inputs = {topic for pipeline in config.pipelines.values() for topic in pipeline.input}
    found = read(config, inputs & set(there))
    known = frozenset().union(*(limits.names for limits in found.values())) or _of_brokers(config)
    sizes = [limits.bytes_max for limits in found.values()]
    wanted = {
        AFTER: str(UNLIMITED),
        BEFORE: str(UNLIMITED),
        DIFFERENCE: str(UNLIMITED),
        TYPE: "CreateTime",
        COMPACTION: "delete",
    }
    if known & {AFTER, BEFORE}:
        del wanted[DIFFERENCE]  # deprecated
    return {
        SIZE: str(max([RECORD_BYTES_DEFAULT, *sizes]) + ADDED_BYTES),
        **{name: value for name, value in wanted.items() if name in known},
    }


def read(config: Config, topics: Iterable[str]) -> dict[str, Limits]:
    """Return topics' limits, without topics that are missing or not visible to this user."""
    from kafka.errors import KafkaError  # noqa: PLC0415  (a quick --help)

    from streaming.kafka import choice  # noqa: PLC0415
    from streaming.wire import admin  # noqa: PLC0415

    wanted = sorted(topics)
    found: dict[str, dict[str, str]] = {}
    if wanted:
        with (
            contextlib.suppress(KafkaError),
            choice.opened(client_settings.words(config), SECONDS_MAX) as brokers,
        ):
            found = admin.settings_of(brokers, wanted)
    return {name: Limits.of(each) for name, each in found.items()}


def _of_brokers(config: Config) -> frozenset[str]:
    """Return the names of topics' settings for which a broker has defaults."""
    from kafka.errors import KafkaError  # noqa: PLC0415  (a quick --help)

    from streaming.kafka import choice  # noqa: PLC0415
    from streaming.wire import admin  # noqa: PLC0415

    found: dict[str, dict[str, str]] = {}
    with (
        contextlib.suppress(KafkaError),
        choice.opened(client_settings.words(config), SECONDS_MAX) as brokers,
    ):
        first = min(admin.cluster_of(brokers).brokers)
        found = admin.settings_of(brokers, [str(first)], admin.BROKER)
    return frozenset(name.removeprefix(OF_BROKERS) for each in found.values() for name in each)

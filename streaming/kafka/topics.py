"""Topics that a configuration needs: which are missing, creating them, their partitions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from streaming.config import Config
from streaming.errors import ConfigError, KafkaRefused, KafkaUnavailable, TopicsMissing
from streaming.kafka import client_settings, connection, limits

if TYPE_CHECKING:
    from kafka.errors import KafkaError

    from streaming.wire.admin import NewTopic

PARTITIONS_DEFAULT = 8
SECONDS_MAX = 30
POLL_SECONDS = 0.1
NEW_SECONDS_MAX = 2
"""Time after which every broker knows a topic that was created elsewhere."""
FROM_USERS = ("input", "commands")
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "600000"}
"""Settings of the topic of progress marks, so that a new reader finds few records."""
Missing = TypeVar("Missing")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that a pipeline reads or writes; ``partitions`` None where it does not exist."""

    name: str
    pipeline: str
    role: str
    partitions: int | None


def needed(config: Config, names: Iterable[str] | None = None) -> list[Topic]:
    """Return the topics of these pipelines (None: all), each once, with their state in Kafka.

    A topic that one pipeline writes and another reads has the writer's role, also where the writer
    is not one of these. Topics of subscribers that are not in the configuration's groups are not
    among them.
    """
    return _needed(config, existing(config), names)


def missing(config: Config, names: Iterable[str] | None = None) -> list[Topic]:
    """Return those of :func:`needed` that do not exist in Kafka."""
    return [topic for topic in needed(config, names) if topic.partitions is None]


def create(
    config: Config,
    *,
    inputs: bool,
    commands: bool = True,
    names: Iterable[str] | None = None,
    known: Callable[[], Mapping[str, int]] = dict,
) -> list[str]:
    """Create the missing topics of these pipelines (None: all); return their names. Idempotent.

    Inputs that only users write to are created only with ``inputs``: a missing one is more often a
    typing error. Topics of commands are created unless ``commands`` is false. A new topic gets as
    many partitions as it had (``known`` says so of some), else as its pipeline's first input has,
    else 8 (one of commands or progress marks: 1), the brokers' own replication, and the inputs'
    limits.
    """
    from streaming.wire.admin import NewTopic  # noqa: PLC0415  (a quick --help)

    there = existing(config)
    wanted = [
        topic
        for topic in _needed(config, there, names)
        if topic.partitions is None
        and (inputs or topic.role != "input")
        and (commands or topic.role != "commands")
    ]
    if not wanted:
        return []
    common, counts = limits.settings(config, there), known()
    new = [
        NewTopic(
            topic.name,
            counts.get(topic.name) or _partitions_of(topic, config, there),
            _settings(topic.role, common),
        )
        for topic in wanted
    ]
    return make(config, new)


def make(
    config: Config,
    new: Iterable[NewTopic],
    remedy: str = "Create them yourself, or give this user the right to.",
) -> list[str]:
    """Create topics; return the names of those that did not exist.

    Raises KafkaUnavailable if Kafka does not answer, KafkaRefused if it refuses.
    """
    from kafka.errors import KafkaError, TopicAlreadyExistsError  # noqa: PLC0415

    from streaming.kafka import choice  # noqa: PLC0415
    from streaming.wire import admin  # noqa: PLC0415

    wanted = list(new)
    outcomes: dict[str, KafkaError | None]
    try:
        with choice.opened(client_settings.words(config)) as brokers:
            outcomes = admin.create(brokers, wanted)
    except KafkaError as error:
        outcomes = {each.name: error for each in wanted}
    created = [name for name, error in outcomes.items() if error is None]
    refused = [
        f"{name} ({admin.reason(error)})"
        for name, error in outcomes.items()
        if error is not None and not isinstance(error, TopicAlreadyExistsError)
    ]
    # Others pass: too few brokers at the moment, no answer.
    is_refusal = any(isinstance(error, admin.REFUSALS) for error in outcomes.values())
    error_type = KafkaRefused if is_refusal else KafkaUnavailable
    if refused:
        raise error_type(
            f"Topics could not be created: {config.hide(', '.join(refused))}.",
            f"Created: {', '.join(created) or 'none'}.",
            remedy,
        )
    wait_for(config, set(outcomes))
    return created


def _settings(role: str, common: dict[str, str]) -> dict[str, str]:
    """Return topic settings by role; messages in transit stay until the service deletes them."""
    if role in FROM_USERS:
        return {}
    if role == "progress":
        return COMPACTED
    forever = {"retention.ms": "-1", limits.RETAINED: "-1"} if role == "transit" else {}
    return {**common, **forever}


def delete_before(config: Config, topic: str, offsets: Mapping[int, int]) -> None:
    """Delete the records of a topic before an offset of each partition.

    Raises KafkaUnavailable if Kafka does not answer, KafkaRefused if it refuses.
    """
    from kafka.errors import KafkaError, PolicyViolationError  # noqa: PLC0415

    from streaming.kafka import choice  # noqa: PLC0415
    from streaming.wire import admin  # noqa: PLC0415

    try:
        with choice.opened(client_settings.words(config)) as brokers:
            admin.delete_before(brokers, topic, offsets)
    except KafkaError as error:
        what = f"Old records of {topic} could not be deleted: {config.hide(admin.reason(error))}."
        effect = "The topic grows meanwhile"
        if isinstance(error, PolicyViolationError):  # Kafka deletes none in a compacted topic
            lost = "What compaction removes before it is read is lost."
            raise KafkaRefused(what, lost, "Set cleanup.policy = delete at once.") from error
        if isinstance(error, admin.REFUSALS):
            remedy = "Give this user the right to delete there."
            raise KafkaRefused(what, f"{effect}; nothing else is wrong.", remedy) from error
        raise KafkaUnavailable(what, f"{effect}.", "It is tried again.") from error


def wait_for(config: Config, names: set[str]) -> None:
    """Wait until new topics are known: the broker that we ask may learn of them last."""
    deadline = time.monotonic() + SECONDS_MAX
    while lacking := names - existing(config).keys():
        if time.monotonic() > deadline:
            raise KafkaUnavailable(
                f"Topics do not appear, though Kafka created them: {', '.join(sorted(lacking))}.",
                "They exist.",
                "Try again.",
            )
        time.sleep(POLL_SECONDS)


def require(config: Config, names: Iterable[str], *, inputs_only: bool = False) -> None:
    """Raise ConfigError if a topic of these pipelines is missing.

    ``inputs_only``: check only inputs that no pipeline of the file writes.
    """
    names = list(names)

    def look() -> list[Topic]:
        return [each for each in missing(config, names) if each.role == "input" or not inputs_only]

    if lacking := _lasting(look):
        names_lacking = ", ".join(
            f"{topic.name} ({topic.pipeline}, {topic.role})" for topic in lacking
        )
        raise ConfigError(
            f"Topics are missing in Kafka: {names_lacking}.",
            "Nothing was started.",
            f"Create them, for instance with: sequencer topics {config.source} --create",
        )


def partitions(config: Config, names: Iterable[str], *, announce: bool = True) -> dict[str, int]:
    """Return the number of partitions of each topic; TopicsMissing if one is."""
    names = list(names)
    there: dict[str, int] = {}

    def look() -> list[str]:
        there.update(existing(config, announce=announce))
        return [name for name in names if name not in there]

    if lacking := _lasting(look):
        raise TopicsMissing(
            f"Topics are missing in Kafka: {', '.join(lacking)}.",
            "Nothing was started.",
            f"Create them, for instance with: sequencer topics {config.source} --create",
        )
    return {name: there[name] for name in names}


def _lasting(look: Callable[[], list[Missing]]) -> list[Missing]:
    """Return what ``look`` misses repeatedly: a broker may learn late of a new topic."""
    deadline = time.monotonic() + NEW_SECONDS_MAX
    while (lacking := look()) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return lacking


def existing(config: Config, *, announce: bool = True) -> dict[str, int]:
    """Return the number of partitions of every topic in Kafka."""
    return connection.wait_for_kafka(config, announce=announce).topics


def ends(
    config: Config,
    names: tuple[str, ...],
    *,
    of_most: bool = False,
    announce: bool = True,
    committed: bool = True,
) -> dict[tuple[str, int], int]:
    """Return for each (topic, partition) the offset after the last committed record.

    ``of_most``: of the leaders that most brokers know (`Brokers.find_leaders`). ``announce``: say
    that Kafka is waited for (`connection.wait_for_kafka`). ``committed``: without what an open
    transaction holds back, its own records and all behind them.
    """
    from streaming.wire.bounds import LATEST  # noqa: PLC0415

    return _bounds(config, names, LATEST, of_most=of_most, announce=announce, committed=committed)


def begins(
    config: Config, names: tuple[str, ...], *, announce: bool = True
) -> dict[tuple[str, int], int]:
    """Return for each (topic, partition) the offset of the first record."""
    from streaming.wire.bounds import EARLIEST  # noqa: PLC0415

    return _bounds(config, names, EARLIEST, announce=announce)


def _bounds(
    config: Config,
    names: tuple[str, ...],
    which: int,
    *,
    of_most: bool = False,
    announce: bool = True,
    committed: bool = True,
) -> dict[tuple[str, int], int]:
    from kafka.errors import KafkaError  # noqa: PLC0415

    from streaming.kafka import choice  # noqa: PLC0415
    from streaming.wire import admin  # noqa: PLC0415
    from streaming.wire.bounds import BoundsReader  # noqa: PLC0415

    partitions(config, names, announce=announce)
    try:
        with choice.opened(client_settings.words(config)) as brokers:
            reader = BoundsReader(brokers, names, committed=committed)
            if of_most:
                reader.refresh(of_most=True)
            found = reader(which)
    except KafkaError as error:
        why = config.hide(admin.reason(error))
        raise KafkaUnavailable(
            f"The bounds of {', '.join(names)} could not be read: {why}.",
            "Nothing was read.",
            "Run it again when Kafka answers.",
        ) from error
    return {(name, at): each.offset for name, of in found.items() for at, each in of.items()}


def end_of(consumer: Any, partition: Any) -> int:
    """Return the offset after the last record of a confluent-kafka TopicPartition.

    If a topic has just been created, or its leader has just changed, it asks again for up to
    SECONDS_MAX, as librdkafka passes such an error on. Raises KafkaException.
    """
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    moving = (
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001  (librdkafka's own, by what it has heard so far)
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    )
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return int(consumer.get_watermark_offsets(partition, timeout=SECONDS_MAX)[1])
        except KafkaException as error:
            if error.args[0].code() not in moving or time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)
            with contextlib.suppress(KafkaException):  # or it goes by what it has heard once
                consumer.list_topics(partition.topic, timeout=SECONDS_MAX)


def _needed(
    config: Config, there: Mapping[str, int], names: Iterable[str] | None = None
) -> list[Topic]:
    chosen = list(config.pipelines if names is None else names)
    by_name: dict[str, Topic] = {}
    for name in dict.fromkeys([*chosen, *config.pipelines]):
        for role, topic in config.pipelines[name].topics():
            known = by_name.get(topic)
            if known is None or (known.role in FROM_USERS and role not in FROM_USERS):
                by_name[topic] = Topic(topic, name, role, there.get(topic))
    used = {topic for name in chosen for _, topic in config.pipelines[name].topics()}
    return [topic for topic in by_name.values() if topic.name in used]


def _partitions_of(topic: Topic, config: Config, there: Mapping[str, int]) -> int:
    """Return the partitions for a new topic; pipelines form no circle, so this ends."""
    if topic.role in ("commands", "progress"):
        return 1  # they are few, and have one order
    first = config.pipelines[topic.pipeline].input[0]
    if first in there or first == topic.name:
        return there.get(first, PARTITIONS_DEFAULT)
    source = next((needed for needed in _needed(config, there) if needed.name == first), topic)
    return (
        PARTITIONS_DEFAULT if source.role in FROM_USERS else _partitions_of(source, config, there)
    )

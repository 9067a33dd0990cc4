"""Topics that a configuration needs: which are missing, creating them, their partitions."""

from __future__ import annotations

from dataclasses import dataclass

from streaming import kafka
from streaming.config import Config
from streaming.errors import ConfigError, KafkaUnavailable

PARTITIONS_DEFAULT = 8
SECONDS_MAX = 30


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that a pipeline reads or writes; ``partitions`` None where it does not exist."""

    name: str
    pipeline: str
    role: str
    partitions: int | None


def needed(config: Config) -> list[Topic]:
    """All topics of the configuration, as they are in Kafka now; each once."""
    there = existing(config)
    found: dict[str, Topic] = {}
    for name, pipeline in config.pipelines.items():
        service = {role: getattr(pipeline, role, None) for role in ("commands", "transit")}
        roles = [*pipeline.written.items(), *((r, t) for r, t in service.items() if t)]
        for role, topic in [*(("input", each) for each in pipeline.input), *roles]:
            if "{subscriber}" in topic:
                continue  # made as subscribers appear
            known = found.get(topic)
            if known is None or known.role == "input":
                found[topic] = Topic(topic, name, role, there.get(topic))
    return list(found.values())


def create(config: Config, *, inputs: bool) -> list[str]:
    """Create what is missing (inputs only where asked); the names created. Idempotent.

    A new topic gets as many partitions as its pipeline's first input has, else 8, and the brokers'
    own replication.
    """
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415  (a quick --help)
    from confluent_kafka.admin import NewTopic  # noqa: PLC0415

    there = existing(config)
    wanted = [
        topic
        for topic in needed(config)
        if topic.partitions is None and (inputs or topic.role not in ("input", "commands"))
    ]
    made: list[str] = []
    new = []
    for topic in wanted:
        first = config.pipelines[topic.pipeline].input[0]
        new.append(NewTopic(topic.name, num_partitions=there.get(first, PARTITIONS_DEFAULT)))
    if not new:
        return made
    admin = kafka.admin(config)  # held: its end would cancel what it was asked
    for name, future in admin.create_topics(new, request_timeout=SECONDS_MAX).items():
        try:
            future.result(SECONDS_MAX)
            made.append(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise KafkaUnavailable(
                    f"Topic {name} could not be created: {error.args[0].str()}.",
                    f"Created so far: {', '.join(made) or 'none'}.",
                    "Create it yourself, or give this user the right to.",
                ) from error
    return made


def require(config: Config, names: list[str]) -> None:
    """ConfigError where a topic of these pipelines is missing."""
    missing = [t for t in needed(config) if t.partitions is None and t.pipeline in names]
    if missing:
        told = ", ".join(f"{topic.name} ({topic.pipeline}, {topic.role})" for topic in missing)
        raise ConfigError(
            f"Topics are missing in Kafka: {told}.",
            "Nothing was started.",
            "Create them, for instance with: sequencer topics CONFIG --create",
        )


def partitions(config: Config, names: list[str]) -> dict[str, int]:
    """Number of partitions of each topic; ConfigError where one is missing."""
    there = existing(config)
    missing = [name for name in names if name not in there]
    if missing:
        raise ConfigError(f"Topics are missing in Kafka: {', '.join(missing)}.")
    return {name: there[name] for name in names}


def existing(config: Config) -> dict[str, int]:
    """Partitions of every topic that Kafka has."""
    found = kafka.wait_for_kafka(config, SECONDS_MAX)
    return {name: len(topic.partitions) for name, topic in found.topics.items()}


def ends(config: Config, names: tuple[str, ...]) -> dict[tuple[str, int], int]:
    """For each (topic, partition) the offset after the last committed record."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition  # noqa: PLC0415

    settings = kafka.connection(kafka.confluent(config))
    consumer = Consumer(
        {**settings, "group.id": "sequencer-ends", "isolation.level": "read_committed"},
        logger=kafka.quiet(),
    )
    found: dict[tuple[str, int], int] = {}
    try:
        for name, count in partitions(config, list(names)).items():
            for partition in range(count):
                place = TopicPartition(name, partition)
                _, end = consumer.get_watermark_offsets(place, timeout=SECONDS_MAX)
                found[name, partition] = end
    except KafkaException as error:
        raise KafkaUnavailable(
            f"The ends of {', '.join(names)} could not be read: {error.args[0].str()}."
        ) from error
    finally:
        consumer.close()
    return found

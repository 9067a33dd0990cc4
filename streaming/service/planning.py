"""From a configuration and what a checkpoint pinned to the plan of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from streaming.config import Config
from streaming.config.tables import SHARDS_MAX
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.plan import Headers, Plan
from streaming.errors import ConfigError, SequencerError, StorageUnavailable
from streaming.kafka import client_settings
from streaming.kafka.choice import own_settings
from streaming.logs import count
from streaming.service.checkpoint import HOLDER, IDENTITY, LOCK, Checkpoint, Identity
from streaming.service.decisions import Decisions
from streaming.service.last_said import NAME as SAID
from streaming.settings.values import SUBSCRIBER
from streaming.spark.failures import LET_IN, cause_in, errors_of_spark
from streaming.spark.session_access import write_new
from streaming.storage.files import folder_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OF_A_START = (LOCK, HOLDER, SAID)
"""What a start writes, besides the identity, before its query starts."""


def shards(config: Config, cores: int) -> int:
    """Return how many state keys a new checkpoint has.

    One for each state partition, where nobody says it: each costs some ms of a core in every batch.
    """
    return config.service.shards or state_partitions(config, cores)


def state_partitions(config: Config, cores: int) -> int:
    """One for each core: more cost a commit each in every batch, fewer leave cores idle."""
    service = config.service
    wanted = service.state_partitions or config.spark.get("spark.sql.shuffle.partitions")
    return max(1, min(service.shards or SHARDS_MAX, int(wanted or cores)))


def pinned(
    session: SparkSession, checkpoint: Checkpoint, wanted: Identity, wishes: Container[str]
) -> Identity:
    """`Checkpoint.pin`; of a checkpoint that no query was started on, what is wanted now counts.

    Where several copies begin one that has no lock, the first counts: the others, whose requests
    may be late, would have its state go on with other shards.
    """
    is_unused = checkpoint.is_locked and checkpoint.has_only(IDENTITY, *OF_A_START)
    if is_unused and not _is_identity(checkpoint, wanted):
        checkpoint.write_identity(wanted)
    if not checkpoint.lockable and checkpoint.identity() is None:
        checkpoint.require_here()
        checkpoint.require_whole()
        try:
            with errors_of_spark():
                write = partial(write_new, session, checkpoint.location)
                checkpoint.write_identity(wanted, write)
        except SequencerError as error:
            if checkpoint.identity() is None:
                raise StorageUnavailable(
                    f"The checkpoint's storage did not take {checkpoint.location}/{IDENTITY}: "
                    f"{cause_in(str(error.__cause__))}.",
                    "Nothing was started.",
                    LET_IN,
                ) from error
    return checkpoint.pin(wanted, wishes)


def _is_identity(checkpoint: Checkpoint, wanted: Identity) -> bool:
    """Whether it has this one; not where a power cut tore it, or another version wrote it."""
    try:
        return checkpoint.identity() == wanted
    except StorageUnavailable:
        raise
    except SequencerError:
        return False


def require_understood(session: SparkSession, config: Config, names: Iterable[str]) -> None:
    """ConfigError where Spark does not understand an expression: before any pipeline starts.

    Else the others would run meanwhile, and a checkpoint would begin with what has to be changed.
    """
    for name in names:
        settings = config.pipelines[name]
        discipline = DISCIPLINES[settings.discipline]
        if discipline.rows(settings):
            identity = Identity(discipline.name, 1, 1, own=discipline.identity(settings))
            discipline.understand(session, make_plan(config, name, identity, {}))


def require_own(config: Config, checkpoint: Checkpoint) -> None:
    """ConfigError where a service of another name may be at work on a checkpoint without a lock.

    Kafka keeps apart copies of one name only.
    """
    if checkpoint.lockable:
        return
    name, (_, holder) = config.service.name, checkpoint.holder()
    if holder is not None and holder.service not in ("", name):
        other = holder.service
        raise ConfigError(
            f"The service {other!r} is at work on the checkpoint {checkpoint.location}, or was "
            f"killed ({holder}, since {holder.since}); this one is {name!r}.",
            "Nothing was started: both would deliver the same input.",
            f"Give this one a checkpoint of its own. If the service has another name now, stop it "
            f'under service.name = "{other}" first; if it was killed, start it so, and stop it.',
        )


def make_plan(
    config: Config,
    name: str,
    identity: Identity,
    partitions: Mapping[str, int],
    new_topics: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of a pipeline; ``partitions`` of the topics that it writes, as far as known.

    ``new_topics``: settings of those that turn out to be missing.
    """
    settings, service = config.pipelines[name], config.service
    words = client_settings.words(config)
    common: dict[str, Any] = {
        "service": service.name,
        "pipeline": name,
        "inputs": tuple(sorted(settings.input)),
        "output": settings.output,
        "rejects": settings.rejects,
        "events": settings.events,
        "partitions": dict(partitions),
        "headers": Headers(service.header_prefix),
        "delivery": service.delivery,
        "shards": identity.shards,
        "state_partitions": identity.state_partitions,
        "retire_after_ms": settings.retire_after.ms,
        "origin": settings.origin,
        "progress": settings.progress,
        "taken": taken_names(config, name),
        "create_topics": service.create_topics,
        "new_topics": dict(new_topics or {}),
        "folder": folder_of(f"{service.checkpoint}/{name}"),
        "sync": service.sync,
        "producer": client_settings.with_known_brokers(words),
        "compression": own_settings(words).compression,
    }
    with config.faults_of(name):
        return DISCIPLINES[settings.discipline].plan(settings, identity.own, common)


def taken_names(config: Config, name: str) -> list[str]:
    """Return topics of other pipelines, of those that a subscriber's own may be called.

    They write these, or read them for this pipeline: its messages would come back for ever.
    """
    pipelines = config.pipelines
    before, own, behind = pipelines[name].output.replace(".", "_").partition(SUBSCRIBER)
    others = [other for other in pipelines if other != name and own]
    written = {other: pipelines[other].topics_written() for other in others}
    used = set().union(*written.values())
    feeding = [name]
    for reader in feeding:  # grows by those that write what it reads
        reads = {*pipelines[reader].input, pipelines[reader].commands}
        feeding += [each for each in others if each not in feeding and reads & written[each]]
        used |= reads if reader != name else set()
    return sorted(
        topic
        for topic, alike in ((topic, topic.replace(".", "_")) for topic in used)
        if alike.startswith(before) and alike.endswith(behind)
    )


def kept_partitions(
    checkpoint: Checkpoint, partitions: Mapping[str, int], say: Callable[..., None]
) -> dict[str, int]:
    """Return over how many partitions the keys of each topic are spread: as before.

    A topic may have been given partitions since; keys that moved would be read in two places. So
    topics that are written no more are among them: the file may name them again. ConfigError where
    one was made again with fewer than the batch in doubt is written to.
    """
    name = checkpoint.pipeline
    known = Decisions(checkpoint).last().get("partitions", {})
    _require_enough(checkpoint, partitions, known)
    kept = {topic: min(now, known.get(topic, now)) for topic, now in partitions.items()}
    for topic, first in kept.items():
        if first < partitions[topic]:
            say(
                f"{name}: {topic} has {partitions[topic]} partitions now. Its keys stay in the "
                f"first {first}, where they are read; for more, write to another topic.",
                event="partitions-kept",
                level="warning",
                pipeline=name,
            )
    return {**known, **kept}


def known_partitions(checkpoints: Iterable[Checkpoint]) -> dict[str, int]:
    """Return over how many partitions the keys of written topics are spread.

    A topic that was deleted is created with as many: a batch in doubt is spread over them.
    """
    known: dict[str, int] = {}
    for checkpoint in checkpoints:
        for topic, number in Decisions(checkpoint).last().get("partitions", {}).items():
            known[topic] = max(number, known.get(topic, 0))
    return known


def _require_enough(
    checkpoint: Checkpoint, partitions: Mapping[str, int], known: Mapping[str, int]
) -> None:
    batch = checkpoint.batch_in_doubt()
    short = [topic for topic, now in partitions.items() if now < known.get(topic, 0)]
    if batch < 0 or not short:
        return
    counts = ", ".join(
        f"{topic} has {count(partitions[topic], 'partition')} and had {known[topic]}"
        for topic in short
    )
    commands = "; ".join(
        f"kafka-topics.sh --bootstrap-server … --alter --topic {topic} --partitions {known[topic]}"
        for topic in short
    )
    raise ConfigError(
        f"pipelines.{checkpoint.pipeline}: batch {batch}, which has to be repeated, is spread over "
        f"more partitions than there are: {counts}.",
        "Nothing of the batch was written by this start.",
        f"Give them back: {commands}.",
    )

"""What a failure of Kafka means for a batch: our errors."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streaming.disciplines.plan import Plan
from streaming.errors import (
    LOOK,
    NOT_FINISHED,
    CheckpointBehind,
    ConfigError,
    Fenced,
    InputChanged,
    KafkaUnavailable,
    ProgressMissing,
    StorageUnavailable,
)
from streaming.logs import count

if TYPE_CHECKING:
    from streaming.disciplines.refused import Refusal

TOO_LARGE = (
    "A record with its added headers is larger than the topic takes, or was compressed in the "
    "input: raise max.message.bytes (segment.bytes, if Kafka says RECORD_LIST_TOO_LARGE) of the "
    "pipeline's output, rejects, events and transit topics."
)
REMEDIES = {
    "INVALID_TRANSACTION_TIMEOUT": "Write less for transaction.timeout.ms in kafka.properties: "
    "brokers allow at most their transaction.max.timeout.ms, by default 900,000.",
}
"""By Kafka's reason, where the brokers and the user's rights are not to blame."""
TRANSACTION = "The batch is repeated; what Kafka has committed of it is not written again."
NO_TRANSACTION = "Part of the batch may be written; it will be repeated."
STAYS = "What is written of it stays; other state partitions may have written theirs."
REPEAT_WHAT_IS_LEFT = (
    "Start with --accept-repeats: the batch is written again from what is left, under new "
    "incarnations. Set cleanup.policy = delete on inputs, or read a copy of a compacted one."
)


def fenced() -> Fenced:
    """Another producer has our transactional id."""
    return Fenced(
        "Another copy of this service took over its transactional ids.",
        "The batch of this copy is not written.",
        "Run one copy for each service name; stop one of the two.",
    )


def fenced_by_nobody() -> KafkaUnavailable:
    """A producer has our transactional id, and there is no copy of us."""
    return KafkaUnavailable(
        "Kafka fenced this pipeline, which is the only one on its checkpoint: a late request "
        "of its own past, or a transaction that was open for too long.",
        "The batch is not written and will be repeated.",
        "Where that goes on, a service on another checkpoint has the same ids (its name, a dot, "
        "the pipeline's name): give it another name.",
    )


def overtaken(plan: Plan, partition: int, batch: int) -> KafkaUnavailable:
    """A later run of the batch knows of records that Kafka refuses, and this one does not."""
    return KafkaUnavailable(
        f"Another attempt at batch {batch} of pipeline {plan.pipeline!r} found records that Kafka "
        f"refuses (group {plan.progress_group(partition)!r}), and this one does not know of them.",
        "This attempt writes nothing; the batch will be repeated.",
        "Nothing has to be done.",
    )


def found_meanwhile(plan: Plan) -> KafkaUnavailable:
    """The copy that held the checkpoint before this one wrote decisions behind its back."""
    return KafkaUnavailable(
        f"Another copy of this service, which was at work on the checkpoint of pipeline "
        f"{plan.pipeline!r}, finished a batch after this one had read what is decided about it.",
        "This copy wrote nothing of the batch, which will be repeated.",
        "Nothing has to be done.",
    )


def too_slow(limit_ms: int) -> KafkaUnavailable:
    """Kafka aborted a transaction that was open for too long."""
    return KafkaUnavailable(
        f"A part of a batch took longer to write than a transaction may ({limit_ms:,} ms), and was "
        "aborted.",
        "It is not written; the batch will be repeated, and go on behind the parts that are.",
        "Where that goes on, raise transaction.timeout.ms in kafka.properties.",
    )


def unavailable(
    doing: str, why: str, *, transactional: bool, too_large: bool = False
) -> KafkaUnavailable:
    """Kafka refused, or did not answer in time."""
    return KafkaUnavailable(
        f"Kafka failed to {doing}: {why.rstrip('.')}.",
        TRANSACTION if transactional else NO_TRANSACTION,
        TOO_LARGE if too_large else REMEDIES.get(why, LOOK),
    )


def refused(refusals: Sequence[Refusal], plan: Plan) -> KafkaUnavailable:
    """Kafka refused for good what cannot be rejected instead."""
    first = refusals[0]
    return unavailable(
        f"write {count(len(refusals), 'record')}, the first of them to {first.topic}",
        first.detail,
        transactional=plan.delivery == "exactly-once",
        too_large=first.why == "too-large",
    )


def refused_again(findings: Sequence[Mapping[str, Any]], plan: Plan) -> KafkaUnavailable:
    """Kafka refused for good what was left of rejects, too."""
    first = findings[0]
    return unavailable(
        f"write {count(len(findings), 'record')} to the pipeline's {first['role']}, however little "
        "of them is left",
        first["detail"],
        transactional=plan.delivery == "exactly-once",
        too_large=first["why"] == "too-large",
    )


def missing_topic(topic: str, why: str = "", *, create: bool) -> KafkaUnavailable:
    """A topic to write to is not there; ``why`` Kafka did not create it, if it said so."""
    reason = f" ({why.rstrip('.')})" if why else ""
    return KafkaUnavailable(
        f"The topic {topic} is missing"
        + (f" and could not be created{reason}." if create else "."),
        TRANSACTION,
        "Create it; the job goes on by itself then.",
    )


def progress_missing(plan: Plan, partition: int, batch: int) -> ProgressMissing:
    """Kafka has forgotten which batch was the last one written."""
    return ProgressMissing(
        f"Batch {batch} of pipeline {plan.pipeline!r} may have been written before "
        "the last stop, and Kafka no longer knows: its progress (the committed offset of "
        f"group {plan.progress_group(partition)!r}) is gone; Kafka forgets it after "
        "offsets.retention.minutes in which this state partition wrote nothing, or with the topic "
        f"{plan.events} if that is deleted, or somebody reset it (kafka-consumer-groups), and of a "
        'batch that was begun with delivery = "at-least-once" it never had any.',
        "Nothing was written.",
        "Look at the end of the output topic, then start with --accept-repeats: the batch "
        "is written again if need be, with the same (key, incarnation, sequence).",
    )


def overwritten(plan: Plan, partition: int, batch: int) -> ProgressMissing:
    """Another checkpoint's progress is where ours was."""
    return ProgressMissing(
        f"Another service of the name {plan.service!r}, on another checkpoint, wrote to pipeline "
        f"{plan.pipeline!r} (its progress is in group {plan.progress_group(partition)!r}), and "
        f"nobody can tell whether batch {batch} of this one was written before.",
        "Nothing was written.",
        "Stop the other one, or give it a name and topics of its own. Then start with "
        "--accept-repeats: the batch is written again if need be, with the same (key, incarnation, "
        "sequence).",
    )


def behind(plan: Plan, partition: int, written: int) -> CheckpointBehind:
    """The progress is that of another history: the checkpoint was restored, or lost its end."""
    return CheckpointBehind(
        f"The checkpoint of pipeline {plan.pipeline!r} is older than its output: by the progress "
        f"in Kafka (group {plan.progress_group(partition)!r}) it wrote a batch {written} that is "
        "not in the checkpoint, which was restored from a backup, or lost its end with the power; "
        "or another copy of this service works on it.",
        "Nothing was written.",
        "Stop that copy, if there is one. Restore the newest checkpoint that there is. If this is "
        "it, start with --accept-repeats: what the lost batches read is read again, and delivered "
        "once more (docs/backup.md).",
    )


def planned_otherwise(plan: Plan, unlike: Mapping[str, str], batch: int) -> ConfigError:
    """Partitions that committed a batch did so as it was planned, others would by today's file."""
    was = ", ".join(f"{key} was {before!r}" for key, before in unlike.items())
    return ConfigError(
        f"pipelines.{plan.pipeline}: when batch {batch} was planned, which has to be repeated, "
        f"{was}; some of it may be written.",
        "Nothing was written by this start.",
        "Set it back, let the service finish the batch (sequencer run CONFIG --once), then change "
        "it. If that cannot work, start with --accept-repeats: the batch is written again from its "
        "beginning, under new incarnations (docs/backup.md).",
    )


def elsewhere(plan: Plan, batch: int) -> StorageUnavailable:
    """The host of a task does not see what the driver wrote to the checkpoint's folder."""
    return StorageUnavailable(
        f"Executors on {socket.gethostname()} do not see batch {batch} of pipeline "
        f"{plan.pipeline!r} in {plan.folder}: it is not the driver's folder there.",
        NOT_FINISHED,
        "Every host must mount the checkpoint's folder at the same path: mount it there, or take "
        "the host from the cluster.",
    )


def unread(error: OSError) -> StorageUnavailable:
    """The host of a task cannot read what the driver wrote to the checkpoint's folder."""
    return StorageUnavailable(
        f"The checkpoint's folder cannot be read on {socket.gethostname()}: {error}.",
        NOT_FINISHED,
        "The batch is repeated when it can be. Executors need the rights of the driver there.",
    )


def part_changed(plan: Plan, partition: int, batch: int) -> ProgressMissing:
    """A repeated batch is not the one of which a part was written."""
    return ProgressMissing(
        f"Batch {batch} of pipeline {plan.pipeline!r} was written in part before the last stop "
        f"(group {plan.progress_group(partition)!r}), and gives something else now: the program, "
        "the partitions of a topic or the compression were changed meanwhile.",
        STAYS,
        "Set back what was changed, and let the service finish the batch; change it then. Or start "
        "with --accept-repeats: the batch is written again from its beginning, under new "
        "incarnations.",
    )


def read_otherwise(plan: Plan, batch: int, counts: Sequence[int]) -> InputChanged:
    """State partitions that have to have the same records of a batch had other ``counts``."""
    return InputChanged(
        f"State partitions of pipeline {plan.pipeline!r} did not get the same records of batch "
        f"{batch}, but {' and '.join(map(str, counts))}: an input, or the topic of commands, was "
        "compacted while they read it.",
        STAYS,
        REPEAT_WHAT_IS_LEFT,
    )


def input_changed(
    plan: Plan, partition: int, batch: int, before: int, read: int, some: str = ""
) -> InputChanged:
    """A batch has fewer records than when a state partition, or ``some`` of it, was written."""
    return InputChanged(
        f"Batch {batch} of pipeline {plan.pipeline!r} had {count(before, 'record')} for "
        f"{some}state partition {partition} when it was begun, and has {read} now: an input is "
        "compacted, or somebody deleted records of it.",
        STAYS,
        REPEAT_WHAT_IS_LEFT,
    )

"""How state partitions stand to a checkpoint, by the progress that Kafka has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kafka.errors import UnstableOffsetCommitError

from streaming.disciplines.plan import DELIVERY, Plan
from streaming.disciplines.refused import refusing_runs
from streaming.errors import ConfigError
from streaming.service.checkpoint import Checkpoint
from streaming.service.decisions import Decisions
from streaming.sink.progress import BatchProgress, same_input
from streaming.sink.writer import make_confirming, make_producer
from streaming.source.positions import offsets_in

NAMES = {"events", "service.name", "pipeline"}
"""What progress has its name from, among what a batch is planned with (`Plan.pinned`)."""


class Options(NamedTuple):
    """What a start accepts."""

    repeats: bool
    lost_input: bool


@dataclass(slots=True)
class Standing:
    """How state partitions stand to a checkpoint.

    ``behind``: batches that it does not know, by partition. ``begun``: partitions that wrote a part
    of the batch in doubt. ``written``: those that wrote all of it, ``differing`` of these under
    other decisions, as when repeats were accepted before and the start ended meanwhile.
    ``unknown``: those of which nobody can tell. ``of_others``: those that another checkpoint wrote
    last, but for the one that this was moved from. ``interrupted``: those in which a run found
    records that Kafka refuses, of which the checkpoint does not know. ``may_be_written``: whether
    some of the batch in doubt is. ``unlike``: what it was planned with, by its key, where the file
    says otherwise now and some of it may be written; ``planned``: its number then.
    ``remembered``: those of which Kafka has progress. ``incarnations_ms``: no incarnation that was
    given is larger, as far as Kafka's progress says.
    """

    behind: dict[int, int] = field(default_factory=dict)
    begun: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    differing: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    of_others: list[int] = field(default_factory=list)
    interrupted: list[int] = field(default_factory=list)
    may_be_written: bool = False
    unlike: dict[str, str] = field(default_factory=dict)
    planned: int = -1
    remembered: set[int] = field(default_factory=set)
    incarnations_ms: int = 0


def standing_of(plan: Plan, checkpoint: Checkpoint, query: str, options: Options) -> Standing:
    """Compare the progress of all state partitions, if they have any, with the checkpoint.

    A broker that lost a group, and does not know, gives older progress. Before anything is done by
    it, and before it ends the service, the newest is asked for; else the sink does so, when it
    writes.
    """
    _require_topics(plan, checkpoint)
    decisions = Decisions(checkpoint)
    unlike = unlike_now(plan, decisions)
    if plan.delivery != "exactly-once":
        unlike.pop(DELIVERY, None)  # what was written exactly once is repeated, too
        return Standing(may_be_written=True, unlike=unlike, planned=decisions.planned)
    is_lost = options.lost_input and checkpoint.batch_in_doubt() >= 0
    is_decisive = bool(unlike) or options.repeats or is_lost
    standing = _compared(plan, checkpoint, query, confirmed=is_decisive)
    if standing.behind and not is_decisive:
        standing = _compared(plan, checkpoint, query, confirmed=True)
    # At-least-once there is no progress: an older one says nothing of that batch.
    standing.may_be_written = bool(
        standing.begun or standing.written or standing.unknown or DELIVERY in unlike
    )
    # Under another name there is other progress, or none.
    if standing.may_be_written or unlike.keys() & NAMES:
        standing.unlike, standing.planned = unlike, decisions.planned
    return standing


def _compared(plan: Plan, checkpoint: Checkpoint, query: str, *, confirmed: bool) -> Standing:
    batch = checkpoint.batch_in_doubt()
    decisions = Decisions(checkpoint)
    digest = decisions.planned_digest()
    runs = refusing_runs(decisions.findings(batch))
    partitions = range(plan.state_partitions + 1)  # the last is the driver's own
    every = [progress_of(plan, partition, confirmed=confirmed) for partition in partitions]
    known = [progress for progress in every if progress is not None]
    standing = Standing(
        incarnations_ms=max((progress.incarnations_ms for progress in known), default=0)
    )
    for partition, progress in enumerate(every):
        if progress is None or progress.query != query:
            if progress is not None and progress.query != decisions.before:
                standing.of_others.append(partition)
            if batch >= 0:
                standing.unknown.append(partition)
            continue
        standing.remembered.add(partition)
        if not is_known(progress, checkpoint):
            standing.behind[partition] = progress.batch
        elif progress.batch != batch or progress.is_taken_back:
            continue
        elif progress.part is not None:
            standing.begun.append(partition)
            if progress.needed_runs > runs:
                standing.interrupted.append(partition)
        else:
            standing.written.append(partition)
            if digest and progress.digest != digest:
                standing.differing.append(partition)
    return standing


def progress_of(plan: Plan, partition: int, *, confirmed: bool) -> BatchProgress | None:
    """The progress of a partition, ``confirmed`` by who has its group.

    Older brokers (3.6) may have taken a late request of who confirmed it before; they say nothing
    until a transaction of that id ends, as one does that confirms.
    """
    producer = make_producer(plan, partition)
    with producer.errors("read its progress"):
        try:
            found = producer.progress_left()
        except UnstableOffsetCommitError:
            _confirmed(plan, partition)
            found = producer.progress_left()
    if confirmed:
        found = _confirmed(plan, partition)
    return BatchProgress.from_text(*found)


def _confirmed(plan: Plan, partition: int) -> tuple[int, str]:
    producer = make_confirming(plan, partition)
    with producer.errors("confirm its progress"):
        producer.begin_session()
        return producer.newest_progress()


def is_known(progress: BatchProgress, checkpoint: Checkpoint) -> bool:
    """Whether the checkpoint has the batch, or had it: Spark's log goes back for a while.

    Of progress that was taken back, whether it has the renewal, too: a copy that is put back once
    more would give the incarnations of lost batches again. Of the batch in doubt, whether it knows
    the records that Kafka refused of it: the state after it would count them as delivered.
    """
    if progress.is_taken_back:
        if progress.batch > max(checkpoint.done(), 0):  # taken back before any was done it is 0
            return False
        return progress.is_taken_back_by(Decisions(checkpoint).renewals)
    if progress.batch > checkpoint.planned():
        return False
    logged = checkpoint.logged_if_kept(progress.batch)
    if logged is not None and not same_input(progress.digest, logged):
        return False
    if progress.batch != checkpoint.batch_in_doubt():
        return True
    found = Decisions(checkpoint).findings(progress.batch)
    return progress.refusing_runs <= refusing_runs(found)


def unlike_now(plan: Plan, decisions: Decisions) -> dict[str, str]:
    """Return what the batch in doubt was planned with, by its key, and the file says otherwise."""
    now, before = plan.pinned(), decisions.pinned()
    return {key: value for key, value in before.items() if now.get(key) != value}


def _require_topics(plan: Plan, checkpoint: Checkpoint) -> None:
    """ConfigError where a topic that was read is read no more, as commands under another name."""
    read = offsets_in(checkpoint.ends(checkpoint.planned())).keys()
    if dropped := sorted(read - {*plan.reads}):
        raise ConfigError(
            f"The checkpoint of pipeline {plan.pipeline} has read {', '.join(dropped)}, which is "
            "none of its topics any more.",
            "Nothing was written by this start.",
            "Set the name back (commands, transit), or start with a new checkpoint folder.",
        )

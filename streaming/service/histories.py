"""Whether Kafka's progress is that of the checkpoint: asked before a query starts.

A checkpoint that was restored, or that lost its end with the host's power, is behind what was
written from it. Its next batches have numbers that were used before, for other input: who takes
them for written loses that input, and who does not repeats output. So the service stops, and says
so. With ``--accept-repeats`` it goes on: the progress of the lost batches is taken back, and all
keys get new incarnations.

A batch that was planned, and cannot be repeated since its input is gone, is planned anew with
``--accept-lost-input``. Where some of it may have been written, that is another history, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from streaming.disciplines.plan import Plan
from streaming.errors import InputLost
from streaming.service.checkpoint import Checkpoint
from streaming.service.decisions import CHANGED, Decisions, same_input
from streaming.sink import failures
from streaming.sink.progress import NOTHING, BatchProgress, nothing_since
from streaming.sink.writer import make_producer
from streaming.source.losses import OPTION, said
from streaming.source.planned import lost_of_planned


@dataclass(slots=True)
class Standing:
    """How state partitions stand to a checkpoint.

    ``behind``: batches that it does not know, by partition. ``begun``: partitions that wrote a part
    of the batch in doubt. ``written``: those that wrote all of it, ``differing`` of these under
    other decisions, as when repeats were accepted before and the start ended meanwhile.
    ``unknown``: those of which nobody can tell. ``is_remembered``: Kafka has progress of some.
    """

    behind: dict[int, int] = field(default_factory=dict)
    begun: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    differing: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    is_remembered: bool = False

    @property
    def is_begun(self) -> bool:
        """Whether some of the batch in doubt may be written."""
        return bool(self.begun or self.written or self.unknown)


def settle(
    plan: Plan,
    checkpoint: Checkpoint,
    say: Callable[..., None],
    *,
    accept_repeats: bool,
    accept_lost_input: bool = False,
) -> bool:
    """See that the checkpoint is whole, and of one history with Kafka's progress.

    Raises CheckpointBehind where Kafka has the progress of a batch that the checkpoint does not
    have, ConfigError where the batch in doubt was planned with something else (`Plan.pinned`), and
    KafkaUnavailable. (Progress that Kafka forgot matters only where a batch is in doubt,
    and is judged by the sink.) Returned is whether Kafka has any of this checkpoint.
    """
    if checkpoint.lockable:
        _mend(plan, checkpoint, say)
    query = checkpoint.query()
    if not query:
        return False
    is_exact = plan.delivery == "exactly-once"
    unlike = _unlike(plan, checkpoint)
    is_decisive = bool(unlike) or accept_repeats or accept_lost_input
    standing = _standing(plan, checkpoint, query, confirmed=is_decisive)
    if not standing.is_begun and unlike:  # it is planned with what the file says now
        Decisions(checkpoint).pin(plan.pinned())
        unlike = {}
    if not accept_repeats:
        for partition, batch in standing.behind.items():
            raise failures.behind(plan, partition, batch)
        if unlike:
            raise failures.planned_otherwise(plan, unlike, checkpoint.batch_in_doubt())
    may_be_written = standing.is_begun or not is_exact
    is_planned_anew = accept_lost_input and _plan_anew(
        plan, checkpoint, say, may_be_written=may_be_written and not accept_repeats
    )
    if not accept_repeats:
        return standing.is_remembered
    # What was begun gives something else now, or its progress would not have to be taken back. And
    # at-least-once there is no progress that could tell.
    renewed = bool(standing.behind or standing.begun or standing.differing or unlike)
    renewed = renewed or (is_planned_anew and may_be_written)
    renewed = renewed or (bool(standing.written) and _is_changed(checkpoint))
    digest = NOTHING
    if renewed or not is_exact:
        checkpoint.forget_later_state()
        # The triples (key, incarnation, sequence) of lost batches name what these wrote, for ever.
        decisions = Decisions(checkpoint)
        decisions.pin(plan.pinned())
        decisions.renew(round(time.time() * 1000), checkpoint.done() + 1)
        digest = nothing_since(decisions.renewals[-1][0])
    # With new incarnations no part of a batch is as another partition may have written it.
    lost = range(plan.state_partitions + 1) if renewed else standing.unknown
    progress = BatchProgress(max(checkpoint.done(), 0), query, digest)
    _take_back(plan, [*lost] if is_exact else [], progress)
    if lost:
        say(
            f"{plan.pipeline}: goes on behind batch {checkpoint.done()}. What {len(lost)} state "
            "partitions may have written after it is repeated.",
            event="repeats-accepted",
            level="warning",
            pipeline=plan.pipeline,
        )
    return standing.is_remembered


def _unlike(plan: Plan, checkpoint: Checkpoint) -> dict[str, str]:
    """Return what the batch in doubt was planned with, by its key, and the file says otherwise."""
    now, before = plan.pinned(), Decisions(checkpoint).pinned()
    return {key: value for key, value in before.items() if now.get(key) != value}


def _plan_anew(
    plan: Plan, checkpoint: Checkpoint, say: Callable[..., None], *, may_be_written: bool
) -> bool:
    """Forget the batch in doubt if its input is gone; whether it is.

    InputLost where nobody accepted that what is left of it is delivered once more.
    """
    batch = checkpoint.batch_in_doubt()
    if batch < 0:
        return False
    losses = lost_of_planned(plan, checkpoint.ends(batch - 1), checkpoint.ends(batch))
    if not losses:
        return False
    if may_be_written:
        raise InputLost(
            f"Input is lost: {said(losses)}. Batch {batch}, which was planned with it, or some of "
            "it, may have been written before the last stop.",
            "Nothing was written by this start.",
            f"Start with {OPTION} and --accept-repeats: what is left of the batch is read again, "
            "and delivered once more under new incarnations (docs/backup.md).",
        )
    checkpoint.forget_planned()
    say(
        f"{plan.pipeline}: batch {batch} is planned anew, as input is lost: {said(losses)}.",
        event="lost-input",
        level="warning",
        pipeline=plan.pipeline,
    )
    return True


def _is_changed(checkpoint: Checkpoint) -> bool:
    """Whether the batch in doubt was found to have other records than what is written of it."""
    return CHANGED in Decisions(checkpoint).findings(checkpoint.batch_in_doubt())


def _mend(plan: Plan, checkpoint: Checkpoint, say: Callable[..., None]) -> None:
    for name in checkpoint.mend():
        say(
            f"{plan.pipeline}: {name} in the checkpoint was not whole, as after a power cut. "
            "It was removed; its batch begins again.",
            event="mended",
            level="warning",
            pipeline=plan.pipeline,
        )


def _standing(plan: Plan, checkpoint: Checkpoint, query: str, *, confirmed: bool) -> Standing:
    """Compare the progress of all state partitions, if they have any, with the checkpoint.

    ``confirmed``: by progress that is surely the newest. A broker that lost a group, and does not
    know, gives an older one, which is confirmed before it ends the service; else the sink does so,
    when it writes.
    """
    if plan.delivery != "exactly-once":
        return Standing()
    standing = _compared(plan, checkpoint, query, confirmed=confirmed)
    if standing.behind and not confirmed:
        return _compared(plan, checkpoint, query, confirmed=True)
    return standing


def _compared(plan: Plan, checkpoint: Checkpoint, query: str, *, confirmed: bool) -> Standing:
    batch = checkpoint.batch_in_doubt()
    digest = Decisions(checkpoint).planned_digest()
    standing = Standing()
    for partition in range(plan.state_partitions + 1):  # the last is the driver's own
        producer = make_producer(plan, partition)
        with producer.errors("read its progress"):
            read = producer.progress_confirmed if confirmed else producer.progress_left
            progress = BatchProgress.from_text(*read())
        standing.is_remembered |= progress is not None and progress.query == query
        if progress is None or progress.query != query:
            if batch >= 0:
                standing.unknown.append(partition)
        elif not is_known(progress, checkpoint):
            standing.behind[partition] = progress.batch
        elif progress.part is not None:
            standing.begun.append(partition)
        elif progress.batch == batch and not progress.is_taken_back:
            standing.written.append(partition)
            if digest and progress.digest != digest:
                standing.differing.append(partition)
    return standing


def is_known(progress: BatchProgress, checkpoint: Checkpoint) -> bool:
    """Whether the checkpoint has the batch, or had it: Spark's log goes back for a while.

    Of progress that was taken back, whether it has the renewal, too: a copy that is put back once
    more would give the incarnations of lost batches again.
    """
    planned = checkpoint.planned()
    if progress.is_taken_back:
        if progress.batch > max(planned, 0):  # taken back before any was done it is 0
            return False
        renewals = [nothing_since(at_ms) for at_ms, _ in Decisions(checkpoint).renewals]
        return progress.digest in [NOTHING, *renewals]
    if progress.batch > planned:
        return False
    logged = checkpoint.logged_if_kept(progress.batch)
    return logged is None or same_input(progress.digest, logged)


def _take_back(plan: Plan, partitions: Sequence[int], progress: BatchProgress) -> None:
    """Fence all that write, and say in transactions that nothing after the checkpoint counts."""
    for partition in partitions:
        producer = make_producer(plan, partition)
        with producer.errors("take back its progress"):
            producer.begin_session()
            producer.begin()
            producer.send_progress(progress.batch, progress.to_text())
            producer.finish()
        producer.close()

"""Whether Kafka's progress is that of the checkpoint: asked before a query starts.

A checkpoint that was restored, or that lost its end with the host's power, is behind what was
written from it. Its next batches have numbers that were used before, for other input: who takes
them for written loses that input, and who does not repeats output. So the service stops, and says
so. With ``--accept-repeats`` it goes on: the progress of the lost batches is taken back, and all
keys get new incarnations.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from streaming.disciplines.plan import Plan
from streaming.service.checkpoint import Checkpoint
from streaming.service.decisions import Decisions, same_input
from streaming.sink import failures
from streaming.sink.progress import NOTHING, BatchProgress
from streaming.sink.writer import make_producer

if TYPE_CHECKING:
    from streaming.sink.producer import BatchProducer


def settle(
    plan: Plan, checkpoint: Checkpoint, say: Callable[..., None], *, accept_repeats: bool
) -> None:
    """See that the checkpoint is whole, and of one history with Kafka's progress.

    Raises CheckpointBehind where Kafka has the progress of a batch that the checkpoint does not
    have, and KafkaUnavailable. (Progress that Kafka forgot matters only where a batch is in doubt,
    and is judged by the sink.)
    """
    if checkpoint.lockable:
        _mend(plan, checkpoint, say)
    query = checkpoint.query()
    if not query:
        return
    if plan.delivery != "exactly-once":
        if accept_repeats:  # there is no progress that could tell
            _renew(checkpoint)
        return
    behind, in_doubt = _lost(plan, checkpoint, query)
    if not accept_repeats:
        for partition, batch in behind.items():
            raise failures.behind(plan, partition, batch)
        return
    if behind:
        _renew(checkpoint)
    # With new incarnations no part of a batch is as another partition may have written it.
    lost = range(plan.state_partitions + 1) if behind else in_doubt
    for partition in lost:
        _take_back(make_producer(plan, partition), query, checkpoint)
    if lost:
        say(
            f"{plan.pipeline}: goes on behind batch {checkpoint.done()}. What {len(lost)} state "
            "partitions may have written after it is repeated.",
            event="repeats-accepted",
            level="warning",
            pipeline=plan.pipeline,
        )


def _mend(plan: Plan, checkpoint: Checkpoint, say: Callable[..., None]) -> None:
    for name in checkpoint.mend():
        say(
            f"{plan.pipeline}: {name} in the checkpoint was not whole, as after a power cut. "
            "It was removed; its batch begins again.",
            event="mended",
            level="warning",
            pipeline=plan.pipeline,
        )


def _lost(plan: Plan, checkpoint: Checkpoint, query: str) -> tuple[dict[int, int], list[int]]:
    """Return the batches of state partitions that the checkpoint does not know, by partition.

    And partitions that may have written the batch in doubt, or a part of it, and nobody can tell.
    """
    is_in_doubt = checkpoint.batch_in_doubt() >= 0
    behind, in_doubt = {}, []
    for partition in range(plan.state_partitions + 1):  # the last is the driver's own
        producer = make_producer(plan, partition)
        with producer.errors("read its progress"):
            progress = BatchProgress.from_text(*producer.progress())
        if progress is None or progress.query != query:
            in_doubt += [partition] if is_in_doubt else []
        elif not _is_known(progress, checkpoint):
            behind[partition] = progress.batch
        elif progress.part is not None:
            in_doubt.append(partition)
    return behind, in_doubt


def _renew(checkpoint: Checkpoint) -> None:
    """Go on as another history: what was written behind the checkpoint keeps its names.

    The triples (key, incarnation, sequence) of lost batches name what these wrote, for ever.
    """
    checkpoint.forget_later_state()
    Decisions(checkpoint).renew(round(time.time() * 1000))


def _is_known(progress: BatchProgress, checkpoint: Checkpoint) -> bool:
    """Whether the checkpoint has the batch, or had it: Spark's log goes back for a while."""
    if progress.digest == NOTHING:
        return True
    if progress.batch > checkpoint.planned():
        return False
    logged = checkpoint.logged_if_kept(progress.batch)
    return logged is None or same_input(progress.digest, logged)


def _take_back(producer: BatchProducer, query: str, checkpoint: Checkpoint) -> None:
    """Fence whoever writes, and say in a transaction that nothing after the checkpoint counts."""
    progress = BatchProgress(max(checkpoint.done(), 0), query, NOTHING)
    with producer.errors("take back its progress"):
        producer.begin_session()
        producer.begin()
        producer.send_progress(progress.batch, progress.to_text())
        producer.finish()
    producer.close()

"""Whether Kafka's progress is that of the checkpoint: asked before a query starts.

A checkpoint that was restored, or that lost its end with the host's power, is behind what was
written from it. Its next batches have numbers that were used before, for other input: who takes
them for written loses that input, and who does not repeats output. So the service stops, and says
so. With ``--accept-repeats`` it goes on: the progress of the lost batches is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from streaming.disciplines.plan import Plan
from streaming.service.checkpoint import Checkpoint
from streaming.service.decisions import same_input
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
    about = {"level": "warning", "pipeline": plan.pipeline}
    if checkpoint.lockable:
        for name in checkpoint.mend():
            say(
                f"{plan.pipeline}: {name} in the checkpoint was not whole, as after a power cut. "
                "It was removed; its batch begins again.",
                event="mended",
                **about,
            )
    query = checkpoint.query()
    if plan.delivery != "exactly-once" or not query:
        return
    lost = list(_lost(plan, checkpoint, query, accept_repeats=accept_repeats))
    for partition in lost:
        _take_back(make_producer(plan, partition), query, checkpoint)
    if lost:
        say(
            f"{plan.pipeline}: goes on behind batch {checkpoint.done()}. What {len(lost)} state "
            "partitions may have written after it is repeated.",
            event="repeats-accepted",
            **about,
        )


def _lost(plan: Plan, checkpoint: Checkpoint, query: str, *, accept_repeats: bool) -> Iterator[int]:
    """The state partitions whose progress is to be taken back; CheckpointBehind where it is not."""
    in_doubt = checkpoint.batch_in_doubt() >= 0
    for partition in range(plan.state_partitions + 1):  # the last is the driver's own
        producer = make_producer(plan, partition)
        with producer.errors("read its progress"):
            progress = BatchProgress.from_text(*producer.progress())
        if progress is None or progress.query != query:
            if accept_repeats and in_doubt:
                yield partition
        elif not _is_known(progress, checkpoint):
            if not accept_repeats:
                raise failures.behind(plan, partition, progress.batch)
            yield partition
        elif accept_repeats and progress.part is not None:
            yield partition


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

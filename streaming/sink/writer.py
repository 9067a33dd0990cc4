"""Writing to Kafka: one producer for a state partition, kept between batches where that is safe."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.crashes import crash_point
from streaming.disciplines.plan import BatchContext, Plan
from streaming.disciplines.refused import refusing_runs
from streaming.errors import Fenced
from streaming.kafka.choice import TRANSACTION_TIMEOUT_MS, own_settings
from streaming.sink import failures
from streaming.sink.lookup import look_up
from streaming.sink.progress import BatchProgress, Part, same_input
from streaming.sink.refusals import RecordsRefused

if TYPE_CHECKING:
    from streaming.sink.producer import BatchProducer

NEVER = -2
CONFIRMING_MS = 10_000
"""What asks for progress, and dies, keeps it from others for no longer."""

_writers: dict[str, PartitionWriter] = {}
"""This worker's producers by transactional id. One is used again only for the batch after its own
(if another worker wrote in between, that one has fenced this), and only if each of its requests was
answered."""


class PartitionWriter:
    """Writes micro-batches of one state partition: which are written, and where their parts end.

    Its ``producer`` knows of record batches and transactions alone. Use :meth:`batch` around what
    belongs to one micro-batch.

    ``part``: what of its batch others wrote. ``read``: how many records the shards got of it, once
    that is known. ``forgotten``: nobody can tell whether the batch was written before, as Kafka
    knows of none and it is not so young that it would; ``overwritten``: as Kafka had another
    checkpoint's progress; ``deleted``: as it was reset, or deleted after the query had started.
    ``left``: the progress that Kafka has.
    """

    def __init__(self, plan: Plan, partition: int) -> None:
        self.plan = plan
        self.partition = partition
        self.last_batch = -1
        self.forgotten = False
        self.overwritten = self.deleted = False
        self.part: Part | None = None
        self.read = 0
        self.left: tuple[int, str] = (-1, "")
        self.producer = make_producer(plan, partition)

    @property
    def open_seconds_max(self) -> float:
        """How long Kafka lets a transaction be open."""
        ms = self.plan.producer.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
        return int(ms) / 1000

    def begin_session(self, context: BatchContext) -> BatchProgress | None:
        """Step 3, first half: fence others, then return the progress if the batch is written.

        Progress counts only where it was written for the context's query: another checkpoint under
        the same service name has batches of its own. CheckpointBehind where it is that of another
        history of this checkpoint.
        """
        with self.producer.errors("begin a session"):
            self.producer.begin_session()
            if not self.producer.transactional:
                return None
            crash_point("3-init")
            self.left = self.producer.progress()
        progress = BatchProgress.from_text(*self.left)
        self.overwritten = progress is not None and progress.query != context.query
        is_reset = progress is None and self.left[0] >= 0  # by an operator: it is not ours any more
        self.deleted = is_reset or (progress is None and self.partition in context.remembered)
        is_unknown = self.overwritten or self.deleted or (progress is None and not context.young)
        self.forgotten = context.in_doubt and is_unknown
        if progress is None or self.overwritten:
            return None
        is_same = progress.digest == context.digest
        is_same = is_same and progress.refusing_runs <= refusing_runs(context.decisions)
        is_other = progress.batch == context.batch and not is_same
        if progress.is_taken_back:
            # By a start behind this batch's: who stood still meanwhile must not write any more.
            is_other = not progress.is_taken_back_by(context.decisions.get("renewals", ()))
        elif progress.batch < context.batch:
            is_other = self._is_of_copy(progress, context)
        if progress.batch > context.batch or is_other:
            self.confirm_progress()
            raise failures.behind(self.plan, self.partition, progress.batch)
        if progress.is_taken_back or progress.batch < context.batch:
            return None
        if progress.needed_runs > refusing_runs(context.decisions):
            self.confirm_progress()
            raise failures.overtaken(self.plan, self.partition, context.batch)
        if progress.part is not None:
            self.part, self.forgotten = progress.part, progress.part.forgotten
            return None
        return progress

    def _is_of_copy(self, progress: BatchProgress, context: BatchContext) -> bool:
        """Whether a copy of the checkpoint wrote this earlier batch, as ours is another or none."""
        if progress.batch > context.latest.get(self.partition, progress.batch):
            return True
        logged = logged_in(self.plan.folder, progress.batch)
        return logged is not None and not same_input(progress.digest, logged)

    def confirm_progress(self) -> None:
        """See that what :meth:`begin_session` read is the newest, before it ends the service."""
        with self.producer.errors("confirm its progress"):
            self.producer.confirm_progress()

    @contextlib.contextmanager
    def batch(self, context: BatchContext) -> Iterator[None]:
        """Everything written inside becomes visible with the batch as progress, in its last part.

        What is written behind the last :meth:`end_part` becomes visible together.
        """
        try:
            with self.producer.errors("write a batch"):
                self.producer.ends.clear()
                yield
                if self.producer.transactional:
                    crash_point("3-4")
                    self._send_progress(context, None)
                    crash_point("4-sent")
                self._finish(context, None)
        except BaseException as error:
            _writers.pop(self.plan.transactional_id(self.partition), None)
            if isinstance(error, Exception) and not isinstance(error, Fenced):
                self.producer.abort()
            if isinstance(error, RecordsRefused):
                self._need_another_run(context)
            self.producer.close()
            raise
        self.forgotten = False
        self.part = None
        self.last_batch = context.batch
        if not self.producer.is_reusable:
            _writers.pop(self.plan.transactional_id(self.partition), None)
        crash_point("4-5")

    def end_part(self, context: BatchContext, part: Part) -> None:
        """Make visible what was written, with how far that is; the batch goes on behind it.

        Where Kafka refused records, this part and those behind it are aborted. They are sent all
        the same: so one run finds out what Kafka refuses of the whole batch, however it is cut, and
        whether anybody is left to take a message. :meth:`batch` raises RecordsRefused at its end.
        """
        if self.producer.transactional:
            crash_point("3-part")
            self._send_progress(context, part)
            crash_point("part-sent")
        with contextlib.suppress(RecordsRefused):
            self._finish(context, part)
        crash_point("part-3")
        if not self.producer.is_reusable:
            self._renew_session()

    def has_refused(self) -> bool:
        """Return whether another run of the batch leaves out some of what this one has written.

        Without transactions alone; with them nothing of this run stays. It waits for Kafka.
        """
        if self.producer.transactional:
            return False
        self.producer.outbox.wait()
        return bool(self.producer.refusals)

    def _finish(self, context: BatchContext, part: Part | None) -> None:
        self.producer.finish()
        progress = self._progress(context, part)
        self.left = (progress.batch, progress.to_text())

    def _renew_session(self) -> None:
        """Begin another session in the middle of a batch; Fenced where somebody wrote since."""
        self.producer.begin_session()
        if self.producer.transactional and self.producer.progress() != self.left:
            self.producer.confirm_progress()
            raise failures.fenced()

    def _need_another_run(self, context: BatchContext) -> None:
        """Keep attempts of this run from the batch, now that another run leaves records out.

        An attempt of which the driver has lost sight may begin later, and Kafka may take from it
        what it refused: the topic allows more by now, or a clock went on.
        """
        if not self.producer.transactional:
            return
        found = BatchProgress.from_text(*self.left)
        if found is None or (found.query, found.digest) != (context.query, context.digest):
            found = self._progress(context, Part(forgotten=self.forgotten))
        needed = replace(found, needed_runs=refusing_runs(context.decisions) + 1)
        with self.producer.errors("note that it refuses records"):
            if not self.producer.is_reusable:
                self._renew_session()
            self.producer.refusals.clear()
            self.producer.send_progress(needed.batch, needed.to_text())
            self.producer.finish()

    def _send_progress(self, context: BatchContext, part: Part | None) -> None:
        progress = self._progress(context, part)
        self.producer.send_progress(progress.batch, progress.to_text())

    def _progress(self, context: BatchContext, part: Part | None) -> BatchProgress:
        read = self.read if part is None else None
        runs = refusing_runs(context.decisions)
        names = (context.batch, context.query, context.digest)
        return BatchProgress(*names, part, read, runs, newest_ms=context.newest_ms)

    def ends(self) -> dict[str, int]:
        """By partition of the output, the offset behind what was written of the last batch."""
        written = self.producer.ends.items()
        return {str(at): end for (topic, at), end in written if topic == self.plan.output}

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; a missing one is created where the plan says so.

        Raises KafkaUnavailable where it is missing and stays so.
        """
        return self.plan.partitions.get(topic) or look_up(self.plan, topic)


def require_seen(plan: Plan, context: BatchContext) -> None:
    """Raise StorageUnavailable if the checkpoint's folder on this host has not this batch.

    An executor may come after the check of a start, on a host without the folder: the state would
    be in another folder of that name, which is lost with the host.
    """
    if plan.folder and not same_input(context.digest, logged_in(plan.folder, context.batch) or b""):
        raise failures.elsewhere(plan, context.batch)


def logged_in(folder: str, batch: int) -> bytes | None:
    """Return a batch of the offset log; None where it is not kept, or is not in this host's folder.

    Raises StorageUnavailable where that cannot be read.
    """
    try:
        return Path(folder, "offsets", str(batch)).read_bytes() if folder else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise failures.unread(error) from error


def writer_for(
    plan: Plan, partition: int, context: BatchContext
) -> PartitionWriter | BatchProgress:
    """The partition's writer, ready for the context's batch; if that is written, its progress.

    Its `forgotten` says that nobody can tell whether it is.
    """
    name = plan.transactional_id(partition)
    kept = _writers.pop(name, None)
    is_latest = kept is not None and kept.last_batch == context.wrote.get(partition, NEVER)
    if kept is not None and is_latest and kept.producer.is_reusable:
        _writers[name] = kept
        return kept
    if kept is not None:
        kept.producer.close()
    writer = PartitionWriter(plan, partition)
    written = writer.begin_session(context)
    crash_point("3-progress")
    if written is not None:
        writer.producer.close()
        return written
    _writers[name] = writer
    return writer


def make_producer(plan: Plan, partition: int) -> BatchProducer:
    """Return the producer of a state partition, which has no session yet.

    The driver, which writes as one more partition, has a thread for each pipeline.
    """
    from streaming.sink.producer import BatchProducer  # noqa: PLC0415  (see `worker_daemon`)

    is_driver = partition == plan.state_partitions
    return BatchProducer(
        own_settings(plan.producer),
        plan.transactional_id(partition) if plan.delivery == "exactly-once" else None,
        plan.progress_group(partition),
        plan.events,
        user=plan.pipeline if is_driver else "",
    )


def make_confirming(plan: Plan, partition: int) -> BatchProducer:
    """Return a producer that asks for a state partition's newest progress and fences nobody."""
    from streaming.sink.producer import BatchProducer  # noqa: PLC0415  (see `worker_daemon`)

    settings = own_settings({**plan.producer, "transaction.timeout.ms": CONFIRMING_MS})
    group = plan.progress_group(partition)
    return BatchProducer(settings, plan.confirming_id, group, plan.events, user=plan.pipeline)


def close_writers() -> None:
    """Let go of the producers that this process keeps."""
    while _writers:
        _writers.popitem()[1].producer.close()

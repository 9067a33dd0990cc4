"""A stopped service's state moved into a new checkpoint, with other shards and state partitions.

For each pipeline:

1. The state is read whole, and laid out anew (`disciplines.reshard`).
2. A query with the same stateful operator writes it as batch 0 of the new checkpoint.
3. The new checkpoint gets the old one's place in Kafka: the next batch begins where the last ended.
4. It is read back: every channel, subscriber and peer has to be as it was, and the counts' sum.
5. The new checkpoint's identity is written.

When all pipelines are there, the old checkpoints are closed, then the new ones opened: until then
no service starts on them. What is interrupted before that is begun anew; the old one is as it was.
Transactional ids stay; their progress is another query's, so the new one's first batch is written
whatever number the old one's last batch had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pandas as pd

from streaming.arrow.totals import Totals
from streaming.config import Config
from streaming.crashes import crash_point
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.discipline import StateMove
from streaming.disciplines.plan import ExchangePlan, Plan
from streaming.disciplines.reshard import Resharded
from streaming.disciplines.state_row import STATE, STATE_FORMAT
from streaming.errors import ConfigError, JobFailed, KafkaUnavailable
from streaming.service.checkpoint import MOVED, Checkpoint, Identity
from streaming.service.decisions import Decisions
from streaming.service.insight import described_each, shard_states
from streaming.service.move_checks import (
    UNCHANGED,
    nothing_closed,
    require_as_it_ran,
    require_free,
    require_moved,
    require_same,
)
from streaming.service.planning import make_plan
from streaming.service.progress import status_of
from streaming.service.standing import is_known
from streaming.sink.claim import Claim
from streaming.sink.progress import BatchProgress
from streaming.sink.writer import make_producer
from streaming.spark.failures import as_sequencer_error
from streaming.spark.session_access import use_state_format
from streaming.storage.files import hadoop_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.state import GroupState

OUT = "shard int"
ROWS = "state-rows"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Target:
    """What the new checkpoint is to be."""

    root: str
    shards: int
    state_partitions: int


Written = tuple[int, list[BatchProgress | None]]
"""The last batch that was planned, and the progress of each state partition."""


@dataclass(frozen=True)
class Put:
    """The function that Spark calls for each shard: the state is what the row says.

    ``timed``: at the next batch the shard looks for itself what is due.
    """

    timed: bool

    def __call__(
        self, _key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Take the one row of the shard."""
        (text,) = (text for frame in frames for text in frame["row"])
        state.update((text,))
        if self.timed:
            state.setTimeoutDuration(1)
        yield pd.DataFrame({"shard": pd.Series([], dtype="int32")})


def rescale(
    session: SparkSession, config: Config, names: Iterable[str], target: Target, say: Say
) -> None:
    """Move these pipelines; JobFailed or ConfigError where one cannot be."""
    old = [Checkpoint.of(config, name) for name in names]
    new = {
        each.pipeline: Checkpoint(target.root, each.pipeline, config.spark, synced=True)
        for each in old
    }
    begun, moved = [], []
    for each in old:
        if each.was_moved_to(target.root):
            require_moved(each, new[each.pipeline], target.shards)
            say(f"{each.pipeline}: moved before")
            moved.append(new[each.pipeline])
        elif each.identity() is None:
            each.require_whole()
            say(f"{each.pipeline}: has no checkpoint; it begins anew where it is started")
        else:
            begun.append(each)
    for each in begun:
        each.claim(config.service.name)
        each.require_here()
        each.require_whole()
        require_as_it_ran(config, each)
        require_free(new[each.pipeline], each.location)
    for each in moved:
        each.end_move()
    for each in begun:
        new[each.pipeline].begin_move(each.location)
    crash_point("rescale-begun")
    with nothing_closed():
        found = [_move(session, config, each, new[each.pipeline], target, say) for each in begun]
    crash_point("rescale-whole")
    for each, written in zip(begun, found, strict=True):
        # The old one is closed for good: nothing may rest on what a power cut takes.
        new[each.pipeline].sync_logs()
        new[each.pipeline].sync_state()
        each.mark_moved(target.root, target.shards)
        if not each.lockable:
            _require_still(config, each, written)
        crash_point("rescale-closed")
    for each in begun:
        new[each.pipeline].end_move()
        each.release()


def _move(
    session: SparkSession,
    config: Config,
    old: Checkpoint,
    new: Checkpoint,
    target: Target,
    say: Say,
) -> Written:
    name, identity = old.pipeline, old.identity()
    assert identity is not None  # noqa: S101  (asked before)
    move = DISCIPLINES[identity.discipline].reshard(config.pipelines[name])
    before = _plan(config, name, identity)
    written = old.planned(), _written(before, lockable=old.lockable)
    _require_done(old, before, written[1])
    rows = shard_states(session, old.location, old.state_format())

    def to(partitions: int) -> tuple[Identity, Plan, Resharded]:
        """The new identity and plan, and the state there; ValueError where it cannot be."""
        wanted = replace(
            identity, shards=target.shards, state_partitions=min(partitions, target.shards)
        )
        after = _plan(config, name, wanted, target.root)
        return wanted, after, move.reshard(before, after, rows)

    try:
        wanted, after, moved = _moved(
            to, name, identity, target, say, stays=isinstance(before, ExchangePlan)
        )
    except ValueError as error:
        raise ConfigError(
            f"Pipeline {name} cannot be moved: {error}.",
            UNCHANGED,
            "Keep service.shards and the state partitions for it, or move the others to a service "
            "of their own.",
        ) from error
    use_state_format(session, STATE_FORMAT)
    _write(session, move, moved, hadoop_uri(new.location), wanted.state_partitions)
    crash_point("rescale-written")
    new.forget(ROWS)
    new.take_place_of(old, wanted.state_partitions)
    found = shard_states(session, new.location, STATE_FORMAT)
    require_same(
        lambda: described_each(config, name, before, rows),
        lambda: described_each(config, name, after, found),
        name,
    )
    _carry_status(old, new, moved)
    new.write_identity(wanted)
    say(
        f"{name}: {identity.shards} → {wanted.shards} shards, {identity.state_partitions} → "
        f"{wanted.state_partitions} state partitions"
    )
    return written


def _require_still(config: Config, old: Checkpoint, written: Written) -> None:
    """JobFailed where a service went on meanwhile: nothing but the mark keeps its start away."""
    identity, now = old.identity(), None
    with suppress(KafkaUnavailable):
        now = identity and _written(_plan(config, old.pipeline, identity), lockable=False)
    if (old.planned(), now) != written:
        old.forget(MOVED)
        raise JobFailed(
            f"A service was started on {old.pipeline}'s checkpoint meanwhile, or Kafka is away.",
            "It is open again; what was moved is of no use.",
            "Stop the service, and what starts it again; then rescale once more.",
        )


def _moved(
    to: Callable[[int], tuple[Identity, Plan, Resharded]],
    name: str,
    identity: Identity,
    target: Target,
    say: Say,
    *,
    stays: bool,
) -> tuple[Identity, Plan, Resharded]:
    """What ``to`` gives for the target's state partitions.

    For its own where the pipeline ``stays`` in them while something is on its way between shards.
    """
    try:
        return to(target.state_partitions)
    except ValueError as error:
        if not stays or identity.state_partitions == target.state_partitions:
            raise
        say(
            f"{name}: stays in {identity.state_partitions} state partitions, as {error}; to move "
            "it, let it finish first (sequencer run CONFIG --once), then rescale"
        )
        return to(identity.state_partitions)


def _written(plan: Plan, *, lockable: bool) -> list[BatchProgress | None]:
    """Fence who writes still; return how far each partition wrote, of what is written exactly once.

    That may be a service that no lock keeps away, or a worker that does not know that its service
    has ended. What it wrote behind the state that is moved would be read, and delivered, again.
    """
    if not lockable:
        Claim(plan).take()
    found = []
    for each in range(plan.state_partitions + 1) if plan.delivery == "exactly-once" else ():
        producer = make_producer(plan, each)
        with producer.errors("take the checkpoint"):
            producer.begin_session()
            producer.progress()
            found.append(BatchProgress.from_text(*producer.newest_progress()))
    return found


def _require_done(old: Checkpoint, plan: Plan, written: Sequence[BatchProgress | None]) -> None:
    """JobFailed where a batch was begun and is not done: others would write it again.

    What Kafka says of how far it was written is not relied on: a coordinator that is deposed, and
    does not know, says less. A checkpoint that is of another history than what was written, as one
    that was put back, is refused as at a start: its successor's progress has another query, so this
    is the last time that anybody looks.
    """
    status, doubtful = old.status(), old.batch_in_doubt()
    query = old.query()
    own = [each for each in written if each is not None and each.query == query]
    if not all(is_known(each, old) for each in own):
        raise JobFailed(
            f"The checkpoint of pipeline {plan.pipeline} is behind what was written from it.",
            UNCHANGED,
            "Start the service as it was with --accept-repeats, stop it (SIGTERM), then rescale.",
        )
    if not status or doubtful >= 0:
        raise JobFailed(
            f"The last batch of pipeline {plan.pipeline} was begun, and may be written in part.",
            UNCHANGED,
            "Let the service finish it as it was (sequencer run CONFIG --once), then rescale.",
        )


def _plan(config: Config, name: str, identity: Identity, root: str = "") -> Plan:
    """Of the pipeline with this identity, in the checkpoint that it has or another."""
    service = config.service
    changed = {"shards": identity.shards, "checkpoint": root or service.checkpoint}
    service = service.model_copy(update={**changed, "sync": bool(root) or service.sync})
    return make_plan(replace(config, service=service), name, identity, {})


def _write(
    session: SparkSession, move: StateMove, moved: Resharded, location: str, partitions: int
) -> None:
    """Batch 0 of a checkpoint: a query like the pipeline's, which sets states in place of steps."""
    given = f"{location}/{ROWS}"
    schema = f"shard int, {STATE}"
    rows = [(key, state.to_text()) for key, state in moved.rows]
    session.createDataFrame(rows, schema).write.parquet(given)
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    timeout = "ProcessingTimeTimeout" if move.timed else "NoTimeout"
    frame = (
        session.readStream.schema(schema)
        .parquet(given)
        .groupBy("shard")
        .applyInPandasWithState(Put(move.timed), OUT, STATE, "append", timeout)
    )
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", location)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except Exception as error:
        reason = as_sequencer_error(str(error))
        raise JobFailed(
            f"State was not written: {reason.message}", UNCHANGED, reason.remedy
        ) from error


def _carry_status(old: Checkpoint, new: Checkpoint, moved: Resharded) -> None:
    """The counts go on; JobFailed where their sum is another."""
    status = old.status()
    shards = status_of({key: Totals.from_json(state.totals) for key, state in moved.rows})
    was = Totals.sum(Totals(**each) for each in status["shards"].values())
    now = Totals.sum(Totals(**each) for each in shards.values())
    was, now = (replace(each, batches=0, shared=0, oldest_ms=None) for each in (was, now))
    if was != now:
        raise JobFailed(
            f"The counts of pipeline {old.pipeline} would be others: {was} and {now}.",
            UNCHANGED,
            "This is a fault of the program; please report it.",
        )
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    new.write_waiting(moved.waiting)
    # What may still be in transit names the old query's batches, and so do renewals: they are
    # counted on. Keys stay in the partitions that they have.
    kept = Decisions(old)
    standing = [(0, kept.last())] if kept.last() else []
    count = kept.batches_before + old.done()
    moved_on = {"renewals": kept.renewals, "peak_ms": kept.peak_ms, "batches_before": count}
    moved_on["before"] = old.query()
    new.write_decisions({"standing": standing, **moved_on})
    new.write_status({**status, "query": new.query(), "batch": 0, "at": at, "shards": shards})

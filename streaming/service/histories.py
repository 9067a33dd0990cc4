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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from streaming.disciplines.plan import DELIVERY, ExchangePlan, Plan
from streaming.errors import Fenced, InputLost
from streaming.service.checkpoint import Checkpoint
from streaming.service.decisions import CHANGED, PINNED, Decisions
from streaming.service.standing import (
    NAMES,
    Options,
    Standing,
    progress_of,
    standing_of,
    unlike_now,
)
from streaming.sink import failures
from streaming.sink.claim import Claim
from streaming.sink.fences import Fences
from streaming.sink.progress import NOTHING, BatchProgress, nothing_since, same_input
from streaming.sink.writer import make_producer
from streaming.source.losses import OPTION, Loss, said
from streaming.source.planned import lost_of_planned


def settle_alone(
    plan: Plan,
    checkpoint: Checkpoint,
    say: Callable[..., None],
    fences: Fences,
    claim: Claim | None,
    *,
    accept_repeats: bool,
    accept_lost_input: bool,
) -> set[int]:
    """Do :func:`settle` for who holds the checkpoint's lock, or takes the ``claim``.

    A late request of its own past may fence it: a failure that passes. Fenced where another copy
    took the claim since.
    """
    taken: list[Fenced] = []

    def hold() -> None:
        try:
            if claim is not None:
                claim.take()
        except Fenced as error:
            taken.append(error)
            raise

    try:
        return settle(
            plan,
            checkpoint,
            say,
            accept_repeats=accept_repeats,
            accept_lost_input=accept_lost_input,
            hold=hold,
        )
    except Fenced as error:
        failure = error if taken else fences.judged(error, is_alone=True)
        if failure is error:
            raise
        raise failure from error


def settle(
    plan: Plan,
    checkpoint: Checkpoint,
    say: Callable[..., None],
    *,
    accept_repeats: bool,
    accept_lost_input: bool = False,
    hold: Callable[[], None] = lambda: None,
) -> set[int]:
    """See that the checkpoint is whole, and of one history with Kafka's progress.

    Raises CheckpointBehind where Kafka has the progress of a batch that the checkpoint does not
    have, ConfigError where the batch in doubt was planned with something else (`Plan.pinned`), and
    KafkaUnavailable. (Progress that Kafka forgot matters only where a batch is in doubt,
    and is judged by the sink.) ``hold`` takes the checkpoint, before anything is changed. Returned
    are the state partitions of which Kafka has progress.
    """
    if checkpoint.lockable:
        _mend(plan, checkpoint, say)
    query = checkpoint.query()
    if not query:
        _require_new(plan, checkpoint)
        hold()
        query = checkpoint.query()  # another copy may have begun it meanwhile
    if not query:
        _begin_history(plan, checkpoint, say)
        return set()
    options = Options(repeats=accept_repeats, lost_input=accept_lost_input)
    if any(options):
        hold()
        _fence(plan)
    standing = standing_of(plan, checkpoint, query, options)
    if not accept_repeats:
        _require_one_history(plan, standing)
    if not any(options):
        hold()
    _begin_run_again(plan, standing.interrupted)
    if not standing.unlike and unlike_now(plan, Decisions(checkpoint)):
        standing = _planned_as_now(plan, checkpoint, standing, options)
    losses = _lost_of_planned(plan, checkpoint, standing, options) if accept_lost_input else []
    if accept_repeats:
        _accept_repeats(plan, checkpoint, query, standing, say, is_planned_anew=bool(losses))
    if losses:  # the last step: what a start that ends before it does is done by the next one
        say(
            f"{plan.pipeline}: batch {checkpoint.batch_in_doubt()} is planned anew, as input is "
            f"lost: {said(losses)}.",
            event="lost-input",
            level="warning",
            pipeline=plan.pipeline,
        )
        checkpoint.forget_planned()
    _rename_progress(plan, checkpoint, query)
    return standing.remembered


def _begin_history(plan: Plan, checkpoint: Checkpoint, say: Callable[..., None]) -> None:
    """Have a new checkpoint begin behind what another one wrote under the same names.

    It passes over what that left in transit between its shards. Its incarnations are larger, also
    where the clock is behind what it was then: readers take smaller ones for repeats.
    """
    now_ms = round(time.time() * 1000)
    given_ms = max((progress.incarnations_ms for _, progress in _known(plan)), default=0)
    if given_ms >= now_ms:
        say(
            f"{plan.pipeline}: this clock is {(given_ms - now_ms) // 1000} s behind what another "
            "checkpoint of this name gave as incarnations. This one gives larger ones, and times "
            "such as gap.after count from when the clock is there. If that is too long, correct "
            "the clock, or begin with another service.name and output.",
            event="clock-behind",
            level="warning",
            pipeline=plan.pipeline,
        )
    if given_ms >= now_ms or isinstance(plan, ExchangePlan):
        decisions = Decisions(checkpoint)
        decisions.renewals = decisions.renewals[-1:]  # of a start that planned nothing
        decisions.renew(max(now_ms, given_ms + 1), 0)


def _known(plan: Plan) -> Iterator[tuple[int, BatchProgress]]:
    """Yield the progress that Kafka has, by state partition; at-least-once there is none."""
    for partition in range(plan.state_partitions + 1 if plan.delivery == "exactly-once" else 0):
        progress = progress_of(plan, partition, confirmed=False)
        if progress is not None:
            yield partition, progress


def _rename_progress(plan: Plan, checkpoint: Checkpoint, query: str) -> None:
    """Write the progress under the names that the file has given it since the last batch, if any.

    A first batch that is killed would have none, as if Kafka had forgotten it.
    """
    done = checkpoint.done()
    if plan.delivery != "exactly-once" or done < 0 or checkpoint.batch_in_doubt() >= 0:
        return
    decisions = Decisions(checkpoint)
    before, now = decisions.last().get(PINNED, {}), plan.pinned()
    if all(before.get(key, now.get(key)) == now.get(key) for key in (*NAMES, DELIVERY)):
        return
    checkpoint.sync_logs()
    digest, newest_ms = decisions.digest(done, decisions.last()), decisions.newest_ms(done)
    progress = BatchProgress(done, query, digest, newest_ms=newest_ms)
    _take_back(plan, range(plan.state_partitions + 1), progress)
    decisions.standing(done + 1, {**plan.decisions(), PINNED: now})


def _require_one_history(plan: Plan, standing: Standing) -> None:
    for partition, batch in standing.behind.items():
        raise failures.behind(plan, partition, batch)
    if standing.unlike:
        raise failures.planned_otherwise(plan, standing.unlike, standing.planned)


def _planned_as_now(
    plan: Plan, checkpoint: Checkpoint, standing: Standing, options: Options
) -> Standing:
    """Have a batch that is not written be planned as the file says now.

    Another copy, or a worker, may have written it since that was seen, until it is fenced.
    """
    if not any(options):
        _fence(plan)
        standing = standing_of(plan, checkpoint, checkpoint.query(), options)
        _require_one_history(plan, standing)
    Decisions(checkpoint).pin(plan.pinned())
    return standing


def _fence(plan: Plan) -> None:
    """What workers of before still write is there before it is looked at, or never."""
    if plan.delivery == "exactly-once":
        for partition in range(plan.state_partitions + 1):
            producer = make_producer(plan, partition)
            with producer.errors("take its transactional id"):
                producer.begin_session()


def _accept_repeats(
    plan: Plan,
    checkpoint: Checkpoint,
    query: str,
    standing: Standing,
    say: Callable[..., None],
    *,
    is_planned_anew: bool,
) -> None:
    """Take back the progress of what is lost, or of which nobody can tell.

    What was begun gives something else now, or its progress would not have to be taken back: all
    keys get new incarnations. At-least-once there is no progress that could tell.
    """
    is_exact, is_changed = plan.delivery == "exactly-once", _is_changed(checkpoint)
    renewed = bool(standing.behind or standing.begun or standing.differing or standing.unlike)
    renewed = renewed or (is_planned_anew and standing.may_be_written) or bool(standing.of_others)
    renewed = renewed or (bool(standing.written) and is_changed)
    digest = NOTHING
    if renewed or not is_exact:
        checkpoint.forget_later_state()
        # The triples (key, incarnation, sequence) of lost batches name what these wrote, for ever.
        decisions = Decisions(checkpoint)
        if is_changed:  # refused records are named by what the batch was
            decisions.forget_findings()
        decisions.pin(plan.pinned())
        # A key that is new right after a renewal begins a millisecond behind it.
        now_ms = max(round(time.time() * 1000), standing.incarnations_ms + 1)
        decisions.renew(now_ms, checkpoint.done() + 1)
        digest = nothing_since(decisions.renewals[-1][0])
    # With new incarnations no part of a batch is as another partition may have written it.
    lost = range(plan.state_partitions + 1) if renewed else standing.unknown
    progress = BatchProgress(max(checkpoint.done(), 0), query, digest)
    checkpoint.sync_logs()  # it says what is done, which a power cut must not take
    _take_back(plan, [*lost] if is_exact else [], progress)
    if lost:
        say(
            f"{plan.pipeline}: goes on behind batch {checkpoint.done()}. What may have been "
            "written after it is repeated.",
            event="repeats-accepted",
            level="warning",
            pipeline=plan.pipeline,
        )


def _require_new(plan: Plan, checkpoint: Checkpoint) -> None:
    """CheckpointBehind where a first batch is logged without its query, and was written.

    A power cut may take the query's name before anything is written; later it is something else.
    """
    logged = checkpoint.logged_if_kept(0)
    if logged is None:
        return
    for partition, progress in _known(plan):
        if same_input(progress.digest, logged):
            raise failures.behind(plan, partition, progress.batch)


def _lost_of_planned(
    plan: Plan, checkpoint: Checkpoint, standing: Standing, options: Options
) -> list[Loss]:
    """What is gone of the input of the batch in doubt.

    InputLost where nobody accepted that what is left of it is delivered once more.
    """
    batch = checkpoint.batch_in_doubt()
    if batch < 0:
        return []
    losses = lost_of_planned(plan, checkpoint.ends(batch - 1), checkpoint.ends(batch))
    if losses and standing.may_be_written and not options.repeats:
        raise InputLost(
            f"Input is lost: {said(losses)}. Batch {batch}, which was planned with it, or some of "
            "it, may have been written before the last stop.",
            "Nothing was written by this start.",
            f"Start with {OPTION} and --accept-repeats: what is left of the batch is read again, "
            "and delivered once more under new incarnations (docs/backup.md).",
        )
    return losses


def _is_changed(checkpoint: Checkpoint) -> bool:
    """Whether the batch in doubt was found to have other records than what is written of it."""
    return CHANGED in Decisions(checkpoint).findings(checkpoint.batch_in_doubt())


def _mend(plan: Plan, checkpoint: Checkpoint, say: Callable[..., None]) -> None:
    for name in checkpoint.mend():
        is_state = name.startswith("state/")
        then = "an older snapshot of the state is used" if is_state else "its batch begins again"
        say(
            f"{plan.pipeline}: {name} in the checkpoint was not whole, as after a power cut. "
            f"It was removed; {then}.",
            event="mended",
            level="warning",
            pipeline=plan.pipeline,
        )


def _begin_run_again(plan: Plan, partitions: Sequence[int]) -> None:
    """Let a run begin again that found records which Kafka refuses, before anybody kept them.

    It wrote nothing then. Whoever writes is fenced, and begins with what the new run has.
    """
    for partition in partitions:
        producer = make_producer(plan, partition)
        with producer.errors("take its transactional id"):
            producer.begin_session()
            found = BatchProgress.from_text(*producer.progress())
            if found is not None and found.needed_runs:
                producer.send_progress(found.batch, replace(found, needed_runs=0).to_text())
                producer.finish()
        producer.close()


def _take_back(plan: Plan, partitions: Sequence[int], progress: BatchProgress) -> None:
    """Fence all that write, and say in transactions that nothing after the checkpoint counts."""
    for partition in partitions:
        producer = make_producer(plan, partition)
        with producer.errors("take back its progress"):
            producer.begin_session()
            producer.send_progress(progress.batch, progress.to_text())
            producer.finish()
        producer.close()

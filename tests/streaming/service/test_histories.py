"""`--accept-repeats` that ended in the middle is finished by the next start that is given it."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from streaming.disciplines.plan import BatchContext
from streaming.disciplines.refused import FINDING, RECORDS_READ
from streaming.errors import CheckpointBehind, Fenced, KafkaUnavailable
from streaming.service import histories, standing
from streaming.service.checkpoint import Checkpoint
from streaming.service.decisions import CHANGED, Decisions
from streaming.sink import failures
from streaming.sink.fences import Fences
from streaming.sink.progress import NOTHING, BatchProgress, Part, nothing_since
from tests.streaming.service.kept_progress import (
    LOGS,
    RULES,
    Producer,
    checkpoint_in,
    digest_of,
    plan_of,
    settle,
    with_producers,
)


@pytest.fixture
def checkpoint(tmp_path):
    """One in which batch 1 was planned, and is not done."""
    return checkpoint_in(tmp_path)


@pytest.mark.parametrize("part", [None, Part(1, {}, 3)], ids=["went on to batch 5", "wrote a part"])
def test_repeats_are_accepted_once_more(checkpoint, monkeypatch, part, tmp_path):
    Decisions(checkpoint).standing(0, RULES)
    digest = digest_of(checkpoint)
    batch = 5 if part is None else 1
    ahead = BatchProgress(batch, "q", "other.other" if part is None else digest, part)
    whole = BatchProgress(1, "q", digest, read=3)
    kept = {0: (batch, ahead.to_text()), 1: (1, whole.to_text())}
    away = {1}
    with_producers(monkeypatch, kept, away)
    plan = plan_of(2)
    if part is None:
        with pytest.raises(CheckpointBehind):
            settle(plan, checkpoint)
    with pytest.raises(KafkaUnavailable):
        settle(plan, checkpoint, accept_repeats=True)
    away.clear()
    copy = shutil.copytree(tmp_path / "p", tmp_path / "copy")
    settle(plan, checkpoint, accept_repeats=True)
    context = BatchContext("q", 1, digest=digest_of(checkpoint))
    for partition in range(3):
        left = BatchProgress.from_text(*kept[partition])
        assert left.is_taken_back
        assert left.batch < context.batch
    renewals = Decisions(checkpoint).renewals
    settle(plan, checkpoint, accept_repeats=True)
    assert Decisions(checkpoint).renewals == renewals, "nothing is left to accept"
    settle(plan, checkpoint)
    # A copy from before would give the incarnations of lost batches once more.
    shutil.copytree(copy, tmp_path / "p", dirs_exist_ok=True)
    with pytest.raises(CheckpointBehind):
        settle(plan, checkpoint)
    settle(plan, checkpoint, accept_repeats=True)
    assert Decisions(checkpoint).renewals[-1] > renewals[-1]


@pytest.mark.parametrize("accepted", [False, True])
def test_a_copy_that_does_not_know_what_kafka_refused_is_older_than_the_output(
    checkpoint, monkeypatch, accepted
):
    digest = digest_of(checkpoint)
    written = BatchProgress(1, "q", digest, read=3, refusing_runs=1)
    kept = {0: (1, written.to_text())}
    with_producers(monkeypatch, kept, set())
    plan = plan_of(1)
    with pytest.raises(CheckpointBehind):
        settle(plan, checkpoint)
    if accepted:
        settle(plan, checkpoint, accept_repeats=True)
        assert Decisions(checkpoint).renewals, "what is repeated has other names"
    else:
        Decisions(checkpoint).add(1, {FINDING: [[{"role": "output"}]]})
    settle(plan, checkpoint)


def test_a_run_whose_refusals_nobody_kept_begins_again(checkpoint, monkeypatch):
    """The service died between the attempt that found them and its own note of them."""
    found = BatchProgress(1, "q", digest_of(checkpoint), Part(1, {}, 3), needed_runs=1)
    kept = {0: (1, found.to_text()), 1: (1, replace(found, part=Part()).to_text())}
    with_producers(monkeypatch, kept, set())
    plan = plan_of(1)
    before = dict(kept)
    Decisions(checkpoint).add(1, {FINDING: [[{"role": "output"}]]})
    settle(plan, checkpoint)
    assert kept == before, "the next run knows of them"
    Decisions(checkpoint).add(1, {FINDING: []})
    settle(plan, checkpoint)
    left = [BatchProgress.from_text(*kept[partition]) for partition in (0, 1)]
    assert left == [replace(found, needed_runs=0), replace(found, part=Part(), needed_runs=0)]


@pytest.mark.parametrize("changed", [False, True])
def test_refusals_do_not_hold_for_a_batch_that_has_fewer_records_now(
    checkpoint, monkeypatch, changed
):
    found = BatchProgress(1, "q", digest_of(checkpoint), Part(), needed_runs=1)
    with_producers(monkeypatch, {0: (1, found.to_text())}, set())
    findings = {FINDING: [[{"role": "output"}]], RECORDS_READ: {"0": 3}}
    Decisions(checkpoint).add(1, {**findings, **({CHANGED: True} if changed else {})})
    plan = plan_of(1)
    settle(plan, checkpoint, accept_repeats=True)
    assert Decisions(checkpoint).renewals
    assert Decisions(checkpoint).findings(1) == ({} if changed else findings)


def test_what_a_worker_commits_until_it_is_fenced_is_not_repeated_under_its_name(
    checkpoint, monkeypatch
):
    """It lives on when its driver was killed: what is lost is looked at when it cannot write."""
    Decisions(checkpoint).standing(0, RULES)
    digest = digest_of(checkpoint)
    monkeypatch.setattr(Producer, "late", {0: (1, BatchProgress(1, "q", digest, Part()).to_text())})
    kept = {}
    with_producers(monkeypatch, kept, set())
    plan = plan_of(0)
    settle(plan, checkpoint, accept_repeats=True)
    assert Decisions(checkpoint).renewals, "a part of it is written"


def test_repeats_behind_another_checkpoint_have_names_of_their_own(checkpoint, monkeypatch):
    """It may be the successor of this one, which was put back from before a move."""
    Decisions(checkpoint).standing(0, RULES)
    kept = {0: (9, BatchProgress(9, "successor", "other.other", read=3).to_text())}
    with_producers(monkeypatch, kept, set())
    plan = plan_of(0)
    decisions = Decisions(checkpoint)
    decisions.before = "successor"  # by the move that made this checkpoint: it is the predecessor
    decisions.add(1, {})
    settle(plan, checkpoint, accept_repeats=True)
    assert not Decisions(checkpoint).renewals
    kept[0] = (9, BatchProgress(9, "another", "other.other", read=3).to_text())
    for _ in range(2):
        settle(plan, checkpoint, accept_repeats=True)
        assert len(Decisions(checkpoint).renewals) == 1


AHEAD_MS = 2**52


@pytest.mark.parametrize(
    "known",
    [
        BatchProgress(0, "q", nothing_since(AHEAD_MS)),
        BatchProgress(9, "q", "other.other", newest_ms=AHEAD_MS + 1),
    ],
    ids=["taken back", "written"],
)
def test_incarnations_are_later_than_those_of_lost_batches(checkpoint, monkeypatch, known):
    """Also where the clock is behind them: a backup that is put back once more, or a clock set."""
    Decisions(checkpoint).standing(0, RULES)
    written = BatchProgress(9, "q", "other.other", read=3)
    kept = {n: (each.batch, each.to_text()) for n, each in enumerate((written, known))}
    with_producers(monkeypatch, kept, set())
    settle(plan_of(1), checkpoint, accept_repeats=True)
    ((renewed_ms, _),) = Decisions(checkpoint).renewals
    assert renewed_ms > AHEAD_MS + 1  # new keys begin a millisecond after a renewal


@pytest.mark.parametrize("given_ms", [0, 1_000, AHEAD_MS])
def test_a_new_checkpoint_gives_larger_incarnations_than_the_one_before(
    tmp_path, monkeypatch, given_ms
):
    """Readers take smaller ones for repeats; the clock may be behind what it was then."""
    checkpoint, said = checkpoint_in(tmp_path, {}), []
    other = BatchProgress(9, "another", "other.other", newest_ms=given_ms)
    with_producers(monkeypatch, {1: (9, other.to_text())} if given_ms else {}, set())
    plan = plan_of(2)
    for _ in range(2):  # the first start may have planned nothing
        histories.settle(
            plan, checkpoint, lambda text, **_: said.append(text), accept_repeats=False
        )
    if given_ms < AHEAD_MS:
        assert (said, Decisions(checkpoint).renewals) == ([], [])
        return
    ((renewed_ms, batch),) = Decisions(checkpoint).renewals[-1:]
    assert (renewed_ms > given_ms, batch) == (True, 0)
    assert "s behind what another checkpoint of this name gave" in said[0]
    plan.delivery = "at-least-once"  # it has no progress
    histories.settle(plan, checkpoint_in(tmp_path / "new", {}), said.remove, accept_repeats=False)


def test_a_start_that_is_refused_takes_nothing_from_whoever_works(checkpoint, monkeypatch):
    Decisions(checkpoint).standing(0, RULES)
    kept, taken = {0: (5, BatchProgress(5, "q", "other.other").to_text())}, []
    with_producers(monkeypatch, kept, set())
    plan = plan_of(0)

    def hold():
        taken.append(Decisions(checkpoint).renewals)

    with pytest.raises(CheckpointBehind):
        settle(plan, checkpoint, hold=hold)
    assert not taken
    settle(plan, checkpoint, accept_repeats=True, hold=hold)
    assert taken == [[]], "before anything is changed"


def test_a_first_batch_without_its_query_is_refused_where_it_was_written(checkpoint, monkeypatch):
    """A power cut takes the query's name before anything is written; this was put back in part."""
    for name in ("metadata", "offsets/1", "commits/0"):
        Path(checkpoint.location, name).unlink()
    plan = plan_of(0)
    digest = Decisions(checkpoint).digest(0, {})
    kept = {0: (0, BatchProgress(0, "gone", digest, read=3).to_text())}
    with_producers(monkeypatch, kept, set())
    with pytest.raises(CheckpointBehind):
        settle(plan, checkpoint)
    kept[0] = (0, BatchProgress(0, "an older one", "other.other").to_text())
    assert not settle(plan, checkpoint)


def test_which_progress_a_checkpoint_knows(checkpoint):
    """Batch 1 is planned in it. What others wrote behind that, or took back, it does not have."""

    def knows(batch, digest):
        return standing.is_known(BatchProgress(batch, "q", digest), checkpoint)

    own = digest_of(checkpoint)
    assert knows(1, own)
    assert not knows(1, "other.other")
    assert not knows(2, own)
    assert knows(0, NOTHING)
    assert not knows(1, NOTHING), "batch 1 was done where it was taken back"
    assert not knows(2, NOTHING), "this checkpoint is older than the one that took it back"
    Decisions(checkpoint).renew(7, 1)
    since = nothing_since(Decisions(checkpoint).renewals[-1][0])
    assert knows(0, since)
    assert not knows(2, since)
    assert not knows(0, f"{since}0"), "of a renewal that this checkpoint does not have"


def test_what_was_taken_back_before_any_batch_was_done_is_known(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "metadata").write_text(LOGS["metadata"])
    bare = Checkpoint(str(tmp_path), "p")
    assert standing.is_known(BatchProgress(0, "q", NOTHING), bare)
    assert not standing.is_known(BatchProgress(0, "q", "other.other"), bare), "put back from before"
    assert not standing.is_known(BatchProgress(1, "q", NOTHING), bare)


def test_a_late_request_of_its_own_past_does_not_end_a_start(monkeypatch):
    """It fences what takes progress back, say; who took the claim since is no such request."""

    def fenced(*_args, **_more):
        raise failures.fenced()

    def settle_alone(claim):
        options = {"accept_repeats": True, "accept_lost_input": False}
        histories.settle_alone(None, None, None, Fences(), claim, **options)

    monkeypatch.setattr(histories, "settle", fenced)
    with pytest.raises(KafkaUnavailable, match="the only one on its checkpoint"):
        settle_alone(None)
    monkeypatch.setattr(histories, "settle", lambda *_args, hold, **_more: hold())
    with pytest.raises(Fenced):
        settle_alone(SimpleNamespace(take=fenced))

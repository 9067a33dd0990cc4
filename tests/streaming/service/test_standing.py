"""What a planned batch holds a start to: settings, topics, delivery."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from streaming.disciplines.plan import DELIVERY
from streaming.errors import ConfigError
from streaming.service import standing
from streaming.service.decisions import PINNED, Decisions
from streaming.sink.progress import NOTHING, BatchProgress
from tests.streaming.service.kept_progress import (
    LOGS,
    RULES,
    Producer,
    checkpoint_in,
    plan_of,
    settle,
    with_producers,
)


@pytest.fixture
def checkpoint(tmp_path):
    """One in which batch 1 was planned, and is not done."""
    return checkpoint_in(tmp_path)


@pytest.mark.parametrize("name", sorted(standing.NAMES))
def test_what_names_progress_is_as_it_was_while_a_batch_is_in_doubt(checkpoint, monkeypatch, name):
    """Under another name there is no progress, or that of before: nobody sees what is written."""
    before = {"events": "events", "service.name": "s", "pipeline": "p"}
    with_producers(monkeypatch, {0: (0, BatchProgress(0, "q", NOTHING).to_text())}, set())
    plan = plan_of(0, pinned=lambda: {**before, name: "another"})
    Decisions(checkpoint).standing(0, {**RULES, PINNED: before})
    with pytest.raises(ConfigError, match=name):
        settle(plan, checkpoint)
    assert Decisions(checkpoint).pinned() == before


@pytest.mark.parametrize("is_deposed", [False, True])
def test_what_a_planned_batch_cannot_do_without_is_as_it_was(checkpoint, monkeypatch, is_deposed):
    """Partitions that have committed it under the old label would step by the new one.

    That nothing is committed is taken from no coordinator that may be deposed.
    """
    before = {"output": "out", "label": "header('label')"}
    now = {**before, "label": "header('seq')"}
    kept, older = {}, {} if is_deposed else None
    with_producers(monkeypatch, kept, set(), older)
    plan = plan_of(1, pinned=lambda: now)
    Decisions(checkpoint).standing(0, {**RULES, PINNED: before})
    kept |= {n: (0, BatchProgress(0, "q", NOTHING).to_text()) for n in range(2)}
    settle(plan, checkpoint)
    assert Decisions(checkpoint).pinned() == now, "nothing of batch 1 is written: it is as now"
    digest = Decisions(checkpoint).planned_digest()
    kept[0] = (1, BatchProgress(1, "q", digest, read=3).to_text())
    settle(plan, checkpoint)
    now["label"] = "key"
    with pytest.raises(ConfigError, match=r"batch 1 was planned.*label was \"header\('seq'\)\""):
        settle(plan, checkpoint)
    settle(plan, checkpoint, accept_repeats=True)
    assert Decisions(checkpoint).renewals, "what is written of it is written once more"
    assert Decisions(checkpoint).pinned() == now
    settle(plan, checkpoint)


def test_at_least_once_a_repeated_batch_gives_what_it_gave(checkpoint):
    """Under another label it would give its numbers to other records, which readers pass over."""
    before = {"label": "header('label')", DELIVERY: "exactly-once"}
    Decisions(checkpoint).standing(0, {**RULES, PINNED: before})
    now = {**before, "label": "key", DELIVERY: "at-least-once"}
    plan = plan_of(1, pinned=lambda: now)
    plan.delivery = "at-least-once"
    with pytest.raises(ConfigError, match=r"batch 1 was planned.*label was \"header"):
        settle(plan, checkpoint)
    now["label"] = before["label"]
    settle(plan, checkpoint)
    assert Decisions(checkpoint).pinned() == now, "it may be written at least once"


def test_a_batch_that_was_begun_at_least_once_has_to_end(checkpoint, monkeypatch):
    """Its progress is older than it, or there is none: neither says that it is not written."""
    kept = {n: (0, BatchProgress(0, "q", NOTHING).to_text()) for n in range(2)}
    with_producers(monkeypatch, kept, set())
    Decisions(checkpoint).standing(0, {**RULES, PINNED: {DELIVERY: "at-least-once"}})
    plan = plan_of(1, pinned=lambda: {DELIVERY: "exactly-once"})
    with pytest.raises(ConfigError, match=r"service\.delivery was 'at-least-once'; some of it may"):
        settle(plan, checkpoint)
    settle(plan, checkpoint, accept_repeats=True)
    assert Decisions(checkpoint).renewals, "what is written of it is written once more"


def test_a_topic_that_is_read_no_more_is_named(checkpoint):
    """Commands under another name, say: nothing would say where their records went."""
    plan = SimpleNamespace(pipeline="p", reads=("in",))
    standing._require_topics(plan, checkpoint)
    plan.reads = ("in.2", "commands")
    with pytest.raises(ConfigError, match="has read in, which is none of its topics"):
        standing._require_topics(plan, checkpoint)


@pytest.mark.parametrize("until", ["is taken", "is begun and taken", "is fenced"])
def test_what_is_written_until_a_start_has_the_checkpoint_counts(checkpoint, monkeypatch, until):
    """Another copy is at work on an object store, or a worker has outlived its driver."""
    before, now = {"label": "header('label')"}, {"label": "key"}
    Decisions(checkpoint).standing(0, {**RULES, PINNED: before})
    written = BatchProgress(1, "q", Decisions(checkpoint).planned_digest(), read=3)
    kept = {n: (0, BatchProgress(0, "q", NOTHING).to_text()) for n in range(2)}
    late = {0: (1, written.to_text())}
    with_producers(monkeypatch, kept, set())
    metadata = Path(checkpoint.location, "metadata")
    monkeypatch.setattr(Producer, "late", {})
    if until == "is begun and taken":
        metadata.unlink()

    def hold():
        metadata.write_text(LOGS["metadata"])
        (Producer.late if until == "is fenced" else kept).update(late)

    with pytest.raises(ConfigError, match="batch 1 was planned"):
        settle(plan_of(1, pinned=lambda: now), checkpoint, hold=hold)
    assert Decisions(checkpoint).pinned() == before
    assert settle(plan_of(1, pinned=lambda: before), checkpoint, hold=hold)


def test_a_batch_that_another_copy_finishes_meanwhile_is_named(checkpoint, monkeypatch):
    class Progressing(dict):
        def get(self, *key):
            Path(checkpoint.location, "commits", "1").write_text("v1\n{}")
            return super().get(*key)

    Decisions(checkpoint).standing(0, {**RULES, PINNED: {"events": "events"}})
    with_producers(monkeypatch, Progressing(), set())
    plan = plan_of(0, pinned=lambda: {"events": "others"})
    with pytest.raises(ConfigError, match="when batch 1 was planned"):
        settle(plan, checkpoint)

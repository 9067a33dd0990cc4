"""Progress under names that the file has given it since its last batch."""

from pathlib import Path

import pytest

from streaming.disciplines.plan import DELIVERY
from streaming.service import standing
from streaming.service.decisions import PINNED, Decisions
from streaming.sink.progress import BatchProgress
from tests.streaming.service.kept_progress import (
    LOGS,
    RULES,
    checkpoint_in,
    plan_of,
    settle,
    with_producers,
)

BEFORE = {"events": "events", "service.name": "s", "pipeline": "p", DELIVERY: "exactly-once"}


@pytest.fixture
def checkpoint(tmp_path):
    """One in which batch 1 is done."""
    return checkpoint_in(tmp_path, {**LOGS, "commits/1": "v1\n{}"})


@pytest.mark.parametrize("name", sorted({*standing.NAMES, DELIVERY}))
def test_a_first_batch_that_is_killed_has_progress(checkpoint, monkeypatch, name):
    """Without any, nobody could tell whether it is written: the start would be refused."""
    kept, now = {}, {**BEFORE}
    with_producers(monkeypatch, kept, set())
    Decisions(checkpoint).standing(0, {**RULES, PINNED: {**BEFORE, name: "another"}})
    plan = plan_of(1, pinned=lambda: now)
    plan.decisions = lambda: RULES
    settle(plan, checkpoint)
    assert sorted(kept) == [0, 1]
    for progress in kept.values():
        found = BatchProgress.from_text(*progress)
        assert (found.batch, found.query) == (1, "q")
        assert standing.is_known(found, checkpoint)
    Path(checkpoint.location, "offsets/2").write_text('v1\n{}\n{"in":{"0":3}}')
    assert Decisions(checkpoint).pinned() == now, "also if it is killed before it decides"
    kept.clear()
    kept |= {n: (1, found.to_text()) for n in range(2)}
    assert settle(plan, checkpoint)


def test_nothing_is_written_under_the_same_names(checkpoint, monkeypatch):
    kept = {}
    with_producers(monkeypatch, kept, set())
    for pinned in ({}, {**BEFORE}, {**BEFORE, "label": "key"}):
        Decisions(checkpoint).standing(0, {**RULES, PINNED: pinned})
        plan = plan_of(1, pinned=lambda: BEFORE)
        settle(plan, checkpoint)
    assert not kept

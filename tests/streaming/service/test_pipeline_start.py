"""The steps of a pipeline's start; real ones: `tests/spark`."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from streaming.config import parse_config
from streaming.errors import KafkaUnavailable, StorageUnavailable
from streaming.service import pipeline
from streaming.service.pipeline import Pipeline
from streaming.sink import failures

TABLES = {"pipelines": {"p": {"discipline": "channel"}}}


@pytest.fixture
def mine(monkeypatch):
    """A pipeline whose steps are noted in ``steps``."""
    steps = []

    def step(name):
        return lambda *_args, **_more: steps.append(name) or MagicMock()

    for name in ("settle", "source_of", "build", "start", "Carrier", "MarksWriter"):
        monkeypatch.setattr(pipeline, name, step(name))
    checkpoint = MagicMock(remove_damaged_figures=list, status=dict, batch_in_doubt=lambda: -1)
    config = parse_config(TABLES, {}, "c.toml")
    made = Pipeline(
        MagicMock(), config, "p", checkpoint, say=print, once=False, accept_repeats=False
    )
    plan = SimpleNamespace(
        progress="p.progress", state_partitions=2, shards=4, pipeline="p", reads=()
    )
    monkeypatch.setattr(made, "_plan", lambda: plan)
    made.steps = steps
    return made


def test_no_query_runs_where_marks_cannot_begin(mine, monkeypatch):
    """Its carrier would be nobody's: the next start makes another."""

    def fail(*_args):
        raise StorageUnavailable("The checkpoint's storage does not answer.")

    monkeypatch.setattr(pipeline, "MarksWriter", fail)
    with pytest.raises(StorageUnavailable):
        mine.start()
    assert "start" not in mine.steps
    assert mine.query is None


def test_the_query_is_started_last(mine):
    mine.start()
    assert mine.steps[-2:] == ["MarksWriter", "start"]
    assert mine.starts == 1


def test_a_late_request_of_its_own_past_does_not_end_a_start(mine, monkeypatch):
    """It fences what confirms progress, or takes it back; the lock says that nobody else is there."""

    def fenced(*_args, **_more):
        raise failures.fenced()

    monkeypatch.setattr(pipeline, "settle", fenced)
    with pytest.raises(KafkaUnavailable, match="the only one on its checkpoint"):
        mine.start()
    assert mine.starts == 0, "options are given to the next try, too"


def test_on_an_object_store_a_start_takes_the_checkpoint_before_it_changes_anything(
    mine, monkeypatch
):
    mine.checkpoint.lockable = False
    monkeypatch.setattr(
        pipeline, "Claim", lambda _: SimpleNamespace(take=lambda: mine.steps.append("take"))
    )
    mine.start()
    assert mine.steps[:2] == ["take", "settle"]

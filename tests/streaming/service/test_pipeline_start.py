"""The steps of a pipeline's start; real ones: `tests/spark`."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from streaming.config import parse_config
from streaming.disciplines.state_row import STATE_FORMAT
from streaming.errors import ConfigError, KafkaUnavailable, StorageUnavailable
from streaming.kafka import client_settings
from streaming.service import pipeline
from streaming.service.pipeline import Pipeline
from tests.streaming.sink.numbered import make_plan

TABLES = {"pipelines": {"p": {"discipline": "channel"}}}


@pytest.fixture
def mine(monkeypatch):
    """A pipeline whose steps are noted in ``steps``."""
    steps = []

    def step(name):
        return lambda *_args, **_more: steps.append(name) or MagicMock()

    for name in ("settle_alone", "source_of", "build", "start", "Carrier", "MarksWriter"):
        monkeypatch.setattr(pipeline, name, step(name))
    checkpoint = MagicMock(
        remove_damaged_figures=list,
        status=dict,
        batch_in_doubt=lambda: -1,
        state_format=lambda: STATE_FORMAT,
    )
    config = parse_config(TABLES, {}, "c.toml")
    made = Pipeline(
        MagicMock(), config, "p", checkpoint, say=print, once=False, accept_repeats=False
    )
    plan = SimpleNamespace(
        progress="p.progress",
        state_partitions=2,
        shards=4,
        pipeline="p",
        reads=(),
        delivery="exactly-once",
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


def test_no_query_runs_on_a_checkpoint_that_was_moved_while_the_start_took_it(mine, monkeypatch):
    """On an object store no lock keeps a start away: it may have looked before the move ended."""
    mine.checkpoint.lockable = False
    monkeypatch.setattr(pipeline, "Claim", MagicMock())
    closed = MagicMock(side_effect=ConfigError("The state of pipeline p was moved."))

    def settle(*_args, **_more):
        mine.checkpoint.require_here = closed  # `sequencer rescale` held the claim until now

    monkeypatch.setattr(pipeline, "settle_alone", settle)
    with pytest.raises(ConfigError, match="was moved"):
        mine.start()
    assert "start" not in mine.steps


def test_a_claim_is_taken_with_the_password_that_its_file_has_now(
    mine, monkeypatch, secure_broker, topic_prefix
):
    """The first start makes it; a start after a renewal has to take it all the same."""
    kafka = {
        "bootstrap_servers": secure_broker.sasl,
        "properties": secure_broker.properties("sasl", "PLAIN"),
    }
    words = client_settings.words(parse_config({**TABLES, "kafka": kafka}, {}, "c.toml"))
    plan = make_plan(secure_broker, topic_prefix, count=1, producer=words)
    before = replace(plan, producer={**plan.producer, "sasl.password": "that of before"})
    plans = [plan, before]
    mine.checkpoint.lockable = False
    monkeypatch.setattr(pipeline, "settle_alone", lambda *given, **_more: given[4].take())
    monkeypatch.setattr(mine, "_plan", plans.pop)
    with pytest.raises(KafkaUnavailable, match="Authentication failed"):
        mine.start()
    mine.start()
    assert mine.starts == 1


def test_who_writes_what_a_pipeline_reads_is_before_it():
    """With ``--once`` it works on until these have ended."""
    group = {"discipline": "group", "groups": {"G": ["A"]}, "output": "g.{subscriber}"}
    tables = {
        "g": {**group, "commands": "c.out"},
        "c": {"discipline": "channel"},
        "a": {"discipline": "channel", "input": "g.A"},
        "r": {"discipline": "label", "input": ["a.rejects", "a.events"]},
    }
    config = parse_config({"pipelines": tables}, {}, "c.toml")
    all_of_it = [
        Pipeline(MagicMock(), config, name, MagicMock(), say=print, once=True, accept_repeats=False)
        for name in tables
    ]
    before = {each.name: [other.name for other in each.upstream(all_of_it)] for each in all_of_it}
    assert before == {"g": ["c"], "c": [], "a": ["g"], "r": ["a"]}

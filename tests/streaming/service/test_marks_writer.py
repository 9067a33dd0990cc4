"""The thread that writes marks: it outlives what fails, and a stop has one limit for all."""

import contextlib
import json
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from streaming.config import parse_config
from streaming.disciplines.refused import Refusal
from streaming.kafka import client_settings
from streaming.service import marks, run
from streaming.service.marks import Done, MarksWriter
from streaming.service.pipeline import Pipeline
from streaming.service.progress import Progress
from streaming.service.run import Service
from streaming.sink import failures
from streaming.sink.refusals import RecordsRefused
from streaming.spark import queries
from streaming.wire.bounds import Bound
from tests.kafka_helpers import read_all, until
from tests.secure_broker import PASSWORD
from tests.streaming.sink import numbered

WAIT_SECONDS_MAX = 30
DONE = Done({}, {}, {})
CHECKPOINT = SimpleNamespace(done=lambda: -1, logged_if_kept=lambda _: None)


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(marks, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(marks, "IDLE_SECONDS", 0.02)


def writer(said=None, before=None):
    plan = SimpleNamespace(
        pipeline="p",
        inputs=(),
        shards=1,
        output="out",
        progress="p.progress",
        delivery="exactly-once",
        producer={},
    )
    say = (said if said is not None else []).append
    return MarksWriter(plan, CHECKPOINT, Progress(), lambda text, **_: say(text), before)


def ended(*writers):
    for each in writers:
        each.ask_to_stop()
        each.wait_stopped(time.monotonic() + WAIT_SECONDS_MAX)
        assert not each._thread.is_alive()


class Bounds:
    """Of a topic that has a second partition, which who looks for leaders sees."""

    partitions = 1

    def refresh(self, **_more):
        self.partitions = 2

    def __call__(self, _which):
        return {"in": {at: Bound(5, 0) for at in range(self.partitions)}, "out": {}}


def test_a_password_that_was_renewed_after_the_query_began(tmp_path, secure_broker, topic_prefix):
    """Its plan has that of its start, and the query may go on over connections of before."""
    secret, said = tmp_path / "secret", []
    secret.write_text("that of before")
    properties = secure_broker.properties("sasl", "PLAIN")
    properties["sasl.password"] = f"${{file:{secret}}}"
    tables = {
        "kafka": {"bootstrap_servers": secure_broker.sasl, "properties": properties},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    config = parse_config(tables, {}, "c.toml")
    words = client_settings.words(config)
    plan = numbered.make_plan(secure_broker, topic_prefix, count=1, producer=words)
    plan = replace(plan, inputs=(plan.output,), progress=plan.events)
    mine = MarksWriter(
        plan, CHECKPOINT, Progress(), lambda text, **_: said.append(text), None, config
    )
    home = f"{plan.output}/0"
    mine._done = Done({plan.output: {"0": 0}}, {home: 5}, {})
    until(lambda: said)
    secret.write_text(PASSWORD)
    (mark, *_) = until(lambda: read_all(secure_broker.bootstrap, plan.events))
    ended(mine)
    assert json.loads(mark.value)["read_until_ms"] == 5
    assert len(said) == 1


def test_a_partition_that_an_input_was_given_is_seen(monkeypatch):
    producer, seen = SimpleNamespace(errors=lambda _: contextlib.nullcontext()), []
    monkeypatch.setattr(MarksWriter, "_connected", lambda _: (producer, Bounds()))
    monkeypatch.setattr(marks, "marks", lambda _done, ends, *_: seen.append(ends) or {})
    mine = writer()
    mine._done = DONE
    until(lambda: seen)
    ended(mine)
    assert {*seen[0]["in"]} == {0, 1}


def test_whatever_fails_is_said_and_tried_again(monkeypatch):
    error = RuntimeError("Concurrent access to net.poll!")
    asked, bad, said = [], [error], []
    producer = SimpleNamespace(errors=lambda _: contextlib.nullcontext())

    def connected(_self):
        asked.append(len(bad))
        if bad:
            raise bad[0]
        return producer, Bounds()

    monkeypatch.setattr(MarksWriter, "_connected", connected)
    mine = writer(said)
    mine._done = DONE
    until(lambda: len(asked) >= 3)
    assert said == ["p: progress marks wait: RuntimeError: Concurrent access to net.poll!"]
    bad.clear()
    until(lambda: asked.count(0) >= 2)
    bad.append(error)
    until(lambda: len(said) == 2)
    ended(mine)


def test_a_mark_that_kafka_refuses_is_said_in_words(monkeypatch):
    def finish():
        raise RecordsRefused(
            [Refusal("p.progress", "too-large", "MESSAGE_TOO_LARGE", b"0", {}, 0, 0)]
        )

    producer = SimpleNamespace(
        errors=lambda _: contextlib.nullcontext(), write=lambda *_: None, finish=finish
    )
    monkeypatch.setattr(MarksWriter, "_connected", lambda _: (producer, Bounds()))
    monkeypatch.setattr(marks, "marks", lambda *_: {"0": {}})
    said = []
    mine = writer(said)
    mine._done = DONE
    until(lambda: said)
    ended(mine)
    assert said == [
        "p: progress marks wait: Kafka failed to write 1 record, the first of them to p.progress: "
        f"MESSAGE_TOO_LARGE. {failures.TOO_LARGE}"
    ]


def test_a_writer_waits_until_the_one_before_has_ended(monkeypatch):
    """Both would drive the same connections."""
    answered, writing = threading.Event(), []

    def write(mine, _done):
        writing.append(mine)
        answered.wait(WAIT_SECONDS_MAX)
        return True

    monkeypatch.setattr(MarksWriter, "_write", write)
    first = writer()
    first._done = DONE
    until(lambda: writing)
    second = writer(before=first)
    third = writer(before=second)
    for each in (second, third):
        each._done = DONE
    time.sleep(0.1)
    assert {*map(id, writing)} == {id(first)}
    answered.set()
    until(lambda: third in writing)
    assert second not in writing, "the third has what it would write"
    assert not first._thread.is_alive()
    ended(first, second, third)


def test_the_last_marks_of_all_pipelines_have_one_limit(monkeypatch):
    """While Kafka is away no mark is taken: a stop has 60 s, however many pipelines there are."""
    waited = []
    monkeypatch.setattr(
        MarksWriter, "wait_stopped", lambda mine, deadline: waited.append((mine, deadline))
    )
    writers = [writer() for _ in range(5)]
    began = time.monotonic()
    Service._stop(None, [stopped(each) for each in writers], SimpleNamespace(deserted=False))
    assert [mine for mine, _ in waited] == writers
    assert len({deadline for _, deadline in waited}) == 1
    assert waited[0][1] <= time.monotonic() + marks.END_SECONDS_MAX
    assert run.MARKED_SECONDS_MAX + 15 < 60
    assert all(each._ending.is_set() for each in writers)
    assert began <= waited[0][1]


def stopped(its):
    """A pipeline whose query never started."""
    pipeline = Pipeline.__new__(Pipeline)
    pipeline.query = pipeline.source = pipeline.carrier = None
    pipeline._marks = its
    return pipeline


def test_queries_that_hang_have_one_limit(monkeypatch):
    now, joined = [100.0], []

    def join(seconds):
        joined.append(seconds)
        now[0] += seconds

    thread = SimpleNamespace(start=lambda: None, join=join)
    monkeypatch.setattr(queries, "threading", SimpleNamespace(Thread=lambda **_: thread))
    monkeypatch.setattr(queries, "time", SimpleNamespace(monotonic=lambda: now[0]))
    hangs = SimpleNamespace(isActive=True, stop=None)
    for _ in range(3):
        queries.stop_between_batches(hangs, 100.0)
    assert joined == [queries.QUERY_SECONDS_MAX, 0.0, 0.0]

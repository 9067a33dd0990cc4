"""Lag in records, and in seconds since an end beyond what was read was first seen."""

import random
import threading
from types import SimpleNamespace

import pytest

from streaming.errors import KafkaUnavailable
from streaming.kafka import topics
from streaming.kafka.lag import Lag
from streaming.service.metrics import lag_watch
from streaming.service.metrics.lag_watch import MARKS_MAX, Backlog, LagWatch

PLACE = ("t", 0)


def read(offset):
    return {"t": {"0": offset}}


def test_it_grows_while_nothing_moves():
    backlog = Backlog()
    assert backlog.lag(0) is None
    backlog.see({PLACE: 10}, 100.0)
    assert backlog.lag(100.0) == Lag(10, 0.0)
    assert backlog.lag(160.0) == Lag(10, 60.0), "nobody looks, nobody reads"
    backlog.see({PLACE: 30}, 160.0)
    assert backlog.lag(161.0) == Lag(30, 61.0)
    backlog.read(read(10))
    assert backlog.lag(161.0) == Lag(20, 1.0)
    backlog.read(read(30))
    assert backlog.lag(500.0) == Lag(0, 0.0)
    backlog.see({PLACE: 31}, 600.0)
    assert backlog.lag(602.0) == Lag(1, 2.0)
    backlog.see({PLACE: 3}, 700.0)
    assert backlog.lag(701.0) == Lag(0, 0.0), "made again: it is not known how much was read of it"


def test_partitions_count_together():
    backlog = Backlog()
    backlog.see({("t", 0): 5, ("t", 1): 7, ("u", 0): 0}, 10.0)
    backlog.read({"t": {"0": 5}})
    assert backlog.lag(15.0) == Lag(7, 5.0)


@pytest.mark.parametrize("seed", range(20))
def test_few_marks_say_about_as_much(seed):
    """Never less than the truth; nothing where all is read."""
    rng = random.Random(seed)
    backlog, marks, end, done = Backlog(), [], 0, 0
    for now in range(400):
        end = end + rng.randrange(4)
        done = min(done + rng.randrange(4) * (rng.random() < 0.7), end)
        marks.append((end, now))
        backlog.see({PLACE: end}, now)
        backlog.read(read(done))
        found = backlog.lag(now)
        assert found.records == end - done
        assert found.seconds >= max((now - at for mark, at in marks if mark > done), default=0)
        assert found.seconds == 0 or end > done
        assert len(backlog._marks[PLACE]) <= MARKS_MAX


def pipeline_after(read_up_to):
    settings = SimpleNamespace(input=["t"], commands="c")
    return SimpleNamespace(
        name="p",
        last_report=None,
        checkpoint=SimpleNamespace(read_up_to=read_up_to),
        config=SimpleNamespace(pipelines={"p": settings}),
    )


def test_what_was_read_since_the_last_look_is_no_lag(monkeypatch):
    """Batches end several times between two looks at the topics."""
    pipeline = pipeline_after(lambda: read(10))
    monkeypatch.setattr(topics, "ends", lambda _config, _names, **_: {PLACE: 30})
    monkeypatch.setattr(topics, "begins", lambda _config, _names, **_: pytest.fail("all was read"))
    watch = LagWatch([pipeline])
    assert watch.of("p") is None
    watch._look_at(pipeline)
    assert watch.of("p").records == 20
    pipeline.last_report = {"sources": [{"endOffset": '{"t": {"0": 30}}'}]}
    assert watch.of("p") == Lag(0, 0.0)


def test_what_was_deleted_before_anything_was_read_is_no_lag(monkeypatch):
    pipeline = pipeline_after(dict)
    monkeypatch.setattr(topics, "ends", lambda _config, _names, **_: {PLACE: 1_000_030})
    monkeypatch.setattr(topics, "begins", lambda _config, _names, **_: {PLACE: 1_000_010})
    watch = LagWatch([pipeline])
    watch._look_at(pipeline)
    assert watch.of("p").records == 20
    pipeline.last_report = {"sources": [{"endOffset": '{"t": {"0": 1000029}}'}]}
    assert watch.of("p").records == 1


def test_a_look_that_fails_reads_the_passwords_anew(monkeypatch):
    """They may have been changed while the pipelines' own connections stay."""
    done = threading.Event()

    def look_at(_watch, _pipeline):
        raise KafkaUnavailable("no password")

    monkeypatch.setattr(lag_watch, "EVERY_SECONDS", 0.001)
    monkeypatch.setattr(LagWatch, "_look_at", look_at)
    watch = LagWatch([SimpleNamespace(config=SimpleNamespace(renew=done.set))])
    watch.start()
    assert done.wait(60)
    watch.end()
    watch.join(60)


def test_a_look_does_not_announce_that_it_waits(monkeypatch):
    """The service says once that Kafka is away; looks come every few seconds, also for hours."""
    asked = []

    def wait(_config, *, announce):
        asked.append(announce)
        raise KafkaUnavailable("It does not answer.")

    monkeypatch.setattr(topics.connection, "wait_for_kafka", wait)
    pipeline = SimpleNamespace(
        name="p",
        last_report=None,
        checkpoint=SimpleNamespace(read_up_to=dict),
        config=SimpleNamespace(pipelines={"p": SimpleNamespace(input=["t"], commands="c")}),
    )
    with pytest.raises(KafkaUnavailable):
        LagWatch([pipeline])._look_at(pipeline)
    assert asked == [False]

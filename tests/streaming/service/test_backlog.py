"""Lag in records, and in seconds since an end beyond what was read was first seen."""

import random
from types import SimpleNamespace

import pytest

from streaming.config import parse_config
from streaming.errors import KafkaUnavailable
from streaming.kafka import topics
from streaming.kafka.lag import Lag
from streaming.service.metrics import lag_watch
from streaming.service.metrics.lag_watch import BLIND_SECONDS, MARKS_MAX, Backlog, LagWatch
from tests.kafka_helpers import create_topics, until
from tests.secure_broker import PASSWORD

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
    backlog.see({PLACE: 30}, 480.0)
    assert backlog.lag(500.0) == Lag(0, 0.0)
    backlog.see({PLACE: 31}, 600.0)
    assert backlog.lag(602.0) == Lag(1, 2.0)
    backlog.see({PLACE: 3}, 700.0)
    assert backlog.lag(701.0) == Lag(0, 0.0), "made again: it is not known how much was read of it"


def test_while_the_ends_are_not_seen_it_counts_from_the_last_look():
    """Reading overtakes the ends of before: no alert could fire, whatever arrives."""
    backlog = Backlog(looked=100.0)
    assert backlog.lag(101.0) is None, "nobody has looked yet"
    backlog.fail()
    assert backlog.lag(100.0 + 2 * BLIND_SECONDS) == Lag(0, 2 * BLIND_SECONDS)
    backlog.see({PLACE: 10}, 200.0)
    backlog.read(read(400))
    assert backlog.lag(300.0) == Lag(0, 0.0), "a round of looks may take long"
    backlog.fail()
    assert backlog.lag(200.0 + BLIND_SECONDS) == Lag(0, 0.0)
    assert backlog.lag(300.0) == Lag(0, 100.0)
    assert backlog.lag(7 * 86_400.0).seconds == 7 * 86_400.0 - 200.0
    backlog.see({PLACE: 500}, 8 * 86_400.0)
    assert backlog.lag(8 * 86_400.0 + 1) == Lag(100, 1.0)
    backlog.read(read(500))
    assert backlog.lag(8 * 86_400.0 + 2) == Lag(0, 0.0)


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


@pytest.mark.parametrize("kept", ["in a file", "in the environment"])
def test_looks_that_kafka_refuses(monkeypatch, tmp_path, secure_broker, topic_prefix, kept):
    """The password was changed while the pipelines' own connections stay.

    Why is said once. A file is read again; a secret of the environment is that of the start.
    """
    names = {name: f"{topic_prefix}{name}" for name in ("input", "commands")}
    create_topics(secure_broker.bootstrap, dict.fromkeys(names.values(), 1))
    said, file = [], tmp_path / "secret"
    file.write_text(PASSWORD)
    properties = secure_broker.properties("sasl", "PLAIN")
    properties["sasl.password"] = f"${{file:{file}}}" if kept == "in a file" else "${PASSWORD}"
    tables = {
        "kafka": {"bootstrap_servers": secure_broker.sasl, "properties": properties},
        "pipelines": {"p": {"discipline": "channel", **names, "input": [names["input"]]}},
    }
    config = parse_config(tables, {"PASSWORD": PASSWORD}, "c.toml")
    pipeline = pipeline_after(dict)
    pipeline.config = config
    monkeypatch.setattr(lag_watch, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(lag_watch, "BLIND_SECONDS", 0.05)
    monkeypatch.setattr(lag_watch, "say", lambda text, **more: said.append((more["event"], text)))
    watch = LagWatch([pipeline])
    watch._look_at(pipeline)
    assert watch.of("p").records == 0
    file.write_text("that of before")
    config.kafka.properties["sasl.password"] = "that of before"
    watch.start()
    until(lambda: said)
    lag = watch.of("p").seconds
    until(lambda: watch.of("p").seconds > lag + 0.2)
    (event, text), *more = said
    assert (event, more) == ("lag-unknown", [])
    assert "refuses this user" in text
    assert "that of before" not in text
    if kept == "in a file":
        file.write_text(PASSWORD)
    else:
        config.kafka.properties["sasl.password"] = PASSWORD  # as after a start
    until(lambda: len(said) == 2)
    assert said[1] == ("lag-known", "p: how far behind it is can be seen again.")
    until(lambda: watch.of("p") == Lag(0, 0.0))
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

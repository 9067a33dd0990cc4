"""Who looks after pipelines waits for none of them."""

import contextlib
import threading
from types import SimpleNamespace

import pytest

from streaming.config import parse_config
from streaming.errors import (
    FileUnusable,
    InputChanged,
    InputLost,
    KafkaRefused,
    KafkaUnavailable,
    ProgressMissing,
    SequencerError,
    StorageUnavailable,
    TopicsMissing,
)
from streaming.kafka import connection
from streaming.service import kafka_watch, restarts
from streaming.service.run import Service
from streaming.stopping import Stopping
from tests.kafka_helpers import until

WAIT_SECONDS_MAX = 30
AWAY = KafkaUnavailable("The group's coordinator is away.")
TABLES = {"pipelines": {name: {"discipline": "channel"} for name in "ab"}}


class Query:
    """Stands for a pipeline; ``bad``: what its next starts raise."""

    state_partitions = 1

    def __init__(self, name):
        self.name = name
        self.active = self.runs = self.progressed = self.finished = self.slower = False
        self.starts = self.tries = self.looks = self.reports = 0
        self.bad = self.stopped_by = None

    @property
    def ended(self):
        return self.finished or self.stopped_by is not None

    def start(self):
        self.tries += 1
        if self.bad is not None:
            raise self.bad
        self.starts += 1
        self.active = True

    def stop(self):
        self.active = False

    def observe(self):
        self.looks += 1
        self.runs = self.active
        return self.runs

    def changes_pace(self):
        slower, self.slower = self.slower, False
        return slower

    def failure(self):
        return KafkaUnavailable("A worker died.")

    def upstream(self, _others):
        return []

    def finish_when_through(self):
        pass

    def report(self):
        self.reports += 1

    def report_waiting(self):
        pass

    def clean_transit(self):
        pass


@pytest.fixture
def kafka(monkeypatch):
    """``away``: raised where Kafka is asked for; ``said``: events that were said."""
    made = SimpleNamespace(away=None, asked=0, said=[])

    def ask(*_args, **_more):
        made.asked += 1
        if made.away is not None:
            raise made.away

    monkeypatch.setattr(connection, "wait_for_kafka", ask)
    monkeypatch.setattr(restarts.rights, "require", lambda *_: None)
    monkeypatch.setattr(kafka_watch, "RESTART_SECONDS", (0.01,))
    for module in (kafka_watch, restarts):
        monkeypatch.setattr(module, "say", lambda _text, **more: made.said.append(more["event"]))
    monkeypatch.setattr("streaming.service.run.say", lambda *_args, **_more: None)
    monkeypatch.setattr("streaming.service.run.POLL_SECONDS", 0.005)
    monkeypatch.setattr("streaming.service.run.REPORT_SECONDS", 0.01)
    return made


@pytest.fixture
def loop(kafka):
    """The run loop over two pipelines, in a thread; until asked to stop."""
    with running(kafka) as made:
        until(lambda: made.a.looks and made.b.looks)
        yield made


@pytest.fixture
def loop_once(kafka):
    with running(kafka, once=True) as made:
        until(lambda: made.a.looks and made.b.looks)
        yield made


@contextlib.contextmanager
def running(kafka, bad=None, *, once=False):
    """``bad``: what the first starts of `a` raise."""
    config, stopping = parse_config(TABLES, {}, "c.toml"), Stopping()
    service = Service(
        config, None, names=["a", "b"], once=once, accept_repeats=False, stopping=stopping
    )
    a, b = Query("a"), Query("b")
    a.bad = bad
    cluster = SimpleNamespace(misfits=lambda *_: [], watch=lambda: None)
    made = SimpleNamespace(a=a, b=b, kafka=kafka, failed=None, health=service.health)
    service.pipelines.extend([a, b])

    def work():
        try:
            service._work([a, b], cluster)
        except SequencerError as error:
            made.failed = error

    made.thread = threading.Thread(target=work, daemon=True)
    made.thread.start()
    yield made
    stopping.set()
    made.thread.join(WAIT_SECONDS_MAX)
    assert not made.thread.is_alive()


GONE = StorageUnavailable("The prefix is not to be had.")
WITHDRAWN = KafkaRefused("This user may not describe the output.")
HALF_WRITTEN = FileUnusable("keys.p12 cannot be opened as PKCS#12.")


@pytest.mark.parametrize("reason", [AWAY, GONE, WITHDRAWN, HALF_WRITTEN])
def test_others_are_looked_after_while_the_start_of_one_fails(loop, reason):
    a, b = loop.a, loop.b
    a.bad, a.active = reason, False
    until(lambda: a.tries >= 3)
    looks, reports = b.looks, b.reports
    until(lambda: b.looks > looks and b.reports > reports)
    b.active = False
    until(lambda: b.starts == 2)
    assert not a.runs
    assert loop.health.missing() in ("not running: a", "not running: a, b")
    a.bad = None
    until(lambda: a.starts == 2)
    until(lambda: loop.health.missing() is None)


def test_who_reads_at_another_pace_does_not_run_until_it_has_started(loop):
    loop.a.bad, loop.a.slower = AWAY, True
    until(lambda: loop.a.tries >= 3)
    assert loop.health.missing() == "not running: a"
    assert loop.b.starts == 1
    loop.a.bad = None
    until(lambda: loop.a.starts == 2)


@pytest.mark.parametrize("reason", [AWAY, HALF_WRITTEN])
def test_while_kafka_is_away_nothing_is_tried_and_it_is_said_once(kafka, loop, reason):
    """Nor while its password or certificate is being renewed."""
    kafka.away = reason
    loop.a.active = False
    asked, looks = kafka.asked, loop.b.looks
    until(lambda: kafka.asked >= asked + 5 and loop.b.looks >= looks + 5)
    assert loop.a.tries == 1
    assert kafka.said.count("kafka-away") == 1
    kafka.away = None
    until(lambda: loop.a.starts == 2)
    assert kafka.said.count("kafka-back") == 1


@pytest.mark.usefixtures("kafka")
def test_starts_that_failed_wait_longer_and_longer(monkeypatch):
    monkeypatch.setattr(kafka_watch, "RESTART_SECONDS", (1, 2, 5))
    now = [0.0]
    monkeypatch.setattr(restarts, "time", SimpleNamespace(monotonic=lambda: now[0]))
    a, stopping = Query("a"), Stopping()
    watch = kafka_watch.KafkaWatch(None, stopping, lambda: None, lambda *_: None)
    looking, tried = restarts.Restarts(watch, lambda *_: None, once=False), []
    a.bad = AWAY
    while now[0] < 30:
        before = a.tries
        looking.look_after([a], again=False)
        if a.tries > before:
            tried.append(now[0])
        now[0] += 0.5
    assert tried == [1.0, 3.0, 8.0, 13.0, 18.0, 23.0, 28.0]


def test_once_gives_up_where_a_start_fails_again_and_again(loop_once):
    loop_once.a.bad, loop_once.a.active = AWAY, False
    loop_once.thread.join(WAIT_SECONDS_MAX)
    assert "a failed 4 times" in str(loop_once.failed)
    assert loop_once.a.tries == 1 + restarts.ONCE_TRIES_MAX


LOST = [InputLost, InputChanged, ProgressMissing]


@pytest.mark.parametrize("kind", LOST)
def test_what_is_lost_stops_one_pipeline_alone(loop, kind):
    loop.a.bad, loop.a.active = kind("Kafka no longer has it."), False
    until(lambda: loop.a.stopped_by is not None)
    looks = loop.b.looks
    until(lambda: loop.b.looks > looks)


@pytest.mark.parametrize("kind", LOST)
def test_a_batch_that_nobody_can_judge_stops_one_pipeline_alone(loop, kind):
    loop.a.failure = lambda: kind("Kafka no longer knows.")
    loop.a.active = False
    until(lambda: loop.a.stopped_by is not None)
    looks = loop.b.looks
    until(lambda: loop.b.looks > looks)


@pytest.mark.parametrize("kind", LOST)
def test_what_is_lost_at_the_first_start_stops_one_pipeline_alone(kafka, kind):
    with running(kafka, kind("Kafka no longer has it.")) as loop:
        until(lambda: loop.a.stopped_by is not None and loop.b.looks)
    assert "pipeline-stopped" in kafka.said


def test_what_spark_says_of_one_start_is_tried_again_and_others_go_on(kafka):
    """At the first start and later: an error of no known kind."""
    bad = SequencerError("The query stopped: java.lang.IllegalStateException.")
    with running(kafka, bad) as loop:
        a, b = loop.a, loop.b
        until(lambda: a.tries >= 3 and b.looks)
        a.bad = None
        until(lambda: a.runs)
        tries, a.bad, a.active = a.tries, bad, False
        until(lambda: a.tries >= tries + 3)
        looks = b.looks
        until(lambda: b.looks > looks)
        a.bad = None
        until(lambda: a.runs)


MISSING = TopicsMissing("Topics are missing in Kafka: a.out.")


def test_a_topic_that_is_missing_for_a_moment_is_waited_for(loop):
    """Brokers that have just started may list no topic yet."""
    a, tried = loop.a, loop.a.tries

    def start():
        a.bad = MISSING if a.tries < tried + restarts.MISSING_TRIES_MAX else None
        Query.start(a)

    a.start, a.active = start, False
    until(lambda: a.starts == 2)
    assert a.stopped_by is None
    assert a.tries == tried + restarts.MISSING_TRIES_MAX + 1


def test_a_topic_that_stays_missing_stops_one_pipeline_alone(loop):
    tried = loop.a.tries
    loop.a.bad, loop.a.active = MISSING, False
    until(lambda: loop.a.stopped_by is not None)
    assert loop.a.tries == tried + restarts.MISSING_TRIES_MAX + 1
    looks = loop.b.looks
    until(lambda: loop.b.looks > looks)


@pytest.mark.usefixtures("kafka")
def test_the_first_start_waits():
    """The service is ready when all pipelines run."""
    starts, failures, noted = [], iter([AWAY, AWAY]), []

    def start():
        starts.append("b")
        for error in failures:
            raise error

    config = parse_config(TABLES, {}, "c.toml")
    watch = kafka_watch.KafkaWatch(
        config, Stopping(), lambda: None, lambda *each: noted.append(each[0])
    )
    assert watch.insist(start, "b")
    assert len(starts) == 3
    assert noted == ["failed", "failed"]


@pytest.mark.parametrize("moments", [kafka_watch.FILE_TRIES_MAX, kafka_watch.FILE_TRIES_MAX + 1])
def test_a_file_that_is_half_written_at_the_first_start(kafka, moments):
    """It is read again after a moment; one that stays so is a mistake in the configuration."""
    watch = kafka_watch.KafkaWatch(
        parse_config(TABLES, {}, "c.toml"), Stopping(), lambda: None, lambda *_: None
    )
    asked = []

    def beat():
        asked.append(1)
        kafka.away = HALF_WRITTEN if len(asked) <= moments else None

    watch._beat = beat
    if moments > kafka_watch.FILE_TRIES_MAX:
        with pytest.raises(FileUnusable):
            watch.insist(lambda: None)
    else:
        assert watch.insist(lambda: None)
        assert len(asked) == moments + 1

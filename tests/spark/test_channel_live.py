"""The running service: timers, a second copy, a dead worker, a broker that goes away."""

import http.client
import json
import signal
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.ports import free_port
from tests.kafka_helpers import Record, create_topics, produce, read_all, wait_for_records
from tests.processes import command_line, descendants, python_daemons, python_workers
from tests.service_helpers import (
    Service,
    WarmService,
    channel_topics,
    run_once,
    status,
    write_config,
)

SECONDS_MAX = 300  # Spark's start and first batches on two busy cores
pytestmark = pytest.mark.timeout(900)


def labelled(key, label, value):
    return Record(key, value, [("label", str(label).encode())])


def test_timers_fire_a_second_copy_is_refused_and_sigterm_stops_the_service(
    broker, topic_prefix, tmp_path
):
    topics = {f"{topic_prefix}{name}.in": 1 for name in ("skip", "retire", "start")}
    create_topics(broker.bootstrap, topics)
    names = {n: f"{topic_prefix}{n}" for n in ("skip", "retire", "start")}
    pipelines = {n: channel_topics(f"{t}.") for n, t in names.items()}
    pipelines["skip"]["gap"] = {"policy": "skip", "after": "3 s"}
    pipelines["retire"]["retire_after"] = "3 s"
    pipelines["start"]["labels"] = {"kind": "linear", "start": "first-seen", "settle": "1 s"}
    metrics = f"127.0.0.1:{free_port()}"
    config = write_config(tmp_path, broker.bootstrap, pipelines, metrics=metrics)
    produce(
        broker.bootstrap, f"{names['skip']}.in", [labelled(b"k", n, b"%d" % n) for n in (0, 2, 5)]
    )
    produce(broker.bootstrap, f"{names['retire']}.in", [labelled(b"k", 0, b"first life")])
    with Service(config, "--log-format", "json") as service:
        service.until((tmp_path / "checkpoints" / "skip" / "lock").exists)
        refuse_a_second_copy(config, service)
        out = wait_for_records(broker.bootstrap, f"{names['skip']}.out", 3, limit_s=SECONDS_MAX)
        assert [r.value for r in out] == [b"0", b"2", b"5"]
        told = [json.loads(r.value) for r in read_all(broker.bootstrap, f"{names['skip']}.events")]
        assert [(e["event"], e["from"], e["to"], e["reason"]) for e in told] == [
            ("gap", 1, 2, "timeout"),
            ("gap", 3, 5, "timeout"),
        ]
        assert all(e["waited_ms"] >= 3000 for e in told)
        begin_in_mid_stream(broker.bootstrap, names["start"])
        produce(broker.bootstrap, f"{names['skip']}.in", [labelled(b"k", 3, b"late")])
        rejected = wait_for_records(broker.bootstrap, f"{names['skip']}.rejects", 1)
        assert rejected[0].header("reject-reason") == b"late"

        retired = wait_for_records(
            broker.bootstrap, f"{names['retire']}.events", 1, limit_s=SECONDS_MAX
        )
        assert json.loads(retired[0].value)["event"] == "retired"
        produce(broker.bootstrap, f"{names['retire']}.in", [labelled(b"k", 0, b"second life")])
        lives = wait_for_records(broker.bootstrap, f"{names['retire']}.out", 2)
        assert [r.value for r in lives] == [b"first life", b"second life"]
        assert [r.header("sequence") for r in lives] == [b"0", b"0"]
        first, second = (int(r.header("incarnation")) for r in lives)
        assert second > first
        daemons = python_daemons(service.process.pid)
        assert len(daemons) == 2, "operators' and the sink's, both begun before the first batch"
        with scraped(metrics) as answers:
            service.until(lambda: "sequencer_up" in answers.get(200, ""))
            assert service.stop() == 0, service.said()
        assert answers.keys() <= {200, 503}, "the last known figures, or none"
        assert "Traceback" not in service.said()
    judge_log(service.said().splitlines(), set(names))


def begin_in_mid_stream(bootstrap, name):
    """The first label that is seen is the start; what comes below it then is late."""
    produce(bootstrap, f"{name}.in", [labelled(b"k", 50, b"first")])
    wait_for_records(bootstrap, f"{name}.out", 1, limit_s=SECONDS_MAX)
    (told,) = [json.loads(r.value) for r in read_all(bootstrap, f"{name}.events")]
    assert (told["event"], told["label"]) == ("started", 50)
    assert told["waited_ms"] >= 1000
    produce(bootstrap, f"{name}.in", [labelled(b"k", 49, b"low"), labelled(b"k", 51, b"next")])
    out = wait_for_records(bootstrap, f"{name}.out", 2, limit_s=SECONDS_MAX)
    assert [r.value for r in out] == [b"first", b"next"]
    (rejected,) = wait_for_records(bootstrap, f"{name}.rejects", 1)
    assert (rejected.value, rejected.header("reject-reason")) == (b"low", b"late")


@contextmanager
def scraped(address):
    """Prometheus at its work, all the time; the last answer with each status."""
    answers, ended = {}, threading.Event()

    def scrape():
        while not ended.is_set():
            client = http.client.HTTPConnection(address, timeout=10)
            with suppress(OSError, http.client.HTTPException):
                client.request("GET", "/metrics")
                answer = client.getresponse()
                answers[answer.status] = answer.read().decode()
            client.close()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield answers
    finally:
        ended.set()
        thread.join()


def judge_log(lines, pipelines):
    """One JSON object a line, Spark's and Java's words included; the story of a run."""
    said = [json.loads(line) for line in lines]
    for each in said:
        assert {"at", "level", "event", "message"} <= each.keys()
    events = [each["event"] for each in said if each["event"] != "spark"]
    assert events[0] == "starting"
    assert events.index("started") < events.index("stopping") < events.index("stopped")
    assert events.count("topic-created") == 4 * len(pipelines)
    last = {each["pipeline"]: each for each in said if each["event"] == "report"}
    assert {name: (r["in"], r["delivered"], r["rejected"]) for name, r in last.items()} == {
        "skip": (4, 3, 1),
        "retire": (2, 2, 0),
        "start": (3, 2, 1),
    }


def test_the_policy_fail_stops_with_status_1_and_names_the_gap(broker, topic_prefix, tmp_path):
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 1})
    gap = {"policy": "fail", "after": "1 s"}
    pipelines = {"p": {**channel_topics(topic_prefix), "gap": gap}}
    config = write_config(tmp_path, broker.bootstrap, pipelines)
    produce(broker.bootstrap, f"{topic_prefix}in", [labelled(b"plane", 4, b"x")])
    with WarmService(config) as service:
        assert service.wait(SECONDS_MAX) == 1
        said = service.said()
    assert "Channel plane of pipeline" in said
    assert "label 0" in said
    assert "Traceback" not in said
    assert status(config)["p"]["held"] in (0, 1)
    produce(
        broker.bootstrap, f"{topic_prefix}in", [labelled(b"plane", n, b"%d" % n) for n in range(4)]
    )
    run_once(config)  # as the message says: send what is missing, start again
    found = read_all(broker.bootstrap, f"{topic_prefix}out")
    assert [record.value for record in found] == [b"0", b"1", b"2", b"3", b"x"]


def test_an_expression_that_gives_several_values_is_refused(broker, topic_prefix, tmp_path):
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 1})
    pipelines = {"p": {**channel_topics(topic_prefix), "label": "explode(array(0, 1))"}}
    config = write_config(tmp_path, broker.bootstrap, pipelines)
    with WarmService(config) as service:
        assert service.wait(SECONDS_MAX) == 2
        said = service.said()
    assert "explode(array(0, 1))" in said
    assert "Traceback" not in said


def refuse_a_second_copy(config, first):
    """Another process on the same checkpoint does nothing, and says who works."""
    with Service(config) as second:
        assert second.wait() == 1
        assert f"process {first.process.pid}" in second.said()
        assert "Traceback" not in second.said()


@pytest.mark.slow
def test_without_the_lock_a_second_copy_fences_and_nothing_is_doubled(
    broker, topic_prefix, tmp_path
):
    """As on a checkpoint that two hosts share: Kafka's fencing alone keeps them apart."""
    topic = f"{topic_prefix}in"
    create_topics(broker.bootstrap, {topic: 2})
    pipelines = {"p": channel_topics(topic_prefix)}
    config = write_config(tmp_path, broker.bootstrap, pipelines)
    count, sent = 60, 0

    def send_some():
        nonlocal sent
        batch = [labelled(b"k%d" % (n % 7), sent, b"%d" % sent) for n in range(7)]
        produce(broker.bootstrap, topic, batch)
        sent += 1

    unlocked = {"SEQUENCER_FAULT": "unlocked"}
    with Service(config, environment=unlocked) as first:
        send_some()
        wait_for_records(broker.bootstrap, f"{topic_prefix}out", 7, limit_s=SECONDS_MAX)
        with Service(config, environment=unlocked) as second:
            deadline = time.monotonic() + SECONDS_MAX
            while first.process.poll() is None and second.process.poll() is None:
                assert time.monotonic() < deadline, first.said() + second.said()
                send_some()
                time.sleep(0.5)
            loser, winner = (first, second) if first.process.poll() is not None else (second, first)
            assert loser.wait() == 1, loser.said()
            assert "nother copy" in loser.said()
            while sent < count:
                send_some()
            out = wait_for_records(
                broker.bootstrap, f"{topic_prefix}out", 7 * sent, limit_s=SECONDS_MAX
            )
            assert winner.process.poll() is None, winner.said()
            assert winner.stop() == 0
    for key in {r.key for r in out}:
        assert [r.value for r in out if r.key == key] == [b"%d" % n for n in range(sent)]


@pytest.mark.slow
def test_it_outlives_a_worker_and_the_broker(topic_prefix, tmp_path):
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        topic = f"{topic_prefix}in"
        create_topics(broker.bootstrap, {topic: 2})
        pipelines = {"p": channel_topics(topic_prefix)}
        config = write_config(tmp_path, broker.bootstrap, pipelines)
        with Service(config) as service:
            produce(broker.bootstrap, topic, [labelled(b"k", 0, b"0")])
            wait_for_records(broker.bootstrap, f"{topic_prefix}out", 1, limit_s=SECONDS_MAX)
            workers = python_workers(service.process.pid)
            assert workers
            for worker in workers:
                kill(worker)
            produce(broker.bootstrap, topic, [labelled(b"k", 1, b"1")])
            wait_for_records(broker.bootstrap, f"{topic_prefix}out", 2, limit_s=SECONDS_MAX)
            broker.kill()
            service.until(lambda: "does not answer" in service.said(), SECONDS_MAX)
            broker.start()
            service.until(lambda: "Kafka is back" in service.said(), SECONDS_MAX)
            produce(broker.bootstrap, topic, [labelled(b"k", 2, b"2")])
            out = wait_for_records(broker.bootstrap, f"{topic_prefix}out", 3, limit_s=SECONDS_MAX)
            assert [r.value for r in out] == [b"0", b"1", b"2"]
            assert service.stop() == 0, service.said()


@pytest.mark.slow
def test_when_the_jvm_dies_it_exits_with_1_and_leaves_nothing(broker, topic_prefix, tmp_path):
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 1})
    pipelines = {"p": channel_topics(topic_prefix)}
    config = write_config(tmp_path, broker.bootstrap, pipelines)
    produce(broker.bootstrap, f"{topic_prefix}in", [labelled(b"k", 0, b"0")])
    with Service(config) as service:
        wait_for_records(broker.bootstrap, f"{topic_prefix}out", 1, limit_s=SECONDS_MAX)
        tree = descendants(service.process.pid)
        java = [pid for pid in tree if "SparkSubmit" in command_line(pid)]
        kill(java[0])
        assert service.wait(60) == 1, service.said()
        assert "Traceback" not in service.said()
        assert "Spark's JVM ended by signal 9." in service.said()
        deadline = time.monotonic() + 20
        while alive := [pid for pid in tree if command_line(pid)]:
            assert time.monotonic() < deadline, alive
            time.sleep(0.2)


def kill(pid):
    import os

    os.kill(pid, signal.SIGKILL)

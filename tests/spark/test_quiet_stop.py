"""A stop is quiet: SIGTERM to the whole process group, again and again, at any moment."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from streaming.kafka.embedded import EmbeddedBroker
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import (
    STOP_SECONDS_MAX,
    Service,
    channel_topics,
    run_once,
    status,
    verify,
    write_config,
)

STACK = re.compile(r"Traceback|Exception in thread|^\s+at [\w.$/]+\(", re.MULTILINE)
pytestmark = pytest.mark.timeout(900)


def terminate(service, times=2):
    """SIGTERM to all processes of the group; the exit status, and how long it took."""
    began = time.monotonic()
    for _ in range(times):
        os.killpg(service.process.pid, signal.SIGTERM)
        time.sleep(0.3)
    ended = service.wait(STOP_SECONDS_MAX)
    assert not STACK.search(service.said()), service.said()
    return ended, time.monotonic() - began


def make(folder, bootstrap, prefix):
    create_topics(bootstrap, {f"{prefix}in": 2})
    topics = {**channel_topics(prefix), "commands": f"{prefix}commands"}
    return write_config(folder, bootstrap, {"p": topics})


def send(bootstrap, prefix, labels):
    rows = [
        Record(b"k%d" % key, b"v", [("label", b"%d" % label)])
        for label in labels
        for key in range(50)
    ]
    produce(bootstrap, f"{prefix}in", rows)


@pytest.mark.parametrize(
    "pause", [1.5, *(pytest.param(other, marks=pytest.mark.slow) for other in (0, 4))]
)
def test_during_start_up(broker, topic_prefix, tmp_path, pause):
    config = make(tmp_path, broker.bootstrap, topic_prefix)
    with Service(config) as service:
        service.until((tmp_path / "checkpoints" / "p" / "lock").exists)
        time.sleep(pause)
        assert terminate(service)[0] == 0, service.said()


def test_during_batches_nothing_is_lost_and_the_next_start_goes_on(broker, topic_prefix, tmp_path):
    config = make(tmp_path, broker.bootstrap, topic_prefix)
    send(broker.bootstrap, topic_prefix, range(20))
    with Service(config) as service:
        service.until(lambda: status(config)["p"]["delivered"])
        for first in range(20, 200, 20):
            send(broker.bootstrap, topic_prefix, range(first, first + 20))
        assert terminate(service, times=3)[0] == 0, service.said()
        assert "Trying again" not in service.said()
    run_once(config)
    assert status(config)["p"]["delivered"] == 200 * 50
    assert verify(config)[0] == 0


def test_while_kafka_is_away(topic_prefix, tmp_path):
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        config = make(tmp_path, broker.bootstrap, topic_prefix)
        send(broker.bootstrap, topic_prefix, range(5))
        service = Service(config)
        with service:
            service.until(lambda: status(config)["p"]["delivered"])
            send(broker.bootstrap, topic_prefix, range(5, 9))
            broker.stop()
            time.sleep(3)
            ended, seconds = terminate(service)
            assert ended == 0, service.said()
            assert seconds < STOP_SECONDS_MAX


def test_when_the_driver_is_killed_its_jvm_ends(broker, topic_prefix, tmp_path):
    config = make(tmp_path, broker.bootstrap, topic_prefix)
    send(broker.bootstrap, topic_prefix, range(5))
    with Service(config) as service:
        service.until(lambda: status(config)["p"]["delivered"])
        group = service.process.pid
        service.process.kill()
        service.process.wait(10)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while members(group):
            assert time.monotonic() < deadline, members(group)
            time.sleep(0.2)


def members(group):
    """The processes of a group that have not ended."""
    found = []
    for entry in filter(lambda each: each.name.isdigit(), Path("/proc").iterdir()):
        try:
            text = (entry / "stat").read_text()
        except OSError:  # it ended meanwhile
            continue
        state, _, its_group = text.rpartition(")")[2].split()[:3]
        if int(its_group) == group and state != "Z":
            found.append(int(entry.name))
    return found

"""The embedded broker: its data, its end, and what it refuses."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from streaming.errors import ConfigError, SequencerError
from streaming.kafka import ports
from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.ports import free_port
from tests.kafka_helpers import Record, create_topics, produce, read_all, until

GONE_SECONDS_MAX = 60


def values(broker, topic):
    return [record.value for record in read_all(broker.bootstrap, topic)]


def wait_gone(pid):
    until(lambda: not Path(f"/proc/{pid}").exists(), f"the end of process {pid}")


def test_data_outlive_a_clean_stop_and_a_kill(tmp_path, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")  # where Java knows ASCII alone, unless told otherwise
    data = tmp_path / "dätä (☃) 1"
    with EmbeddedBroker(data) as embedded:
        place, first = embedded.bootstrap, embedded.pid
        create_topics(embedded.bootstrap, {"t": 1})
        produce(embedded.bootstrap, "t", [Record(value=b"1")])

        embedded.stop()
        assert embedded.pid is None
        wait_gone(first)
        embedded.start()
        assert embedded.bootstrap == place
        produce(embedded.bootstrap, "t", [Record(value=b"2")])

        embedded.kill()
        embedded.start()
        assert values(embedded, "t") == [b"1", b"2"]

        with pytest.raises(ConfigError, match=rf"process {embedded.pid}.*already uses"):
            EmbeddedBroker(data).start()
        with pytest.raises(ConfigError, match=f"Port {embedded.port} is taken"):
            EmbeddedBroker(tmp_path / "other", embedded.port).start()
        assert embedded.start() is embedded  # runs already


def test_it_ends_with_its_parent(tmp_path):
    """The parent starts it in a thread that ends at once, then is killed."""
    script = f"""
import sys, threading, time
from pathlib import Path
from streaming.kafka.embedded import EmbeddedBroker
embedded = EmbeddedBroker(Path({str(tmp_path)!r}))
starter = threading.Thread(target=embedded.start)
starter.start()
starter.join(60)
time.sleep(0.5)
print(embedded.pid, flush=True)
time.sleep(120)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        pid = int(parent.stdout.readline())
        assert b"kafka.Kafka" in Path(f"/proc/{pid}/cmdline").read_bytes()
    finally:
        parent.kill()
        parent.communicate(timeout=30)
    wait_gone(pid)
    EmbeddedBroker(tmp_path)._lock().close()  # its lock went with it


def test_a_broker_that_cannot_start_says_why(tmp_path):
    embedded = EmbeddedBroker(tmp_path, properties={"log.retention.ms": "soon"})
    with pytest.raises(SequencerError, match=r"(?s)Invalid value soon for configuration"):
        embedded.start()
    assert embedded.pid is None


def test_a_data_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be a data folder"):
        EmbeddedBroker(tmp_path / "file").start()


def test_a_data_folder_that_kafka_would_misread_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="comma"):
        EmbeddedBroker(tmp_path / "a,b").start()
    assert not (tmp_path / "a,b").exists()


def test_a_temporary_folder_is_removed():
    with EmbeddedBroker() as embedded:
        data, pid = embedded.data, embedded.pid
        assert (data / "logs").is_dir()
    assert not data.exists()
    wait_gone(pid)


def test_free_ports_can_be_bound():
    for _ in range(20):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", free_port()))


def test_no_port_is_given_twice(monkeypatch):
    """A broker has several: who got one may not listen on it yet."""
    monkeypatch.setattr(ports, "PORTS", (21_000, 21_030))
    some = [free_port() for _ in range(15)]
    assert len(set(some)) == 15


@contextmanager
def command(*arguments, **environment):
    """`sequencer broker` in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "streaming.cli", "broker", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(GONE_SECONDS_MAX)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_the_command_prints_the_address_and_stops_cleanly(tmp_path, number):
    port = free_port()
    given = ["--port", port, "--data", tmp_path, "--property", "num.partitions=3"]
    with command(*given) as process:
        assert process.stdout.readline() == f"127.0.0.1:{port}\n"
        pid = int((tmp_path / "broker.lock").read_text())
        assert "num.partitions=3\n" in (tmp_path / "server.properties").read_text()
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 0)
    assert "Traceback" not in told
    wait_gone(pid)


def test_the_command_fails_with_its_broker(tmp_path):
    with command("--port", free_port(), "--data", tmp_path) as process:
        assert process.stdout.readline()
        os.kill(int((tmp_path / "broker.lock").read_text()), signal.SIGKILL)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "The broker ended by itself; the end of" in told
    assert "Traceback" not in told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_can_be_stopped_while_jars_are_fetched(tmp_path, number):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    version = """'openjdk version "17.0.1"'"""
    java.write_text(f'#!/bin/sh\n[ "$1" != -version ] && exec sleep 60\necho {version} >&2\n')
    java.chmod(0o755)
    places = {"JAVA_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "SEQUENCER_JARS": ""}
    with command("--port", free_port(), **places) as process:
        assert "Fetching" in process.stderr.read(len("Fetching"))
        process.send_signal(number)
        _, told = process.communicate(timeout=GONE_SECONDS_MAX)
    assert process.returncode == (130 if number == signal.SIGINT else 0)
    assert "Stopped before Kafka answered" in told
    assert "Traceback" not in told


def test_the_command_refuses_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        port = taken.getsockname()[1]
        with command("--port", port) as process:
            _, told = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"Port {port} is taken." in told
    assert "Give another --port." in told

"""The embedded broker: its data, its end, and what it refuses."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streaming.embedded import EmbeddedBroker, free_port
from streaming.errors import ConfigError, SequencerError
from tests.kafka_helpers import Record, create_topics, produce, read_all

GONE_SECONDS_MAX = 20


def values(broker, topic):
    return [record.value for record in read_all(broker.bootstrap, topic)]


def wait_gone(pid):
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.05)


def test_data_outlive_a_clean_stop_and_a_kill(tmp_path):
    with EmbeddedBroker(tmp_path / "kafka") as embedded:
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
            EmbeddedBroker(tmp_path / "kafka").start()
        with pytest.raises(ConfigError, match=f"Port {embedded.port} is taken"):
            EmbeddedBroker(tmp_path / "other", embedded.port).start()
        assert embedded.start() is embedded  # runs already


def test_it_ends_with_its_parent(tmp_path):
    """The parent starts it in a thread that ends at once, then is killed."""
    script = f"""
import sys, threading, time
from pathlib import Path
from streaming.embedded import EmbeddedBroker
embedded = EmbeddedBroker(Path({str(tmp_path)!r}))
starter = threading.Thread(target=embedded.start)
starter.start()
starter.join()
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
    with EmbeddedBroker(tmp_path) as again:  # its lock went with it
        assert again.pid


def test_a_broker_that_cannot_start_says_why(tmp_path):
    embedded = EmbeddedBroker(tmp_path, properties={"log.retention.ms": "soon"})
    with pytest.raises(SequencerError, match=r"(?s)Invalid value soon for configuration"):
        embedded.start()
    assert embedded.pid is None


def test_a_data_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be a data folder"):
        EmbeddedBroker(tmp_path / "file").start()


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_the_address_and_stops_cleanly(tmp_path, number):
    port = free_port()
    command = [sys.executable, "-m", "streaming.cli", "broker", "--port", str(port)]
    command += ["--data", str(tmp_path), "--property", "num.partitions=3"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    try:
        assert process.stdout.readline() == f"127.0.0.1:{port}\n"
        pid = int((tmp_path / "broker.lock").read_text())
        assert "num.partitions=3\n" in (tmp_path / "server.properties").read_text()
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "Traceback" not in told
    wait_gone(pid)

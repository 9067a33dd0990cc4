"""What Spark starts as a daemon becomes a child of a process that has imported everything."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from streaming.spark.fork_server import ForkServer
from streaming.spark.processes import UNHEARD
from streaming.spark.worker_entry import ADDRESS
from tests.kafka_helpers import until

LIMIT_SECONDS = 60
MODULE = "streaming.disciplines.channels.core"


@pytest.fixture
def folder():
    """One with a short name: it is part of a socket's."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def server(folder):
    server = ForkServer(folder, sys.executable, {"SOME": "thing"}, [MODULE])
    try:
        yield server
    finally:
        server.close()


@contextmanager
def started(folder, environment):
    """A daemon as Spark starts it; where workers are asked for."""
    process = subprocess.Popen(
        [*UNHEARD, sys.executable, "-m", "streaming.spark.worker_entry", "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),  # that of no other process
            **environment,
        },
    )
    try:
        size = int.from_bytes(process.stdout.read(4), "big")
        yield process, process.stdout.read(size).decode()
    finally:
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait(LIMIT_SECONDS)


def worker_of(address):
    """The process of a new worker, and its connection."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(LIMIT_SECONDS)
    connection.connect(address)
    return int.from_bytes(connection.recv(4), "big"), connection


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_gone(pid):
    """Ended, though perhaps nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_workers_are_children_of_children_of_the_server(server, folder):
    with started(folder, server.environment) as (entry, address):
        assert Path(address).parent == folder
        worker, connection = worker_of(address)
        daemon = parent(worker)
        assert parent(daemon) == server._process.pid
        with started(folder, server.environment) as (_, other):  # the sink's
            another, its = worker_of(other)
            assert parent(another) != daemon
            assert parent(parent(another)) == server._process.pid
            its.close()
        entry.terminate()  # a SIGTERM to everybody
        server._process.terminate()
        os.kill(daemon, signal.SIGTERM)
        third, more = worker_of(address)
        assert parent(third) == daemon
        more.close()
        connection.close()
        entry.stdin.close()  # Spark stops
        assert entry.wait(LIMIT_SECONDS) == 0
        until(lambda: is_gone(daemon) and is_gone(worker) and is_gone(third))
        assert not Path(address).exists()
    assert server._process.poll() is None


def test_it_ends_with_the_service(server, folder):
    with started(folder, server.environment) as (entry, address):
        server.close()
        assert server._process.returncode == 0
        assert not Path(server.address).exists()
        worker, connection = worker_of(address)  # a daemon that Spark has stays
        assert worker
        connection.close()
        assert entry.poll() is None


def test_it_ends_where_the_service_was_killed(server):
    server._process.stdin.close()
    assert server._process.wait(LIMIT_SECONDS) == 0


@pytest.mark.parametrize("kind", ["none", "not there", "ended"])
def test_without_one_a_daemon_imports_for_itself(kind, server, folder):
    told = {"none": {}, "not there": {ADDRESS: str(folder / "no")}, "ended": server.environment}[
        kind
    ]
    if kind == "ended":
        server._process.kill()
        server._process.wait(LIMIT_SECONDS)
    with started(folder, told) as (entry, address):
        worker, connection = worker_of(address)
        assert parent(worker) == entry.pid
        connection.close()
        entry.stdin.close()
        entry.wait(LIMIT_SECONDS)


def test_who_asks_and_goes_leaves_no_daemon(server, folder):
    with socket.socket(socket.AF_UNIX) as asker:
        asker.settimeout(LIMIT_SECONDS)
        asker.connect(server.address)
        socket.send_fds(asker, [(100).to_bytes(4, "big")], [0, 1, 2])
    with started(folder, server.environment) as (_, address):
        worker, connection = worker_of(address)
        daemon = parent(worker)
        connection.close()
        until(lambda: children(server._process.pid) == [daemon])


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

"""kill -9 of `sequencer rescale` as each of its steps ends: the same command then goes on."""

import os
import signal
import subprocess
import sys

import pytest

from streaming.crashes import RESCALE_POINTS
from tests.faults.channels import some_messages
from tests.faults.clusters import KEYS, Traffic
from tests.kafka_helpers import Record, produce
from tests.service_helpers import called, inspect, run_once, status, verify
from tests.warm import python_path, warm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
LIMIT_S = 300


def words(config, to):
    asked = ("--shards", "8", "--state-partitions", "4", "--to", str(to))
    return ["rescale", str(config), *asked]


def killed_at(point, config, to):
    """The command in a process of its own, with a JVM of its own."""
    marker = config.parent / point
    ended = subprocess.run(
        [sys.executable, "-m", "streaming.cli", *words(config, to)],
        env={
            **os.environ,
            "PYTHONPATH": python_path(),
            "SEQUENCER_FAULT": f"{point}:{marker}",
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        start_new_session=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert marker.exists()


def content(folder):
    """Every file below, but for those that say that the checkpoint is closed or held."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {"moved.json", "lock", "holder.json", "said.json"}
    }


def refused(config):
    """Why the service does not start."""
    code, _, told = called("run", config, "--once")
    assert code == 2, told
    return told


def at(config, checkpoint, shards, partitions):
    """The same service on another checkpoint."""
    text = config.read_text().splitlines()
    keys = {"checkpoint": f'"{checkpoint}"', "shards": shards, "state_partitions": partitions}
    kept = [line for line in text if line.split(" = ")[0].strip('"') not in keys]
    new = [f'"{key}" = {value}' for key, value in keys.items()]
    config.write_text("\n".join([kept[0], *new, *kept[1:]]) + "\n")


def test_a_move_that_is_killed_goes_on(broker, tmp_path):
    traffic = Traffic(broker, tmp_path)
    old, new = tmp_path / "old", tmp_path / "new"
    at(traffic.config, old, 4, 2)
    traffic.send(10)
    ahead = [Record(key, b"%s-11" % key, [("label", b"11")]) for key in KEYS]
    produce(traffic.bootstrap, traffic.inputs["channels"], ahead)
    run_once(traffic.config)
    assert status(traffic.config)["channels"]["held"] == len(KEYS)
    before = {name: inspect(traffic.config, "--pipeline", name) for name in traffic.sent}
    files = content(old)

    for point in RESCALE_POINTS:
        killed_at(point, traffic.config, new)
        assert content(old) == files, point
        closed = list(old.glob("*/moved.json"))
        assert len(closed) == (point == "rescale-closed")
        if point in {"rescale-begun", "rescale-whole"}:
            at(traffic.config, new, 8, 4)
            assert "was not moved all the way" in refused(traffic.config)
            at(traffic.config, old, 4, 2)
    assert "was moved from" in refused(traffic.config)

    command = warm().call(*words(traffic.config, new))
    assert command.poll(LIMIT_S) == 0, command.said()
    assert command.said().count("moved before") == 1
    at(traffic.config, new, 8, 4)
    assert {name: inspect(traffic.config, "--pipeline", name) for name in traffic.sent} == before
    first = some_messages(10, 1, traffic.rng, KEYS)
    produce(traffic.bootstrap, traffic.inputs["channels"], first)
    run_once(traffic.config)
    figures = status(traffic.config)
    assert figures["channels"]["held"] == 0
    assert figures["channels"]["delivered"] == 12 * len(KEYS)
    code, said = verify(traffic.config)
    assert code == 0, said


def test_a_checkpoint_of_another_service_is_not_overwritten(broker, tmp_path):
    traffic = Traffic(broker, tmp_path)
    at(traffic.config, tmp_path / "other", 4, 2)
    run_once(traffic.config)
    at(traffic.config, tmp_path / "mine", 4, 2)
    run_once(traffic.config)
    files = content(tmp_path / "other"), content(tmp_path / "mine")
    command = warm().call(*words(traffic.config, tmp_path / "other"))
    assert command.poll(LIMIT_S) == 2, command.said()
    assert "is not empty, and what is there is not of this move" in command.said()
    assert (content(tmp_path / "other"), content(tmp_path / "mine")) == files

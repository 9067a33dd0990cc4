"""What `status` and the verbs that ask say about the process that runs the service."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streaming.config import load_config
from streaming.errors import JobFailed
from streaming.service.checkpoint import Checkpoint
from streaming.service.holder import Holder
from tests.kafka_helpers import create_topics


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "checkpoints")


@pytest.fixture
def service(config, folder):
    """A configuration whose pipeline had its last batch a minute ago."""
    path = config(service={"checkpoint": folder})
    at = datetime.now(UTC) - timedelta(seconds=61)
    Checkpoint(folder, "p").write_status(
        {"shards": {}, "batch": 3, "batch_ms": 1, "at": at.isoformat(timespec="milliseconds")}
    )
    return path


def held_elsewhere(folder):
    """Another process that holds the checkpoint until its standard input ends."""
    code = (
        "from streaming.service.checkpoint import Checkpoint; import sys\n"
        f"c = Checkpoint({folder!r}, 'p'); c.claim(); print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    return process


def test_status_names_the_process_and_the_age_of_its_figures(here, service, folder):
    holder = held_elsewhere(folder)
    try:
        status, out, _ = here("status", service)
        figures = json.loads(here("status", service, "--json")[1])["pipelines"]["p"]
        with pytest.raises(JobFailed, match=f"process {holder.pid} on "):
            Checkpoint(folder, "p").claim()
    finally:
        holder.communicate()
    assert status == 0
    assert re.match(rf"The service runs \(process {holder.pid} on \S+, since \S+Z\)\.\n", out)
    assert re.search(r"^at +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", out, re.MULTILINE)
    assert re.search(r"^age +\d+ s$", out, re.MULTILINE)
    assert (figures["running"], figures["pid"]) == (True, holder.pid)
    assert figures["age_seconds"] >= 61
    assert figures["since"].endswith("Z")


def test_status_says_that_nobody_runs_it_also_after_a_kill(here, service, folder):
    holder = held_elsewhere(folder)
    holder.kill()
    holder.communicate()
    out = here("status", service)[1]
    assert out.startswith("The service does not run; the figures are those of its last batch.\n")
    figures = json.loads(here("status", service, "--json")[1])["pipelines"]["p"]
    assert [figures[name] for name in ("running", "pid", "host", "since")] == [
        False, None, None, None,
    ]  # fmt: skip


def test_status_says_what_the_service_said_last_when_it_does_not_run(here, service, folder):
    checkpoint = Checkpoint(folder, "p")
    checkpoint.claim()
    checkpoint.release()
    checkpoint.last_said.note("failed", "The disk \x1b[31mis full.")
    out = here("status", service)[1]
    sentence = r"It said last, at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: The disk \\x1b\[31mis full\.$"
    assert re.search(sentence, out.splitlines()[0]), out
    said = json.loads(here("status", service, "--json")[1])["pipelines"]["p"]["said"]
    assert (said["event"], said["text"]) == ("failed", "The disk \x1b[31mis full.")
    Path(folder, "p", "said.json").write_text("{")
    assert "It said last" not in here("status", service)[1], "a damaged note is none"


def test_a_checkpoint_that_nobody_used(here, config, folder):
    path = config(service={"checkpoint": folder})
    assert "has not run on this checkpoint" in here("status", path)[1]
    assert json.loads(here("status", path, "--json")[1])["pipelines"]["p"]["running"] is None


def test_what_is_let_go_is_free(service, folder):
    first = Checkpoint(folder, "p")
    first.claim()
    assert first.holder() == (
        True,
        Holder(os.getpid(), os.uname().nodename, first.holder()[1].since),
    )
    first.release()
    assert first.holder() == (False, None)
    second = Checkpoint.of(load_config(service), "p")
    second.claim()
    second.release()


def test_storage_without_locks_says_what_it_knows(monkeypatch, folder):
    monkeypatch.setattr(Checkpoint, "lockable", property(lambda _self: False))
    checkpoint = Checkpoint(folder, "p")
    checkpoint.write_status({"batch": 1})
    assert checkpoint.holder() == (False, None)
    checkpoint.claim()
    assert checkpoint.holder()[0] is None
    assert checkpoint.holder()[1].pid == os.getpid()
    newer = Checkpoint(folder, "p")
    newer._write("holder.json", {"pid": 1, "host": "other", "since": "2026-11-24T00:00:00Z"})
    checkpoint.release()  # another process took over: its note stays
    assert newer.holder() == (None, Holder(1, "other", "2026-11-24T00:00:00Z"))


def test_a_command_to_a_stopped_service_stands_and_that_is_said_at_once(
    here, broker, topic_prefix, config, folder
):
    names = {role: f"{topic_prefix}{role}" for role in ("output", "rejects", "events", "commands")}
    names["input"] = [f"{topic_prefix}in"]
    create_topics(broker.bootstrap, {f"{topic_prefix}{each}": 1 for each in ("in", *names)})
    path = config(
        names, service={"checkpoint": folder}, kafka={"bootstrap_servers": broker.bootstrap}
    )
    words = ("skip", path, "--channel", "K", "--limit", "0.2")
    assert "does not run" not in here(*words)[2]  # nothing is known of a checkpoint elsewhere
    Checkpoint(folder, "p").write_status({"batch": 1})
    checkpoint = Checkpoint(folder, "p")
    checkpoint.claim()
    assert "does not run" not in here(*words)[2]
    checkpoint.release()
    status, _, said = here(*words)
    assert status == 1
    assert said.index("The service does not run. The command stands in") < said.index("No answer")
    assert "Start the service. Its answer will be on" in said


def test_a_narrow_terminal_cuts_no_time(here, service, monkeypatch):
    monkeypatch.setattr("streaming.cli.tables.PIPE_COLUMNS", 30)
    out = here("status", service)[1]
    assert "…" not in out
    assert re.search(r"\d{4}-\d\d-", out)

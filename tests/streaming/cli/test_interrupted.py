"""Ctrl-C: a sentence, status 130; -h is help."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from streaming.kafka import asking
from tests.kafka_helpers import create_topics
from tests.service_helpers import called, toml


def test_ctrl_c_while_a_command_waits_for_its_answer(broker, topic_prefix, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(asking, "_answer", interrupted)
    name = f"{topic_prefix}p"
    create_topics(broker.bootstrap, {f"{name}.{role}": 1 for role in ("in", "events", "commands")})
    path = tmp_path / "c.toml"
    path.write_text(
        f"[kafka]\nbootstrap_servers = {toml(broker.bootstrap)}\n"
        f'[pipelines."{name}"]\ndiscipline = "channel"\n'
    )
    code, out, err = called("skip", path, "--channel", "K")
    assert (code, out) == (130, "")
    assert f"The command stands in {name}.commands (partition 0, offset 0)" in err
    assert "stopped by Ctrl-C" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_ended_ends_its_service(number, broker, tmp_path):
    words = ("demo", "multicast", "--keep", str(tmp_path))
    environment = {**os.environ, "SEQUENCER_BOOTSTRAP_SERVERS": broker.bootstrap}
    demo = subprocess.Popen(
        [sys.executable, "-m", "streaming.cli", *words],
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children")
    log, deadline = tmp_path / "service.log", time.monotonic() + 60
    while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.1)
    (service,) = map(int, children.read_text().split())
    try:
        demo.send_signal(number)
        assert demo.wait(60) == 130
        assert not Path(f"/proc/{service}").exists()
    finally:
        demo.kill()
        with suppress(ProcessLookupError):
            os.kill(service, signal.SIGKILL)


@pytest.mark.parametrize("words", [["-h"], ["skip", "-h"], ["group", "add", "-h"]])
def test_short_help(words):
    code, out, _ = called(*words)
    assert code == 0
    assert "Usage:" in out


def test_the_shop_has_no_whole_year():
    code, _, err = called("demo", "multicast", "--flights", "0")
    assert code == 2
    assert "--flights 1000" in err


def test_ctrl_c_while_the_command_s_modules_are_imported():
    program = """
import runpy, sys
class Interrupted:
    def find_spec(name, *_):
        if name == "streaming.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted)
runpy.run_module("streaming", run_name="__main__")
"""
    words = [sys.executable, "-c", program, "check", "c.toml"]
    done = subprocess.run(words, check=False, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")

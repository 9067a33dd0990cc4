"""What is told on standard error, as text and as JSON."""

import io
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streaming import logs
from streaming.logs import LogFormat
from tests.service_helpers import called


@pytest.fixture(autouse=True)
def _as_before():
    """Pytest's own handlers of the root apart, which hear all."""
    handlers = list(logging.root.handlers)
    logging.root.handlers.clear()
    yield
    logs.use(LogFormat.TEXT)
    logging.root.handlers[:] = handlers


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def test_text_has_the_message_alone(capsys):
    logs.say("Kafka is back.", event="kafka-back", pause_s=3)
    said = capsys.readouterr().err
    line = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ info +Kafka is back\.\n"
    assert re.fullmatch(line, said), "when, how bad, what"
    assert "pause_s" not in said


def test_json_has_time_level_event_and_fields(capsys):
    logs.use(LogFormat.JSON)
    logs.say("a\nline — of two", event="failed", level="warning", pause_s=3, reason=None)
    (told,) = objects(capsys.readouterr().err)
    assert told.pop("at").endswith("Z")
    assert told == {
        "level": "warning",
        "event": "failed",
        "message": "a\nline — of two",
        "pause_s": 3,
    }


def test_what_other_processes_and_libraries_say_becomes_objects_too(capsys):
    logs.use(LogFormat.JSON)
    logs.relay(io.BytesIO(b"WARNING: \xff\n\nsecond\n"), "spark").join(10)
    try:
        int("why")
    except ValueError:
        logging.getLogger("a.library").critical("lost %s", "it", exc_info=True)
    first, second, third = objects(capsys.readouterr().err)
    assert (first["event"], first["message"]) == ("spark", "WARNING: \ufffd")
    assert second["message"] == "second"
    assert (third["event"], third["level"], third["logger"]) == ("library", "error", "a.library")
    assert "ValueError: invalid" in third["traceback"]


@pytest.mark.parametrize("form", LogFormat)
def test_a_full_disk_loses_lines_and_ends_nothing(form, monkeypatch):
    logs.use(form)
    with io.TextIOWrapper(Path("/dev/full").open("wb", buffering=0), write_through=True) as full:
        monkeypatch.setattr(sys, "stderr", full)
        logs.say("Kafka is back.")
        if logs.in_json():
            relayed = io.BytesIO(b"one\ntwo\n")
            logs.relay(relayed, "spark").join(10)
            assert relayed.read() == b"", "who writes to us does not have to wait"
        monkeypatch.undo()


@pytest.mark.parametrize("form", LogFormat)
def test_a_reader_that_has_ended_loses_lines_and_ends_nothing(form):
    said = "from streaming import logs\n"
    said += f"logs.use(logs.{form})\n"
    said += "with logs.only_json():\n    logs.say('one')\n    logs.say('two')\nprint('clean')"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", said], stdout=subprocess.PIPE, stderr=write, check=False
    )
    os.close(write)
    assert done.stdout == b"clean\n"


@pytest.mark.parametrize("form", LogFormat)
def test_a_full_disk_does_not_end_a_clean_stop_with_a_fault(form):
    said = "from streaming import logs\n"
    said += f"logs.use(logs.{form})\n"
    said += "with logs.only_json():\n    logs.say('stopped')\nprint('clean')"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", said], stdout=subprocess.PIPE, stderr=full, check=False
        )
    assert done.stdout == b"clean\n"


def test_a_library_that_keeps_to_itself_is_left_so(capsys):
    quiet = logging.getLogger("a.quiet.library")
    quiet.addHandler(logging.NullHandler())
    logs.use(LogFormat.JSON)
    quiet.error("nothing for you")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", [["check"], ["run"]])
def test_errors_are_objects_with_the_exit_status(tmp_path, words):
    code, out, err = called("--log-format", "json", *words, tmp_path / "none.toml")
    (told,) = objects(err)
    assert (code, out, told["exit_status"], told["level"]) == (2, "", 2, "error")
    assert told["effect"] == "Nothing was started."


def test_so_are_wrong_calls(tmp_path):
    code, _, err = called("--log-format", "json", "run", tmp_path / "none.toml", "--unknown")
    (told,) = objects(err)
    assert (code, told["exit_status"]) == (2, 2)
    assert "--unknown" in told["message"]


def test_the_option_works_behind_run_too(tmp_path):
    code, _, err = called("run", tmp_path / "none.toml", "--log-format", "json")
    assert (code, objects(err)[0]["event"]) == (2, "error")


def test_so_are_faults_of_the_program(tmp_path, monkeypatch):
    monkeypatch.setattr("streaming.config.load_config", lambda _: 1 / 0)
    code, _, err = called("--log-format", "json", "check", tmp_path)
    (told,) = objects(err)
    assert (code, told["event"]) == (1, "fault")
    assert "ZeroDivisionError" in told["traceback"]


NOISE = """
import logging, os, subprocess, sys, threading, warnings
from streaming import logs
logs.use(logs.LogFormat.JSON)
with logs.only_json():
    os.write(2, b"of a C library\\n")
    subprocess.run(["sh", "-c", "echo of a child >&2"])
    warnings.warn("of Python")
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    logging.getLogger("a.library").error("of logging")
    logs.say("own")
logs.say("after it")
"""


def test_whatever_is_written_to_standard_error_becomes_an_object():
    words = [sys.executable, "-c", NOISE]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    said = [each["message"] for each in objects(done.stderr)]
    for part in ("of a C library", "of a child", "of Python", "ZeroDivisionError", "own"):
        assert any(part in each for each in said), (part, said)
    assert said.count("of logging") == 1
    assert said[-1] == "after it"

"""What all commands have in common: help, exit statuses, how errors are told."""

from __future__ import annotations

import errno
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import streaming.cli
from streaming.cli import app
from tests.streaming.cli.processes import SECONDS_MAX, environment

COMMANDS = ["demo", "init", "run", "check", "topics", "status", "verify", "send", "tail", "broker"]


def test_help_names_every_command(here):
    code, out, err = here("--help")
    assert (code, err) == (0, "")
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", out, re.MULTILINE)
    assert "Exit status: 0 fine; 1" in out.replace("\n  ", " ")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_exit_statuses_and_an_example(here, command):
    code, out, _ = here(command, "--help")
    assert code == 0
    assert "Exit status: 0" in out
    assert f"Example: sequencer {command}" in out


def test_arguments_are_explained_and_missed(here):
    code, out, _ = here("send", "--help")
    assert code == 0
    assert re.search(r"topic.* The topic\.  \[required\]$", out, re.MULTILINE | re.IGNORECASE)
    assert "\\" not in out
    code, out, err = here("run")
    assert (code, out) == (2, "")
    assert "missing argument 'config'" in err.lower()


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_nothing_is_cut_or_too_wide_in_the_help_of_any_command(here, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    groups = {"group": streaming.cli.group, "node": streaming.cli.node}
    verbs = [(verb.name or verb.callback.__name__,) for verb in app.registered_commands]
    verbs += [(name, each.name) for name, of in groups.items() for each in of.registered_commands]
    assert len(verbs) > 30
    for words in [(), *((name,) for name in groups), *verbs]:
        code, out, err = here(*words, "--help")
        assert (code, err) == (0, "")
        assert not re.search(r"\.\.\.$", out.partition("\n\n")[2], re.MULTILINE), words
        assert "\x1b" not in out, "no colours in a pipe"
        assert max(map(len, out.splitlines())) <= columns, words


def test_a_shell_can_complete_it(here):
    assert "--install-completion" in here("--help")[1]
    asked = {"COMP_WORDS": "sequencer status --bl", "COMP_CWORD": "2"}
    done = subprocess.run(
        [Path(sys.executable).with_name("sequencer")],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env={**environment(), "_SEQUENCER_COMPLETE": "complete_bash", **asked},
        check=True,
    )
    assert done.stdout.split() == ["--blocked"]


def test_nothing_said_is_help(here):
    code, out, err = here()
    assert code == 2
    assert "Usage: " in out + err


def test_the_version(here):
    code, out, _ = here("--version")
    assert code == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", out)


@pytest.mark.parametrize("wrong", [["chekc"], ["check"], ["check", "a", "--no"], ["tail", "a", "--max", "x"]])  # fmt: skip
def test_a_wrong_call_has_status_2(here, wrong):
    code, out, err = here(*wrong)
    assert (code, out) == (2, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("wrong", [["verify", "--timeout", "-1"], ["verify", "--timeout", "nan"], ["advise", "--share", "2"]])  # fmt: skip
def test_numbers_that_mean_nothing_are_refused(here, wrong, config):
    code, out, err = here(wrong[0], config(), *wrong[1:])
    assert (code, out) == (2, "")
    assert f"Invalid value for '{wrong[1]}'" in err


def test_help_is_quick():
    """Nothing heavy is imported before a command needs it."""
    heavy = "{'pyspark', 'confluent_kafka', 'kafka', 'pydantic', 'numpy', 'pandas', 'networkx'}"
    told = subprocess.run(
        [sys.executable, "-c", f"import sys, streaming.cli; print({heavy} & sys.modules.keys())"],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=environment(),
        check=True,
    )
    assert told.stdout == "set()\n"


def test_an_error_has_effect_and_remedy_on_lines_of_their_own(here, tmp_path):
    missing = tmp_path / "none.toml"
    assert here("check", missing) == (
        2,
        "",
        f"sequencer: {missing} cannot be read: No such file or directory.\n"
        "  Nothing was started.\n  Check the path.\n",
    )
    code, _, err = here("--verbose", "check", missing)
    assert code == 2
    assert "Traceback" in err
    assert "load.py" in err


def test_a_fault_of_the_program_is_told_as_such(here, monkeypatch, config):
    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr("streaming.config.load_config", broken)
    code, out, err = here("check", config())
    assert (code, out) == (1, "")
    assert "RuntimeError: a bug" in err
    assert err.endswith("this is a fault of the program; please report it.\n")


@pytest.mark.parametrize("words", [("backup", "orders.toml", "bk"), ("broker", "--data", "data")])
def test_a_working_directory_that_was_removed_is_no_fault_of_the_program(
    here, monkeypatch, config, tmp_path, words
):
    file, folder = config(), tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    code, out, err = here(*(file if word.endswith(".toml") else word for word in words))
    assert (code, out) == (1, "")
    assert err.startswith("sequencer: The working directory was removed.\n  Nothing was done")
    assert "Traceback" not in err


def test_no_folder_for_temporary_files_is_no_fault_of_the_program(here, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nonexistent"])
    code, out, err = here("broker", "--port", "0")
    assert (code, out) == (1, "")
    assert err.startswith("sequencer: No usable temporary directory found in ['/nonexistent'].\n")
    assert "Set TMPDIR" in err
    assert "Traceback" not in err


def test_no_room_for_another_open_file_is_no_fault_of_the_program(here, monkeypatch, config):
    def limited(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("streaming.config.load_config", limited)
    code, out, err = here("check", config())
    assert (code, out) == (1, "")
    assert err.startswith("sequencer: Too many open files.\n")
    assert "ulimit -n" in err
    assert "Traceback" not in err


def raised_by_ctrl_c():
    raise KeyboardInterrupt


def raised_while_a_library_cleans_up():
    """As PySpark does, whose JVM is gone when it has been interrupted."""
    try:
        raise KeyboardInterrupt
    finally:
        raise OSError("no answer")


@pytest.mark.parametrize("raises", [raised_by_ctrl_c, raised_while_a_library_cleans_up])
def test_ctrl_c_has_status_130_and_no_traceback(raises, here, monkeypatch, config):
    def interrupted(*_):
        raises()

    monkeypatch.setattr("streaming.config.load_config", interrupted)
    code, out, err = here("check", config())
    assert (code, out) == (130, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["init", "--help"]])
def test_standard_output_that_takes_no_more_is_no_fault_of_the_program(words):
    command = [Path(sys.executable).with_name("sequencer"), *words]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS_MAX, check=False
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("sequencer: Output cannot be written: No space left")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["check", "no.toml"], ["check", "--nope"]])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_disk_behind_standard_error_changes_no_exit_status(words, form):
    command = [Path(sys.executable).with_name("sequencer"), "--log-format", form, *words]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stderr=full, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize("outputs", [">&-", "2>&-", ">&- 2>&-"])
def test_outputs_may_be_closed(outputs, config):
    words = [Path(sys.executable).with_name("sequencer"), "check", config()]
    told = [shlex.quote(str(word)) for word in words]
    done = subprocess.run(
        ["/bin/sh", "-c", f"{' '.join(told)} {outputs}"], timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0

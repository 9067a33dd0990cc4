"""What `make` would do, from what it prints (`--dry-run`): nothing is installed."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def would_do(target, folder):
    words = ["make", "--no-print-directory", "--dry-run", f"VENV={folder}/venv", target]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_the_demo_needs_no_tools_of_the_tests(tmp_path):
    wanted = would_do("demo", tmp_path)
    assert "'.[demo]'" in wanted
    assert "'.[test]'" not in wanted
    assert wanted.rstrip().endswith("sequencer demo")


def test_tests_have_what_the_demo_has_and_their_tools(tmp_path):
    for target in ("setup", "test-only"):
        wanted = would_do(target, tmp_path)
        assert wanted.index("'.[demo]'") < wanted.index("'.[test]'")


def test_setuptools_does_not_warn_of_how_it_is_asked(tmp_path):
    for target in ("setup", "site"):
        asked = [
            line for line in would_do(target, tmp_path).splitlines() if "editable_mode" in line
        ]
        assert asked
        assert all("PYTHONWARNINGS=ignore" in line for line in asked)


def test_what_is_installed_is_not_installed_again(tmp_path):
    (tmp_path / "venv").mkdir()
    for mark in ("ready-for-demo", "ready"):
        (tmp_path / "venv" / mark).touch()
    assert "pip install" not in would_do("demo", tmp_path)
    assert "pip install" not in would_do("test-only", tmp_path)

"""What gets into the image: the two packages and their recipe; no secrets, no tests."""

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
SECRET_NAMES = re.compile(r"\.(pem|key|p12|pfx|jks|keystore|env|netrc|pypirc)$|^\.|secret|passw")
SECRET_TEXTS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{16}|AKIA[0-9A-Z]{16}"
)


def copied():
    """The sources of all COPY lines, but for those that copy from an earlier stage."""
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, flags=re.MULTILINE):
        yield from line.split()[:-1]


def files():
    """All files that come along, as git knows them; build folders are ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *copied()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip(f"git does not list the files: {listed.stderr}")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def test_the_builder_is_sent_what_is_copied_and_no_more():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    let_in = [rule[1:] for rule in rules if rule.startswith("!")]
    assert let_in == list(copied())
    assert all((ROOT / name).exists() for name in let_in)


def test_nothing_that_is_copied_looks_like_a_secret():
    found = files()
    assert len(found) > 100
    for path in found:
        assert not SECRET_NAMES.search(path.name), path
        assert not SECRET_TEXTS.search(path.read_bytes()), path


def test_no_tests_are_copied_or_installed():
    assert not [path for path in files() if path.name.startswith(("test_", "conftest"))]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    include = project["tool"]["setuptools"]["packages"]["find"]["include"]
    folders = [path.parent.name for path in ROOT.glob("*/__init__.py")]
    assert "tests" in folders
    installed = {name for name in folders if any(fnmatch(name, each) for each in include)}
    assert installed == {"sequencer", "streaming"}


def test_the_image_holds_no_secret_of_its_own_and_runs_as_nobody_special():
    assert not re.search(r"^(ENV|ARG) .*(PASSW|SECRET|TOKEN|KEY)", DOCKERFILE, re.MULTILINE)
    users = re.findall(r"^USER (\w+)$", DOCKERFILE, flags=re.MULTILINE)
    assert users
    assert users[-1] != "root"
    assert DOCKERFILE.index(f"USER {users[-1]}") < DOCKERFILE.index("ENTRYPOINT")

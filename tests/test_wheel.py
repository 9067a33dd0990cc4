"""The wheel, installed where no checkout is: all that the service needs is in it."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "sequencer", "streaming")
SECONDS_MAX = 1_200

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * SECONDS_MAX)]


def run(*command, cwd):
    """Run a command that sees nothing of the checkout; return what it printed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**own, "PYTHONNOUSERSITE": "1", "VIRTUAL_ENV": ""}
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    return done.stdout + done.stderr


def test_the_demo_runs_from_the_wheel_alone(tmp_path):
    source, empty = tmp_path / "source", tmp_path / "empty"
    empty.mkdir()
    source.mkdir()
    for name in BUILT_FROM:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=empty)
    python = tmp_path / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path / "wheels", source, cwd=empty)
    (wheel,) = (tmp_path / "wheels").glob("spark_sequencer-*-py3-none-any.whl")
    assets = {
        each.relative_to(ROOT).as_posix()
        for each in (ROOT / "streaming").rglob("*")
        if each.suffix in (".html", ".css", ".js")
    }
    assert len(assets) > 20
    assert assets <= set(zipfile.ZipFile(wheel).namelist()), "the console's pages come with it"
    shutil.rmtree(source)
    pins = ROOT / "constraints.txt"
    run(*pip, "install", "--constraint", pins, f"{wheel}[demo]", cwd=empty)
    found = run(python, "-c", "import streaming; print(streaming.__file__)", cwd=empty)
    assert Path(found.strip()).is_relative_to(tmp_path / "venv")
    demo = (tmp_path / "venv" / "bin" / "sequencer", "demo", "--flights", 3_000)
    kept = tmp_path / "kept"
    said = run(*demo, "--keep", kept, cwd=empty)
    assert "3,000" in said, said
    assert (kept / "demo.toml").exists()

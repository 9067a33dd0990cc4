"""Jars that PySpark does not bring, fetched once with the Ivy that PySpark does bring.

They are kept in a folder of the user's cache; SEQUENCER_JARS names a folder that is already filled
(with `connector/` and `broker/`), for machines without a network. SEQUENCER_IVY_SETTINGS is an Ivy
settings file, for mirrors.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streaming.errors import ConfigError, SequencerError

IVY = Path(__file__).with_name("ivy.xml")
JAVA_MIN = 17
RESOLVE_SECONDS_MAX = 600
LOCK_SECONDS_MAX = 900


def spark_jars() -> list[Path]:
    """Jars of Spark's Kafka connector."""
    return _jars("connector")


def broker_classpath() -> list[Path]:
    """Jars of the embedded broker."""
    return _jars("broker")


def java() -> str:
    """The java command; ConfigError where there is none, or an old one."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else shutil.which("java")
    remedy = f"Install a JDK {JAVA_MIN} or newer, and set JAVA_HOME or PATH to it."
    if not command or not Path(command).exists():
        raise ConfigError("There is no java.", "Nothing was started.", remedy)
    said = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60)  # noqa: PLW1510
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    if said.returncode or not found or int(found.group(1)) < JAVA_MIN:
        what = (said.stderr.splitlines() or ["nothing"])[0]
        raise ConfigError(f"{command} is too old: it says {what}.", "Nothing was started.", remedy)
    return command


def _jars(kind: str) -> list[Path]:
    given = os.environ.get("SEQUENCER_JARS")
    folder = Path(given) if given else _cache_folder()
    if not given and not folder.is_dir():
        with _lock(folder.with_suffix(".lock")):
            if not folder.is_dir():
                _resolve(folder)
    jars = sorted((folder / kind).glob("*.jar"))
    if not jars:
        raise ConfigError(
            f"{folder / kind} has no jars.",
            "Nothing was started.",
            "Unset SEQUENCER_JARS to fetch them." if given else f"Remove {folder} and try again.",
        )
    return jars


def _cache_folder() -> Path:
    import pyspark  # noqa: PLC0415  (a second to import)

    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = hashlib.sha256(IVY.read_bytes() + pyspark.__version__.encode()).hexdigest()[:12]
    return Path(base) / "spark-sequencer" / f"jars-{name}"


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Only one process resolves; the others wait for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        deadline = time.monotonic() + LOCK_SECONDS_MAX
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SequencerError(
                        f"Another process has been fetching jars for {LOCK_SECONDS_MAX} s.",
                        "Nothing was started.",
                        f"End it, or remove {path}.",
                    ) from None
                time.sleep(0.2)
        yield


def _resolve(folder: Path) -> None:
    """Fetch into a folder beside, then rename: a folder that is there is whole."""
    import pyspark  # noqa: PLC0415

    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    command = java()
    said = "Fetching Spark's Kafka connector and a Kafka broker (64 MB, once, about half a minute)"
    print(said, end="", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="jars-new-") as temporary:
        arguments = [command, "-jar", str(ivy), "-ivy", str(IVY), "-cache", f"{temporary}/ivy"]
        arguments += ["-retrieve", f"{temporary}/jars/[conf]/[artifact]-[revision].[ext]"]
        arguments += ["-confs", "connector", "broker"]
        settings = os.environ.get("SEQUENCER_IVY_SETTINGS")
        if settings:
            arguments += ["-settings", settings]
        log = Path(temporary, "ivy.log")
        with log.open("w") as output:
            process = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT)
            _wait(process)
        if process.returncode:
            raise SequencerError(
                f"Fetching jars failed: {_faults(log.read_text())}.",
                "Nothing was started.",
                "Check the network and Java's proxy settings; SEQUENCER_IVY_SETTINGS names an Ivy "
                "settings file for a mirror, SEQUENCER_JARS a folder with the jars.",
            )
        Path(temporary, "jars").rename(folder)


def _wait(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + RESOLVE_SECONDS_MAX
    try:
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(1)
            print(".", end="", file=sys.stderr, flush=True)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        print(file=sys.stderr)


def _faults(log: str) -> str:
    lines = [line.strip(" :\t") for line in log.splitlines()]
    told = [
        each for each in lines if re.search(r"not found|UNRESOLVED|Exception|refused|FAILED", each)
    ]
    return "; ".join(dict.fromkeys(told[:3])) or "Ivy gave no reason"

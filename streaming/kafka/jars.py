"""Jars that PySpark does not include, fetched once with the Ivy that it includes.

They are kept in a folder of the user's cache; SEQUENCER_JARS names a folder that already has them
(in `spark/` and `broker/`), for machines without a network. SEQUENCER_IVY_SETTINGS is an Ivy
settings file, for mirrors.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streaming.errors import ConfigError, SequencerError

IVY = Path(__file__).with_name("ivy.xml")
IVY_SETTINGS = Path(__file__).with_name("ivy-settings.xml")
"""For IVY, which names every jar."""
IVY_S3 = Path(__file__).with_name("ivy-s3.xml")
S3_FILES = Path(__file__).parents[1] / "spark" / "java" / "s3-files.jar"
"""How Spark writes a checkpoint on S3; the source is beside it."""
IVY_GS = Path(__file__).with_name("ivy-gs.xml")
FETCHED = {
    IVY.name: "a Kafka broker, and a file system for Spark: 45 MB",
    IVY_S3.name: "Hadoop's client for S3: 14 MB",
    IVY_GS.name: "Google's connector for Hadoop: 40 MB",
}
JAVA_MIN = 17
RESOLVE_SECONDS_MAX = 600
LOCK_SECONDS_MAX = 900


def spark_jars() -> list[Path]:
    """The jar of a local file system that starts no process for each file."""
    return fetched("spark")


def s3_jars() -> list[Path]:
    """Jars for checkpoints on an S3 endpoint; fetched when a configuration has one."""
    return [*fetched("s3", IVY_S3), S3_FILES]


def gs_jars() -> list[Path]:
    """Jars for checkpoints in Google's object store; likewise."""
    return fetched("gs", IVY_GS)


def broker_classpath() -> list[Path]:
    """Jars of the embedded broker."""
    return fetched("broker")


def java() -> str:
    """The java command; ConfigError where there is none, or an old one."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java").absolute()) if home else shutil.which("java")
    remedy = f"Install a JDK {JAVA_MIN} or newer, and set JAVA_HOME or PATH to it."
    if not command or not os.access(command, os.X_OK):
        where = f"at {command}, where JAVA_HOME points" if home else "on the PATH"
        raise ConfigError(f"There is no java {where}.", "Nothing was started.", remedy)
    asked = [command, "-version"]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    if said.returncode or not version:
        what = (said.stderr.splitlines() or ["nothing"])[0]
        raise ConfigError(f"{command} does not work: {what}.", "Nothing was started.", remedy)
    if int(version.group(1)) < JAVA_MIN:
        what = f"{command} is Java {version.group(1)}; {JAVA_MIN} or newer is needed."
        raise ConfigError(what, "Nothing was started.", remedy)
    return command


def java_environment() -> dict[str, str]:
    """Java takes the encoding of file names from the locale; the C locale's knows only ASCII."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def fetched(kind: str, ivy: Path = IVY) -> list[Path]:
    """Jars of one kind of an Ivy file; fetched by the first process that needs them."""
    own_jars = os.environ.get("SEQUENCER_JARS")
    folder = Path(own_jars) if own_jars else _cache_folder(ivy)
    if not own_jars and not folder.is_dir():
        with _lock(folder.with_suffix(".lock")):
            if not folder.is_dir():
                _resolve(folder, ivy)
    jars = sorted((folder / kind).glob("*.jar"))
    if not jars:
        raise ConfigError(
            f"{folder / kind} has no jars.",
            "Nothing was started.",
            "Unset SEQUENCER_JARS to fetch them, or fill the folder from another machine's cache."
            if own_jars
            else f"Remove {folder} and try again.",
        )
    return jars


def pyspark_folder() -> Path:
    """PySpark's folder, without a second for its import."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError("PySpark is not installed.", "Nothing was started.", "Install it.")
    return Path(spec.origin).parent


def _cache_folder(ivy: Path) -> Path:
    """Where the jars are, or shall be."""
    key = ivy.read_bytes() + importlib.metadata.version("pyspark").encode()
    name = f"jars-{hashlib.sha256(key).hexdigest()[:12]}"
    return cache_root(name) / name


def cache_root(wanted: str = "") -> Path:
    """A folder of the user's, or root's where that has what is ``wanted``.

    ConfigError where there is none that can be written to.
    """
    home = os.environ.get("HOME")
    base = os.environ.get("XDG_CACHE_HOME") or (home and str(Path(home) / ".cache"))
    roots = [Path(base, "spark-sequencer")] if base else []
    roots.append(Path(tempfile.gettempdir(), f"spark-sequencer-{os.getuid()}"))
    for root in roots:
        with contextlib.suppress(OSError):
            if (root / wanted).is_dir() and _is_safe(root, 0, os.getuid()):
                return root
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.access(root, os.W_OK) and _is_safe(root, os.getuid()):
                return root
    raise ConfigError(
        f"None of {', '.join(map(str, roots))} can be written to.",
        "Nothing was started.",
        "Set XDG_CACHE_HOME to a folder of yours, or SEQUENCER_JARS to one that has the jars.",
    )


def _is_safe(root: Path, *owners: int) -> bool:
    """Return whether only these users can put something into a folder, or lead its name elsewhere.

    Java runs what lies there, and anyone may have made a link of this name for temporary files.
    """
    link, folder = root.lstat(), root.stat()
    is_theirs = link.st_uid in owners and folder.st_uid in owners
    return is_theirs and not folder.st_mode & stat.S_IWOTH


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Only one process resolves; the others wait for it."""
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


def _resolve(folder: Path, file: Path) -> None:
    """Fetch into a folder beside, then rename: a folder that is there is whole."""
    ivy = next(pyspark_folder().glob("jars/ivy-*.jar"))
    command = java()
    prefix = f"{folder.name}-new-"
    for abandoned in folder.parent.glob(f"{prefix}*"):  # by one that was killed: the lock is ours
        shutil.rmtree(abandoned, ignore_errors=True)
    said = f"Fetching {FETCHED.get(file.name, file.stem)} (once, some 20 seconds)"
    print(said, end="", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix) as temporary:
        # paths from the folder: in a pattern, Ivy has its own use for (, [ and $
        arguments = [command, "-XX:TieredStopAtLevel=1", "-jar", str(ivy)]
        arguments += ["-ivy", str(file), "-cache", "ivy"]
        arguments += ["-retrieve", "jars/[conf]/[artifact]-[revision].[ext]"]
        arguments += ["-confs", "*"]
        settings = os.environ.get("SEQUENCER_IVY_SETTINGS") or (IVY_SETTINGS if file == IVY else "")
        if settings:
            arguments += ["-settings", str(Path(settings).resolve())]
        log = Path(temporary, "ivy.log")
        with log.open("w") as output:
            process = subprocess.Popen(
                arguments,
                cwd=temporary,
                env=java_environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            in_time = _wait(process)
        if process.returncode:
            late = f"it took more than {RESOLVE_SECONDS_MAX} s"
            why = _faults(log.read_text(errors="replace")) if in_time else late
            raise SequencerError(
                f"Fetching jars failed: {why}.",
                "Nothing was started.",
                "Check the network and Java's proxy settings; SEQUENCER_IVY_SETTINGS names an Ivy "
                "settings file for a mirror, SEQUENCER_JARS a folder with the jars.",
            )
        Path(temporary, "jars").rename(folder)


def _wait(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the process, with a dot a second; False where it had to be killed."""
    deadline = time.monotonic() + RESOLVE_SECONDS_MAX
    try:
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(1)
            print(".", end="", file=sys.stderr, flush=True)
        return process.poll() is not None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        print(file=sys.stderr)


def _faults(log: str) -> str:
    lines = [line.strip(" :\t") for line in log.splitlines()]
    reasons = [
        line for line in lines if re.search(r"not found|UNRESOLVED|Exception|refused|FAILED", line)
    ]
    return "; ".join(dict.fromkeys(reasons[:3])) or "Ivy gave no reason"


if __name__ == "__main__":  # make fetches them while it installs the rest
    fetched("broker")

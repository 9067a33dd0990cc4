"""The archive of Python workers' dependencies, for hosts on which the project is not installed.

A Python process imports what workers import; the archive has the distributions of all modules that
are loaded then, our two packages, and modules of the user's own (custom labels). PySpark and py4j
come with Spark. Spark unpacks the archive on every executor (`spark.archives`).
"""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from streaming.config import Config
from streaming.disciplines import operators
from streaming.errors import ConfigError

FOLDER = "workers"
"""The name of the folder into which the archive is unpacked."""
WORKER_MODULES = (
    "streaming.spark.preflight",
    "streaming.sink.sink",
    "streaming.sink.producer",
    "pandas",
    "pyspark.sql.pandas.serializers",
)
OUR_PACKAGES = ("sequencer", "streaming")
NOT_PACKED = ("pyspark", "py4j", "setuptools", "pip", "spark-sequencer")
"""Spark's own; what Python imports when it starts; what is packed from its source."""
LEFT_OUT = frozenset({"__pycache__", "tests", "include"})
"""Folders of packages that no worker reads: a third of all bytes."""
IMPORT_SECONDS_MAX = 120
ASK = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
above = {name: files.get(name.rpartition(".")[0]) for name in files}
json.dump({name: file for name, file in files.items() if file and not above[name]}, sys.stdout)
"""


def build(config: Config, target: Path) -> int:
    """Write the archive for all pipelines of a configuration; return its size in bytes.

    Raises ConfigError if a dependency of workers cannot be imported here, or the archive cannot be
    written.
    """
    custom = [module for each in config.pipelines.values() for module in _own_modules(each)]
    wanted = [*WORKER_MODULES, *operators(config.pipelines.values()), *custom]
    files = sorted(set(_files(_imported(wanted))))
    new = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".new", delete=False) as file:
            new = Path(file.name)
            with (
                gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1, mtime=0) as packed,
                tarfile.open(fileobj=packed, mode="w") as archive,
            ):
                for name, path in files:
                    archive.add(path, name, recursive=False)
        new.chmod(0o644)
        new.replace(target)
        return target.stat().st_size
    except OSError as error:
        if new is not None:
            new.unlink(missing_ok=True)
        raise ConfigError(
            f"{target} cannot be written: {error.strerror}.",
            "No archive was written.",
            "Name another file with --output, or make room.",
        ) from error


def settings(target: Path) -> dict[str, str]:
    """Return the settings of [spark] that give workers the archive."""
    return {
        "spark.archives": f"{target.resolve()}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": FOLDER,
    }


def _own_modules(pipeline: object) -> list[str]:
    """Return the user's modules that a pipeline's settings name."""
    labels = getattr(pipeline, "labels", None)
    function: str = getattr(labels, "next", "") or ""
    return [function.partition(":")[0]] if function else []


def _imported(modules: Iterable[str]) -> dict[str, str]:
    """Return the files of all modules that are loaded after importing these.

    A package's file stands for the modules in it; a package without one (as `google`, which several
    distributions share) has none.
    """
    asked = [sys.executable, "-c", ASK, *modules]
    path = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))  # noqa: PTH109
    done = subprocess.run(
        asked,
        capture_output=True,
        text=True,
        timeout=IMPORT_SECONDS_MAX,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    if done.returncode:
        raise ConfigError(
            f"What workers need cannot be imported here: {done.stderr.strip().splitlines()[-1]}.",
            "No archive was written.",
            "Install it where this command runs.",
        )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _files(modules: dict[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the archive's files, with their names in it."""
    owners = importlib.metadata.packages_distributions()
    named = set()
    for name, file in modules.items():
        if name in OUR_PACKAGES:
            yield from _folder(name, Path(file).parent)
        elif (top := name.partition(".")[0]) in owners:
            named.update(set(owners[top]) - set(NOT_PACKED))
        elif _is_users(Path(file)):
            own, place = Path(file), PurePosixPath(name.replace(".", "/"))
            if own.stem == "__init__":
                yield from _folder(str(place), own.parent)
            else:
                yield str(place.with_name(own.name)), own
    for name in named:
        for each in importlib.metadata.files(name) or ():
            if not LEFT_OUT & set(each.parts) and ".." not in each.parts:
                path = Path(str(each.locate()))
                if path.is_file():
                    yield each.as_posix(), path


def _folder(name: str, folder: Path) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if path.is_file() and "__pycache__" not in inside.parts:
            yield f"{name}/{inside.as_posix()}", path


def _is_users(file: Path) -> bool:
    """Return whether a module is neither Python's nor installed."""
    python = Path(os.__file__).parent
    return python not in file.parents and file.name != "<frozen>"

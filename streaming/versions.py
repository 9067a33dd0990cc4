"""What has to be the same on all hosts: Python, some packages, and this project's own source.

The check of a start compares it (`streaming.spark.preflight`). Executors may also come later, with
an archive that was packed again, or another image: so each worker compares once.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import platform
import socket
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from streaming.errors import NOT_FINISHED, SequencerError

PACKAGES = ("numpy", "pandas", "pyarrow", "kafka-python", "lz4")
"""Packages whose versions must agree: they read the driver's plan and bytes on executors."""
VARIABLE = "SEQUENCER_VERSIONS"
"""The environment variable with the driver's, for executors."""
PACK = (
    "Build the archive of what executors need with `sequencer pack CONFIG`, and name it as that "
    "says (docs/cluster.md)."
)


def versions() -> dict[str, str]:
    """Return what must be the same on driver and executors."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "none"
    return {**found, "this service": source_digest()}


def source_digest() -> str:
    """Return a digest of the source of `streaming` and `sequencer`, whose versions must not mix."""
    digest = hashlib.sha256()
    for package in ("sequencer", "streaming"):
        file = importlib.import_module(package).__file__
        folder = Path(file or "").parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def differences(found: Mapping[str, str], drivers: Mapping[str, str]) -> list[str]:
    """Return what an executor has otherwise than the driver, a sentence each."""
    return [
        f"{name} is {found.get(name, 'none')}, the driver's is {version}"
        for name, version in drivers.items()
        if found.get(name) != version
    ]


def to_environment() -> dict[str, str]:
    """The variable, with this process's versions; no shell on the way reads more into it."""
    return {VARIABLE: ",".join(f"{name}={version}" for name, version in versions().items())}


@cache
def require_drivers() -> None:
    """Raise SequencerError where this process has other versions than the driver (`VARIABLE`)."""
    pairs = os.environ.get(VARIABLE, "").split(",")
    drivers = dict(each.split("=", 1) for each in pairs if each)
    if drivers and (wrong := differences(versions(), drivers)):
        raise SequencerError(
            f"The executor on {socket.gethostname()} is not like the driver: {'; '.join(wrong)}.",
            NOT_FINISHED,
            f"It came after the check of the start. {PACK} Or take its host from the cluster.",
        )

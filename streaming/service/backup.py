"""A backup of checkpoints in a folder, taken while a service works on them.

    TO/<pipeline>/   offsets up to batch B + 1, commits up to B, the state after B, held/, our files

A file there never changes once it has its name, so a hard link is a copy of it. What makes the
files fit together, for each pipeline:

1. B is the last batch that is logged as done.
2. Everything is linked, except what later batches left: the copy goes on behind B.
3. If batch B + 2 was planned meanwhile, begin again: it is the first that may remove a file of
   `held/` that the state after B names (`streaming.disciplines.channels.shard_files`).

Then the disk has to write it, and it gets its name: what is at TO is whole.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from streaming.durable import sync, sync_all
from streaming.errors import ConfigError, JobFailed, StorageUnavailable
from streaming.service import behind, last_said
from streaming.service.checkpoint import DECISIONS, HOLDER, LOCK, STATUS, WAITING, Checkpoint
from streaming.spark.snapshots import state_version
from streaming.storage.files import local_path

TRIES_MAX = 100
PAUSE_SECONDS = 0.05
STAGE = ".backup-"
"""What the folder of a backup that is not whole is called, before 32 hexadecimal digits."""
FIRST, LAST = (STATUS, WAITING), (DECISIONS,)
"""A status of batch B + 1 needs the offsets of that batch beside it; these need the decisions."""
OF_A_PROCESS = (LOCK, HOLDER, behind.NAME, last_said.NAME)
"""What a process says of itself; another one that works on the backup has its own."""
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
UNCHANGED = "No backup was made; the checkpoint is unchanged."


def back_up(checkpoints: Iterable[Checkpoint], to: Path) -> dict[str, int]:
    """Write a backup of these checkpoints, which share a root, to a folder that is not there.

    Return for each pipeline the last batch that its backup has done, -1 where there is none.
    Raises ConfigError where that cannot work, JobFailed and StorageUnavailable.
    """
    checkpoints = list(checkpoints)
    to = Path(os.path.realpath(to))  # a link stays, and leads to the backup
    _require_possible(checkpoints, to)
    root = Path(local_path(checkpoints[0].location)).parent
    stage = root / f"{STAGE}{uuid.uuid4().hex}"
    held = ExitStack()
    try:
        held.enter_context(_swept(root))
        kept = {each.pipeline: _link_pipeline(each, stage / each.pipeline) for each in checkpoints}
        if all(batch < 0 for batch in kept.values()):
            raise ConfigError(
                f"{checkpoints[0].location}: no batch has been done here yet.",
                UNCHANGED,
                "Give the checkpoint that the service runs on.",
            )
        sync_all(stage)
        to.parent.mkdir(parents=True, exist_ok=True)
        held.enter_context(_swept(to.parent))
        with suppress(FileNotFoundError):
            to.rmdir()
        whole = _in_place(stage, to)
        whole.rename(to)
        sync(to.parent)
    except OSError as error:
        raise StorageUnavailable(
            f"The backup cannot be written to {to}: {_reason(error)}.",
            UNCHANGED,
            "See that the folder can be written to, and that its disk has room.",
        ) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        held.close()
    return kept


def _reason(error: OSError) -> str:
    """Return what the first failure was; a copied folder has a list of (from, to, reason)."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        return str(error.args[0][0][2])
    return str(error.strerror)


@contextmanager
def _swept(folder: Path) -> Iterator[None]:
    """Remove what backups that were killed left in a folder, if no other one works there.

    Their links keep what the service removes, until its disk is full.
    """
    if not folder.is_dir():
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # another one works there
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for abandoned in folder.glob(f"{STAGE}*"):
                if re.fullmatch(r"[0-9a-f]{32}", abandoned.name.removeprefix(STAGE)):
                    shutil.rmtree(abandoned, ignore_errors=True)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _require_possible(checkpoints: list[Checkpoint], to: Path) -> None:
    for checkpoint in checkpoints:
        if not checkpoint.lockable:
            raise ConfigError(
                f"The checkpoint {checkpoint.location} is in no folder.",
                UNCHANGED,
                "Stop the service and copy it with the storage's own tools (docs/backup.md).",
            )
        checkpoint.require_here()
    try:
        is_used = to.exists() and (not to.is_dir() or any(to.iterdir()))
    except OSError as error:
        raise ConfigError(
            f"{to} cannot be a backup: {error.strerror}.", UNCHANGED, "Name another folder."
        ) from error
    for checkpoint in checkpoints:
        own = os.path.realpath(local_path(checkpoint.location))
        if to.is_relative_to(own):
            raise ConfigError(
                f"{to} is in the checkpoint {own} itself.",
                UNCHANGED,
                "Name a folder elsewhere: the next backup would contain this one.",
            )
    if is_used:
        raise ConfigError(
            f"{to} is there already.", UNCHANGED, "Name a folder that is not there, or is empty."
        )


def _link_pipeline(checkpoint: Checkpoint, to: Path) -> int:
    """Link one pipeline's files; the last batch that they have done, -1 if there is none."""
    for _ in range(TRIES_MAX):
        batch = checkpoint.done()
        if batch < 0:
            return batch
        _link_files(Path(local_path(checkpoint.location)), to, batch)
        if checkpoint.planned() <= batch + 1:
            Checkpoint(str(to.parent), to.name).require_whole()
            return batch
        shutil.rmtree(to)
        time.sleep(PAUSE_SECONDS)
    raise JobFailed(
        f"{checkpoint.pipeline}: two batches ended each time before all files were linked.",
        UNCHANGED,
        "Try again when the service has less to do, or stop it first.",
    )


def _link_files(folder: Path, to: Path, batch: int) -> None:
    for name in _names(folder):
        if not _is_later(name, batch):
            target = to / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # what is old is removed at any time
                _link(folder / name, target)


def _names(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, relative to it; not those that are being written."""
    known = (*FIRST, *LAST, *OF_A_PROCESS)
    yield from map(Path, FIRST)
    for where, _, names in os.walk(folder):
        for name in names:
            if not name.startswith(".") and not name.endswith(".new") and name not in known:
                yield Path(where, name).relative_to(folder)
    yield from map(Path, LAST)


def _is_later(name: Path, batch: int) -> bool:
    """Whether a file belongs to what comes after a batch, and the plan of the next one."""
    if name.parts[0] in ("offsets", "commits") and name.name.isdigit():
        return int(name.name) > batch + (name.parts[0] == "offsets")
    version = state_version(name.name) if name.parts[0] == "state" else None
    return version is not None and version > batch + 1


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        shutil.copyfile(source, target)


def _in_place(stage: Path, to: Path) -> Path:
    """Return the files beside their place: as they are, or copied where that is another disk."""
    if stage.stat().st_dev == to.parent.stat().st_dev:
        return stage
    copy = to.with_name(f"{STAGE}{uuid.uuid4().hex}")
    try:
        shutil.copytree(stage, copy)
        sync_all(copy)
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise
    return copy

"""What a move to a new checkpoint needs before it begins (`streaming.service.rescale`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from streaming.config import Config
from streaming.disciplines import DISCIPLINES
from streaming.errors import ConfigError, StorageUnavailable
from streaming.service.checkpoint import MOVING, Checkpoint

UNCHANGED = "Nothing was changed; the service can be started as it was."


@contextmanager
def nothing_closed() -> Iterator[None]:
    """Inside, a disk that is full (or the like) leaves all as it was."""
    try:
        yield
    except StorageUnavailable as error:
        remedy = f"{error.remedy} Then give this command again."
        raise StorageUnavailable(error.message, UNCHANGED, remedy) from error


def require_moved(old: Checkpoint, new: Checkpoint, shards: int) -> None:
    """ConfigError where what was moved before is not there, or not as this command asks for."""
    there = new.identity()
    if there is None:
        raise ConfigError(
            f"The state of pipeline {old.pipeline} was moved to {new.location}, and is not there.",
            "Nothing was changed.",
            "Restore it from a backup of that checkpoint.",
        )
    if there.shards != shards:
        raise ConfigError(
            f"The state of pipeline {old.pipeline} was moved to {new.location} before, with "
            f"{there.shards} shards; --shards is {shards}.",
            "Nothing was changed.",
            f"Give the command that was interrupted again: --shards {there.shards}.",
        )


def require_as_it_ran(config: Config, old: Checkpoint) -> None:
    """ConfigError where the file says otherwise what is fixed for the checkpoint's life."""
    identity, settings = old.identity(), config.pipelines[old.pipeline]
    assert identity is not None  # noqa: S101  (asked before)
    inputs, own = sorted(settings.input), DISCIPLINES[settings.discipline].identity(settings)
    discipline = settings.discipline
    old.require_like(identity, replace(identity, discipline=discipline, inputs=inputs, own=own))


def require_free(new: Checkpoint, origin: str) -> None:
    """ConfigError where something is there that is not of this move: it would be lost."""
    is_empty = new.has_only(f"{MOVING}.new")  # a write that a kill cut short
    if not is_empty and not new.is_moved_from(origin):
        raise ConfigError(
            f"{new.location} is not empty, and what is there is not of this move.",
            UNCHANGED,
            "Name a new folder or URI with --to.",
        )

"""What a move to a new checkpoint needs before it begins (`streaming.service.rescale`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from streaming.config import Config
from streaming.disciplines import DISCIPLINES
from streaming.errors import ConfigError, JobFailed, StorageUnavailable
from streaming.service.checkpoint import MOVING, Checkpoint

HASH_BYTES = 16

Entries = Callable[[], Iterable[dict[str, Any]]]
"""Gives what a state says of each channel, subscriber or peer, in any order, as often as called."""

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


def require_as_it_ran(config: Config, old: Checkpoint, *, reads: bool = True) -> None:
    """ConfigError where the file says otherwise what is fixed for the checkpoint's life.

    ``reads``: also which inputs it reads, which its state does not depend on.
    """
    identity, settings = old.identity(), config.pipelines[old.pipeline]
    assert identity is not None  # noqa: S101  (asked before)
    inputs = sorted(settings.input) if reads else identity.inputs
    own = DISCIPLINES[settings.discipline].identity(settings)
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


def require_same(before: Entries, after: Entries, name: str) -> None:
    """JobFailed where anything of a pipeline's state is not as it was.

    A state may have ten million entries: their hashes are added up, so none is kept.
    """
    if _sum(before()) == _sum(after()):
        return
    example = _one_of(after(), missing_from=before()) or _one_of(before(), missing_from=after())
    raise JobFailed(
        f"What was moved of pipeline {name} is not what was there, for instance "
        f"{example or 'how often one is there'}.",
        UNCHANGED,
        "This is a fault of the program; please report it.",
    )


def _sum(entries: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """How many there are, and the sum of their hashes."""
    count, total = 0, 0
    for entry in entries:
        count += 1
        total += int.from_bytes(_hash(_text(entry)), "big")
    return count, total


def _one_of(entries: Iterable[dict[str, Any]], *, missing_from: Iterable[dict[str, Any]]) -> str:
    """The first that is not there; empty where all are."""
    there = {_hash(_text(entry)) for entry in missing_from}
    return next((text for text in map(_text, entries) if _hash(text) not in there), "")


def _text(entry: dict[str, Any]) -> str:
    return json.dumps(entry, default=str)


def _hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=HASH_BYTES).digest()

"""Copies of a checkpoint: backups, another folder, another machine."""

from __future__ import annotations

from pathlib import Path

from tests.simulated.disk import Disk

COPIED = ("named", "offsets", "commits", "state", "totals", "purged")
"""What has entries in a `storage.Storage`, by their names there."""


def back_up(storage):
    """Copy all of it; what puts the copy back."""
    copies = _entries(storage)
    kept, noted, files = storage.kept, storage.noted, storage.disk.files()

    def restore():
        for name, copy in copies.items():
            setattr(storage, name, dict(copy))
        storage.kept, storage.noted = kept, noted
        storage.written.clear()
        storage.disk.put_back(files)

    return restore


def move(storage, folder):
    """Have it go on in another folder, in which files of held records were written meanwhile."""
    before, storage.folder = storage.disk, Path(folder)
    storage.disk = Disk(storage.folder)
    storage.disk.contents = before.contents
    storage.disk.names = {
        path: some for path, some in before.names.items() if path.is_relative_to(folder)
    }


def copy(storage, other):
    """Make another one what this one is now."""
    for name, entries in _entries(storage).items():
        setattr(other, name, entries)
    other.kept, other.noted, other.ever = storage.kept, storage.noted, [*storage.ever]
    other.named_states, other.retained = storage.named_states, storage.retained
    for path, content in storage.disk.files().items():
        there = other.folder / path.relative_to(storage.folder)
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(content)


def _entries(storage):
    return {name: dict(getattr(storage, name)) for name in COPIED}

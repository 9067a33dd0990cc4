"""Pictures that verbs write to a file."""

from __future__ import annotations

import os
from pathlib import Path

from streaming.errors import ConfigError


def require_writable(path: Path) -> None:
    """Raise ConfigError where a picture could not be written there."""
    folder = path.parent
    try:
        path.is_dir()
    except OSError as error:  # its name is too long, or a folder on its way is closed to us
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}.", "Nothing was done.", "Name a file."
        ) from error
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        where = "it" if path.is_dir() else f"{folder}"
        is_wrong = "is a folder" if path.is_dir() else "is not a folder, or you may not write there"
        raise ConfigError(
            f"{path} cannot be written: {where} {is_wrong}.", "Nothing was done.", "Name a file."
        )


def write_picture(path: Path, text: str) -> None:
    """Write a picture. ConfigError where that does not work."""
    try:
        path.write_text(text)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}.", "The picture is missing."
        ) from error

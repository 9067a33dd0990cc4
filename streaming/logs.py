"""What the program says to people, on standard error: lines of text, or one JSON object a line."""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from typing import IO, Any

from streaming.terminal import printable, printable_json


class LogFormat(Enum):
    """Return the line."""

    TEXT = "text"
    JSON = "json"


LEVELS = ("debug", "info", "warning", "error")
LEVEL_WIDTH = max(map(len, LEVELS))
_USUAL = logging.lastResort
_chosen = LogFormat.TEXT
_own: IO[str] | None = None
"""Where lines go while standard error is a pipe to :func:`only_json`."""
RELAY_SECONDS_MAX = 2
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing to a file fails with where it is not the program's fault."""


def use(form: LogFormat) -> None:
    """Tell it so from now on, also what libraries log where nobody has said how."""
    global _chosen  # noqa: PLW0603  (one standard error for the whole process)
    _chosen = form
    if form is LogFormat.JSON:
        logging.root.handlers.clear()
        handler = _Handler()
        handler.setFormatter(_Formatter())
        logging.lastResort = handler  # unchanged: what a library keeps to itself stays so
    else:
        logging.lastResort = _USUAL


def in_json() -> bool:
    """Return whether lines are JSON."""
    return _chosen is LogFormat.JSON


def say(text: str, *, event: str = "note", level: str = "info", **fields: Any) -> None:
    """One thing that a person would want to know.

    Each line has the time (UTC) and the ``level`` (one of LEVELS). JSON besides has what it is
    (``event``) and the ``fields``; those that are None are left out.
    """
    if not in_json():
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        _print(f"{at} {level:{LEVEL_WIDTH}} {printable(text)}")
        return
    given = {name: value for name, value in fields.items() if value is not None}
    _write(level, event, text, given)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: "1 channel", "2,000 channels"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


@contextmanager
def only_json() -> Iterator[None]:
    """Inside, where lines are JSON, whatever else is written to standard error becomes JSON, too.

    That is what Python, C libraries and child processes write to the file descriptor.
    """
    global _own  # noqa: PLW0603
    if not in_json() or _own is not None:
        yield
        return
    kept = os.dup(2)
    read, write = os.pipe()
    sys.stderr.flush()
    os.dup2(write, 2)
    os.close(write)
    copying = relay(os.fdopen(read, "rb"), "library")
    own = _own = os.fdopen(kept, "w", encoding="utf-8")
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        copying.join(RELAY_SECONDS_MAX)  # a child that lives on keeps the pipe open
        _own = None
        with unless_full():
            own.close()


def relay(lines: Iterable[bytes], event: str) -> threading.Thread:
    """Tell lines of another process, each as an object of its own; the thread ends with them."""

    def copy() -> None:
        for line in lines:
            if text := line.decode(errors="replace").rstrip():
                _write("warning", event, text, {})

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


class _Handler(logging.Handler):
    """Writes records of `logging` to where all lines go."""

    def emit(self, record: logging.LogRecord) -> None:
        _print(self.format(record))


class _Formatter(logging.Formatter):
    """Records of `logging` in the same words."""

    def format(self, record: logging.LogRecord) -> str:
        level = record.levelname.lower()
        fields: dict[str, Any] = {"logger": record.name}
        if record.exc_info and record.exc_info[0] is not None:
            fields["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        level = level if level in LEVELS else "error"
        return _line(level, "library", record.getMessage(), fields)


def _line(level: str, event: str, message: str, fields: dict[str, Any]) -> str:
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    first = {"at": at, "level": level, "event": event, "message": message}
    return printable_json({**first, **fields})


def _write(level: str, event: str, message: str, fields: dict[str, Any]) -> None:
    _print(_line(level, event, message, fields))


def _print(line: str) -> None:
    """Write a line; it is lost where nobody takes it, which must not end a service."""
    stream = _own or sys.stderr
    with unless_full():
        stream.write(line + "\n")  # one write: threads share it
        stream.flush()


@contextmanager
def unless_full() -> Iterator[None]:
    """Ignore that lines cannot be written, as the disk is full or a pipe's reader has ended."""
    try:
        yield
    except OSError as error:
        if error.errno not in (*DISK_ERRORS, errno.EPIPE):
            raise

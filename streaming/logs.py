"""What the program tells people, on standard error: lines of text, or one JSON object a line."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import Enum
from typing import Any


class LogFormat(Enum):
    """How it is told."""

    TEXT = "text"
    JSON = "json"


LEVELS = ("debug", "info", "warning", "error")
_USUAL = logging.lastResort
_chosen = LogFormat.TEXT


def use(form: LogFormat) -> None:
    """Tell it so from now on, also what libraries log where nobody has said how."""
    global _chosen  # noqa: PLW0603  (one standard error for the whole process)
    _chosen = form
    if form is LogFormat.JSON:
        logging.root.handlers.clear()
        handler = logging.StreamHandler()
        handler.setFormatter(_Formatter())
        logging.lastResort = handler  # as it is: what a library keeps to itself stays so
    else:
        logging.lastResort = _USUAL


def in_json() -> bool:
    """Whether lines are JSON."""
    return _chosen is LogFormat.JSON


def say(text: str, *, event: str = "note", level: str = "info", **fields: Any) -> None:
    """One thing that a person would want to know.

    JSON besides has the time, the ``level`` (one of LEVELS), what it is (``event``) and the
    ``fields``; those that are None are left out.
    """
    if not in_json():
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
        return
    given = {name: value for name, value in fields.items() if value is not None}
    _write(level, event, text, given)


def relay(lines: Iterable[bytes], event: str) -> threading.Thread:
    """Tell lines of another process, each as an object of its own; the thread ends with them."""

    def copy() -> None:
        for line in lines:
            if text := line.decode(errors="replace").rstrip():
                _write("warning", event, text, {})

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


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
    return json.dumps({**first, **fields}, ensure_ascii=False)


def _write(level: str, event: str, message: str, fields: dict[str, Any]) -> None:
    sys.stderr.write(_line(level, event, message, fields) + "\n")  # one write: threads share it
    sys.stderr.flush()

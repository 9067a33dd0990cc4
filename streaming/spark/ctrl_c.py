"""Ctrl-C where Spark runs: its handler stays the one before, and no traceback is shown."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager

OF_PY4J = "while sending command."


class _Untouched:
    """The module `signal` for PySpark's context, which would cancel jobs at Ctrl-C and raise."""

    SIGINT = signal.SIGINT

    @staticmethod
    def signal(_number: int, _handler: object) -> None:
        """Leave the handler unchanged."""


@contextmanager
def left_alone() -> Iterator[None]:
    """Inside, a session may begin: it takes no signals."""
    from pyspark.core import context  # noqa: PLC0415  (a second to import)

    before, context.signal = context.signal, _Untouched
    try:
        yield
    finally:
        context.signal = before


def hush() -> None:
    """Let py4j say nothing of calls that were interrupted, or met a JVM that is gone.

    It writes tracebacks to the root logger, and raises all the same.
    """
    logging.root.addFilter(_is_of_others)


def _is_of_others(record: logging.LogRecord) -> bool:
    return not (record.module == "java_gateway" and record.getMessage().endswith(OF_PY4J))

"""Ctrl-C while Spark runs: keep the handler that was set before, and show no traceback."""

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
    """Within this context, a session that begins sets no signal handlers."""
    from pyspark.core import context  # noqa: PLC0415  (a second to import)

    before, context.signal = context.signal, _Untouched
    try:
        yield
    finally:
        context.signal = before


def hush() -> None:
    """Silence py4j's log of calls that were interrupted or found the JVM gone.

    It writes tracebacks to the root logger besides raising.
    """
    logging.root.addFilter(_is_of_others)


def _is_of_others(record: logging.LogRecord) -> bool:
    return not (record.module == "java_gateway" and record.getMessage().endswith(OF_PY4J))

"""PySpark's daemon, without a stack trace where the JVM hangs up before a worker has answered.

Spark starts it by the name of its module (`spark.python.daemon.module`). When a batch fails, Spark
closes the connections of workers that still run; that is no fault of theirs, and what failed is
told elsewhere.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

from pyspark import daemon


class _Traceback:
    """The module that the daemon prints with."""

    def print_exc(self) -> None:
        """Tell of the exception that is being handled, unless it is a connection that ended."""
        if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
            traceback.print_exc()

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)


daemon.traceback = _Traceback()

if __name__ == "__main__":
    daemon.manager()

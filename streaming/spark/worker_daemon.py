"""PySpark's daemon for Python workers, with six changes.

Spark starts `worker_entry`, which starts this daemon.

A worker whose input ends before its end-of-stream marker raises (`streaming.spark.stream_end`).
PySpark's own takes rows that were cut off, when the stage before failed, for all of them.

When a batch fails, Spark closes the connections of workers that still run. Failures are reported
elsewhere, so these workers print no stack trace.

A SIGTERM to the whole process group, as from systemd, leaves the running batch its workers.

After each task a worker collects garbage. PySpark's walks through every object of all imported
modules: some 60 ms, most of a small task's time. Ours walks only through objects of the last tasks,
and rarely within a task.

A stateful operator's output leaves its worker in batches of a few rows, as each row is a table of
up to 2 MiB. PySpark's worker keeps all rows of a task until there are 20,000.

The daemon imports workers' modules before it forks them. PySpark's workers each import pandas,
Arrow and our own modules: a second of a core, and 120 MiB that are not shared.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Iterable
from typing import Any

from pyspark import daemon

from streaming.spark.stream_end import reading_whole_input

WHOLE_EVERY = 5_000
"""Cycles among objects that outlived a task are collected once in this many tasks, which takes
100 ms."""
THRESHOLDS = (100_000, 50, 100)
"""The number of new objects (`gc.set_threshold`) before garbage is collected within a task."""
OUTPUT_ROWS_MAX = 4
"""The number of an operator's rows at which its worker sends them on."""
PRELOAD = "SEQUENCER_PRELOAD"
"""The environment variable for modules of the pipelines' operators, separated by commas."""
MODULES = ("pyspark.worker", "streaming.sink.sink")
SINK_MODULES = ("streaming.sink.producer",)
SOURCE_MODULES = ("streaming.source.reader", "streaming.wire.fetched")
SINGLE_THREADED = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Without these, numpy's and Arrow's libraries start threads when they are imported, and a process
with threads cannot be forked safely. Nothing here multiplies matrices."""


ALL_MODULES = (*MODULES, *SINK_MODULES, *SOURCE_MODULES)


def prepare(modules: Iterable[str]) -> None:
    """Import the modules and change PySpark's daemon, so that forked workers share both."""
    gc.set_threshold(*THRESHOLDS)
    preload(modules)
    refuse_cut_input()
    hand_on_early()


def serve() -> None:
    """Run the daemon."""
    prepare(wanted())
    manage()


def manage() -> None:
    """Fork workers for as long as Spark requests some."""
    daemon.manager()


def preload(names: Iterable[str]) -> None:
    """Import these modules and exclude them from garbage collection, so that workers share them.

    A module that cannot be imported is left to the worker, whose error is reported.
    """
    for name, value in SINGLE_THREADED.items():
        os.environ.setdefault(name, value)
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def wanted() -> list[str]:
    """Return the modules that this daemon's workers need, from its environment."""
    if "SEQUENCER_STAGE" in os.environ:
        return [*MODULES, *SINK_MODULES]
    return [*MODULES, *SOURCE_MODULES, *filter(None, os.environ.get(PRELOAD, "").split(","))]


def refuse_cut_input() -> None:
    """Make every worker raise if its input was cut before its end."""
    worker: Any = importlib.import_module("pyspark.worker")
    worker.main = reading_whole_input(worker.main)


def hand_on_early() -> None:
    """Make workers send an operator's output on as soon as there are a few rows."""
    worker: Any = importlib.import_module("pyspark.worker")
    serializer = worker.ApplyInPandasWithStateSerializer

    def limited(**settings: Any) -> Any:
        return serializer(**{**settings, "arrow_max_records_per_batch": OUTPUT_ROWS_MAX})

    worker.ApplyInPandasWithStateSerializer = limited


class _Traceback:
    """Replaces the module `traceback` of the daemon."""

    def print_exc(self) -> None:
        """Print the exception being handled, unless it is a connection that ended."""
        if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
            traceback.print_exc()

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)


class _Garbage:
    """Replaces the module `gc` of the daemon."""

    def __init__(self) -> None:
        self.tasks = 0

    def collect(self) -> int:
        """Collect objects that are younger than the last call."""
        if self.tasks % WHOLE_EVERY == 0:
            gc.unfreeze()
        self.tasks += 1
        unreachable = gc.collect()
        gc.freeze()
        return unreachable

    def __getattr__(self, name: str) -> Any:
        return getattr(gc, name)


class _Signal:
    """Replaces the module `signal` of the daemon and its workers."""

    def signal(self, number: int, handler: Any) -> Any:
        """Set a handler, but keep SIGTERM ignored: a stop lets the running batch finish.

        When Spark stops, the daemon's standard input ends, and the daemon ends its workers.
        """
        return None if number == signal.SIGTERM else signal.signal(number, handler)

    def __getattr__(self, name: str) -> Any:
        return getattr(signal, name)


daemon.traceback = _Traceback()
daemon.signal = _Signal()
daemon.gc = _Garbage()

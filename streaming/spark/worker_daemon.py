"""PySpark's daemon for Python workers, with six changes.

`worker_entry` is what Spark starts.

A worker whose input ends before its end-of-stream marker raises (`streaming.spark.stream_end`). One
of PySpark's takes rows that were cut off, as the stage before it failed, for all of them.

When a batch fails, Spark closes the connections of workers that still run; that is no fault of
theirs, and failures are reported elsewhere: they print no stack trace.

A SIGTERM that everybody gets, as from systemd, leaves the running batch its workers.

After each task the daemon has a worker collect garbage. That walks through every object of all
imported modules, some 60 ms, which is most of what a small task costs; here it walks through what
the last tasks left alone. As it does so after each task, it need not do so often within one.

What a stateful operator gives out leaves its worker in batches of a few rows: each of ours is a
table of up to 2 MiB. A worker of PySpark's keeps all rows of a task until there are 20,000.

The daemon imports what workers need before it forks them. A worker of PySpark's imports pandas,
Arrow and our own modules by itself: a second of a core, and 120 MiB that it shares with nobody.
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
"""Cycles among objects that outlived a task are collected once in this many tasks, for which the
next one waits for 100 ms."""
THRESHOLDS = (100_000, 50, 100)
"""This many new objects (`gc.set_threshold`) before garbage is collected within a task."""
OUTPUT_ROWS_MAX = 4
"""With more rows of an operator's, its worker hands on what it has."""
PRELOAD = "SEQUENCER_PRELOAD"
"""Modules of the pipelines' own that a worker needs, with commas between them."""
MODULES = ("pyspark.worker", "streaming.sink.sink")
SINK_MODULES = ("streaming.sink.producer",)
SOURCE_MODULES = ("streaming.source.reader", "streaming.wire.fetched")
SINGLE_THREADED = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Without these, numpy's and Arrow's libraries start threads when they are imported, and a process
with threads is not safely forked. Nothing here multiplies matrices."""


ALL_MODULES = (*MODULES, *SINK_MODULES, *SOURCE_MODULES)


def prepare(modules: Iterable[str]) -> None:
    """Make this process one whose children are workers that share these modules."""
    gc.set_threshold(*THRESHOLDS)
    preload(modules)
    refuse_cut_input()
    hand_on_early()


def serve() -> None:
    """Be the daemon."""
    prepare(wanted())
    manage()


def manage() -> None:
    """Fork workers for as long as Spark asks for some."""
    daemon.manager()


def preload(names: Iterable[str]) -> None:
    """Import these modules and keep them where garbage is not looked for, so workers share them.

    One that cannot be imported is left to the worker, which says so where it is seen.
    """
    for name, value in SINGLE_THREADED.items():
        os.environ.setdefault(name, value)
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def wanted() -> list[str]:
    """What this daemon's workers need, by its environment; the sink has a daemon of its own."""
    if "SEQUENCER_STAGE" in os.environ:
        return [*MODULES, *SINK_MODULES]
    return [*MODULES, *SOURCE_MODULES, *filter(None, os.environ.get(PRELOAD, "").split(","))]


def refuse_cut_input() -> None:
    """Let each worker, whatever its stage, tell a stream that was cut from one that has ended."""
    worker: Any = importlib.import_module("pyspark.worker")
    worker.main = reading_whole_input(worker.main)


def hand_on_early() -> None:
    """Let an operator's output leave its worker as it comes."""
    worker: Any = importlib.import_module("pyspark.worker")
    serializer = worker.ApplyInPandasWithStateSerializer

    def limited(**settings: Any) -> Any:
        return serializer(**{**settings, "arrow_max_records_per_batch": OUTPUT_ROWS_MAX})

    worker.ApplyInPandasWithStateSerializer = limited


class _Traceback:
    """The module that the daemon prints with."""

    def print_exc(self) -> None:
        """Tell of the exception that is being handled, unless it is a connection that ended."""
        if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
            traceback.print_exc()

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)


class _Garbage:
    """The module that the daemon collects garbage with."""

    def __init__(self) -> None:
        self.tasks = 0

    def collect(self) -> int:
        """What `gc.collect` does, among what is younger than the last call."""
        if self.tasks % WHOLE_EVERY == 0:
            gc.unfreeze()
        self.tasks += 1
        unreachable = gc.collect()
        gc.freeze()
        return unreachable

    def __getattr__(self, name: str) -> Any:
        return getattr(gc, name)


class _Signal:
    """The module that the daemon and its workers set signals with."""

    def signal(self, number: int, handler: Any) -> Any:
        """SIGTERM stays ignored, as it came from the JVM: a stop lets the running batch finish.

        When Spark stops, the daemon's standard input ends, and the daemon ends its workers.
        """
        return None if number == signal.SIGTERM else signal.signal(number, handler)

    def __getattr__(self, name: str) -> Any:
        return getattr(signal, name)


daemon.traceback = _Traceback()
daemon.signal = _Signal()
daemon.gc = _Garbage()

"""What workers do after each task."""

import gc
import os
import subprocess
import sys
import weakref
import zipfile
from pathlib import Path

import pyspark
import pytest

from streaming.arrow.output import ROWS_AT_ONCE
from streaming.spark import worker_daemon
from streaming.spark.worker_daemon import OUTPUT_ROWS_MAX, PRELOAD, WHOLE_EVERY, _Garbage

PRELOADED = """
import os, sys
from streaming.spark.worker_daemon import preload, wanted
preload(wanted())
names = ("pyarrow", "streaming.sink.producer", "streaming.disciplines.channels.core")
print(len(os.listdir("/proc/self/task")), *(name in sys.modules for name in names))
"""
OPERATOR = "streaming.disciplines.channels.core"

LIMITED = """
from streaming.spark.worker_daemon import hand_on_early
hand_on_early()
from pyspark import worker
names = (
    "timezone", "safecheck", "assign_cols_by_name", "prefer_int_ext_dtype", "state_object_schema",
    "prefers_large_var_types", "int_to_decimal_coercion_enabled",
)
settings = {**dict.fromkeys(names), "arrow_max_records_per_batch": 20_000}
print(worker.ApplyInPandasWithStateSerializer(**settings).arrow_max_records_per_batch)
"""

WHOLE = """
import io
from pyspark import worker
from streaming.spark.stream_end import WholeInput
from streaming.spark.worker_daemon import refuse_cut_input
refuse_cut_input()
try:
    worker.main(io.BytesIO(b"\\xff" * 4), io.BytesIO())
except SystemExit:  # a partition of this number is for PySpark's own tests
    print(WholeInput.current.tell())
"""


def said(code, **environment):
    """What a process of its own prints."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout.split()


class Knot:
    def __init__(self):
        self.me = self


@pytest.fixture
def garbage():
    yield _Garbage()
    gc.unfreeze()


def test_what_a_task_leaves_in_cycles_is_collected_after_it(garbage):
    garbage.collect()
    left = weakref.ref(Knot())
    assert left() is not None
    garbage.collect()
    assert left() is None


def test_what_outlived_a_task_is_collected_in_the_end(garbage):
    knot = Knot()
    left = weakref.ref(knot)
    garbage.collect()
    del knot
    garbage.collect()
    assert left() is not None, "it was not looked at: that would take long"
    for _ in range(WHOLE_EVERY - 1):
        garbage.collect()
    assert left() is None


def test_the_daemon_uses_it():
    assert isinstance(worker_daemon.daemon.gc, _Garbage)
    assert worker_daemon.daemon.gc.isenabled() == gc.isenabled()


def test_what_workers_share_is_imported_before_the_fork_without_threads():
    modules = {PRELOAD: f"{OPERATOR},no.such.module"}
    assert said(PRELOADED, **modules) == ["1", "True", "False", "True"]


def test_the_sinks_workers_share_the_producers_modules_and_no_operators():
    sink = {"SEQUENCER_STAGE": "sink", PRELOAD: OPERATOR}
    assert said(PRELOADED, **sink) == ["1", "True", "True", "False"]


def test_an_operators_output_leaves_in_pieces_whatever_spark_is_told():
    assert said(LIMITED) == [str(OUTPUT_ROWS_MAX)]


def test_each_worker_reads_an_input_that_knows_its_end():
    assert said(WHOLE) == ["4"]


def test_spark_ends_no_stream_because_its_task_is_to_end():
    """Sparks before 4.2 gave Python an iterator that is empty once the task is interrupted.

    Rows that end so are followed by the marker; nobody could tell them from all rows.
    """
    jars = Path(pyspark.__file__).parent / "jars"
    users = []
    for path in (*jars.glob("spark-core_*.jar"), *jars.glob("spark-sql_*.jar")):
        with zipfile.ZipFile(path) as jar:
            classes = [name for name in jar.namelist() if "/python/" in name]
            assert classes
            users += [name for name in classes if b"ContextAwareIterator" in jar.read(name)]
    assert users == []


def test_what_a_shard_hands_on_leaves_the_worker_at_once():
    assert ROWS_AT_ONCE == OUTPUT_ROWS_MAX + 1

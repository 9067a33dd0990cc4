"""The driver's own Python as a source of Spark's: what crosses the gateway."""

import gc
import subprocess
import sys
import weakref
from unittest.mock import MagicMock

from streaming.disciplines.source import SourceRows
from streaming.spark.stream import Frames

GIVEN = """
import gc, threading, time
from functools import partial
from types import SimpleNamespace
import py4j.clientserver
from streaming.spark.jvm import Jvm
from streaming.spark.stream import READ, Stream

py4j.clientserver.DEFAULT_WORKER_SLEEP_TIME = 0  # what is garbage is told at once
answer = py4j.clientserver.ClientServerConnection._call_proxy

def slow(*arguments):
    text = answer(*arguments)
    gc.collect()
    time.sleep(0.005)
    return text

py4j.clientserver.ClientServerConnection._call_proxy = slow
with Jvm({"spark.driver.memory": "300m"}) as jvm:
    jvm.connect()
    from pyspark import SparkContext
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = SparkContext._gateway
    ensure_callback_server_started(gateway)
    known = [None] + [{"t": {"0": 7}}] * 81
    reader = SimpleNamespace(newest=lambda: known.pop(0))
    frames = SimpleNamespace(class_=partial(getattr, gateway.jvm))
    stream = Stream(gateway, "name", reader, frames, threading.Event())
    assert stream.reportLatestOffset() is None
    assert stream.reportLatestOffset().json() == '{"t": {"0": 7}}'
    java = gateway.jvm.java
    source = java.lang.Class.forName(READ + "streaming.SupportsAdmissionControl")
    method = source.getMethod("reportLatestOffset", gateway.new_array(java.lang.Class, 0))
    given = gateway.new_array(java.lang.Object, 0)
    lost = []

    def ask():
        for _ in range(20):
            offset = method.invoke(stream, given)
            lost.append(offset is None or '7' not in offset.json())

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert len(lost) == 80 and not any(lost), sum(lost)
"""


def test_java_gets_what_python_gives_also_where_that_is_garbage_at_once():
    subprocess.run([sys.executable, "-c", GIVEN], check=True, timeout=240)


def test_what_batches_read_goes_with_its_query():
    """Each start makes another; who keeps them keeps objects of the JVM."""
    frames = Frames(MagicMock(), "shard int, rows binary", [(0, 1), (2, 3)], None)
    first, second = frames.of(SourceRows(b"pack")), frames.of(SourceRows(b"pack"))
    assert first is not None
    assert second is not None
    assert frames.context.parallelize.call_count == 1, "the keys are made once"
    kept = weakref.ref(frames)
    del frames
    gc.collect()
    assert kept() is None

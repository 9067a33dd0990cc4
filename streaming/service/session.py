"""The Spark session that all pipelines share, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaming.config import Config
from streaming.kafka.jars import spark_jars
from streaming.service.checkpoint import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SPARK_SECONDS_MAX = 8
JAVA_SECONDS_MAX = 5
SESSION = {
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.speculation": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
"""What every session needs; without them the guarantees or the speed do not hold.

Under ANSI rules a value that cannot be cast would stop the job; without, it is null, and the record
is rejected.
"""


PYTHON_WORKERS = {
    "spark.python.daemon.module": "streaming.service.worker_daemon",
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
}
"""Over TCP each start of a worker's task waits for delayed acknowledgments, some 30 ms."""

LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
"""On a local folder rename is atomic; Spark's own way there starts a process for each file, which
takes half of the time between two batches."""

LOCAL_FILES_JAR = "hadoop-bare-naked-local-fs"
LOCAL_FILES = {
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
}
"""Hadoop's own file system starts a process (chmod) for each file that it creates, too: 20 ms for
each of Spark's two logs, in every batch."""


@contextmanager
def spark_session(config: Config) -> Iterator[SparkSession]:
    """The session that all pipelines share; it and its JVM are gone afterwards."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.master": "local[*]",
        "spark.app.name": config.service.name,
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_log_settings()}",
        **PYTHON_WORKERS,
        **(LOCAL_CHECKPOINT if is_local(config.service.checkpoint) else {}),
        **{name: str(value) for name, value in config.spark.items()},
        **SESSION,
    }
    jars = [str(path) for path in spark_jars()]
    settings["spark.jars"] = ",".join([*jars, *filter(None, [settings.get("spark.jars")])])
    files = [each for each in jars if LOCAL_FILES_JAR in each]
    if files and settings["spark.master"].startswith("local"):
        # On the class path of Java itself: Spark needs it before it has its own jars.
        path = [*files, *filter(None, [settings.get("spark.driver.extraClassPath")])]
        settings = {**LOCAL_FILES, **settings, "spark.driver.extraClassPath": os.pathsep.join(path)}
    with _quiet_java():
        session = _start(settings)
    try:
        yield session
    finally:
        _end_session(session)


@contextmanager
def _quiet_java() -> Iterator[None]:
    """A JVM that is started inside leaves SIGTERM to us.

    It may get one along with us, from a terminal or from systemd; it would end at once, and the
    batch with it. PySpark sees to SIGINT in the same way. When we are gone it ends by itself: its
    standard input does.
    """
    from pyspark import java_gateway  # noqa: PLC0415

    usual = java_gateway.Popen

    def start(command: Any, *, preexec_fn: Callable[[], None], **how: Any) -> Any:
        def prepare() -> None:
            preexec_fn()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        return usual(command, preexec_fn=prepare, **how)

    java_gateway.Popen = start
    try:
        yield
    finally:
        java_gateway.Popen = usual


def _start(settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _log_settings() -> str:
    return (Path(__file__).parent / "log4j2.properties").as_uri()


def _end_session(session: SparkSession) -> None:
    """Stop Spark and its JVM, by force where it does not end by itself."""
    from pyspark import SparkContext  # noqa: PLC0415

    gateway = SparkContext._gateway  # noqa: SLF001  (PySpark keeps the JVM's process there)
    process = getattr(gateway, "proc", None)
    stopper = threading.Thread(target=_quietly(session.stop), daemon=True)
    stopper.start()
    stopper.join(SPARK_SECONDS_MAX)
    if gateway is not None:
        _quietly(gateway.shutdown)()
    if process is not None:
        if process.stdin is not None:
            _quietly(process.stdin.close)()
        try:
            process.wait(JAVA_SECONDS_MAX)
        except Exception:  # noqa: BLE001  (whatever it was, the JVM must go)
            process.kill()
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001


def _quietly(action: Callable[[], Any]) -> Callable[[], None]:
    def act() -> None:
        with contextlib.suppress(Exception):  # ending: nothing is left to protect
            action()

    return act

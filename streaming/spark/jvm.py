"""The JVM that Spark runs in: started early, while Python still imports and asks Kafka.

PySpark starts its JVM when a session is requested, and waits for it. Here the JVM is started before
that (`Jvm`), and PySpark gets its address when the session is made.
"""

from __future__ import annotations

import importlib.metadata
import os
import socketserver
import struct
import subprocess
import sys
import time
from collections.abc import Container, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from streaming import logs
from streaming.errors import ConfigError, JobFailed, SequencerError
from streaming.kafka.jars import pyspark_folder
from streaming.spark.class_archive import ClassArchive
from streaming.spark.fork_server import ForkServer
from streaming.spark.launching import JAVA_OPTIONS, command
from streaming.spark.processes import ALLOCATORS, FILE_NAMES, UNHEARD, quietly
from streaming.spark.scratch import Scratch

START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 5
ENDED_SECONDS_MAX = 2
ARCHIVE_SECONDS_MAX = 20
POLL_SECONDS = 0.02
LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the short-lived JVM in which Spark's script computes the command of the other one."""


class Jvm:
    """A JVM process for one Spark session; a context manager that cleans up at its end.

    ``settings`` are the session's; they have the JVM's memory, class path and options. ``secrets``:
    names of those that no other user may see. ``server`` (for its Python workers) and ``scratch``
    (for temporary files) end with the JVM.
    Raises ConfigError in a process that spark-submit started.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        archive: ClassArchive | None = None,
        server: ForkServer | None = None,
        scratch: Scratch | None = None,
        secrets: Container[str] = (),
    ) -> None:
        if "PYSPARK_GATEWAY_PORT" in os.environ:  # its class path is without Kafka's client
            raise ConfigError(
                "spark-submit started this process, with a JVM of its own.",
                "Nothing was started.",
                'Start `sequencer` itself: it starts Spark, where [spark] "spark.master" says.',
            )
        home = spark_home()
        require_same_version(home)
        scratch = scratch or Scratch()
        options = f"{scratch.java_option} {settings.get(JAVA_OPTIONS, '')}"  # the user's come later
        self.settings = {**settings, JAVA_OPTIONS: options.strip()}
        self._archive = archive
        self._server = server
        self._gateway: Any = None
        self._is_closed = False
        self._scratch = scratch
        self._address = scratch.folder / "address"
        self._secrets = scratch.folder / "secrets"
        words, variables = command(home, self.settings, secrets, self._secrets)
        self._process = subprocess.Popen(
            [*UNHEARD, *words],
            stdin=subprocess.PIPE,  # the JVM ends when this does
            stderr=subprocess.PIPE if logs.in_json() else None,
            pass_fds=[scratch.lock],  # Spark's files are there as long as it runs
            env={
                "SPARK_LAUNCHER_OPTS": LAUNCHER,
                **ALLOCATORS,
                **os.environ,
                **variables,
                **FILE_NAMES,
                "SPARK_HOME": str(home),
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._address),
                **(server.environment if server is not None else {}),
            },
        )
        if self._process.stderr is not None:
            logs.relay(self._process.stderr, "spark")

    def connect(self) -> None:
        """Make it PySpark's JVM as soon as it listens; raise JobFailed if it does not start."""
        from pyspark import SparkContext, accumulators  # noqa: PLC0415  (while the JVM starts)
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

        os.environ["PYSPARK_PIN_THREAD"] = "true"  # the properties of a job are those of its thread
        listening = self._listening()
        self._secrets.unlink(missing_ok=True)  # it has them now
        os.environ.update(listening)
        try:
            gateway = launch_gateway()
        finally:
            for name in listening:
                os.environ.pop(name, None)
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001  (no public way in)
        self._gateway = gateway
        for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
            server.handle_error = _tell_unless_cut_off

    def _listening(self) -> dict[str, str]:
        """Return the environment variables with the JVM's address, as PySpark reads them."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._address.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise JobFailed(
                    "Spark's JVM did not start.",
                    "Nothing was done.",
                    "See its output above, and [spark] in the configuration.",
                )
            time.sleep(POLL_SECONDS)
        address = self._address.read_bytes()  # written whole, then renamed
        (port,) = struct.unpack_from(">i", address)
        return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": address[8:].decode()}

    def worked(self) -> None:
        """Note that a batch is done: the classes that the next start needs are loaded now."""
        if self._archive is not None:
            self._archive.worth_keeping = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the JVM, by force if it does not end by itself.

        Raises JobFailed if it had ended before, which is then the cause of ``value``. Does nothing
        once it is done: the early start and the session each have a block of their own.
        """
        if self._is_closed:
            return
        known = not isinstance(value, Exception) or isinstance(value, SequencerError)
        status = None if known else self._ended()
        if self._gateway is not None:
            from pyspark import SparkContext  # noqa: PLC0415

            quietly(self._gateway.shutdown)()
            SparkContext._gateway = None  # noqa: SLF001
            SparkContext._jvm = None  # noqa: SLF001
            self._gateway = None
        self._end()
        if self._server is not None:
            self._server.close()
        self._scratch.close()
        self._is_closed = True
        if status is not None:
            how = f"by signal {-status}" if status < 0 else f"with status {status}"
            raise JobFailed(
                f"Spark's JVM ended {how}.",
                "Batches that are done stay done; the next start repeats the one that was running.",
                "Start again. Signal 9 is often the system's, for want of memory: see its log, and "
                "[spark] spark.driver.memory.",
            ) from value

    def _ended(self) -> int | None:
        """Return the exit status if the JVM ended by itself; its connections may break before."""
        try:
            return self._process.wait(ENDED_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return None

    def _end(self) -> None:
        process = self._process
        if process.stdin is not None:
            quietly(process.stdin.close)()
        archive = self._archive
        recording = archive is not None and archive.recording and archive.worth_keeping
        try:
            process.wait(STOP_SECONDS_MAX + ARCHIVE_SECONDS_MAX * recording)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._archive is not None:
            self._archive.close(whole=process.returncode == 0)


def spark_home() -> Path:
    """Return Spark's folder: SPARK_HOME, or the one in PySpark."""
    home = os.environ.get("SPARK_HOME")
    return Path(home) if home else pyspark_folder()


def require_same_version(home: Path) -> None:
    """Raise ConfigError if the Spark in a folder is not of PySpark's version."""
    core = next(home.glob("jars/spark-core_*.jar"), None)
    wanted = importlib.metadata.version("pyspark")
    found = core.stem.partition("_")[2].partition("-")[2] if core is not None else ""
    if found != wanted:
        raise ConfigError(
            f"SPARK_HOME = {home} is Spark {found}, PySpark is {wanted}."
            if found
            else f"SPARK_HOME = {home} has no Spark (jars/spark-core_*.jar).",
            "Nothing was started.",
            f"Unset SPARK_HOME to use the Spark of PySpark, or set it to a Spark {wanted}.",
        )


def _tell_unless_cut_off(server: socketserver.BaseServer, request: Any, address: Any) -> None:
    """`handle_error` of PySpark's servers, without a traceback where the JVM's end cut them off."""
    if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
        socketserver.BaseServer.handle_error(server, request, address)

"""The Spark session that all pipelines share, and its end."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from streaming.config import Config
from streaming.config.properties import secret_names
from streaming.errors import ConfigError
from streaming.spark import ctrl_c, failures
from streaming.spark.cluster import DEFAULT_MASTER, is_local_master
from streaming.spark.fork_server import ForkServer
from streaming.spark.jvm import Jvm
from streaming.spark.processes import quietly
from streaming.spark.scratch import Scratch
from streaming.spark.settings import EXECUTOR_VARIABLE, PRELOAD, PYTHON_WORKERS, jvm_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_SECONDS_MAX = 8


def start_jvm(config: Config, to: str = "", *, workers: bool = False) -> Jvm:
    """Start the JVM of :func:`spark_session`, which takes a while until it listens.

    ``to``: another checkpoint that is written. ``workers``: Python workers will be needed at once.
    """
    if python := config.spark.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = str(python)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local_master(str(config.spark.get("spark.master", DEFAULT_MASTER))):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings, archive = jvm_settings(config, to)
    scratch = Scratch()
    own_disk = "spark.local.dir" in config.spark or "SPARK_LOCAL_DIRS" in os.environ
    encrypted = config.spark.get("spark.io.encryption.enabled") == "true"  # only by Spark itself
    if is_local_master(settings["spark.master"]) and not (own_disk or encrypted):
        settings |= scratch.for_large_rows
    server = _fork_server(settings, scratch) if workers else None
    return Jvm(settings, archive, server, scratch, secret_names(config.spark, config.secrets))


def _fork_server(settings: Mapping[str, str], scratch: Scratch) -> ForkServer | None:
    """Return a fork server for this machine's workers; None if the user sets other daemons."""
    own = all(settings[name] == value for name, value in PYTHON_WORKERS.items())
    if not (own and is_local_master(settings["spark.master"]) and hasattr(socket, "AF_UNIX")):
        return None
    environment = {
        name.removeprefix(EXECUTOR_VARIABLE): value
        for name, value in settings.items()
        if name.startswith(EXECUTOR_VARIABLE)
    }
    modules = filter(None, environment.get(PRELOAD, "").split(","))
    return ForkServer(scratch.folder, os.environ["PYSPARK_PYTHON"], environment, modules)


@contextmanager
def spark_session(config: Config, jvm: Jvm | None = None) -> Iterator[SparkSession]:
    """Yield the session that all pipelines share; end it and its JVM afterwards.

    ``jvm``: one that was started before (:func:`start_jvm`).
    """
    with jvm or start_jvm(config) as java:
        java.connect()
        from pyspark.sql import SparkSession  # noqa: PLC0415  (a second to import)

        builder = SparkSession.builder
        for name, value in java.settings.items():
            builder = builder.config(name, value)
        ctrl_c.hush()
        failures.hush()
        try:
            with ctrl_c.left_alone():
                session = builder.getOrCreate()
        except Exception as error:
            raise _refused(error, config) from error
        try:
            yield session
        finally:
            stopper = threading.Thread(target=quietly(lambda: failures.stop(session)), daemon=True)
            stopper.start()
            stopper.join(SPARK_SECONDS_MAX)


def _refused(error: Exception, config: Config) -> ConfigError:
    """Return an error with Spark's reason for not starting, without its ninety lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    first = next((line for line in lines if "Exception" in line or "Error" in line), "unknown")
    reason = (causes or [first])[-1].removeprefix("Caused by:").removeprefix(":").strip()
    return ConfigError(
        f"Spark does not start: {reason[:400]}.",
        "Nothing was started.",
        f"See [spark] in {config.source}, and Spark's output above, if any.",
    )


def local(config: Config) -> Config:
    """Return the configuration for this machine's cores, beside a running service."""
    cluster = ("spark.archives", "spark.executorEnv.PYTHONPATH", "spark.pyspark.python")
    kept = {name: value for name, value in config.spark.items() if name not in cluster}
    return replace(config, spark={**kept, "spark.master": DEFAULT_MASTER})

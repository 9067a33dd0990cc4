"""Check before the first batch that executors can do the work.

Each free core gets a task that imports workers' modules, returns its versions, and connects to
Kafka; then all write a token into the checkpoint folder, which the driver finds and they read.
Otherwise a fault would show as a batch that fails again and again.
"""

from __future__ import annotations

import importlib
import socket
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streaming.config import Config
from streaming.disciplines import operators
from streaming.errors import ConfigError, SequencerError
from streaming.kafka import choice, client_settings, connection
from streaming.spark.cluster import Cluster
from streaming.spark.failures import as_sequencer_error
from streaming.spark.session_access import remove_folder
from streaming.stopping import Stopping
from streaming.storage.files import hadoop_uri
from streaming.versions import PACK, differences, versions
from streaming.wire import admin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_RENAME = {
    "mapreduce.outputcommitter.factory.class": (
        "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory"
    ),
}
"""Hadoop's own committers for some stores (gs, abfs) require MapReduce's job."""
KAFKA_SECONDS_MAX = 10
NOTHING = "Nothing was started."


@dataclass(frozen=True, slots=True)
class Executor:
    """A task's findings: ``versions`` of Python, packages and our own code; ``faults``."""

    host: str
    python: str
    versions: dict[str, str]
    faults: tuple[str, ...]


@dataclass(frozen=True)
class Check:
    """The function of a task. ``modules``: of workers; ``kafka``: `client_settings.words`."""

    modules: tuple[str, ...]
    kafka: dict[str, Any]
    brokers: tuple[tuple[str, int], ...]

    def __call__(self, _rows: Iterator[Any]) -> Iterator[Executor]:
        """Check the imports and the way to Kafka; yield the findings."""
        faults = [*self._imports(), *self._reaches()]
        yield Executor(socket.gethostname(), sys.executable, versions(), tuple(faults))

    def _imports(self) -> Iterator[str]:
        for name in self.modules:
            try:
                importlib.import_module(name)
            except Exception as error:  # noqa: BLE001  (whatever a module does when imported)
                yield f"{name} cannot be imported ({type(error).__name__}: {error}). {PACK}"

    def _reaches(self) -> Iterator[str]:
        for host, port in self.brokers:
            try:
                socket.create_connection((host, port), KAFKA_SECONDS_MAX).close()
            except OSError as error:
                yield (
                    f"Kafka's broker {host}:{port} is out of reach ({error}). Open the way from "
                    "executors to all brokers; advertised.listeners must hold for them, too."
                )
                return
        from kafka.errors import KafkaError  # noqa: PLC0415  (where it runs)

        try:
            with choice.opened(self.kafka, KAFKA_SECONDS_MAX) as brokers:
                admin.cluster_of(brokers, KAFKA_SECONDS_MAX)
        except (KafkaError, SequencerError) as error:
            yield (
                f"Kafka refuses executors ({admin.reason(error)}). Files that kafka.properties "
                "name must be on every host; PEM texts need none."
            )


def require_fit(
    session: SparkSession, config: Config, names: Iterable[str], cluster: Cluster, stop: Stopping
) -> bool:
    """Check the executors; return False if a stop comes first.

    Raises ConfigError, which names each fault, its host, and the remedy.
    """
    if cluster.local:
        return True
    tasks = max(1, cluster.cores())
    there = connection.wait_for_kafka(config, KAFKA_SECONDS_MAX).brokers
    modules = ("streaming.sink.sink", *operators(config.pipelines[name] for name in names))
    check = Check(modules, client_settings.words(config), tuple(there.values()))
    context = session.sparkContext

    def ask() -> list[Executor]:
        return list(context.parallelize(range(tasks), tasks).mapPartitions(check).collect())

    executors = _until(stop, cluster, ask)
    if executors is None:
        return False
    _judge(executors, config)
    root = config.service.checkpoint
    _until(stop, cluster, lambda: require_shared(session, root, tasks))
    return not stop.is_set()


def _judge(executors: Iterable[Executor], config: Config) -> None:
    """Raise ConfigError if executors differ from the driver, or found faults."""
    own, faults = versions(), []
    for each in executors:
        where = f"executor on {each.host} ({each.python})"
        faults += [f"{where}: {config.hide(fault)}" for fault in each.faults]
        faults += [f"{where}: {wrong}. {PACK}" for wrong in differences(each.versions, own)]
    if faults:
        lines = "".join(f"\n  {fault}" for fault in dict.fromkeys(faults))
        raise ConfigError(f"Executors cannot do the work:{lines}", NOTHING, faults=faults)


def require_shared(session: SparkSession, root: str, tasks: int) -> None:
    """Raise ConfigError if a file that an executor writes to the checkpoint is not seen by all.

    Uses Spark's own file system, as its state store does.
    """
    folder = hadoop_uri(f"{root.rstrip('/')}/preflight-{uuid.uuid4().hex}")
    try:
        rows = session.range(0, tasks, 1, tasks).selectExpr("cast(id as string) as value")
        rows.write.options(**BY_RENAME).text(folder)
        read = session.read.text(folder).collect()
    except Exception as error:
        raise ConfigError(
            f"Executors cannot use the checkpoint folder {root}: {_cause(error)}.",
            NOTHING,
            "It must be one folder for the driver and all executors, which all may write to: an "
            "object store, HDFS, or a folder that every host mounts at the same path.",
        ) from error
    finally:
        remove_folder(session.sparkContext, folder)
    if len(read) != tasks:
        raise ConfigError(
            f"The checkpoint folder {root} is not the same on all hosts: of {tasks} tokens that "
            f"executors wrote, the driver found {len(read)}.",
            f"{NOTHING} State would lie on an executor's host, and be lost with it.",
            "Use an object store (s3a://…, gs://…), HDFS, or a folder that every host mounts at "
            "the same path.",
        )


def _cause(error: Exception) -> str:
    failure = as_sequencer_error(str(error))
    return failure.message.removeprefix("The query stopped: ").rstrip(".")


def _until(stop: Stopping, cluster: Cluster, work: Any) -> Any:
    """Return the result of ``work``, or None if a stop comes first; raise its errors as ours."""
    outcome: dict[str, Any] = {}

    def act() -> None:
        try:
            outcome["value"] = work()
        except Exception as error:  # noqa: BLE001  (raised below, in the main thread)
            outcome["error"] = error

    worker = threading.Thread(target=act, daemon=True)
    worker.start()
    while worker.is_alive() and not stop.is_set():
        worker.join(0.2)
        cluster.watch()
    error = outcome.get("error")
    if isinstance(error, SequencerError):
        raise error
    if error is not None:
        known = as_sequencer_error(str(error))
        raise ConfigError(f"Executors cannot do the work. {known.message}", NOTHING, known.remedy)
    return outcome.get("value")

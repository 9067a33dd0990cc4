"""Access to a session's state, executors and Hadoop files, for which Spark has no public way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaming.disciplines.state_row import NAMED_FROM
from streaming.storage.files import hadoop_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NAMED_STATES = "spark.sql.streaming.stateStore.checkpointFormatVersion"
"""2: each task names the state that it writes, and the commit log says which states count."""


def use_state_format(session: SparkSession, state_format: int) -> None:
    """Have queries that start from now on, and :func:`state_rows`, take a state of this format."""
    session.conf.set(NAMED_STATES, "2" if state_format >= NAMED_FROM else "1")


def state_rows(session: SparkSession, location: str) -> list[tuple[int, str]]:
    """Return all rows of a query's state: the key of a shard, and its only column."""
    # Spark's reader asks the part of it that only streaming queries start.
    session._jsparkSession.sessionState().streamingQueryManager().stateStoreCoordinator()  # noqa: SLF001
    frame = session.read.format("statestore").load(hadoop_uri(location))
    rows = frame.selectExpr("key.shard", "value.groupState.*").collect()
    return sorted((row[0], row[1]) for row in rows)


def executor_cores(context: Any) -> int:
    """Return the number of cores of the executors that are there."""
    executors = context._jsc.sc().statusStore().executorList(True)  # noqa: FBT003, SLF001
    every = [executors.apply(index) for index in range(executors.size())]
    return sum(each.totalCores() for each in every if each.id() != "driver")


def is_stopped(context: Any) -> bool:
    """Return whether the cluster has ended the application."""
    return bool(context._jsc.sc().isStopped())  # noqa: SLF001


def remove_folder(context: Any, location: str) -> None:
    """Remove a folder, with what is in it, through Hadoop's file system."""
    path = context._jvm.org.apache.hadoop.fs.Path(location)  # noqa: SLF001
    path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)  # noqa: FBT003, SLF001


def write_new(session: SparkSession, location: str, name: str, content: bytes) -> None:
    """Write a file to a checkpoint as Spark writes its logs; an error of Java's where it is there.

    Of several that write it at once one does, whatever the storage (`S3Files.java`).
    """
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    folder = jvm.org.apache.hadoop.fs.Path(location)
    hadoop = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    checkpointing = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    files = checkpointing.CheckpointFileManager.create(folder, hadoop)
    files.mkdirs(folder)
    stream = files.createAtomic(jvm.org.apache.hadoop.fs.Path(folder, name), False)  # noqa: FBT003
    stream.write(content)
    stream.close()

"""The properties of Spark and its JVM: the user's, ours, and those that nobody can change."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

from streaming import versions
from streaming.config import Config
from streaming.config.flow import label_remarks
from streaming.config.kafka_properties import passed_over
from streaming.config.load import UNSUPPORTED
from streaming.config.properties import redaction
from streaming.disciplines import has_rows, operators
from streaming.kafka.jars import gs_jars, s3_jars, spark_jars
from streaming.spark.class_archive import ClassArchive, class_archive
from streaming.spark.cluster import DEFAULT_MASTER, ONE_MACHINE, is_local_master
from streaming.spark.jvm import spark_home
from streaming.spark.launching import JAVA_OPTIONS, class_path
from streaming.spark.processes import ALLOCATORS, FILE_NAMES
from streaming.spark.scratch import BATCH_BYTES, ROWS_BYTES
from streaming.spark.session_access import NAMED_STATES
from streaming.spark.spark_files import LOG_FORMAT
from streaming.storage.files import is_gs, is_local, is_s3

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OBJECTS_TRIGGER_MS = 1_000
ROW_CHECKSUMS = tuple(
    f"spark.sql.shuffle.orderIndependentChecksum.{name}"
    for name in ("enabled", "enableFullRetryOnMismatch", "enableQueryLevelRollbackOnMismatch")
)
"""Each makes Spark hash all shuffled data, to see whether a repeated stage gave other data. Here it
reads the same records, as offsets fix them, but may cut packs elsewhere."""
SNAPSHOT_REPAIR = "spark.sql.streaming.stateStore.autoSnapshotRepair"
"""Passes over a damaged snapshot; by default not if 500 batches or more, a minute's, are behind."""
SESSION = {
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    NAMED_STATES: "2",
    **LOG_FORMAT,
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    f"{SNAPSHOT_REPAIR}.maxChangeFileReplay": str(2**31 - 1),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    BATCH_BYTES: ROWS_BYTES,
    **dict.fromkeys(ROW_CHECKSUMS, "false"),
    "spark.speculation": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of every session; without them the guarantees or the speed do not hold.

Hadoop's local files have checksums; HDFS and object stores check what they keep. Spark's own would
be twice as many files to sync. Under ANSI rules a value that cannot be cast would stop the job;
without them it is null, and the record is rejected.
"""

PYTHON_WORKERS = {
    "spark.python.daemon.module": "streaming.spark.worker_entry",
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
}
"""Over TCP each start of a worker's task waits for delayed acknowledgments, some 30 ms."""

QUICKLY_COMPILED = ("-XX:TieredStopAtLevel=1",)
"""Only Java's first compiler (C1), as the JVM only passes packs on and plans batches. The second
(C2) made this no faster, and took two seconds of each start and a tenth of all CPU after it."""

WELL_COMPILED = (
    "-XX:Tier4InvocationThreshold=15000",
    "-XX:Tier4MinInvocationThreshold=3000",
    "-XX:Tier4CompileThreshold=45000",
    "-XX:Tier4BackEdgeThreshold=200000",
)
"""Both compilers, if rows pass the JVM one by one. The second waits three to five times as long as
by default: most of what it compiles in the first minute runs in that minute only, and the code that
records pass through reaches the threshold in seconds."""

INTERPRETED = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
"""For pipelines whose records Spark does not see: it generates code for a few rows anew in each
task, which took a third of its executors' time in small batches."""

JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables with further JVM options; a JVM does not start with two garbage collectors."""

ROOM_FOR_CLASSES = "-XX:MetaspaceSize=192m"
"""Spark's classes take 100 MiB; by default the JVM collects all garbage before its class space
grows so far, in the middle of the first batch."""

SERIAL_CORES_MAX = 2
SERIAL = ("-XX:+UseSerialGC", "-XX:TargetSurvivorRatio=90")
"""On so few cores a collector with threads of its own takes them from the work. Much of a batch's
data lives for some batches more: by default it counts as old after two collections, and a full
collection every 21 s made a batch wait for 140 ms."""

PRELOAD = "SEQUENCER_PRELOAD"
"""See `worker_daemon`, which is not imported here: importing it changes PySpark's daemon."""

PAGE_BYTES = str(4 * 2**20)
"""The page size for sorting and shuffling; a larger pack gets a page of its own. By default a page
is a 32nd of the heap, and each task takes one, however little data it has."""

UNSEEN = {
    "spark.ui.liveUpdate.period": "-1",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
}
"""History for Spark's user interface, which is off; the default is a thousand batches."""

EXECUTOR_VARIABLE = "spark.executorEnv."

LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
"""On a local folder rename is atomic; Spark's own way starts a process for each file, which takes
half of the time between two batches."""

S3_CHECKPOINT = {"spark.sql.streaming.checkpointFileManagerClass": "sequencer.S3Files"}
"""An object store has no rename: files are written whole or not at all (S3Files.java says why)."""

S3_CREDENTIALS = {
    "spark.hadoop.fs.s3a.aws.credentials.provider": (
        "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
        "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    ),
}
"""Credentials in [spark], or the environment's."""

GS_CHECKPOINT = {
    "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
    "spark.hadoop.fs.gs.auth.type": "APPLICATION_DEFAULT",
    "spark.hadoop.fs.gs.block.size": str(64 * 2**20),
    "spark.hadoop.fs.gs.rewrite.max.chunk.size": str(512 * 2**20),
    "spark.hadoop.fs.gs.outputstream.buffer.size": str(8 * 2**20),
    "spark.hadoop.fs.gs.inputstream.inplace.seek.limit": str(8 * 2**20),
    "spark.hadoop.fs.gs.inputstream.min.range.request.size": str(2 * 2**20),
}
"""Google's connector renames a file in one step, and never over an existing one, so Spark's own way
of writing its logs, by renaming, is right (it cannot abandon a file, as the way on S3 has to).
Hadoop 3.5 has defaults for a connector of its own under the same names: its classes, and sizes such
as "64m", which Google's cannot read. Credentials are those of the environment."""

LOCAL_FILES = {
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
}
"""Hadoop's own file system also starts a process (chmod) for each file that it creates: 20 ms for
each of Spark's two logs, in every batch."""


def executors() -> dict[str, str]:
    """Return the environment of executors on a cluster, who do not inherit that of this JVM."""
    variables = ALLOCATORS | FILE_NAMES | versions.to_environment()
    return {f"{EXECUTOR_VARIABLE}{name}": value for name, value in variables.items()}


def jvm_settings(config: Config, to: str = "") -> tuple[dict[str, str], ClassArchive | None]:
    """Return the properties of Spark and its JVM, and the archive of the JVM's classes."""
    places = _places(config, to)
    own = {name: str(value) for name, value in config.spark.items()}
    master = own.get("spark.master", DEFAULT_MASTER)
    settings = {
        "spark.master": master,
        "spark.app.name": config.service.name,
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.redaction.regex": redaction(config.spark, config.secrets),
        **({} if own.get("spark.ui.enabled") == "true" else UNSEEN),
        "spark.buffer.pageSize": PAGE_BYTES,
        **PYTHON_WORKERS,
        f"{EXECUTOR_VARIABLE}{PRELOAD}": ",".join(operators(config.pipelines.values())),
        **(ONE_MACHINE if is_local_master(master) else executors()),
        **({} if has_rows(config.pipelines.values()) else INTERPRETED),
        **own,
        **fixed(config, to),
    }
    jars = spark_jars() if is_local_master(master) else []
    if any(map(is_s3, places)):
        jars = [*jars, *s3_jars()]
        settings = {**S3_CREDENTIALS, **settings}
    if any(map(is_gs, places)):
        jars = [*jars, *gs_jars()]
        settings = {**GS_CHECKPOINT, **settings}
    if is_local_master(master):
        # On the class path of Java itself: only from there are classes kept (ClassArchive), and
        # Spark needs the file system before it has jars of its own.
        path = [*map(str, jars), *filter(None, [own.get("spark.driver.extraClassPath")])]
        settings = {**LOCAL_FILES, **settings, "spark.driver.extraClassPath": os.pathsep.join(path)}
    elif jars:
        settings["spark.jars"] = ",".join([*map(str, jars), *filter(None, [own.get("spark.jars")])])
    given = own.get(JAVA_OPTIONS, "")
    own_path = own.get("spark.driver.extraClassPath", "").split(os.pathsep)
    every = [*jars, *map(Path, filter(None, own_path)), *class_path(spark_home())]
    archive = class_archive(every, given)
    options = _java_options(given, rows=has_rows(config.pipelines.values()))
    options += [archive.options()] if archive is not None else []
    settings[JAVA_OPTIONS] = " ".join(options)
    return settings, archive


def fixed(config: Config, to: str = "") -> dict[str, str]:
    """Return the settings that nobody can change, in [spark] or in Spark's own files."""
    places = _places(config, to)
    if all(map(is_local, places)):
        files = LOCAL_CHECKPOINT
    else:
        files = S3_CHECKPOINT if all(map(is_s3, places)) else {}  # no other storage has these
    supported = {name: value for name, (value, _) in UNSUPPORTED.items() if value}
    return {**SESSION, **supported, **files}


def _places(config: Config, to: str) -> list[str]:
    return [config.service.checkpoint, to or config.service.checkpoint]


def _java_options(given: str, *, rows: bool) -> list[str]:
    """Return the options of the driver's JVM; ``given`` are the user's, which come after ours.

    ``rows``: whether the JVM processes each record.
    """
    compiled = WELL_COMPILED if rows else QUICKLY_COMPILED
    options = [f"-Dlog4j2.configurationFile={_log_settings()}", *compiled, ROOM_FOR_CLASSES]
    all_options = " ".join([given, *(os.environ.get(name, "") for name in JAVA_VARIABLES)])
    if (os.cpu_count() or 1) <= SERIAL_CORES_MAX and not re.search(r"-XX:\+Use\w+GC", all_options):
        options += SERIAL
    return [*options, given]


def remarks(config: Config) -> list[str]:
    """Return warnings about settings that have no effect or a price, one line each."""
    warnings = [*passed_over(config.kafka.properties), *label_remarks(config.pipelines)]
    warnings += [
        f"{name} = {config.spark[name]} is ignored: exactly-once and the order rest on {value}"
        for name, value in fixed(config).items()
        if config.spark.get(name, value) != value
    ]
    service = config.service
    of_objects = is_s3(service.checkpoint) or is_gs(service.checkpoint)
    if of_objects and service.trigger.ms < OBJECTS_TRIGGER_MS:
        warnings.append(
            f"service.trigger = {service.trigger.ms} ms: on an object store each batch costs some "
            'hundred requests; "5 s" costs less'
        )
    return warnings


def _log_settings() -> str:
    return (Path(__file__).parent / "log4j2.properties").as_uri()

"""Operations on Spark's queries for which Spark has no public way, or a slow one."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.java_gateway import ensure_callback_server_started

from streaming.spark.failures import errors_of_spark
from streaming.storage.files import hadoop_uri

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

QUERY_SECONDS_MAX = 5
"""Time after a stop's deadline, for all queries with the same one. Together with the session's end
(`session`) this stays below the 60 s of a clean stop."""
IDLE_SECONDS = 0.5
QUERY_ID = "sql.streaming.queryId"
"""The local property of a query's thread that says which it is."""
OPERATOR = "FlatMapGroupsInPandasWithState"
SINKS = "org.apache.spark.sql.execution.streaming.sources."
WORKING = ("Processing new data", "No new data but cleaning up state")
"""A query's status messages while a batch runs. `isTriggerActive` is also true while it asks Kafka
for new offsets, which without a trigger interval is most of the time."""

ANSWER_CHARACTERS_MAX = 4_000
"""Java's gateway sends an answer of more than 8,192 bytes in pieces, and waits 40 ms for Python's
(delayed) acknowledgment of one before it sends the last."""

_environment_lock = threading.Lock()


def collected(frame: DataFrame, is_again: bool) -> list[str]:
    """Run a batch's query; return its only column, texts, one row for each partition.

    ``is_again``: whether it was run before, and may end in another state now.

    The frame that foreachBatch gets wraps an RDD. Collecting the frame would plan once more,
    generate code and record another execution: a tenth of a small batch's time. The RDD's rows
    share their memory within a partition, so each partition may have one row. For each function
    that it sends to tasks Spark reads the code of its class. With `collect` these are `RDD` and
    `SparkContext`, a fifth of the samples of the planning thread; with `collectAsync` it is small.
    """
    if is_again:
        _forget_states(frame)
    rdd = frame._jdf.queryExecution().logical().rdd()  # noqa: SLF001
    rows = rdd.toJavaRDD().collectAsync().get()
    return [_text(row.getUTF8String(0)) for row in rows]


def _forget_states(frame: DataFrame) -> None:
    """Have Spark forget which states an earlier run of this batch left, before its next run.

    Each task names the state that it wrote, and the commit log takes the first that is named for
    each partition: Spark expects all runs of a batch to end in the same state.
    """
    spark = frame.sparkSession
    query = spark.sparkContext.getLocalProperty(QUERY_ID)
    streams = spark._jsparkSession.streams()  # noqa: SLF001
    plans = [streams.get(query).streamingQuery().lastExecution().executedPlan()]
    while plans:
        plan = plans.pop()
        if plan.nodeName() == OPERATOR:
            plan.checkpointInfoAccumulator().reset()
        children = plan.children()
        plans += [children.apply(index) for index in range(children.size())]


def _text(text: Any) -> str:
    """Return a Java text, fetched in pieces."""
    begins = range(0, text.numChars(), ANSWER_CHARACTERS_MAX)
    return "".join(text.substring(at, at + ANSWER_CHARACTERS_MAX).toString() for at in begins)


def begin_workers(spark: SparkSession, tasks: int) -> None:
    """Start the Python workers of operators and sink, ``tasks`` of each, without waiting for them.

    The first batch would wait for one kind after the other, while a core is idle.
    """

    def begin(*stage: str) -> None:
        with contextlib.suppress(Exception):  # the first batch reports what is wrong
            with own_workers(spark.sparkContext, *stage):
                numbers = spark.range(0, tasks, 1, tasks).mapInArrow(_same, "id long")
            numbers.collect()

    for stage in ((), ("sink",)):
        threading.Thread(target=begin, args=stage, daemon=True).start()


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


@contextlib.contextmanager
def own_workers(context: SparkContext, stage: str = "") -> Iterator[None]:
    """Give functions wrapped in this context Python workers of their own; not without ``stage``.

    Spark gives a task any idle worker with the same environment; the sink's producers live in its
    workers, so these must not be mixed with those of other stages.
    """
    with _environment_lock:  # all pipelines of the session share it
        usual: dict[str, Any] = context.environment
        # A new dictionary: Spark may be walking through the old one in another thread.
        context.environment = {**usual, **({"SEQUENCER_STAGE": stage} if stage else {})}
        try:
            yield
        finally:
            context.environment = usual


def start(
    frame: DataFrame,
    name: str,
    checkpoint: str,
    run_batch: Callable[[DataFrame, int], None],
) -> StreamingQuery:
    """Start a query, which passes each batch to ``run_batch``.

    A batch begins when the previous one is done and a source has new data. Raises SequencerError:
    StorageUnavailable where the query's name cannot be written, say, or another copy wrote it.
    """
    writer = (
        frame.writeStream.queryName(name)
        .option("checkpointLocation", hadoop_uri(checkpoint))
        .outputMode("append")
        .trigger(processingTime="0 milliseconds")
    )
    spark = frame.sparkSession
    gateway = spark.sparkContext._gateway  # noqa: SLF001
    ensure_callback_server_started(gateway)
    helper = getattr(gateway.jvm, SINKS + "PythonForeachBatchHelper")
    helper.callForeachBatch(writer._jwrite, BatchRunner(spark, run_batch))  # noqa: SLF001
    with errors_of_spark():
        return writer.start()


class BatchRunner:
    """Implements Spark's interface for running a batch.

    PySpark's own makes another SparkSession for each batch: a dozen calls to the JVM.
    """

    def __init__(self, spark: SparkSession, run_batch: Callable[[DataFrame, int], None]) -> None:
        self._spark = spark
        self._run_batch = run_batch

    def call(self, frame: Any, batch: int) -> None:
        """Run a batch; Spark's thread waits for it."""
        from pyspark.sql import DataFrame  # noqa: PLC0415  (a second to import)

        self._run_batch(DataFrame(frame, self._spark), batch)

    class Java:
        """The gateway reads this."""

        implements = (SINKS + "PythonForeachBatchFunction",)


def stop_between_batches(query: StreamingQuery, deadline: float) -> None:
    """Wait until no batch runs, or until the deadline (`time.monotonic`); then stop the query.

    The caller has seen to it that no further batch begins.
    """
    idle_since = None
    while query.isActive and time.monotonic() < deadline:
        is_busy = query.status["message"] in WORKING
        idle_since = None if is_busy else idle_since or time.monotonic()
        if idle_since is not None and time.monotonic() - idle_since > IDLE_SECONDS:
            break  # between batches: nothing runs that stopping could cut short
        time.sleep(0.05)
    # While Kafka is away this may wait for longer than a stop has; the JVM's end ends it then.
    stopper = threading.Thread(target=_stop_quietly, args=(query,), daemon=True)
    stopper.start()
    until = min(time.monotonic(), deadline) + QUERY_SECONDS_MAX
    stopper.join(max(0.0, until - time.monotonic()))


def _stop_quietly(query: StreamingQuery) -> None:
    with contextlib.suppress(Exception):  # it failed meanwhile, or the JVM is gone
        query.stop()

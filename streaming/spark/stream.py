"""A streaming source for Spark, implemented in the driver's Python: offsets and shares of a batch.

Spark's interface for sources in Python (`pyspark.sql.datasource`) starts a process for each source
(80 MiB, two seconds of a core) and three more (300 MiB, four seconds) at every start. Instead the
driver's Python implements Spark's Java interface `Source` through PySpark's gateway, as it does for
foreachBatch. This is the older of Spark's two interfaces: its batches are Datasets, which may state
how their rows are partitioned. Workers read their shares by Spark's own classes for sources in
Python.

The classes are those of the Spark version that the project is pinned to.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import cache, cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from streaming.disciplines.source import SourceRows

CATALYST = "org.apache.spark.sql.catalyst."
RUNTIME = "org.apache.spark.sql.execution.streaming.runtime."
V2 = "org.apache.spark.sql.execution.datasources.v2."
PYTHON = V2 + "python."
LOOK_SECONDS = 0.05
GIVEN_KEPT = 8
"""The number of recent answers that are kept; Spark makes one call after the other."""
READ = "org.apache.spark.sql.connector.read."

Offset: TypeAlias = Any
"""A JSON value; equal offsets have equal texts."""

Read: TypeAlias = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
"""Reads a share, given as a batch of one binary column and one row."""


class Reader(Protocol):
    """Finds the offsets of batches and reads their rows."""

    def first(self) -> Offset:
        """Return where a new query begins."""

    def latest(self, start: Offset) -> Offset:
        """Return where a batch that begins there ends; the same if nothing is new."""

    def newest(self) -> Offset | None:
        """Return the end of the input as last seen; None: unknown."""

    def rows(self, start: Offset, end: Offset) -> SourceRows:
        """Return the rows of a batch."""

    def close(self) -> None:
        """Release resources; the reader is not called again."""


class Stream:
    """Implements Spark's `Source` over a Reader; called by the query's own thread.

    Once ``ended`` is set it reports nothing new, so Spark plans no batch that the next start would
    have to repeat, and no call waits for the reader: Java cannot interrupt a call to Python.
    """

    def __init__(
        self, gateway: Any, name: str, reader: Reader, frames: Frames, ended: threading.Event
    ) -> None:
        self.gateway = gateway
        self.name, self.reader, self.frames = name, reader, frames
        self.ended = ended
        self._asking: list[threading.Thread] = []
        self._given: deque[Any] = deque(maxlen=GIVEN_KEPT)

    def schema(self) -> Any:
        """Return the columns of the source's rows."""
        return self.frames.columns

    def latestOffset(self, start: Any, _limit: Any) -> Any:  # noqa: N802
        """Return where the next batch ends, as JSON; the limit is the reader's own."""
        if self.ended.is_set():
            return start
        begin = self._asked(self.reader.first, {}) if start is None else _read(start)
        if self.ended.is_set():
            return start
        return self._offset(self._asked(partial(self.reader.latest, begin), begin))

    def getBatch(self, start: Any, end: Any) -> Any:  # noqa: N802
        """Return Spark's Dataset of a batch; without ``start``, of the query's first batch."""
        begin = self.reader.first() if start.isEmpty() else _read(start.get())
        return self._give(self.frames.of(self.reader.rows(begin, _read(end))))

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return no limit: the reader has limits of its own."""
        return self._give(self.frames.class_(READ + "streaming.ReadLimit").allAvailable())

    def reportLatestOffset(self) -> Any:  # noqa: N802
        """Return `latestOffset` of Spark's progress reports, as JSON."""
        newest = self.reader.newest()
        return None if newest is None else self._offset(newest)

    def commit(self, _end: Any) -> None:
        """Do nothing: Kafka deletes records by its own rules."""

    def stop(self) -> None:
        """End the query; close the reader after the last call to it."""
        threading.Thread(target=self._close, daemon=True).start()

    def _close(self) -> None:
        for asking in self._asking:
            asking.join()
        with contextlib.suppress(Exception):  # nothing is left to protect
            self.reader.close()

    def equals(self, other: Any) -> bool:
        """Return whether two are the same object; sources are keys of Spark's maps."""
        return self is other

    def hashCode(self) -> int:  # noqa: N802
        """Return the same number for the object's life."""
        return hash(self.name) % 2**31

    def toString(self) -> str:  # noqa: N802
        """Return the source's name in progress reports."""
        return self.name

    def _offset(self, found: Offset) -> Any:
        """Return an offset in the form that the checkpoint stores."""
        return self._give(self.frames.class_(RUNTIME + "SerializedOffset")(json.dumps(found)))

    def _give(self, answer: Any) -> Any:
        """Return an answer for Java, and keep a reference to it.

        Java gets the object's id. If Python collected the object before Java looked the id up,
        Java would get a null.
        """
        self._given.append(answer)
        return answer

    def _asked(self, ask: Callable[[], Offset], otherwise: Offset) -> Offset:
        """Return the reader's answer; ``otherwise`` once the query is to end."""
        answer: Future[Offset] = Future()

        def run() -> None:
            try:
                answer.set_result(ask())
            except Exception as error:  # noqa: BLE001  (raised where it is waited for)
                answer.set_exception(error)

        asking = threading.Thread(target=run, daemon=True)
        self._asking = [asking]
        asking.start()
        while asking.is_alive() and not self.ended.is_set():
            asking.join(LOOK_SECONDS)
        return answer.result() if answer.done() else otherwise

    class Java:
        """The gateway reads this."""

        implements = (
            "org.apache.spark.sql.execution.streaming.Source",
            READ + "streaming.SupportsAdmissionControl",
        )


class Frames:
    """Makes Spark's Datasets of batches.

    Rows for every shard are in the state partitions to which they belong, so Spark plans neither a
    shuffle nor a separate stage for reading. ``keys``: the shards' keys, by state partition.
    """

    def __init__(
        self, spark: SparkSession, schema: str, keys: Sequence[Sequence[int]], read: Read | None
    ) -> None:
        self.keys = keys
        context = spark.sparkContext
        self.jvm, self.gateway, self.session = context._jvm, context._gateway, spark._jsparkSession  # noqa: SLF001
        self.class_ = cache(partial(_class, self.jvm))  # a name is looked for in 300 jars
        self.module = cache(partial(_module, self.jvm))
        self.context = context._jsc  # noqa: SLF001
        self.columns = self.class_("org.apache.spark.sql.types.StructType").fromDDL(schema)
        self.output = self.class_(CATALYST + "types.DataTypeUtils").toAttributes(self.columns)
        self.none = self.class_("scala.Option").empty()
        if read is not None:
            kind = StructType.fromJson(json.loads(self.columns.json()))
            self.factory = self.class_(PYTHON + "PythonStreamingPartitionReaderFactory")(
                self.class_(PYTHON + "UserDefinedPythonDataSource")(
                    _wrap_function(context, read, kind)
                ),
                CloudPickleSerializer().dumps((read, kind)),
                self.columns,
                self.none,
                self.none,
            )

    def stream(self, stream: Stream) -> Any:
        """Return the Dataset of a streaming query's source."""
        leaf = self.class_(RUNTIME + "StreamingExecutionRelation")(
            stream,
            self.output,
            self.none,
            self.module(CATALYST + "streaming.Unassigned$"),
            self.session,
        )
        return self._dataset(leaf)

    def of(self, rows: SourceRows) -> Any:
        """Return the Dataset of a batch."""
        if rows.shares:
            unknown = self.class_(CATALYST + "plans.physical.UnknownPartitioning")
            rdd = self._elsewhere(rows.shares)
            return self._dataset(self._rdd(self.output, rdd, unknown(len(rows.shares))))
        if rows.here is None:
            local = self.class_(CATALYST + "plans.logical.LocalRelation")
            return self._dataset(local(self.output, self._seq([]), True, self.none))  # noqa: FBT003
        kind = self.output.apply(1).dataType()
        literal = self.class_(CATALYST + "expressions.Literal")(rows.here, kind)
        name = self.class_(CATALYST + "expressions.NamedExpression").newExprId()
        alias = self.class_(CATALYST + "expressions.Alias")
        row = alias(literal, "rows", name, self._seq([]), self.none, self._seq([]))
        project = self.class_(CATALYST + "plans.logical.Project")
        return self._dataset(project(self._seq([self.output.head(), row]), self._keys))

    @cached_property
    def _keys(self) -> Any:
        """Return the shards' keys as a leaf plan, partitioned by state if all have as many."""
        row = self.class_(CATALYST + "expressions.GenericInternalRow")
        rows, some = [], self.class_("java.lang.Object")
        for key in chain.from_iterable(self.keys):
            values = self.gateway.new_array(some, 1)
            values[0] = key
            rows.append(row(values))
        column = self.output.take(1)
        if len({*map(len, self.keys)}) > 1:
            local = self.class_(CATALYST + "plans.logical.LocalRelation")
            return local(column, self._seq(rows), True, self.none)  # noqa: FBT003
        hashed = self.class_(CATALYST + "plans.physical.HashPartitioning")
        rdd = self.context.parallelize(self._list(rows), len(self.keys)).rdd()
        return self._rdd(column, rdd, hashed(column, len(self.keys)))

    def _elsewhere(self, shares: Sequence[bytes]) -> Any:
        """Return an RDD whose tasks read shares."""
        some = self.class_("scala.Some")
        partition = self.class_(PYTHON + "PythonStreamingInputPartition")
        return self.class_(V2 + "DataSourceRDD")(
            self.context.sc(),
            self._seq(some(partition(at, share, self.none)) for at, share in enumerate(shares)),
            self.factory,
            False,  # noqa: FBT003
            self.module("scala.collection.immutable.Map$").empty(),
        )

    def _list(self, items: Iterable[Any]) -> Any:
        found = self.class_("java.util.ArrayList")()
        for item in items:
            found.add(item)
        return found

    def _seq(self, items: Iterable[Any]) -> Any:
        sequences = self.class_("org.apache.spark.api.python.PythonUtils")
        return sequences.toSeq(self._list(items))

    def _rdd(self, columns: Any, rdd: Any, partitioning: Any) -> Any:
        leaf = self.class_("org.apache.spark.sql.execution.LogicalRDD")
        return leaf(
            *(columns, rdd, partitioning, self._seq([]), True, self.none),
            *(self.session, self.none, self.none),
        )

    def _dataset(self, plan: Any) -> Any:
        return self.module("org.apache.spark.sql.classic.Dataset$").ofRows(self.session, plan)


def frame_of(
    spark: SparkSession,
    name: str,
    schema: str,
    reader: Reader,
    ended: threading.Event,
    keys: Sequence[Sequence[int]] = (),
    read: Read | None = None,
) -> DataFrame:
    """Return a source as a streaming DataFrame; its name must be unique in the session.

    ``keys``: the shards' keys, by state partition, if a batch may have a row for each.
    """
    gateway = spark.sparkContext._gateway  # noqa: SLF001
    ensure_callback_server_started(gateway)
    frames = Frames(spark, schema, keys, read)
    return DataFrame(frames.stream(Stream(gateway, name, reader, frames, ended)), spark)


def _read(offset: Any) -> Offset:
    return json.loads(offset.json())


def _class(jvm: Any, name: str) -> Any:
    return getattr(jvm, name)


def _module(jvm: Any, name: str) -> Any:
    return getattr(getattr(jvm, name), "MODULE$")

"""A streaming source of Spark's that the driver's own Python is: offsets and shares of a batch.

Spark has a way for sources in Python (`pyspark.sql.datasource`), with a process of its own for each
that it asks for offsets, and three more that it starts at first: 80 MiB and two seconds of a core
for each source at every start, 300 MiB and four seconds besides. What Spark asks is a Java
interface, `MicroBatchStream`, and PySpark's gateway lets the driver's Python be one, as it does for
foreachBatch. Workers read their shares by Spark's own classes for sources in Python.

The classes are those of the Spark that the project is pinned to.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

V2 = "org.apache.spark.sql.execution.datasources.v2."
PYTHON = V2 + "python."
LOOK_SECONDS = 0.05
GIVEN_KEPT = 8
"""Of answers; Spark asks one thing after the other."""
READ = "org.apache.spark.sql.connector.read."

Offset: TypeAlias = Any
"""What JSON can say; equal offsets as equal texts."""

Read: TypeAlias = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
"""A share, in a batch of one binary column and one row, to what is read."""


class Reader(Protocol):
    """What a batch reads."""

    def first(self) -> Offset:
        """Where a new query begins."""

    def latest(self, start: Offset) -> Offset:
        """Where the batch ends that begins there; the same where there is nothing."""

    def newest(self) -> Offset | None:
        """Where what there is to read ended when it was last looked at; None: nobody knows."""

    def shares(self, start: Offset, end: Offset) -> list[bytes]:
        """What each task of a batch reads."""

    def close(self) -> None:
        """Nobody asks any more."""


class Stream:
    """Spark's interface to a Reader; called by the query's own thread.

    Once ``ended`` is set there is nothing new, so Spark plans no batch that the next start would
    have to repeat, and nobody waits for the reader: Java cannot interrupt a call to Python.
    """

    def __init__(
        self,
        gateway: Any,
        name: str,
        reader: Reader,
        factory: Any,
        ended: threading.Event,
    ) -> None:
        self.gateway = gateway
        self._class = cache(partial(_class, gateway.jvm))  # a name is looked for in 300 jars
        self.name, self.reader, self.factory = name, reader, factory
        self.ended = ended
        self._asking: list[threading.Thread] = []
        self._given: deque[Any] = deque(maxlen=GIVEN_KEPT)

    def initialOffset(self) -> Any:  # noqa: N802
        """As JSON."""
        return self.deserializeOffset(json.dumps(self._asked(self.reader.first, {})))

    def latestOffset(self, start: Any, _limit: Any) -> Any:  # noqa: N802
        """As JSON; the limit is the reader's own."""
        if self.ended.is_set():
            return start
        begin = _read(start)
        return self.deserializeOffset(
            json.dumps(self._asked(partial(self.reader.latest, begin), begin))
        )

    def deserializeOffset(self, text: str) -> Any:  # noqa: N802
        """As a checkpoint has it."""
        return self._give(self._class(PYTHON + "PythonStreamingSourceOffset")(text))

    def planInputPartitions(self, start: Any, end: Any) -> Any:  # noqa: N802
        """One for each share."""
        shares = self.reader.shares(_read(start), _read(end))
        partitions = self.gateway.new_array(self._class(READ + "InputPartition"), len(shares))
        partition = self._class(PYTHON + "PythonStreamingInputPartition")
        none = self._class("scala.Option").empty()
        for at, share in enumerate(shares):
            partitions[at] = partition(at, share, none)
        return self._give(partitions)

    def createReaderFactory(self) -> Any:  # noqa: N802
        """What workers make their readers of."""
        return self.factory

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """None that Spark knows of."""
        return self._give(self._class(READ + "streaming.ReadLimit").allAvailable())

    def reportLatestOffset(self) -> Any:  # noqa: N802
        """As JSON: `latestOffset` in Spark's progress reports."""
        newest = self.reader.newest()
        return None if newest is None else self.deserializeOffset(json.dumps(newest))

    def commit(self, _end: Any) -> None:
        """Nothing to do: Kafka keeps what it keeps."""

    def stop(self) -> None:
        """The query ends; so does the reader, when nobody asks it any more."""
        threading.Thread(target=self._close, daemon=True).start()

    def _close(self) -> None:
        for asking in self._asking:
            asking.join()
        with contextlib.suppress(Exception):  # nothing is left to protect
            self.reader.close()

    def equals(self, other: Any) -> bool:
        """Sources are keys of Spark's maps."""
        return self is other

    def hashCode(self) -> int:  # noqa: N802
        """The same for its life."""
        return hash(self.name) % 2**31

    def toString(self) -> str:  # noqa: N802
        """What progress reports call it."""
        return self.name

    def _give(self, answer: Any) -> Any:
        """What Java is to get, kept until it has it.

        Java gets a number. Where Python collects garbage before Java has looked it up, the
        gateway may forget the object first, and Java gets a null.
        """
        self._given.append(answer)
        return answer

    def _asked(self, ask: Callable[[], Offset], otherwise: Offset) -> Offset:
        """What the reader says; ``otherwise`` where nobody waits for it any more."""
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
            READ + "streaming.MicroBatchStream",
            READ + "streaming.SupportsAdmissionControl",
        )


def frame_of(
    spark: SparkSession,
    name: str,
    schema: str,
    reader: Reader,
    read: Read,
    ended: threading.Event,
) -> DataFrame:
    """A source as a streaming DataFrame; sources of one session have names of their own."""
    context = spark.sparkContext
    jvm, gateway = context._jvm, context._gateway  # noqa: SLF001
    ensure_callback_server_started(gateway)
    columns = _class(jvm, "org.apache.spark.sql.types.StructType").fromDDL(schema)
    kind = StructType.fromJson(json.loads(columns.json()))
    none = _class(jvm, "scala.Option").empty()

    _look_for_no_others(jvm)
    source = _class(jvm, PYTHON + "UserDefinedPythonDataSource")(
        _wrap_function(context, read, kind)
    )
    known = name.encode().hex()  # Spark's names ignore the case
    spark._jsparkSession.dataSource().registerPython(known, source)  # noqa: SLF001
    provider = _class(jvm, PYTHON + "PythonDataSourceV2")()
    provider.setShortName(known)

    options = _class(jvm, "org.apache.spark.sql.util.CaseInsensitiveStringMap").empty()
    filters = gateway.new_array(_class(jvm, "org.apache.spark.sql.sources.Filter"), 0)
    output = _class(jvm, "org.apache.spark.sql.catalyst.types.DataTypeUtils").toAttributes(columns)
    relation = _class(jvm, V2 + "StreamingDataSourceV2Relation")(
        _class(jvm, PYTHON + "PythonTable")(provider, known, columns),
        output,
        none,
        none,
        options,
        "",  # a place for notes in the checkpoint, which we have none of
        none,
        _module(jvm, "org.apache.spark.sql.catalyst.streaming.Unassigned$"),
    )
    scan = _class(jvm, PYTHON + "PythonScan")(provider, known, columns, options, filters)
    function = CloudPickleSerializer().dumps((read, kind))
    factory = _class(jvm, PYTHON + "PythonStreamingPartitionReaderFactory")(
        source, function, columns, none, none
    )
    stream = Stream(gateway, name, reader, factory, ended)
    leaf = _class(jvm, V2 + "StreamingDataSourceV2ScanRelation")(
        relation, scan, output, stream, none, none
    )
    datasets = _module(jvm, "org.apache.spark.sql.classic.Dataset$")
    return DataFrame(datasets.ofRows(spark._jsparkSession, leaf), spark)  # noqa: SLF001


def _look_for_no_others(jvm: Any) -> None:
    """No package brings sources in Python: Spark need not start a process that looks for them."""
    manager = _module(jvm, "org.apache.spark.sql.execution.datasources.DataSourceManager$")
    nothing = _module(jvm, "scala.collection.immutable.Map$").empty()
    setter = getattr(manager, "dataSourceBuilders_$eq")
    setter(_class(jvm, "scala.Some")(nothing))


def _read(offset: Any) -> Offset:
    return json.loads(offset.json())


def _class(jvm: Any, name: str) -> Any:
    return getattr(jvm, name)


def _module(jvm: Any, name: str) -> Any:
    return getattr(getattr(jvm, name), "MODULE$")

"""Names of PySpark's, Spark's and the JVM's that are not public, one assertion for each.

After an upgrade these fail first, within seconds, and say which name has moved; who uses it is in
`streaming/spark/`. Nothing is started: classes are read from their files.
"""

import inspect
import socketserver
import zipfile
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pyspark
import pytest

from streaming.spark.failures import WRITTEN_TWICE
from streaming.spark.queries import OPERATOR, QUERY_ID, SINKS, WORKING, BatchRunner
from streaming.spark.settings import LOCAL_CHECKPOINT, STATE_STORE
from streaming.spark.stream import Stream
from tests.class_files import JARS, content, methods

SQL = "org.apache.spark.sql."
V2 = f"{SQL}execution.datasources.v2."
PYTHON = f"{V2}python."
READ = f"{SQL}connector.read."
RUNTIME = f"{SQL}execution.streaming.runtime."
LOGS = f"{SQL}execution.streaming.checkpointing."

PYTHON_NAMES = {
    "pyspark:SparkContext._ensure_initialized": ["instance", "gateway"],
    "pyspark:SparkContext._gateway": None,
    "pyspark:SparkContext._jvm": None,
    "pyspark.accumulators:AccumulatorTCPServer.handle_error": None,
    "pyspark.accumulators:AccumulatorUnixServer.handle_error": None,
    "pyspark.daemon:gc.collect": None,
    "pyspark.daemon:manager": [],
    "pyspark.daemon:signal.signal": None,
    "pyspark.daemon:traceback.print_exc": None,
    "pyspark.java_gateway:ensure_callback_server_started": ["gw"],
    "pyspark.java_gateway:launch_gateway": ["conf"],
    "pyspark.serializers:CloudPickleSerializer.dumps": ["self", "obj"],
    "pyspark.sql.classic.dataframe:DataFrame.__init__": ["self", "jdf", "sql_ctx"],
    "pyspark.sql.udf:_wrap_function": ["sc", "func", "returnType"],
    "pyspark.worker:main": ["infile", "outfile"],
    "pyspark.worker:ApplyInPandasWithStateSerializer": None,
}
"""Each with its first parameters, where they matter."""

PYTHON_TEXTS = {
    "pyspark.daemon:manager": ["gc.collect()", "traceback.print_exc()", "signal.signal(SIGTERM"],
    "pyspark.java_gateway:launch_gateway": ["PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"],
    "pyspark.java_gateway": ["PYSPARK_PIN_THREAD"],
    "pyspark.sql.session": ["self._jsparkSession = "],
    "pyspark.sql.classic.dataframe": ["self._jdf"],
    "pyspark.sql.streaming.readwriter": ["callForeachBatch(self._jwrite, "],
    "pyspark.core.context": ["self._jsc", "self.environment", "signal.signal(signal.SIGINT, "],
    "py4j.java_gateway": ["while sending command."],
    "pyspark.worker": ["arrow_max_records_per_batch="],
}
"""What must stand in their sources: variables that they read, modules that they call by name."""

JAVA_NAMES = {
    f"{PYTHON}PythonStreamingInputPartition": ["<init>(int, byte[], Option)"],
    f"{PYTHON}UserDefinedPythonDataSource": ["<init>(PythonFunction)"],
    f"{PYTHON}PythonStreamingPartitionReaderFactory": [
        "<init>(UserDefinedPythonDataSource, byte[], StructType, Option, Option)"
    ],
    f"{V2}DataSourceRDD": ["<init>(SparkContext, Seq, PartitionReaderFactory, boolean, Map)"],
    f"{RUNTIME}SerializedOffset": ["<init>(String)", "json()"],
    f"{RUNTIME}StreamingExecutionRelation": [
        "<init>(SparkDataStream, Seq, Option, StreamingSourceIdentifyingName, SparkSession)"
    ],
    f"{SQL}catalyst.streaming.Unassigned$": ["MODULE$"],
    f"{SQL}catalyst.types.DataTypeUtils$": ["toAttributes(StructType)"],
    f"{SQL}catalyst.expressions.GenericInternalRow": ["<init>(Object[])"],
    f"{SQL}catalyst.expressions.Alias": ["<init>(Expression, String, ExprId, Seq, Option, Seq)"],
    f"{SQL}catalyst.expressions.Literal": ["<init>(Object, DataType)"],
    f"{SQL}catalyst.expressions.NamedExpression": ["newExprId()"],
    f"{SQL}catalyst.plans.logical.Project": ["<init>(Seq, LogicalPlan)"],
    f"{SQL}catalyst.plans.logical.LocalRelation": ["<init>(Seq, Seq, boolean, Option)"],
    f"{SQL}catalyst.plans.physical.HashPartitioning": ["<init>(Seq, int)"],
    f"{SQL}catalyst.plans.physical.UnknownPartitioning": ["<init>(int)"],
    "org.apache.spark.api.python.PythonUtils": ["toSeq(List)"],
    f"{SQL}classic.Dataset$": ["MODULE$", "ofRows(SparkSession, LogicalPlan)"],
    f"{SQL}classic.Dataset": ["queryExecution()"],
    f"{SQL}classic.SparkSession": ["sessionState()"],
    f"{SQL}classic.StreamingQueryManager": ["get(String)", "stateStoreCoordinator()"],
    f"{SQL}execution.LogicalRDD": [
        "<init>(Seq, RDD, Partitioning, Seq, boolean, Option, SparkSession, Option, Option)",
        "rdd()",
    ],
    f"{SQL}execution.QueryExecution": ["executedPlan()", "logical()"],
    f"{RUNTIME}StreamingQueryWrapper": ["streamingQuery()"],
    f"{RUNTIME}StreamExecution": ["lastExecution()"],
    f"{SQL}execution.python.streaming.{OPERATOR}Exec": ["checkpointInfoAccumulator()"],
    f"{SQL}catalyst.trees.TreeNode": ["children()", "nodeName()"],
    "org.apache.spark.util.CollectionAccumulator": ["reset()"],
    f"{SQL}catalyst.expressions.UnsafeRow": ["getUTF8String(int)"],
    "org.apache.spark.unsafe.types.UTF8String": [
        "fromString(String)",
        "numChars()",
        "substring(int, int)",
        "toString()",
    ],
    f"{SINKS}PythonForeachBatchHelper": [
        "callForeachBatch(DataStreamWriter, PythonForeachBatchFunction)"
    ],
    f"{SQL}internal.SessionState": ["streamingQueryManager()"],
    "org.apache.spark.SparkContext": ["statusStore()", "isStopped()"],
    "org.apache.spark.api.java.JavaSparkContext": [
        "sc()",
        "hadoopConfiguration()",
        "parallelize(List, int)",
    ],
    "org.apache.spark.rdd.RDD": ["toJavaRDD()"],
    "org.apache.spark.api.java.AbstractJavaRDDLike": ["collectAsync()"],
    "org.apache.spark.api.java.JavaFutureAction": [],
    "org.apache.spark.status.AppStatusStore": ["executorList(boolean)"],
    "org.apache.spark.status.api.v1.ExecutorSummary": ["id()", "totalCores()"],
    STATE_STORE: ["<init>()"],
    next(iter(LOCAL_CHECKPOINT.values())): ["<init>(Path, Configuration)"],
    f"{LOGS}AbstractFileContextBasedCheckpointFileManager": ["<init>(Path, Configuration)"],
    f"{LOGS}CheckpointFileManager": ["createAtomic(Path, boolean)"],
    f"{LOGS}CheckpointFileManager$CancellableFSDataOutputStream": [
        "<init>(OutputStream)",
        "cancel()",
    ],
}

STREAM_NAMES = {
    f"{SQL}execution.streaming.Source": ["commit(Offset)", "getBatch(Option, Offset)", "schema()"],
    f"{READ}streaming.SparkDataStream": ["stop()"],
    f"{READ}streaming.SupportsAdmissionControl": [
        "getDefaultReadLimit()",
        "latestOffset(Offset, ReadLimit)",
        "reportLatestOffset()",
    ],
}
"""What Spark asks of a source."""

JAVA_TEXTS = {
    f"{RUNTIME}MicroBatchExecution": [*WORKING],
    f"{RUNTIME}StreamExecution": [QUERY_ID],
    f"{SQL}execution.streaming.sources.ForeachBatchSink": ["LogicalRDD"],
    f"{LOGS}HDFSMetadataLog": ["Failed to read log file"],
    f"{LOGS}OffsetSeqLog": ["Incomplete log file", "-"],
    f"{LOGS}CommitLog": ["Incomplete log file"],
    "org.apache.spark.api.python.PythonGatewayServer$": ["_PYSPARK_DRIVER_CONN_INFO_PATH"],
    "org.apache.spark.internal.config.Python$": ["daemon.module", "unix.domain.socket.enabled"],
    "org.apache.hadoop.fs.FSInputChecker": ["Checksum error: "],
}
"""What must stand in classes: what their queries and errors say, which we read."""

CONDITIONS = ["CANNOT_LOAD_STATE_STORE", "streaming state file of ", *WRITTEN_TWICE]


def pairs(table):
    return [(name, each) for name, every in table.items() for each in every]


@pytest.mark.parametrize("name", PYTHON_NAMES)
def test_pyspark_has(name):
    thing, parameters = resolve_name(name), PYTHON_NAMES[name]
    if parameters is not None:
        assert list(inspect.signature(thing).parameters)[: len(parameters)] == parameters


@pytest.mark.parametrize(("name", "text"), pairs(PYTHON_TEXTS))
def test_pyspark_says(name, text):
    assert text in inspect.getsource(resolve_name(name))


def test_pyspark_s_servers_of_accumulators_are_those_of_the_standard_library():
    accumulators = import_module("pyspark.accumulators")
    assert issubclass(accumulators.AccumulatorTCPServer, socketserver.BaseServer)


@pytest.mark.parametrize(("name", "member"), pairs(JAVA_NAMES))
def test_spark_has(name, member):
    assert member in methods(name)


@pytest.mark.parametrize(("name", "member"), pairs(STREAM_NAMES))
def test_a_source_has_what_spark_asks(name, member):
    assert member in methods(name)
    assert callable(getattr(Stream, member.partition("(")[0]))


def test_a_batch_is_run_as_spark_asks():
    assert methods(f"{SINKS}PythonForeachBatchFunction") == {"call(Dataset, long)"}
    assert list(inspect.signature(BatchRunner.call).parameters)[1:] == ["frame", "batch"]
    assert BatchRunner.Java.implements == (f"{SINKS}PythonForeachBatchFunction",)


@pytest.mark.parametrize(("name", "text"), pairs(JAVA_TEXTS))
def test_spark_says(name, text):
    classes = [f"{name.replace('.', '/')}{more}.class" for more in ("", "$")]
    assert any(text.encode() in content(each) for each in classes)


@pytest.mark.parametrize("text", CONDITIONS)
def test_errors_say(text):
    (jar,) = JARS.glob("spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as archive:
        assert text.encode() in archive.read("error/error-conditions.json")


def test_the_script_and_ivy_are_there():
    assert Path(pyspark.__file__).with_name("bin").joinpath("spark-submit").is_file()
    assert len([*JARS.glob("ivy-*.jar")]) == 1

"""What Spark is told; sessions themselves: `tests/spark`."""

import re
import subprocess
import sys

import pytest

from streaming.config import parse_config
from streaming.spark import session, settings
from streaming.spark.scratch import LARGE_ROWS
from streaming.spark.settings import GS_CHECKPOINT, SESSION, UNSEEN, executors, jvm_settings

PIPELINES = {"pipelines": {"p": {"discipline": "channel"}}}
OWN_GS = {"spark.hadoop.fs.gs.auth.type": "COMPUTE_ENGINE"}


def told(**spark):
    tables = {"spark": spark, **PIPELINES}
    return jvm_settings(parse_config(tables, {}, "c.toml"))[0]


@pytest.mark.parametrize("master", ["spark://host:7077", "k8s://https://host"])
def test_executors_on_other_hosts_get_what_a_local_jvm_has_in_its_environment(master):
    there = told(**{"spark.master": master})
    assert executors().items() <= there.items()
    own = dict.fromkeys(executors(), "1")
    assert own.items() <= told(**{"spark.master": master}, **own).items(), "one's own come first"
    assert not set(told(**{"spark.master": "local[2]"})) & set(executors())


def test_what_the_guarantees_rest_on_cannot_be_overridden():
    others = dict.fromkeys(SESSION, "other")
    assert SESSION.items() <= told(**others).items()


def test_what_is_refused_in_the_file_counts_in_no_file_of_sparks_either():
    """Spark reads `spark-defaults.conf`; what this process says comes before that."""
    there = told(**{"spark.master": "spark://host:7077"})
    assert there["spark.dynamicAllocation.enabled"] == "false"
    assert there["spark.task.cpus"] == "1"


@pytest.mark.parametrize("encrypted", [True, False])
def test_what_spark_is_to_encrypt_all_passes_through_spark(monkeypatch, encrypted):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    spark = {"spark.master": "local[1]", "spark.io.encryption.enabled": encrypted}
    monkeypatch.setattr(session, "Jvm", lambda given, *_: given)
    given = session.start_jvm(parse_config({"spark": spark, **PIPELINES}, {}, "c.toml"))
    assert (LARGE_ROWS in given) is not encrypted


def test_what_only_sparks_user_interface_shows_is_kept_only_where_it_is_on():
    assert UNSEEN.items() <= told().items()
    assert not set(UNSEEN) & set(told(**{"spark.ui.enabled": "true"}))
    assert told(**{"spark.ui.retainedJobs": "7"})["spark.ui.retainedJobs"] == "7"


def test_spark_shows_no_secret_in_its_interface_and_its_log_of_events():
    """It lists its properties, and Hadoop's without their prefix, but for names that match."""
    spark = {
        "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": "geheim",
        "spark.hadoop.fs.s3a.encryption.key": "geheim",
        "spark.executorEnv.STORE": "${WORD}",
        "spark.ui.port": "4050",
    }
    config = parse_config({"spark": spark, **PIPELINES}, {"WORD": "geheim"}, "c.toml")
    hidden = re.compile(jvm_settings(config)[0]["spark.redaction.regex"])
    names = [*spark, *(name.removeprefix("spark.hadoop.") for name in spark)]
    assert [name for name in names if not hidden.search(name)] == ["spark.ui.port"] * 2
    assert hidden.search("spark.hadoop.fs.s3a.secret.key"), "what Spark itself hides"
    own = {"spark.redaction.regex": "port"}
    assert own.items() <= told(**own).items()


def test_in_googles_store_spark_has_googles_connector(monkeypatch, tmp_path):
    jar = tmp_path / "gcs.jar"
    jar.touch()
    monkeypatch.setattr(settings, "gs_jars", lambda: [jar])
    tables = {"service": {"checkpoint": "gs://bucket/c"}, "spark": OWN_GS, **PIPELINES}
    config = parse_config(tables, {}, "c.toml")
    found, _ = jvm_settings(config)
    assert (GS_CHECKPOINT | OWN_GS).items() <= found.items(), "one's own come first"
    assert str(jar) in found["spark.driver.extraClassPath"]
    assert not [name for name in found if "checkpointFileManager" in name], "Spark's own"
    assert any("object store" in line for line in settings.remarks(config))


def test_what_the_jvm_is_told_is_known_before_pandas_is_imported():
    """The JVM starts as soon as its settings are known; pandas takes a quarter of a second."""
    code = (
        "import sys\n"
        "from streaming.config import parse_config\n"
        "from streaming.spark.settings import jvm_settings\n"
        "kafka = {'bootstrap_servers': 'b:1'}\n"
        "service = {'name': 's', 'checkpoint': '/tmp/c'}\n"
        "pipelines = {each: {'discipline': each} for each in ('channel', 'multicast', 'label')}\n"
        "pipelines['channel']['rules'] = [{'channel': 'vip.*', 'duplicates': 'drop'}]\n"
        "tables = {'service': service, 'kafka': kafka, 'pipelines': pipelines}\n"
        "config = parse_config(tables, {}, 'c.toml')\n"
        "jvm_settings(config)\n"
        "assert config.pipelines['channel'].drops(b'vip.a')\n"
        "sys.exit('pandas' in sys.modules or 'pyspark.sql' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0

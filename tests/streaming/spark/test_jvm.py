"""Spark's JVM as a process: that it starts and ends, and what is said where it does not start."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from pyspark.version import __version__

from streaming.config import parse_config
from streaming.errors import ConfigError, JobFailed
from streaming.spark import launching, settings
from streaming.spark.jvm import Jvm, spark_home
from streaming.spark.scratch import Scratch


@pytest.fixture
def folder():
    """One with a short name: Spark has sockets there."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


STARTED = """
import os, signal
from streaming.spark.jvm import Jvm, spark_home
with Jvm({"spark.driver.memory": "300m"}) as jvm:
    jvm.connect()
    from pyspark import SparkContext
    assert SparkContext._jvm.java.lang.Math.max(1, 2) == 2
    process = jvm._process
    process.send_signal(signal.SIGTERM)  # as systemd does, to all
    assert SparkContext._jvm.java.lang.Math.max(3, 2) == 3
assert process.returncode == 0, process.returncode
assert SparkContext._gateway is None
assert not any("PYSPARK_GATEWAY" in name for name in os.environ)
"""

KILLED = """
import os, signal
from streaming.spark.jvm import Jvm, spark_home
jvm = Jvm({"spark.driver.memory": "300m"})
jvm.connect()
from pyspark import SparkContext
made = SparkContext._jvm.java.io.File.createTempFile("made", "by Spark").getPath()
assert made.startswith(os.environ["TMPDIR"]), made
os.kill(os.getpid(), signal.SIGKILL)
"""
FAULTY = """
from streaming.spark.jvm import Jvm
try:
    with Jvm({"spark.driver.memory": "300m"}) as jvm, jvm:
        jvm.connect()
        raise KeyError("a fault of ours")
except KeyError:
    assert jvm._process.returncode is not None
"""
INTERRUPTED = """
from streaming.spark.jvm import Jvm

class Interrupted(Jvm):
    ends = 0

    def _end(self):
        self.ends += 1
        if self.ends == 1:
            raise KeyboardInterrupt
        super()._end()

try:
    with Interrupted({"spark.driver.memory": "300m"}) as jvm, jvm:
        jvm.connect()
except KeyboardInterrupt:
    assert jvm._process.returncode is not None
"""
SECRET = "swordfish \"\\'= :#!ä\u20ac"
HIDDEN = f"""
from pathlib import Path
from streaming.spark.jvm import Jvm
told = {{"spark.driver.memory": "300m", "spark.hadoop.a:b.secret": {SECRET!r}, "spark.x": "seen"}}
with Jvm(told, secrets=["spark.hadoop.a:b.secret"]) as jvm:
    jvm.connect()
    words = Path(f"/proc/{{jvm._process.pid}}/cmdline").read_bytes()
    assert b"spark.x=seen" in words and b"swordfish" not in words, words
    from pyspark import SparkContext
    known = SparkContext._jvm.java.lang.System.getProperty
    assert known("spark.hadoop.a:b.secret") == {SECRET!r}, known("spark.hadoop.a:b.secret")
    assert known("spark.x") == "seen"
    assert not list(jvm._scratch.folder.glob("secrets"))
"""
UNHEARD = """
import time
from streaming.config import parse_config
from streaming.spark.session import spark_session
spark = {"spark.master": "local[1]", "spark.driver.memory": "512m", "spark.network.timeout": "15s"}
spark |= {"spark.network.timeoutInterval": "1s", "spark.executor.heartbeatInterval": "14900ms"}
tables = {"spark": spark, "pipelines": {"p": {"discipline": "channel"}}}
with spark_session(parse_config(tables, {}, "c.toml")) as session:
    session.sparkContext.setLogLevel("WARN")
    time.sleep(18)  # the first heartbeat comes after one to two intervals
"""
SECONDS_MAX = 60


def test_a_jvm_that_cannot_start_is_told():
    with Jvm({"spark.driver.memory": "no size"}) as jvm, pytest.raises(JobFailed, match="JVM"):
        jvm.connect()


def test_a_jvm_of_spark_submit_is_refused(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(ConfigError, match="spark-submit started this process") as refused:
        Jvm({})
    assert "Start `sequencer` itself" in refused.value.remedy


def test_it_serves_pyspark_ignores_sigterm_and_ends_with_the_block(folder):
    told = {**os.environ, "TMPDIR": str(folder)}
    subprocess.run([sys.executable, "-c", STARTED], check=True, timeout=240, env=told)
    assert not any(folder.iterdir())


def test_a_fault_inside_the_blocks_of_start_and_session_is_not_the_jvm_s(folder):
    told = {**os.environ, "TMPDIR": str(folder)}
    subprocess.run([sys.executable, "-c", FAULTY], check=True, timeout=240, env=told)


def test_an_end_that_ctrl_c_interrupts_is_taken_up_again(folder):
    told = {**os.environ, "TMPDIR": str(folder)}
    subprocess.run([sys.executable, "-c", INTERRUPTED], check=True, timeout=240, env=told)
    assert not any(folder.iterdir())


def test_on_one_machine_no_silence_makes_spark_give_up_its_only_executor(folder):
    """After a pause (a laptop that slept) it would end the JVM some minutes later."""
    told = {**os.environ, "TMPDIR": str(folder)}
    words = [sys.executable, "-c", UNHEARD]
    ended = subprocess.run(words, check=True, timeout=240, env=told, capture_output=True)
    assert b"no recent heartbeats" not in ended.stderr


@pytest.mark.parametrize("variables", [{}, {"SPARK_SUBMIT_OPTS": "-Da=b"}], ids=["ours", "script"])
def test_secrets_are_not_in_the_list_of_processes(folder, variables):
    told = {**os.environ, "TMPDIR": str(folder), **variables}
    subprocess.run([sys.executable, "-c", HIDDEN], check=True, timeout=240, env=told)


def test_what_a_killed_service_left_goes_with_the_next_start(folder):
    told = {**os.environ, "TMPDIR": str(folder)}
    killed = subprocess.run([sys.executable, "-c", KILLED], check=False, timeout=240, env=told)
    assert killed.returncode == -signal.SIGKILL
    (left,) = folder.iterdir()
    assert any(each.name.startswith("made") for each in left.iterdir())
    deadline = time.monotonic() + SECONDS_MAX
    while left.exists():  # until its JVM has ended, too
        Scratch(folder).close()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(("cores", "serial"), [(1, True), (2, True), (3, False)])
def test_the_collector_follows_the_cores(monkeypatch, cores, serial):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    assert ("-XX:+UseSerialGC" in settings._java_options("-Xss4m", rows=True)) == serial


def test_a_collector_named_in_the_environment_stands(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    assert "-XX:+UseSerialGC" not in settings._java_options("", rows=False)


def test_the_users_collector_and_options_stand():
    given = "-XX:+UseG1GC -XX:Tier4InvocationThreshold=7"
    for rows in (True, False):
        options = settings._java_options(given, rows=rows)
        assert "-XX:+UseSerialGC" not in options
        assert options[-1] == given


@pytest.mark.parametrize(
    ("pipeline", "properties", "rows"),
    [
        ({}, {}, False),
        ({"channel": "upper(cast(key as string))"}, {}, True),
        ({"label": "offset"}, {}, True),
        ({"label": "header('x')"}, {}, False),
    ],
    ids=str,
)
def test_where_spark_sees_no_records_the_first_compiler_is_enough(pipeline, properties, rows):
    tables = {
        "service": {"name": "s"},
        "kafka": {"bootstrap_servers": "a:1", "properties": properties},
        "pipelines": {"p": {"discipline": "channel", **pipeline}},
    }
    given, _ = settings.jvm_settings(parse_config(tables, {}, "test"))
    options = given["spark.driver.extraJavaOptions"]
    assert ("TieredStopAtLevel=1" in options) is not rows
    assert ("Tier4" in options) is rows


def test_a_spark_of_another_version_is_refused(folder, monkeypatch):
    """PySpark and the Spark at SPARK_HOME share private names: two versions do not mix."""
    jars = folder / "jars"
    jars.mkdir()
    (jars / "spark-core_2.13-4.0.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(folder))
    with pytest.raises(
        ConfigError, match=rf"SPARK_HOME .* is Spark 4\.0\.1, PySpark is {re.escape(__version__)}"
    ):
        Jvm({})


def test_a_folder_without_spark_is_refused(folder, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(folder))
    with pytest.raises(ConfigError, match=r"SPARK_HOME .* has no Spark"):
        Jvm({})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {
            "spark.master": "local[2]",
            "spark.driver.memory": "700m",
            "spark.driver.extraClassPath": "/a b/c.jar:/d.jar",
            "spark.driver.extraJavaOptions": '"-Dx=a b" -XX:+UseSerialGC  "-Dy=\'1\'"',
            "spark.app.name": "what 'ever",
        },
    ],
    ids=["none", "some"],
)
def test_the_command_is_that_of_sparks_script(monkeypatch, settings):
    for name in launching.SCRIPTS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    home = spark_home()
    words, variables = launching.command(home, settings)
    monkeypatch.setenv("SPARK_HOME", str(home))
    script, nothing = launching.command(home, settings)
    assert (Path(script[0]).name, nothing) == ("spark-submit", {})
    java, launcher = words[0], "org.apache.spark.launcher.Main"
    asked = [java, "-cp", f"{home}/jars/*", launcher, launching.MAIN]
    told = subprocess.run(
        [*asked, *script[1:]],
        env={**os.environ, **variables},
        capture_output=True,
        timeout=120,
        check=True,
    ).stdout
    wanted = [word.decode() for word in told.split(b"\0") if word.strip()]
    wanted.remove("--add-modules=jdk.incubator.vector")  # for machine learning; Java warns of it
    main = words.index(launching.MAIN)
    paths = words.index("-cp") + 1
    assert words[1:paths] + words[paths + 1 : main] == wanted[1:paths] + wanted[paths + 1 : main]
    assert sorted(words[main:]) == sorted(wanted[main:])
    ours, theirs = ([*spelled_out(each[paths])] for each in (words, wanted))
    left_out = {path for path in theirs if Path(path).name.startswith("spark-mllib_")}
    assert len(left_out) == 1
    assert {*ours} == {*theirs} - left_out
    first = ours.index(next(path for path in ours if "slf4j-api" in path))
    assert ours[: first + 1] == theirs[: first + 1]


def spelled_out(class_path):
    """A class path's entries, those of folders one by one."""
    for path in class_path.split(os.pathsep):
        if path.endswith("/*"):
            yield from (str(jar) for jar in Path(path).parent.glob("*.jar"))
        else:
            yield path


@pytest.mark.parametrize(
    ("settings", "variables"),
    [
        ({"spark.master": "spark://h:7077"}, {}),
        ({"spark.driver.defaultJavaOptions": "-Da=b"}, {}),
        ({"spark.driver.extraJavaOptions": "-Da=\\b"}, {}),
        ({}, {"SPARK_CONF_DIR": "/etc/spark"}),
        ({}, {"SPARK_SUBMIT_OPTS": "-Da=b"}),
    ],
    ids=str,
)
def test_sparks_script_starts_it_where_only_that_knows_how(monkeypatch, settings, variables):
    for name in launching.SCRIPTS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    words, _ = launching.command(spark_home(), settings)
    assert Path(words[0]).name == "spark-submit"

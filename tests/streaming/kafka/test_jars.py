"""Fetching jars, mostly with a `java` of the test's own that plays Ivy; no network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from streaming.errors import ConfigError, SequencerError
from streaming.kafka import jars

FAKE = """#!/bin/sh
if [ "$1" = -version ]; then
  echo 'openjdk version "{version}" 2025-01-01' >&2
  exit {fails}
fi
echo call >> {calls}
while [ $# -gt 0 ]; do [ "$1" = -retrieve ] && pattern=$2; shift; done
folder=${{pattern%%/\\[*}}
sleep {seconds}
{ivy}
for conf in spark broker; do mkdir -p $folder/$conf; touch $folder/$conf/a-1.jar; done
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("SEQUENCER_JARS", raising=False)
    monkeypatch.delenv("SEQUENCER_IVY_SETTINGS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "spark-sequencer"


@pytest.fixture
def fake_java(tmp_path, cache, monkeypatch):  # noqa: ARG001  (with its environment)
    """Gives a function that puts a java in place; returns the file that gets a line a call."""

    def put(version="17.0.1", fails=0, seconds=0, ivy=""):
        calls = tmp_path / "calls"
        home = tmp_path / "jdk"
        (home / "bin").mkdir(parents=True, exist_ok=True)
        java = home / "bin" / "java"
        values = {"version": version, "fails": fails, "seconds": seconds, "ivy": ivy}
        java.write_text(FAKE.format(calls=calls, **values))
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(home))
        return calls

    return put


def names(paths):
    return {path.name for path in paths}


def test_the_real_jars_are_those_that_pyspark_lacks():
    def artifacts(paths):
        return {path.name.rsplit("-", 1)[0] for path in paths}

    own = artifacts(Path(pyspark.__file__).parent.glob("jars/*.jar"))
    assert artifacts(jars.spark_jars()) == {"hadoop-bare-naked-local-fs"} - own
    broker = jars.broker_classpath()
    assert "kafka_2.13-4.3.1.jar" in names(broker)
    assert len(artifacts(broker)) == len(broker), "two versions of one artifact"


def test_every_jar_is_named():
    """Ivy is not to look for descriptions of modules: see ivy-settings.xml."""
    wanted = re.findall(r"<dependency .*?/>", jars.IVY.read_text())
    assert all('transitive="false"' in each for each in wanted)
    parts = [re.search(r' name="(.+?)" rev="(.+?)"', each).groups() for each in wanted]
    assert {f"{name}-{version}.jar" for name, version in parts} == names(
        [*jars.spark_jars(), *jars.broker_classpath()]
    )


def test_fetched_once_and_kept(cache, fake_java, capfd):
    calls = fake_java()
    assert names(jars.spark_jars()) == {"a-1.jar"}
    assert names(jars.broker_classpath()) == {"a-1.jar"}
    assert calls.read_text() == "call\n"
    assert "some 20 seconds" in capfd.readouterr().err
    folder = next(path for path in cache.iterdir() if path.is_dir())
    assert {path.name for path in cache.iterdir()} == {folder.name, f"{folder.name}.lock"}


def test_two_processes_at_once_fetch_once(fake_java):
    calls = fake_java(seconds=1)
    script = "from streaming.kafka.jars import spark_jars; print(len(spark_jars()))"
    command = [sys.executable, "-c", script]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0] for process in both] == ["1\n", "1\n"]
    assert calls.read_text() == "call\n"


def test_a_failure_leaves_nothing_and_can_be_tried_again(cache, fake_java):
    fake_java(ivy="mkdir -p $folder/spark; echo '::: a#b;1: not found'; exit 1")
    with pytest.raises(SequencerError, match=r"a#b;1: not found.*SEQUENCER_IVY_SETTINGS"):
        jars.spark_jars()
    assert not [path for path in cache.iterdir() if path.is_dir()]
    fake_java()
    assert names(jars.spark_jars()) == {"a-1.jar"}


def test_what_a_killed_process_left_is_removed(cache, fake_java):
    fake_java()
    jars.spark_jars()
    folder = next(path for path in cache.iterdir() if path.is_dir())
    shutil.rmtree(folder)
    left = cache / f"{folder.name}-new-killed"
    (left / "jars" / "spark").mkdir(parents=True)
    assert names(jars.spark_jars()) == {"a-1.jar"}
    assert not left.exists()


def test_ivy_that_never_ends_is_ended(fake_java, monkeypatch):
    monkeypatch.setattr(jars, "RESOLVE_SECONDS_MAX", 1)
    fake_java(ivy="exec sleep 60")
    with pytest.raises(SequencerError, match="it took more than 1 s"):
        jars.spark_jars()


def test_a_given_folder_is_used_as_it_is(tmp_path, cache, fake_java, monkeypatch):
    calls = fake_java()
    monkeypatch.setenv("SEQUENCER_JARS", str(tmp_path / "given"))
    with pytest.raises(ConfigError, match="given/spark has no jars"):
        jars.spark_jars()
    (tmp_path / "given" / "spark").mkdir(parents=True)
    (tmp_path / "given" / "spark" / "mine.jar").touch()
    assert names(jars.spark_jars()) == {"mine.jar"}
    assert not calls.exists()
    assert not cache.exists()


@pytest.mark.parametrize("home", [None, "", "/proc/nowhere"])
def test_without_a_home_that_can_be_written_to(tmp_path, fake_java, monkeypatch, home):
    fake_java()
    for name in ("SEQUENCER_JARS", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    monkeypatch.setattr(jars.tempfile, "tempdir", str(tmp_path))
    found = jars.spark_jars()
    assert found[0].is_relative_to(tmp_path / f"spark-sequencer-{os.getuid()}")


@pytest.mark.parametrize("wanted", ["", "jars"])
def test_a_folder_that_others_can_write_to(tmp_path, cache, monkeypatch, wanted):
    """Another user's link leads there: whoever runs what lies in it runs what that user likes."""
    anyones = tmp_path / "anyone's"
    (anyones / "jars").mkdir(parents=True)
    anyones.chmod(0o1777)
    own = tmp_path / "tmp" / f"spark-sequencer-{os.getuid()}"
    own.parent.mkdir()
    own.symlink_to(anyones)
    monkeypatch.setattr(jars.tempfile, "tempdir", str(own.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(ConfigError, match=f"None of .*{own} can be written to"):
        jars.cache_root(wanted)
    anyones.chmod(0o700)
    assert jars.cache_root(wanted) == own
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    assert jars.cache_root() == cache


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes links of other users")
def test_a_link_of_another_user(tmp_path, cache, monkeypatch):
    """Where it leads is that user's choice, also after we looked."""
    monkeypatch.setattr(jars.tempfile, "tempdir", str(tmp_path))
    (tmp_path / "mine" / "jars").mkdir(parents=True)
    cache.parent.mkdir()
    cache.symlink_to(tmp_path / "mine")
    assert jars.cache_root("jars") == cache
    os.lchown(cache, 12_345, 12_345)
    assert jars.cache_root("jars") == tmp_path / f"spark-sequencer-{os.getuid()}"


def test_ivy_settings_are_honoured(tmp_path, cache, monkeypatch):
    """Ivy itself, with a resolver of files alone: each jar is named, so nothing else is needed."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    there = {"spark": jars.spark_jars(), "broker": jars.broker_classpath()}
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "a (ü) [1] ☃"))
    monkeypatch.setenv("LC_ALL", "C")
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for path in [*there["spark"], *there["broker"]]:
        shutil.copy(path, mirror)
    settings = tmp_path / "settings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers><filesystem name="mirror">'
        f'<artifact pattern="{mirror}/[artifact]-[revision].[ext]"/>'
        "</filesystem></resolvers></ivysettings>"
    )
    monkeypatch.setenv("SEQUENCER_IVY_SETTINGS", str(settings))
    assert names(jars.spark_jars()) == names(there["spark"])
    assert names(jars.broker_classpath()) == names(there["broker"])


@pytest.mark.usefixtures("cache")
def test_no_network_is_told_with_the_remedy(tmp_path, monkeypatch):
    settings = tmp_path / "settings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="off"/><resolvers>'
        '<ibiblio name="off" m2compatible="true" root="http://127.0.0.1:9/"/>'
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("SEQUENCER_IVY_SETTINGS", str(settings))
    with pytest.raises(SequencerError, match=r"Fetching jars failed: .*Check the network"):
        jars.spark_jars()


@pytest.mark.parametrize(
    ("put", "told"),
    [
        ({"version": "11.0.2"}, "is Java 11; 17 or newer"),
        ({"version": "1.8.0_402"}, "is Java 8; 17 or newer"),
        ({"fails": 1}, "does not work"),
    ],
)
def test_a_java_that_will_not_do(fake_java, put, told):
    fake_java(**put)
    with pytest.raises(ConfigError, match=rf"{told}.*Install a JDK 17"):
        jars.spark_jars()


@pytest.mark.usefixtures("cache")
def test_no_java_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"no java at .*JAVA_HOME"):
        jars.spark_jars()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no java on the PATH"):
        jars.spark_jars()

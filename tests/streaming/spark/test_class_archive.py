"""Archives of Java's classes, with the real Java and a small program of PySpark's jars (Ivy)."""

import os
import shlex
import shutil
import subprocess
import time

import pytest

from streaming.kafka.jars import java, pyspark_folder
from streaming.spark.class_archive import ARCHIVES_MAX, class_archive


@pytest.fixture
def jar(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)  # Java would tell of them
    monkeypatch.delenv("SEQUENCER_RECORD_CLASSES", raising=False)
    (ivy,) = pyspark_folder().glob("jars/ivy-*.jar")
    return shutil.copy2(ivy, tmp_path / "ivy.jar")


def run(archive, jar):
    """What the program says, and how many classes came from an archive of ours."""
    options = shlex.split(archive.options())
    words = [java(), *options, "-cp", str(jar), "org.apache.ivy.Main", "-version"]
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True, env=kept)
    assert done.stderr == ""
    return done.stdout


def from_archive(archive, jar):
    options = shlex.split(archive.options().split(" -Xlog:")[0])
    words = [
        java(),
        *options,
        "-Xlog:class+load",
        "-cp",
        str(jar),
        "org.apache.ivy.Main",
        "-version",
    ]
    told = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout
    return sum(
        "org.apache.ivy" in line and "shared objects file" in line for line in told.splitlines()
    )


def made(jar):
    archive = class_archive([jar], "")
    archive.worth_keeping = True
    run(archive, jar)
    archive.close(whole=True)
    return archive


def test_the_second_start_takes_its_classes_from_the_archive(jar):
    assert class_archive([jar], "").recording
    made(jar)
    second = class_archive([jar], "")
    assert not second.recording
    assert from_archive(second, jar) > 10
    assert run(second, jar).startswith("Apache Ivy")


def test_a_jvm_that_did_not_work_leaves_none(jar):
    archive = class_archive([jar], "")
    run(archive, jar)
    archive.close(whole=True)
    assert list(archive.new.parent.iterdir()) == []


def test_who_wants_no_new_one_uses_one_that_is_there(jar, monkeypatch):
    monkeypatch.setenv("SEQUENCER_RECORD_CLASSES", "no")
    assert class_archive([jar], "") is None
    monkeypatch.delenv("SEQUENCER_RECORD_CLASSES")
    made(jar)
    monkeypatch.setenv("SEQUENCER_RECORD_CLASSES", "no")
    assert not class_archive([jar], "").recording


def test_a_jvm_that_was_killed_leaves_none(jar):
    archive = class_archive([jar], "")
    archive.worth_keeping = True
    archive.new.write_bytes(b"half of it")
    archive.close(whole=False)
    assert not archive.new.exists()
    assert class_archive([jar], "").recording


def test_other_jars_have_another_archive(jar):
    made(jar)
    os.utime(jar, (1, 1))
    assert class_archive([jar], "").recording


def test_an_archive_that_was_cut_is_made_again(jar):
    path = made(jar).path
    path.write_bytes(path.read_bytes()[:-1])
    assert class_archive([jar], "").recording
    assert made(jar).path == path
    assert not class_archive([jar], "").recording


def test_what_is_no_archive_is_passed_over_without_a_word(jar):
    path = made(jar).path
    path.write_bytes(bytes(path.stat().st_size))
    assert run(class_archive([jar], ""), jar).startswith("Apache Ivy")


def test_own_options_come_first(jar):
    assert class_archive([jar], "-Xmx1g -XX:SharedArchiveFile=/mine.jsa") is None


def test_a_jar_that_is_not_there_means_no_archive(jar):
    assert class_archive([jar, jar.with_name("x")], "") is None


def test_those_used_last_stay(jar):
    folder = class_archive([jar], "").new.parent
    for number in range(ARCHIVES_MAX + 2):
        folder.joinpath(f"classes-{number}-1.jsa").write_bytes(b"x")
        os.utime(folder / f"classes-{number}-1.jsa", (number + 1, number + 1))
    path = made(jar).path
    kept = {folder / f"classes-{number}-1.jsa" for number in range(3, ARCHIVES_MAX + 2)}
    assert set(folder.glob("classes-*")) == {path, *kept}


def test_what_jvms_of_killed_drivers_wrote_goes_with_a_start_an_hour_later(jar):
    folder = made(jar).path.parent
    for name, age_s in (("young", 60), ("old", 3_700)):
        folder.joinpath(f"classes-{name}.1-new").write_bytes(b"x")
        os.utime(folder / f"classes-{name}.1-new", (time.time() - age_s,) * 2)
    assert not class_archive([jar], "").recording
    assert [each.name for each in folder.glob("*-new")] == ["classes-young.1-new"]

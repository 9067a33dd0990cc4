"""The jar with which Spark writes on S3 (tests/faults has it at work)."""

import shutil
import subprocess
import zipfile

import pytest

from streaming.config import parse_config
from streaming.kafka.jars import S3_FILES
from streaming.spark import settings
from streaming.spark.settings import jvm_settings
from tests import s3_files


def test_the_jar_is_made_of_its_source(tmp_path):
    said = shutil.which("javac") and subprocess.check_output(["javac", "-version"], text=True)
    if not said or "javac 17." not in said:
        pytest.skip("javac 17 made the jar; others make other bytes")
    with zipfile.ZipFile(S3_FILES) as jar:
        there = {name: jar.read(name) for name in jar.namelist()}
    assert there == s3_files.compiled(tmp_path), "write it anew: python -m tests.s3_files"


def test_a_checkpoint_on_s3_is_written_by_it(monkeypatch):
    monkeypatch.setattr(settings, "s3_jars", lambda: [S3_FILES])
    tables = {
        "service": {"checkpoint": "s3a://bucket/c"},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    found, _ = jvm_settings(parse_config(tables, {}, "c.toml"))
    name = found["spark.sql.streaming.checkpointFileManagerClass"]
    assert f"{name.replace('.', '/')}.class" in zipfile.ZipFile(S3_FILES).namelist()
    assert str(S3_FILES) in found["spark.driver.extraClassPath"]
    # Spark's own would go on where the store refuses a file.
    tables["spark"] = {"spark.sql.streaming.checkpointFileManagerClass": "another.Manager"}
    config = parse_config(tables, {}, "c.toml")
    assert jvm_settings(config)[0]["spark.sql.streaming.checkpointFileManagerClass"] == name
    assert any("another.Manager is ignored" in line for line in settings.remarks(config))

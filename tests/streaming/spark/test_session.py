"""What Spark is told; sessions themselves: `tests/spark`."""

import pytest

from streaming.config import parse_config
from streaming.spark import session
from streaming.spark.session import EXECUTORS, GS_CHECKPOINT, SESSION, jvm_settings

PIPELINES = {"pipelines": {"p": {"discipline": "channel"}}}
OWN_GS = {"spark.hadoop.fs.gs.auth.type": "COMPUTE_ENGINE"}


def told(**spark):
    tables = {"spark": spark, **PIPELINES}
    settings, _ = jvm_settings(parse_config(tables, {}, "c.toml"))
    return settings


@pytest.mark.parametrize("master", ["spark://host:7077", "k8s://https://host"])
def test_executors_on_other_hosts_get_what_a_local_jvm_has_in_its_environment(master):
    there = told(**{"spark.master": master})
    assert EXECUTORS.items() <= there.items()
    own = dict.fromkeys(EXECUTORS, "1")
    assert own.items() <= told(**{"spark.master": master}, **own).items(), "one's own come first"
    assert not set(told(**{"spark.master": "local[2]"})) & set(EXECUTORS)


def test_what_the_guarantees_rest_on_cannot_be_overridden():
    others = dict.fromkeys(SESSION, "other")
    assert SESSION.items() <= told(**others).items()


def test_in_googles_store_spark_has_googles_connector(monkeypatch, tmp_path):
    jar = tmp_path / "gcs.jar"
    jar.touch()
    monkeypatch.setattr(session, "gs_jars", lambda: [jar])
    tables = {"service": {"checkpoint": "gs://bucket/c"}, "spark": OWN_GS, **PIPELINES}
    config = parse_config(tables, {}, "c.toml")
    settings, _ = jvm_settings(config)
    assert (GS_CHECKPOINT | OWN_GS).items() <= settings.items(), "one's own come first"
    assert str(jar) in settings["spark.driver.extraClassPath"]
    assert not [name for name in settings if "checkpointFileManager" in name], "Spark's own"
    assert any("object store" in line for line in session.remarks(config))

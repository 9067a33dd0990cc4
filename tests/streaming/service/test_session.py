"""What Spark is told; sessions themselves: `tests/spark`."""

import pytest

from streaming.config import parse_config
from streaming.service.session import EXECUTORS, SESSION, jvm_settings


def told(**spark):
    tables = {"pipelines": {"p": {"discipline": "channel"}}, "spark": spark}
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

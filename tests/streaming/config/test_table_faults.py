"""Faults of the file itself, and of its tables beside the pipelines, are named likewise."""

from __future__ import annotations

import pytest

from streaming.config import load_config, parse_config
from streaming.errors import ConfigError
from tests.streaming.config.configs import channel, faults


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("service = 3", "service: must be a table"),
        ('service = { name = "a/b" }', "service.name: 'a/b' cannot name topics, folders"),
        (f'service = {{ name = "{"a" * 101}" }}', "aaa'… (101 characters) cannot name topics"),
        ('service = { name = "" }', "service.name: '' cannot name"),
        ('service = { checkpoint = "" }', "service.checkpoint: must not be empty"),
        ("service = { shards = 1025 }", "service.shards: must be 1024 or less"),
        ("service = { state_partitions = 0 }", "service.state_partitions: must be 1 or more"),
        ('service = { shards = "4" }', "service.shards: must be a whole number"),
        ('service = { delivery = "once" }', '"exactly-once" or "at-least-once"'),
        ('service = { create_topics = "yes" }', "service.create_topics: must be true or false"),
        ('service = { header_prefix = "a\\u0000" }', "service.header_prefix: has control"),
        (
            'service = { metrics = "9404" }',
            "service.metrics: '9404' is not an address; write host:port",
        ),
        ('service = { metrics = "x:65536" }', "service.metrics: 'x:65536' is not an address"),
        ('service = { trigger = "-1 s" }', "service.trigger: is not a length of time"),
        ("kafka = 3", "kafka: must be a table"),
        ('kafka = { servers = "a:1" }', "kafka.servers: unknown key"),
        ('kafka = { bootstrap_servers = "a" }', "kafka.bootstrap_servers: 'a' is not an address"),
        ('kafka = { bootstrap_servers = "a:0" }', "'a:0' has no port in 1 … 65535"),
        ('kafka = { bootstrap_servers = "a:1,b:x" }', "'b:x' has no port"),
        ('kafka = { bootstrap_servers = "a:1," }', "'' is not an address"),
        ('kafka = { bootstrap_servers = "http://a:1" }', "'http://a:1' is not an address"),
        ("kafka = { properties = 3 }", "kafka.properties: must be a table"),
        ("kafka = { properties = { a = [1] } }", "kafka.properties.a: must be text, a number"),
        ("kafka = { properties.ssl.ca = 3 }", 'write the whole name in quotes: "ssl.…"'),
        ("spark = 3", "spark: must be a table"),
        ("spark = { spark.master = 3 }", 'write the whole name in quotes: "spark.…"'),
        ("spark = { sql.shuffle = 3 }", 'write the whole name in quotes: "spark.sql.…"'),
        ("spark = { master = 3 }", 'which begins with spark: "spark.master"'),
        ('spark = { "spark.x" = [1] }', 'spark."spark.x": must be text, a number'),
        ("servce = {}", "servce: unknown key; did you mean service?"),
    ],
)
def test_a_fault_of_the_other_tables(text, told):
    (fault,) = faults(f'{text}\n[pipelines.p]\ndiscipline = "channel"')
    assert told in fault


@pytest.mark.parametrize(
    "address", ["a:1", "a.b-c:65535", "10.0.0.1:9092", "[::1]:9092", "a:1, b:2"]
)
def test_good_addresses(address):
    config = channel(kafka={"bootstrap_servers": address})
    assert config.kafka.bootstrap_servers == address.replace(" ", "")


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read: No such file"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "a.toml").write_text("a = ")
    with pytest.raises(ConfigError, match=r"a\.toml is not valid TOML: .*at end of document"):
        load_config(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_bytes(b"[service]\nname = '\xfc'\n")
    with pytest.raises(
        ConfigError, match=r"b\.toml is not text in UTF-8: line 2 has the byte 0xfc"
    ):
        load_config(tmp_path / "b.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)


def test_a_byte_order_mark_is_no_fault(tmp_path):
    file = tmp_path / "windows.toml"
    file.write_bytes(b"\xef\xbb\xbf[pipelines.p]\r\ndiscipline = 'channel'\r\n")
    assert [*load_config(file, {}).pipelines] == ["p"]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('"spark.submit.deployMode" = "cluster"', "the driver always runs where"),
        ('"spark.remote" = "sc://host"', "Spark Connect is not supported"),
        (
            '"spark.dynamicAllocation.enabled" = true',
            "a start waits for executors before there is work",
        ),
        ('"spark.task.cpus" = 2', "executors with fewer get no task"),
    ],
)
def test_what_of_spark_is_not_supported(setting, told):
    (fault,) = faults(f'[spark]\n{setting}\n[pipelines.p]\ndiscipline = "channel"')
    assert told in fault


def test_what_of_spark_is_as_it_is_anyway_passes():
    spark = {"spark.dynamicAllocation.enabled": False, "spark.task.cpus": 1}
    pipelines = {"p": {"discipline": "channel"}}
    assert parse_config({"spark": spark, "pipelines": pipelines}, {}, "").spark

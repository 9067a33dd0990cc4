"""Configurations for tests: a whole one, a channel pipeline, and the faults of a wrong one."""

from __future__ import annotations

import tomllib

import pytest

from streaming.config import parse_config
from streaming.errors import ConfigError


def rules_of(config, name="p"):
    with config.faults_of(name):
        return config.pipelines[name].all_rules()


EVERYTHING = """
[service]
name = "orders"
checkpoint = "hdfs://name/checkpoints"
trigger = "200 ms"
shards = 16
delivery = "at-least-once"
create_topics = false
header_prefix = "seq-"
metrics = "127.0.0.1:9404"

[kafka]
bootstrap_servers = "one:9092, two:9093"
properties = { "security.protocol" = "PLAINTEXT", "debug" = true, "linger.ms" = 5 }

[spark]
"spark.master" = "local[2]"
"spark.ui.enabled" = false
"spark.sql.shuffle.partitions" = 4

[pipelines.trades]
discipline = "channel"
input = ["trades.in", "trades.more"]
output = "trades.ordered"
rejects = "trades.bad"
events = "trades.news"
channel = "coalesce(key, header('channel'))"
label = "header('n')"
labels = { kind = "cyclic", start = 1, step = 3, modulus = 100 }
gap = { policy = "skip", after = "5 s" }
buffer = { held = 10, window = 49, full = "skip" }
duplicates = "drop"
retire_after = "2 hours"

[pipelines.market]
discipline = "group"
input = "trades.ordered"
groups = { G0 = ["A", "B", "C"], G1 = ["B", "C"] }
sender_order = "across-groups"
nodes = 7
output = "market.to.{subscriber}"

[pipelines.bus]
discipline = "multicast"
order = "counter"
"""


def channel(text="", name="p", **others):
    tables = {"pipelines": {name: {"discipline": "channel", **tomllib.loads(text)}}}
    return parse_config({**tables, **others}, {}, "c.toml")


def faults(text, environ=None):
    """The faults of a configuration given as TOML."""
    with pytest.raises(ConfigError) as refused:
        parse_config(tomllib.loads(text), environ or {}, "c.toml")
    error = refused.value
    assert error.exit_status == 2
    assert error.effect == "Nothing was started."
    assert all(f"\n  {each}" in error.message for each in error.faults)
    assert error.message.startswith("c.toml cannot work:")
    return error.faults


def faults_of(text, discipline="channel"):
    return faults(f'[pipelines.p]\ndiscipline = "{discipline}"\n{text}')

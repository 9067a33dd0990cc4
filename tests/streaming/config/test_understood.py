"""What a configuration says, and what is left out."""

from __future__ import annotations

import pickle
import tomllib

import pytest

from sequencer.channels.rules import WAIT, Full, Skip
from streaming.config import load_config, parse_config
from streaming.settings.values import Span
from tests.streaming.config.configs import EVERYTHING, channel, faults, faults_of, rules_of


def test_a_whole_file_is_understood(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(EVERYTHING)
    config = load_config(path, {})
    service = config.service
    assert (service.name, service.checkpoint) == ("orders", "hdfs://name/checkpoints")
    assert (service.trigger, service.shards) == (Span(200), 16)
    assert (service.delivery, service.create_topics) == ("at-least-once", False)
    assert service.header_prefix == "seq-"
    assert service.metrics == "127.0.0.1:9404"
    assert config.kafka.bootstrap_servers == "one:9092,two:9093"
    assert config.kafka.properties == {
        "security.protocol": "PLAINTEXT",
        "debug": "true",
        "linger.ms": "5",
    }
    assert config.spark == {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }
    trades = config.pipelines["trades"]
    assert trades.input == ("trades.in", "trades.more")
    assert trades.written == {
        "output": "trades.ordered",
        "rejects": "trades.bad",
        "events": "trades.news",
    }
    assert (trades.channel, trades.label) == ("coalesce(key, header('channel'))", "header('n')")
    rules = rules_of(config, "trades")
    assert (rules.labels.cycle, rules.labels.at(1)) == (100, 4)
    assert rules.gap == Skip(5000)
    assert (rules.held_max, rules.window, rules.full) == (10, 49, Full.SKIP)
    assert rules.retire_after_ms == 2 * 3600 * 1000
    assert trades.duplicates == "drop"
    market = config.pipelines["market"]
    assert market.input == ("trades.ordered",)
    assert market.groups == {"G0": ("A", "B", "C"), "G1": ("B", "C")}
    assert (market.sender_order, market.nodes) == ("across-groups", 7)
    assert (market.commands, market.transit) == ("market.commands", "market.transit")
    assert config.pipelines["bus"].order == "counter"


def test_rules_of_channels_have_what_they_leave_out_from_the_pipeline():
    config = channel("""
        gap = { policy = "fail", after = "9 s" }
        buffer = { held = 7, full = "skip" }
        duplicates = "drop"
        rules = [
            { channel = "vip.*", gap = { policy = "wait" }, buffer = { window = 3 } },
            { channel = "?", duplicates = "reject", retire_after = "1 h" },
        ]
    """)
    own = rules_of(config)
    (vip, first), (one, second) = own.others
    assert (vip, one) == ("vip.*", "?")
    assert (first.gap, first.held_max, first.window, first.full) == (WAIT, 7, 3, Full.SKIP)
    assert first.drop_duplicates
    assert (second.gap, second.window, second.drop_duplicates) == (own.gap, own.window, False)
    assert second.retire_after_ms == 3_600_000
    with config.faults_of("p"):
        shown = config.pipelines["p"].understood()["rules"]
    assert shown[0]["buffer"] == {"held": 7, "window": 3, "full": "skip"}
    assert shown[1]["gap"] == {"policy": "fail", "after": "9 s", "ask_after": None}


def test_a_topic_of_what_is_asked_for_is_there_where_somebody_asks():
    silent = channel('gap = { policy = "wait" }')
    assert silent.pipelines["p"].wanted == "p.wanted"
    assert "p.wanted" not in [name for _, name in silent.pipelines["p"].topics()]
    rule = (
        '[{ channel = "vip.*", gap = { policy = "wait", ask_after = "1 s" } }, { channel = "b" }]'
    )
    one = channel(f'wanted = "q"\nrules = {rule}')
    assert ("wanted", "q") in one.pipelines["p"].topics()
    own = rules_of(one)
    assert (own.ask_ms, [rules.ask_ms for _, rules in own.others]) == (None, [1000, None])
    every = channel(f'gap = {{ ask_after = "200 ms" }}\nrules = {rule}')
    own = rules_of(every)
    assert (own.ask_ms, [rules.ask_ms for _, rules in own.others]) == (200, [1000, 200])
    (fault,) = faults_of('wanted = "p.out"\ngap = { ask_after = "1 s" }')
    assert "p.out is pipelines.p.output already" in fault


def test_what_is_left_out_has_the_contract_s_default():
    config = channel(name="trades")
    assert config.service.model_dump() == {
        "name": "sequencer",
        "checkpoint": "var/checkpoints",
        "trigger": "100 ms",
        "shards": None,
        "state_partitions": None,
        "batch_records_max": None,
        "batch_bytes_max": 200_000_000,
        "delivery": "exactly-once",
        "create_topics": True,
        "header_prefix": "",
        "metrics": "",
        "transit_kept": "0 ms",
        "hung_after": "15 min",
        "sync": True,
    }
    assert config.kafka.bootstrap_servers == "localhost:9092"
    trades = config.pipelines["trades"]
    assert trades.input == ("trades.in",)
    assert tuple(trades.written.values()) == ("trades.out", "trades.rejects", "trades.events")
    assert (trades.channel, trades.label) == ("key", "header('label')")
    assert (trades.duplicates, trades.retire_after) == ("reject", Span(7 * 86_400_000))
    rules = rules_of(config, "trades")
    assert (rules.labels.at(0), rules.labels.at(1), rules.labels.cycle) == (0, 1, None)
    assert (rules.gap, rules.full) == (WAIT, Full.REJECT)
    assert (rules.held_max, rules.window) == (10_000, 1_000_000)


def test_a_config_does_not_change_and_travels():
    config = channel()
    with pytest.raises(Exception, match="frozen"):
        config.pipelines["p"].output = "q"
    with pytest.raises(AttributeError):
        config.service = None
    again = pickle.loads(pickle.dumps(config))
    assert again == config


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0 ms", 0), ("200 ms", 200), ("5 s", 5000), ("5s", 5000), ("1 second", 1000),
        ("10 min", 600_000), ("1 hour", 3_600_000), ("2 hours", 7_200_000), ("1 day", 86_400_000),
        ("7 days", 604_800_000), ("36500 days", 36_500 * 86_400_000),
    ],
)  # fmt: skip
def test_lengths_of_time(text, ms):
    config = channel(service={"trigger": text})
    assert config.service.trigger == Span(ms)
    assert channel(service={"trigger": str(Span(ms))}).service.trigger == Span(ms)


@pytest.mark.parametrize(
    "text", ['"5"', '"ms"', '"-1 s"', '"5 S"', '""', "5", "true", '"\\u0665 s"']
)
def test_what_is_no_length_of_time(text):
    (fault,) = faults_of(f"retire_after = {text}")
    assert fault.startswith("pipelines.p.retire_after: is not a length of time; write")


def test_the_address_from_the_environment_wins():
    tables = tomllib.loads(EVERYTHING)
    given = {"SEQUENCER_BOOTSTRAP_SERVERS": "there:1"}
    assert parse_config(tables, given, "").kafka.bootstrap_servers == "there:1"
    tables["kafka"]["bootstrap_servers"] = ""
    assert parse_config(tables, given, "").kafka.bootstrap_servers == "there:1"
    (fault,) = faults(EVERYTHING, {"SEQUENCER_BOOTSTRAP_SERVERS": "there:"})
    assert fault.startswith("SEQUENCER_BOOTSTRAP_SERVERS (set): 'there:' has no port in 1 … 65535")

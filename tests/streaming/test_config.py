"""The configuration: what is understood, and that every fault is named with key and remedy."""

from __future__ import annotations

import pickle
import sys
import tomllib

import pytest

from sequencer.channels.rules import CUSTOM_WINDOW_DEFAULT, HELD_MAX, WINDOW_MAX, Full, Gap
from streaming.config import load_config, parse_config
from streaming.errors import ConfigError
from streaming.settings.values import Span


def rules_of(config, name="p"):
    with config.faults_of(name):
        return config.pipelines[name].rules()


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


# What is understood


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
    assert (rules.gap, rules.gap_after_ms) == (Gap.SKIP, 5000)
    assert (rules.held_max, rules.window, rules.full) == (10, 49, Full.SKIP)
    assert rules.retire_after_ms == 2 * 3600 * 1000
    assert trades.duplicates == "drop"
    market = config.pipelines["market"]
    assert market.input == ("trades.ordered",)
    assert market.groups == {"G0": ("A", "B", "C"), "G1": ("B", "C")}
    assert (market.sender_order, market.nodes) == ("across-groups", 7)
    assert (market.commands, market.transit) == ("market.commands", "market.transit")
    assert config.pipelines["bus"].order == "counter"


def test_what_is_left_out_has_the_contract_s_default():
    config = channel(name="trades")
    assert config.service.model_dump() == {
        "name": "sequencer",
        "checkpoint": "var/checkpoints",
        "trigger": "200 ms",
        "shards": 16,
        "state_partitions": None,
        "batch_records_max": 200_000,
        "delivery": "exactly-once",
        "create_topics": True,
        "header_prefix": "",
        "metrics": "",
    }
    assert config.kafka.bootstrap_servers == "localhost:9092"
    trades = config.pipelines["trades"]
    assert trades.input == ("trades.in",)
    assert tuple(trades.written.values()) == ("trades.out", "trades.rejects", "trades.events")
    assert (trades.channel, trades.label) == ("key", "header('label')")
    assert (trades.duplicates, trades.retire_after) == ("reject", Span(7 * 86_400_000))
    rules = rules_of(config, "trades")
    assert (rules.labels.at(0), rules.labels.at(1), rules.labels.cycle) == (0, 1, None)
    assert (rules.gap, rules.full) == (Gap.WAIT, Full.REJECT)
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
    "text", ['"5"', '"ms"', '"-1 s"', '"1.5 s"', '"5 S"', '""', "5", "true", '"\\u0665 s"']
)
def test_what_is_no_length_of_time(text):
    (fault,) = faults_of(f"retire_after = {text}")
    assert fault.startswith("pipelines.p.retire_after: is no length of time; write")


def test_the_address_from_the_environment_wins():
    tables = tomllib.loads(EVERYTHING)
    given = {"SEQUENCER_BOOTSTRAP_SERVERS": "there:1"}
    assert parse_config(tables, given, "").kafka.bootstrap_servers == "there:1"
    tables["kafka"]["bootstrap_servers"] = ""
    assert parse_config(tables, given, "").kafka.bootstrap_servers == "there:1"
    (fault,) = faults(EVERYTHING, {"SEQUENCER_BOOTSTRAP_SERVERS": "there:"})
    assert fault.startswith("SEQUENCER_BOOTSTRAP_SERVERS (set): 'there:' has no port in 1 … 65535")


# Faults


def test_all_faults_are_told_at_once():
    told = faults("""
        [service]
        nmae = "a"
        shards = 0
        trigger = "fast"
        [kafka]
        bootstrap_servers = ""
        properties = { "ssl.key.password" = "${NOPE}", "securty.protocol" = "SSL" }
        [spark]
        master = "x"
        [metrics]
        [pipelines.p]
        discipline = "channel"
        inptu = "a"
        output = "p.in"
        labels = { kind = "cyclic", modulus = 100, step = 7, strt = 3 }
        buffer = { window = 50, full = "rejct" }
        gap = { policy = "skip" }
        [pipelines.q]
        discipline = "grp"
        [pipelines.r]
        discipline = "group"
        groups = { G0 = [], "a,b" = ["x"], G2 = "A", G3 = ["A", "A"] }
    """)
    assert [fault.split(": ")[0] for fault in told] == [
        "metrics",
        "service.trigger",
        "service.shards",
        "service.nmae",
        'kafka.properties."ssl.key.password"',
        'kafka.properties."securty.protocol"',
        "kafka.bootstrap_servers",
        "spark.master",
        "pipelines.p.labels.strt",
        "pipelines.p.gap.after",
        "pipelines.p.buffer.full",
        "pipelines.p.inptu",
        "pipelines.q.discipline",
        "pipelines.r.groups.G0",
        'pipelines.r.groups."a,b"',
        "pipelines.r.groups.G2",
        "pipelines.r.groups.G3",
        "pipelines.p.output",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('inptu = "a"', "pipelines.p.inptu: unknown key; did you mean input?"),
        ('order = "clock"', "pipelines.p.order: unknown key; known ones: buffer, channel"),
        ('commands = "a b"', "pipelines.p.commands: 'a b' is no Kafka topic"),
        ("input = []", "pipelines.p.input: must not be empty; name one or more"),
        ('input = ["a", "a"]', "pipelines.p.input: names 'a' twice"),
        ("input = 3", 'pipelines.p.input: must be a list; write for instance ["a", "b"]'),
        ('input = ["a", 3]', "pipelines.p.input[1]: must be text in quotes"),
        ('input = "a b"', "pipelines.p.input[0]: 'a b' is no Kafka topic; use letters"),
        ('events = ".."', "pipelines.p.events: '..' is no Kafka topic; use another name"),
        ('events = ""', "pipelines.p.events: a topic's name has 1 to 249 characters"),
        (f'events = "{"x" * 250}"', "pipelines.p.events: a topic's name has 1 to 249"),
        ('output = "{subscriber}"', "pipelines.p.output: '{subscriber}' is no Kafka topic"),
        ('channel = " "', "pipelines.p.channel: must not be empty; leave it out"),
        ('label = ""', "pipelines.p.label: must not be empty"),
        ("label = 3", "pipelines.p.label: must be text in quotes"),
        ("label = 'header(\"n\")'", "write a header as header('name')"),
        ('label = "header(n)"', "write a header as header('name')"),
        ('label = "Header(\'n\')"', "write a header as header('name')"),
        ('label = "concat(key"', "brackets that do not match"),
        ('label = "concat)key("', "brackets that do not match"),
        ("label = \"'a\"", "a quote that does not end"),
        ('label = "key; value"', "more than one expression"),
        ('labels = "linear"', "pipelines.p.labels: must be a table; write { key = value }"),
        ("labels = {}", "pipelines.p.labels.kind: is missing; write one of linear, cyclic, custom"),
        ('labels = { kind = "x" }', 'pipelines.p.labels.kind: "x" is none; write one of linear'),
        ('labels = { kind = "linear", start = -1 }', "pipelines.p.labels.start: must be 0 or more"),
        ('labels = { kind = "linear", step = 0 }', "pipelines.p.labels.step: must be 1 or more"),
        ('labels = { kind = "linear", step = 1.0 }', "pipelines.p.labels.step: must be a whole"),
        ('labels = { kind = "linear", modulus = 9 }', "pipelines.p.labels.modulus: unknown key"),
        ('labels = { kind = "cyclic" }', "pipelines.p.labels.modulus: is missing"),
        ('labels = { kind = "cyclic", modulus = 3 }', "pipelines.p.labels.modulus: must be 4"),
        ('labels = { kind = "cyclic", modulus = 8, start = 8 }', "start is 8; it must lie in 0"),
        ('labels = { kind = "cyclic", modulus = 8, step = 4 }', "so only 2 labels exist"),
        ('labels = { kind = "custom", initial = "a" }', "pipelines.p.labels.next: is missing"),
        ('labels = { kind = "custom", initial = "", next = "a:b" }', "initial: must not be empty"),
        ('labels = { kind = "custom", initial = "a", next = "ab" }', '"package.module:function"'),
        ('labels = { kind = "custom", initial = "a", next = "a..b:c" }', "names no function"),
        ('gap = "wait"', "pipelines.p.gap: must be a table"),
        ('gap = { policy = "drop" }', 'gap.policy: must be "wait", "skip" or "fail"'),
        ('gap = { policy = "wait", after = "1 s" }', 'after: has no meaning with policy "wait"'),
        ('gap = { after = "1 s" }', "pipelines.p.gap.after: has no meaning"),
        ('gap = { policy = "skip" }', 'pipelines.p.gap.after: policy "skip" needs it; write'),
        ('gap = { policy = "fail" }', 'pipelines.p.gap.after: policy "fail" needs it; write'),
        ("buffer = { held = 0 }", "pipelines.p.buffer.held: must be 1 or more"),
        (f"buffer = {{ held = {HELD_MAX + 1} }}", f"buffer.held: must be {HELD_MAX} or less"),
        ("buffer = { held = true }", "pipelines.p.buffer.held: must be a whole number"),
        ("buffer = { window = 0 }", "pipelines.p.buffer.window: must be 1 or more"),
        (f"buffer = {{ window = {WINDOW_MAX + 1} }}", f"window: must be {WINDOW_MAX} or less"),
        ('buffer = { full = "drop" }', 'pipelines.p.buffer.full: must be "reject" or "skip"'),
        ('duplicates = "keep"', 'pipelines.p.duplicates: must be "reject" or "drop"'),
        ('retire_after = "0 s"', "pipelines.p.retire_after: must be longer than 0; write"),
        ('retire_after = "36501 days"', "pipelines.p.retire_after: is longer than a hundred years"),
    ],
)  # fmt: skip
def test_a_fault_of_a_channel_pipeline(text, told):
    (fault,) = faults_of(text)
    assert told in fault
    assert fault.startswith("pipelines.p.")


@pytest.mark.parametrize(
    ("discipline", "text", "told"),
    [
        ("group", "groups = { G = [] }", "pipelines.p.groups.G: must not be empty"),
        ("group", 'groups = { G = "A" }', "pipelines.p.groups.G: must be a list"),
        ("group", 'groups = { G = ["A", ""] }', "pipelines.p.groups.G[1]: '' cannot name"),
        ("group", 'groups = { G = ["A,B"] }', "pipelines.p.groups.G[0]: 'A,B' cannot name"),
        ("group", 'groups = { "" = ["A"] }', "pipelines.p.groups.\"\": '' cannot name"),
        ("group", 'groups = { G = ["A", "A"] }', "pipelines.p.groups.G: names 'A' twice"),
        ("group", 'groups = ["A"]', "pipelines.p.groups: must be a table"),
        ("group", 'groups = { custom = ["A", ","] }', "pipelines.p.groups.custom[1]: ',' cannot"),
        ("group", "nodes = 0", "pipelines.p.nodes: must be 1 or more"),
        ("group", 'sender_order = "all"', '"group" or "across-groups"'),
        ("group", 'sequencing = "nodes"', '"batch" or "network"'),
        ("group", "stamps = 1", "pipelines.p.stamps"),
        ("group", 'output = "p.{peer}"', "'p.{peer}' is no Kafka topic"),
        ("group", 'order = "clock"', "pipelines.p.order: unknown key"),
        (
            "group",
            'output = "p.{subscriber}"\ngroups = { G = ["A B"] }',
            "pipelines.p.groups.G: for 'A B', output p.{subscriber} gives 'p.A B' is no",
        ),
        ("multicast", 'order = "time"', 'pipelines.p.order: must be "batch", "clock" or "counter"'),
        ("multicast", "labels = {}", "pipelines.p.labels: unknown key"),
    ],
)
def test_a_fault_of_other_disciplines(discipline, text, told):
    (fault,) = faults_of(text, discipline)
    assert told in fault


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "pipelines: there is none; add a table [pipelines.NAME]"),
        ("pipelines = 3", "pipelines: there is none"),
        ("[pipelines]\np = 3", "pipelines.p: must be a table; write [pipelines.p]"),
        ("[pipelines.p]", "pipelines.p.discipline: is missing; write one of"),
        ('[pipelines.p]\ndiscipline = "x"', "pipelines.p.discipline: 'x' is none; write one of"),
        ('[pipelines.p]\ndiscipline = ["x"]', "pipelines.p.discipline: ['x'] is none"),
        ('[pipelines."a b"]\ndiscipline = "channel"', "pipelines.\"a b\": 'a b' cannot name"),
        ('[pipelines.".."]\ndiscipline = "channel"', "pipelines.\"..\": '..' cannot name"),
        (f'[pipelines.{"x" * 101}]\ndiscipline = "channel"', "at most 100 of them"),
    ],
)
def test_a_fault_of_the_pipelines_table(text, told):
    (fault,) = faults(text)
    assert told in fault


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("service = 3", "service: must be a table"),
        ('service = { name = "a/b" }', "service.name: 'a/b' cannot name topics, folders"),
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
            "service.metrics: '9404' is no address; write host:port",
        ),
        ('service = { metrics = "x:65536" }', "service.metrics: 'x:65536' is no address"),
        ('service = { trigger = "-1 s" }', "service.trigger: is no length of time"),
        ("kafka = 3", "kafka: must be a table"),
        ('kafka = { servers = "a:1" }', "kafka.servers: unknown key"),
        ('kafka = { bootstrap_servers = "a" }', "kafka.bootstrap_servers: 'a' is no address"),
        ('kafka = { bootstrap_servers = "a:0" }', "'a:0' has no port in 1 … 65535"),
        ('kafka = { bootstrap_servers = "a:1,b:x" }', "'b:x' has no port"),
        ('kafka = { bootstrap_servers = "a:1," }', "'' is no address"),
        ('kafka = { bootstrap_servers = "http://a:1" }', "'http://a:1' is no address"),
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
    with pytest.raises(ConfigError, match=r"a\.toml is no TOML: .*at end of document"):
        load_config(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigError, match=r"b\.toml is no TOML"):
        load_config(tmp_path / "b.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)


@pytest.mark.parametrize(
    "expression",
    [
        "key", "header('label')", "header( 'it\\'s' )", "split(header('a'), '[;(]')[0]",
        "concat(\"(\", `od(d`, r'\\', key)", "cast(conv(hex(substr(value, 1, 4)), 16, 10) as int)",
        "concat('it''s', \"header(\")",
    ],
)  # fmt: skip
def test_good_expressions_pass(expression):
    config = parse_config(
        {"pipelines": {"p": {"discipline": "channel", "label": expression}}}, {}, ""
    )
    assert config.pipelines["p"].label == expression


# Topics of several pipelines


def flow(**pipelines):
    """Faults of channel pipelines, or of others where they name their discipline."""
    tables = {name: {"discipline": "channel", **each} for name, each in pipelines.items()}
    try:
        parse_config({"pipelines": tables}, {}, "c.toml")
    except ConfigError as error:
        return list(error.faults)
    return []


def test_what_pipelines_may_share():
    assert flow(a={}, b={"input": "a.out"}, c={"input": ["a.out", "b.out"]}) == []
    assert flow(a={"input": "x"}, b={"input": "x"}) == []
    assert flow(a={}, again={"input": "a.rejects"}) == []
    assert flow(a={"output": "g.commands"}, g={"discipline": "group"}) == []
    assert flow(raw={"input": "g.commands"}, g={"discipline": "group"}) == []


@pytest.mark.parametrize("role", ["output", "rejects", "events"])
def test_nobody_writes_where_another_does(role):
    assert flow(a={}, b={role: "a.out"}) == [
        f"pipelines.b.{role}: a.out is pipelines.a.output already; use another topic"
    ]
    assert flow(a={role: "a.in"}) == [
        f"pipelines.a.{role}: a.in is pipelines.a.input already; use another topic"
    ]


def test_topics_of_one_pipeline_differ():
    assert flow(a={"rejects": "x", "events": "x"}) == [
        "pipelines.a.events: x is pipelines.a.rejects already; use another topic"
    ]
    group = {"discipline": "group", "sequencing": "network"}
    assert len(flow(a={**group, "transit": "a.in"})) == 1
    assert flow(a={**group, "transit": "a.in", "sequencing": "batch"}) == []
    assert len(flow(a={**group, "commands": "a.in"})) == 1
    assert len(flow(a={**group, "commands": "a.out"})) == 1


def test_transit_and_commands_belong_to_one_pipeline():
    group = {"discipline": "group", "sequencing": "network"}
    assert flow(a={"discipline": "group"}, b={"input": "a.transit"}) == []
    assert len(flow(a=group, b={"input": "a.transit"})) == 1
    assert len(flow(a=group, b={**group, "commands": "a.commands"})) == 1
    assert len(flow(a=group, b={"discipline": "multicast", "transit": "a.transit"})) == 1


def test_a_subscriber_s_topic_clashes_too():
    group = {"discipline": "group", "output": "a.{subscriber}"}
    assert flow(a={**group, "groups": {"G": ["x", "y"]}}) == []
    assert flow(a={**group, "groups": {"G": ["x", "events"]}}) == [
        "pipelines.a.events: a.events is pipelines.a.output already; use another topic"
    ]
    (fault,) = flow(a={**group, "groups": {"G": ["x"]}}, b={"input": "a.x", "output": "a.in"})
    assert fault.startswith(
        "pipelines.b.input: the pipelines a → b → a feed each other in a circle"
    )


def test_kafka_takes_dot_and_underscore_for_one():
    (fault,) = flow(a={"output": "x.y", "events": "x_y"})
    assert "pipelines.a.events: Kafka does not take x_y beside x.y (pipelines.a.output)" in fault


def test_circles_are_refused_each_once():
    assert len(flow(a={"input": "b.out"}, b={"input": "a.out"})) == 1
    assert len(flow(a={"input": "b.rejects"}, b={"input": "a.out"})) == 1
    two = flow(
        a={"input": "b.out"}, b={"input": "a.out"}, c={"input": "d.out"}, d={"input": "c.out"}
    )
    assert len(two) == 2
    long = {f"p{n}": {"input": f"p{(n + 1) % 9}.out"} for n in range(9)}
    (fault,) = flow(**long)
    assert all(f"p{n}" in fault for n in range(9))
    assert flow(c={"input": "g.out", "output": "g.commands"}, g={"discipline": "group"})


def test_many_pipelines_that_all_feed_each_other_are_judged_at_once():
    names = [f"p{n}" for n in range(14)]
    inputs = {name: [f"{each}.out" for each in names if each != name] for name in names}
    told = flow(**{name: {"input": each} for name, each in inputs.items()})
    assert len(told) <= 14 * 13
    assert all("circle" in each for each in told)


# Windows and custom labels


@pytest.mark.parametrize(
    ("modulus", "step", "window"),
    [(4, 1, 1), (65_536, 1, 32_767), (100, 25, 1), (2**40, 1, 1_000_000), (1_000_003, 7, 500_001)],
)
def test_the_default_window_of_a_cycle_is_below_its_half(modulus, step, window):
    labels = f'labels = {{ kind = "cyclic", modulus = {modulus}, step = {step} }}\n'
    assert rules_of(channel(labels)).window == window
    cycle = rules_of(channel(labels)).labels.cycle
    widest = (cycle - 1) // 2
    if widest < WINDOW_MAX:
        assert rules_of(channel(f"{labels}buffer = {{ window = {widest} }}")).window == widest
        (fault,) = faults_of(f"{labels}buffer = {{ window = {widest + 1} }}")
        assert fault.startswith(f"pipelines.p.buffer.window: {widest + 1} is too wide")
        assert f"write {widest} or less" in fault


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """Gives a function that writes a module of the user's; the name of one in it."""

    def write(code, name="its_labels"):
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    return write


def custom(module, function="after", extra=""):
    return channel(
        f'labels = {{ kind = "custom", initial = "a", next = "{module}:{function}" }}\n{extra}'
    )


def test_custom_labels_are_imported_only_when_asked_for(user_module):
    module = user_module("def after(label):\n    return label[:-1] + chr(ord(label[-1]) + 1)\n")
    config = custom(module)
    assert module not in sys.modules
    rules = rules_of(config, "p")
    assert [rules.labels.at(n) for n in range(3)] == ["a", "b", "c"]
    assert rules.window == CUSTOM_WINDOW_DEFAULT


def test_custom_labels_that_come_back_are_a_cycle(user_module):
    module = user_module("def after(label):\n    return chr((ord(label) - 97 + 1) % 10 + 97)\n")
    rules = rules_of(custom(module))
    assert (rules.labels.cycle, rules.window) == (10, 4)
    with pytest.raises(
        ConfigError, match=r"pipelines\.p\.buffer\.window: 5 is too wide.*4 or less"
    ):
        rules_of(custom(module, extra="buffer = { window = 5 }"))


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("", "cannot be imported .*has no attribute 'after'"),
        ("import not_there_at_all", "cannot be imported .*not_there_at_all"),
        ("1 / 0", "cannot be imported .ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "cannot be imported .SystemExit: 3"),
        ("after = 3", "is int, no function"),
        ("def after(label):\n    return 3", "labels must be text"),
        ("def after(label):\n    return label", "repeats|cycle of 1"),
        ("def after(label):\n    return 'b'", "repeats 'b'"),
        ("def after():\n    return 'b'", "TypeError: .*positional argument"),
        ("def after(label):\n    raise KeyError('x')", "KeyError: 'x'"),
        ("def after(label):\n    return label + 'a'", "1001 characters"),
    ],
)
def test_custom_labels_that_do_not_work(user_module, code, told):
    with pytest.raises(ConfigError, match=rf"pipelines\.p\.labels: its_labels:after .*({told})"):
        rules_of(custom(user_module(code)))


def test_a_custom_window_is_one_that_can_be_searched():
    labels = 'labels = { kind = "custom", initial = "a", next = "m:f" }\n'
    (fault,) = faults_of(f"{labels}buffer = {{ window = 5_000_000 }}")
    assert "pipelines.p.buffer.window: 5000000 is too wide" in fault


# Secrets and properties


def with_properties(properties, environ=None):
    tables = {
        "kafka": {"properties": properties},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    return parse_config(tables, environ or {}, "c.toml")


def test_variables_are_filled_in():
    config = with_properties(
        {
            "sasl.username": "${USER}",
            "sasl.password": "x${PASS}y${USER}$${EMPTY}",
            "client.id": "plain $HOME",
        },
        {"USER": "alice", "PASS": "geheim", "EMPTY": ""},
    )
    assert config.kafka.properties == {
        "sasl.username": "alice",
        "sasl.password": "xgeheimyalice$",
        "client.id": "plain $HOME",
    }


def test_a_missing_variable_is_named():
    with pytest.raises(ConfigError) as refused:
        with_properties({"sasl.password": "${PASS}", "sasl.username": "${A}${B-C}"})
    assert refused.value.faults == (
        'kafka.properties."sasl.password": the environment has no PASS; set it before the start',
        'kafka.properties."sasl.username": the environment has no A; set it before the start',
        'kafka.properties."sasl.username": ${B-C} names no variable; write ${NAME}',
    )


def test_secrets_are_never_shown():
    config = with_properties(
        {
            "sasl.password": "geheim1",
            "sasl.jaas.config": 'X required username="u" password="geheim2";',
            "ssl.key.pem": "geheim3",
            "client.id": "${CLIENT}",
            "security.protocol": "SSL",
        },
        {"CLIENT": "name-from-outside"},
    )
    shown = repr(config) + str(config) + repr(config.kafka) + str(config.kafka)
    for secret in ("geheim1", "geheim2", "geheim3", "name-from-outside"):
        assert secret not in shown
        assert config.hide(f"It said {secret}, SSL.") == "It said ***, SSL."


def test_a_secret_is_not_in_an_error_either():
    tables = {
        "kafka": {
            "bootstrap_servers": "geheim",
            "properties": {"sasl.password": "geheim", "nonsense": {"a": "geheim"}, "x": ["geheim"]},
        },
        "pipelines": {"p": {"discipline": "channel", "labels": 3}},
    }
    with pytest.raises(ConfigError) as refused:
        parse_config(tables, {}, "c.toml")
    assert len(refused.value.faults) == 4
    assert "geheim" not in str(refused.value)
    assert "geheim" not in repr(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("bootstrap.servers", "a:1", "write the address as kafka.bootstrap_servers"),
        ("group.id", "g", "the guarantees need the service's own setting"),
        ("transactional.id", "g", "the guarantees need"),
        ("enable.idempotence", False, "the guarantees need"),
        ("isolation.level", "read_uncommitted", "the guarantees need"),
        ("acks", 1, "the guarantees need"),
        ("securty.protocol", "SSL", "no client knows it; did you mean security.protocol?"),
        ("ssl.ca.locaton", "x", "did you mean ssl.ca.location?"),
    ],
)
def test_properties_that_cannot_be_given(name, value, told):
    with pytest.raises(ConfigError) as refused:
        with_properties({name: value})
    (fault,) = refused.value.faults
    assert fault.startswith(f'kafka.properties."{name}": ' if "." in name else "kafka.properties.")
    assert told in fault


def test_properties_that_say_what_the_service_does_anyway():
    same = {"enable.idempotence": True, "acks": "all", "isolation.level": "read_committed"}
    config = with_properties({**same, "my.plug.in.key": "x"})
    assert config.kafka.properties == {
        "enable.idempotence": "true",
        "acks": "all",
        "isolation.level": "read_committed",
        "my.plug.in.key": "x",
    }

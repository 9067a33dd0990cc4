"""Every fault of pipelines is named with its key and what to write instead."""

from __future__ import annotations

import json

import pytest

from sequencer.channels.rules import HELD_MAX, WINDOW_MAX
from streaming.config import parse_config
from streaming.disciplines.groups.commands import read_command
from streaming.errors import ConfigError
from tests.streaming.config.configs import faults, faults_of
from tests.streaming.disciplines.groups.networks import plan_for

SETS = 'policy = "skip", after = { least = "1 s", most = "9 s"'


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
        groups = { G0 = [], "" = ["x"], G2 = "A", G3 = ["A", "A"] }
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
        'pipelines.r.groups.""',
        "pipelines.r.groups.G2",
        "pipelines.r.groups.G3",
        "pipelines.p.output",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('inptu = "a"', "pipelines.p.inptu: unknown key; did you mean input?"),
        ('order = "clock"', "pipelines.p.order: unknown key; known ones: buffer, channel"),
        (
            'labels = { kind = "linear", modulus = 9 }',
            "pipelines.p.labels.modulus: unknown key; known ones: kind, settle, start, step",
        ),
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
        ('label = "concat(key, uuid())"', "uuid gives something else when a batch is repeated"),
        ('channel = "CAST(rand (3) AS string)"', "rand gives something else"),
        (
            'label = "foo"',
            "pipelines.p.label: 'foo' is no column of a record; write header('foo') for that "
            'header, { json = "$.foo" } for a field of the value, or a SQL expression over key, '
            "value, topic, partition, offset, timestamp, timestampType, headers",
        ),
        ('channel = "k"', "pipelines.p.channel: 'k' is no column of a record; write header('k')"),
        ('label = "(foo)"', "pipelines.p.label: 'foo' is no column"),
        ('label = "`foo`"', "pipelines.p.label: 'foo' is no column"),
        ('label = "order.seq"', "pipelines.p.label: 'order' is no column"),
        ('label = "_timestamp"', "pipelines.p.label: '_timestamp' is no column"),
        ('labels = "linear"', "pipelines.p.labels: must be a table; write { key = value }"),
        (
            "labels = { modulus = 9 }",
            "pipelines.p.labels.kind: is missing; write one of linear, cyclic, custom",
        ),
        ('labels = { kind = "x" }', 'pipelines.p.labels.kind: "x" is unknown; write one of linear'),
        ('labels = { kind = "linear", start = -1 }', "pipelines.p.labels.start: must be 0 or more"),
        (
            'labels = { kind = "linear", start = "now" }',
            'pipelines.p.labels.start: must be a whole number, without quotes, or "first-seen"',
        ),
        (
            'labels = { kind = "linear", settle = "2 s" }',
            'pipelines.p.labels.settle: has no meaning without start = "first-seen"',
        ),
        (
            'labels = { kind = "cyclic", modulus = 9, start = "first-seen" }',
            "pipelines.p.labels.start: no label of a cycle is the lowest; write the one",
        ),
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
        ('gap = { ask_after = "0 s" }', "pipelines.p.gap.ask_after: must be"),
        ('gap = { policy = "skip", after = "1 s", ask_after = "1 s" }', "ask_after: nobody would be"),
        (
            'gap = { policy = "skip", ask_after = "9 s", after = '
            '{ quantile = 0.9, least = "1 s", most = "9 s" } }',
            "given up after 9 s",
        ),
        (f"gap = {{ {SETS} }} }}", "gap.after.quantile: is missing"),
        ('gap = { policy = "skip", after = { quantile = 0.9, least = "1 s" } }', "after.most: is mi"),
        ('gap = { policy = "skip", after = "soon" }', "pipelines.p.gap.after: is not a length of time"),
        (f"gap = {{ {SETS}, quantile = 1 }} }}", "gap.after.quantile: must be 0.9999 or less"),
        (f"gap = {{ {SETS}, quantile = 0.4 }} }}", "gap.after.quantile: must be 0.5 or more"),
        (f"gap = {{ {SETS}, quantile = 0.9, max = 1 }} }}", "gap.after.max: unknown key; "),
        (
            'gap = { policy = "skip", after = { quantile = 0.9, least = "2 s", most = "1 s" } }',
            "pipelines.p.gap.after.least: is longer than most, 1 s",
        ),
        ("buffer = { held = 0 }", "pipelines.p.buffer.held: must be 1 or more"),
        (f"buffer = {{ held = {HELD_MAX + 1} }}", f"buffer.held: must be {HELD_MAX} or less"),
        ("buffer = { held = true }", "pipelines.p.buffer.held: must be a whole number"),
        ("buffer = { window = 0 }", "pipelines.p.buffer.window: must be 1 or more"),
        (f"buffer = {{ window = {WINDOW_MAX + 1} }}", f"window: must be {WINDOW_MAX} or less"),
        ('buffer = { full = "drop" }', 'pipelines.p.buffer.full: must be "reject" or "skip"'),
        ('rules = "x"', "pipelines.p.rules: must be a list"),
        ("rules = [{}]", "pipelines.p.rules[0].channel: is missing"),
        ('rules = [{ channel = "[z-a]" }]', "pipelines.p.rules[0].channel: '[z-a]' is no pattern"),
        ('rules = [{ channel = "a", held = 1 }]', "p.rules[0].held: unknown key; known ones: buff"),
        ('rules = [{ channel = "a" }, { channel = "a" }]', "p.rules[1].channel: 'a' stands in rule"),
        ('rules = [{ channel = "a", gap = { policy = "skip" } }]', "p.rules[0].gap.after: policy"),
        (
            'labels = { kind = "cyclic", modulus = 100 }\n'
            'rules = [{ channel = "a", buffer = { window = 50 } }]',
            "pipelines.p.rules[0].buffer.window: 50 is too wide",
        ),
        ("rules = [" + ",".join(['{ channel = "a" }'] * 101) + "]", "has 101; write at most 100"),
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
        ("group", f'groups = {{ G = ["{"ä" * 125}"] }}', "names have 1 to 249 bytes"),
        ("group", 'groups = { "" = ["A"] }', "pipelines.p.groups.\"\": '' cannot name"),
        ("group", 'groups = { G = ["A", "A"] }', "pipelines.p.groups.G: names 'A' twice"),
        ("group", 'groups = ["A"]', "pipelines.p.groups: must be a table"),
        ("group", 'groups = { custom = ["A", ""] }', "pipelines.p.groups.custom[1]: '' cannot"),
        ("group", 'output = "p.{subscriber}"\ngroups = { G = [["A"]] }', "G[0]: must be text"),
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
        (
            "multicast",
            'order = "clock"\ninput_commands = ["join"]',
            'pipelines.p.input_commands[0]: must be "create-node", "destroy-node" or "release"',
        ),
        ("multicast", "labels = {}", "pipelines.p.labels: unknown key"),
    ],
)
def test_a_fault_of_other_disciplines(discipline, text, told):
    (fault,) = faults_of(text, discipline)
    assert told in fault


@pytest.mark.parametrize(
    "name", ["", " ", " a ", "a,b", ",", "@a", ".", "..", "a\n", "\x00", "é" * 124, "é" * 125, "x" * 250]
)  # fmt: skip
def test_groups_and_members_have_the_same_names_in_the_file_and_in_commands(name):
    table = {"discipline": "group", "groups": {name: ["A"], "G": [name]}}
    try:
        parse_config({"pipelines": {"p": table}}, {}, "c.toml")
    except ConfigError as refused:
        wrong = len(refused.faults)
    else:
        wrong = 0
    plan = plan_for({})
    commands = [
        {"op": "add", "group": name, "members": ["A"]},
        {"op": "join", "group": "G", "member": name},
    ]
    refused = [read_command(json.dumps(each).encode(), plan).reason for each in commands]
    assert refused == (["bad-group", "bad-member"] if wrong else ["", ""])
    assert wrong in {0, 2}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "pipelines: there is none; add a table [pipelines.NAME]"),
        ("pipelines = 3", "pipelines: must be a table; add"),
        ("[[pipelines]]", "pipelines: must be a table; add"),
        ("[pipelines]\np = 3", "pipelines.p: must be a table; write [pipelines.p]"),
        ("[pipelines.p]", "pipelines.p.discipline: is missing; write one of"),
        ('[pipelines.p]\ndiscipline = "x"', "pipelines.p.discipline: 'x' is unknown; write one of"),
        ('[pipelines.p]\ndiscipline = ["x"]', "pipelines.p.discipline: ['x'] is unknown"),
        ('[pipelines."a b"]\ndiscipline = "channel"', "pipelines.\"a b\": 'a b' cannot name"),
        ('[pipelines.".."]\ndiscipline = "channel"', "pipelines.\"..\": '..' cannot name"),
        (f'[pipelines.{"x" * 101}]\ndiscipline = "channel"', "at most 100 of them"),
    ],
)
def test_a_fault_of_the_pipelines_table(text, told):
    (fault,) = faults(text)
    assert told in fault


@pytest.mark.parametrize(
    "expression",
    [
        "key", "header('label')", "header( 'it\\'s' )", "split(header('a'), '[;(]')[0]",
        "concat(\"(\", `od(d`, r'\\', key)", "cast(conv(hex(substr(value, 1, 4)), 16, 10) as int)",
        "concat('it''s', \"header(\")", "Offset", "(topic)", "`key`", "headers.key", "current_date",
    ],
)  # fmt: skip
def test_good_expressions_pass(expression):
    config = parse_config(
        {"pipelines": {"p": {"discipline": "channel", "label": expression}}}, {}, ""
    )
    assert config.pipelines["p"].label == expression

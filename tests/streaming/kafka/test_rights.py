"""Least privileges: with exactly these it works, with one less the error names it.

The table of docs/operations.md is what is granted here.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streaming.config import parse_config
from streaming.errors import KafkaRefused, KafkaUnavailable
from streaming.kafka import rights
from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.lag import Lag, LagReader
from streaming.kafka.topics import delete_before, existing
from streaming.replay.recorded import Recorded
from tests.kafka_helpers import Record, create_topics, produce, read_all, until
from tests.service_helpers import called, toml
from tests.warm import python_path

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 60
REASON = "unknown-group"

SERVICE = [
    ("Read", "Topic", "in"),
    ("Read", "Topic", "commands"),
    ("Write", "Topic", "out"),
    ("Write", "Topic", "rejects"),
    ("Write", "Topic", "events"),
    ("Read", "Topic", "events"),
    ("Write", "Topic", "transit"),
    ("Read", "Topic", "transit"),
    ("Delete", "Topic", "transit"),
    ("Read", "Group", "service.market.*"),
    ("Write", "TransactionalId", "service.market.*"),
]
OPERATOR = [("Write", "Topic", "commands"), ("Read", "Topic", "events")]
RESENDING = [
    ("Read", "Topic", "rejects"),
    ("Write", "Topic", "in"),
    ("Read", "Topic", "rejects.resent"),
    ("Write", "Topic", "rejects.resent"),
    ("Create", "Topic", "rejects.resent"),
    ("Write", "TransactionalId", "rejects.resent"),
]
TOPICS = ("in", "commands", "out", "rejects", "events", "transit")


class User:
    """A user with some rights, under a test's prefix; and a configuration that is his."""

    def __init__(self, secure_broker, prefix, granted):
        self.broker, self.prefix = secure_broker, prefix
        self.name = f"{prefix}user"
        self.grant(granted)
        pipeline = {"input" if name == "in" else name: prefix + name for name in TOPICS}
        pipeline["output"] = pipeline.pop("out")
        self.tables = {
            "service": {"name": f"{prefix}service"},
            "kafka": {
                "bootstrap_servers": secure_broker.oauth,
                "properties": secure_broker.properties("oauth", user=self.name),
            },
            "pipelines": {"market": {"discipline": "group", "sequencing": "network", **pipeline}},
        }

    def grant(self, granted):
        self.broker.grant(self.name, [(op, kind, self.prefix + name) for op, kind, name in granted])

    def missing(self):
        config = parse_config(self.tables, {}, "test")
        return {(r.operation, r.resource, r.name) for r in rights.missing(config, ["market"])}

    def comes_to_miss(self, expected):
        """Grants reach the broker a moment after they are made."""
        expected = {(op, kind, self.prefix + name) for op, kind, name in expected}
        deadline = time.monotonic() + SECONDS_MAX
        while (found := self.missing()) != expected:
            assert time.monotonic() < deadline, (found, expected)
            time.sleep(0.2)

    def file(self, folder):
        path = folder / "service.toml"
        tables = {**self.tables, 'pipelines."market"': self.tables["pipelines"]["market"]}
        del tables["pipelines"]
        lines = []
        for name, table in tables.items():
            lines += [f"[{name}]", *(f"{key} = {toml(value)}" for key, value in table.items())]
        path.write_text("\n".join(lines))
        return path


@pytest.fixture
def topics(secure_broker, topic_prefix):
    create_topics(secure_broker.bootstrap, {topic_prefix + name: 1 for name in TOPICS})
    return topic_prefix


@pytest.mark.parametrize("left_out", SERVICE, ids=" ".join)
def test_one_right_less_is_named(secure_broker, topics, left_out):
    others = [right for right in SERVICE if right != left_out]
    User(secure_broker, topics, others).comes_to_miss([left_out])


def test_with_exactly_these_rights_nothing_is_missed(secure_broker, topics, tmp_path):
    user = User(secure_broker, topics, SERVICE)
    user.comes_to_miss([])
    code, _, err = called("check", user.file(tmp_path), "--rights")
    assert code == 0, err


def test_who_may_not_delete_what_was_in_transit_is_refused(secure_broker, topics):
    lacks = ("Delete", "Topic", "transit")
    user = User(secure_broker, topics, [right for right in SERVICE if right != lacks])
    user.comes_to_miss([lacks])
    with pytest.raises(KafkaRefused, match="Give this user the right"):
        delete_before(parse_config(user.tables, {}, "test"), topics + "transit", {0: 0})


def test_who_may_repeat_needs_no_progress(secure_broker, topics):
    kept = [
        right for right in SERVICE if right[1] == "Topic" and right != ("Read", "Topic", "events")
    ]
    user = User(secure_broker, topics, kept)
    user.tables["service"]["delivery"] = "at-least-once"
    user.comes_to_miss([])


def test_who_may_repeat_on_an_object_store_commits_all_the_same(secure_broker, topics):
    """There is no lock: of two drivers the one that commits last goes on."""
    lacks = ("Read", "Topic", "events")
    user = User(secure_broker, topics, [right for right in SERVICE if right != lacks])
    user.tables["service"] |= {"delivery": "at-least-once", "checkpoint": "s3a://bucket/c"}
    user.comes_to_miss([lacks])


def test_check_and_run_name_what_is_missing_before_anything_starts(secure_broker, topics, tmp_path):
    lacks = ("Write", "Topic", "rejects")
    user = User(secure_broker, topics, [right for right in SERVICE if right != lacks])
    user.comes_to_miss([lacks])
    code, _, err = called("check", user.file(tmp_path), "--rights")
    assert code == 1
    assert f"lacks rights in Kafka: Write on Topic {topics}rejects." in err
    with pytest.raises(KafkaUnavailable, match=re.escape(f"Write on Topic {topics}rejects")):
        rights.require(parse_config(user.tables, {}, "test"), ["market"])


@pytest.mark.parametrize("left_out", [*OPERATOR, None])
def test_who_may_not_write_commands_commands_nothing(secure_broker, topics, tmp_path, left_out):
    user = User(secure_broker, topics, [right for right in OPERATOR if right != left_out])
    path = user.file(tmp_path)
    words = ("group", "remove", path, "G1", "--limit", "0.5")
    expected = {
        None: "The command stands in",  # no service runs, so nobody answers
        ("Write", "Topic", "commands"): "Topics are missing in Kafka: {}commands",
        ("Read", "Topic", "events"): "Topics are missing in Kafka: {}events",
    }[left_out].format(topics)
    deadline = time.monotonic() + SECONDS_MAX
    while expected not in (err := called(*words)[2]):
        assert time.monotonic() < deadline, err
    sent = read_all(secure_broker.bootstrap, f"{topics}commands")
    assert bool(sent) is (left_out is None)


@pytest.mark.parametrize("left_out", [*RESENDING, None])
def test_resend_takes_these_rights(secure_broker, topics, tmp_path, left_out):
    added = ("reason", REASON), ("topic", f"{topics}in"), ("partition", "0"), ("offset", "0")
    reject = Record(b"k", b"v", [(f"reject-{name}", text.encode()) for name, text in added])
    produce(secure_broker.bootstrap, f"{topics}rejects", [reject])
    user = User(secure_broker, topics, [right for right in RESENDING if right != left_out])
    path = user.file(tmp_path)
    if left_out is not None:
        operation, kind, name = left_out
        told = "ransactional" if kind == "TransactionalId" else topics + name
        poll(path, lambda code, err: code in {1, 2} and told in err)
        assert read_all(secure_broker.bootstrap, f"{topics}in") == [], operation
        user.grant([left_out])
    poll(path, lambda code, _: code == 0)
    (sent,) = read_all(secure_broker.bootstrap, f"{topics}in")
    assert sent.value == b"v"


def test_to_see_the_lag_and_to_replay_takes_no_group(secure_broker, topics, monkeypatch):
    monkeypatch.setattr("streaming.kafka.lag.FIRST_SECONDS_MAX", SECONDS_MAX)
    topic = f"{topics}in"
    times = (1_000_000, 1_001_000, 1_004_000)
    produce(secure_broker.bootstrap, topic, [Record(b"k", b"v", timestamp=each) for each in times])
    user = User(secure_broker, topics, [("Read", "Topic", "in")])
    config = parse_config(user.tables, {}, "test")
    until(lambda: topic in existing(config))
    reader = LagReader(config, (topic,))
    try:
        assert reader({topic: {"0": 1}}) == Lag(2, 3.0)
    finally:
        reader.close()
    assert [clock for clock, _ in Recorded(config, (topic,))] == list(times)


def poll(path, good):
    deadline = time.monotonic() + SECONDS_MAX
    while not good(*(done := called("resend", path, "--reason", REASON))[::2]):
        assert time.monotonic() < deadline, done


def test_the_page_lists_what_is_tested_here():
    page = (ROOT / "docs/operations.md").read_text()
    section = page[page.index("## Rights") :]
    section = section[: section.index("\n## ", 1)]
    for role in ("input", "output", "rejects", "events", "commands", "transit"):
        for operation in rights.BY_ROLE[role]:
            row = next(line for line in section.splitlines() if line.startswith(f"| {role} "))
            assert operation in row


ASKED_AT_ONCE = """
import sys
from streaming.config import parse_config
from streaming.kafka import rights
pipelines = {name: {"discipline": "channel", "input": "in"} for name in ("a", "b", "c")}
kafka = {"bootstrap_servers": sys.argv[1]}
tables = {"service": {"name": "s"}, "kafka": kafka, "pipelines": pipelines}
print(rights.missing(parse_config(tables, {}, "test"), pipelines))
"""


def test_a_cluster_whose_coordinators_are_just_beginning():
    """To ask librdkafka's admin client for a group's offsets there ended the process (SIGSEGV)."""
    with EmbeddedBroker() as new:
        words = [sys.executable, "-c", ASKED_AT_ONCE, new.bootstrap]
        ended = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": python_path()},
        )
    assert (ended.returncode, ended.stdout.strip()) == (0, "[]"), ended.stderr

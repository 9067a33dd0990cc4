"""Verbs that send a command: what they put into the topic, and what they say where nobody answers."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all, wait_for_records
from tests.service_helpers import toml

ROLES = ("in", "out", "rejects", "events", "commands")


@pytest.fixture
def call(main, monkeypatch):
    monkeypatch.setenv("USER", "me")
    return main


@pytest.fixture
def config(broker, topic_prefix, tmp_path):
    """A file with a pipeline of each discipline; nobody runs it."""
    create_topics(broker.bootstrap, {f"{topic_prefix}{d}.{r}": 1 for d in "cgm" for r in ROLES})
    text = f"[kafka]\nbootstrap_servers = {toml(broker.bootstrap)}\n"
    for name, discipline in (("c", "channel"), ("g", "group"), ("m", "multicast")):
        text += f'[pipelines."{topic_prefix}{name}"]\ndiscipline = "{discipline}"\n'
    path = tmp_path / "c.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("words", "pipeline", "said"),
    [
        (
            ["skip", "--channel", "K", "--to", "7", "--why", "lost"],
            "c",
            {"op": "skip", "channel": "K", "to": 7, "by": "me", "why": "lost"},
        ),
        (
            ["skip", "--blocked", "30s", "--dry-run", "--by", "you"],
            "c",
            {"op": "skip", "blocked": "30s", "by": "you", "dry_run": True},
        ),
        (
            ["seed", "--channel-base64", "/w==", "--label", "100"],
            "c",
            {"op": "seed", "channel": {"base64": "/w=="}, "label": 100, "by": "me"},
        ),
        (["reset", "--channel", ""], "c", {"op": "reset", "channel": "", "by": "me"}),
        (
            ["reset", "--channel", r"a\\b\x1b\xff"],
            "c",
            {"op": "reset", "channel": {"base64": "YVxiG/8="}, "by": "me"},
        ),
        (
            ["group", "add", "G", "A", "B"],
            "g",
            {"op": "add", "group": "G", "members": ["A", "B"], "by": "me"},
        ),
        (
            ["group", "add", "G", "A,B", "C"],
            "g",
            {"op": "add", "group": "G", "members": ["A", "B", "C"], "by": "me"},
        ),
        (
            ["group", "set", "G", "A", "--if-version", "0", "--by", "you", "--why", "moved"],
            "g",
            {
                "op": "set",
                "group": "G",
                "members": ["A"],
                "if_version": 0,
                "by": "you",
                "why": "moved",
            },
        ),
        (
            ["group", "join", "G", "A,B"],
            "g",
            {"op": "join", "group": "G", "member": "A,B", "by": "me"},
        ),
        (
            ["group", "leave", "G", "A", "--if-version", "3"],
            "g",
            {"op": "leave", "group": "G", "member": "A", "if_version": 3, "by": "me"},
        ),
        (["group", "remove", "G"], "g", {"op": "remove", "group": "G", "by": "me"}),
        (
            ["node", "create", "n", "p", "--why", "new"],
            "m",
            {"op": "create-node", "node": "n", "owner": "p", "by": "me", "why": "new"},
        ),
        (["node", "destroy", "n"], "m", {"op": "destroy-node", "node": "n", "by": "me"}),
        (
            ["node", "release", "n", "p"],
            "m",
            {"op": "release", "node": "n", "peer": "p", "by": "me"},
        ),
    ],
)
def test_a_command_stays_in_its_topic_where_nobody_answers(
    call, config, broker, topic_prefix, words, pipeline, said
):
    verbs = 2 if words[0] in ("group", "node") else 1
    status, out, err = call(*words[:verbs], config, *words[verbs:], "--limit", "0.5")
    assert (status, out) == (1, "")
    topic = f"{topic_prefix}{pipeline}.commands"
    assert "No answer within 0.5 s." in err
    assert f"stands in {topic} (partition 0, offset 0) and takes effect, once" in err
    assert "No answer yet" not in err
    (record,) = read_all(broker.bootstrap, topic)
    found = json.loads(record.value)
    assert found.pop("id")
    assert found == said


def test_who_waits_long_reads_meanwhile_where_the_command_stands(call, config, monkeypatch):
    monkeypatch.setattr("streaming.kafka.asking.SILENT_SECONDS_MAX", 0.1)
    status, out, err = call("skip", config, "--channel", "K", "--timeout", "0.5")
    assert (status, out) == (1, "")
    meanwhile, _, end = err.partition("No answer within 0.5 s.")
    assert "No answer yet. The command stands in" in meanwhile
    assert "Waiting up to 0.5 s." in meanwhile
    assert "Does the service run" in end


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["skip"], "It is not clear which channels are meant."),
        (["skip", "--channel", "K", "--blocked", "1 s"], "It is not clear which channels"),
        (["skip", "--blocked", "soon"], "blocked"),
        (["skip", "--blocked", ""], "blocked"),
        (["skip", "--channel", r"a\b"], r"--channel a\b has a backslash that begins no"),
        (["seed", "--channel-base64", "?", "--label", "1"], "--channel-base64 ? is not base64"),
        (["group", "add", "G\udcff", "A"], "A name in the command is not UTF-8."),
        (["node", "create", "n", "\udcff"], "A name in the command is not UTF-8."),
        (["reset", "--channel", "K", "--pipeline", "nobody"], "There is no pipeline 'nobody'."),
        (
            ["reset", "--channel", "K", "--pipeline", "PREFIXg"],
            "has the discipline 'group'; this verb is for 'channel'",
        ),
    ],
)
def test_what_cannot_work_is_not_sent(call, config, broker, topic_prefix, words, told):
    words = [each.replace("PREFIX", topic_prefix) for each in words]
    verbs = 2 if words[0] in ("group", "node") else 1
    status, out, err = call(*words[:verbs], config, *words[verbs:])
    assert (status, out) == (2, "")
    assert told in err
    assert "Traceback" not in err
    for each in "cgm":
        assert read_all(broker.bootstrap, f"{topic_prefix}{each}.commands") == []


def test_a_command_that_kafka_does_not_take_is_no_fault_of_the_program(call, config):
    members = [f"{number}{'x' * 1_000}" for number in range(1_500)]
    status, out, err = call("group", "add", config, "G", *members)
    assert (status, out) == (1, "")
    assert "Kafka did not take the command: Broker: Message size too large." in err
    assert "Nothing was changed." in err


def test_a_number_longer_than_any_label_is_the_services_to_refuse(
    call, config, broker, topic_prefix
):
    number = "1" * 5_000
    status, _, err = call("skip", config, "--channel", "K", "--to", number, "--timeout", "0.5")
    assert (status, "Traceback" in err) == (1, False)
    (record,) = read_all(broker.bootstrap, f"{topic_prefix}c.commands")
    assert json.loads(record.value)["to"] == number


def test_an_answer_is_found_among_records_of_others(call, config, broker, topic_prefix):
    topic = f"{topic_prefix}c.commands"
    answer = {"event": "command-done", "topic": topic, "partition": 0, "channels": 1, "given_up": 2}

    def answering():
        wait_for_records(broker.bootstrap, topic, 1)
        others = [b"none", b"[1]", b"[" * 100_000, b"\xff", None, b'{"event": ["command-done"]}']
        values = [
            *others,
            b'{"event": "command-done"}',
            json.dumps({**answer, "offset": 0}).encode(),
        ]
        records = [Record(b"k", value) for value in values]
        produce(broker.bootstrap, f"{topic_prefix}c.events", records)

    with ThreadPoolExecutor(1) as others:
        done = others.submit(answering)
        status, out, err = call("skip", config, "--channel", "K", "--timeout", "60")
        done.result()
    assert (status, out) == (0, "done: 1 channel, 2 labels given up\n"), err


def events(broker, topic, *happened):
    values = [json.dumps({"at": f"t{n}", **each}).encode() for n, each in enumerate(happened)]
    produce(broker.bootstrap, topic, [Record(b"k", value) for value in values])


def test_groups_are_listed_as_events_left_them(call, config, broker, topic_prefix):
    name = f"{topic_prefix}g"
    config.write_text(config.read_text().replace(
        'discipline = "group"', 'discipline = "group"\ngroups = { G0 = ["B", "A"], G1 = ["C"] }'
    ))  # fmt: skip
    events(
        broker,
        f"{name}.events",
        {"event": "group-changed", "group": "G0", "version": 1, "joined": "D", "count": 3},
        {"event": "group-changed", "group": "G0", "version": 2, "left": "B", "count": 2},
        {"event": "group-removed", "group": "G1"},
        {"event": "group-added", "group": "G2", "version": 4, "members": ["X", "Y"]},
    )
    status, out, _ = call("group", "list", config)
    assert (status, out) == (0, "G0  2  A, D\nG2  4  X, Y\n")
    status, out, _ = call("group", "list", config, "--json")
    assert json.loads(out)[0] == {"group": "G0", "version": 2, "members": ["A", "D"]}


def test_nodes_are_listed_as_answers_left_them(call, config, broker, topic_prefix):
    done = {"event": "command-done", "topic": "t", "partition": 0}
    events(
        broker,
        f"{topic_prefix}m.events",
        {**done, "op": "create-node", "node": "n1", "owner": "p", "offset": 1},
        {**done, "op": "create-node", "node": "n2", "owner": "q", "offset": 2},
        {**done, "op": "release", "node": "n2", "peer": "p", "offset": 3},
        {**done, "op": "destroy-node", "node": "n1", "offset": 4},
        {**done, "event": "command-refused", "op": "create-node", "node": "n3", "offset": 5},
    )
    status, out, _ = call("node", "list", config)
    assert (status, out) == (0, "n2  q\n")

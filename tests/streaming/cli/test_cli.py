"""The command line as users meet it: what is said, where, and with which exit status."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from functools import partial
from pathlib import Path

import pytest

from streaming import cli
from streaming.kafka.embedded import free_port
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import toml

SECONDS_MAX = 60
ROOT = str(Path(__file__).parents[3])
COMMANDS = ["demo", "run", "check", "topics", "status", "verify", "send", "tail", "broker"]
SEQUENCER = [sys.executable, "-m", "streaming.cli"]


@pytest.fixture
def here(monkeypatch, capsys):
    """Gives a function that runs the command in this process: status, stdout, stderr."""
    monkeypatch.delenv("SEQUENCER_BOOTSTRAP_SERVERS", raising=False)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["sequencer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return call


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k != "SEQUENCER_BOOTSTRAP_SERVERS"}
    return {**kept, "PYTHONPATH": ROOT, "PYTHONUNBUFFERED": "1", **more}


def process(*arguments, stdin=b"", **more):
    """Runs the command in a process of its own: status, stdout, stderr (bytes, text)."""
    done = subprocess.run(
        [*SEQUENCER, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=SECONDS_MAX,
        env=environment(**more),
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.fixture
def config(tmp_path):
    """Gives a function that writes a configuration of one channel pipeline; its path."""

    def write(pipeline=None, name="p", **tables):
        tables |= {f'pipelines."{name}"': {"discipline": "channel", **(pipeline or {})}}
        path = tmp_path / "c.toml"
        path.write_text(
            "\n".join(
                f"[{table}]\n" + "".join(f'"{key}" = {toml(of)}\n' for key, of in keys.items())
                for table, keys in tables.items()
            )
        )
        return path

    return write


# The frame


def test_help_names_every_command(here):
    code, out, err = here("--help")
    assert (code, err) == (0, "")
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", out, re.MULTILINE)
    assert "Exit status: 0 fine; 1" in out.replace("\n  ", " ")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_exit_statuses_and_an_example(here, command):
    code, out, _ = here(command, "--help")
    assert code == 0
    assert "Exit status: 0" in out
    assert f"Example: sequencer {command}" in out


def test_nothing_said_is_help(here):
    code, out, err = here()
    assert code == 2
    assert "Usage: " in out + err


def test_the_version(here):
    code, out, _ = here("--version")
    assert code == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", out)


@pytest.mark.parametrize("wrong", [["chekc"], ["check"], ["check", "a", "--no"], ["tail", "a", "--max", "x"]])  # fmt: skip
def test_a_wrong_call_has_status_2(here, wrong):
    code, out, err = here(*wrong)
    assert (code, out) == (2, "")
    assert "Traceback" not in err


def test_help_is_quick():
    """Nothing heavy is imported before a command needs it."""
    heavy = "{'pyspark', 'confluent_kafka', 'kafka', 'pydantic', 'numpy', 'pandas', 'networkx'}"
    told = subprocess.run(
        [sys.executable, "-c", f"import sys, streaming.cli; print({heavy} & sys.modules.keys())"],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=environment(),
        check=True,
    )
    assert told.stdout == "set()\n"


def test_an_error_has_effect_and_remedy_on_lines_of_their_own(here, tmp_path):
    missing = tmp_path / "none.toml"
    assert here("check", missing) == (
        2,
        "",
        f"sequencer: {missing} cannot be read: No such file or directory.\n"
        "  Nothing was started.\n  Check the path.\n",
    )
    code, _, err = here("--verbose", "check", missing)
    assert code == 2
    assert "Traceback" in err
    assert "load.py" in err


@pytest.fixture(autouse=True)
def _quiet_again():
    import logging

    yield
    logging.getLogger("streaming").setLevel(logging.NOTSET)


def test_a_fault_of_the_program_is_told_as_such(here, monkeypatch, config):
    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr("streaming.config.load_config", broken)
    code, out, err = here("check", config())
    assert (code, out) == (1, "")
    assert "RuntimeError: a bug" in err
    assert err.endswith("this is a fault of the program; please report it.\n")


def test_ctrl_c_has_status_130_and_no_traceback(here, monkeypatch, config):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("streaming.config.load_config", interrupted)
    code, out, err = here("check", config())
    assert (code, out) == (130, "")
    assert "Traceback" not in err


# check


def test_check_shows_what_was_understood(here, config):
    path = config(
        {"labels": {"kind": "cyclic", "modulus": 1000}},
        spark={"spark.hadoop.secret.key": "geheim1"},
        kafka={"properties": {"security.protocol": "PLAINTEXT", "ssl.key.password": "geheim2"}},
    )
    code, out, err = here("check", path)
    assert code == 0
    assert err == f"{path} can work.\n"
    for part in ("p.in", "p.out", "p.rejects", "p.events", "header('label')", "7 days", "= 499"):
        assert part in out
    code, out, _ = here("check", path, "--json")
    found = json.loads(out)
    assert found["pipelines"]["p"]["buffer"] == {"held": 10_000, "window": 499, "full": "reject"}
    assert found["pipelines"]["p"]["input"] == ["p.in"]
    assert found["service"]["shards"] == 16
    assert found["kafka"]["properties"] == ["security.protocol", "ssl.key.password"]
    assert found["spark"] == {"spark.hadoop.secret.key": "***"}
    assert "geheim" not in out


def test_check_tells_every_fault(here, config):
    code, out, err = here("check", config({"inptu": "a", "duplicates": "no"}, servce={}))
    assert (code, out) == (2, "")
    assert len(re.findall(r"^  \S+: ", err, re.MULTILINE)) == 3
    assert "servce: unknown key; did you mean service?" in err
    assert err.endswith("\n  Nothing was started.\n")


def test_check_tries_custom_labels(here, config, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "labels_of_check.py").write_text("def after(label):\n    return label\n")
    labels = {"kind": "custom", "initial": "a", "next": "labels_of_check:after"}
    code, _, err = here("check", config({"labels": labels}))
    assert code == 2
    assert "pipelines.p.labels: labels_of_check:after does not make labels" in err
    labels["next"] = "labels_of_check:nobody"
    code, _, err = here("check", config({"labels": labels}))
    assert code == 2
    assert "pipelines.p.labels: labels_of_check:nobody cannot be imported" in err


def test_check_refuses_properties_that_no_client_takes(here, config):
    code, _, err = here("check", config(kafka={"properties": {"security.protocol": "NONE"}}))
    assert code == 2
    assert "kafka.properties are refused" in err


def test_run_refuses_what_check_refuses(here, config):
    """Before Kafka is asked for anything: there is none at this address."""
    labels = {"kind": "custom", "initial": "a", "next": "not_there_at_all:after"}
    address = f"127.0.0.1:{free_port()}"
    path = config({"labels": labels}, kafka={"bootstrap_servers": address})
    code, _, err = here("run", path)
    assert code == 2
    assert "not_there_at_all" in err


# topics


def test_topics_lists_and_creates(here, broker, topic_prefix, config):
    path = config(name=topic_prefix + "p", kafka={"bootstrap_servers": broker.bootstrap})
    names = [f"{topic_prefix}p.{role}" for role in ("in", "out", "rejects", "events", "commands")]
    code, out, err = here("topics", path)
    assert code == 1
    assert [line.split("\t")[0] for line in out.splitlines()] == names
    assert out.count("\tmissing\n") == 5
    assert err == "5 missing; --create creates them.\n"
    code, out, err = here("topics", path, "--create")
    assert code == 0
    assert sorted(err.split()[1::2]) == sorted(names)
    assert out.count("\t8 partitions\n") == 4
    assert out.endswith(" commands\t1 partitions\n")
    code, out, err = here("topics", path, "--create", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)[0] == {
        "name": names[0], "pipeline": topic_prefix + "p", "role": "input", "partitions": 8,
    }  # fmt: skip


def test_no_kafka_has_status_1(here, config, monkeypatch):
    monkeypatch.setattr("streaming.kafka.topics.SECONDS_MAX", 1)
    address = f"127.0.0.1:{free_port()}"
    code, out, err = here("topics", config(kafka={"bootstrap_servers": address}))
    assert (code, out) == (1, "")
    assert f"Kafka at {address} does not answer" in err


# send and tail


@pytest.fixture
def topic(broker, topic_prefix):
    create_topics(broker.bootstrap, {topic_prefix + "t": 2})
    return topic_prefix + "t"


@pytest.fixture(scope="module")
def shared(broker):
    """A topic for tests that look at no record of it."""
    name = f"shared-{uuid.uuid4().hex[:8]}"
    create_topics(broker.bootstrap, {name: 2})
    return name


def test_send_values(here, broker, topic):
    code, out, err = here(
        "send", topic, "--bootstrap", broker.bootstrap, "--key", "k", "-H", "a=1", "-H", "b==",
        "--partition", 1, "first", "",
    )  # fmt: skip
    assert (code, out, err) == (0, "", f"2 sent to {topic}\n")
    records = read_all(broker.bootstrap, topic)
    assert [(r.key, r.value, r.headers, r.partition) for r in records] == [
        (b"k", b"first", [("a", b"1"), ("b", b"=")], 1),
        (b"k", b"", [("a", b"1"), ("b", b"=")], 1),
    ]


def test_send_lines_of_any_bytes(broker, topic):
    code, out, err = process(
        "send", topic, "--bootstrap", broker.bootstrap, "--partition", 0, stdin=b"a\n\n\xff\x00\r\nlast"
    )  # fmt: skip
    assert (code, out, err) == (0, b"", f"4 sent to {topic}\n")
    records = read_all(broker.bootstrap, topic)
    assert [(r.key, r.value) for r in records] == [
        (None, b"a"), (None, b""), (None, b"\xff\x00\r"), (None, b"last"),
    ]  # fmt: skip


def test_partitions_follow_the_key_as_with_java(broker, topic_prefix):
    from kafka.partitioner.default import murmur2

    create_topics(broker.bootstrap, {topic_prefix + "t": 8})
    lines = "".join(json.dumps({"key": f"key {n}"}) + "\n" for n in range(50))
    where = ["--bootstrap", broker.bootstrap]
    code, _, _ = process("send", topic_prefix + "t", "--json", *where, stdin=lines.encode())
    assert code == 0
    records = read_all(broker.bootstrap, topic_prefix + "t")
    assert {r.key: r.partition for r in records} == {
        b"key %d" % n: (murmur2(b"key %d" % n) & 0x7FFF_FFFF) % 8 for n in range(50)
    }


MESSAGES = [
    Record(b"k", b"v", [("a", b"1"), ("a", None), ("b", b"\xff")]),
    Record(None, None, []),
    Record(b"", b"", [("", b"")]),
    Record(b"\xff\x00", "ä€".encode(), []),
    Record(b"null", b'{"base64": "eA=="}', []),
]


def test_what_tail_shows_can_be_sent_again(broker, topic_prefix):
    first, second = topic_prefix + "a", topic_prefix + "b"
    create_topics(broker.bootstrap, {first: 1, second: 1})
    produce(broker.bootstrap, first, MESSAGES)
    where = ["--bootstrap", broker.bootstrap]
    count = len(MESSAGES)
    code, lines, _ = process("tail", first, "--from-beginning", "--max", count, "--json", *where)
    assert code == 0
    assert len(lines.splitlines()) == count
    code, _, err = process("send", second, "--json", *where, stdin=b"\n" + lines)
    assert (code, err) == (0, f"{count} sent to {second}\n")
    again = read_all(broker.bootstrap, second)
    assert [(r.key, r.value, r.headers) for r in again] == [
        (r.key, r.value, r.headers) for r in MESSAGES
    ]


def test_tail_for_people(here, broker, topic):
    hostile = Record(b"k\x1b[2J", b"a\nb\xff", [("h\x07", None), ("i", b"x y")], partition=1)
    produce(broker.bootstrap, topic, [hostile, Record(None, b"", partition=1), Record(b"null", None, partition=1)])  # fmt: skip
    code, out, err = here("tail", topic, "--from-beginning", "--max", 3, "--bootstrap", broker.bootstrap)  # fmt: skip
    assert code == 0
    assert err == "Waiting for messages; Ctrl-C ends.\n"
    assert out.splitlines() == [
        rf"{topic}/1@0  k\x1b[2J  [h\x07=null i=x y]  a\nb\xff",
        f'{topic}/1@1  null  []  ""',
        f'{topic}/1@2  "null"  []  null',
    ]


def test_tail_shows_what_is_committed(here, broker, topic, topic_prefix):
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic_prefix})
    producer.init_transactions(30)
    for value, end in ((b"yes", producer.commit_transaction), (b"no", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(30)
        end(30)
    code, out, _ = here(
        "tail", topic, "--from-beginning", "--timeout", 2, "--bootstrap", broker.bootstrap
    )
    assert code == 0
    assert [line.split("  ")[-1] for line in out.splitlines()] == ["yes"]


class Tail:
    """`sequencer tail` running; ends with the test."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [*SEQUENCER, "tail", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            # Where tests run in the background, Ctrl-C is ignored, and children inherit that.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        self.guard = threading.Timer(SECONDS_MAX, self.process.kill)  # a wait has its limit
        self.guard.start()

    def __enter__(self):
        while b"Waiting" not in (line := self.process.stderr.readline()):
            assert line, "tail ended before it waited"
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=SECONDS_MAX)
        self.guard.cancel()


def test_tail_shows_what_comes_until_ctrl_c(broker, topic):
    produce(broker.bootstrap, topic, [Record(b"k", b"old", partition=0)])
    with Tail(topic, "--bootstrap", broker.bootstrap) as tail:
        produce(broker.bootstrap, topic, [Record(b"k", b"new", partition=0)])
        assert tail.process.stdout.readline().decode() == f"{topic}/0@1  k  []  new\n"
        tail.process.send_signal(signal.SIGINT)
        out, err = tail.process.communicate(timeout=SECONDS_MAX)
        assert (tail.process.returncode, out, err) == (0, b"", b"")


def test_a_reader_that_has_enough_is_no_fault(broker, topic):
    produce(broker.bootstrap, topic, [Record(b"k", b"v")])
    with Tail(topic, "--from-beginning", "--bootstrap", broker.bootstrap) as tail:
        assert tail.process.stdout.readline()
        tail.process.stdout.close()
        produce(broker.bootstrap, topic, [Record(b"k", b"w"), Record(b"k", b"x")])
        assert tail.process.wait(SECONDS_MAX) == 0
        assert tail.process.stderr.read() == b""


@pytest.mark.parametrize(
    ("places", "reached"),
    [
        (("good", None, None), True),
        (("good", "bad", None), False),
        (("bad", "good", None), True),
        ((None, "good", None), True),
        ((None, "good", "bad"), False),
        (("good", None, "bad"), False),
        (("bad", "bad", "good"), True),
    ],
)
def test_the_option_wins_over_the_environment_and_that_over_the_file(
    here, broker, shared, config, monkeypatch, places, reached
):
    file, variable, option = places
    monkeypatch.setattr("streaming.cli.clients.ANSWER_SECONDS_MAX", 0.5)
    address = {"good": broker.bootstrap, "bad": f"127.0.0.1:{free_port()}"}
    if variable:
        monkeypatch.setenv("SEQUENCER_BOOTSTRAP_SERVERS", address[variable])
    given = ["--bootstrap", address[option]] if option else []
    if file:
        given += ["--config", config(kafka={"bootstrap_servers": address[file]})]
    code, _, err = here("send", shared, "v", *given)
    assert code == (0 if reached else 1)
    assert (f"Kafka at {address['bad']} does not answer" in err) == (not reached)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["send", "TOPIC", "-H", "x", "v"], "--header x has no value"),
        (["send", "TOPIC", "--partition", "2", "v"], "has no partition 2.\n  Nothing was sent."),
        (["send", "TOPICx", "v"], "Kafka has no topic TOPICx"),
        (["tail", "TOPIC", "TOPICx", "TOPICy"], "Kafka has no topic TOPICx, TOPICy"),
        (["send", "TOPIC", "v", "--bootstrap", "nowhere"], "'nowhere' is no address"),
        (["send", "TOPIC", "--json", "{"], "Message 1 is none: "),
        (["send", "TOPIC", "--json", "[]"], "Message 1 is none: it is no object"),
        (["send", "TOPIC", "--json", '{"valeu": 1}'], "unknown valeu; known: key, value, headers"),
        (["send", "TOPIC", "--json", '{"value": {"base64": "?"}}'], "Message 1 is none: "),
        (["send", "TOPIC", "--json", '{"headers": [["a"]]}'], "Message 1 is none: "),
        (["send", "TOPIC", "--json", '{"headers": 3}'], "Message 1 is none: "),
    ],
)
def test_wrong_input_has_status_2(here, broker, shared, arguments, told):
    where = [] if "--bootstrap" in arguments else ["--bootstrap", broker.bootstrap]
    code, out, err = here(*(each.replace("TOPIC", shared) for each in arguments), *where)
    assert (code, out) == (2, "")
    assert told.replace("TOPIC", shared) in err
    assert "Traceback" not in err


def test_what_came_before_a_line_that_is_none_is_sent(broker, topic):
    lines = b'{"value": "a"}\n{"value": {"x": 1}}\nnone\n{"value": "after"}\n'
    code, out, err = process("send", topic, "--json", "--bootstrap", broker.bootstrap, stdin=lines)
    assert (code, out) == (2, b"")
    assert "Message 3 is none" in err
    assert "2 before it were sent, those after it not." in err
    assert sorted(r.value for r in read_all(broker.bootstrap, topic)) == [b"a", b'{"x": 1}']

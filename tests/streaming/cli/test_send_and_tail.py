"""`sequencer send` and `sequencer tail`: any bytes in and out, where they go, what is wrong."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from streaming.kafka.ports import free_port
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.streaming.cli.processes import SECONDS_MAX, Tail, process


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
    times = [line.split("  ")[1] for line in out.splitlines()]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time) for time in times)
    assert [re.sub("  [^ ]+Z  ", "  ", line) for line in out.splitlines()] == [
        rf"{topic}/1@0  k\x1b[2J  [h\x07=null i=x y]  a\nb\xff",
        f'{topic}/1@1  null  []  ""',
        f'{topic}/1@2  "null"  []  null',
    ]


def test_tail_of_several_partitions_comes_by_time(here, broker, topic):
    times = [(0, 5), (1, 1), (0, 6), (1, 7), (0, 2), (1, 9)]  # of partition 0: 5, 6, 2
    produce(
        broker.bootstrap,
        topic,
        [
            Record(b"k%d" % (at % 2), b"%d" % at, partition=p, timestamp=1_000_000 + at)
            for p, at in times
        ],
    )
    words = ("tail", topic, "--json", "--timeout", 1, "--bootstrap", broker.bootstrap)

    def shown(*more):
        code, out, _ = here(*words, *more)
        assert code == 0
        return [int(json.loads(line)["value"]) for line in out.splitlines()]

    assert shown("--from-beginning") == [1, 5, 6, 2, 7, 9]
    assert shown("--from-beginning", "--key", "k0") == [6, 2]
    assert shown("--since", "1970-01-01T00:16:40.006") == [6, 2, 7, 9]
    assert shown("--since", "5 min") == []
    assert shown("--since", "1969-12-31") == [1, 5, 6, 2, 7, 9]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--since", "soon"), "--since soon is neither a length of time nor a time."),
        (("--since", "5 min", "--from-beginning"), "both say where to begin"),
        (("--key", "a\\b"), "has a backslash that begins no"),
    ],
)
def test_where_tail_cannot_begin(here, words, said):
    code, _, err = here("tail", "any", *words)
    assert (code, said in err) == (2, True), err


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


def test_tail_shows_what_comes_until_ctrl_c(broker, topic):
    produce(broker.bootstrap, topic, [Record(b"k", b"old", partition=0)])
    with Tail(topic, "--bootstrap", broker.bootstrap) as tail:
        produce(broker.bootstrap, topic, [Record(b"k", b"new", partition=0)])
        line = tail.process.stdout.readline().decode()
        assert line.startswith(f"{topic}/0@1  2")
        assert line.endswith("Z  k  []  new\n")
        tail.process.send_signal(signal.SIGINT)
        out, err = tail.process.communicate(timeout=SECONDS_MAX)
        assert (tail.process.returncode, out) == (130, b"")
        assert err.endswith(b"stopped by Ctrl-C\n")


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
    if not reached:  # nobody is there, however long it is asked
        monkeypatch.setattr("streaming.kafka.connection.REFUSED_SECONDS_MAX", 0.5)
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
        (["send", "TOPIC", "v", "--bootstrap", "nowhere"], "'nowhere' is not an address"),
        (["send", "TOPIC", "--json", "{"], "Message 1 is none: "),
        (["send", "TOPIC", "--json", "[]"], "Message 1 is none: it is not an object"),
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


def test_arguments_are_judged_before_kafka_is_waited_for(here):
    where = ["--bootstrap", f"127.0.0.1:{free_port()}"]  # nobody is there
    code, _, err = here("send", "any", "--json", '{"value": "a"}', "{", *where)
    assert code == 2, err
    assert "Message 2 is none: " in err
    assert "Nothing was sent." in err


def test_what_came_before_a_line_that_is_none_is_sent(broker, topic):
    lines = b'{"value": "a"}\n{"value": {"x": 1}}\nnone\n{"value": "after"}\n'
    code, out, err = process("send", topic, "--json", "--bootstrap", broker.bootstrap, stdin=lines)
    assert (code, out) == (2, b"")
    assert "Message 3 is none" in err
    assert "2 before it were sent, those after it not." in err
    assert sorted(r.value for r in read_all(broker.bootstrap, topic)) == [b"a", b'{"x": 1}']


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["-H", b"\xff=1", "v"], b""),
        (["--json"], rb'{"headers": {"\ud800": "x"}}'),
        (["--json"], rb'{"headers": {"a\u0000b": "x"}}'),
        (["--json"], b"[" * 200_000),
    ],
    ids=["a name that is no text", "half a pair", "a zero", "too deep"],
)
def test_what_is_no_message_is_said(broker, shared, words, stdin):
    words = [word if isinstance(word, str) else os.fsdecode(word) for word in words]
    code, _, err = process("send", shared, *words, "--bootstrap", broker.bootstrap, stdin=stdin)
    assert code == 2
    assert "Traceback" not in err

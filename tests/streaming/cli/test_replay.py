"""Recorded input through other settings, and advice from it: a real broker, no Spark."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from streaming.config import load_config
from streaming.kafka import topics
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import called, called_json, channel_topics, write_config

HISTORY = [
    # (second, channel, label): 3 of a comes 3 s after 4, 1 of b half a second after 2
    (0, "a", 0), (0.1, "a", 1), (0.2, "a", 2), (1, "a", 4), (1.2, "a", 5), (4, "a", 3), (4.1, "a", 6),
    (0, "b", 0), (2, "b", 2), (2.5, "b", 1), (60, "b", 4), (60.1, "b", 4),
]  # fmt: skip


def record(second, channel, label):
    partition = 0 if channel == "a" else 1
    headers = [("label", str(label).encode()), ("name", channel.encode())]
    stamp = 1_700_000_000_000 + round(1000 * second)
    return Record(channel.encode(), b"%d" % label, headers, partition=partition, timestamp=stamp)


@pytest.fixture
def config(broker, topic_prefix, tmp_path):
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 2, f"{topic_prefix}out": 1})
    produce(broker.bootstrap, f"{topic_prefix}in", [record(*each) for each in HISTORY])
    return write_config(tmp_path, broker.bootstrap, {"p": channel_topics(topic_prefix)})


def values(broker, topic, key):
    return [int(each.value) for each in read_all(broker.bootstrap, topic) if each.key == key]


def test_a_shorter_gap_time_gives_up_more(broker, topic_prefix, config):
    told = called_json("replay", config, "--set", "gap.after=2s", "--prefix", f"{topic_prefix}two.")
    assert told["read"] == len(HISTORY)
    before, after = told["as it is"], told["as set"]
    assert before["rejected"] == {"duplicate": 1}
    assert (before["delivered"], before["held"], before["gaps"]) == (10, 1, 0)
    assert after["rejected"] == {"duplicate": 1, "late": 1}
    assert (after["delivered"], after["held"], after["gaps"]) == (9, 1, 1)
    assert (before["had_waited"], after["had_waited"]) == (3, 3)
    assert (before["waited_p99_ms"], after["waited_p99_ms"]) == (3_000, 2_000)
    assert values(broker, f"{topic_prefix}two.out", b"a") == [0, 1, 2, 4, 5, 6]
    assert values(broker, f"{topic_prefix}two.out", b"b") == [0, 1, 2]
    (gap,) = [json.loads(r.value) for r in read_all(broker.bootstrap, f"{topic_prefix}two.events")]
    assert (gap["event"], gap["channel"], gap["from"], gap["waited_ms"]) == ("gap", "a", 3, 2_000)
    existing = topics.existing(load_config(Path(config)))
    assert {each for each in existing if each.startswith(topic_prefix)} == {
        f"{topic_prefix}{each}" for each in ("in", "out", "two.out", "two.rejects", "two.events")
    }, "the pipeline's missing topics are not created"
    assert read_all(broker.bootstrap, f"{topic_prefix}out") == [], (
        "the pipeline's own is left alone"
    )

    code, out, err = called("replay", config, "--set", "gap.after=4s", "--set", "buffer.held=1")
    assert code == 0, err
    assert "buffer-full" in out
    assert "p.replay-" in err
    code, _, err = called(
        "replay", config, "--set", "gap.after=1s", "--prefix", f"{topic_prefix}two."
    )
    assert code == 2
    assert "such topics are there already" in err


def test_advice_from_the_input_itself_is_what_a_replay_then_shows(config):
    (advice,) = called_json("advise", config, "--measure", "--share", "0.01")["pipelines"].values()
    assert (advice["messages"], advice["out_of_order"]) == (11, 2)
    assert advice["after_best"] == {"value": 3_000, "share": 0.0}
    assert advice["labels_best"] == {"value": 2, "share": 0.0}
    for after, late in (("3s", 0), ("2s", 1), ("200ms", 2)):
        told = called_json("replay", config, "--set", f"gap.after={after}")
        assert told["as set"]["late"] == late
    picture = config.parent / "disorder.svg"
    code, out, _ = called("advise", config, "--measure", "-o", picture)
    assert code == 0
    assert 'gap.after = "3 s" would have given up 0.000%' in out
    assert re.search(r"how late messages came:\n +\d+ m?s +█+ \d", out), "drawn in the terminal"
    assert ET.fromstring(picture.read_text()).tag.endswith("svg")  # noqa: S314  (our own)


def command(second, **fields):
    value = json.dumps(fields).encode()
    return Record(b"c", value, timestamp=1_700_000_000_000 + round(1000 * second))


def test_commands_take_part_as_of_their_time(broker, topic_prefix, config):
    commands = f"{topic_prefix}commands"
    create_topics(broker.bootstrap, {commands: 1})
    skip, reset = {"op": "skip", "channel": "a"}, {"op": "reset", "channel": "b"}
    produce(broker.bootstrap, commands, [command(2, **skip), command(30, **reset)])
    told = called_json("replay", config, "--set", "gap.after=50s", "--prefix", f"{topic_prefix}c.")
    assert told["read"] == len(HISTORY)
    before = told["as it is"]
    assert before["rejected"] == {"duplicate": 1, "late": 1}
    assert (before["delivered"], before["gaps"]) == (9, 1), "3 of a is given up"
    assert values(broker, f"{topic_prefix}c.out", b"a") == [0, 1, 2, 4, 5, 6]
    events = [json.loads(r.value) for r in read_all(broker.bootstrap, f"{topic_prefix}c.events")]
    assert [event.get("op", event["event"]) for event in events] == ["gap", "skip", "reset"]
    (advice,) = called_json("advise", config, "--measure", "--share", "0.01")["pipelines"].values()
    assert advice["after_best"] == {"value": 3_000, "share": 0.0}, "what would have come in time"


@pytest.mark.usefixtures("config")
def test_a_pipeline_with_progress_marks(broker, topic_prefix, tmp_path):
    marks = f"{topic_prefix}progress"
    create_topics(broker.bootstrap, {marks: 1})
    settings = {**channel_topics(topic_prefix), "progress": marks}
    other = write_config(tmp_path, broker.bootstrap, {"p": settings})
    told = called_json("replay", other, "--set", "duplicates=drop")
    assert (told["as set"]["dropped"], told["as set"]["delivered"]) == (1, 10)
    assert marks not in told["topics"].values()
    assert read_all(broker.bootstrap, marks) == []


@pytest.mark.usefixtures("config")
def test_a_channel_in_a_header(broker, topic_prefix, tmp_path):
    settings = {**channel_topics(topic_prefix), "channel": "header('name')"}
    other = write_config(tmp_path, broker.bootstrap, {"p": settings})
    told = called_json("replay", other, "--set", "duplicates=drop")
    assert (told["as set"]["dropped"], told["as set"]["delivered"]) == (1, 10)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["replay", "--set", "gap.later=2s"], "gap.later"),
        (["replay", "--set", "gap.after"], "is not KEY=VALUE"),
        (["replay", "--set", 'input=["nope"]'], "--set input: a replay cannot change this key"),
        (["replay", "--set", "commands=nope"], "--set commands: a replay cannot change this key"),
        (["replay", "--set", "wanted=nope"], "--set wanted: a replay cannot change this key"),
        (["replay", "--set", "discipline=group"], "--set discipline: a replay cannot change"),
        (["advise"], "Nothing was measured"),
    ],
)
def test_what_cannot_work_is_refused(config, words, said):
    code, out, err = called(words[0], config, *words[1:])
    assert (code, out) == (2, "")
    assert said in err

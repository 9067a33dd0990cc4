"""Notices of channels, and commands in their input, through a service whose workers die."""

import json

import pytest

from streaming.clients import ChangeNotice, OrderedConsumer
from tests.faults.dying import FAULTS
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import channel_topics, run_once, status, verify, write_config

POINTS = ("2-3", "4-sent", "4-5")


def labelled(label, *more):
    return Record(b"k", b"%d" % label, [("label", b"%d" % label), *more])


@pytest.mark.timeout(900)
def test_a_channel_s_events_are_in_its_stream(broker, topic_prefix, tmp_path):
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1, topics["commands"]: 1})
    pipeline = {**topics, "notices": True, "input_commands": ["skip", "reset"]}
    config = write_config(tmp_path, broker.bootstrap, {"p": pipeline})
    epoch = ("epoch", b"1")
    skip = Record(b"k", b'{"id": "s"}', [("op", b"skip")])
    reset = Record(b"k", b'{"id": "r", "by": "me"}', [("op", b"reset")])
    records = [
        labelled(0),
        labelled(2),
        skip,
        labelled(0, epoch),
        labelled(1, epoch, ("fin", None)),
    ]
    produce(broker.bootstrap, topics["input"], [*records, labelled(2, epoch), reset, labelled(0)])
    faults = ",".join(f"{point}:{tmp_path}/died-{point}" for point in POINTS)
    run_once(config, within="tests.faults.dying:workers", environment={FAULTS: faults})
    assert all((tmp_path / f"died-{point}").exists() for point in POINTS)
    events = [json.loads(each.value) for each in read_all(broker.bootstrap, topics["events"])]
    answers = [each["command"] for each in events if each["event"] == "command-done"]
    assert answers == ["s", "r"]
    kafka = {"bootstrap.servers": broker.bootstrap}
    streamed = []
    with OrderedConsumer(kafka, [topics["output"]], group=topic_prefix) as reader:
        while len(streamed) < 9 and (each := reader.poll(60)) is not None:
            notice = isinstance(each, ChangeNotice)
            streamed.append(each.word if notice else each.value)
            assert not notice or each.detail in events
        assert not reader.holes
    assert streamed == [b"0", "gap", b"2", "epoch", b"0", b"1", "fin", "reset", b"0"]
    figures = status(config)["p"]
    names = ("in", "delivered", "notices", "commands", "held")
    assert [figures[name] for name in names] == [6, 5, 4, 2, 0]
    assert figures["rejected"] == {"after-fin": 1}
    code, said = verify(config)
    assert code == 0, said

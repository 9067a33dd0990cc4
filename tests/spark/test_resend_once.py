"""Rejects of all three disciplines go back to a service, which judges them anew; so does verify."""

import json

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import called_json, channel_topics, run_once, verify, write_config

pytestmark = pytest.mark.timeout(900)
DISCIPLINES = ("channel", "group", "multicast")


def labelled(key, label):
    return Record(key, b"%s%d" % (key, label), [("label", b"%d" % label)])


def write(address, topic, *records):
    produce(address, topic, list(records))


def command(**what):
    return Record(None, json.dumps(what).encode())


def test_what_was_rejected_gets_its_place_once_its_cause_is_mended(broker, topic_prefix, tmp_path):
    address = broker.bootstrap
    topics = {name: channel_topics(f"{topic_prefix}{name}.") for name in DISCIPLINES}
    for each in topics.values():
        create_topics(address, {each["input"]: 1, each["commands"]: 1})
    pipelines = {name: {**topics[name], "discipline": name} for name in DISCIPLINES}
    pipelines["channel"]["buffer"] = {"held": 2}
    pipelines["group"]["groups"] = {"G0": ["A", "B"]}
    config = write_config(tmp_path, address, pipelines)
    channel, group, multicast = (topics[name] for name in DISCIPLINES)

    sent = [(b"K", 1), (b"K", 2), (b"K", 3), (b"K", 4), (b"L", 0), (b"L", 0), (b"S", 2)]
    write(address, channel["input"], *(labelled(*each) for each in sent))
    write(address, group["input"], Record(b"s", b"to G1", [("group", b"G1")]))
    write(address, multicast["input"], Record(b"s", b"to n1", [("to", b"@n1")]))
    run_once(config)

    write(address, channel["commands"], command(op="skip", channel="S", to=2))
    write(address, channel["input"], labelled(b"K", 0), labelled(b"S", 0))
    write(address, group["commands"], command(op="add", group="G1", members=["A"]))
    write(address, multicast["commands"], command(op="create-node", node="n1", owner="p1"))
    run_once(config)

    wanted = {
        "channel": {"buffer-full": 2, "duplicate": 1, "late": 1},
        "group": {"unknown-group": 1},
        "multicast": {"bad-destination": 1},
    }
    for name, reasons in wanted.items():
        words = [word for reason in reasons for word in ("--reason", reason)]
        counts = called_json("resend", config, "--pipeline", name, *words)
        assert {reason: count["sent"] for reason, count in counts.items()} == reasons
    run_once(config)

    out = [record.value for record in read_all(address, channel["output"])]
    assert [value for value in out if value.startswith(b"K")] == [b"K0", b"K1", b"K2", b"K3", b"K4"]
    assert sorted(value for value in out if value[:1] != b"K") == [b"L0", b"S2"]
    assert [(r.key, r.value) for r in read_all(address, group["output"])] == [(b"A", b"to G1")]
    assert [(r.key, r.value) for r in read_all(address, multicast["output"])] == [(b"p1", b"to n1")]
    code, told = verify(config)
    assert code == 0, told

    counts = called_json("resend", config, "--pipeline", "channel", "--reason", "late")
    assert counts["late"] == {"rejects": 2, "chosen": 2, "sent": 0, "before": 1, "came_back": 1}
    assert counts["duplicate"]["rejects"] == 2

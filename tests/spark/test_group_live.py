"""Figure 1 of the paper through the running service: groups come and go while it works."""

import json
import signal

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import WarmService, called_json, status, verify, write_config

pytestmark = pytest.mark.timeout(600)
MEMBERS = {"G0": "ABC", "G1": "BC", "G2": "ABD", "G3": "BCD", "G4": "BD"}
STEPS = [
    (None, ["G0", "G1", "G2"], {"G0+G1": "BC", "G0+G2": "AB"}),
    (
        {"op": "add", "group": "G3", "members": list("BCD"), "id": "b"},
        ["G0", "G1", "G2", "G3"],
        {"G0+G1": "BC", "G0+G2": "AB", "G0+G3": "BC", "G1+G3": "BC", "G2+G3": "BD"},
    ),
    (
        {"op": "add", "group": "G4", "members": list("BD"), "id": "c"},
        ["G0", "G1", "G2", "G3", "G4"],
        {
            "G0+G1": "BC",
            "G0+G2": "AB",
            "G0+G3": "BC",
            "G1+G3": "BC",
            "G2+G3": "BD",
            "G2+G4": "BD",
            "G3+G4": "BD",
        },
    ),
    (
        {"op": "remove", "group": "G0", "id": "d"},
        ["G1", "G2", "G3", "G4"],
        {"G1+G3": "BC", "G2+G3": "BD", "G2+G4": "BD", "G3+G4": "BD"},
    ),
]


def first_offsets(bootstrap, topic):
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks"})
    try:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        places = [TopicPartition(topic, partition) for partition in partitions]
        return [consumer.get_watermark_offsets(place, 30)[0] for place in places]
    finally:
        consumer.close()


@pytest.mark.parametrize("sequencing", ["batch", "network"])
def test_figure_1_step_by_step(broker, topic_prefix, tmp_path, sequencing):
    names = {role: f"{topic_prefix}{role}" for role in ("output", "rejects", "events", "transit")}
    pipeline = {
        "discipline": "group",
        "sequencing": sequencing,
        "input": f"{topic_prefix}in",
        "commands": f"{topic_prefix}commands",
        "groups": {name: list(MEMBERS[name]) for name in ("G0", "G1", "G2")},
        **names,
    }
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 2, f"{topic_prefix}commands": 1})
    config = write_config(tmp_path, broker.bootstrap, {"p": pipeline})

    def events():
        return [json.loads(r.value) for r in read_all(broker.bootstrap, names["events"])]

    def delivered():
        return read_all(broker.bootstrap, names["output"])

    sent, expected = 0, 0
    with WarmService(config) as service:
        for step, (command, groups, overlaps) in enumerate(STEPS):
            if command is not None:
                value = json.dumps(command).encode()
                produce(broker.bootstrap, f"{topic_prefix}commands", [Record(None, value)])
                service.until(lambda own=command["id"]: own in [e.get("command") for e in events()])
            some = [
                Record(b"p%d" % (n % 3), b"%d:%d" % (step, n), [("group", group.encode())])
                for n, group in enumerate(groups * 10)
            ]
            produce(broker.bootstrap, f"{topic_prefix}in", some)
            sent += len(some)
            expected += 10 * sum(len(MEMBERS[group]) for group in groups)
            service.until(lambda want=expected: status(config)["p"]["delivered"] == want)
            seen = {}
            for record in delivered():
                if record.value.startswith(b"%d:" % step):
                    for first, second, _ in json.loads(record.header("stamps") or b"[]"):
                        seen.setdefault(f"{first}+{second}", set()).add(record.key.decode())
            assert {pair: "".join(sorted(who)) for pair, who in seen.items()} == overlaps
        late = [Record(b"p0", b"too late", [("group", b"G0")])]
        produce(broker.bootstrap, f"{topic_prefix}in", late)
        service.until(lambda: status(config)["p"]["rejected"] == {"removed-group": 1})
        assert service.stop(signal.SIGTERM) == 0
    figures = status(config)["p"]
    assert figures["in"] == sent + 1
    assert figures["held"] == figures["transit"] == 0
    if sequencing == "network":
        assert any(first_offsets(broker.bootstrap, names["transit"])), "old chunks are deleted"
    code, said = verify(config)
    assert code == 0, said
    groups = called_json("graph", config, "--running")["groups"]
    assert {name: "".join(each["members"]) for name, each in groups.items()} == {
        name: MEMBERS[name] for name in ("G1", "G2", "G3", "G4")
    }
    assert {name: each["messages"] for name, each in groups.items()} == {
        "G1": 40, "G2": 40, "G3": 30, "G4": 20,
    }  # fmt: skip

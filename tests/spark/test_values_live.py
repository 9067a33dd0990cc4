"""Labels and channels inside of values: real Spark, a real broker."""

import json

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import (
    called_json,
    channel_topics,
    run_once,
    status,
    verify,
    write_config,
)

pytestmark = pytest.mark.timeout(600)
LABELS = (3, 0, 2, 1, 4)


def event(source, sequence, **more):
    """A CloudEvent in structured mode, as it lies in a Kafka value."""
    known = {"specversion": "1.0", "id": f"{source}-{sequence}", "source": source, "type": "t"}
    return json.dumps({**known, "sequence": sequence, **more}).encode()


def test_cloud_events_in_json(broker, topic_prefix, tmp_path):
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 2})
    fields = {"channel": {"json": "$.source"}, "label": {"json": "$.sequence"}}
    config = write_config(tmp_path, broker.bootstrap, {"p": {**topics, **fields}})
    bad = {
        b"{": "missing-channel",
        event("/a", 1.5): "bad-label",
        event("/a", None): "missing-label",
    }
    sent = [
        Record(
            b"any key", event(source, sequence if source == "/a" else str(sequence)), partition=0
        )
        for sequence in LABELS
        for source in ("/a", "/b")
    ]
    produce(broker.bootstrap, topics["input"], sent)
    produce(broker.bootstrap, topics["input"], [Record(None, value, partition=1) for value in bad])
    run_once(config)
    out = [json.loads(each.value) for each in read_all(broker.bootstrap, topics["output"])]
    for source in ("/a", "/b"):
        given = [int(each["sequence"]) for each in out if each["source"] == source]
        assert given == sorted(LABELS)
    rejects = read_all(broker.bootstrap, topics["rejects"])
    assert {each.value: each.header("reject-reason").decode() for each in rejects} == bad
    details = {each.header("reject-reason"): each.header("reject-detail") for each in rejects}
    assert details[b"missing-channel"] == b"the value is not JSON"
    counts = status(config)["p"]
    assert (counts["in"], counts["delivered"], counts["held"]) == (13, 10, 0)
    code, told = verify(config)
    assert code == 0, told
    replayed = called_json("replay", config, "--set", "duplicates=drop")["as set"]
    assert (replayed["delivered"], sum(replayed["rejected"].values())) == (10, 3)
    (advice,) = called_json("advise", config, "--measure")["pipelines"].values()
    assert advice["messages"] == 10

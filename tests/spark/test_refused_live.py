"""Records that a topic never takes: real Spark, a real broker."""

import time

import pytest

from tests.kafka_helpers import Record, make_topic, produce, read_all
from tests.service_helpers import channel_topics, run_once, write_config

pytestmark = pytest.mark.timeout(600)
AHEAD_MS = 7_200_000
FAR = str(2**63 - 1)


def test_topics_that_the_service_makes_take_every_timestamp(broker, topic_prefix, tmp_path):
    topics = channel_topics(topic_prefix)
    make_topic(broker.bootstrap, topics["input"], message_timestamp_after_max_ms=FAR)
    config = write_config(tmp_path, broker.bootstrap, {"p": topics})
    ahead_ms = round(time.time() * 1000) + AHEAD_MS
    stamps = {b"0": ahead_ms - AHEAD_MS, b"1": ahead_ms, b"2": 0}
    sent = [
        Record(b"k", label, [("label", label)], timestamp=stamp) for label, stamp in stamps.items()
    ]
    sent.append(Record(None, b"no channel", [("label", b"0")], timestamp=ahead_ms))
    produce(broker.bootstrap, topics["input"], sent)
    run_once(config)
    out = read_all(broker.bootstrap, topics["output"])
    assert [each.value for each in out] == [b"0", b"1", b"2"]
    given = {each.value: each.timestamp for each in read_all(broker.bootstrap, topics["input"])}
    assert {each.value: each.timestamp for each in out} == {label: given[label] for label in stamps}
    (reject,) = read_all(broker.bootstrap, topics["rejects"])
    assert (reject.value, reject.timestamp) == (b"no channel", ahead_ms)

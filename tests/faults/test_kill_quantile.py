"""Kill -9 of a service with a rule whose gap time sets itself: what it goes by outlives it."""

import json
import random
import time

import pytest

from tests.faults.kills import wait_at_random
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import Service, channel_topics, inspect, status, verify, write_config

LEAST_MS, MOST_MS = 200, 600_000
SHARE = 0.9
LATE_MS = 700
SLOW, LATE, PROMPT = (b"slow", 330, 33), (b"late", 500, 110), (b"prompt", 270, 0)
"""A channel, how many messages it has, and how many of them come late: 13 % of all of them, which
are more than the 1,000 that a gap time takes; without the prompt ones they are fewer."""

OTHER = b"\xff"
"""A channel that the rule does not match, as it is no UTF-8: it waits for its first label."""


def message(key, label):
    return Record(key, b"%d" % label, [("label", b"%d" % label)])


def parts_of(channel):
    """Its messages but for those that are late, and these; the last one is in time."""
    key, count, late = channel
    labels = {n for n in range(count - 1) if late and n % (count // late) == 1}
    labels = set(sorted(labels)[:late])
    assert len(labels) == late
    first = [message(key, label) for label in range(count) if label not in labels]
    return first, [message(key, label) for label in sorted(labels)]


def gap_time(config):
    """That of the rule's channels, all of one."""
    channels = inspect(config)["channels"]
    assert {each["gap_after_ms"] for each in channels if each["rule"] is None} == {None}
    (found,) = {each["gap_after_ms"] for each in channels if each["rule"] == "*"}
    return found


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_gap_time_that_has_set_itself_outlives_kills(broker, topic_prefix, tmp_path):
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1})
    after = {"quantile": SHARE, "least": f"{LEAST_MS} ms", "most": f"{MOST_MS} ms"}
    rules = [{"channel": "*", "gap": {"policy": "skip", "after": after}}]
    config = write_config(tmp_path, broker.bootstrap, {"p": {**topics, "rules": rules}}, shards=1)
    rng, count = random.Random(5), 0

    def send(service, records):
        nonlocal count
        produce(broker.bootstrap, topics["input"], records)
        count += len(records)
        service.until(lambda: status(config)["p"]["in"] == count)

    first, late = parts_of(SLOW)
    with Service(config) as service:
        send(service, [message(OTHER, 1), *first])
        service.kill()  # what is held has waited since before
    with Service(config) as service:
        send(service, late)
        first, late = parts_of(LATE)
        send(service, first)
        time.sleep(LATE_MS / 1000)
        send(service, late)
        assert gap_time(config) == MOST_MS, "there are too few yet"
        produce(broker.bootstrap, topics["input"], parts_of(PROMPT)[0])
        count += PROMPT[1]
        wait_at_random(service, rng, 2)
        service.kill()
    with Service(config) as service:
        service.until(lambda: status(config)["p"]["delivered"] == count - 1)
        before = gap_time(config)
        assert LATE_MS <= before < MOST_MS
        service.kill()
    assert gap_time(config) == before
    lost = LATE[1]
    with Service(config) as service:
        send(service, [message(b"late", lost + 1)])
        service.until(lambda: status(config)["p"]["delivered"] == count - 1)
        service.kill()
    with Service(config) as service:
        send(service, [message(b"late", lost)])
        assert service.stop() == 0
    events = [json.loads(each.value) for each in read_all(broker.bootstrap, topics["events"])]
    (event,) = [each for each in events if each["event"] == "gap"]
    assert (event["channel"], event["from"], event["to"]) == ("late", lost, lost + 1)
    assert (event["reason"], event["waited_ms"] >= LATE_MS) == ("timeout", True)
    (reject,) = read_all(broker.bootstrap, topics["rejects"])
    assert reject.header("reject-reason") == b"late"
    assert reject.header("reject-gap").decode() == event["id"]
    assert reject.header("reject-after") == b"%d/%d" % (event["incarnation"], lost)
    assert status(config)["p"]["held"] == 1
    assert verify(config)[0] == 0

"""Events `group-moved` of a network: planted faults, by the topics of real shards."""

import json
from dataclasses import replace

import pytest

from tests.seeds import seeds
from tests.streaming.disciplines.groups import test_network_placed as network

MOVED = b'"group-moved"'


def worked(seed):
    topics = network.placed(seed)
    network.work(topics, seed, nodes=1 + seed % 4, notices=False, shards=1 + seed % 4)
    return topics


def moves(topics):
    """Where events `group-moved` lie: partition's records, and the place among them."""
    return [
        (there, at)
        for (topic, _), there in sorted(topics.records.items())
        for at, record in enumerate(there)
        if topic == "events" and MOVED in record.value
    ]


def versions_of(topics, group):
    out = (record for record in topics.all("out") if record.header("group") == group)
    return {int(record.header("group-version")) for record in out}


@pytest.mark.parametrize("seed", seeds(6, 100))
def test_each_version_of_which_there_are_messages_needs_its_event(seed):
    topics = worked(seed)
    assert network.judged(topics, across_groups=False).good
    found = 0
    for there, at in moves(topics):
        record, version = there[at], json.loads(there[at].value)["version"]
        got = versions_of(topics, record.key)
        del there[at]
        counts = network.judged(topics, across_groups=False).counts
        there.insert(at, record)
        assert set(counts) <= {"missing-event"}
        if version in got and version > min(got):
            assert set(counts) == {"missing-event"}, record
            found += 1
    assert found


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"version": 10**6}, "wrong-event"),
        ({"offset": 10**6}, "invented-event"),
    ],
)
def test_a_move_that_no_command_made(fields, name):
    topics = worked(2)
    events = [json.loads(record.value) for record in topics.all("events")]
    changed = {each["offset"] for each in events if each["event"] == "group-changed"}
    there, at = next(
        (there, at)
        for there, at in moves(topics)
        if json.loads(there[at].value)["offset"] in changed
    )
    value = json.dumps(json.loads(there[at].value) | fields).encode()
    there[at] = replace(there[at], value=value)
    assert name in network.judged(topics, across_groups=False).counts


def test_a_move_of_a_group_that_is_not_there():
    topics = worked(2)
    there, at = moves(topics)[0]
    there[at] = replace(there[at], key=b"G77")
    assert "invented-event" in network.judged(topics, across_groups=False).counts

"""A removal in an input stands among its sender's messages: planted faults, by the topics alone."""

import json
from copy import deepcopy
from dataclasses import replace

import pytest

from tests.streaming.disciplines.groups import test_input_commands as by_batch
from tests.streaming.disciplines.groups import test_network_placed as network
from tests.streaming.disciplines.groups.stages import stage_for
from tests.streaming.verify.worlds import Topics

STORY = ["first", "remove", "gone", "add", "again", "remove", "at the end"]
"""Messages to a group, and what happens to it between them."""
MEMBERS = ["a", "b"]


def history(story, elsewhere=()):
    """``elsewhere``: the places in the story that lie in another input partition, before all."""
    topics = Topics()
    for n, word in enumerate(story):
        headers, value = [("group", b"G2")], word.encode()
        if word in ("add", "remove"):
            more = {"members": MEMBERS} if word == "add" else {}
            headers, value = [("op", word.encode())], json.dumps({"group": "G2", **more}).encode()
        topics.put("in", int(n in elsewhere), n, b"p", value, headers)
    return topics


def worked(kind, topics):
    if kind == "batch":
        stage = stage_for(by_batch.GROUPS, topics, input_commands=by_batch.OPS)
        stage.run(whole=True)
    else:
        network.work(topics, 1, whole=True, notices=False)


class AsWritten:
    """Topics, for a judge that wants a stage."""

    def __init__(self, topics):
        self.topics = topics


def counts(kind, topics):
    if kind == "batch":
        return dict(by_batch.judged(AsWritten(topics)).counts)
    return dict(network.judged(topics, across_groups=False).counts)


def swapped(topics, one, other):
    """As if two records of the input lay in each other's place, and all had been told so."""
    topics = deepcopy(topics)
    there = topics.records["in", 0]
    places = {there[one].offset: there[other].offset, there[other].offset: there[one].offset}
    for place, records in topics.records.items():
        for at, record in enumerate(records):
            if place[0] == "events":
                fields = json.loads(record.value)
                fields["offset"] = places.get(fields["offset"], fields["offset"])
                records[at] = replace(record, value=json.dumps(fields).encode())
            elif place[0] == "rejects":
                headers = [
                    (name, b"%d" % places.get(int(value), int(value)))
                    if name == "reject-offset"
                    else (name, value)
                    for name, value in record.headers
                ]
                records[at] = replace(record, headers=tuple(headers))
            elif place == ("in", 0):
                records[at] = replace(record, offset=places.get(record.offset, record.offset))
    there.sort(key=lambda record: record.offset)
    return topics


@pytest.mark.parametrize("kind", ["batch", "network"])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0, 1),  # delivered, behind the removal
        (1, 2),  # rejected, before the removal
        (4, 5),  # the same in the group's second life
        (5, 6),
    ],
)
def test_a_removal_that_is_not_in_its_place_is_found(kind, one, other):
    topics = history(STORY)
    worked(kind, topics)
    assert counts(kind, topics) == {}
    assert set(counts(kind, swapped(topics, one, other))) == {"sender-order"}


def test_what_another_partition_does_has_no_place_among_these():
    """A message is rejected before its partition removes the group: another had done so before."""
    topics = history(["remove", "add", "first", "remove", "gone"], elsewhere=(2, 3, 4))
    stage = stage_for(by_batch.GROUPS, topics, input_commands=by_batch.OPS)
    own, other = topics.records["in", 0], topics.records["in", 1]
    for batch in ([own[0], other[0]], [own[1], *other[1:]]):
        stage.take(batch)
        stage.now_ms += 10
    rejected = [record.value for record in topics.all("rejects")]
    assert rejected == [b"first", b"gone"]
    assert counts("batch", topics) == {}


@pytest.mark.parametrize("seed", range(574, 580))
def test_last_messages_of_a_removed_group_may_come_behind_the_end_of_another_s_path(
    seed, monkeypatch
):
    """Then they have no stamps of the overlap: the network has forgotten it."""
    groups = {"G0": ["a", "e", "f"], "G1": ["b", "d", "e"], "G2": ["a", "d", "f"]}
    monkeypatch.setattr(network, "GROUPS", groups)
    topics = Topics()
    for n, name in enumerate(["G0", "G0", "G2", "-G0", "-G1"]):
        headers = [("op", b"remove") if name[0] == "-" else ("group", name.encode())]
        value = json.dumps({"group": name[-2:]}).encode()
        topics.put("in", 0, n, b"p", value, headers)
    network.work(topics, seed, whole=True, nodes=3, notices=False, shards=4)
    assert counts("network", topics) == {}

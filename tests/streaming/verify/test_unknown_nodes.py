"""Rejects `bad-destination`, right ones and a planted one, by the topics of real shards."""

import json

import pytest

from tests.streaming.disciplines.multicast import test_input_commands as by_batch
from tests.streaming.disciplines.multicast import test_placed as protocol
from tests.streaming.disciplines.multicast.batched_stages import stage_for
from tests.streaming.verify.plants import with_header
from tests.streaming.verify.worlds import Topics

ORDERS = ("batch", "clock", "counter")


def history(*messages):
    """Messages (`to`, `handles`) of one sender, behind the creation of the node n1."""
    topics = Topics()
    value = {"op": "create-node", "node": "n1", "owner": "p1"}
    topics.put("commands", 0, 1, None, json.dumps(value).encode())
    for n, (to, handles) in enumerate(messages):
        headers = [("to", to)] + [("handles", handles)] * (handles is not None)
        topics.put("in", 0, n, b"p1", b"%d" % n, headers)
    return topics


def judged(order, topics):
    """The pipeline works through the topics; its rejects and the verdict."""
    if order == "batch":
        stage_for(topics, 1).run(whole=True)
    else:
        protocol.floor_of(topics, order).run(whole=True)
    return verdict_on(order, topics)


def verdict_on(order, topics):
    return (by_batch if order == "batch" else protocol).judged(topics)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "bad",
    [
        (b"p2", b"p2"),  # a handle to a peer
        (b"p2", b"@n1,p1"),
        (b"p2", b"@n1,"),
        (b"p" * 10_001, None),
        (b"@n1," + b"p" * 10_001, b"@n1"),
        (b"p2,@n2", None),
    ],
)
def test_what_is_bad_whatever_the_sender_reached_before_is_right(order, bad):
    topics = history((b"p2,@n1,p1", b"@n1"), bad)
    verdict = judged(order, topics)
    assert verdict.good, verdict.faults
    (rejected,) = topics.all("rejects")
    assert rejected.value == b"1"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("reached", [(b"p2", b"@n1"), (b"@n1", None)])
def test_a_node_that_the_sender_reached_before_is_known(order, reached):
    topics = history(reached, (b"@n1,@n2", None))
    assert judged(order, topics).good
    for (topic, _), there in topics.records.items():
        for at, record in enumerate(there):
            if topic in ("in", "rejects") and record.header("to") == b"@n1,@n2":
                there[at] = with_header(record, "to", b"@n1")
    assert set(verdict_on(order, topics).counts) == {"wrong-reason"}

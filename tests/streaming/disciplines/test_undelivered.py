"""Deliveries of groups and multicasts that Kafka refuses: who gets the message, who is told."""

import json
import time
from collections import Counter, defaultdict
from copy import deepcopy
from zlib import crc32

import pytest

from streaming.disciplines.groups.batch.codec import encode_first
from streaming.disciplines.groups.batch.core import BatchOperator as Groups
from streaming.disciplines.groups.plan import BatchPlan
from streaming.disciplines.multicast.batch.core import BatchOperator as Multicast
from streaming.disciplines.multicast.plan import BatchMulticastPlan
from tests.streaming.broadcast_harness import Stage, broadcast_plan
from tests.streaming.disciplines.multicast.histories import history
from tests.streaming.disciplines.refusing import Refusing
from tests.streaming.exchange_harness import given_topics
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.worlds import Topics


def by_key(records):
    some = defaultdict(list)
    for record in records:
        own = [each for each in record.headers if each[0] not in ("sequence", "incarnation")]
        some[record.key].append((record.value, record.timestamp, own))
    return some


def events(stage):
    return [json.loads(each.value) for each in stage.topics.all("events")]


def place(event):
    return event["partition"], event["offset"]


def judge(stage, plain):
    """What others get is what they get without refusals; sequences have no hole."""
    out = stage.topics.all("out")
    wanted = by_key(plain.topics.all("out"))
    for key, some in by_key(stage.refused).items():
        for each in some:
            wanted[key].remove(each)
    assert by_key(out) == {key: some for key, some in wanted.items() if some}
    numbers = defaultdict(list)
    for record in out:
        numbers[record.key, dict(record.headers)["incarnation"]].append(
            int(dict(record.headers)["sequence"])
        )
    assert all(some == [*range(len(some))] for some in numbers.values())
    told = events(stage)
    undelivered = [e for e in told if e["event"] == "undelivered" and e["reason"] == "too-large"]
    assert all(each["detail"] == "said" for each in undelivered)
    assert len({each["id"] for each in told}) == len(told)
    rejects = [
        dict(r.headers)
        for r in stage.topics.all("rejects")
        if dict(r.headers)["reject-reason"] == b"too-large"
    ]
    assert all(each["reject-detail"] == b"said" for each in rejects)
    totals = stage.totals()
    assert totals.rejected.get("too-large", 0) == len(rejects)
    notices = [r for r in out if "notice" in dict(r.headers)]
    assert (totals.delivered, totals.notices) == (len(out) - len(notices), len(notices))
    assert totals.undelivered == sum(e["event"] == "undelivered" for e in told)
    return undelivered, rejects


def some(stage, _record):
    return stage.rng.random() < 0.2


def stages(kind, seed, choose, shards):
    """A stage that refuses, and one that does not, over the same batches."""
    if kind == "group":
        world = random_groups(seed, commands=0.1, steps=120)
        plan = broadcast_plan(
            BatchPlan, shards=shards, membership=encode_first(world.configured),
            retire_after_ms=10**9,
        )  # fmt: skip
        topics = given_topics(world)
        make = Groups
    else:
        plan = broadcast_plan(BatchMulticastPlan, shards=shards, retire_after_ms=10**9)
        topics, make = history(seed), Multicast
    refusing = Refusing(plan, make(plan), deepcopy(topics), seed, choose=choose)
    return refusing, Stage(plan, make(plan), topics, seed)


def run(stage, seed):
    turn = 0
    while stage.left():  # the same batches whatever else is drawn
        stage.rng.seed(1000 * seed + turn)
        stage.batch(wait_ms=10)
        turn += 1


@pytest.mark.parametrize("kind", ["group", "multicast"])
@pytest.mark.parametrize("seed", range(4))
def test_the_others_get_the_message_and_an_event_says_who_does_not(kind, seed):
    stage, plain = stages(kind, seed, some, 1 + seed % 3)
    run(stage, seed)
    run(plain, seed)
    undelivered, rejects = judge(stage, plain)
    assert stage.runs
    assert undelivered or rejects


@pytest.mark.parametrize("kind", ["group", "multicast"])
@pytest.mark.parametrize("seed", range(3))
def test_what_nobody_can_take_is_rejected(kind, seed):
    def some_values(_stage, record):
        chosen = crc32((record.value or b"") + b"%d" % record.timestamp) % 3 == 0
        return chosen and "notice" not in dict(record.headers)

    stage, plain = stages(kind, seed, some_values, 1 + seed % 3)
    run(stage, seed)
    run(plain, seed)
    undelivered, rejects = judge(stage, plain)
    gone = {place(e) for e in events(stage) if e.get("reason") == "destroyed-node"}
    assert {place(each) for each in undelivered} <= gone, "who was told already is a destination"
    assert rejects
    places = Counter((int(r["reject-partition"]), int(r["reject-offset"])) for r in rejects)
    assert set(places.values()) == {1}
    assert not places.keys() & gone, "a record ends in one place"


@pytest.mark.parametrize("kind", ["group", "multicast"])
def test_copies_found_in_several_runs_have_an_event_each(kind):
    """As at-least-once, where nothing is written behind a refused one: others have said theirs."""

    def chosen(stage, record):
        is_new = len(stage.refused) < 9
        return (
            is_new and "notice" not in dict(record.headers) and crc32(record.value or b"") % 9 == 0
        )

    stage, plain = stages(kind, 0, chosen, 2)
    stage.one_by_one = True
    run(stage, 0)
    run(plain, 0)
    undelivered, rejects = judge(stage, plain)
    ends = Counter((*place(each), each["destination"]) for each in undelivered)
    assert set(ends.values()) == {1}
    assert len(undelivered) + len(rejects) == len(stage.refused)
    assert max(Counter(map(place, undelivered)).values()) > 1


def test_a_message_that_is_refused_for_thousands_takes_no_longer_than_its_copies():
    """A transaction may be open meanwhile, and Kafka aborts it after a minute."""
    members = [f"s{n:05}" for n in range(20_000)]
    topics = Topics()
    topics.put("in", 0, 0, b"p", b"v", [("group", b"G")])
    plan = broadcast_plan(BatchPlan, shards=1, membership=encode_first({"G": members}))
    stage = Refusing(plan, Groups(plan), topics, 1, choose=lambda *_: True)
    begun = time.process_time()
    stage.run(whole=True)
    assert time.process_time() - begun < 60, "seconds, not hours"
    (rejected,) = topics.all("rejects")
    assert (rejected.value, topics.all("out"), len(stage.refused)) == (b"v", [], len(members))

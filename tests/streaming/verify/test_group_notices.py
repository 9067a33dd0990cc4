"""Notices of groups: right histories pass; one that is lost, invented or altered is found."""

import json
import random
from collections import defaultdict
from dataclasses import replace

import pytest

from streaming.disciplines.groups.batch.codec import encode_first
from streaming.disciplines.groups.batch.core import BatchOperator
from streaming.disciplines.groups.plan import BatchPlan
from streaming.verify.accounts import Material
from streaming.verify.group import GroupSettings, judge
from tests.seeds import seeds
from tests.streaming.broadcast_harness import broadcast_plan
from tests.streaming.disciplines.groups import test_network_placed as network
from tests.streaming.disciplines.groups.histories import GROUPS, OPS, history
from tests.streaming.disciplines.groups.stages import stage_for
from tests.streaming.disciplines.refusing import Refusing
from tests.streaming.verify.group_worlds import Groups
from tests.streaming.verify.worlds import Topics, renumber, settings_for

ON = {"notices": True, "input_commands": OPS}


def worked(kind, seed):
    """The topics of the real service, in memory."""
    if kind == "network":
        topics = network.placed(seed)
        network.work(topics, seed, nodes=1 + seed % 4, shards=1 + seed % 5)
        return topics
    stage = stage_for(GROUPS, history(seed), seed, shards=1 + seed % 3, **ON)
    if kind == "refusing":
        chosen = lambda stage, each: told(each) and stage.rng.random() < 0.2  # noqa: E731
        stage = refusing(history(seed), seed, chosen)
    stage.run()
    return stage.topics


def refusing(topics, seed, chosen):
    plan = broadcast_plan(
        BatchPlan, shards=1 + seed % 3, membership=encode_first(GROUPS), retire_after_ms=10**9, **ON
    )
    return Refusing(plan, BatchOperator(plan), topics, seed, choose=chosen)


def verdict_on(kind, topics, outputs=None, **more):
    world = Groups(1, GROUPS)
    settings = settings_for(
        GroupSettings, world, groups=world.configured, by_batch=kind != "network",
        input_commands=OPS, **more,
    )  # fmt: skip
    out = topics.all("out") if outputs is None else outputs
    own = ("rejects", "events", "commands", "in")
    return judge(settings, Material(out, *(topics.all(name) for name in own)))


def told(record):
    """What a notice reports; of a message nothing."""
    return json.loads(dict(record.headers).get("detail", b"{}"))


def lost(rng, out):
    """One that others got."""
    of = defaultdict(list)
    for at, record in enumerate(out):
        of[told(record).get("id")].append(at)
    gone = rng.choice([at for name, some in of.items() if name and len(some) > 1 for at in some])
    return renumber(out[:gone] + out[gone + 1 :])


def another_word(rng, out):
    at = rng.choice([n for n, each in enumerate(out) if "group-removed" not in str(told(each))
                     and told(each)])  # fmt: skip
    (name, word), *others = out[at].headers
    other = b"left" if word == b"joined" else b"joined"
    return [*out[:at], replace(out[at], headers=((name, other), *others)), *out[at + 1 :]]


def another_detail(rng, out):
    """Other names, or another number of them."""
    at = rng.choice([n for n, each in enumerate(out) if told(each).get("count")])
    detail = told(out[at])
    name = rng.choice(sorted({"joined", "left", "count"} & detail.keys()))
    detail[name] = 99 if name == "count" else ["nobody"]
    word, (title, _), *counts = out[at].headers
    headers = (word, (title, json.dumps(detail).encode()), *counts)
    return [*out[:at], replace(out[at], headers=headers), *out[at + 1 :]]


def to_a_stranger(rng, out):
    last = {record.key: record for record in out}
    got = {(told(record).get("id"), record.key) for record in out}
    notices = [each for each in out if told(each)]
    given, key = rng.choice(
        [(each, key) for each in notices for key in last if (told(each)["id"], key) not in got]
    )
    *_, (name, sequence), incarnation = last[key].headers
    counts = ((name, b"%d" % (int(sequence) + 1)), incarnation)
    offset = max(each.offset for each in out if each.partition == last[key].partition) + 1
    headers = (*given.headers[:2], *counts)
    strange = replace(last[key], offset=offset, value=None, headers=headers)
    return [*out, replace(strange, timestamp=given.timestamp)]


@pytest.mark.parametrize("kind", ["batch", "network"])
@pytest.mark.parametrize("mutate", [lost, another_word, another_detail, to_a_stranger])
@pytest.mark.parametrize("seed", seeds(4, 100))
def test_a_notice_that_is_lost_or_altered_or_a_stranger_s_is_found(kind, mutate, seed):
    topics = worked(kind, seed)
    assert verdict_on(kind, topics).good
    out = mutate(random.Random(seed), topics.all("out"))
    assert "wrong-notice" in verdict_on(kind, topics, out).counts


@pytest.mark.parametrize("kind", ["batch", "network"])
@pytest.mark.parametrize("seed", seeds(4, 100))
def test_what_is_not_there_yet_is_no_fault(kind, seed):
    """Each partition is read to another place."""
    rng, topics = random.Random(seed), worked(kind, seed)
    for (topic, partition), there in topics.records.items():
        if topic == "out":
            topics.records[topic, partition] = there[: rng.randrange(len(there) + 1)]
    assert verdict_on(kind, topics, due={}).good


@pytest.mark.parametrize("seed", seeds(4, 100))
def test_notices_that_kafka_refuses_have_events(seed):
    topics = worked("refusing", seed)
    verdict = verdict_on("refusing", topics)
    assert verdict.good, verdict.faults[:3]
    undelivered = [json.loads(each.value) for each in topics.all("events")]
    undelivered = [each for each in undelivered if each["event"] == "undelivered"]
    assert undelivered
    events = [each for each in topics.all("events") if b'"undelivered"' not in each.value]
    topics.records = {
        place: there for place, there in topics.records.items() if place[0] != "events"
    }
    topics.records["events", 0] = events
    assert set(verdict_on("refusing", topics).counts) == {"wrong-notice"}


def test_a_member_is_one_though_kafka_refused_most_of_its_copies():
    """Until the first change no event says who the members are: the configuration does."""
    topics = Topics()
    for n in range(3):
        topics.put("in", 0, n, b"p", b"%d" % n, [("group", b"G1")])
    change = b'{"group": "G1", "members": ["b"]}'
    topics.put("in", 0, 3, b"p", change, [("op", b"set")])
    stage = refusing(topics, 1, lambda _, each: each.key == b"c" and each.value in (b"0", b"1"))
    stage.run(whole=True)
    assert [each.value for each in topics.all("out") if each.key == b"c" and not told(each)]
    verdict = verdict_on("refusing", topics)
    assert verdict.good, verdict.faults[:3]

"""Deliveries that Kafka refuses where shards send each other messages: network, clock, counter."""

import base64
import json
import random
from collections import Counter, defaultdict
from dataclasses import replace
from zlib import crc32

import pyarrow as pa
import pytest

from streaming.arrow import payload
from streaming.arrow.schemas import RECORD
from streaming.arrow.totals import Totals
from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.inquiries import Decider, Inquiries
from streaming.disciplines.refused import Refused
from streaming.disciplines.undelivered import LeavingOut
from streaming.service.progress import Progress
from tests.seeds import seeds
from tests.streaming.disciplines.groups.networks import plan_for as network_plan
from tests.streaming.disciplines.refusals import (
    content,
    destination,
    is_notice,
    message,
    refusing,
)

KINDS = ["network", "clock", "counter"]


def judge(floor):
    """Others get the message, in order and without a hole, and each refused copy is accounted."""
    topics = floor.topics
    out = topics.all("out")
    got = defaultdict(list)
    numbers = defaultdict(list)
    for record in out:
        headers = dict(record.headers)
        got[record.key].append(content(record))
        numbers[record.key, headers["incarnation"]].append(int(headers["sequence"]))
    assert got == {key: some for key, some in floor.wanted.items() if some}
    assert all(some == [*range(len(some))] for some in numbers.values())
    taken = {message(record) for record in out}
    events = [json.loads(r.value) for r in topics.all("events")]
    assert len({each["id"] for each in events}) == len(events)
    undelivered = [e for e in events if e["event"] == "undelivered"]
    gone = {place(e) for e in undelivered if e["reason"] == "destroyed-node"}
    inputs = {("in", r.partition, r.offset): r for r in topics.all("in")}
    told = Counter()
    for event in undelivered:
        if event["reason"] != "destroyed-node":
            assert (event["reason"], event["detail"]) == ("too-large", "said")
            there = inputs.get(place(event))
            told[there and there.value, event["destination"].encode()] += 1
    rejects = [r for r in topics.all("rejects") if b"too-large" in dict(r.headers).values()]
    values = rejected(rejects, inputs, gone)
    assert told == expected_events(floor, taken, values, [inputs[each].value for each in gone])
    totals = floor.totals()
    notices = sum(map(is_notice, out))
    assert (totals.delivered, totals.notices) == (len(out) - notices, notices)
    assert totals.undelivered == len(undelivered)
    assert totals.rejected.get("too-large", 0) == len(rejects)
    assert totals.transit == totals.held == 0
    for key, row in floor.states.items():
        assert floor.operator.take(key, row).inquiries == Inquiries(), "nothing waits for ever"
    return undelivered, rejects


def rejected(rejects, inputs, gone):
    """The values of the rejected messages; each is its input, and had no other end."""
    values = Counter()
    for reject in rejects:
        headers = dict(reject.headers)
        partition, offset = int(headers["reject-partition"]), int(headers["reject-offset"])
        there = inputs["in", partition, offset]
        assert (reject.key, reject.value, reject.timestamp) == (
            there.key, there.value, there.timestamp,
        )  # fmt: skip
        assert headers["reject-detail"] == b"said"
        assert ("in", partition, offset) not in gone
        values[there.value] += 1
    return values


def expected_events(floor, taken, values, gone):
    """Value and destination of the copies that events tell of; ``gone``: values of messages to
    nodes that were destroyed."""
    expected, lost = Counter(), {}
    for record in floor.refused:
        if is_notice(record):
            expected[None, destination(record)] += 1
        elif message(record) in taken:
            expected[record.value, destination(record)] += 1
        else:
            lost.setdefault(message(record), []).append(record)
    for copies in lost.values():
        value = copies[0].value
        if values[value]:
            values[value] -= 1
        else:  # another destination was destroyed before
            expected += Counter((value, destination(each)) for each in copies)
            assert value in gone
    assert not +values, "each reject is of a message that nobody got"
    return expected


def place(event):
    return event["topic"], event["partition"], event["offset"]


def some(floor, _record):
    return floor.rng.random() < 0.2


def some_messages(_floor, record):
    return not is_notice(record) and crc32(repr(message(record)).encode()) % 3 == 0


def either(floor, record):
    return some(floor, record) or some_messages(floor, record)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(3, 100))
def test_who_does_not_get_it_is_an_event_and_what_nobody_gets_a_reject(kind, seed):
    choose = (some, some_messages, either)[seed % 3]
    floor = refusing(kind, seed, choose)
    floor.run(whole=seed % 4 == 3)
    undelivered, rejects = judge(floor)
    assert undelivered or rejects or seed > 2, "the short ones show something"


class Slow:
    """A shard that gets its copies late and delivers them one by one; see `inquiries.Answering`.

    ``due``: of each message the destinations that are still to get it here; ``coming``: messages
    that are still being sent to somebody.
    """

    def __init__(self, messages, coming):
        self.messages, self.coming = messages, coming
        self.due = defaultdict(set)

    def unspend(self, counts):
        pass

    def source(self, row):
        record = {"topic": 0, "partition": 0, "offset": row, "timestamp": 7, "key": b"s"}
        return pa.Table.from_pylist([{**record, "value": b"v%d" % row, "headers": None}], RECORD)

    def key_of(self, _name, row):
        return [row]

    def home_of(self, key):
        return key[0] % SHARDS

    def destinations_of(self, _name, row):
        return self.messages[row]

    def is_under_way(self, key):
        return key[0] in self.coming

    def has_passed(self, key):
        return not self.due[key[0]]


SHARDS = 3


@pytest.mark.parametrize("seed", seeds(10, 400))
def test_every_refused_copy_has_one_end_however_late_the_others_are(seed):
    """Messages to some of six, two of each shard; what is said takes its time on each link."""
    rng = random.Random(seed)
    plan = network_plan({"G": "abcdef"}, shards=SHARDS)
    messages = [sorted(rng.sample("abcdef", rng.randint(1, 6))) for _ in range(12)]
    refused = [{to for to in some if rng.random() < rng.choice([0.3, 1])} for some in messages]
    coming = set(range(12))
    shards = [Slow(messages, coming) for _ in range(SHARDS)]
    inquiries, totals = [Inquiries() for _ in shards], [Totals() for _ in shards]
    to_come = [(n, to) for n, some in enumerate(messages) for to in some]
    links, ends = defaultdict(list), []
    rng.shuffle(to_come)
    for turn in range(500):
        for number, shard in enumerate(shards):
            for each in [each for each in to_come if rng.random() < 0.1]:
                if "abcdef".index(each[1]) % SHARDS == number:
                    to_come.remove(each)
                    shard.due[each[0]].add(each[1])
        coming -= {n for n in coming if n not in {each for each, _ in to_come}}
        for number, shard in enumerate(shards):
            left_out = LeavingOut(Refused(), plan)
            for n in [n for n, due in shard.due.items() if due]:
                for to in [to for to in sorted(shard.due[n]) if rng.random() < 0.1]:
                    shard.due[n].remove(to)
                    if to in refused[n]:
                        name = (base64.b64encode(to.encode()).decode(), "G", "0", str(n))
                        left_out.dropped.append(name)
                        left_out.rows.append(n)
                        left_out.named[name] = ("too-large", "said")
            heard = []
            for source in range(SHARDS):
                queue = links[source, number]
                count = rng.choice([0, 0, rng.randint(0, len(queue))])
                heard += [(source, words) for words in queue[:count]]
                del queue[:count]
            inquiries[number] = Inquiries.of(json.loads(json.dumps(inquiries[number].fields())))
            said = inquiries[number].step(
                heard, left_out, Decider(shard, number, totals[number], turn)
            )
            for to, words in said.outgoing:
                links[number, to].append(words)
            for topic, table in said.writes:
                ends += [(topic, row) for row in table.to_pylist()]
    assert not any(links.values())
    assert inquiries == [Inquiries()] * SHARDS
    told = sorted(
        (event["offset"], event["destination"])
        for topic, row in ends
        if topic == plan.events
        for event in [json.loads(row["value"])]
    )
    rejects = sorted(row["reject-offset"] for topic, row in ends if topic == plan.rejects)
    lost = [n for n, some in enumerate(messages) if refused[n] == set(some)]
    assert rejects == lost
    assert told == [(n, to) for n in range(12) for to in sorted(refused[n]) if n not in lost]
    assert all(row["value"] == b"v%d" % row["reject-offset"] for t, row in ends if t == "rejects")
    assert Totals.sum(totals).undelivered == len(told)
    assert Totals.sum(totals).delivered == -sum(map(len, refused))


@pytest.mark.parametrize("home", [0, 1])
def test_a_message_that_very_many_do_not_get(home, monkeypatch):
    """Its destinations are looked up once, and reports of it are cut so that a topic takes them."""
    monkeypatch.setattr(payload, "CHUNK_BYTES_MAX", 2_000)
    everybody = [f"s{n:03}" for n in range(300)]
    plan = network_plan({"G": everybody}, shards=2)
    shard, looked = Slow([everybody], set()), []
    left_out = LeavingOut(Refused(), plan)
    for to in everybody:
        name = (base64.b64encode(to.encode()).decode(), "G", "0", "0")
        left_out.dropped.append(name)
        left_out.rows.append(0)
        left_out.named[name] = ("too-large", "said")
    known = shard.destinations_of
    shard.destinations_of = lambda *of: looked.append(of) or known(*of)
    shard.home_of = lambda _: home
    said = Inquiries().step([], left_out, Decider(shard, 0, Totals(), 5))
    assert len(looked) == 1
    if home:
        assert {to for to, _ in said.outgoing} == {1}
        reports = [words for _, words in said.outgoing]
        assert len(reports) > 4
        assert all(len(words) < 2 * 2_000 for words in reports[1:]), "the first has the record"
        nothing = LeavingOut(Refused(), plan)
        at_home, decider = Inquiries(), Decider(shard, 1, Totals(), 6)
        early = at_home.step([(0, words) for words in reports[:-1]], nothing, decider)
        assert not early.writes, "not all copies are reported"
        said = at_home.step([(0, reports[-1])], nothing, decider)
        assert at_home == Inquiries()
    ((topic, table),) = said.writes
    (reject,) = table.to_pylist()
    assert (topic, reject["reject-detail"], reject["value"]) == ("rejects", "said", b"v0")


@pytest.mark.parametrize("seed", [4, 14])
def test_a_notice_that_waits_while_notices_are_switched_off_may_be_refused(seed):
    floor = refusing("network", seed, lambda *_: False)
    while not any(core.waiting for core in floor.cores()):
        floor.batch()
    floor.plan = replace(floor.plan, notices=False)
    floor.operator = NetworkOperator(floor.plan)
    floor.choose = lambda _, record: is_notice(record)
    floor.run()
    events = [json.loads(record.value) for record in floor.topics.all("events")]
    told = sum(each["event"] == "undelivered" for each in events)
    assert told == len(floor.refused) > 0


@pytest.mark.parametrize("seed", [1, 3])
def test_findings_of_before_name_messages_without_a_notice_s_detail(seed):
    """A batch in doubt, whose findings are of a version that named fewer headers."""
    floor = refusing("network", seed, some)
    assert not floor.plan.notices
    whole = floor.finding
    floor.finding = lambda record: {**whole(record), "name": whole(record)["name"][:4]}
    floor.run()
    out = floor.topics.all("out")
    assert floor.refused
    assert not {(record.key, message(record)) for record in floor.refused} & {
        (record.key, message(record)) for record in out
    }


@pytest.mark.parametrize("kind", KINDS)
def test_what_shards_say_of_refused_copies_is_in_transit_and_holds_no_delivery_back(kind):
    """A batch that takes all that is there leaves in transit what it sent, as marks go by."""
    floor = refusing(kind, 4, some, progress="progress")
    progress, known = Progress(transit_ms=None), 0
    earliest = min(record.timestamp for record in floor.topics.all("in"))
    while floor.left():
        floor.news = []
        floor.batch(whole=True)
        sent = [each.in_transit[0] for each in floor.news]
        assert floor.totals().transit == sum(sent)
        progress.shards = {0: floor.totals()}
        progress.note_transit(floor.news)
        assert progress.transit_ms is None or progress.transit_ms >= earliest
        known += progress.transit_ms is not None
    assert floor.refused
    assert known or kind != "network"

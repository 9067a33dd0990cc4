"""Deliveries that Kafka refuses where shards send each other messages: network, clock, counter."""

import base64
import json
import random
from collections import Counter, defaultdict
from zlib import crc32

import pyarrow as pa
import pytest

from streaming.arrow.ipc import from_ipc
from streaming.arrow.schemas import RECORD
from streaming.arrow.totals import Totals
from streaming.disciplines.exchange import ExchangeOperator
from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.route import route as network_route
from streaming.disciplines.inquiries import Decider, Inquiries
from streaming.disciplines.multicast.protocol.core import MulticastOperator
from streaming.disciplines.multicast.protocol.route import route as multicast_route
from streaming.disciplines.refused import FINDING, Refusal, Refused, found
from streaming.disciplines.state_row import StateRow
from streaming.disciplines.undelivered import LeavingOut
from tests.seeds import seeds
from tests.streaming.broadcast_harness import drain
from tests.streaming.disciplines.groups.networks import plan_for as network_plan
from tests.streaming.disciplines.multicast import floors
from tests.streaming.exchange_harness import Floor, given_topics
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts
from tests.streaming.verify.worlds import Topics

KINDS = ["network", "clock", "counter"]
RUNS = 2
"""So often at most a batch is refused, each time other records of it."""


class Refusing(Floor):
    """A floor whose output refuses some records: each batch is run again without them."""

    def __init__(self, *given, choose):
        super().__init__(*given)
        self.choose = choose
        self.refused, self.wanted, self.runs = [], defaultdict(list), 0

    def take(self, packs):
        """One batch: run until nothing is refused, what would have been written is noted."""
        findings = []
        for _ in range(RUNS):
            self.operator.refused = Refused.of({FINDING: findings})
            written = self.dry(packs)
            if not findings:
                for record in written:
                    self.wanted[record.key].append(content(record))
            refused = [each for each in written if self.choose(self, each)]
            if not refused:
                break
            self.refused += refused
            for each in refused:
                self.wanted[each.key].remove(content(each))
            findings.append(json.loads(json.dumps([self.finding(each) for each in refused])))
            self.runs += 1
        self.operator.refused = Refused.of({FINDING: findings})
        super().take(packs)

    def dry(self, packs):
        """What a run would write, and leave no trace of."""
        real, self.topics = self.topics, Topics(holes=False)
        for key, given in packs.items():
            before = self.states.get(key, StateRow())
            rows, _ = drain(self.operator.step(key, given, before, self.now_ms))
            ExchangeOperator.cores.clear()
            for row in rows:
                if row["topic"] == "out":
                    self.write("out", from_ipc(row["rows"]))
        out, self.topics = self.topics, real
        return out.all("out")

    def finding(self, record):
        given = Refusal("out", "too-large", "said", record.key, dict(record.headers), 0, 0)
        return found(given, self.plan)


def content(record):
    own = [each for each in record.headers if each[0] not in ("sequence", "incarnation")]
    return record.value, record.timestamp, own


def refusing(kind, seed, choose):
    if kind == "network":
        world = random_groups(seed, commands=0.1, steps=70)
        more = {"notices": seed % 2 == 0, "origin": seed % 3 == 0}
        plan = network_plan(world.configured, output="out", shards=1 + seed % 5, **more)
        operator, route = NetworkOperator(plan), network_route(plan)
    else:
        world = random_multicasts(seed, steps=40, order=kind)
        plan = floors.plan_for(kind, shards=1 + seed % 5, origin=seed % 3 == 0)
        operator, route = MulticastOperator(plan), multicast_route(plan)
    return Refusing(plan, operator, route, given_topics(world), seed, choose=choose)


def is_notice(record):
    return "notice" in dict(record.headers)


def destination(record):
    return dict(record.headers).get("destination", record.key)


def message(record):
    """What a message's copies have in common."""
    headers = dict(record.headers)
    names = ("from", "timestamp", "sender", "group", "group-version", "group-sequence")
    return tuple(headers.get(name) for name in names)


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

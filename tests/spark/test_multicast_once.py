"""The multicast discipline through the real job, in all orders, judged by `sequencer verify`."""

import json
import uuid

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import run_once, status, verify, write_config
from tests.spark.histories import written
from tests.streaming.verify.multicast_worlds import random_multicasts

pytestmark = pytest.mark.timeout(1800)
ORDERS = ("batch", "clock", "counter")
WIDE = 1_000
ROLES = ("output", "rejects", "events", "commands")


def command(op, node, owner=None, own=None, peer=None):
    fields = {"op": op, "node": node, "owner": owner, "peer": peer, "id": own or f"{op} {node}"}
    return Record(None, json.dumps({k: v for k, v in fields.items() if v}).encode(), [])


def message(sender, to, value, *more):
    headers = [("x", b"\x00\xff"), *([("to", to)] if to is not ... else []), *more]
    return Record(sender, value, headers)


FIRST = [command("create-node", "n1", "ann"), command("create-node", "n2", "bob")]
EARLY = [
    message(b"ann", b"bob,@n1,@n2,bob", b"early", ("handles", b"@n1,@n2")),
    message(b"ann", b"ann", b"to myself"),
    message(b"eve", b",".join(b"p%d" % n for n in range(WIDE)), b"wide"),
    message(b"", b"bob", b"from the empty name"),
    message(b"\xff\x00", b"\xfe,@n2", b"bytes"),
    message(None, b"bob", b"missing-sender"),
    message(b"eve", ..., b"bad-destination"),
    message(b"eve", None, b"bad-destination"),
    message(b"eve", b"", b"bad-destination"),
    message(b"eve", b"bob,,ann", b"bad-destination"),
    message(b"eve", b"@never", b"bad-destination"),
    message(b"eve", b"bob", b"bad-destination", ("handles", b"@never")),
]
SECOND = [
    command("release", "n2", peer="bob"),
    command("release", "n2", peer="bob", own="again"),
    command("destroy-node", "n1", own="end of n1"),
    command("destroy-node", "n1"),
    command("destroy-node", "never"),
    command("create-node", "n1", "eve"),
    command("create-node", "a,b", "eve"),
    command("grow", "n3", "eve"),
    Record(None, b"{", []),
]
LAST = [command("destroy-node", "n2", own="end of n2")]
LATE = [
    message(b"eve", b"@n1,bob", b"late", ("handles", b"@n2,@n1")),
    message(b"eve", b"@n1", b"destroyed-node"),
    message(b"eve", b"bob", b"no handle", ("handles", b"")),
]


def roles_of(name):
    return ROLES if "batch" in name else (*ROLES, "transit")


class Ran:
    """What the pipelines made of the records above, and one of a random history."""

    def __init__(self, broker, folder):
        self.bootstrap = broker.bootstrap
        prefix = f"multicast-{uuid.uuid4().hex[:8]}."
        self.worlds = {"random-batch": random_multicasts(5, steps=100, order="batch")}
        names = [*ORDERS, *self.worlds]
        self.pipelines = {
            name: {
                "discipline": "multicast",
                "order": name.removeprefix("random-"),
                "input": f"{prefix}{name}.in",
                **{role: f"{prefix}{name}.{role}" for role in roles_of(name)},
            }
            for name in names
        }
        self.config = write_config(folder, broker.bootstrap, self.pipelines)
        one = [self.pipelines[order][role] for order in ORDERS for role in ("input", "commands")]
        create_topics(broker.bootstrap, dict.fromkeys(one, 1))
        two = [self.pipelines[name][role] for name in self.worlds for role in ("input", "commands")]
        create_topics(broker.bootstrap, dict.fromkeys(two, 2))
        self.send(FIRST, EARLY, half=0)
        run_once(self.config)
        self.send(SECOND, [], half=1)
        run_once(self.config)
        self.send([], LATE)
        only = [word for order in ORDERS for word in ("--pipeline", order)]
        run_once(self.config, *only)
        self.send(LAST, [])
        run_once(self.config, *only)

    def send(self, commands, messages, half=None):
        for order in ORDERS:
            produce(self.bootstrap, self.pipelines[order]["commands"], commands)
            produce(self.bootstrap, self.pipelines[order]["input"], messages)
        for name, world in self.worlds.items() if half is not None else ():
            for topic, role in (("commands", "commands"), ("in", "input")):
                records = written(world, topic)
                cut = len(records) // 2
                some = records[:cut] if half == 0 else records[cut:]
                produce(self.bootstrap, self.pipelines[name][role], some)

    def read(self, name, role="output"):
        return read_all(self.bootstrap, self.pipelines[name][role])

    def events(self, name):
        return [json.loads(record.value) for record in self.read(name, "events")]


@pytest.fixture(scope="module")
def ran(broker, tmp_path_factory):
    return Ran(broker, tmp_path_factory.mktemp("multicast"))


def test_verify_finds_nothing(ran):
    code, said = verify(ran.config)
    assert code == 0, said


LET_GO = [(b"bob", b"n1", b"ann"), (b"bob", b"n2", b"bob")]
"""bob gave back n2, and got it again with the message `late`."""


@pytest.mark.parametrize("order", ORDERS)
def test_what_peers_see(ran, order):
    out = ran.read(order)
    early = {(r.key, r.header("destination")) for r in out if r.value == b"early"}
    assert early == {(b"bob", b"bob"), (b"ann", b"@n1"), (b"bob", b"@n2")}
    assert len({r.header("timestamp") for r in out if r.value == b"early"}) == 1
    assert [r.key for r in out if r.value == b"to myself"] == [b"ann"]
    wide = [r for r in out if r.value == b"wide"]
    assert {r.key for r in wide} == {b"p%d" % n for n in range(WIDE)}
    assert len(wide) == WIDE
    assert [r.header("from") for r in out if r.value == b"from the empty name"] == [b""]
    assert {r.key for r in out if r.value == b"bytes"} == {b"\xfe", b"bob"}
    (late,) = [r for r in out if r.value == b"late"]
    added = ("from", "destination", "timestamp", "handles", "handles-invalid")
    names = ["x", "to", "handles", *added, "sequence", "incarnation"]
    assert [name for name, _ in late.headers] == names
    assert (late.header("handles"), late.header("handles-invalid")) == (b"@n2", b"@n1")
    told = [(r.key, r.header("notice"), r.header("from")) for r in out if r.value is None]
    assert sorted(told) == [(b"ann", b"n1", b"ann"), (b"ann", b"n2", b"bob"), *LET_GO]
    (notice, *_) = [r for r in out if r.value is None]
    names = ["from", "destination", "timestamp", "notice", "sequence", "incarnation"]
    assert [name for name, _ in notice.headers] == names
    (bare,) = [r for r in out if r.value == b"no handle"]
    assert [name for name, _ in bare.headers].count("handles") == 2
    assert bare.header("handles") == b""


@pytest.mark.parametrize("order", ORDERS)
def test_reasons(ran, order):
    rejects = ran.read(order, "rejects")
    assert sorted(r.value for r in rejects) == sorted(
        r.value for r in (*EARLY, *LATE) if r.value.count(b"-")
    )
    assert all(r.value == r.header("reject-reason") for r in rejects)


@pytest.mark.parametrize("order", ORDERS)
def test_answers(ran, order):
    events = ran.events(order)
    answers = [e for e in events if e["event"].startswith("command-")]
    assert len(answers) == len(FIRST) + len(SECOND) + len(LAST)
    refused = {e["command"]: e["reason"] for e in answers if e["event"] == "command-refused"}
    assert refused == {
        "destroy-node n1": "destroyed-node",
        "destroy-node never": "unknown-node",
        "create-node n1": "node-exists",
        "create-node a,b": "bad-node",
        "grow n3": "unknown-op",
        None: "unreadable",
    }
    (end,) = [e for e in answers if e["command"] == "end of n1"]
    assert (end["event"], end["from"]) == ("command-done", "ann")
    late = {r.header("timestamp") for r in ran.read(order) if r.value == b"late"}
    assert all((int(stamp), "eve") > (end["timestamp"], end["from"]) for stamp in late)
    (undelivered,) = [e for e in events if e["event"] == "undelivered"]
    assert undelivered["destination"] == "@n1"
    assert undelivered["reason"] == "destroyed-node"


def test_the_account(ran):
    figures = status(ran.config)
    for name in ran.pipelines:
        mine = figures[name]
        assert mine["in"] == len(ran.read(name, "input")), name
        assert mine["delivered"] + mine["notices"] == len(ran.read(name)), name
        assert sum(mine["rejected"].values()) == len(ran.read(name, "rejects")), name
        told = [e for e in ran.events(name) if e["event"] == "undelivered"]
        assert mine["undelivered"] == len(told), name
        assert mine["held"] == mine["blocked"] == mine["transit"] == 0, name

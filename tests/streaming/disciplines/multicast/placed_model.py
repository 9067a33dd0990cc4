"""Commands among the messages of one input partition, and a naive model that takes them in turn.

The protocols give messages, destructions and releases one order, (timestamp, from); `Model` takes
them one by one in it, as a program without any concurrency would.
"""

import json
import random
from collections import defaultdict

from streaming.verify.accounts import Material, Settings
from streaming.verify.multicast import judge
from tests.streaming.verify.worlds import Topics

OPS = ("create-node", "destroy-node", "release")
PEERS = ["p0", "p1", "p2", "p3", "\u00e4"]


def put(topics, key, value, headers):
    key = None if key is None else key.encode()
    return topics.put("in", 0, 1000, key, value, [(n, t.encode()) for n, t in headers])


def ask(topics, key, op, **fields):
    return put(topics, key, json.dumps(fields).encode(), [("op", op)])


def history(seed, steps=80):
    """Sends, handle passes, destructions and releases of a few keys, in one partition."""
    rng, topics = random.Random(seed), Topics()
    nodes = [f"n{n}" for n in range(5)]
    for name in nodes[:3]:
        ask(topics, "p0", "create-node", node=name, owner=rng.choice(PEERS))
    for step in range(steps):
        key, node = rng.choice(PEERS), rng.choice(nodes)
        if rng.random() < 0.4:
            op = rng.choice(["create-node", "destroy-node", "destroy-node", "release", "release"])
            fields = {"node": node, "owner": rng.choice(PEERS), "peer": rng.choice(PEERS)}
            ask(topics, None if rng.random() < 0.03 else key, op, id=f"c{step}", **fields)
            continue
        to = rng.sample(PEERS, rng.randrange(3)) + [f"@{n}" for n in rng.sample(nodes, 1)]
        rng.shuffle(to)
        headers = [("to", ",".join(to[: rng.randint(1, 3)]))]
        if rng.random() < 0.5:
            headers.append(("handles", ",".join(f"@{n}" for n in rng.sample(nodes, 2))))
        put(topics, key, b"v%d" % step, headers)
    return topics


class Model:
    """What came out of a history, held against one step after the other."""

    def __init__(self, topics):
        self.topics = topics
        self.out = defaultdict(list)
        for record in topics.all("out"):
            headers = dict(record.headers)
            assert int(headers["sequence"]) == len(self.out[record.key])
            self.out[record.key].append((record, headers))
        events = [json.loads(record.value) for record in topics.all("events")]
        answers = [each for each in events if each["event"].startswith("command-")]
        self.answers = {each["offset"]: each for each in answers}
        assert len(self.answers) == len(answers)
        self.undelivered = {
            (e["offset"], e["destination"]) for e in events if e["event"] == "undelivered"
        }
        self.rejected = {
            int(dict(r.headers)["reject-offset"]): dict(r.headers)["reject-reason"].decode()
            for r in topics.all("rejects")
        }
        self.stamps = {
            (record.value, headers["from"]): (int(headers["timestamp"]), headers["from"])
            for some in self.out.values()
            for record, headers in some
            if record.value is not None
        }

    def check(self):
        """Names as of each record's place; then everything that has a stamp, in their order."""
        placed = self.read()
        latest = {}
        for stamp, record, _ in placed:
            before = latest.setdefault(record.key, (-1, b""))
            assert stamp > before, f"{record} is not where its sender placed it"
            latest[record.key] = stamp
        self.replay(sorted(placed, key=lambda each: each[0]))

    def read(self):
        """What has a stamp, in the order of arrival: (stamp, record, what)."""
        owners, ended, placed = {}, set(), []
        for record in self.topics.all("in"):
            headers = dict(record.headers)
            if "op" in headers:
                reason = self.command(record, headers["op"].decode(), owners, ended)
                answer = self.answers[record.offset]
                assert answer.get("reason") == reason, (record, answer)
                if "timestamp" in answer:
                    stamp = (answer["timestamp"], answer["from"].encode())
                    assert stamp[1] == record.key
                    placed.append((stamp, record, answer))
                elif reason is None:
                    assert answer["op"] == "create-node" or record.key is None
                continue
            to = headers["to"].decode().split(",")
            named = [n[1:] for n in to if n[0] == "@"]
            named += [n[1:] for n in headers.get("handles", b"").decode().split(",") if n]
            if any(name not in owners for name in named):
                assert self.rejected.pop(record.offset) == "bad-destination"
                continue
            own = {n for n, who in owners.items() if who.encode() == record.key}
            ends = {n for n in ended if n in own}
            if all(n[0] == "@" and n[1:] in ends for n in to):
                assert self.rejected.pop(record.offset) == "destroyed-node", record
                continue
            if record.offset in self.rejected:
                assert self.rejected.pop(record.offset) == "destroyed-node"
                assert all(n[0] == "@" for n in to), "and by the end all of them are destroyed"
                continue
            placed.append((self.stamps[record.value, record.key], record, to))
        assert not self.rejected
        self.owners = owners
        return placed

    def command(self, record, op, owners, ended):
        """Why a command is refused at its place; None where it is done."""
        asked = json.loads(record.value)
        node = asked["node"]
        if op == "create-node":
            reason = "node-exists" if node in owners else None
            owners.setdefault(node, asked["owner"])
            return reason
        if node not in owners:
            return "unknown-node"
        if op == "destroy-node":
            if owners[node].encode() != record.key:
                return "not-owner"
            if node in ended:
                return "destroyed-node"
            ended.add(node)
        return None

    def replay(self, placed):
        streams, dead, holders = defaultdict(list), set(), defaultdict(set)
        undelivered = set()
        for stamp, record, what in placed:
            told = (b"%d" % stamp[0], stamp[1])
            if isinstance(what, list):
                headers = dict(record.headers)
                handles = [n for n in dict.fromkeys(headers.get("handles", b"").split(b",")) if n]
                valid = [n for n in handles if n.decode()[1:] not in dead]
                for name in what:
                    if name[0] == "@" and name[1:] in dead:
                        undelivered.add((record.offset, name))
                        continue
                    peer = (self.owners[name[1:]] if name[0] == "@" else name).encode()
                    streams[peer].append((*told, record.value, name.encode(), set(valid)))
                    for handle in valid:
                        holders[handle.decode()[1:]].add(peer)
            elif what["op"] == "destroy-node":
                dead.add(what["node"])
                for peer in holders.pop(what["node"], ()):
                    streams[peer].append((*told, None, peer, what["node"].encode()))
            else:
                peer = what["peer"].encode()
                assert what.get("sequence", 0) == len(streams.get(peer, ())), (
                    "in its place in the stream"
                )
                holders[what["node"]].discard(peer)
        assert undelivered == self.undelivered
        got = {
            peer: [
                (
                    headers["timestamp"],
                    headers["from"],
                    record.value,
                    headers["destination"],
                    headers["notice"]
                    if record.value is None
                    else {n for n in headers.get("handles", b"").split(b",") if n},
                )
                for record, headers in some
            ]
            for peer, some in self.out.items()
        }
        assert {p: sorted(s, key=repr) for p, s in got.items()} == {
            p: sorted(s, key=repr) for p, s in streams.items()
        }
        for peer, some in got.items():
            stamps = [(int(timestamp), sender) for timestamp, sender, *_ in some]
            assert stamps == sorted(stamps), peer


def judged(topics, retire_after_ms=10**9, now_ms=0):
    settings = Settings(
        pipeline="p",
        output="out",
        partitions={"out": 3},
        retire_after_ms=retire_after_ms,
        now_ms=now_ms,
        input_commands=OPS,
    )
    own = ("out", "rejects", "events", "commands", "in")
    return judge(settings, Material(*(topics.all(name) for name in own)))

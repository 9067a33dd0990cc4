"""Naive models: what one loop over all records, one at a time, makes of groups and multicasts."""

import json
import random
from dataclasses import dataclass, field, replace

import pyarrow as pa

from streaming.arrow.partitioner import partitions_of
from streaming.verify.accounts import Material
from streaming.verify.records import Record

PARTITIONS = 3
AT = "2026-01-01T00:00:{:06.3f}Z"


@dataclass
class Topics:
    """Records by topic and partition, appended."""

    records: dict = field(default_factory=dict)
    holes: bool = True
    at: str = ""

    def put(self, topic, partition, timestamp, key, value, headers=()):
        topic = self.at + topic
        there = self.records.setdefault((topic, partition), [])
        offset = len(there)
        if self.holes:  # as transactions leave them at their ends
            offset = there[-1].offset + (2 if len(there) % 7 == 6 else 1) if there else 5
        record = Record(topic, partition, offset, timestamp, key, value, tuple(headers))
        there.append(record)
        return record

    def all(self, *topics):
        return [r for (t, _), some in sorted(self.records.items()) if t in topics for r in some]


def home(key, count=PARTITIONS):
    return int(partitions_of(pa.array([key or b""], pa.binary()), count)[0])


def number(n):
    return b"%d" % n


class World:
    """What both disciplines have: inputs, rejects, events, deliveries."""

    def __init__(self, seed, prefix="", *, begin_ms=1000, topics=None):
        self.rng = random.Random(seed)
        self.topics = topics or Topics()
        self.begin_ms = begin_ms
        self.prefix = prefix
        self.sequences = {}
        self.clock = 0
        self.ids = 0

    def event(self, kind, key, **fields):
        self.ids += 1
        at = AT.format(self.clock / 1000)
        value = json.dumps({"event": kind, "id": f"e{self.ids}", "at": at, **fields})
        self.topics.put("events", home(key.encode()), self.begin_ms, key.encode(), value.encode())

    def answer(self, command, kind, **fields):
        try:
            own = json.loads(command.value).get("id")
        except (ValueError, AttributeError):
            own = None
        place = dict(zip(("topic", "partition", "offset"), command.place, strict=True))
        self.event(kind, own or "", command=own, **place, **fields)

    def command(self, value, partition=0):
        if isinstance(value, dict):
            value = json.dumps(value).encode()
        return self.topics.put("commands", partition, self.begin_ms, None, value)

    def reject(self, record, reason):
        added = zip(
            ("reject-reason", "reject-topic", "reject-partition", "reject-offset"),
            (
                reason.encode(),
                record.topic.encode(),
                number(record.partition),
                number(record.offset),
            ),
            strict=True,
        )
        added = tuple((self.prefix + name, value) for name, value in added)
        self.topics.put(
            "rejects",
            home(record.key),
            record.timestamp,
            record.key,
            record.value,
            record.headers + added,
        )

    def deliver(self, record, topic, key, added):
        partition = home(key)
        sequence = self.sequences.get(key, 0)
        self.sequences[key] = sequence + 1
        added = (*added, ("sequence", number(sequence)), ("incarnation", b"17"))
        added = tuple((self.prefix + name, value) for name, value in added)
        self.topics.put(
            topic, partition, record.timestamp, key, record.value, record.headers + added
        )

    def value(self):
        """Now and then one that was there before, or null."""
        return self.rng.choice([None, b"", b"same", b"%d" % self.clock, b"%x" % self.clock])


class Groups(World):
    """Groups with overlaps; every change opens a view for all groups that are connected."""

    def __init__(self, seed, groups, *, output="out", prefix="", version_each=False, **more):
        super().__init__(seed, prefix, **more)
        self.output = output
        self.configured = {name: frozenset(members) for name, members in groups.items()}
        self.groups = {}
        self.versions = {}
        self.counters = {}
        self.removed = set()
        self.latest = 0
        self.version_each = version_each
        for name, members in groups.items():
            self.change(name, members)

    def change(self, group, members):
        self.groups[group] = frozenset(members)
        connected, waiting = {group}, [group]
        while waiting:
            one = self.groups[waiting.pop()]
            more = {g for g, others in self.groups.items() if one & others} - connected
            connected |= more
            waiting += more
        self.latest += 1
        for name in connected:
            grown = self.versions.get(name, self.rng.randrange(3)) + 1
            self.versions[name] = grown if self.version_each else self.latest
            start = self.rng.randrange(2)
            self.counters[name] = start
            for other in connected - {name}:
                self.counters[tuple(sorted((name, other)))] = start

    def overlaps(self, group):
        mine = self.groups[group]
        return sorted(
            tuple(sorted((group, other)))
            for other, theirs in self.groups.items()
            if other != group and len(mine & theirs) > 1
        )

    def next(self, counter):
        self.counters[counter] += self.rng.choice([1, 1, 1, 2])
        return self.counters[counter]

    def do(self, value, partition=0):
        """A command, done or refused."""
        command = self.command(value, partition)
        op, group = (
            (value.get("op"), value.get("group")) if isinstance(value, dict) else (None,) * 2
        )
        members = value.get("members") if isinstance(value, dict) else None
        there = group in self.groups
        if op not in ("add", "set", "remove") or (op == "add") == there:
            self.answer(command, "command-refused", reason="does not fit")
        elif op != "remove" and not members:
            self.answer(command, "command-refused", reason="no members")
        elif op == "remove":
            self.next(group)
            del self.groups[group]
            self.removed.add(group)
            self.event("group-removed", group)
            self.answer(command, "command-done")
        else:
            self.change(group, members)
            self.event({"add": "group-added", "set": "group-changed"}[op], group)
            self.answer(command, "command-done")

    def send(self, sender, header, value, partition=0, extra=()):
        headers = [("x", b"\x00\xff"), *extra]
        if header is not ...:
            headers.append(("group", header))
        record = self.topics.put(
            "in", partition, self.begin_ms + self.clock // 9, sender, value, headers
        )
        name = header.decode(errors="replace") if header not in (..., None) else ""
        if sender is None:
            self.reject(record, "missing-sender")
        elif not name:
            self.reject(record, "missing-group")
        elif name not in self.groups:
            self.reject(record, "removed-group" if name in self.removed else "unknown-group")
        else:
            self.publish(record, name)

    def publish(self, record, group):
        place = self.next(group)
        stamps = {pair: self.next(pair) for pair in self.overlaps(group)}
        for member in sorted(self.groups[group]):
            mine = [
                [*pair, stamp]
                for pair, stamp in stamps.items()
                if all(member in self.groups[name] for name in pair)
            ]
            added = [
                ("sender", record.key),
                ("group-sequence", number(place)),
                ("group-version", number(self.versions[group])),
            ]
            if mine:
                added.append(("stamps", json.dumps(mine).encode()))
            topic = self.output.replace("{subscriber}", member)
            self.deliver(record, topic, member.encode(), added)


class Multicasts(World):
    """Peers and nodes; a clock for each peer, or one counter for all (also where it is a batch's)."""

    def __init__(self, seed, *, order="clock", prefix="", **more):
        super().__init__(seed, prefix, **more)
        self.order = order
        self.output = "out"
        self.clocks = {}
        self.owners = {}
        self.destroyed = {}
        self.holders = {}

    def stamp(self, peers):
        """Above the clocks of all peers, which are set to it."""
        peers = peers if self.order == "clock" else [b"*"]
        now = max(self.clocks.get(peer, 0) for peer in peers) + 1
        self.clocks.update(dict.fromkeys(peers, now))
        return now

    def do(self, value, partition=0):
        """A command, done or refused."""
        command = self.command(value, partition)
        op, node = (value.get("op"), value.get("node")) if isinstance(value, dict) else (None,) * 2
        there = node in self.owners and node not in self.destroyed
        if op == "create-node" and value.get("owner") and node not in self.owners:
            self.owners[node] = value["owner"].encode()
            self.answer(command, "command-done")
        elif op == "destroy-node" and there:
            owner, holders = self.owners[node], sorted(self.holders.pop(node, ()))
            self.destroyed[node] = self.stamp([owner, *holders])
            fields = {"timestamp": self.destroyed[node], "from": owner.decode()}
            self.answer(command, "command-done", **fields)
            for holder in holders:
                added = [("from", owner), ("destination", holder)]
                added += [("timestamp", number(self.destroyed[node])), ("notice", node.encode())]
                self.deliver(replace(command, value=None, headers=()), "out", holder, added)
        elif op == "release" and node in self.owners:
            peer = value["peer"].encode()
            self.holders.get(node, set()).discard(peer)
            place = {"incarnation": 17, "sequence": self.sequences.get(peer, 0)}
            known = peer in self.sequences
            self.answer(command, "command-done", **(place if known else {}))
        else:
            self.answer(command, "command-refused", reason="does not fit")

    def send(self, sender, to, handles, value, partition=0, extra=()):
        headers = [("x", b"\x00\xff"), *extra]
        headers += [("to", to)] * (to is not ...) + [("handles", handles)] * (handles is not ...)
        record = self.topics.put(
            "in", partition, self.begin_ms + self.clock // 9, sender, value, headers
        )
        wanted = list(dict.fromkeys(to.split(b","))) if to not in (..., None) else []
        nodes = [name[1:].decode() for name in wanted if name.startswith(b"@")]
        alive = [n for n in nodes if n not in self.destroyed]
        if sender is None:
            self.reject(record, "missing-sender")
        elif b"" in (wanted or [b""]) or any(n not in self.owners for n in nodes):
            self.reject(record, "bad-destination")
        elif not alive and len(nodes) == len(wanted):
            self.reject(record, "destroyed-node")
        else:
            self.carry(record, wanted, handles)

    def carry(self, record, wanted, handles):
        given = handles.split(b",") if handles not in (..., None, b"") else []
        peers = [n if n[:1] != b"@" else self.owners[n[1:].decode()] for n in wanted]
        judges = [self.owners[n[1:].decode()] for n in given if n[1:].decode() in self.owners]
        stamp = self.stamp([record.key, *peers, *judges])
        gone = [n for n in given if n[1:].decode() not in self.owners]
        gone += [n for n in given if n[1:].decode() in self.destroyed]
        for name, peer in zip(wanted, peers, strict=True):
            if name[:1] == b"@" and name[1:].decode() in self.destroyed:
                place = dict(zip(("topic", "partition", "offset"), record.place, strict=True))
                told = name.decode()
                self.event("undelivered", told, **place, destination=told, reason="destroyed-node")
                continue
            added = [("from", record.key), ("destination", name), ("timestamp", number(stamp))]
            if handles is not ...:
                valid = [n for n in dict.fromkeys(given) if n not in gone]
                added.append(("handles", b",".join(valid)))
            if gone:
                added.append(("handles-invalid", b",".join(dict.fromkeys(gone))))
            self.deliver(record, "out", peer, added)
            for handle in given:
                if handle not in gone:
                    self.holders.setdefault(handle[1:].decode(), set()).add(peer)


def random_multicasts(seed, *, steps=150, commands=0.1, **options):
    """A history of multicasts with nodes that come and go."""
    rng = random.Random(seed)
    world = Multicasts(seed, **options)
    for step in range(steps):
        world.clock += 1
        peer, node = f"p{rng.randrange(5)}", f"n{rng.randrange(9)}"
        if rng.random() < commands:
            op = rng.choice(["create-node", "create-node", "destroy-node", "release"])
            whole = {"op": op, "node": node, "owner": peer, "peer": peer, "id": f"c{step}"}
            world.do(rng.choice([b"{", {"op": 1}, {"op": op}]) if rng.random() < 0.1 else whole)
            continue
        known = [f"@{n}" for n in world.owners]
        some = [f"p{rng.randrange(6)}" for _ in range(rng.randrange(4))]
        some += rng.sample(known, min(len(known), rng.randrange(3))) + [""] * (rng.random() < 0.03)
        to = ",".join(some).encode()
        handles = ",".join(rng.sample(known, min(len(known), rng.randrange(3)))).encode()
        sender = rng.randrange(4)
        world.send(
            None if rng.random() < 0.03 else b"p%d" % sender,
            rng.choice([..., None, b"@nope", b"p1,@nope"]) if rng.random() < 0.05 else to,
            ... if rng.random() < 0.5 else handles,
            world.value(),
            sender % 2,
        )
    return world


SUBSCRIBERS = [f"s{n}" for n in range(8)]


def random_groups(seed, *, steps=120, commands=0.05, **options):
    """A history of groups with random membership, messages and commands."""
    rng = random.Random(seed)

    def members():
        return sorted(rng.sample(SUBSCRIBERS, rng.randrange(1, 6)))

    world = Groups(seed, {f"G{n}": members() for n in range(rng.randrange(1, 6))}, **options)
    for step in range(steps):
        world.clock += 1
        if rng.random() < commands:
            op, group = rng.choice(["add", "set", "set", "remove"]), f"G{rng.randrange(7)}"
            bad = rng.choice([b"{", b"[]", b"", {"op": "x"}, {"op": "set", "group": "G0"}])
            whole = {"op": op, "group": group, "members": members(), "id": f"c{step}"}
            world.do(bad if rng.random() < 0.2 else whole)
            continue
        sender = rng.randrange(4)
        key = b"" if sender == 3 else b"p%d" % sender
        header = b"G%d" % rng.randrange(7 if rng.random() < 0.2 else len(world.configured))
        if rng.random() < 0.05:
            header = rng.choice([..., None, b"", b"nope", b"\xff\xfe"])
        extra = [("group", b"G0")] if rng.random() < 0.1 else []
        header = header if not extra or header is not ... else b"G0"
        world.send(None if rng.random() < 0.03 else key, header, world.value(), sender % 2, extra)
    return world


NOW_MS = 1_767_225_700_000
DAY_MS = 86_400_000


def settings_for(make, world, **more):
    """Settings for a judge whose pipeline has worked through everything."""
    topics = {world.output.replace("{subscriber}", each) for each in (*SUBSCRIBERS, *"ABCD")}
    fields = dict(
        pipeline="p",
        output=world.output,
        partitions=dict.fromkeys(topics, PARTITIONS),
        header_prefix=world.prefix,
        retire_after_ms=DAY_MS,
        now_ms=NOW_MS,
    )
    return make(**fields | more)


def material_for(world):
    """The topics of a world."""
    topics = world.topics
    outputs = [t for t, _ in topics.records if t not in ("in", "rejects", "events", "commands")]
    own = ("rejects", "events", "commands", "in")
    return Material(topics.all(*outputs), *(topics.all(name) for name in own))


def renumber(records, prefix=""):
    """The records with `sequence` as it would be without a hole, by key."""
    counts, out = {}, []
    for record in records:
        at = counts.get(record.key, 0)
        counts[record.key] = at + 1
        headers = list(record.headers)
        headers[-2] = (prefix + "sequence", number(at))
        out.append(replace(record, headers=tuple(headers)))
    return out

"""The naive model of groups, and random histories of it."""

import json
import random

from tests.streaming.verify.worlds import SUBSCRIBERS, World, number


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
        self.moved = connected - {group}
        for name in sorted(connected):
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
        members = frozenset(value.get("members") or ()) if isinstance(value, dict) else None
        there, one = group in self.groups, {"join": "joined", "leave": "left"}.get(op)
        if one:
            named, before = {value["member"]}, self.groups.get(group, frozenset())
            members = before | named if op == "join" else before - named
        if op not in ("add", "set", "remove", "join", "leave") or (op == "add") == there:
            self.answer(command, "command-refused", reason="does not fit")
        elif value.get("if_version", self.versions[group] if there else None) != (
            self.versions[group] if there else None
        ):
            moved = {"reason": "version-moved", "version": self.versions[group]}
            self.answer(command, "command-refused", **moved)
        elif op != "remove" and not members:
            self.answer(command, "command-refused", reason="no members")
        elif one and members == before:
            self.answer(command, "command-done")
        elif op == "remove":
            self.next(group)
            del self.groups[group]
            self.removed.add(group)
            self.event("group-removed", group)
            self.answer(command, "command-done")
        else:
            self.change(group, members)
            told = {one: value["member"], "count": len(members)} if one else {}
            self.event("group-added" if op == "add" else "group-changed", group, **told)
            place = dict(zip(("topic", "partition", "offset"), command.place, strict=True))
            for name in sorted(self.moved):
                self.event("group-moved", name, **place, version=self.versions[name])
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


def random_groups(seed, *, steps=120, commands=0.05, **options):
    """A history of groups with random membership, messages and commands."""
    rng = random.Random(seed)

    def members():
        return sorted(rng.sample(SUBSCRIBERS, rng.randrange(1, 6)))

    world = Groups(seed, {f"G{n}": members() for n in range(rng.randrange(1, 6))}, **options)
    for step in range(steps):
        world.clock += 1
        if rng.random() < commands:
            op = rng.choice(["add", "set", "remove", "join", "leave", "join"])
            group = f"G{rng.randrange(7)}"
            bad = rng.choice([b"{", b"[]", b"", {"op": "x"}, {"op": "set", "group": "G0"}])
            whole = {"op": op, "group": group, "members": members(), "id": f"c{step}"}
            if op in ("join", "leave"):
                whole["member"] = rng.choice(whole.pop("members"))
            if op != "add" and rng.random() < 0.3:
                whole["if_version"] = rng.randrange(4)
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

"""The naive model of multicasts, and random histories of it."""

import random
from dataclasses import replace

from tests.streaming.verify.worlds import World, number


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

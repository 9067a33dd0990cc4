"""Multicast in the order of the batch, one record at a time: what the records say, in plain Python.

Written from docs/multicast.md, with dictionaries and sets, and nothing of the service's.
"""

import json
from dataclasses import dataclass, field

DESTINATIONS_MAX, HANDLES_MAX, NAME_MAX, NODES_MAX = 10_000, 1_000, 10_000, 100_000


@dataclass
class Node:
    owner: bytes
    destroyed_ms: int | None = None
    holders: set = field(default_factory=set)


@dataclass
class Count:
    sequence: int
    incarnation: int
    last_ms: int


class Model:
    """``out``, ``rejects``: (key, value, headers, timestamp); ``events``: dictionaries."""

    def __init__(self, retire_after_ms, input_commands=()):
        self.retire_after_ms, self.input_commands = retire_after_ms, input_commands
        self.clock = 0
        self.nodes, self.peers = {}, {}
        self.out, self.rejects, self.events = [], [], []

    def batch(self, commands, records, now_ms):
        """A batch's commands and records, each in order of arrival."""
        if not commands and not records:
            return
        self.retire(now_ms)
        for name in [n for n in self.nodes if commands and self.find(n, now_ms) is None]:
            del self.nodes[name]
        for command in commands:
            self.clock += 1
            place = dict(zip(("topic", "partition", "offset"), command.place, strict=True))
            self.events.append(self.answer(command, now_ms) | place)
        for record in records:
            self.clock += 1
            op = (dict(record.headers).get("op") or b"").decode()
            if op in self.input_commands:
                place = dict(zip(("topic", "partition", "offset"), record.place, strict=True))
                self.events.append(self.answer(record, now_ms, op) | place)
                continue
            reason = self.message(record, now_ms)
            if reason:
                added = (
                    ("reject-reason", reason.encode()),
                    ("reject-topic", record.topic.encode()),
                    ("reject-partition", b"%d" % record.partition),
                    ("reject-offset", b"%d" % record.offset),
                )
                headers = record.headers + added
                self.rejects.append((record.key, record.value, headers, record.timestamp))

    def retire(self, now_ms):
        owners = {node.owner for node in self.nodes.values() if node.destroyed_ms is None}
        for name, count in list(self.peers.items()):
            if count.last_ms >= now_ms - self.retire_after_ms:
                continue
            if name in owners:
                count.last_ms = now_ms
                continue
            del self.peers[name]
            for node in self.nodes.values():
                node.holders.discard(name)
            numbers = {"incarnation": count.incarnation, "sequence": count.sequence}
            self.events.append(
                {"event": "retired", "peer": name.decode(errors="backslashreplace"), **numbers}
            )

    def find(self, name, now_ms):
        node = self.nodes.get(name)
        if node is None or node.destroyed_ms is None:
            return node
        return node if node.destroyed_ms >= now_ms - self.retire_after_ms else None

    def answer(self, command, now_ms, asked=None):
        answer = self.decide(command, now_ms, asked)
        if answer["event"] == "command-done" or answer["reason"] == "unreadable":
            return answer
        said = json.loads(command.value) | ({"op": asked} if asked else {})
        return answer | {name: said[name] for name in NAMES if said.get(name)}

    def decide(self, command, now_ms, asked):
        try:
            value = json.loads(command.value)
            op = asked or value["op"]
            value["node"]
        except (ValueError, KeyError, TypeError):
            return refused("unreadable")
        if op not in ("create-node", "destroy-node", "release"):
            return refused("unknown-op")
        role = {"create-node": "owner", "release": "peer"}.get(op, "node")
        if role not in value:
            return refused(f"bad-{role}")
        name = value["node"].encode()
        node = self.find(name, now_ms)
        done = {"event": "command-done", "op": op, "node": value["node"]}
        if op == "create-node":
            if node is not None:
                return refused("node-exists")
            self.nodes[name] = Node(value["owner"].encode())
            return done | {"owner": value["owner"]}
        if node is None:
            return refused("unknown-node")
        if op == "release":
            peer = value["peer"].encode()
            node.holders.discard(peer)
            count, done = self.peers.get(peer), done | {"peer": value["peer"]}
            if count is not None:
                done |= {"incarnation": count.incarnation, "sequence": count.sequence}
            if asked and command.key is not None:
                sender = command.key.decode(errors="backslashreplace")
                done |= {"timestamp": self.clock, "from": sender}
            return done
        if asked and node.owner != command.key:
            return refused("not-owner")
        if node.destroyed_ms is not None:
            return refused("destroyed-node")
        node.destroyed_ms = now_ms
        if node.owner in self.peers:
            self.peers[node.owner].last_ms = now_ms
        for holder in node.holders:
            added = [("from", node.owner), ("destination", holder), ("timestamp", self.stamp())]
            added.append(("notice", name))
            self.deliver(holder, None, (), added, command.timestamp, now_ms)
        node.holders = set()
        return done | {"timestamp": self.clock, "from": node.owner.decode()}

    def stamp(self):
        return b"%d" % self.clock

    def deliver(self, peer, value, headers, added, timestamp, now_ms):
        count = self.peers.setdefault(peer, Count(0, now_ms, now_ms))
        added.append(("sequence", b"%d" % count.sequence))
        added.append(("incarnation", b"%d" % count.incarnation))
        count.sequence, count.last_ms = count.sequence + 1, now_ms
        self.out.append((peer, value, headers + tuple(added), timestamp))

    def message(self, record, now_ms):
        """Deliver a message, or say why not."""
        headers = dict(record.headers)  # the last one counts
        if record.key is None:
            return "missing-sender"
        to = list(dict.fromkeys((headers.get("to") or b"").split(b",")))
        text = headers.get("handles")
        handles = list(dict.fromkeys(text.split(b","))) if text else []
        if any(not 0 < len(name) <= NAME_MAX for name in to):
            return "bad-destination"
        if len(to) > DESTINATIONS_MAX:
            return "too-many-destinations"
        if len(handles) > HANDLES_MAX:
            return "too-many-handles"
        named = {n: self.find(n[1:], now_ms) for n in (*to, *handles) if n[:1] == b"@"}
        if None in named.values() or any(name[:1] != b"@" for name in handles):
            return "bad-destination"
        dead = {name for name, node in named.items() if node.destroyed_ms is not None}
        if dead.issuperset(to):
            return "destroyed-node"
        if record.key in self.peers:
            self.peers[record.key].last_ms = now_ms
        valid = [name for name in handles if name not in dead]
        invalid = [name for name in handles if name in dead]
        for name in to:
            if name in dead:
                place = dict(zip(("topic", "partition", "offset"), record.place, strict=True))
                told = {
                    "event": "undelivered",
                    "destination": name.decode(),
                    "reason": "destroyed-node",
                }
                self.events.append(told | place)
                continue
            peer = named[name].owner if name in named else name
            added = [("from", record.key), ("destination", name), ("timestamp", self.stamp())]
            if "handles" in headers:
                added.append(("handles", b",".join(valid)))
            if invalid:
                added.append(("handles-invalid", b",".join(invalid)))
            self.deliver(peer, record.value, record.headers, added, record.timestamp, now_ms)
            for handle in valid:
                named[handle].holders.add(peer)
        return ""


NAMES = ("op", "node", "owner", "peer")


def refused(reason):
    return {"event": "command-refused", "reason": reason}

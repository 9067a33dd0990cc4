"""One record at a time, in order of arrival: what groups in the order of the batch mean."""

import json
from collections import defaultdict

REMEMBER_MS = 400


class Model:
    """Deliveries, rejects and events of a history of batches, as plain tuples and dictionaries."""

    def __init__(self, groups, *, stamps=True, notices=False, input_commands=()):
        self.stamps, self.notices, self.input_commands = stamps, notices, input_commands
        self.members = {name: set(some) for name, some in groups.items()}
        self.versions = dict.fromkeys(groups, 0)
        self.messages = dict.fromkeys(groups, 0)
        self.begun = dict.fromkeys(groups, 0)
        self.overlaps = {}
        self.number_overlaps()
        self.gone = {}
        self.floors = (0, 0)
        self.known = {}
        self.outputs, self.rejects, self.events = [], [], []
        self.now_ms = 0

    def batch(self, records, now_ms):
        self.now_ms = now_ms
        in_order = sorted(records, key=lambda each: each.place)
        for record in in_order:
            if record.topic == "commands":
                self.command(record)
        for record in in_order:
            if record.topic == "in":
                ops = [value for name, value in record.headers if name == "op"]
                op = (ops[-1] or b"").decode() if ops else ""
                if op in self.input_commands:
                    self.command(record, op)
                else:
                    self.message(record)
        self.retire()

    def command(self, record, op=None):
        try:
            value = json.loads(record.value)
            value |= {"op": op} if op else {}
            op, group = value["op"], value["group"]
        except (ValueError, TypeError, KeyError):
            self.tell("command-refused")
            return
        members = set(value.get("members") or ())
        there = group in self.members
        if op in ("join", "leave"):
            before = self.members.get(group, set())
            one = {value.get("member")}
            members = before | one if op == "join" else before - one
        if (
            op not in ("add", "set", "remove", "join", "leave")
            or there == (op == "add")
            or value.get("if_version", self.versions.get(group)) != self.versions.get(group)
            or (op != "remove" and not members)
        ):
            self.tell("command-refused")
            return
        if op in ("join", "leave") and members == before:
            self.tell("command-done")
            return
        for name, (at_ms, version, messages) in list(self.gone.items()):
            if self.now_ms - at_ms > REMEMBER_MS:
                del self.gone[name]
                self.floors = (max(self.floors[0], version + 1), max(self.floors[1], messages))
        self.tell("command-done")
        was = self.members.get(group, set())
        self.notify(record, op, was, set() if op == "remove" else members)
        if op == "remove":
            del self.members[group]
            self.number_overlaps()
            self.gone[group] = (self.now_ms, self.versions[group], self.messages[group])
            self.tell("group-removed", group)
            return
        if op != "add":
            self.versions[group] += 1
        else:
            _, before, messages = self.gone.pop(group, (0, self.floors[0] - 1, self.floors[1]))
            self.versions[group], self.messages[group] = before + 1, messages
        self.begun[group] = self.messages[group]
        self.members[group] = members
        self.number_overlaps()
        kind = "group-added" if op == "add" else "group-changed"
        one = op in ("join", "leave")
        self.tell(kind, group, self.versions[group], len(members) if one else sorted(members))

    def notify(self, record, op, before, after):
        """Who is a member after a change, and who left, is told of it."""
        for name in sorted(after | before) if self.notices and before != after else ():
            word = "removed" if op == "remove" else "left" if name not in after else "joined"
            word = "left" if word == "joined" and not after - before else word
            known = self.known.setdefault(name, [0, self.now_ms, 0])
            headers = (("notice", word.encode()), ("sequence", b"%d" % known[0]))
            self.outputs.append((name.encode(), None, record.timestamp, headers))
            known[0], known[2] = known[0] + 1, self.now_ms

    def tell(self, kind, *fields):
        self.events.append((kind, *fields))

    def message(self, record):
        named = [value for name, value in record.headers if name == "group"]
        name = (named[-1] or b"") if named else b""
        group = name.decode(errors="replace")
        if record.key is None:
            reason = "missing-sender"
        elif not name:
            reason = "missing-group"
        elif group in self.members:
            reason = ""
        else:
            at_ms = self.gone.get(group, (-(10**15),))[0]
            old = self.now_ms - at_ms > REMEMBER_MS
            reason = "unknown-group" if old else "removed-group"
        if reason:
            self.rejects.append((*record.place, reason))
            return
        number = self.messages[group] - self.begun[group]
        for member in sorted(self.members[group]):
            known = self.known.setdefault(member, [0, self.now_ms, 0])
            added = [
                ("sender", record.key),
                ("group-sequence", b"%d" % number),
                ("group-version", b"%d" % self.versions[group]),
            ]
            if seen := self.seen(group, member):
                added.append(("stamps", json.dumps(seen, separators=(",", ":")).encode()))
            added += [("sequence", b"%d" % known[0]), ("incarnation", b"%d" % known[1])]
            headers = (*record.headers, *added)
            key = member.encode()
            self.outputs.append((key, record.value, record.timestamp, headers))
            known[0] += 1
            known[2] = self.now_ms
        self.messages[group] += 1
        for pair in self.overlaps:
            self.overlaps[pair] += group in pair

    def number_overlaps(self):
        """Overlaps that are over have no number; those that begin have 0."""
        pairs = {
            (one, other)
            for one, some in self.members.items()
            for other, theirs in self.members.items()
            if one < other and len(some & theirs) > 1
        }
        self.overlaps = {pair: self.overlaps.get(pair, 0) for pair in pairs}

    def seen(self, group, member):
        return self.numbers(member, group) if self.stamps else []

    def numbers(self, member, group=None):
        """The overlaps that a member is in (of one group, or of all), with their numbers."""
        return sorted(
            [*pair, number]
            for pair, number in self.overlaps.items()
            if group in (None, *pair) and all(member in self.members[each] for each in pair)
        )

    def retire(self):
        used = set().union(*self.members.values())
        for name in sorted(self.known.keys() - used):
            if self.now_ms - self.known[name][2] > REMEMBER_MS:
                del self.known[name]
                self.tell("retired", name)

    def by_key(self):
        """What each subscriber got, in order."""
        found = defaultdict(list)
        for key, *rest in self.outputs:
            found[key].append(tuple(rest))
        return dict(found)

"""Shards that exchange batches, as a service with a micro-batch for each step would run them."""

from __future__ import annotations

import random
import zlib
from collections import deque
from dataclasses import replace

import numpy as np

from sequencer.change import ChangeError
from sequencer.groups.network.hops import Hops
from sequencer.groups.network.routes import Directory
from sequencer.groups.network.shard import GroupShard, ShardMap
from sequencer.judging import invariants

OPS = ("add", "set", "remove", "join", "leave")


def spread(count):
    return lambda name: zlib.crc32(name.encode()) % count


class Shards:
    """Shards with a queue between any two; a round takes any part of each queue.

    Payloads stay in a table by message, as rows differ from shard to shard. ``taken``: link -> how
    many of its messages the last round took.
    """

    def __init__(self, groups, *, shards, nodes, seed=0):
        self.rng = random.Random(seed)
        where = spread(shards)
        self.shards = []
        for number in range(shards):
            directory = Directory(nodes, lambda node: node % shards, remember_ms=100)
            directory.begin(groups)
            self.shards.append(GroupShard(ShardMap(number, where, where), directory))
        self.links = {}
        self.groups = {name: set(members) for name, members in groups.items()}
        self.histories, self.expected, self.by_sender = {}, {}, {}
        self.causes, self.refused, self.stamps = [], [], {}
        self.waiting, self.count, self.now_ms = [], 0, 0
        self.held = [[] for _ in range(shards)]
        self.members = {}
        self.taken = {}

    def publish(self, group, sender):
        body = f"m{self.count}"
        self.count += 1
        if self.histories.get(sender):
            self.causes.append((self.histories[sender][-1], body))
        self.waiting.append((group, sender, body))

    def change(self, op, group, members=()):
        """All shards are told; the reason where they refuse, else None."""
        taken = set()
        for shard in self.shards:
            try:
                shard.change(op, group, members, self.now_ms)
                taken.add("")
            except ChangeError as error:
                taken.add(error.reason)
        assert len(taken) == 1, "all shards agree"
        if taken != {""}:
            return taken.pop()
        self._changed(op, group, members)
        return None

    def place(self, op, group, members=()):
        """A change behind what was published before, in front of what is published after it."""
        self.waiting.append((op, group, members))

    def _changed(self, op, group, members):
        before = self.groups.pop(group, set())
        if op == "join":
            self.groups[group] = before | set(members)
        elif op == "leave":
            self.groups[group] = before - set(members)
        elif op != "remove":
            self.groups[group] = set(members)

    def round(self, *, whole=False):
        """Every shard takes a step; what is published reaches its ingress in this round."""
        waiting, self.waiting = self.waiting, []
        out = {}
        for shard in self.shards:
            number = shard.place.shard
            bodies = list(self.held[number])
            arrived = self._arrive(number, bodies, whole=whole)
            self._take(shard, waiting, bodies)
            stepped = shard.step(arrived)
            self._note(shard, stepped, bodies, out)
            self.held[number] = [bodies[row] for row in stepped.held_row]
            if self.rng.random() < 0.3:
                self._restart(shard)
        for link, parts in out.items():
            self.links.setdefault(link, deque()).extend(parts)
        self.now_ms += 1

    def _arrive(self, number, bodies, *, whole):
        """Some of what waits on each link to a shard, in order; payloads go behind ``bodies``."""
        parts = []
        for link, queue in sorted(self.links.items()):
            if link[1] != number:
                continue
            self.taken[link] = len(queue) if whole else self.rng.randint(0, len(queue))
            for _ in range(self.taken[link]):
                hop, body = queue.popleft()
                row = -1 if body is None else len(bodies)
                if body is not None:
                    bodies.append(body)
                parts.append(replace(hop, row=np.array([row])))
        return Hops.concat(parts)

    def _take(self, shard, waiting, bodies):
        """What was published and changed, in order; the first shard's changes count."""
        number, own = shard.place.shard, []
        for each in [*waiting, None]:
            if each is not None and each[0] not in OPS:
                if number == 0:
                    self.members[each[2]] = set(self.groups.get(each[0], ()))
                if shard.place.ingress(each[0]) == number:
                    own.append(each)
                continue
            self._publish(shard, own, bodies)
            own = []
            if each is not None:
                self._place(shard, *each)

    def _place(self, shard, op, group, members):
        try:
            shard.change(op, group, members, self.now_ms)
        except ChangeError:
            return
        if shard.place.shard == 0:
            self._changed(op, group, members)

    def _publish(self, shard, own, bodies):
        names = sorted({group for group, _, _ in own})
        codes = np.array([names.index(group) for group, _, _ in own], dtype=np.int64)
        refused = shard.publish(names, codes, len(bodies), self.now_ms)
        bodies += [body for _, _, body in own]
        for n, (group, sender, body) in enumerate(own):
            if n in refused:
                self.refused.append((body, refused[n]))
                continue
            self.expected[body] = self.members[body]
            self.by_sender.setdefault((sender, group), []).append(body)

    def _note(self, shard, stepped, bodies, out):
        for target, hops in stepped.outgoing.items():
            for n in range(len(hops)):
                body = None if hops.row[n] < 0 else bodies[hops.row[n]]
                one = hops.take(np.array([n]))
                out.setdefault((shard.place.shard, target), []).append((one, body))
        self._deliver(shard, stepped.delivered, bodies)

    def _deliver(self, shard, hops, bodies):
        tables = shard.tables  # of the step: they change with the next one
        for n in range(len(hops)):
            place = int(tables.places(hops.line[n : n + 1])[0])
            members = tables.members.take(np.array([place])).values
            one = hops.take(np.array([n]))
            stamps = dict(zip(one.atom.values.tolist(), one.stamp.values.tolist(), strict=True))
            for member in members:
                name = tables.subscribers[member]
                body = bodies[hops.row[n]]
                self.histories.setdefault(name, []).append(body)
                self.stamps.setdefault(name, []).append(
                    (int(hops.line[n]), int(hops.number[n]), stamps)
                )

    def _restart(self, shard):
        """The shard's state goes through its plain form and back."""
        shard.settle()
        arrays = {name: array.copy() for name, array in shard.arrays().items()}
        shard.load(shard.directory.to_json(), arrays, shard.receivers.held)

    def settle(self):
        while any(self.links.values()) or self.waiting:
            self.round(whole=True)
        assert all(not len(shard.receivers.held) for shard in self.shards), "nothing waits for ever"

    def judge(self):
        faults = [
            invariants.exactly_once(self.histories, self.expected),
            invariants.membership(self.histories, self.expected),
            invariants.acyclic(self.histories),
            invariants.causality(self.histories, self.causes),
        ]
        for (sender, _), sent in self.by_sender.items():
            faults.append(invariants.sender_order(self.histories, {sender: sent}))
        assert not list(filter(None, faults))

"""Shards that exchange batches: any rounds, any splits, changes of groups in between."""

from __future__ import annotations

import random
import zlib
from collections import deque
from dataclasses import replace

import numpy as np
import pytest

from sequencer.judging import invariants
from sequencer.overlaps.hops import Hops
from sequencer.overlaps.membership import ChangeError
from sequencer.overlaps.routes import Directory
from sequencer.overlaps.shard import GroupShard, Place


def spread(count):
    return lambda name: zlib.crc32(name.encode()) % count


class Network:
    """Shards with a queue between any two; a round takes any part of each queue.

    Payloads stay in a table by message, as rows differ from shard to shard.
    """

    def __init__(self, groups, *, shards, nodes, seed=0):
        self.rng = random.Random(seed)
        where = spread(shards)
        self.shards = []
        for number in range(shards):
            directory = Directory(nodes, lambda node: node % shards, remember_ms=100)
            directory.begin(groups)
            self.shards.append(GroupShard(Place(number, where, where), directory))
        self.links = {}
        self.groups = {name: set(members) for name, members in groups.items()}
        self.histories, self.expected, self.by_sender = {}, {}, {}
        self.causes, self.refused, self.stamps = [], [], {}
        self.waiting, self.count, self.now_ms = [], 0, 0
        self.held = [[] for _ in range(shards)]

    def publish(self, group, sender):
        body = f"m{self.count}"
        self.count += 1
        if self.histories.get(sender):
            self.causes.append((self.histories[sender][-1], body))
        self.waiting.append((group, sender, body))

    def change(self, op, group, members=()):
        """All shards are told; True where they took it."""
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
        if op == "remove":
            del self.groups[group]
        else:
            self.groups[group] = set(members)
        return None

    def round(self, *, whole=False):
        """Every shard takes a step; what is published reaches its ingress in this round."""
        waiting, self.waiting = self.waiting, []
        out = {}
        for shard in self.shards:
            number = shard.place.shard
            bodies = list(self.held[number])
            arrived = self._arrive(number, bodies, whole=whole)
            own = [each for each in waiting if shard.place.ingress(each[0]) == number]
            names = sorted({group for group, _, _ in own})
            codes = np.array([names.index(group) for group, _, _ in own], dtype=np.int64)
            first = len(bodies)
            bodies += [body for _, _, body in own]
            stepped = shard.step(arrived, names, codes, first, self.now_ms)
            self._note(shard, stepped, own, bodies, out)
            self.held[number] = [bodies[row] for row in stepped.held_row]
            if self.rng.random() < 0.3:
                self._restart(shard)
        for link, parts in out.items():
            self.links.setdefault(link, deque()).extend(parts)
        self.now_ms += 1

    def _arrive(self, number, bodies, *, whole):
        """Some of what waits on each link to a shard, in order; payloads go behind ``bodies``."""
        parts = []
        for (_, target), queue in sorted(self.links.items()):
            if target != number:
                continue
            count = len(queue) if whole else self.rng.randint(0, len(queue))
            for _ in range(count):
                hop, body = queue.popleft()
                row = -1 if body is None else len(bodies)
                if body is not None:
                    bodies.append(body)
                parts.append(replace(hop, row=np.array([row])))
        return Hops.concat(parts)

    def _note(self, shard, stepped, own, bodies, out):
        for n, reason in stepped.refused.items():
            self.refused.append((own[n][2], reason))
        for n, (group, sender, body) in enumerate(own):
            if n not in stepped.refused:
                self.expected[body] = set(self.groups[group])
                self.by_sender.setdefault((sender, group), []).append(body)
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
            invariants.pairwise_order(self.histories),
            invariants.acyclic(self.histories),
            invariants.causality(self.histories, self.causes),
        ]
        for (sender, _), sent in self.by_sender.items():
            faults.append(invariants.sender_order(self.histories, {sender: sent}))
        assert not list(filter(None, faults))


def some_groups(rng, count, people, biggest):
    return {f"G{n}": rng.sample(people, rng.randint(1, biggest)) for n in range(count)}


def run(seed, *, shards=3, nodes=4, groups=5, people="ABCDEFGH", rounds=30, changes=0.3):
    rng = random.Random(seed)
    people = list(people)
    network = Network(some_groups(rng, groups, people, 5), shards=shards, nodes=nodes, seed=seed)
    for _ in range(rounds):
        if rng.random() < changes:
            group = f"G{rng.randrange(groups + 2)}"
            op = rng.choice(["add", "set", "set", "remove"])
            refused = network.change(op, group, rng.sample(people, rng.randint(1, 4)))
            assert refused in (None, "group-exists", "unknown-group")
        for _ in range(rng.randrange(6)):
            if network.groups:
                group = rng.choice(sorted(network.groups))
                network.publish(group, rng.choice(sorted(network.groups[group])))
        network.round()
    network.settle()
    network.judge()
    return network


@pytest.mark.parametrize("seed", range(60))
def test_random_networks_with_changes(seed):
    run(seed, shards=1 + seed % 4, nodes=1 + seed % 5)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_random_networks_with_changes(block):
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        run(seed, shards=1 + seed % 4, nodes=1 + seed % 5, groups=3 + seed % 5)


def test_views_and_lines_are_forgotten():
    network = run(3, rounds=60, changes=0.6)
    for shard in network.shards:
        assert len(shard.directory.views) <= len(network.groups) + 2


def test_numbers_rise_by_one_for_every_subscriber():
    network = run(5, changes=0)
    for taken in network.stamps.values():
        following = {}
        for line, number, _ in taken:
            assert number == following.get(line, 0)
            following[line] = number + 1


def test_messages_to_no_group_are_refused_with_the_reason():
    network = Network({"G0": ["A"], "G1": ["A"]}, shards=2, nodes=2)
    network.round()
    assert network.change("remove", "G1") is None
    for group in ("G0", "G1", "G2"):
        network.waiting.append((group, "A", f"to {group}"))
    network.groups["G1"] = network.groups["G2"] = set()
    network.round()
    assert sorted(network.refused) == [("to G1", "removed-group"), ("to G2", "unknown-group")]
    network.now_ms += 200
    network.waiting.append(("G1", "A", "later"))
    network.round()
    assert network.refused[-1] == ("later", "unknown-group"), "forgotten after a while"


def test_the_last_group_can_go_and_come_back():
    network = Network({"G0": ["A"]}, shards=2, nodes=2)
    network.publish("G0", "A")
    network.round()
    assert network.change("remove", "G0") is None
    network.settle()
    network.round()
    assert network.change("add", "G0", ["A", "B"]) is None
    network.publish("G0", "A")
    network.settle()
    network.judge()


def test_refused_changes_change_nothing():
    network = Network({"G0": ["A", "B"]}, shards=2, nodes=2)
    before = [shard.directory.to_json() for shard in network.shards]
    assert network.change("add", "G0", ["C"]) == "group-exists"
    assert network.change("set", "G9", ["C"]) == "unknown-group"
    assert network.change("remove", "G9") == "unknown-group"
    assert network.change("set", "G0", []) == "no-members"
    assert [shard.directory.to_json() for shard in network.shards] == before


def test_separate_groups_do_not_all_meet_on_the_first_node():
    directory = Directory(4, lambda node: node, remember_ms=0)
    directory.begin({f"G{n}": [f"a{n // 2}", f"b{n // 2}"] for n in range(40)})
    used = [run.shard for view in directory.views.values() for run in view.paths[min(view.paths)]]
    assert [used.count(node) for node in range(4)] == [5, 5, 5, 5]

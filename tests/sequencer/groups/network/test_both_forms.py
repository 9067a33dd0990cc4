"""The protocol by message and the protocol by batch are one: equal histories, equal results.

By message (`ordering`, `atoms`, `membership`) it runs in the simulation; by batch (`shard` and what
it is made of) it is the service's `sequencing = "network"`. Here both get the same changes of
groups and the same messages, and what is on its way is taken from each queue in the same portions.
Then every message must be on the same way with the same numbers, and come to the same subscribers
in the same order wherever the protocol has one for it. Atoms that retire are left out: shards have
none (docs/overlaps.md).
"""

from __future__ import annotations

import random
from collections import deque
from itertools import pairwise

import pytest

from sequencer.change import ChangeError
from sequencer.groups.network.ordering import Atom, Receiver
from tests.sequencer.groups.network.messages import Messages
from tests.sequencer.groups.network.shards import Shards

PEOPLE = list("ABCDEFGH")


class Both:
    """One history in both forms, compared after every round."""

    def __init__(self, seed, *, shards, nodes):
        self.rng = random.Random(seed)
        self.shards = Shards({}, shards=shards, nodes=nodes, seed=seed)
        self.messages = Messages(places=shards, nodes=nodes)
        self.atoms, self.lines = {}, {}  # number -> (view, pair); (view, group)
        self.unnumbered, self.renewed, self.held = 0, 0, 0

    @property
    def directory(self):
        """Groups and views of the shards; all have the same."""
        return self.shards.shards[0].directory

    def change(self, op, group, members=()):
        before = self.directory.latest
        refused = self.shards.change(op, group, members)
        try:
            self.messages.change(op, group, members)
        except ChangeError as error:
            assert error.reason == refused
            return
        assert refused is None
        opened = [self.directory.views[n] for n in range(before, self.directory.latest)]
        for view in opened:
            if op == "remove":  # enough groups of a view have gone: what is left begins anew
                self.messages.renew(min(view.groups))
                self.renewed += 1
            own = self.messages.views.views[view.number + 1]
            assert {name: set(some) for name, some in view.groups.items()} == own.groups
            for at, pair in enumerate(view.pairs):
                self.atoms[view.first_atom + at] = (own.number, pair)
            for at, name in enumerate(view.groups):
                self.lines[view.first_line + at] = (own.number, name)
        assert self.messages.views.latest == self.directory.latest

    def publish(self, group, sender):
        self.shards.publish(group, sender)

    def round(self, *, whole=False):
        published = list(self.shards.waiting)
        self.shards.taken.clear()
        self.shards.round(whole=whole)
        self.messages.round(self.shards.taken, published)
        self.held += sum(each.holding for each in self.messages.subscribers.values())
        links = self.shards.links.keys() | self.messages.links.keys()
        for link in sorted(links):
            batch = self.shards.links.get(link, deque())
            single = self.messages.links.get(link, deque())
            assert len(batch) == len(single)
            for (hop, body), (message, _, _) in zip(batch, single, strict=True):
                assert (body is None, body) == (message.last, message.body)
                stamps = dict(zip(hop.atom.values.tolist(), hop.stamp.values.tolist(), strict=True))
                self.same_numbers(message, int(hop.line[0]), int(hop.number[0]), stamps)

    def same_numbers(self, message, line, number, stamps):
        """Of one message by message, and of the same one by batch."""
        assert (message.view, message.group) == self.lines[line]
        assert message.number == number
        told = {self.atoms[atom]: stamp for atom, stamp in stamps.items()}
        own = {(message.view, pair): stamp for pair, stamp in message.stamps}
        assert own.items() <= told.items()
        # An atom by message numbers nothing more once one of its groups has ended.
        for _, pair in told.keys() - own.keys():
            (other,) = set(pair) - {message.group}
            ingress = self.messages.ingresses[other]
            assert ingress.view > message.view or not ingress.open
            self.unnumbered += 1

    def settle(self):
        while any(self.shards.links.values()) or self.shards.waiting or self.messages.ending:
            self.round(whole=True)

    def judge(self):
        """The same deliveries, in one order wherever there is one."""
        self.shards.judge()
        assert sorted(self.messages.refused) == sorted(body for body, _ in self.shards.refused)
        single, batch = self.messages.histories, self.shards.histories
        assert single.keys() == batch.keys()
        assert all(not each.holding for each in self.messages.subscribers.values())
        for name, delivered in single.items():
            message_of = {message.body: message for message in delivered}
            assert len(message_of) == len(delivered) == len(batch[name])
            told = [message_of[body] for body in batch[name]]
            for message, (line, number, stamps) in zip(told, self.shards.stamps[name], strict=True):
                self.same_numbers(message, line, number, stamps)
            assert chains(told) == chains(delivered)
            if len(self.shards.shards) == 1:
                assert told == delivered


def chains(history):
    """The messages of each group, of each overlap, and the views, as one subscriber got them."""
    found = {}
    for message in history:
        found.setdefault((message.view, message.group), []).append(message.body)
        for pair, _ in message.stamps:
            found.setdefault((message.view, pair), []).append(message.body)
    views = [message.view for message in history]
    assert all(first <= second for first, second in pairwise(views))
    return found


def run(seed, *, shards, nodes, rounds=25, groups=6, changes=0.3):
    rng = random.Random(seed)
    both = Both(seed, shards=shards, nodes=nodes)
    names = [f"G{n}" for n in range(groups)]
    for name in names[:-2]:
        both.change("add", name, rng.sample(PEOPLE, rng.randint(1, 5)))
    for _ in range(rounds):
        while rng.random() < changes:
            op = rng.choice(["add", "set", "set", "remove", "remove"])
            both.change(op, rng.choice(names), rng.sample(PEOPLE, rng.randint(1, 5)))
        for _ in range(rng.randrange(8)):
            group = rng.choice(names)
            both.publish(group, rng.choice(sorted(both.shards.groups.get(group, PEOPLE))))
        both.round()
    both.settle()
    both.judge()
    return both


def runs(count, **setting):
    return [run(seed, shards=3, nodes=4, **setting) for seed in range(count)]


@pytest.mark.parametrize("seed", range(24))
def test_both_forms_give_the_same(seed):
    run(seed, shards=1 + seed % 4, nodes=1 + seed % 5)


def test_the_histories_have_what_makes_it_hard():
    """Messages wait, atoms lose their overlaps, and views begin anew after a removal."""
    some = runs(3, changes=0.4)
    assert sum(both.held for both in some) > 20
    assert sum(both.unnumbered for both in some) > 20
    assert sum(both.renewed for both in some) > 1


def test_an_atom_that_counts_otherwise_is_found(monkeypatch):
    stamp = Atom.stamp

    def skipping(atom, message):
        atom.following += message.number == 1
        return stamp(atom, message)

    monkeypatch.setattr(Atom, "stamp", skipping)
    with pytest.raises(AssertionError):
        runs(4, changes=0)


def test_a_receiver_that_does_not_wait_for_overlaps_is_found(monkeypatch):
    def hasty(receiver, message):
        return message.number == receiver.next_number.get(message.group, 0)

    monkeypatch.setattr(Receiver, "is_next", hasty)
    with pytest.raises(AssertionError):
        runs(8)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_both_forms_give_the_same_long(block):
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        run(seed, shards=1 + seed % 4, nodes=1 + seed % 5, rounds=40, groups=4 + seed % 6)

"""Changes of groups while messages are under way, in a naive network with any delays."""

from __future__ import annotations

import random
from collections import deque

import pytest

from sequencer.change import ChangeError
from sequencer.judging import invariants
from sequencer.overlaps.atoms import (
    Reroute,
    Rerouted,
    Retirements,
    ViewAtom,
    reroute_ingress,
)
from sequencer.overlaps.graph import build
from sequencer.overlaps.membership import (
    GroupIngress,
    RemovedGroupError,
    Subscriber,
    Views,
)
from sequencer.overlaps.ordering import DUPLICATE, HELD, HeldLimitError, Message
from tests.sequencer.overlaps.memberships import zipf

NAMES = "ABCDE"


class Changing:
    """As network.Network, with views: an ingress learns of a change at any later moment.

    Places are names of groups (their ingresses), (pair, view) for atoms, and subscribers.
    """

    atom_type = ViewAtom

    def __init__(self, seed, groups_max=4):
        self.rng = random.Random(seed)
        self.names = [f"G{number}" for number in range(groups_max)]
        self.views = Views()
        self.ingress = {name: GroupIngress(name) for name in self.names}
        self.atoms, self.queues = {}, {}
        self.subscribers = {name: Subscriber(name) for name in NAMES}
        self.bags = {name: [] for name in NAMES}
        self.histories = {name: [] for name in NAMES}
        self.destinations, self.sent, self.causes = {}, {}, []
        self.refused, self.number, self.retired = [], 0, 0
        self.retirements, self.gone, self.spliced = Retirements(), set(), 0

    def change(self):
        group = self.rng.choice(self.names)
        members = self.rng.sample(NAMES, self.rng.randint(1, 4))
        if group not in self.views.groups:
            self.views.add(group, members)
        elif self.rng.random() < 0.3:
            self.views.remove(group)
        else:
            self.views.set(group, members)

    def publish(self):
        if not self.views.groups:
            return
        group = self.rng.choice(sorted(self.views.groups))
        sender = self.rng.choice(sorted(self.views.groups[group]))
        body = f"m{self.number}"
        self.number += 1
        if self.histories[sender]:
            self.causes.append((self.histories[sender][-1], body))
        self.queues.setdefault((sender, group), deque()).append(Message(group, sender, body))
        self.sent.setdefault((sender, group), []).append(body)

    def moves(self):
        queues = [("queue", edge) for edge, queue in self.queues.items() if queue]
        bags = [("bag", name) for name, bag in self.bags.items() if bag]
        return queues + bags

    def move(self, kind, where):
        if kind == "queue":
            payload = self.queues[where].popleft()
            if isinstance(payload, Reroute):
                self.reroute(payload, where[1])
            elif isinstance(where[1], str):
                self.publish_at(payload)
            elif isinstance(payload, Rerouted):
                if where[1] not in self.gone:
                    self.after(where[1], self.atom(where[1]).rerouted(payload))
            else:
                source, message = payload
                self.after(where[1], self.atom(where[1]).take(message, source))
        else:
            bag = self.bags[where]
            at = self.rng.randrange(len(bag))
            message = bag[at] if self.rng.random() < 0.05 else bag.pop(at)
            _, out = self.subscribers[where].take(message, self.views)
            self.histories[where].extend(m.body for m in out if not m.last)

    def publish_at(self, message):
        ingress = self.ingress[message.group]
        try:
            numbered = ingress.publish(message, self.views)
        except RemovedGroupError:
            self.refused.append(message.body)
            return
        for one in numbered:
            self.leave(one, None, ingress.first[one.view])

    def atom(self, place):
        assert place not in self.gone, f"{place} has retired, and is asked again"
        pair, view = place
        if place not in self.atoms:
            self.atoms[place] = self.atom_type.of(self.views.views[view], pair)
        return self.atoms[place]

    def after(self, place, onward):
        pair, view = place
        atom = self.atoms[place]
        for message, to in onward.messages:
            self.leave(message, pair, to)
        for notice in onward.notices:
            self.queue(place, (notice.to, view), notice)
        self.retirements.settled(view, onward.settled)
        if atom.retired:
            del self.atoms[place]
            self.gone.add(place)
            self.retired += 1
        elif atom.gone and not atom.retiring and self.retirements.ask(view, pair, atom.following):
            self.spliced += 1
            for request in atom.retire():
                ((group, _), *_) = request.following
                before = group if request.to is None else (request.to, view)
                self.queue(("back", place), before, request)

    def reroute(self, request, place):
        notice = None
        if request.to is None:
            notice = reroute_ingress(self.ingress[place], request)
        elif place not in self.gone:
            notice = self.atom(place).reroute(request)
        if notice is not None:
            before = ("ingress", place) if request.to is None else place
            self.queue(before, (notice.to, notice.view), notice)

    def switch(self):
        ingress = self.ingress[self.rng.choice(self.names)]
        for one in ingress.switch(self.views) or ():
            self.leave(one, None, ingress.first[one.view])

    def leave(self, message, source, to):
        view = self.views.views[message.view]
        if not message.last:
            self.destinations[message.body] = view.groups[message.group]
        if to is None:
            for name in view.groups[message.group]:
                self.bags[name].append(message)
        else:
            before = ("ingress", message.group) if source is None else (source, message.view)
            self.queue(before, (to, message.view), (source, message))

    def queue(self, source, target, payload):
        self.queues.setdefault((source, target), deque()).append(payload)

    def run(self, publishing=14, changes=5):
        for _ in range(2):
            self.change()
        while True:
            moves = self.moves()
            if publishing and self.rng.random() < 0.25:
                self.publish()
                publishing -= 1
            elif changes and self.rng.random() < 0.06:
                self.change()
                changes -= 1
            elif self.rng.random() < 0.1:
                self.switch()
            elif moves:
                self.move(*self.rng.choice(moves))
            elif not publishing and not changes and not self.pending():
                return self

    def pending(self):
        return any(
            ingress.open != (name in self.views.groups)
            or self.views.start(name, ingress.view) is not None
            for name, ingress in self.ingress.items()
        )

    def anomaly(self):
        return (
            invariants.exactly_once(self.histories, self.destinations)
            or invariants.membership(self.histories, self.destinations)
            or invariants.sender_order(self.histories, self.sent)
            or invariants.acyclic(self.histories)
            or invariants.causality(self.histories, self.causes)
        )


def runs(seeds, **sizes):
    views = retired = spliced = 0
    for seed in seeds:
        world = Changing(seed).run(**sizes)
        assert world.anomaly() is None, f"seed {seed}: {world.anomaly()}"
        assert len(world.destinations) + len(world.refused) == world.number
        assert not any(subscriber.holding for subscriber in world.subscribers.values()), seed
        now = {world.views.starts[group][-1] for group in world.views.groups}
        assert {view for _, view in world.atoms} <= now, f"seed {seed}: an atom has not retired"
        assert not any(atom.early for atom in world.atoms.values()), seed
        views, retired = views + world.views.latest, retired + world.retired
        spliced += world.spliced
    assert views > len(seeds)
    assert retired > len(seeds) // 10
    assert spliced > len(seeds) // 10


def test_changes_keep_all_requirements():
    runs(range(200))


@pytest.mark.slow
def test_changes_keep_all_requirements_in_many_runs():
    runs(range(10_000, 30_000), publishing=20, changes=8)


class Hasty(GroupIngress):
    def _joins(self, _sender, _views):
        return False


class Forgetful(Changing):
    """Without a safeguard: which one, `broken` says."""

    def __init__(self, seed, broken):
        super().__init__(seed)
        self.broken = broken
        if broken == "joining senders":
            self.ingress = {name: Hasty(name) for name in self.names}

    def move(self, kind, where):
        if kind == "bag" and self.broken == "ends of all groups":
            subscriber = self.subscribers[where]
            if any(m.view > subscriber.view for m in self.bags[where]):
                subscriber.unended.clear()
        super().move(kind, where)


@pytest.mark.parametrize("broken", ["joining senders", "ends of all groups"])
def test_each_safeguard_is_needed(broken):
    found = (Forgetful(seed, broken).run().anomaly() for seed in range(300))
    assert next(filter(None, found), None) is not None


def test_refused_changes_change_nothing():
    views = Views(views_max=2)
    views.add("G0", ["A", "B"])
    for change, reason in [
        (lambda: views.add("G0", ["A"]), "group-exists"),
        (lambda: views.add("G1", []), "no-members"),
        (lambda: views.set("G1", ["A"]), "unknown-group"),
        (lambda: views.remove("G1"), "unknown-group"),
    ]:
        with pytest.raises(ChangeError) as refused:
            change()
        assert refused.value.reason == reason
        assert (views.latest, dict(views.groups)) == (1, {"G0": frozenset("AB")})
    views.set("G0", ["A"])
    with pytest.raises(ChangeError, match="forget") as full:
        views.set("G0", ["B"])
    assert full.value.reason == "too-many-views"
    views.forget(2)
    assert views.set("G0", ["B"]).number == 3
    with pytest.raises(ValueError, match="nothing was forgotten"):
        views.forget(4)


def test_views_are_built_for_the_nodes_that_there_are():
    groups = zipf(10, 40, 1)
    views = Views(nodes_max=2)
    for name, members in groups.items():
        view = views.add(name, members)
    assert set(view.groups) == set(groups)
    assert view.graph == build(groups, nodes_max=2)
    assert view.graph != build(groups)


def test_a_group_that_shares_nobody_is_left_alone():
    views = Views()
    views.add("G0", "AB")
    views.add("G9", "YZ")
    view = views.add("G1", "AB")
    assert set(view.groups) == {"G0", "G1"}
    assert views.starts == {"G0": [1, 3], "G9": [2], "G1": [3]}


def test_the_switch_is_a_message_at_one_place_for_all():
    views = Views()
    views.add("G0", "AB")
    ingress = GroupIngress("G0")
    (before,) = ingress.publish(Message("G0", "A", "x"), views)
    views.set("G0", "BC")
    last, after = ingress.publish(Message("G0", "C", "y"), views)
    assert [(m.view, m.number, m.last) for m in (before, last, after)] == [
        (1, 0, False),
        (1, 1, True),
        (2, 0, False),
    ]
    both = Subscriber("B")
    assert both.take(after, views) == (HELD, ())
    assert both.take(after, views) == (DUPLICATE, ())
    assert both.take(last, views) == (HELD, ())
    assert both.take(before, views)[1] == (before, last, after)
    assert both.take(last, views) == (DUPLICATE, ())
    assert Subscriber("C").take(after, views)[1] == (after,)


def test_a_removed_group_takes_nothing_until_it_is_added_again():
    views = Views()
    ingress = GroupIngress("G0")
    with pytest.raises(RemovedGroupError):
        ingress.publish(Message("G0", "A", "x"), views)
    views.add("G0", "AB")
    assert ingress.publish(Message("G0", "A", "x"), views)[0].number == 0
    views.remove("G0")
    (fin,) = ingress.switch(views)
    assert fin.last
    with pytest.raises(RemovedGroupError, match="was not taken"):
        ingress.publish(Message("G0", "A", "y"), views)
    views.add("G0", "AB")
    (again,) = ingress.publish(Message("G0", "A", "y"), views)
    assert (again.view, again.number) == (2, 0)


def test_the_limit_of_held_messages_counts_views_to_come():
    views = Views()
    views.add("G0", "A")
    views.set("G0", "AB")
    subscriber = Subscriber("A", held_max=1)
    assert subscriber.take(Message("G0", "A", 0, 0, view=2), views)[0] == HELD
    assert subscriber.take(Message("G0", "A", 0, 0, view=2), views) == (DUPLICATE, ())
    with pytest.raises(HeldLimitError, match="view 1"):
        subscriber.take(Message("G0", "A", 1, 1, view=1), views)
    with pytest.raises(HeldLimitError, match="view 2"):
        subscriber.take(Message("G0", "A", 1, 1, view=2), views)
    out = subscriber.take(Message("G0", "A", 0, 0, view=1, last=True), views)[1]
    assert [m.view for m in out] == [1, 2]


def test_a_duplicate_is_no_reason_to_refuse_at_the_limit():
    views = Views()
    views.add("G0", "A")
    subscriber = Subscriber("A", held_max=1)
    early = Message("G0", "A", 1, 1, view=1)
    assert subscriber.take(early, views)[0] == HELD
    assert subscriber.take(early, views) == (DUPLICATE, ())
    assert len(subscriber.take(Message("G0", "A", 0, 0, view=1), views)[1]) == 2
    assert subscriber.holding == 0

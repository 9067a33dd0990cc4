"""A naive network with any delays, in which groups change while messages are under way."""

from __future__ import annotations

import random
from collections import deque

from sequencer.groups.network.atoms import (
    Reroute,
    Rerouted,
    Retirements,
    ViewAtom,
    reroute_ingress,
)
from sequencer.groups.network.membership import (
    GroupIngress,
    RemovedGroupError,
    Subscriber,
    Views,
)
from sequencer.groups.network.ordering import GroupMessage
from tests.sequencer.groups.network.network import Network

NAMES = "ABCDE"


class Changing:
    """As network.Network, with views: an ingress learns of a change at any later moment.

    Places are names of groups (their ingresses), (pair, view) for atoms, and subscribers.
    """

    atom_type = ViewAtom
    anomaly = Network.anomaly

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
        self.queues.setdefault((sender, group), deque()).append(GroupMessage(group, sender, body))
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

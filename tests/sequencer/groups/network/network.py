"""A naive network: FIFO edges with any delays, and any order from the last atom to receivers."""

from __future__ import annotations

from collections import deque

from sequencer.groups.network.ordering import Atom, GroupMessage, Ingress, receivers
from sequencer.judging import invariants


class Network:
    """Every step moves one message by one hop; which one, the caller's random numbers choose."""

    def __init__(self, graph, groups, rng):
        self.graph, self.groups, self.rng = graph, groups, rng
        self.ingress = {group: Ingress(group) for group in groups}
        self.atoms = {pair: Atom(pair) for pair in graph.atoms}
        self.receivers = receivers(graph, groups)
        self.queues = {}  # a pair of places -> messages in order
        self.bags = {name: [] for name in self.receivers}
        self.histories = {name: [] for name in self.receivers}
        self.causes, self.sent, self.destinations, self.stamps = [], {}, {}, {}

    def publish(self, sender, group):
        body = f"m{len(self.destinations)}"
        self.destinations[body] = self.groups[group]
        self.sent.setdefault((sender, group), []).append(body)
        if self.histories.get(sender):
            self.causes.append((self.histories[sender][-1], body))
        self._queue((sender, group), GroupMessage(group, sender, body))

    def moves(self):
        bags = [("bag", name) for name, bag in self.bags.items() if bag]
        return [("queue", edge) for edge, queue in self.queues.items() if queue] + bags

    def move(self, kind, where):
        if kind == "queue":
            self._forward(where, self.queues[where].popleft())
        else:
            bag = self.bags[where]
            message = bag.pop(self.rng.randrange(len(bag)))
            _, out = self.receivers[where].take(message)
            self.histories[where].extend(m.body for m in out)

    def run(self, publishing, senders=None):
        """`publishing` messages at random moments; senders are members of their groups."""
        chosen = sorted(group for group in self.groups if self.groups[group])
        while True:
            moves = self.moves()
            if publishing and chosen and (not moves or self.rng.random() < 0.2):
                group = self.rng.choice(chosen)
                self.publish(self.rng.choice(senders or sorted(self.groups[group])), group)
                publishing -= 1
            elif moves:
                self.move(*self.rng.choice(moves))
            else:
                return self

    def anomaly(self):
        """The first broken requirement, or None; every message must have come everywhere."""
        return (
            invariants.exactly_once(self.histories, self.destinations)
            or invariants.membership(self.histories, self.destinations)
            or invariants.sender_order(self.histories, self.sent)
            or invariants.acyclic(self.histories)
            or invariants.causality(self.histories, self.causes)
        )

    def order_anomaly(self):
        return invariants.acyclic(self.histories)

    def _queue(self, edge, message):
        self.queues.setdefault(edge, deque()).append(message)

    def _forward(self, edge, message):
        path = self.graph.paths[message.group]
        if edge[1] == message.group:
            message = self.ingress[message.group].number(message)
            at = -1
        else:
            message = self.atoms[edge[1]].stamp(message)
            at = path.index(edge[1])
        if at + 1 < len(path):
            before = path[at] if at >= 0 else ("ingress", message.group)
            self._queue((before, path[at + 1]), message)
        else:
            self.stamps[message.body] = message.stamps
            for name in self.groups[message.group]:
                self.bags[name].append(message)

"""The protocol by message, in places that take their steps as shards do."""

from __future__ import annotations

from collections import deque

from sequencer.groups.network.atoms import ViewAtom
from sequencer.groups.network.membership import GroupIngress, RemovedGroupError, Subscriber, Views
from sequencer.groups.network.ordering import GroupMessage
from sequencer.groups.network.routes import arranged
from tests.sequencer.groups.network.shards import spread


class Messages:
    """Ingresses, atoms and subscribers, and a queue of (message, source, to) between any two places.

    ``to`` is the atom that comes next, None for the subscribers of a place. Views open, and places
    take from their queues, exactly when the shards do; what then comes of it is this form's own.
    """

    def __init__(self, *, places, nodes):
        self.places, self.nodes, self.where = places, nodes, spread(places)
        self.views = Views(nodes_max=nodes)
        self.hosting = {}  # view -> atom -> place
        self.ingresses, self.atoms, self.subscribers = {}, {}, {}
        self.links = {}
        self.ending = []  # groups, in the order in which their last messages are due
        self.histories = {}  # subscriber -> messages
        self.refused = []

    def change(self, op, group, members=()):
        """ChangeError where that is refused."""
        if op == "remove":
            self.views.remove(group)
            self.ending.append(group)
            return
        known = set(self.views.groups)
        view = (self.views.add if op == "add" else self.views.set)(group, members)
        # Shards count views from 0, and take turns with the nodes by that number.
        _, placed = arranged(view.groups, self.nodes, view.number - 1)
        self.hosting[view.number] = {pair: node % self.places for pair, node in placed.items()}
        self.ending += sorted(known & set(view.groups))

    def renew(self, group):
        """Open a view of a group and its neighbours with the members that they have."""
        self.change("set", group, self.views.groups[group])

    def round(self, taken, published):
        """A step of every place: so many messages of each queue, and what is published there."""
        out = []
        ending, self.ending = self.ending, []
        for place in range(self.places):
            arrived = [
                self.links[link].popleft()
                for link in sorted(self.links)
                if link[1] == place
                for _ in range(taken.get(link, 0))
            ]
            lasts = [self._end(group) for group in ending if self.where(group) == place]
            fresh = [self._publish(*each) for each in published if self.where(each[0]) == place]
            passing = [each for each in arrived if each[2] is not None]
            local = [message for message, _, to in arrived if to is None]
            for each in filter(None, [*lasts, *passing, *fresh]):
                for target, onward in self._pass(place, *each):
                    if target == place:
                        local.append(onward[0])
                    else:
                        out.append(((place, target), onward))
            for message in local:
                self._deliver(place, message)
        for link, onward in out:
            self.links.setdefault(link, deque()).append(onward)

    def _ingress(self, group):
        ingress = self.ingresses.setdefault(group, GroupIngress(group))
        while not ingress.open and ingress.switch(self.views) is not None:
            pass
        return ingress

    def _end(self, group):
        """The last message of the view that the group is in; then it may open the next one."""
        ingress = self._ingress(group)
        (last,) = ingress.switch(self.views)
        return last, None, ingress.first[last.view]

    def _publish(self, group, sender, body):
        ingress = self._ingress(group)
        try:
            (message,) = ingress.publish(GroupMessage(group, sender, body), self.views)
        except RemovedGroupError:
            self.refused.append(body)
            return None
        return message, None, ingress.first[message.view]

    def _pass(self, place, message, source, to):
        """Through the atoms of a place that come next; the places after it, with what they get."""
        hosting = self.hosting[message.view]
        while to is not None and hosting[to] == place:
            key = message.view, to
            if key not in self.atoms:
                self.atoms[key] = ViewAtom.of(self.views.views[message.view], to)
            ((message, after),) = self.atoms[key].take(message, source).messages
            source, to = to, after
        if to is not None:
            return [(hosting[to], (message, source, to))]
        members = self.views.views[message.view].groups[message.group]
        return [
            (target, (message, source, None)) for target in sorted(set(map(self.where, members)))
        ]

    def _deliver(self, place, message):
        members = self.views.views[message.view].groups[message.group]
        for name in sorted(name for name in members if self.where(name) == place):
            subscriber = self.subscribers.setdefault(name, Subscriber(name))
            _, delivered = subscriber.take(message, self.views)
            if new := [message for message in delivered if not message.last]:
                self.histories.setdefault(name, []).extend(new)

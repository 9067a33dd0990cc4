"""The same protocols as messages between shards: batches, delays, saved state, repeats."""

import pickle
import random

import pytest

from sequencer.judging.invariants import (
    acyclic,
    causality,
    exactly_once,
    membership,
    sender_order,
    stamp_order,
)
from sequencer.multicast.protocol.bus import ClockBus, CounterBus
from sequencer.multicast.protocol.shard import Shard
from sequencer.multicast.protocol.words import Destination, Destruction, Message, Notice, Request

BUSES = [ClockBus, CounterBus]
PEERS = [f"p{number}" for number in range(9)]


def home(name, shards):
    """Who holds a name; the counter, whose name is empty, has a home like any other."""
    return int(name[1:]) % shards if name else 0


class Cluster:
    """Shards and what is on its way between them, with any delay, by clocks in any order.

    By the counter, what goes from one shard to another stays in order.
    """

    def __init__(self, bus_type, shards, rng):
        self.bus_type, self.count, self.rng = bus_type, shards, rng
        self.transit = [[] for _ in range(shards)]
        self.shards = [self.shard(number) for number in range(shards)]
        self.histories = {peer: [] for peer in PEERS}
        self.ended = {}
        self.trips = 0

    def shard(self, number, state=None):
        bus = self.bus_type()
        if state is not None:
            bus.load(state)
        return Shard(bus, lambda name: home(name, self.count) == number)

    def arrivals(self, number):
        """Some of what is on its way to a shard."""
        waiting = self.transit[number]
        if self.bus_type is ClockBus:
            self.rng.shuffle(waiting)
            cut = dict.fromkeys(range(self.count), self.rng.randint(0, len(waiting)))
        else:
            # The stable sort mixes the links and keeps the order within each.
            mixed = {link: self.rng.random() for link in range(self.count)}
            waiting.sort(key=lambda item: mixed[item[0]])
            cut = {link: self.rng.randint(0, len(waiting)) for link in range(self.count)}
        taken, left, passed = [], [], dict.fromkeys(range(self.count), 0)
        for link, step in waiting:
            passed[link] += 1
            (taken if passed[link] <= cut[link] else left).append((link, step))
        self.transit[number] = left
        return [step for _, step in taken]

    def batch(self, number, sends):
        """One micro-batch of one shard, started from saved state and repeated once."""
        taken = self.arrivals(number)
        saved = pickle.dumps(self.shards[number].bus.state())
        results = []
        for _ in range(2):
            shard = self.shard(number, pickle.loads(saved))
            results.append(shard.pump(sends, taken))
        assert results[0].outgoing == results[1].outgoing
        assert results[0].deliveries == results[1].deliveries
        self.shards[number] = shard
        for step in results[1].outgoing:
            to = step.peer if isinstance(step, Request) else step.transaction.sender
            self.transit[home(to, self.count)].append((number, step))
        for peer, delivery in results[1].deliveries:
            self.histories[peer].append(delivery)
        for transaction in results[1].ended:
            self.ended[transaction.task.id] = transaction


def random_tasks(rng, count, nodes):
    tasks, doomed = [], list(nodes)
    for number in range(count):
        if doomed and rng.random() < 0.05:
            node = doomed.pop()
            tasks.append(Destruction(f"~{node}", nodes[node], node))
            continue
        places = [Destination(peer) for peer in PEERS]
        places += [Destination(owner, node) for node, owner in nodes.items()]
        to = tuple(rng.sample(places, rng.randint(1, 4)))
        handles = tuple(node for node in nodes if rng.random() < 0.1)
        owners = tuple(nodes[node] for node in handles)
        tasks.append(Message(number, rng.choice(PEERS), to, handles, owners))
    return tasks


def run_cluster(bus_type, shards, seed):
    rng = random.Random(seed)
    cluster = Cluster(bus_type, shards, rng)
    nodes = {f"n{number}": rng.choice(PEERS) for number in range(4)}
    for node, owner in nodes.items():
        party = "" if bus_type is CounterBus else owner
        kept = cluster.shards[home(party, shards)].bus.party(party)
        kept.nodes.create(node)
    tasks = random_tasks(rng, 60, nodes)
    causes = []
    todo = list(tasks)
    while todo or any(cluster.transit):
        number = rng.randrange(shards)
        mine = [task for task in todo if home(task.sender, shards) == number]
        mine = mine[: rng.randint(0, 3)]
        todo = [task for task in todo if task not in mine]
        read = {delivery.message for history in cluster.histories.values() for delivery in history}
        causes += [(cause, task.id) for task in mine for cause in read | cluster.ended.keys()]
        cluster.batch(number, mine)
    return tasks, causes, cluster


@pytest.mark.parametrize("bus_type", BUSES)
@pytest.mark.parametrize("seed", range(6))
def test_shards_keep_every_promise(bus_type, seed):
    tasks, causes, cluster = run_cluster(bus_type, shards=1 + seed % 4, seed=seed)
    assert cluster.ended.keys() == {task.id for task in tasks}
    histories = {
        peer: list(dict.fromkeys(delivery.message for delivery in history))
        for peer, history in cluster.histories.items()
    }
    stamps = {d.message: d.stamp for history in cluster.histories.values() for d in history}
    sent = {peer: [task.id for task in tasks if task.sender == peer] for peer in PEERS}
    assert acyclic(histories, causes if bus_type is CounterBus else ()) is None
    assert causality(histories, causes) is None
    assert sender_order(histories, sent) is None
    assert stamp_order(histories, stamps) is None
    parts = {
        peer: [(d.message, d.node) for d in history if not isinstance(d, Notice)]
        for peer, history in cluster.histories.items()
    }
    places = {}
    for task in tasks:
        end = cluster.ended[task.id]
        for to in task.destinations if isinstance(task, Message) and not end.refusal else ():
            if to.node not in end.gone:
                places.setdefault((task.id, to.node), []).append(to.peer)
    assert exactly_once(parts, places) is None
    assert membership(parts, places) is None


def trips_to_deliver(bus_type, tasks, deliveries):
    """Batches in lockstep until all is delivered; all tasks are of one sender."""
    shards = [Shard(bus_type(), lambda name, n=n: home(name, 3) == n) for n in range(3)]
    following = shards[home(tasks[0].sender, 3)].pump(tasks).outgoing
    trips, got = 0, []
    while len(got) < deliveries:
        trips += 1
        arrived, following = following, []
        for number, shard in enumerate(shards):
            here = [
                step
                for step in arrived
                if number
                == home(step.peer if isinstance(step, Request) else step.transaction.sender, 3)
            ]
            result = shard.pump([], here)
            got += [(peer, delivery.message) for peer, delivery in result.deliveries]
            following += result.outgoing
    for peer in PEERS:
        mine = [message for to, message in got if to == peer]
        assert mine == sorted(mine)
    return trips


def test_one_shard_needs_no_trip():
    many = [Message(n, "p0", (Destination("p1"), Destination("p2"))) for n in range(50)]
    for bus_type in BUSES:
        alone = Shard(bus_type(), lambda _: True).pump(many)
        assert alone.outgoing == ()
        assert [d.message for peer, d in alone.deliveries if peer == "p1"] == list(range(50))


def test_the_trips_between_shards_are_the_same_for_any_number_of_messages():
    """The sender, the counter and the destinations are on three shards."""
    both = (Destination("p2"), Destination("p5"))
    many = [Message(n, "p1", both[: 1 + n % 2]) for n in range(50)]
    assert trips_to_deliver(ClockBus, many[:1], 1) == 1
    assert trips_to_deliver(ClockBus, many[1:2], 2) == 5
    assert trips_to_deliver(ClockBus, many, 75) == 5
    assert trips_to_deliver(CounterBus, many[:1], 1) == 7
    assert trips_to_deliver(CounterBus, many, 75) == 7

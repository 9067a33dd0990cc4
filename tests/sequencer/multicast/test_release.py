"""Handles that are given back while messages with them are on their way, in any interleaving."""

import random
import time
from dataclasses import replace

import pytest

from sequencer.multicast.protocol.bus import ClockBus, CounterBus
from sequencer.multicast.protocol.shard import Shard
from sequencer.multicast.protocol.words import Delivery, Release, Released, Stamp

BUSES = {"clock": ClockBus, "counter": CounterBus}


class Run:
    """Sends, releases and destructions of one node `n`, as they are chosen one by one.

    ``plan``: what to start, in any order: ("send", id, sender, receivers), ("release", peer) or
    ("destroy",). ``held`` follows what each peer saw; ``given`` is the highest stamp with the handle.
    """

    def __init__(self, bus, owner, plan):
        self.bus, self.plan = bus, tuple(plan)
        bus.create_node("n", owner)
        self.peers = tuple(sorted({owner} | {p for each in plan for p in peers_of(each)}))
        self.held = frozenset()
        self.told = ()
        self.given = Stamp(0, "")

    def fork(self):
        other = object.__new__(Run)
        other.__dict__.update(self.__dict__)
        other.bus = self.bus.fork()
        return other

    def actions(self):
        return [
            *(("start", at) for at in range(len(self.plan))),
            *(("step", request) for request in self.bus.requests()),
            *(("read", peer) for peer in self.peers if self.bus.front(peer)),
        ]

    def do(self, action):
        kind, what = action
        if kind == "step":
            self.bus.do(what)
        elif kind == "read":
            self.read(what, self.bus.dequeue(what))
        else:
            task = self.plan[what]
            self.plan = (*self.plan[:what], *self.plan[what + 1 :])
            if task[0] == "send":
                self.bus.send(task[1], task[2], task[3], ["@n"])
            elif task[0] == "release":
                self.bus.release(task[1], "n")
                self.held -= {task[1]}
            else:
                self.bus.destroy("end", "n")

    def read(self, peer, got):
        if isinstance(got, Released):
            self.held -= {peer}
            return
        if isinstance(got, Delivery):
            assert peer not in self.told or not got.handles, "valid after the notice"
            self.held |= {peer} if got.handles else set()
            self.given = max(self.given, got.stamp) if got.handles else self.given
            return
        assert got.known == (peer in self.held), (
            f"{peer} holds, but is not told, or is and does not"
        )
        self.held -= {peer}
        self.told = (*self.told, peer)

    def key(self):
        return (self.bus.state(), self.plan, self.held, self.told, self.given)

    def judge_end(self, *, destroyed):
        """Who keeps the node knows exactly the holders, or has told all of them."""
        keeper = self.bus.party(self.bus.keeper(self.bus.owners["n"]))
        if destroyed:
            assert not self.held
            assert self.given < keeper.nodes.destroyed("n"), "what gave it comes before its end"
        assert set(keeper.nodes.holders("n")) == self.held
        for peer in self.peers:
            party = self.bus.party(peer)
            held = party.handles.held if hasattr(party, "handles") else party.held
            assert set(held) == ({"n"} if peer in self.held else set())


def peers_of(task):
    return [task[2], *task[3]] if task[0] == "send" else task[1:]


def explore(run, *, destroyed):
    """Every interleaving; how many states there were."""
    seen, layer = {run.key()}, [run]
    while layer:
        following = []
        for here in layer:
            actions = here.actions()
            if not actions:
                here.judge_end(destroyed=destroyed)
            for action in actions:
                there = here.fork()
                there.do(action)
                if (key := there.key()) not in seen:
                    seen.add(key)
                    following.append(there)
        layer = following
    return len(seen)


ONE = ("send", "A", "P", ("Q",))
SMALL = {
    "one message": [ONE, ("release", "Q")],
    "given again": [ONE, ("send", "B", "Q", ("Q",)), ("release", "Q")],
    "given back and destroyed": [ONE, ("release", "Q"), ("destroy",)],
    "two releases": [ONE, ("release", "Q"), ("release", "Q")],
}


@pytest.mark.parametrize("order", BUSES)
@pytest.mark.parametrize("owner", ["O", "Q"])
@pytest.mark.parametrize("name", SMALL)
def test_every_interleaving(order, owner, name):
    plan = SMALL[name]
    states = explore(Run(BUSES[order](), owner, plan), destroyed=("destroy",) in plan)
    assert states > 15


def random_plan(rng):
    peers = "PQRS"
    plan = [
        ("send", f"m{n}", rng.choice(peers), tuple(rng.sample(peers, rng.randint(1, 3))))
        for n in range(rng.randint(1, 6))
    ]
    plan += [("release", rng.choice(peers)) for _ in range(rng.randint(1, 5))]
    plan += [("destroy",)] * rng.randrange(2)
    return plan


def work(bus, seed):
    """A random plan in a random order, judged at its end."""
    rng = random.Random(seed)
    plan = random_plan(rng)
    run = Run(bus, rng.choice("OPQ"), plan)
    while actions := run.actions():
        run.do(rng.choice(actions))
    run.judge_end(destroyed=("destroy",) in plan)


@pytest.mark.parametrize("order", BUSES)
@pytest.mark.parametrize("block", range(4))
def test_random_interleavings(order, block):
    for seed in range(100 * block, 100 * block + 100):
        work(BUSES[order](), seed)


class TakesBackAll(ClockBus):
    """What the counts are for: here a release also takes back what messages on their way noted."""

    def release(self, peer, node):
        super().release(peer, node)
        self.let_go = tuple(replace(each, count=1000) for each in self.let_go)


def test_a_release_must_not_take_back_what_is_on_its_way():
    plan = [ONE, ("send", "B", "Q", ("Q",)), ("release", "Q")]
    with pytest.raises(AssertionError):
        explore(Run(TakesBackAll(), "O", plan), destroyed=False)


class OneSender(Run):
    """Everything is sent by the node's owner, one after the other: ("placed", id, peer) releases."""

    def actions(self):
        return [each for each in super().actions() if each[0] != "start" or each[1] == 0]

    def do(self, action):
        if action[0] == "start" and self.plan[0][0] == "placed":
            _, name, peer = self.plan[0]
            self.plan = self.plan[1:]
            self.bus.send_release(name, "P", peer, "n")
        else:
            super().do(action)

    def judge_end(self, *, destroyed):
        super().judge_end(destroyed=destroyed)
        assert (self.held, set(self.told)) == (self.expected, self.expected_told)


def taken_in_turn(run):
    """Who holds the handle in the end, and who is told, of one task after the other."""
    held, told = set(), set()
    for task in run.plan:
        if task[0] == "send":
            held |= set(task[3])
        elif task[0] == "placed":
            held -= {task[2]}
        else:
            told, held = held, set()
    return frozenset(held), told


BACK = ("placed", "back", "Q")
PLACED = {
    "given, given back": [ONE, BACK],
    "given back, given": [BACK, ONE],
    "given, given back, given": [ONE, BACK, ("send", "B", "P", ("Q",))],
    "given, given back, destroyed": [ONE, BACK, ("destroy",)],
    "given, destroyed, given back": [ONE, ("destroy",), BACK],
    "of two": [("send", "A", "P", ("Q", "R")), BACK, ("destroy",)],
}


@pytest.mark.parametrize("order", BUSES)
@pytest.mark.parametrize("name", PLACED)
def test_a_release_has_its_place_among_its_senders_messages(order, name):
    run = OneSender(BUSES[order](), "P", PLACED[name])
    run.expected, run.expected_told = taken_in_turn(run)
    assert explore(run, destroyed=("destroy",) in run.plan) > 10


@pytest.mark.parametrize("order", BUSES)
def test_a_destruction_comes_after_a_placed_release_of_another_sender(order):
    bus = BUSES[order]()
    bus.create_node("n", "O")
    for number in range(5):
        bus.send(number, "P", ["Q"], ["@n"])
    bus.send_release("back", "P", "Q", "n")
    bus.run()
    *given, back = (bus.dequeue("Q") for _ in range(6))
    assert isinstance(back, Released)
    bus.run()  # the owner hears of it
    bus.destroy("end", "n")
    bus.run()
    assert max(each.stamp for each in given) < bus.kept_nodes("O").destroyed("n")


@pytest.mark.parametrize("order", BUSES)
def test_the_time_for_many_releases_of_one_peer_does_not_grow_with_their_square(order):
    bus, count = BUSES[order](), 20_000
    bus.create_node("n", "O")
    began_s = time.process_time()
    tasks = [Release(number, "P", "Q", "n") for number in range(count)]
    pumped = Shard(bus, lambda _: True).pump(tasks)
    assert time.process_time() - began_s < 30, "with the square it is three minutes"
    assert len(pumped.deliveries) == count


def test_a_handle_is_on_its_way_until_all_deliveries_of_its_message_were_read():
    bus = CounterBus()
    bus.create_node("n", "O")
    for node in ("a", "b"):
        bus.create_node(node, "Q")
    bus.send("given", "P", ["@a", "@b"], ["@n"])
    bus.send("once more", "P", ["@b"], ["@n"])
    bus.run()
    bus = reloaded(bus)
    for node, taken_back in (("a", 0), ("b", 0), ("b", 2)):
        assert bus.dequeue("Q").node == node
        bus.release("Q", "n")
        assert sum(step.count for step in bus.let_go) == taken_back


def reloaded(bus):
    other = type(bus)()
    other.load(bus.state())
    return other

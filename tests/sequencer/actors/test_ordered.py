"""The text's own definitions under many delivery orders: the specification of the ordered proxy."""

import gc
import itertools
import random

import pytest

from sequencer.actors import system as actors
from sequencer.actors.ordered import (
    forward_beh,
    net_beh,
    ordered_label_beh,
    ordered_proxy_beh,
    sink_beh,
    src_beh,
)
from sequencer.actors.system import Actor, System
from tests.seeds import seeds
from tests.sequencer.actors.actor_runs import add_one, order_by_actors, printer


def test_the_first_fixture_of_the_text():
    arrivals = [(3, "w"), (1, "y"), (2, "x"), (0, "z")]
    for seed in range(50):
        assert order_by_actors(arrivals, 0, add_one, seed) == ["z", "y", "x", "w"]
        system = System(seed)  # the same, reaching the proxy in any order
        printed, println = printer(system)
        proxy = system.create(ordered_proxy_beh(println, 0, add_one))
        for arrival in arrivals:
            system.send(arrival, proxy)
        system.run()
        assert printed == ["z", "y", "x", "w"]


def test_the_second_fixture_of_the_text():
    disordered = 0
    for seed in range(200):
        system = System(seed)
        printed, println = printer(system)
        proxy = system.create(ordered_proxy_beh(println, 0, add_one))
        passed = []
        tap = system.create(lambda me, m: (passed.append(m[0]), me.send(m, proxy)))  # noqa: B023  (used at once)
        net = system.create(net_beh(system, tap, 0, 1000), "net")
        src = system.create(src_beh(net, 0, add_one), "src")
        system.send(list("abcdefghijk"), src)
        system.run()
        assert printed == list("abcdefghijk"), f"seed {seed}: the net passed {passed}"
        disordered += passed != sorted(passed)
        assert system.now < 1000
    assert disordered > 190, "the net hardly disturbed the order: nothing was tested"


def test_labels_attached_by_the_label_proxy():
    for seed in range(50):
        system = System(seed)
        printed, println = printer(system)
        proxy = system.create(ordered_proxy_beh(println, 0, add_one))
        net = system.create(net_beh(system, proxy, 10, 100))
        label = system.create(ordered_label_beh(net, 0, add_one))
        sender = system.create(lambda me, word: [me.send(c, label) for c in word])  # noqa: B023  (used at once)
        system.send("in order", sender)
        system.run()
        assert printed == list("in order")


def test_every_arrival_order_of_five_messages():
    for order in itertools.permutations(range(5)):
        assert order_by_actors([(n, n) for n in order], 0, add_one, 1) == [0, 1, 2, 3, 4], order


def test_a_label_that_never_comes_keeps_everything_behind_it_held():
    rest = [(n, n) for n in (0, 1, 3, 4, 5)]
    for seed in range(20):
        random.Random(seed).shuffle(rest)
        assert order_by_actors(rest, 0, add_one, seed) == [0, 1]


def test_the_text_relies_on_order_between_root_and_delegate():
    """Without it the root's own sends can pass each other on the way to the delegate."""
    system_order = []
    for seed in range(50):
        system = System(seed, fifo=False)
        printed, println = printer(system)
        proxy = system.create(ordered_proxy_beh(println, 0, add_one))
        for n in range(6):
            system.send((n, n), proxy)
        system.run()
        assert sorted(printed) == list(range(6))
        system_order.append(printed)
    assert any(order != sorted(order) for order in system_order)


def test_sink_forward_and_the_timer():
    system = System(0)
    printed, println = printer(system)
    system.send("lost", system.create(sink_beh()))
    system.send("passed on", system.create(forward_beh(println)))
    system.run()
    assert printed == ["passed on"]
    for delay, what in ((30, "c"), (10, "a"), (20, "b")):
        system.send((delay, what, println), system.timer)
    system.run()
    assert printed[1:] == ["a", "b", "c"]
    assert system.now == 30


def steps(system, arrival, proxy):
    """Deliveries until all is at rest again."""
    before = system.delivered
    system.send(arrival, proxy)
    system.run()
    return system.delivered - before


def holders():
    """The actors in memory that were made to hold a message."""
    # By its type: an object of another test may be a proxy for one that is gone, and says so.
    known = gc.get_objects()
    return [each for each in known if issubclass(type(each), Actor) and each.name == "delayed"]


@pytest.mark.parametrize("seed", seeds(2, 5))
@pytest.mark.parametrize("delayed", [1, 10, 100])
def test_forwarders_that_have_delivered_are_pruned(delayed, seed):
    gc.collect()
    system = System(seed)
    printed, println = printer(system)
    proxy = system.create(ordered_proxy_beh(println, 0, add_one))
    early = list(range(1, delayed + 1))
    random.Random(seed).shuffle(early)
    for n in early:
        steps(system, (n, n), proxy)
    assert len(holders()) == delayed
    steps(system, (0, 0), proxy)
    assert printed == list(range(delayed + 1))
    # To the proxy, to println, and the next label to the sink at the chain's end.
    assert [steps(system, (n, n), proxy) for n in range(delayed + 1, delayed + 20)][2:] == [3] * 17
    gc.collect()
    assert len(holders()) <= 1, "only the root's own link may still lead to one"
    steps(system, (delayed + 30, "early"), proxy)
    assert steps(system, (delayed + 20, "one holder"), proxy) == 4


@pytest.mark.parametrize("seed", range(50))
def test_pruning_lets_no_message_overtake_another(seed):
    """Three in a row, each of which becomes a forwarder while messages pass through it."""
    system = System(seed)
    printed, behind = printer(system)
    row = [behind]
    for name in "cba":

        def passes_on(me, message, following=behind):
            me.send(message, following)
            if message in (10, 20, 30) and random.Random(seed + message).random() < 0.7:
                me.become(forward_beh(following))

        behind = system.create(passes_on, name)
        row.append(behind)
    first = behind

    def sends(me, n):
        me.send(n, first)
        if n < 60:
            me.send(n + 1, me.actor)

    system.send(0, system.create(sends, "source"))
    system.run()
    assert printed == list(range(61))


def test_a_seed_gives_one_run_and_seeds_differ():
    def run(seed):
        system = System(seed)
        printed, println = printer(system)
        for n in range(20):
            system.send(n, println)
        system.run()
        return printed

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert sorted(run(1)) == list(range(20))


def test_actors_that_never_rest_are_stopped(monkeypatch):
    monkeypatch.setattr(actors, "DELIVERIES_MAX", 100)
    system = System(0)
    system.send(0, system.create(lambda me, n: me.send(n + 1, me.actor)))
    with pytest.raises(RuntimeError, match="did not come to rest within 100"):
        system.run()

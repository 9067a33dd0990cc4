"""What a message costs on both buses: steps, comparisons, and others that wait for it."""

from dataclasses import replace

import pytest

from sequencer.multicast.protocol.bus import ClockBus, CounterBus
from sequencer.multicast.protocol.clock_messages import Block, Enqueue, Probe
from sequencer.multicast.protocol.clock_transaction import ClockTransaction
from sequencer.multicast.protocol.counter_messages import COUNTER, CopyIn
from tests.sequencer.multicast.buses import BUSES, names, read
from tests.sequencer.multicast.counting import Counted, comparisons, lines


def steps_of(bus, message, to):
    bus.send(message, "P", to)
    count = 0
    while requests := bus.requests():
        bus.do(requests[0])
        count += 1
    return count


@pytest.mark.parametrize("destinations", [2, 3, 10, 40])
def test_a_multicast_takes_three_steps_for_each_destination_and_two(destinations):
    to = [f"d{number}" for number in range(destinations)]
    assert steps_of(ClockBus(), "a", to) == 3 * destinations + 2
    assert steps_of(CounterBus(), "a", to) == 2 * destinations + 2


def test_a_unicast_takes_one_step_at_its_destination():
    bus = ClockBus()
    assert steps_of(bus, "a", ["Q"]) == 3
    assert [type(r).__name__ for r in bus.requests()] == []
    bus.send("b", "P", ["Q"])
    asked = []
    while requests := bus.requests():
        asked += [(type(request).__name__, request.peer) for request in requests]
        bus.do(requests[0])
    assert asked == [("Probe", "P"), ("Arrive", "Q"), ("Sync", "P")]


def cost(bus_type, destinations, length):
    """(comparisons of timestamps, lines of Python) of one multicast to queues of this length."""
    bus = bus_type()
    to = [f"d{number}" for number in range(destinations)]
    for peer in to:
        party = bus.party(peer)
        for number in range(length):
            if bus_type is ClockBus:
                party.queue.arrive("X", Counted(0), [number])
            else:
                party.queue.copy_in(number, number, [number])
    bus.party("P")
    if bus_type is ClockBus:
        for peer in [*to, "P"]:
            bus.party(peer).queue.clock = Counted(length + 1)
    else:
        bus.party(COUNTER).value = Counted(length)
    bus.send("a", "P", to)
    requests = []

    def drive():
        while open_steps := bus.lines["P"].requests():
            requests.extend(open_steps)
            for request in open_steps:
                bus.do(request)

    count = {}
    count["lines"] = lines(lambda: count.update(compared=comparisons(drive)))
    assert any(isinstance(request, Enqueue | CopyIn) for request in requests)
    return count["compared"], count["lines"]


@pytest.mark.parametrize("bus_type", BUSES)
def test_a_message_costs_n_log_m(bus_type):
    """Linear in the destinations, at most logarithmic in the length of their queues."""
    few, few_lines = cost(bus_type, 20, 64)
    many, many_lines = cost(bus_type, 80, 64)
    assert few > 20
    assert many <= 4.4 * few
    assert many_lines <= 4.4 * few_lines
    long, long_lines = cost(bus_type, 20, 64 * 64)
    assert long <= 2.5 * few
    assert long_lines <= 2.5 * few_lines


class NoEstimate(ClockTransaction):
    """Blocks every destination at its own clock."""

    def _ask_block(self, target):
        return replace(super()._ask_block(target), estimate=0)


class WithoutEstimate(ClockBus):
    transaction_type = NoEstimate


def step(bus, kind, **fields):
    """Do the one step of this kind that fits."""
    (request,) = (
        each
        for each in bus.requests()
        if isinstance(each, kind) and all(getattr(each, n) == v for n, v in fields.items())
    )
    bus.do(request)
    return request


def test_each_block_is_placed_at_the_best_estimate_so_far():
    bus = ClockBus()
    for peer, clock in (("P", 3), ("Q", 9), ("R", 0)):
        bus.party(peer).queue.sync(clock)
    bus.send("a", "P", ["Q", "R"])
    step(bus, Probe)
    assert step(bus, Block, peer="Q").estimate == 3
    assert step(bus, Block, peer="R").estimate == 9
    assert bus.party("R").queue.clock == 9
    bus.run()
    assert read(bus, "R")[0].stamp == (10, "P")


@pytest.mark.parametrize(("bus_type", "waits"), [(ClockBus, False), (WithoutEstimate, True)])
def test_a_good_estimate_keeps_others_from_waiting(bus_type, waits):
    """X's message has timestamp 5; P's gets 11, so X's need not wait for it."""
    bus = bus_type()
    for peer, clock in (("X", 4), ("P", 10)):
        bus.party(peer).queue.sync(clock)
    bus.send("x", "X", ["Q", "S"])
    step(bus, Probe)
    step(bus, Block, peer="Q")
    bus.send("p", "P", ["Q", "R"])
    step(bus, Probe, peer="P")
    step(bus, Block, peer="Q")
    while own := [each for each in bus.requests() if each.transaction.sender == "X"]:
        bus.do(own[0])
    assert names(bus, "Q") == ([] if waits else ["x"])
    bus.run()
    assert names(bus, "Q") == (["x", "p"] if waits else ["p"])

"""Names of a bus: who hears of them before they are used, and peers that are forgotten."""

import pytest

from sequencer.multicast.protocol.bus import ClockBus, CounterBus


@pytest.mark.parametrize("bus_type", [ClockBus, CounterBus])
def test_whoever_keeps_idle_peers_elsewhere_hears_of_names_before_they_are_used(bus_type):
    heard = []

    def before_use(name):
        heard.append((name, name in bus.parties or name in bus.lines))

    bus = bus_type(before_use=before_use)
    bus.send("a", "P", "QR")
    bus.run()
    first = dict(reversed(heard))
    assert first.keys() >= {"P", "Q", "R"}
    assert not any(first.values())
    assert heard.count(("P", True)) > 1, "also for what is there already"
    heard.clear()
    bus.fork().dequeue("Q")
    assert heard == [("Q", True)]


def test_a_peer_that_comes_back_starts_above_what_it_told():
    bus = ClockBus()
    for number in range(3):
        bus.send(number, "P", "QR")
        bus.run()
    bus.forget("Q")
    assert "Q" not in bus.parties
    other = ClockBus()
    other.load(bus.state())
    for later in (bus, bus.fork(), other):
        later.forget("nobody")
        later.send("again", "S", "Q")
        later.run()
        assert later.dequeue("Q").stamp > (3, "P")

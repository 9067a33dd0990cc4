"""kdbus' flush by a message to oneself: what it is for, in every interleaving of small cases.

That a message's sending has ended does not mean that it can be read: what came before it at a queue
may still be on its way. So whoever is told of it by other means may act before it has read it, and
whoever does not find a message may take it for a later one. A message to oneself tells when all
that was sent before has been read.
"""

import pytest

from sequencer.multicast.protocol.bus import ClockBus, CounterBus

BUSES = [ClockBus, CounterBus]


def every_interleaving(begin, react, readers):
    """The worlds at the end of every order of steps and reads.

    A world is a bus, its transactions' names, and a log of what was seen. `begin(bus)` sends;
    `react(bus, log)` does, after every step and read, what the reader does of its own accord.
    """
    bus = begin(react.bus_type())
    worlds, seen, ends = [(bus, ())], set(), []
    while worlds:
        bus, log = worlds.pop()
        log = react(bus, log)
        key = (bus.state(), log)
        if key in seen:
            continue
        seen.add(key)
        further = []
        for request in bus.requests():
            other = bus.fork()
            ended = other.do(request)
            further.append((other, log + tuple(("sent", t.task.id, t.stamp) for t in ended)))
        for reader in readers:
            if bus.front(reader):
                other = bus.fork()
                further.append((other, (*log, (reader, other.dequeue(reader).message))))
        worlds += further
        if not further:
            ends.append(log)
    return ends


class Told:
    """bob, who is told by telephone that ann's news was sent, and acts on it.

    He first reads all that is there. With `flush` he sends himself a message when the telephone
    rings, and acts when he reads it.
    """

    def __init__(self, bus_type, *, flush):
        self.bus_type, self.flush = bus_type, flush

    def __call__(self, bus, log):
        rung = ("bob", "telephone") in log
        if not rung and any(entry[:2] == ("sent", "news") for entry in log):
            rung, log = True, (*log, ("bob", "telephone"))
            if self.flush:
                bus.send("barrier", "bob", ["bob"])
        ready = ("bob", "barrier") in log if self.flush else not bus.front("bob")
        if rung and ready and ("bob", "acts") not in log:
            log = (*log, ("bob", "acts"))
        return log


def news_and_something_slow(bus):
    bus.send("slow", "carl", ["bob", "eve"])
    bus.send("news", "ann", ["bob"])
    return bus


def acts_before_the_news(log):
    return log.index(("bob", "acts")) < log.index(("bob", "news"))


@pytest.mark.parametrize("bus_type", BUSES)
def test_who_is_told_by_other_means_acts_too_early_unless_he_flushes(bus_type):
    ends = every_interleaving(news_and_something_slow, Told(bus_type, flush=False), ["bob"])
    early = [log for log in ends if acts_before_the_news(log)]
    assert early, "the news was never late: there was nothing to flush"
    assert len(early) < len(ends)
    behind = [log for log in early if ("bob", "slow") in log[: log.index(("bob", "news"))]]
    assert behind, "the news was sent, and waited behind what was on its way"

    flushed = every_interleaving(news_and_something_slow, Told(bus_type, flush=True), ["bob"])
    assert flushed
    assert all(("bob", "acts") in log for log in flushed), "the barrier always comes back"
    assert not [log for log in flushed if acts_before_the_news(log)]


class Compares:
    """eve sees that bob has `first`, does not find `second` at her own queue, and concludes.

    With `flush` she looks again when a message to herself has come back.
    """

    def __init__(self, bus_type, *, flush):
        self.bus_type, self.flush = bus_type, flush

    def __call__(self, bus, log):
        if ("bob", "first") in log and ("eve", "looks") not in log:
            log = (*log, ("eve", "looks"))
            if self.flush:
                bus.send("barrier", "eve", ["eve"])
        looked = ("eve", "barrier" if self.flush else "looks") in log
        there = ("eve", "second") in log or (not self.flush and bus.front("eve"))
        if looked and not there and ("eve", "concludes") not in log:
            log = (*log, ("eve", "concludes"))
        return log


def two_that_cross(bus):
    bus.send("first", "ann", ["bob"])
    bus.send("second", "carl", ["bob", "eve"])
    return bus


def wrong(log):
    """She concluded that `second` comes after `first`, and bob got them the other way round."""
    return ("eve", "concludes") in log and log.index(("bob", "second")) < log.index(
        ("bob", "first")
    )


@pytest.mark.parametrize("bus_type", BUSES)
def test_who_does_not_find_a_message_may_be_wrong_about_its_place_unless_she_flushes(bus_type):
    ends = every_interleaving(two_that_cross, Compares(bus_type, flush=False), ["bob", "eve"])
    assert any(map(wrong, ends)), "what was not there always came later: there was nothing to flush"

    flushed = every_interleaving(two_that_cross, Compares(bus_type, flush=True), ["bob", "eve"])
    concluded = [log for log in flushed if ("eve", "concludes") in log]
    assert concluded, "she never came to a conclusion"
    assert not any(map(wrong, concluded))

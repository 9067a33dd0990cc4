"""Runs of the text's ordered proxy on the actor system."""

from sequencer.actors.ordered import ordered_proxy_beh
from sequencer.actors.system import System


def add_one(n):
    return n + 1


def printer(system):
    printed = []
    return printed, system.create(lambda _me, message: printed.append(message), "println")


def order_by_actors(arrivals, initial, succ, seed, *, fifo=True):
    """What the text's proxy gives its delegate; arrivals reach the proxy in the order given."""
    system = System(seed, fifo=fifo)
    printed, println = printer(system)
    proxy = system.create(ordered_proxy_beh(println, initial, succ), "proxy")
    for arrival in arrivals:  # a line of its own for each: the timer keeps their order
        system.now += 1
        system.send((system.now, arrival, proxy), system.timer)
        system.run()
    return printed

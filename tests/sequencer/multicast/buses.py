"""Both buses, and what their peers read."""

from sequencer.multicast.protocol.bus import ClockBus, CounterBus

BUSES = [ClockBus, CounterBus]


def read(bus, peer):
    deliveries = []
    while (delivery := bus.dequeue(peer)) is not None:
        deliveries.append(delivery)
    return deliveries


def names(bus, peer):
    return [delivery.message for delivery in read(bus, peer)]

"""What a message costs, counted in comparisons of timestamps, not measured in time.

Source: bus1 wiki, "Message ordering", section "Computational Complexity": a transaction costs
O(n log(m)), n being the destinations and m the length of their queues. What makes a queue longer
costs most when it comes between the steps of a transaction, so that the message has to find its
place among all of it: here `length` other messages come to every destination meanwhile. The cost
includes taking a message out of the full queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sequencer.multicast.protocol.bus import Bus, ClockBus, CounterBus
from sequencer.multicast.protocol.clock_messages import Arrive, Enqueue
from sequencer.multicast.protocol.counter_messages import COUNTER, Increment
from sequencer.multicast.protocol.words import Limits, Stamp

DESTINATIONS = (1, 2, 4, 8, 16, 32, 64)
LENGTHS = (16, 64, 256, 1024, 4096)
LENGTH_USUAL = 256
DESTINATIONS_USUAL = 8
# The steps before which the queues fill up.
_BEFORE_ITS_PLACE = (Arrive, Enqueue, Increment)


class Counted(int):
    """An integer that counts how often it is compared, and passes that on to what is above it."""

    compared = 0

    def __add__(self, other: int) -> Counted:
        return Counted(int(self) + other)

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) <= int(other)

    def __gt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) > int(other)

    def __ge__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) >= int(other)

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


def comparisons(call: Callable[[], object]) -> int:
    """How often `Counted` numbers are compared while something is done."""
    before = Counted.compared
    call()
    return Counted.compared - before


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one message: steps of the protocol, and comparisons, all destinations together."""

    order: str
    destinations: int
    length: int
    steps: int
    compared: int


def cost(bus_type: type[Bus], destinations: int, length: int) -> Cost:
    """The cost of one message to this many peers, each of which gets `length` others meanwhile."""
    clock = bus_type is ClockBus
    bus = bus_type(Limits(entries_max=length + 2))
    to = [f"d{number}" for number in range(destinations)]
    for peer in ("P", *to) if clock else ():
        bus.party(peer).queue.clock = Counted(0)
    if not clock:
        bus.party(COUNTER).value = Counted(0)
    steps = compared = 0
    filled = False
    bus.send("a", "P", to)
    while requests := bus.requests():
        for request in requests:
            if not filled and isinstance(request, _BEFORE_ITS_PLACE):
                filled = True
                for peer in to:
                    _fill(bus, peer, length)
            compared += comparisons(partial(bus.do, request))
            steps += 1
    for peer in to:
        compared += comparisons(bus.party(peer).queue.dequeue)
    return Cost("clock" if clock else "counter", destinations, length, steps, compared)


def growth(
    track: Callable[[Sequence[Any]], Any] = list,
    *,
    destinations: Sequence[int] = DESTINATIONS,
    lengths: Sequence[int] = LENGTHS,
) -> list[Cost]:
    """Both orders, for some numbers of destinations, then for some lengths of queues."""
    settings = [(bus, at, LENGTH_USUAL) for bus in (ClockBus, CounterBus) for at in destinations]
    settings += [(bus, DESTINATIONS_USUAL, at) for bus in (ClockBus, CounterBus) for at in lengths]
    return [cost(*setting) for setting in track(settings)]


def _fill(bus: Bus, peer: str, length: int) -> None:
    """Other messages, after this one's block or copy and before its place is known."""
    queue = bus.party(peer).queue
    for number in range(length):
        if isinstance(bus, ClockBus):
            queue.arrive("X", 0, [number])
        else:
            counter = bus.party(COUNTER)
            queue.copy_in(("X", peer, number), counter.value, [number])
            counter.value += 1
            queue.commit(("X", peer, number), Stamp(counter.value, "X"), [number])

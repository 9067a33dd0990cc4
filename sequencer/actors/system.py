"""A small deterministic actor system: send, create, become, a timer and dice.

It carries the definitions of "In-Order Message Delivery" (2011) as they stand (`ordered`),
so that they can be run under many delivery orders. Only causality is given: a message is delivered
after it was sent. With ``fifo``, messages from one actor to another also keep their order, as in
systems like Erlang; the rest stays arbitrary. Order and dice come from a seed, and time is virtual:
it passes only when nothing is left to deliver.

Forwarders are pruned, which the text leaves to the garbage collector: a message to an actor that
only forwards goes to the actor behind it, as soon as nothing is on its way to or from that actor.
So it cannot overtake an earlier one, and an actor that nobody needs any more is really gone.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

Behaviour = Callable[["Me", Any], None]
"""What an actor does with a message; ``Me`` is how it acts on the world while doing it."""

DELIVERIES_MAX = 1_000_000


class Actor:
    """An address, and the behaviour that its next message meets.

    ``under_way`` counts the messages to and from it that are not delivered yet.
    """

    __slots__ = ("behaviour", "name", "under_way")

    def __init__(self, name: str, behaviour: Behaviour) -> None:
        self.name = name
        self.behaviour = behaviour
        self.under_way = 0

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Forward:
    """A behaviour that sends each message on to ``following``, for ever."""

    __slots__ = ("following",)

    def __init__(self, following: Actor) -> None:
        self.following = following

    def __call__(self, me: Me, message: Any) -> None:
        """Send it on."""
        me.send(message, self.following)


class Me:
    """An actor while it handles one message (the text's SELF)."""

    __slots__ = ("_system", "actor")

    def __init__(self, system: System, actor: Actor) -> None:
        self._system = system
        self.actor = actor

    def send(self, message: Any, to: Actor) -> None:
        """SEND message TO actor."""
        self._system.post(self.actor, message, to)

    def create(self, behaviour: Behaviour, name: str = "actor") -> Actor:
        """NEW behaviour, or CREATE name WITH behaviour."""
        return self._system.create(behaviour, name)

    def become(self, behaviour: Behaviour) -> None:
        """BECOME behaviour: it meets the next message."""
        self.actor.behaviour = behaviour


class System:
    """Actors, the messages under way, and the virtual time ``now``.

    Two actors are there from the start. ``timer`` takes (delay, message, customer) and sends the
    message to the customer when the delay has passed; ``dice`` takes (customer, range) and sends
    the customer a number in 0 … range - 1. ``delivered`` counts deliveries.
    """

    def __init__(self, seed: int, *, fifo: bool = True) -> None:
        self._random = random.Random(seed)  # noqa: S311  (a simulation's dice)
        self._fifo = fifo
        self._under_way: list[tuple[Actor | None, Any, Actor]] = []
        self._timed: list[tuple[int, int, Any, Actor]] = []
        self._count = 0
        self.now = 0
        self.delivered = 0
        self.timer = self.create(self._time, "timer")
        self.dice = self.create(self._roll, "dice")

    def create(self, behaviour: Behaviour, name: str = "actor") -> Actor:
        """A new actor."""
        return Actor(name, behaviour)

    def send(self, message: Any, to: Actor) -> None:
        """Send from outside; in no order with other messages from outside."""
        self.post(None, message, to)

    def post(self, sender: Actor | None, message: Any, to: Actor) -> None:
        """Put a message under way."""
        to = _behind_forwarders(to)
        self._under_way.append((sender, message, to))
        to.under_way += 1
        if sender is not None:
            sender.under_way += 1

    def run(self) -> None:
        """Deliver until nothing is under way and no timer runs; RuntimeError after 1,000,000."""
        for _ in range(DELIVERIES_MAX):
            if not self._under_way:
                if not self._timed:
                    return
                self.now, _, message, customer = heapq.heappop(self._timed)
                self.post(self.timer, message, customer)
            sender, message, actor = self._under_way.pop(self._pick())
            actor.under_way -= 1
            if sender is not None:
                sender.under_way -= 1
            self.delivered += 1
            actor.behaviour(Me(self, actor), message)
        raise RuntimeError(f"the actors did not come to rest within {DELIVERIES_MAX} deliveries")

    def _pick(self) -> int:
        """A random message; with `fifo` the first one between its two actors."""
        picked = self._random.randrange(len(self._under_way))
        sender, _, receiver = self._under_way[picked]
        if not self._fifo or sender is None or sender is self.timer:
            return picked
        return next(
            n
            for n, (source, _, target) in enumerate(self._under_way)
            if source is sender and target is receiver
        )

    def _time(self, _: Me, message: Any) -> None:
        delay, what, customer = message
        self._count += 1  # equal times in the order in which the timer learnt of them
        heapq.heappush(self._timed, (self.now + delay, self._count, what, customer))

    def _roll(self, me: Me, message: Any) -> None:
        customer, sides = message
        me.send(self._random.randrange(sides), customer)


def _behind_forwarders(actor: Actor) -> Actor:
    """The actor that gets its messages, leaving idle forwarders out, for good."""
    passed = []
    while isinstance(actor.behaviour, Forward) and not actor.under_way:
        passed.append(actor.behaviour)
        actor = actor.behaviour.following
    for forward in passed:
        forward.following = actor
    return actor

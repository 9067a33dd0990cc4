"""The behaviours of "In-Order Message Delivery" (2011), written as the text has them.

Each function returns a behaviour; names and arguments are the text's. This is the executable
specification that `proxy` is tested against: every delayed message is an actor, which forwards
once it has delivered (`System` prunes such actors, so the chain is as long as what is delayed).
The text's local sends must keep their order between two actors (``System(fifo=True)``): the root
sends to the delegate one message after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sequencer.actors.system import Actor, Behaviour, Forward, Me, System

Next = Callable[[Any], Any]


def sink_beh() -> Behaviour:
    r"""``\_.[]``: ignores all messages."""
    return lambda _me, _message: None


def forward_beh(following: Actor) -> Behaviour:
    """Passes each message on to ``following``."""
    return Forward(following)


def ordered_label_beh(ordered: Actor, label: Any, succ: Next) -> Behaviour:
    """Attaches the current label to each message and goes on to the next label."""

    def behave(me: Me, message: Any) -> None:
        me.send((label, message), ordered)
        me.become(ordered_label_beh(ordered, succ(label), succ))

    return behave


def ordered_proxy_beh(delegate: Actor, label: Any, succ: Next) -> Behaviour:
    """Lazy constructor: becomes the root at the first message, and sends it that message again."""

    def behave(me: Me, message: Any) -> None:
        me.become(ordered_root_beh(me.create(sink_beh(), "sink"), delegate, label, succ))
        me.send(message, me.actor)

    return behave


def ordered_root_beh(delayed: Actor, delegate: Actor, label: Any, succ: Next) -> Behaviour:
    """Delivers the expected label, names the next to the delayed chain, delays all others."""

    def behave(me: Me, message: Any) -> None:
        arrived, content = message
        if arrived == label:
            me.send(content, delegate)
            following = succ(label)
            me.send(following, delayed)
            me.become(ordered_root_beh(delayed, delegate, following, succ))
        else:
            holder = me.create(ordered_delay_beh(me.actor, delayed, arrived, content), "delayed")
            me.become(ordered_root_beh(holder, delegate, label, succ))

    return behave


def ordered_delay_beh(root: Actor, delayed: Actor, label: Any, content: Any) -> Behaviour:
    """Gives its message back to the root when its label is expected; then only forwards."""

    def behave(me: Me, expected: Any) -> None:
        if expected == label:
            me.send((label, content), root)
            me.become(forward_beh(delayed))
        else:
            me.send(expected, delayed)

    return behave


def net_beh(system: System, cust: Actor, base: int, spread: int) -> Behaviour:
    """The network: each message reaches ``cust`` after base … base + spread - 1 of virtual time."""

    def behave(me: Me, message: Any) -> None:
        def after(k_random: Me, number: int) -> None:
            k_random.send((base + number, message, cust), system.timer)

        me.send((me.create(after, "k_random"), spread), system.dice)

    return behave


def src_beh(cust: Actor, label: Any, succ: Next) -> Behaviour:
    """Sends a list's messages to ``cust`` with labels; the tail goes back to itself."""

    def behave(me: Me, messages: list[Any]) -> None:
        if messages:
            head, *tail = messages
            me.send((label, head), cust)
            me.become(src_beh(cust, succ(label), succ))
            me.send(tail, me.actor)

    return behave

"""What is sent in a trial of a bus, and what was seen of it from outside.

All that is judged is in the `Evidence`: deliveries, ends of transactions, and what had been seen
before each send was started.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sequencer.multicast.protocol.words import Delivery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sequencer.multicast.protocol.words import Notice, Refused, Stamp


class Dequeued(NamedTuple):
    """A send waits until `peer` has dequeued `message`."""

    peer: str
    message: str


class Finished(NamedTuple):
    """A send waits until the sending of `message` has ended."""

    message: str


@dataclass(frozen=True, slots=True)
class Send:
    """A message to peers and `@nodes`, with handles to `@nodes`.

    `after` leaves out the interleavings in which a reaction would come before its cause.
    """

    id: str
    sender: str
    to: tuple[str, ...]
    handles: tuple[str, ...] = ()
    after: tuple[Dequeued | Finished, ...] = ()


@dataclass(frozen=True, slots=True)
class Destroy:
    """The destruction of a node by its owner; the notice has this id."""

    id: str
    node: str
    after: tuple[Dequeued | Finished, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """The sends of a trial; those of one sender are started in the order given here."""

    sends: tuple[Send | Destroy, ...]
    nodes: Mapping[str, str] = field(default_factory=dict)

    def sender(self, send: Send | Destroy) -> str:
        """Who sends it; a destruction: the owner of the node."""
        return send.sender if isinstance(send, Send) else self.nodes[send.node]

    def queues(self, send: Send | Destroy) -> set[str]:
        """The queues that it may touch: its sender's and its destinations'.

        A notice is for the owner and for all that are sent a handle to the node.
        """
        queues = {self.sender(send)}
        if isinstance(send, Send):
            return queues | {self.nodes[to[1:]] if to[0] == "@" else to for to in send.to}
        passing = (s for s in self.sends if isinstance(s, Send) and f"@{send.node}" in s.handles)
        return queues.union(*(self.queues(other) for other in passing))


class Action(NamedTuple):
    """One thing that can happen: `start` a send, carry out a `step`, or a peer's `dequeue`."""

    kind: str
    what: Any

    def __str__(self) -> str:
        if self.kind == "step":
            step = type(self.what).__name__.lower()
            return f"{step} {self.what.transaction.sender}#{self.what.transaction.serial}" + (
                f" at {self.what.peer}" if self.what.peer else ""
            )
        return f"{self.kind} {self.what}"


class Before(NamedTuple):
    """What had happened when a send was started, seen from outside.

    `by_sender`: its sender had dequeued these; `seen`: anyone had; `ended`: their sending had
    ended.
    """

    by_sender: frozenset[str]
    seen: frozenset[str]
    ended: frozenset[str]


class SendEnd(NamedTuple):
    """How the sending of a message ended."""

    stamp: Stamp | None
    gone: tuple[str, ...]
    refusal: Refused | None


@dataclass(frozen=True)
class Evidence:
    """A trial seen from outside.
    `strayed`: (message, peer) where a step of the message changed the queue of a peer that is
    neither its sender nor a destination.
    """

    scenario: Scenario
    histories: Mapping[str, tuple[Delivery | Notice, ...]]
    before: Mapping[str, Before]
    outcomes: Mapping[str, SendEnd]
    strayed: frozenset[tuple[str, str]]

    def messages(self) -> dict[str, tuple[Any, ...]]:
        """Each peer's messages in the order of delivery; for two of its nodes, listed once."""
        return {
            peer: tuple(dict.fromkeys(delivery.message for delivery in history))
            for peer, history in self.histories.items()
        }

    def expected(self) -> dict[tuple[str, str | None], set[str]]:
        """What is to be delivered: (message, node) -> peers, without what was destroyed.

        The node is None for a delivery to the peer itself. Messages that are not sent yet, or
        were refused, are left out, and so are the notices of destructions.
        """
        expected: dict[tuple[str, str | None], set[str]] = {}
        for send in self.scenario.sends:
            outcome = self.outcomes.get(send.id)
            if isinstance(send, Destroy) or outcome is None or outcome.refusal is not None:
                continue
            for name in send.to:
                node = name[1:] if name[0] == "@" else None
                if node is None:
                    expected.setdefault((send.id, None), set()).add(name)
                elif node not in outcome.gone:
                    expected.setdefault((send.id, node), set()).add(self.scenario.nodes[node])
        return expected

    def parts(self) -> dict[str, tuple[Any, ...]]:
        """Each peer's deliveries as (message, node), without notices."""
        return {
            peer: tuple((d.message, d.node) for d in history if isinstance(d, Delivery))
            for peer, history in self.histories.items()
        }

    def sent(self) -> dict[str, list[str]]:
        """Each sender's messages in the order in which they were started."""
        sent: dict[str, list[str]] = {}
        for send in self.scenario.sends:
            if send.id in self.before:
                sent.setdefault(self.scenario.sender(send), []).append(send.id)
        return sent

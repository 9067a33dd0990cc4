"""A scenario on its way through a bus, one action at a time.

A send is started, a step of the protocol is carried out, a peer dequeues: what chooses the
actions chooses the interleaving. Since what had been seen is kept for every send, a side channel
needs no modelling: in some interleaving each send is started just after any dequeue, or any end
of a transaction, of anyone.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Self

from sequencer.checking.scenarios import Action, Before, Evidence, Finished, Send, SendEnd
from sequencer.multicast.protocol.counter_messages import COUNTER
from sequencer.multicast.protocol.words import Delivery, Notice

if TYPE_CHECKING:
    from sequencer.checking.scenarios import Dequeued, Destroy, Scenario
    from sequencer.multicast.protocol.bus import Bus
    from sequencer.multicast.protocol.transaction import Transaction
    from sequencer.multicast.protocol.words import Request

LAST_PHASES = frozenset({"queue", "adopt", "cancel", "commit", "drop"})
"""What a transaction has not asked for in these it will not ask for any more."""


class Trial:
    """A scenario on its way through a bus, one action at a time.

    `numbers` maps states of the bus's parts to small numbers, the same for all forks: equal
    states have equal numbers, so `key` compares whole trials exactly.
    """

    def __init__(self, scenario: Scenario, bus: Bus) -> None:
        self.scenario = scenario
        self.bus = bus
        self.numbers: dict[Any, int] = {}
        self.histories: dict[str, tuple[Delivery | Notice, ...]] = {}
        self.before: dict[str, Before] = {}
        self.outcomes: dict[str, SendEnd] = {}
        self.strayed: frozenset[tuple[str, str]] = frozenset()
        self._known: dict[tuple[str, str], int] = {}
        self._names: dict[tuple[str, int], str] = {}
        self._sends = {send.id: send for send in scenario.sends}
        self._queues = {send.id: scenario.queues(send) for send in scenario.sends}
        self._parties = {
            send.id: self._queues[send.id]
            | {scenario.nodes[h[1:]] for h in (send.handles if isinstance(send, Send) else ())}
            for send in scenario.sends
        }
        for node, owner in scenario.nodes.items():
            bus.create_node(node, owner)
        for peer in sorted(
            set(scenario.nodes.values()).union(*map(scenario.queues, scenario.sends))
        ):
            bus.party(peer)
            self.histories[peer] = ()
        # All names from the start, so that the order of the key is not that of the events.
        noted = [("history", peer) for peer in self.histories] + [("strayed", "")]
        noted += [(kind, send.id) for send in scenario.sends for kind in ("before", "outcome")]
        self._noted = dict.fromkeys(noted, -1)

    def actions(self) -> list[Action]:
        """Everything that can happen next, in a fixed order."""
        actions = [Action("dequeue", peer) for peer in self.histories if self.bus.front(peer)]
        actions += [Action("step", request) for request in self.bus.requests()]
        idle: set[str] = set()
        for send in self.scenario.sends:
            sender = self.scenario.sender(send)
            if send.id not in self.before and sender not in idle:
                idle.add(sender)
                if all(map(self._happened, send.after)):
                    actions.append(Action("start", send.id))
        return actions

    def enough(self, actions: list[Action]) -> list[Action]:
        """Some of `actions`, such that trying these alone leads to every end of the trial.

        Once all sends are started, two actions at different peers commute: an action changes one
        peer and its own transaction, and what two steps of one transaction tell it adds up the
        same in either order, but for blocks, since the answer to one is the other's estimate.
        So the actions at one peer are enough, if whatever may still happen there comes after one
        of them: each transaction with anything left to do there is about to do something there.
        (In the words of partial-order reduction they are a persistent set.)
        """
        if len(self.before) < len(self.scenario.sends):
            return actions
        here: dict[str, list[Action]] = {}
        for action in actions:
            peer = action.what if action.kind == "dequeue" else action.what.peer
            here.setdefault(peer, []).append(action)
        flying = [t for line in self.bus.lines.values() for t in line.flying.values()]
        for peer, persistent in sorted(here.items(), key=lambda item: len(item[1])):
            about = {action.what.transaction for action in persistent if action.kind == "step"}
            if all(
                t.number in about and (t.phase != "block" or len(t.waiting) == 1)
                for t in flying
                if self._may_touch(t, peer)
            ):
                return persistent
        return actions

    def do(self, action: Action) -> None:
        """Let one of `actions` happen."""
        if action.kind == "dequeue":
            delivery = self.bus.dequeue(action.what)
            assert isinstance(delivery, Delivery | Notice)  # noqa: S101 -- it was offered
            self.histories[action.what] += (delivery,)
            self._note("history", action.what, delivery)
            self._known.pop(("party", action.what), None)
        elif action.kind == "start":
            self._start(self._sends[action.what])
        else:
            self._step(action.what)

    def fork(self) -> Self:
        """An independent trial in the same state."""
        other = object.__new__(type(self))
        for name in ("scenario", "numbers", "strayed", "_sends", "_queues", "_parties"):
            setattr(other, name, getattr(self, name))
        other.bus = self.bus.fork()
        for name in ("histories", "before", "outcomes", "_known", "_names", "_noted"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def key(self) -> bytes:
        """Equal for two forks of one trial if and only if nothing can tell them apart."""
        return array("q", (*self.record_key(), *self._part_numbers())).tobytes()

    def record_key(self) -> tuple[int, ...]:
        """Equal for two forks of one trial if and only if their records are."""
        return tuple(self._noted.values())

    def evidence(self) -> Evidence:
        """What was seen so far."""
        return Evidence(
            self.scenario,
            self.histories.copy(),
            self.before.copy(),
            self.outcomes.copy(),
            self.strayed,
        )

    def _start(self, send: Send | Destroy) -> None:
        sender = self.scenario.sender(send)
        by_sender = frozenset(str(delivery.message) for delivery in self.histories[sender])
        seen = frozenset(str(d.message) for history in self.histories.values() for d in history)
        self.before[send.id] = Before(by_sender, seen, frozenset(self.outcomes))
        self._note("before", send.id, self.before[send.id])
        if isinstance(send, Send):
            transaction = self.bus.send(send.id, send.sender, send.to, send.handles)
        else:
            transaction = self.bus.destroy(send.id, send.node)
        self._names[transaction.number] = send.id
        self._known.pop(("line", sender), None)
        if sum(self.scenario.sender(other) == sender for other in self.scenario.sends) == 1:
            # Starting earlier than this first step would change nothing but what was seen before
            # the start, and only ask for less.
            self._step(transaction.requests()[0])

    def _step(self, request: Request) -> None:
        name, peer = self._names[request.transaction], request.peer
        outside = peer != COUNTER and peer not in self._queues[name]
        was = self.bus.party(peer).queue.state() if outside else None
        for transaction in self.bus.do(request):
            message = self._names[transaction.number]
            outcome = SendEnd(
                transaction.stamp, tuple(sorted(transaction.gone)), transaction.refusal
            )
            self.outcomes[message] = outcome
            self._note("outcome", message, outcome)
        if outside and self.bus.party(peer).queue.state() != was:
            self.strayed |= {(name, peer)}
            self._note("strayed", "", self.strayed)
        # A reply to another sender can come with a step on a node only.
        changed = self.bus.lines if self.scenario.nodes else (request.transaction.sender,)
        for sender in changed:
            self._known.pop(("line", sender), None)
        self._known.pop(("party", peer), None)

    def _may_touch(self, transaction: Transaction, peer: str) -> bool:
        if peer in transaction.waiting:
            return True
        if transaction.phase in LAST_PHASES:
            return False
        send = self._sends[self._names[transaction.number]]
        return peer == COUNTER or peer in self._parties[send.id]

    def _happened(self, event: Dequeued | Finished) -> bool:
        if isinstance(event, Finished):
            return event.message in self.outcomes
        history = self.histories.get(event.peer, ())
        return any(delivery.message == event.message for delivery in history)

    def _note(self, kind: str, name: str, fact: Any) -> None:
        """Follow up the evidence's key: what was noted under this name, and now the fact."""
        noted = (kind, name, self._noted[kind, name], fact)
        self._noted[kind, name] = self.numbers.setdefault(noted, len(self.numbers))

    def _part_numbers(self) -> list[int]:
        parties = [self._number("party", name, part) for name, part in self.bus.parties.items()]
        return parties + [
            self._number("line", name, self.bus.lines[name]) if name in self.bus.lines else -1
            for name in self.histories
        ]

    def _number(self, kind: str, name: str, part: Any) -> int:
        number = self._known.get((kind, name))
        if number is None:
            number = self.numbers.setdefault((kind, name, part.state()), len(self.numbers))
            self._known[kind, name] = number
        return number

"""What must hold of delivered messages, judged from the deliveries alone.

Every check takes plain histories (receiver -> its messages in the order of delivery) and returns
None, or an `Anomaly` with a name and a witness as small as it can be made. None of them looks at
timestamps, sequence numbers or other state of the protocol that made the order, except
`stamp_order`, which holds the order against stamps that were delivered with the messages.

All checks are linear in the deliveries as long as nothing is wrong.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sequencer.judging.cycles import DeliveryGraph, Hop, effect_first, inverted_pair, shortest_cycle

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence


PAIRWISE_ORDER = "pairwise-order"
ACYCLIC = "acyclic"
EXACTLY_ONCE = "exactly-once"
MEMBERSHIP = "membership"
SENDER_ORDER = "sender-order"
CAUSALITY = "causality"
STAMP_ORDER = "stamp-order"


@dataclass(frozen=True, slots=True)
class Got:
    """`receiver` got `first` at its position `at` and `second` later, at `then` (from 0)."""

    receiver: Hashable
    first: Hashable
    second: Hashable
    at: int
    then: int

    def __str__(self) -> str:
        return f"{self.receiver} got {self.first} (at {self.at}) before {self.second} ({self.then})"


@dataclass(frozen=True, slots=True)
class Caused:
    """`cause` happened before `effect` was sent."""

    cause: Hashable
    effect: Hashable

    def __str__(self) -> str:
        return f"{self.cause} happened before {self.effect}"


@dataclass(frozen=True, slots=True)
class Sent:
    """`sender` sent `first` before `second`."""

    sender: Hashable
    first: Hashable
    second: Hashable

    def __str__(self) -> str:
        return f"{self.sender} sent {self.first} before {self.second}"


@dataclass(frozen=True, slots=True)
class Receipts:
    """`receiver` got `message` at all these positions; never, if there are none."""

    receiver: Hashable
    message: Hashable
    positions: tuple[int, ...]

    def __str__(self) -> str:
        if not self.positions:
            return f"{self.receiver} never got {self.message}"
        where = ", ".join(map(str, self.positions))
        return f"{self.receiver} got {self.message} {len(self.positions)} times (at {where})"


@dataclass(frozen=True, slots=True)
class Stray:
    """`receiver` got `message` at position `at`, though it is no destination of it."""

    receiver: Hashable
    message: Hashable
    at: int

    def __str__(self) -> str:
        return f"{self.receiver} got {self.message} (at {self.at}) and is no destination of it"


@dataclass(frozen=True, slots=True)
class Stamped:
    """`message` carries `stamp`."""

    message: Hashable
    stamp: object

    def __str__(self) -> str:
        return f"{self.message} carries {self.stamp}"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something observed that is not of the other kinds, in words."""

    text: str

    def __str__(self) -> str:
        return self.text


Witness = Fact | Got | Caused | Sent | Receipts | Stray | Stamped


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A broken requirement: its name and the facts that cannot all be true if it holds."""

    name: str
    witness: tuple[Witness, ...]

    def __str__(self) -> str:
        return f"{self.name}: " + "; ".join(map(str, self.witness))


def acyclic(
    histories: Mapping[Any, Sequence[Any]],
    causes: Iterable[tuple[Any, Any]] = (),
) -> Anomaly | None:
    """One order of all messages exists that every history, and every cause, agrees with.

    Where two receivers disagree on a pair, the anomaly is PAIRWISE_ORDER; without causes a
    cycle has otherwise three receivers or more. `causes` are (cause, effect) pairs. With causes
    this is more than `causality` asks for: a queue order may put an effect before its cause as
    long as nobody can see it, one counter for all may not.
    """
    graph = DeliveryGraph(histories, causes)
    knots = graph.knots()
    for knot in knots:
        pair = inverted_pair(knot)
        if pair:
            return Anomaly(PAIRWISE_ORDER, _words(graph, histories, pair))
    if not knots:
        return None
    cycles = [shortest_cycle(knot, 2 if len(graph.causes) else 3) for knot in knots]
    shortest = min(cycles, key=len)
    return Anomaly(ACYCLIC, _words(graph, histories, shortest))


def causality(
    histories: Mapping[Any, Sequence[Any]],
    causes: Iterable[tuple[Any, Any]],
) -> Anomaly | None:
    """Nobody gets an effect before its cause, over any number of steps from one to the other.

    `causes` are (cause, effect) pairs; they are closed over here, and may run through points
    that are no messages (an instant, an outside event). Raises ValueError if they are cyclic.
    """
    causes = list(causes)
    graph = DeliveryGraph(histories, causes)
    knots = graph.knots()
    if knots and DeliveryGraph({}, causes).knots():
        raise ValueError("the causes form a cycle: no order can agree with them")
    for knot in knots:
        hops = effect_first(knot)
        if hops:
            return Anomaly(CAUSALITY, _words(graph, histories, hops))
    return None


def exactly_once(
    histories: Mapping[Any, Sequence[Any]],
    destinations: Mapping[Any, Collection[Any]],
    *,
    complete: bool = True,
) -> Anomaly | None:
    """Every destination of a message got it once; not `complete`: at most once."""
    for receiver, history in histories.items():
        if len(set(history)) < len(history):
            double = Counter(history).most_common(1)[0][0]
            places = tuple(at for at, message in enumerate(history) if message == double)
            return Anomaly(EXACTLY_ONCE, (Receipts(receiver, double, places),))
    if complete:
        got = {receiver: set(history) for receiver, history in histories.items()}
        nothing: set[Hashable] = set()
        for message, receivers in destinations.items():
            for receiver in receivers:
                if message not in got.get(receiver, nothing):
                    return Anomaly(EXACTLY_ONCE, (Receipts(receiver, message, ()),))
    return None


def membership(
    histories: Mapping[Any, Sequence[Any]],
    destinations: Mapping[Any, Collection[Any]],
) -> Anomaly | None:
    """Nobody got a message that was not for it, or that was never sent."""
    for receiver, history in histories.items():
        for at, message in enumerate(history):
            if receiver not in destinations.get(message, ()):
                return Anomaly(MEMBERSHIP, (Stray(receiver, message, at),))
    return None


def sender_order(
    histories: Mapping[Any, Sequence[Any]],
    sent: Mapping[Any, Sequence[Any]],
) -> Anomaly | None:
    """A receiver of two messages of one sender gets them in the order of sending.

    `sent` maps a sender (or a sender and a group: whatever keeps one order) to its messages in
    the order of sending. Messages that nobody is known to have sent are passed over.
    """
    rank = {
        message: (sender, number)
        for sender, messages in sent.items()
        for number, message in enumerate(messages)
    }
    for receiver, history in histories.items():
        latest: dict[Hashable, int] = {}
        for message in dict.fromkeys(history):
            if message not in rank:
                continue
            sender, number = rank[message]
            if latest.get(sender, -1) > number:
                later = sent[sender][latest[sender]]
                return Anomaly(
                    SENDER_ORDER,
                    (Sent(sender, message, later), _got(receiver, history, later, message)),
                )
            latest[sender] = number
    return None


def stamp_order(
    histories: Mapping[Any, Sequence[Any]], stamps: Mapping[Any, tuple[Any, ...]]
) -> Anomaly | None:
    """Every history rises in the stamps that came with the messages, without equal ones."""
    for receiver, history in histories.items():
        for first, second in pairwise(history):
            if not stamps[first] < stamps[second]:
                facts = (
                    _got(receiver, history, first, second),
                    Stamped(first, stamps[first]),
                    Stamped(second, stamps[second]),
                )
                return Anomaly(STAMP_ORDER, facts)
    return None


def _words(
    graph: DeliveryGraph,
    histories: Mapping[Any, Sequence[Any]],
    hops: Iterable[Hop],
) -> tuple[Witness, ...]:
    facts: list[Witness] = []
    for hop in hops:
        first, second = graph.messages[hop.first], graph.messages[hop.second]
        if hop.receiver < 0:
            facts.append(Caused(first, second))
        else:
            receiver = graph.receivers[hop.receiver]
            facts.append(_got(receiver, histories[receiver], first, second))
    return tuple(facts)


def _got(receiver: Hashable, history: Sequence[Any], first: Hashable, second: Hashable) -> Got:
    order = list(history)
    return Got(receiver, first, second, order.index(first), order.index(second))

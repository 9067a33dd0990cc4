"""The requirements of bus1 and kdbus by their names, judged from a trial's evidence.

Sources: bus1 wiki, "Message ordering", and kdbus, "Message Ordering". `bus1(evidence, ended)` and
`kdbus(evidence, ended)` give the first requirement that does not hold, with a witness. While a
trial goes on, losses are not looked for; when it has `ended`, everything must be there.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from sequencer.checking.scenarios import Destroy, Send
from sequencer.judging.invariants import (
    Anomaly,
    Fact,
    Stamped,
    acyclic,
    causality,
    exactly_once,
    membership,
    sender_order,
    stamp_order,
)
from sequencer.multicast.protocol.words import Delivery, Notice

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    Check = Callable[["Evidence", bool], Anomaly | None]

    from sequencer.checking.scenarios import Evidence
    from sequencer.multicast.protocol.words import Stamp


def bus1(evidence: Evidence, ended: bool) -> Anomaly | None:
    """The first of bus1's requirements that is broken, or None.

    What a sender has read itself is below its stamps, so with that one order of all messages
    exists. What others have read, and passed on by other means, is below them only where a queue
    gets both messages.
    """
    return _first(BUS1, evidence, ended)


def kdbus(evidence: Evidence, ended: bool) -> Anomaly | None:
    """The first of kdbus' requirements that is broken, or None.

    One counter gives more than bus1's clocks do: one order of all messages that agrees with
    what happened before what, also among messages that no receiver has in common.
    """
    return _first(KDBUS, evidence, ended)


def only(name: str, checks: Mapping[str, Check]) -> Check:
    """A judge that looks at one requirement."""

    def judge(evidence: Evidence, ended: bool) -> Anomaly | None:
        anomaly = checks[name](evidence, ended)
        return None if anomaly is None else replace(anomaly, name=name)

    return judge


def _first(checks: Mapping[str, Check], evidence: Evidence, ended: bool) -> Anomaly | None:
    # One order for everything, which is nearly always there, is more than any check of an order.
    ordered = acyclic(evidence.messages(), _causes(evidence, "seen", "ended")) is None
    for name, check in checks.items():
        anomaly = None if ordered and name in ORDERS else check(evidence, ended)
        if anomaly is not None:
            return replace(anomaly, name=name)
    return None


def _causes(evidence: Evidence, *kinds: str) -> list[tuple[str, str]]:
    """What had happened before a send, of these kinds, and the sender's own earlier sends."""
    causes = {
        (cause, effect)
        for effect, before in evidence.before.items()
        for kind in kinds
        for cause in getattr(before, kind)
    }
    # Sorted, so that the same trial gives the same witness.
    return sorted(causes.union(*(pairwise(messages) for messages in evidence.sent().values())))


def _one_order(evidence: Evidence, *kinds: str) -> Anomaly | None:
    """All histories, and all causes of these kinds, fit into one order of all messages."""
    return acyclic(evidence.messages(), _causes(evidence, *kinds) if kinds else ())


def _causality(evidence: Evidence, *kinds: str) -> Anomaly | None:
    return causality(evidence.messages(), _causes(evidence, *kinds))


def _sender_order(evidence: Evidence) -> Anomaly | None:
    return sender_order(evidence.messages(), evidence.sent())


def _locality(evidence: Evidence) -> Anomaly | None:
    """No step of a message touched a queue besides the sender's and the destinations'."""
    for message, peer in sorted(evidence.strayed):
        return Anomaly("", (Fact(f"{message} is not for {peer}, but touched its queue"),))
    return None


def _right_places(evidence: Evidence) -> Anomaly | None:
    """Nobody got what was not for it; a message still under way may be at all its destinations."""
    allowed: dict[Hashable, set[Hashable]] = {}
    for send in evidence.scenario.sends:
        for name in send.to if isinstance(send, Send) else ():
            node = name[1:] if name[0] == "@" else None
            peer = evidence.scenario.nodes[node] if node else name
            allowed.setdefault((send.id, node), set()).add(peer)
    return membership(evidence.parts(), allowed)


def _once(evidence: Evidence, ended: bool) -> Anomaly | None:
    if ended:
        for send in evidence.scenario.sends:
            if send.id in evidence.before and send.id not in evidence.outcomes:
                return Anomaly("", (Fact(f"{send.id} was never sent to its end"),))
    return exactly_once(evidence.parts(), evidence.expected(), complete=ended)


def _stamps(evidence: Evidence) -> Anomaly | None:
    """Histories rise in the stamps, all copies of a message have one, and no two messages one."""
    stamps: dict[Hashable, Stamp] = {}
    for history in evidence.histories.values():
        for delivery in history:
            if stamps.setdefault(delivery.message, delivery.stamp) != delivery.stamp:
                both = (stamps[delivery.message], delivery.stamp)
                return Anomaly("", tuple(Stamped(delivery.message, stamp) for stamp in both))
    taken: dict[Stamp, Hashable] = {}
    for message, stamp in stamps.items():
        other = taken.setdefault(stamp, message)
        if other != message:
            return Anomaly("", (Stamped(other, stamp), Stamped(message, stamp)))
    return stamp_order(evidence.messages(), stamps)


def _ends(evidence: Evidence) -> Iterator[tuple[Destroy, Stamp]]:
    for send in evidence.scenario.sends:
        outcome = evidence.outcomes.get(send.id)
        if isinstance(send, Destroy) and outcome and outcome.stamp is not None:
            yield send, outcome.stamp


def _destination_nodes(evidence: Evidence) -> Anomaly | None:
    """Delivered if ordered before the node's destruction, not if after.

    Ordered by stamps, and by what can be seen: a message sent after the destruction had ended
    comes too late, a destruction started after the message had ended does.
    """
    for end, end_stamp in _ends(evidence):
        for send in evidence.scenario.sends:
            outcome = evidence.outcomes.get(send.id)
            if not (isinstance(send, Send) and outcome and f"@{end.node}" in send.to):
                continue
            refused = outcome.refusal is not None
            lost = refused or end.node in outcome.gone
            wrong = not refused and (outcome.stamp < end_stamp) == lost  # type: ignore[operator]
            wrong |= not lost and end.id in evidence.before[send.id].ended
            wrong |= lost and send.id in evidence.before[end.id].ended
            if wrong:
                text = f"{send.id} ({outcome.stamp}) was {'not ' * lost}delivered to {end.node}"
                return Anomaly("", (Fact(text), Fact(f"destroyed by {end.id} at {end_stamp}")))
    return None


def _passed_handles(evidence: Evidence, ended: bool) -> Anomaly | None:
    """A handle is valid if its message is ordered before the destruction, else invalid.

    So a valid handle is never received after the notice, and is followed by it; and a notice
    comes as known exactly to those who got a valid handle.
    """
    ends = {end.node: (end, stamp) for end, stamp in _ends(evidence)}
    for peer, history in evidence.histories.items():
        held: set[str] = set()
        for delivery in history:
            if isinstance(delivery, Notice):
                if delivery.known != (delivery.node in held):
                    state = "as known" if delivery.known else "as unknown"
                    return Anomaly("", (Fact(f"{peer} got {delivery.message} {state}"),))
                held.discard(delivery.node)
                continue
            held.update(delivery.handles)
            wrong = _wrong_handle(evidence, delivery, ends)
            if wrong is None:
                wrong = _after_notice(history, delivery)
            if wrong:
                return Anomaly("", (Fact(f"{peer} got {delivery.message}: {wrong}"),))
        if ended and held & ends.keys():
            text = f"{peer} holds {sorted(held & ends.keys())} and never got the notice"
            return Anomaly("", (Fact(text),))
    return None


def _wrong_handle(
    evidence: Evidence, delivery: Delivery, ends: dict[str, tuple[Destroy, Stamp]]
) -> str | None:
    for node in (*delivery.handles, *delivery.handles_invalid):
        valid = node in delivery.handles
        if node not in ends:
            if not valid and all(
                not isinstance(s, Destroy) or s.node != node or s.id not in evidence.before
                for s in evidence.scenario.sends
            ):
                return f"handle {node} is invalid, though nobody destroys the node"
            continue
        end, stamp = ends[node]
        wrong = valid != (delivery.stamp < stamp)
        wrong |= valid and end.id in evidence.before[str(delivery.message)].ended
        wrong |= not valid and str(delivery.message) in evidence.before[end.id].ended
        if wrong:
            state = "valid" if valid else "invalid"
            return f"handle {node} is {state} at {delivery.stamp}, destroyed at {stamp}"
    return None


def _after_notice(history: tuple[Delivery | Notice, ...], delivery: Delivery) -> str | None:
    earlier = history[: history.index(delivery)]
    for other in earlier:
        if isinstance(other, Notice) and other.node in delivery.handles:
            return f"handle {other.node} is valid after its notice {other.message}"
    return None


_COMMON: dict[str, Check] = {
    "destinations": lambda evidence, _: _right_places(evidence),
    "exactly-once": _once,
    "stamps": lambda evidence, _: _stamps(evidence),
    "destination-node": lambda evidence, _: _destination_nodes(evidence),
    "passed-handle": _passed_handles,
}
BUS1: dict[str, Check] = {
    "consistency": lambda evidence, _: _one_order(evidence),
    "causality": lambda evidence, _: _one_order(evidence, "by_sender"),
    "causality-side-channel": lambda evidence, _: _causality(evidence, "seen", "ended"),
    "sender-order": lambda evidence, _: _sender_order(evidence),
    "locality": lambda evidence, _: _locality(evidence),
    **_COMMON,
}
"""bus1's requirements by name."""
KDBUS: dict[str, Check] = {
    "local-queue-order": lambda evidence, _: _sender_order(evidence),
    "atomicity": lambda evidence, _: _one_order(evidence),
    "local-dequeue-order": lambda evidence, _: _one_order(evidence, "by_sender"),
    "causality-dequeued": lambda evidence, _: _one_order(evidence, "seen"),
    "causality-queued": lambda evidence, _: _one_order(evidence, "ended"),
    "one-order": lambda evidence, _: _one_order(evidence, "seen", "ended"),
    **_COMMON,
}
"""kdbus' requirements by name; starvation is looked for by the exploration itself."""
ORDERS = frozenset(BUS1.keys() | KDBUS.keys()) - _COMMON.keys() - {"locality"}

"""Who holds which node's handle, and whether each holder gets a notice of the node's destruction.

A peer holds a handle from a delivery in which it was valid until the peer releases it, until the
node is destroyed, or until the peer is forgotten (event `retired`). A release has its place in the
peer's stream: its answer says how far the stream was (`incarnation`, `sequence`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

from streaming.places import Place, StreamPoint
from streaming.verify.accounts import REFUSALS
from streaming.verify.added import Reject
from streaming.verify.commands import Command, Event
from streaming.verify.faults import Verdict
from streaming.verify.histories import text
from streaming.verify.inputs import Ends, Inputs, is_due
from streaming.verify.multicast_deliveries import Held, MulticastDeliveries
from streaming.verify.nodes import Node, NodeLife, Stamp, names

NOT_PLACED: Stamp = (-1, b"")
MISSING, WRONG = "missing-notice", "wrong-notice"
Release = tuple[StreamPoint | None, bytes, Stamp | None]
"""Where in a peer's stream it released a node's handle (None: not answered yet), and the release's
place in the order, if it has one."""
Holds = dict[bytes, dict[int, tuple[NodeLife, Held]]]
"""Of a peer: by node, then by the identity of its life, the delivery that gave the handle last."""


@dataclass(frozen=True, slots=True)
class Handles:
    """What the commands and events say: nodes, destructions by stamp, releases, retirements.

    ``placed``: releases by stamp. ``refused``: peers and nodes of which Kafka refused a delivery
    with the node's handle. ``refused_notices``: peers, and the places of the commands that Kafka
    refused to tell them.
    """

    nodes: Mapping[bytes, Node]
    ends: Mapping[Stamp, Command]
    commands: Sequence[Command]
    events: Sequence[Event]
    placed: Mapping[Stamp, Command] = field(default_factory=dict)
    refused: Collection[tuple[bytes, bytes]] = frozenset()
    refused_notices: Collection[tuple[bytes, Place | None]] = frozenset()

    def releases(self, verdict: Verdict) -> dict[bytes, list[Release]]:
        """Return the releases of each peer."""
        stamps = {command.place: stamp for stamp, command in self.placed.items()}
        released: dict[bytes, list[Release]] = defaultdict(list)
        for command in self.commands:
            if command.op != "release" or not command.done:
                continue
            peer, node = command.others[0].encode(), b"@" + command.subject.encode()
            if not command.answered:
                released[peer].append((None, node, None))
                continue
            answer = command.answers[0]
            place = tuple(answer.fields.get(name) for name in ("incarnation", "sequence"))
            if all(type(number) is int for number in place):
                stamp = stamps.get(command.place)
                released[peer].append((place, node, stamp))  # type: ignore[arg-type]
            elif place != (None, None):
                witness = f"{answer.where} says where the stream of {text(peer)} was by no numbers"
                verdict.find("wrong-answer", witness)
        return released

    def retired(self) -> dict[bytes | None, list[tuple[int, str]]]:
        """The incarnations of each peer that were forgotten, in order, and when (RFC 3339)."""
        found: defaultdict[bytes | None, list[tuple[int, str]]] = defaultdict(list)
        for event in self.events:
            if event.kind == "retired" and type(event.fields.get("incarnation")) is int:
                ended = event.fields["incarnation"], str(event.fields.get("at", ""))
                insort(found[event.key], ended)
        return found

    def life(self, name: bytes, stamp: Stamp) -> NodeLife | None:
        """The life of a node that a handle of this stamp is for."""
        node = self.nodes.get(name, Node())
        return next((life for life in node.lives if life.end is None or stamp < life.end), None)


def refused_handles(
    undelivered: Mapping[int, Mapping[bytes, Event]],
    rejects: Iterable[Reject],
    inputs: Inputs,
    wanted: Callable[[int], Iterable[bytes]],
    nodes: Mapping[bytes, Node],
) -> frozenset[tuple[bytes, bytes]]:
    """Return the peers and nodes of which Kafka refused a delivery with the node's handle.

    Such a peer counts as a holder. Events and rejects say what was refused, a reject for all of an
    input's destinations (``wanted``).
    """
    refused = [
        (record, destination)
        for record, events in undelivered.items()
        for destination, event in events.items()
        if event.fields.get("reason") in REFUSALS
    ]
    for reject in rejects:
        rejected = inputs.find(reject.origin) if reject.reason in REFUSALS else None
        if rejected is not None:
            refused += ((rejected, destination) for destination in wanted(rejected))
    found: set[tuple[bytes, bytes]] = set()
    for record, destination in refused:
        _, handles = inputs.headers[record][1]
        if handles:
            lives = nodes.get(destination, Node()).lives
            peers = {life.owner for life in lives} or {destination}
            found |= set(product(peers, names(handles)))
    return frozenset(found)


def judge_notices(
    verdict: Verdict, deliveries: MulticastDeliveries, handles: Handles, due: Ends
) -> int:
    """Hold each peer's notices against the handles that it had; how many are not there yet."""
    work = _Notices(verdict, deliveries, handles, due)
    for message in deliveries.notices:
        work.judge_destruction(message)
    for peer in deliveries.holders():
        work.judge_peer(peer, deliveries.held(peer))
    return work.owed


class _Notices:
    def __init__(
        self, verdict: Verdict, deliveries: MulticastDeliveries, handles: Handles, due: Ends
    ) -> None:
        self.verdict = verdict
        self.deliveries = deliveries
        self.handles = handles
        self.releases = handles.releases(verdict)
        self.retired = handles.retired()
        self.due = due
        self.owed = 0

    def judge_destruction(self, message: int) -> None:
        """Return whether a command did what a notice says."""
        node, record = self.deliveries.notices[message]
        stamp = self.deliveries.stamps[message]
        command = self.handles.ends.get(stamp)
        witness = (
            f"{record}: {text(node)} is said to be destroyed at {self.deliveries.name(message)}"
        )
        lives = self.handles.nodes.get(node, Node()).lives
        if command is None:
            if not any(life.ending for life in lives):
                self.verdict.find(WRONG, f"{witness}: no command did that")
        elif b"@" + command.subject.encode() != node:
            self.verdict.find(
                WRONG, f"{witness}: {command.where} destroyed @{command.subject} then"
            )
        elif record.timestamp != command.timestamp:
            self.verdict.find(WRONG, f"{witness}: its time is not that of {command.where}")

    def judge_peer(self, peer: bytes, held: Iterable[Held]) -> None:
        """Follow a peer's stream: what it holds, and the notices that it gets."""
        holds: Holds = defaultdict(dict)
        releases = self.releases.get(peer, ())
        doubtful = {node for place, node, _ in releases if place is None}
        released = sorted(
            (place, node, stamp or NOT_PLACED)
            for place, node, stamp in releases
            if place is not None
        )
        at = 0
        for handle in held:
            place = (handle.incarnation, handle.sequence)
            while at < len(released) and released[at][0] <= place:
                self._release(peer, holds, doubtful, *released[at])
                at += 1
            if handle.notice:
                self._judge_notice(peer, holds, doubtful, handle)
                continue
            stamp = self.deliveries.stamps[handle.message]
            for name in names(handle.given):
                life = self.handles.life(name, stamp)
                if life is not None:
                    holds[name][id(life)] = (life, handle)
        for release in released[at:]:
            self._release(peer, holds, doubtful, *release)
        for name, lives in holds.items():
            for life, last in lives.values():
                if name not in doubtful and life.end is not None:
                    self._judge_missing(peer, name, life, last)

    def _release(
        self,
        peer: bytes,
        holds: Holds,
        doubtful: set[bytes],
        place: StreamPoint,
        node: bytes,
        stamp: Stamp,
    ) -> None:
        """A peer released a node's handle; one that it had lost before, by retirement, is kept.

        A release with a place in the order does not take the notice of an earlier destruction.
        """
        for life, last in holds[node].values():
            if node not in doubtful and life.end is not None and life.end < stamp:
                self._judge_missing(peer, node, life, last)
        holds[node] = {
            life: held
            for life, held in holds[node].items()
            if self._lapsed(peer, held[1], place[0])
        }

    def _judge_notice(
        self,
        peer: bytes,
        holds: Holds,
        doubtful: set[bytes],
        held: Held,
    ) -> None:
        node, stamp = held.notice, self.deliveries.stamps[held.message]
        command = self.handles.ends.get(stamp)
        if command is not None and (peer, command.place) in self.handles.refused_notices:
            witness = (
                f"{text(peer)} got the notice of {command.where}, which an event says it did not"
            )
            self.verdict.find("wrong-undelivered", witness)
        lives = self.handles.nodes.get(node, Node()).lives
        life = next((life for life in lives if life.end == stamp or life.ending), None)
        holding = holds[node].pop(id(life), None)
        lapsed = holding is not None and self._lapsed(peer, holding[1], held.incarnation)
        is_doubtful = node in doubtful or (peer, node) in self.handles.refused
        if (holding is None or lapsed) and not is_doubtful:
            self.verdict.find(WRONG, partial(self._holds_none, peer, node, held.message))

    def _forgotten(self, peer: bytes, incarnation: int) -> tuple[int, str] | None:
        """With which incarnation, and when, a peer lost what it had in this one.

        Where repeats were accepted, it keeps its handles under a new incarnation.
        """
        ended = self.retired.get(peer, [])
        at = bisect_left(ended, (incarnation, ""))
        return ended[at] if at < len(ended) else None

    def _lapsed(self, peer: bytes, held: Held, incarnation: int) -> bool:
        """Whether a handle went before the peer's stream was in this incarnation."""
        forgotten = self._forgotten(peer, held.incarnation)
        return forgotten is not None and forgotten[0] < incarnation

    def _judge_missing(self, peer: bytes, name: bytes, life: NodeLife, last: Held) -> None:
        """A handle that the peer still had at the destruction, of which it has no notice."""
        forgotten = self._forgotten(peer, last.incarnation)
        if forgotten is not None and forgotten[1] <= (life.ended or ""):
            return
        assert life.end is not None  # noqa: S101  (the caller looked)
        command = self.handles.ends[life.end]
        if (peer, command.place) in self.handles.refused_notices:
            return
        witness = partial(self._got_none, peer, name, last.message, command)
        if self.deliveries.stamps[self.deliveries.highest[peer]] > life.end:
            self.verdict.find(MISSING, witness)
            return
        self.owed += 1
        if is_due(command.place, self.due):
            self.verdict.find("unfinished", witness)

    def _holds_none(self, peer: bytes, node: bytes, message: int) -> str:
        where = self.deliveries.histories.where(peer, message)
        witness = f"{text(peer)} has a notice of {self.deliveries.name(message)} ({where})"
        return f"{witness}, but holds no handle to {text(node)} then"

    def _got_none(self, peer: bytes, name: bytes, message: int, command: Command) -> str:
        where = self.deliveries.histories.where(peer, message)
        witness = f"{text(peer)} got the handle {text(name)} ({where})"
        return f"{witness} and no notice of its end by {command.where}"

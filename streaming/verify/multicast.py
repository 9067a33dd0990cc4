"""The judge of discipline `multicast`: guarantees 3 to 5, accounting, nodes and handles.

Faults by name. Of one delivery: `bad-output` (headers missing, or no numbers), `wrong-partition`,
`hole`, `disorder`, `repeat`, `rewritten` (of `sequence` and `incarnation`). Of a message:
`two-contents` (one stamp, two contents), `same-stamp` (as a destruction), `membership` (a delivery
to no destination, or not to the node's owner), `missing-delivery`, `delivered-twice`,
`wrong-handles`. Of nodes: `delivered-after-destruction`, `undelivered-before-destruction`,
`wrong-undelivered`. Of handles: `missing-notice` (a holder gets none of a destruction),
`wrong-notice` (to somebody without a handle, or of a destruction that no command did). Of order:
`stamp-order`, `pairwise-order`, `acyclic`, `sender-order`, `causality`. Of inputs: `invented` (no
such input, or altered), `rejected-and-delivered`, `lost` (a destination has a later message),
`unfinished` (not there although it had its time), `missing-event` (likewise, of `undelivered`),
`reject-altered`, `reject-repeat`, `wrong-reason`, `bad-cause` (no delivery lies where an input
says, or causes form a cycle). Of commands and events: `unanswered`, `answered-twice`,
`wrong-answer`, `invented-answer`, `bad-event`, `event-repeat`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from sequencer.judging.invariants import MEMBERSHIP
from streaming.places import Place
from streaming.verify.accounts import (
    REFUSALS,
    Material,
    Messages,
    SenderLines,
    Settings,
    causal_pairs,
    judge_rejects,
    match,
)
from streaming.verify.columns import Column, paced
from streaming.verify.commands import Event, by_subject, coordinates, unanswered
from streaming.verify.evidence import Evidence, histories_of
from streaming.verify.faults import Verdict
from streaming.verify.histories import text
from streaming.verify.multicast_deliveries import MulticastDeliveries
from streaming.verify.multicast_notices import Handles, judge_notices, refused_handles
from streaming.verify.node_ends import judge_ends, judge_streams, placed_releases
from streaming.verify.nodes import (
    ALIVE,
    DEAD,
    OPS,
    Node,
    Stamp,
    destination_of,
    names,
    reason_fits,
    replay,
    wrong_handles,
)
from streaming.verify.refused_commands import judge_node_refusals
from streaming.verify.unknown_nodes import Remembered, judge_unknown


def judge(
    settings: Settings, material: Material, causes: Iterable[tuple[Place, Place]] = ()
) -> Verdict:
    """Look for every fault; time is linear in the records as long as all is well.

    What is kept of each record lies in files (`streaming.verify.columns`).

    ``causes``: places of inputs (cause, effect), the effect sent after the cause was read by
    anyone, besides those that inputs name (`Settings.cause_header`). Pairs without a delivery are
    passed over.
    """
    verdict = Verdict(settings.pipeline)
    work = _Judge(settings, verdict, material)
    work.judge_inputs()
    work.judge_destinations()
    work.judge_handles()
    work.judge_notices()
    count = len(work.deliveries.stamps)
    pairs = causal_pairs(verdict, work.inputs, work.histories, count, settings.due, causes)
    work.histories.orders(count, work.deliveries.name, (), pairs, settings.progress)
    work.judge_endings()
    return verdict


class _Judge(Evidence):
    def __init__(self, settings: Settings, verdict: Verdict, material: Material) -> None:
        self.settings = settings
        self.histories = histories_of(settings, verdict)
        prefix = settings.header_prefix
        self.deliveries = MulticastDeliveries(verdict, self.histories, settings.output, prefix)
        super().__init__(settings, verdict, material, self.deliveries, OPS, ("to", "handles"))
        changes_of = by_subject(self.commands)
        self.nodes, self.ends = replay(verdict, changes_of, settings.retire_after_ms)
        judge_node_refusals(verdict, changes_of)
        self.undelivered: dict[int, dict[bytes, Event]] = {}
        self.refused_notices: set[tuple[bytes, Place | None]] = set()
        self.bad: dict[int, str] = {}
        self.held: set[int] = set()
        self.of = Column()
        self.owed = 0

    def judge_inputs(self) -> None:
        """Rejects, and the input of every message."""
        deliveries, verdict = self.deliveries, self.verdict
        repeats = self.settings.repeats_allowed
        judge_rejects(verdict, self.inputs, self.rejects, self._fits, repeats=repeats)
        for reject in self.rejects:
            record = self.inputs.find(reject.origin)
            if record is not None and reject.reason == "bad-destination":
                self.bad[record] = reject.where
        messages = Messages(deliveries.contents, deliveries.name)
        order, settings = deliveries.in_order(), self.settings
        self.of, unsure = match(verdict, self.inputs, order, messages, self.histories, settings)
        lines = SenderLines(verdict, self.inputs, self.of, unsure)
        lines.judge(
            deliveries.in_order(),
            lambda _: None,
            lambda one, two: f"{deliveries.name(one)} comes before {deliveries.name(two)}",
        )
        self.releases = releases = placed_releases(verdict, self.commands)
        of = self.of.copy()
        for message in unsure:
            of[message] = -1
        judge_ends(verdict, self.ends, releases, deliveries, self.inputs, of)
        judge_streams(verdict, releases, deliveries)
        self._read_undelivered()
        self._judge_unknown()

    def _fits(self, record: int, reason: str) -> bool:
        (there, value), (_, handles) = self.inputs.headers[record]
        wanted = names(value) if there else ()
        if (self.inputs.senders[record] is None) != (reason == "missing-sender"):
            return False
        is_about_nobody = reason == "missing-sender" or reason in REFUSALS
        return is_about_nobody or reason_fits(self.nodes, reason, wanted, names(handles))

    def _read_undelivered(self) -> None:
        """The events `undelivered` by input and destination; those of notices apart."""
        destroying = {command.place for command in self.ends.values()}
        for event in (each for each in self.events if each.kind == "undelivered"):
            place = coordinates(event)
            record = self.inputs.find(place) if place is not None else None
            wanted = self._wanted(record) if record is not None else ()
            destination = destination_of(event.fields.get("destination"), wanted)
            if place in destroying and event.fields.get("reason") in REFUSALS:
                self.refused_notices.add((destination, place))
                continue
            if record is None or destination not in wanted:
                witness = f"{event.where} reports {place} and {text(destination)}"
                self.verdict.find("wrong-undelivered", f"{witness}: there is no such message")
                continue
            if self.inputs.rejected[record]:
                witness = f"{event.where}: {self.inputs.where(record)} was rejected as a whole"
                self.verdict.find("wrong-undelivered", witness)
            if not event.fields.get("reason"):
                self.verdict.find("wrong-undelivered", f"{event.where} gives no reason")
            others = self.undelivered.setdefault(record, {})
            if destination in others:
                witness = f"{event.where}: {others[destination].where} said so before"
                self.verdict.find("wrong-undelivered", witness)
            others[destination] = event

    def _judge_unknown(self) -> None:
        """Whether records were rejected for nodes that their senders had reached before."""
        remembered = Remembered(self.settings.retire_after_ms, self.settings.now_ms)

        def reached(record: int) -> Iterable[bytes]:
            got = self.deliveries.copies.of(self.inputs.message[record])
            return (*got, *self.undelivered.get(record, ()))

        judge_unknown(self.verdict, self.inputs, self.bad, reached, self.nodes, remembered)

    def _wanted(self, record: int) -> tuple[bytes, ...]:
        there, value = self.inputs.headers[record][0]
        return names(value) if there else ()

    def judge_destinations(self) -> None:
        """Every destination got it once, or was destroyed before; nobody else got it."""
        of, progress = self.of, self.settings.progress
        for message, record in paced(enumerate(of), "judging destinations", len(of), progress):
            if record < 0:
                continue
            got = self.deliveries.copies.of(message)
            stamp = self.deliveries.stamps[message]
            wanted = self._wanted(record)
            undelivered = self.undelivered.get(record, {})
            for destination, key in got.items():
                self._judge_delivery(message, destination, key, wanted)
            for destination in wanted:
                if destination in undelivered:
                    self._judge_undelivered(message, destination, undelivered[destination])
                elif destination not in got:
                    self._judge_missing(message, record, destination, stamp)

    def _judge_delivery(
        self, message: int, destination: bytes, key: bytes, wanted: tuple[bytes, ...]
    ) -> None:
        stamp, kind = self.deliveries.stamps[message], MEMBERSHIP
        if destination not in wanted:
            wrong = f"which is none of its destinations {text(b','.join(wanted))}"
        elif not destination.startswith(b"@"):
            wrong = "which is another peer" if destination != key else ""
        else:
            node = self.nodes.get(destination, Node())
            if node.lives and node.state(stamp) == DEAD:
                end = max(life.end for life in node.lives if life.end)
                kind = "delivered-after-destruction"
                wrong = f"which was destroyed at {end[0]} from {text(end[1])}"
            else:
                wrong = "" if key in node.owners(stamp) else "which it does not own"
        if wrong:
            more = f" for {text(destination)}, {wrong}"
            self.verdict.find(kind, partial(self._got, message, key, more))

    def _got(self, message: int, key: bytes, more: str = "") -> str:
        where = self.histories.where(key, message)
        return f"{text(key)} got {self.deliveries.name(message)} ({where}){more}"

    def _judge_undelivered(self, message: int, destination: bytes, event: Event) -> None:
        witness = f"{event.where}: {self.deliveries.name(message)} to {text(destination)}"
        key = self.deliveries.copies.of(message).get(destination)
        if key is not None:
            self.verdict.find("wrong-undelivered", f"{witness}: {self._got(message, key)}")
        elif event.fields.get("reason") in REFUSALS:
            return
        elif not destination.startswith(b"@"):
            self.verdict.find("wrong-undelivered", f"{witness}, which is a peer, not a node")
        elif self.nodes.get(destination, Node()).state(self.deliveries.stamps[message]) == ALIVE:
            why = "comes before the node's destruction"
            self.verdict.find("undelivered-before-destruction", f"{witness} {why}")

    def _judge_missing(self, message: int, record: int, destination: bytes, stamp: Stamp) -> None:
        """A destination that has neither the message nor an event: lost, or not there yet."""
        node = self.nodes.get(destination) if destination.startswith(b"@") else None
        state = node.state(stamp) if node is not None else ALIVE
        keys = {destination} if node is None else node.owners(stamp)
        due = self.inputs.due(record, self.settings.due)
        if due and state == ALIVE and any(self._is_past(key, stamp) for key in keys):
            self.verdict.find("missing-delivery", partial(self._lacks, message, destination, keys))
            return
        self.held.add(record)
        if due:
            kind = "missing-event" if state == DEAD else "unfinished"
            self.verdict.find(kind, partial(self._unfinished, message, destination, record))

    def _is_past(self, key: bytes, stamp: Stamp) -> bool:
        """Return whether a peer has a message beyond a stamp."""
        highest = self.deliveries.highest.get(key)
        return highest is not None and self.deliveries.stamps[highest] > stamp

    def _lacks(self, message: int, destination: bytes, keys: set[bytes]) -> str:
        deliveries, histories = self.deliveries, self.histories
        witness = f"{text(destination)} never got {deliveries.name(message)}, got by"
        key = min(key for key in keys if self._is_past(key, deliveries.stamps[message]))
        got = self._got(deliveries.highest[key], key)
        return f"{witness} {histories.first_place(message)}; {got}"

    def _unfinished(self, message: int, destination: bytes, record: int) -> str:
        witness = f"{text(destination)} has neither {self.deliveries.name(message)} nor an event"
        where = self.histories.first_place(message)
        return f"{witness} `undelivered`; input {self.inputs.where(record)}, got by {where}"

    def judge_handles(self) -> None:
        """The input's handles are divided into those whose node still was, and the others."""
        for message, valid, invalid, where in self.deliveries.all_handles():
            record = self.of[message]
            if record < 0:
                continue
            there, value = self.inputs.headers[record][1]
            stamp = self.deliveries.stamps[message]
            if there:
                wrong = wrong_handles(self.nodes, stamp, names(value), valid, invalid)
            else:
                wrong = "" if valid is None is invalid else "handles were added"
            if wrong:
                handles = text(value or b"") if there else "none"
                witness = f"{where}: {self.deliveries.name(message)} with handles {handles}"
                self.verdict.find("wrong-handles", f"{witness}: {wrong}")

    def judge_notices(self) -> None:
        """Every holder of a node's handle gets its destruction once, in its place; nobody else."""
        refused = refused_handles(
            self.undelivered, self.rejects, self.inputs, self._wanted, self.nodes
        )
        own = self.commands, self.events, self.releases, refused, self.refused_notices
        handles = Handles(self.nodes, self.ends, *own)
        self.owed = judge_notices(self.verdict, self.deliveries, handles, self.settings.due)

    def judge_endings(self) -> None:
        """Every input is a message, a reject, or not there yet; every command has its answer."""
        inputs, verdict, due = self.inputs, self.verdict, self.settings.due
        following: dict[tuple[int, bytes | None], int] = {}
        records = range(len(inputs) - 1, -1, -1)
        for record in paced(records, "judging inputs", len(inputs), self.settings.progress):
            name = (inputs.partition[record], inputs.senders[record])
            if inputs.message[record] >= 0:
                following[name] = inputs.message[record]
            elif not (inputs.rejected[record] or self._is_undelivered(record)):
                self._judge_absent(record, following.get(name, -1))
        verdict.looked_at = {
            "inputs": len(inputs),
            "messages": len(self.deliveries.stamps) - len(self.deliveries.notices),
            "deliveries": self.histories.count,
            "peers": len(self.histories.by_key),
            "nodes": len(self.nodes),
            "notices": sum(map(len, map(self.deliveries.copies.of, self.deliveries.notices))),
            "undelivered": sum(map(len, self.undelivered.values())),
            "rejects": len(self.rejects),
            "commands": len(self.commands),
            "unanswered": unanswered(verdict, self.commands, due),
            "held": len(self.held) + self.owed,
        }

    def _is_undelivered(self, record: int) -> bool:
        """Whether events account for every destination: a node destroyed, or a copy refused.

        There is a reject if Kafka refused all copies in one run of the batch.
        """
        events = self.undelivered.get(record, {})
        return bool(events) and events.keys() >= {*self._wanted(record)}

    def _judge_absent(self, record: int, later: int) -> None:
        """An input that is nowhere; ``later``: a later message of its sender, or -1."""
        inputs, deliveries = self.inputs, self.deliveries
        if not inputs.due(record, self.settings.due):  # it may be a reject that is not there yet
            self.held.add(record)
            return
        witness = inputs.where(record)
        peers = [name for name in self._wanted(record) if name and not name.startswith(b"@")]
        if later >= 0 and all(name in self.nodes or name in peers for name in self._wanted(record)):
            stamp = deliveries.stamps[later]
            for peer in peers:
                highest = deliveries.highest.get(peer, -1)
                if highest >= 0 and deliveries.stamps[highest] >= stamp:
                    where = inputs.where(self.of[later])
                    sent = f"{deliveries.name(later)}, {where}, was sent later"
                    got = self._got(highest, peer)
                    self.verdict.find("lost", f"{witness} was not delivered; {sent}, and {got}")
                    return
        self.held.add(record)
        self.verdict.find("unfinished", f"{witness} is neither delivered nor rejected")

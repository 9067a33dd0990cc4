"""The sequencing network on simulated machines: hosts, sequencing nodes and all their links.

What runs is the protocol by message: `links` between machines, `membership` for ingress and
subscribers, `atoms`. (The service runs it by batch: sequencer/groups/network/shard.py;
tests/sequencer/groups/network/test_both_forms.py holds both together.)

Each ordered pair of machines has one link, so all edges between the atoms of two nodes keep their
order, and nothing that is lost, repeated or reordered below is seen above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sequencer.groups.network.atoms import (
    Onward,
    Reroute,
    Rerouted,
    Retirements,
    ViewAtom,
    reroute_ingress,
)
from sequencer.groups.network.links import Ack, Frame, Input, Output
from sequencer.groups.network.membership import (
    GroupIngress,
    RemovedGroupError,
    Subscriber,
    Views,
)
from sequencer.groups.network.ordering import GroupMessage
from sequencer.groups.network.overlaps import Pair
from sequencer.simulation.carrier import Carrier
from sequencer.simulation.events import Events
from sequencer.simulation.machine import Machine

WINDOW = 8192
DOWN = "came to a crashed machine"
UNDONE = "undone by a crash"


@dataclass(frozen=True, slots=True)
class Hop:
    """A message on its way from an atom (None: from its ingress) to the next one."""

    message: GroupMessage
    source: Pair | None
    to: Pair


@dataclass(slots=True)
class RunRecord:
    """What can be seen from outside. Bodies of messages are unique.

    `histories`: subscriber -> bodies in order of delivery; `times_us`: (subscriber, body) -> when;
    `sent`: (sender, group) -> bodies; `causes`: (last delivery before sending, body); `views`:
    body -> the views under which it was delivered; `refused`: bodies for groups that had ended.
    """

    histories: dict[str, list[str]] = field(default_factory=dict)
    times_us: dict[tuple[str, str], int] = field(default_factory=dict)
    arrived_us: dict[tuple[str, str], int] = field(default_factory=dict)
    sent: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    sent_us: dict[str, int] = field(default_factory=dict)
    causes: list[tuple[str, str]] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    views: dict[str, set[int]] = field(default_factory=dict)
    stamps: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    held_most: int = 0
    retired: int = 0


@dataclass(slots=True)
class Network:
    """Machines and what they do with what arrives.

    `hosting`: view -> which node has which atom; `ingress_at`: group -> the node that numbers it.
    `commit_us`: from a change to the commit that makes it visible, `durable`: whether commits are
    written at all (without crashes nobody reads them).
    """

    events: Events
    views: Views
    hosting: dict[int, Mapping[Pair, str]] = field(default_factory=dict)
    ingress_at: dict[str, str] = field(default_factory=dict)
    commit_us: int = 0
    durable: bool = False
    machines: dict[str, Machine] = field(default_factory=dict)
    record: RunRecord = field(default_factory=RunRecord)
    reader: Callable[[str, GroupMessage], None] | None = None
    retirements: Retirements = field(default_factory=Retirements)
    carrier: Carrier = field(init=False)

    def machine(self, name: str) -> Machine:
        """The machine of this name."""
        return self.machines.setdefault(name, Machine(name))

    def publish(self, sender: str, group: str, body: str) -> bool:
        """A host sends a message to a group; False if the host is down and nothing was sent."""
        host = self.machine(sender)
        if not host.up:
            return False
        history = self.record.histories.get(sender)
        cause = history[-1] if history else None
        self._send(host, self.ingress_at[group], GroupMessage(group, sender, body))
        host.effects.append(partial(self._note_sent, sender, group, body, cause))
        self._commit_soon(host)
        return True

    def switch(self, group: str) -> None:
        """Tell the ingress of a group of changes; at its restart if it is down now."""
        node = self.machine(self.ingress_at[group])
        if not node.up:
            return
        while (published := self._ingress(node, group).switch(self.views)) is not None:
            self._numbered(node, group, published)
        self._commit_soon(node)

    def crash(self, name: str) -> None:
        """A machine stops at once."""
        self.carrier.counts[UNDONE] += self.machine(name).crash()

    def restart(self, name: str) -> None:
        """A machine goes on with what it has written down."""
        machine = self.machine(name)
        machine.restart()
        for peer in [key[1] for key in machine.parts if key[0] == "output"]:
            self._arm(machine, peer, 0)
        for group in [group for group, where in sorted(self.ingress_at.items()) if where == name]:
            self.switch(group)

    def arrive(self, source: str, target: str, frame: Frame | Ack) -> None:
        """A frame or an acknowledgment has come to a machine."""
        machine = self.machine(target)
        if not machine.up:
            self.carrier.counts[DOWN] += 1
            return
        if isinstance(frame, Ack):
            machine.part(("output", source), self._output).acknowledge(frame)
        else:
            payloads, ack = machine.part(("input", source), self._input).receive(frame)
            for payload in payloads:
                self._take(machine, payload)
            machine.effects.append(partial(self.carrier.send, target, source, ack))
        self._commit_soon(machine)

    def waiting(self) -> int:
        """What is on its way or held: frames without acknowledgment, and held messages."""
        count = 0
        for machine in self.machines.values():
            for key, part in machine.parts.items():
                if key[0] == "output":
                    count += len(part.waiting)
                elif key[0] == "atom":
                    count += len(part.early)
                elif key[0] == "subscriber":
                    count += part.holding
        return count

    def _take(self, machine: Machine, payload: Any) -> None:
        match payload:
            case Hop(message, source, to):
                self._onward(machine, message, source, to)
            case Reroute():
                self._reroute(machine, payload)
            case Rerouted():
                self._rerouted(machine, payload)
            case GroupMessage(number=-1, group=group):
                try:
                    published = self._ingress(machine, group).publish(payload, self.views)
                except RemovedGroupError:
                    machine.effects.append(partial(self.record.refused.add, payload.body))
                    return
                self._numbered(machine, group, published)
            case GroupMessage():
                self._deliver(machine, payload)

    def _numbered(self, machine: Machine, group: str, messages: tuple[GroupMessage, ...]) -> None:
        for message in messages:
            self._onward(machine, message, None, self._ingress(machine, group).first[message.view])

    def _onward(
        self, machine: Machine, message: GroupMessage, source: Pair | None, to: Pair | None
    ) -> None:
        """Through all atoms of this machine that come next, and on to the next machine."""
        view = self.views.views[message.view]
        hosting = self.hosting[message.view]
        while to is not None and hosting[to] == machine.name:
            atom = self._atom(machine, message.view, to)
            if atom is None:
                raise ValueError(
                    f"{message.group}/{message.number} reached atom {'+'.join(to)}, which has "
                    "retired: it was not taken; the run cannot go on"
                )
            onward = atom.take(message, source)
            self._tidy(machine, atom, onward)
            if not onward.messages:
                return
            source = to
            ((message, to),) = onward.messages
        if to is None:
            for member in sorted(view.groups[message.group]):
                self._send(machine, member, message)
        else:
            self._send(machine, hosting[to], Hop(message, source, to))

    def _tidy(self, machine: Machine, atom: ViewAtom, onward: Onward) -> None:
        """Let an atom retire as far as it can."""
        view, pair = atom.view, atom.atom.pair
        for notice in onward.notices:
            self._send(machine, self.hosting[view][notice.to], notice)
        if onward.settled:
            machine.effects.append(partial(self.retirements.settled, view, onward.settled))
        if atom.retired:
            machine.drop(("atom", view, pair))
            machine.part(("retired", view), set).add(pair)
            machine.effects.append(self._note_retired)
            if not atom.retiring:
                machine.effects.append(partial(self.retirements.withdraw, view, pair))
        elif atom.gone and not atom.retiring and self.retirements.ask(view, pair, atom.following):
            for request in atom.retire():
                self._send(machine, self._sender_of(request), request)

    def _sender_of(self, request: Reroute) -> str:
        """The machine that sends messages to a retiring atom."""
        if request.to is None:
            ((group, _),) = request.following
            return self.ingress_at[group]
        return self.hosting[request.view][request.to]

    def _reroute(self, machine: Machine, request: Reroute) -> None:
        if request.to is None:
            ((group, _),) = request.following
            notice = reroute_ingress(self._ingress(machine, group), request)
        else:
            atom = self._atom(machine, request.view, request.to)
            notice = None if atom is None else atom.reroute(request)
        if notice is not None:
            self._send(machine, self.hosting[notice.view][notice.to], notice)

    def _rerouted(self, machine: Machine, notice: Rerouted) -> None:
        atom = self._atom(machine, notice.view, notice.to)
        if atom is None:
            return
        onward = atom.rerouted(notice)
        for message, to in onward.messages:
            self._onward(machine, message, notice.to, to)
        self._tidy(machine, atom, onward)

    def _deliver(self, machine: Machine, message: GroupMessage) -> None:
        subscriber = machine.part(("subscriber",), partial(Subscriber, machine.name))
        self.record.arrived_us.setdefault((machine.name, message.body), self.events.now_us)
        _, delivered = subscriber.take(message, self.views)
        self.record.held_most = max(self.record.held_most, subscriber.holding)
        for delivery in delivered:
            if not delivery.last:
                machine.effects.append(partial(self._note_delivered, machine.name, delivery))

    def _send(self, machine: Machine, target: str, payload: Any) -> None:
        output = machine.part(
            ("output", target), partial(self._output, self.carrier.delay_us(machine.name, target))
        )
        frame = output.send(payload, self.events.now_us // 1000)
        machine.effects.append(partial(self.carrier.send, machine.name, target, frame))
        self._arm(machine, target, output.retry_ms * 1000)

    def _arm(self, machine: Machine, target: str, wait_us: int) -> None:
        if target not in machine.armed:
            machine.armed.add(target)
            self.events.after(wait_us, partial(self._tick, machine, target, machine.life))

    def _tick(self, machine: Machine, target: str, life: int) -> None:
        """Send again what has not been acknowledged in time."""
        if not machine.up or machine.life != life:
            return
        machine.armed.discard(target)
        output: Output | None = machine.parts.get(("output", target))
        if output is None or not output.waiting:
            return
        now_ms = self.events.now_us // 1000
        for frame in output.tick(now_ms):
            machine.changed["output", target] = None
            machine.effects.append(partial(self.carrier.send, machine.name, target, frame))
        due = output.next_due_ms()
        self._commit_soon(machine)
        self._arm(machine, target, max(1, (due or 0) - now_ms) * 1000)

    def _commit_soon(self, machine: Machine) -> None:
        if self.commit_us == 0:
            machine.commit(write=self.durable)
        elif not machine.committing:
            machine.committing = True
            self.events.after(self.commit_us, partial(self._commit, machine, machine.life))

    def _commit(self, machine: Machine, life: int) -> None:
        if machine.up and machine.life == life:
            machine.committing = False
            machine.commit(write=self.durable)

    def _atom(self, machine: Machine, view: int, pair: Pair) -> ViewAtom | None:
        """An atom of this machine; None if it has retired: it must not begin again."""
        if pair in machine.parts.get(("retired", view), ()):
            return None
        new = partial(ViewAtom.of, self.views.views[view], pair)
        atom: ViewAtom = machine.part(("atom", view, pair), new)
        return atom

    def _ingress(self, machine: Machine, group: str) -> GroupIngress:
        ingress: GroupIngress = machine.part(("ingress", group), partial(GroupIngress, group))
        return ingress

    def _output(self, delay_us: int = 0) -> Output:
        return Output(window_max=WINDOW, retry_ms=2 * delay_us // 1000 + 100, retry_max_ms=2000)

    def _input(self) -> Input:
        return Input(window_max=WINDOW)

    def _note_sent(self, sender: str, group: str, body: str, cause: str | None) -> None:
        self.record.sent.setdefault((sender, group), []).append(body)
        self.record.sent_us[body] = self.events.now_us
        self.record.groups[body] = group
        if cause is not None:
            self.record.causes.append((cause, body))

    def _note_retired(self) -> None:
        self.record.retired += 1

    def _note_delivered(self, name: str, message: GroupMessage) -> None:
        self.record.histories.setdefault(name, []).append(message.body)
        self.record.times_us[name, message.body] = self.events.now_us
        self.record.views.setdefault(message.body, set()).add(message.view)
        self.record.stamps[message.body] = len(message.stamps)
        if self.reader is not None:
            self.reader(name, message)

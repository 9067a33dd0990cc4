"""The network under faults: first safety, then liveness.

In the first phase frames are lost, repeated and reordered, lines are cut, machines crash and come
back, and groups change, while hosts send, also in answer to what they read. Nothing wrong may be
delivered. In the second phase the faults end, and everything must be delivered. The judges are
those of sequencer.judging.invariants: they look at deliveries, not at the protocol's state (the
view of a message, which says who its members are, comes with each delivery).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from sequencer.groups.network.membership import Views
from sequencer.groups.network.ordering import GroupMessage
from sequencer.groups.network.placement import place
from sequencer.judging.invariants import (
    EXACTLY_ONCE,
    MEMBERSHIP,
    Anomaly,
    Fact,
    acyclic,
    causality,
    exactly_once,
    membership,
    sender_order,
)
from sequencer.simulation.carrier import NONE, Carrier, Faults
from sequencer.simulation.events import EndlessError, Events
from sequencer.simulation.network import Network, RunRecord
from sequencer.simulation.topology import SMALL, transit_stub
from sequencer.simulation.workload import clustered_hosts, names

LIVENESS = "liveness"
# A part of the protocol was given what cannot come to it if the others do theirs.
REFUSED = "refused-step"
CRASHED = "machines crashed"
CUTS = "lines cut"

HARSH = Faults(
    loss=0.1,
    duplicate=0.1,
    late=0.2,
    late_ms=100,
    cuts=4,
    crashes=8,
    down_ms=2000,
    commit_ms=2,
)


@dataclass(frozen=True, slots=True)
class Setting:
    """What happens in a run: `messages` of their own accord, up to as many `answers`.

    The safety phase takes `span_ms`; the liveness phase may take `calm_ms_max`.
    """

    hosts: int = 12
    nodes: int = 5
    groups: int = 6
    messages: int = 120
    answers: int = 60
    changes: int = 8
    span_ms: int = 6000
    calm_ms_max: int = 600_000
    events_max: int = 2_000_000


DEFAULT = Setting()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one run; `anomaly` is None if all invariants held, in both phases.

    `faults`: how often each kind of fault really happened. `changes`: of groups; `retired`: atoms
    that had seen the last message; `held_most`: the most that a receiver held.
    """

    seed: int
    anomaly: Anomaly | None
    phase: str
    sent: int
    refused: int
    deliveries: int
    changes: int
    retired: int
    held_most: int
    faults: dict[str, int]
    simulated_ms: int


def run(seed: int, faults: Faults = HARSH, setting: Setting = DEFAULT) -> Verdict:
    """One run; the same for the same arguments."""
    return _Run(seed, faults, setting).judged()


@dataclass(slots=True)
class _Run:
    seed: int
    faults: Faults
    setting: Setting
    rng: np.random.Generator = field(init=False)
    net: Network = field(init=False)
    hosts: list[str] = field(init=False)
    pool: list[str] = field(init=False)
    happened: Counter[str] = field(default_factory=Counter)
    numbered: int = 0
    answers: int = 0
    changes: int = 0

    def __post_init__(self) -> None:
        setting = self.setting
        self.rng = np.random.default_rng([self.seed, 7])
        self.hosts, self.pool = names("H", setting.hosts), names("N", setting.nodes)
        topology = transit_stub(self.rng, SMALL)
        routers = dict(
            zip(self.hosts, clustered_hosts(topology, self.rng, setting.hosts, 4), strict=True)
        )
        routers |= {name: self.rng.integers(topology.routers) for name in self.pool}
        delays = topology.delays(np.arange(topology.routers))

        def delay_us(source: str, target: str) -> int:
            return round(float(delays[routers[source], routers[target]]) * 1000)

        events = Events(setting.events_max)
        self.net = Network(
            events,
            Views(),
            commit_us=round(self.faults.commit_ms * 1000),
            durable=self.faults.crashes > 0,
            reader=self._answer,
        )
        self.net.carrier = Carrier(events, self.rng, delay_us, self.net.arrive, self.faults)

    def judged(self) -> Verdict:
        """Both phases and their judgement."""
        setting, events = self.setting, self.net.events
        for group in names("G", setting.groups):
            self._change(group)
        self._plan(setting.messages, self._publish)
        self._plan(setting.changes, self._change_any)
        self._plan(self.faults.crashes, self._crash)
        self._plan(self.faults.cuts, self._cut)
        anomaly, phase = None, "safety"
        try:
            events.run(setting.span_ms * 1000)
            anomaly = judge(self.net.record, self.net.views, complete=False)
            if anomaly is None:
                phase = "liveness"
                self._calm()
                events.run((setting.span_ms + setting.calm_ms_max) * 1000)
                anomaly = self._unfinished() or judge(self.net.record, self.net.views)
        except EndlessError as error:
            anomaly = Anomaly(LIVENESS, (Fact(str(error)),))
        except ValueError as error:
            anomaly = Anomaly(REFUSED, (Fact(str(error)),))
        return self._verdict(anomaly, phase)

    def _verdict(self, anomaly: Anomaly | None, phase: str) -> Verdict:
        record = self.net.record
        return Verdict(
            self.seed,
            anomaly,
            phase,
            len(record.sent_us),
            len(record.refused),
            sum(map(len, record.histories.values())),
            self.changes,
            record.retired,
            record.held_most,
            dict(sorted((self.happened + self.net.carrier.counts).items())),
            self.net.events.now_us // 1000,
        )

    def _plan(self, times: int, action: Callable[[], None]) -> None:
        for moment in sorted((self.rng.random(times) * self.setting.span_ms * 1000).tolist()):
            self.net.events.after(int(moment), action)

    def _publish(self) -> None:
        groups = self.net.views.groups
        if groups:
            group = str(self.rng.choice(sorted(groups)))
            self._send(str(self.rng.choice(sorted(groups[group]))), group)

    def _answer(self, reader: str, _: GroupMessage) -> None:
        """Now and then, let a reader of something send something to a group of its own."""
        joined = [
            group for group, members in sorted(self.net.views.groups.items()) if reader in members
        ]
        if joined and self.answers < self.setting.answers and self.rng.random() < 0.1:
            self.answers += 1
            self._send(reader, str(self.rng.choice(joined)))

    def _send(self, sender: str, group: str) -> None:
        if self.net.publish(sender, group, f"m{self.numbered}"):
            self.numbered += 1

    def _change_any(self) -> None:
        self._change(str(self.rng.choice(names("G", self.setting.groups))))

    def _change(self, group: str) -> None:
        """Add a group, give it other members, or end it; ingresses learn of it a little later."""
        views = self.net.views
        size = int(self.rng.integers(2, max(3, self.setting.hosts // 2)))
        members = self.rng.choice(self.hosts, size, replace=False).tolist()
        self.changes += 1
        if group in views.groups and self.rng.random() < 0.3:
            views.remove(group)
            self._tell([group])
            return
        view = views.set(group, members) if group in views.groups else views.add(group, members)
        nodes = place(view.graph, view.groups)
        self.net.hosting[view.number] = {
            pair: self.pool[node % len(self.pool)] for pair, node in nodes.items()
        }
        path = view.graph.paths[group]
        machine = (
            self.net.hosting[view.number][path[0]] if path else str(self.rng.choice(self.pool))
        )
        self.net.ingress_at.setdefault(group, machine)
        self._tell(view.groups)

    def _tell(self, groups: Collection[str]) -> None:
        for group in sorted(groups):
            wait_us = int(self.rng.random() * 200_000)
            self.net.events.after(wait_us, partial(self.net.switch, group))

    def _crash(self) -> None:
        name = str(self.rng.choice(self.hosts + self.pool))
        if self.net.machine(name).up:
            self.happened[CRASHED] += 1
            self.net.crash(name)
            self._later(partial(self._restart, name))

    def _restart(self, name: str) -> None:
        if not self.net.machine(name).up:
            self.net.restart(name)

    def _cut(self) -> None:
        """Cut a line that is in use."""
        used = sorted(
            (name, key[1])
            for name, machine in self.net.machines.items()
            for key in machine.parts
            if key[0] == "output"
        )
        if used:
            line = frozenset(used[int(self.rng.integers(len(used)))])
            self.happened[CUTS] += 1
            self.net.carrier.cut.add(line)
            self._later(partial(self.net.carrier.cut.discard, line))

    def _later(self, repair: partial[None]) -> None:
        self.net.events.after(int(self.rng.random() * self.faults.down_ms * 1000), repair)

    def _calm(self) -> None:
        """End all faults, and restart whatever is down."""
        self.net.carrier.faults = NONE
        self.net.carrier.cut.clear()
        for name in sorted(self.net.machines):
            self._restart(name)

    def _unfinished(self) -> Anomaly | None:
        waiting = self.net.waiting()
        if not waiting:
            return None
        record = self.net.record
        witness = judge(record, self.net.views)
        text = f"{waiting} frames or messages still wait, {self.setting.calm_ms_max} ms after"
        facts = (Fact(f"{text} the last fault"), *(witness.witness if witness else ()))
        return Anomaly(LIVENESS, facts)


def judge(record: RunRecord, views: Views, *, complete: bool = True) -> Anomaly | None:
    """The first broken invariant; not `complete`: what is not delivered may still come."""
    destinations: dict[str, Collection[str]] = {}
    for body, group in record.groups.items():
        numbers = sorted(record.views.get(body, ()))
        if len(numbers) > 1:
            fault = f"{body} was delivered as a message of the views {', '.join(map(str, numbers))}"
            return Anomaly(MEMBERSHIP, (Fact(fault),))
        if numbers and body in record.refused:
            return Anomaly(EXACTLY_ONCE, (Fact(f"{body} was refused, and delivered"),))
        if numbers:
            destinations[body] = sorted(views.views[numbers[0]].groups[group])
        elif body not in record.refused:
            sender = next(key[0] for key, sent in record.sent.items() if body in sent)
            destinations[body] = sorted(views.groups.get(group, (sender,)))
    histories = record.histories
    return (
        exactly_once(histories, destinations, complete=complete)
        or membership(histories, destinations)
        or sender_order(histories, record.sent)
        or acyclic(histories)
        or causality(histories, record.causes)
    )

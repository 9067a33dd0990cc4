"""Networks under faults: the invariants hold, each fault happens, and planted bugs are found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from sequencer.groups.network import ordering
from sequencer.groups.network.atoms import ViewAtom
from sequencer.groups.network.links import Ack, Input, Output
from sequencer.groups.network.membership import GroupIngress, Subscriber
from sequencer.groups.network.ordering import Atom, Ingress, Receiver
from sequencer.judging.invariants import (
    ACYCLIC,
    CAUSALITY,
    EXACTLY_ONCE,
    MEMBERSHIP,
    PAIRWISE_ORDER,
)
from sequencer.simulation import machine, network
from sequencer.simulation.carrier import CUT, DUPLICATED, LOST, NONE, REORDERED, Faults
from sequencer.simulation.network import DOWN, UNDONE, Network
from sequencer.simulation.safety import (
    CRASHED,
    CUTS,
    DEFAULT,
    HARSH,
    LIVENESS,
    REFUSED,
    Setting,
    _Run,
    run,
)

BREAKS_ORDER = {PAIRWISE_ORDER, ACYCLIC, CAUSALITY}


@cache
def harsh(seed):
    """A run that several tests look at."""
    return run(seed)


@pytest.mark.parametrize("seed", range(12))
def test_everything_holds_under_faults(seed):
    verdict = harsh(seed)
    assert verdict.anomaly is None, str(verdict)
    assert verdict.sent > 100
    assert verdict.deliveries > verdict.sent


@pytest.mark.slow
@pytest.mark.parametrize("thousand", range(4))
def test_everything_holds_under_faults_long(thousand):
    larger = Setting(hosts=20, nodes=7, groups=10, messages=300, answers=150, changes=15)
    for seed in range(1000 * thousand, 1000 * thousand + 400):
        verdict = run(seed, HARSH, larger if seed % 4 == 0 else Setting())
        assert verdict.anomaly is None, str(verdict)


@pytest.mark.parametrize(
    ("faults", "kinds"),
    [
        (Faults(loss=0.2), {LOST}),
        (Faults(duplicate=0.2), {DUPLICATED}),
        (Faults(late=0.2), {REORDERED}),
        (Faults(cuts=20, down_ms=1000), {CUTS, CUT}),
        (Faults(crashes=20, commit_ms=5), {CRASHED, DOWN, UNDONE}),
    ],
    ids=lambda each: "-".join(sorted(each)) if isinstance(each, set) else None,
)
def test_each_kind_of_fault_really_happens(faults, kinds):
    happened: Counter[str] = Counter()
    for seed in range(4):
        verdict = run(seed, faults)
        assert verdict.anomaly is None, str(verdict)
        happened.update(verdict.faults)
    assert {kind for kind, count in happened.items() if count} == kinds
    assert min(happened[kind] for kind in kinds) >= 3


def test_without_faults_nothing_happens_and_all_is_delivered():
    verdict = run(1, NONE)
    assert verdict.anomaly is None
    assert verdict.faults == {}


def test_one_seed_replays_everything():
    assert run(5) == harsh(5)
    assert harsh(5) != harsh(6)


def test_one_seed_replays_everything_in_another_process_too():
    """Python's hashes of texts differ from process to process: nothing may hang on them."""
    code = "from sequencer.simulation.safety import run; print(run(1), run(2))"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for number in (1, 2)
    }
    assert len(told) == 1
    assert b"anomaly=None" in told.pop()


def test_views_change_and_atoms_retire_meanwhile():
    verdicts = [harsh(seed) for seed in range(5)]
    assert all(verdict.changes == 14 for verdict in verdicts)
    assert sum(verdict.retired for verdict in verdicts) > 20
    assert sum(verdict.refused for verdict in verdicts) > 0
    assert max(verdict.held_most for verdict in verdicts) > 5


def found(seeds=range(12), faults=HARSH, setting=DEFAULT):
    """The first anomaly of some runs; every one has a witness."""
    for seed in seeds:
        anomaly = run(seed, faults, setting).anomaly
        if anomaly is not None:
            assert anomaly.witness
            assert all(str(fact) for fact in anomaly.witness)
            return anomaly.name
    return None


def test_an_atom_that_repeats_numbers_is_found(monkeypatch):
    stamp = Atom.stamp

    def repeating(atom, message):
        if message.group == atom.pair[0]:
            return stamp(atom, message)
        before = atom.following
        stamped = stamp(atom, message)
        atom.following = before
        return stamped

    monkeypatch.setattr(Atom, "stamp", repeating)
    assert found() in BREAKS_ORDER | {LIVENESS}


def test_an_atom_that_numbers_out_of_order_is_found(monkeypatch):
    """Two messages that follow one another get their numbers the other way round."""
    stamp = Atom.stamp

    def swapped(atom, message):
        true = atom.following
        atom.following = true + 1 if true % 2 == 0 else true - 1
        stamped = stamp(atom, message)
        atom.following = true + (stamped is not message)
        return stamped

    monkeypatch.setattr(Atom, "stamp", swapped)
    assert found(faults=NONE) is not None


class Hasty(Input):
    """Gives payloads as they come; only repeats are left out."""

    def receive(self, frame):
        new = frame.number >= self.following and frame.number not in self.early
        self.early[frame.number] = frame.payload
        while self.following in self.early:
            del self.early[self.following]
            self.following += 1
        return ((frame.payload,) if new else ()), Ack(self.following)


def test_a_link_that_does_not_restore_the_order_is_found(monkeypatch):
    monkeypatch.setattr(network, "Input", Hasty)
    assert found(faults=Faults(late=0.4, late_ms=400)) is not None


@pytest.mark.parametrize(
    ("of", "name"),
    [(lambda payload: getattr(payload, "number", 0) < 0, EXACTLY_ONCE), (lambda _: True, REFUSED)],
    ids=["what senders send", "anything"],
)
def test_a_link_that_lets_repeats_through_is_found(monkeypatch, of, name):
    """A message that its ingress takes twice comes twice; an atom refuses what has passed it."""

    class Repeating(Input):
        def receive(self, frame):
            out, ack = Input.receive(self, frame)
            return (out or ((frame.payload,) if of(frame.payload) else ())), ack

    monkeypatch.setattr(network, "Input", Repeating)
    assert found(faults=Faults(duplicate=0.5)) == name


def test_a_link_that_sends_nothing_again_is_found(monkeypatch):
    """What is lost once is lost: nothing wrong is delivered, and the rest waits for ever."""
    monkeypatch.setattr(Output, "tick", lambda *_: ())
    monkeypatch.setattr(Output, "next_due_ms", lambda _: 10**9)
    quiet = Setting(calm_ms_max=20_000)
    assert run(1, NONE, quiet).anomaly is None
    verdict = run(1, Faults(loss=0.1), quiet)
    assert (verdict.anomaly.name, verdict.phase) == (LIVENESS, LIVENESS)
    assert "frames or messages still wait" in str(verdict.anomaly.witness[0])


def test_a_run_without_an_end_is_told_in_either_phase():
    for events_max, phase in ((100, "safety"), (run_events(1), "liveness")):
        verdict = run(1, HARSH, Setting(events_max=events_max))
        assert (verdict.anomaly.name, verdict.phase) == (LIVENESS, phase)
        assert "no end" in str(verdict.anomaly)


def run_events(seed):
    """As many events as the safety phase of a run has, and a few."""
    probe = _Run(seed, HARSH, DEFAULT)
    probe.judged()
    return probe.net.events.happened - 20


def test_a_receiver_that_does_not_wait_is_found(monkeypatch):
    monkeypatch.setattr(Subscriber, "take", lambda _, message, __: (ordering.DELIVERED, (message,)))
    assert found(faults=NONE) is not None


def test_a_receiver_that_looks_at_no_stamps_is_found(monkeypatch):
    monkeypatch.setattr(
        Receiver,
        "is_next",
        lambda receiver, message: message.number == receiver.next_number.get(message.group, 0),
    )
    assert found(range(30), NONE) in BREAKS_ORDER


def test_an_ingress_that_numbers_for_old_members_is_found(monkeypatch):
    """A sender that joins is a stranger in the view of its message: it need not get it itself."""
    monkeypatch.setattr(GroupIngress, "_joins", lambda *_: False)
    late = Faults(late=0.3, late_ms=800)
    busy = Setting(hosts=8, groups=4, messages=200, answers=200, changes=30)
    assert found(range(3), late, busy) == CAUSALITY
    monkeypatch.undo()
    assert found(range(3), late, busy) is None


def test_acknowledging_before_the_commit_is_found(monkeypatch):
    """What was acknowledged and not written down is lost in a crash."""

    def arrive(net, source, target, frame):
        if not isinstance(frame, Ack) and net.machine(target).up:
            key = ("input", source)
            part = net.machine(target).parts.get(key, Input())
            if frame.number == part.following:
                net.carrier.send(target, source, Ack(frame.number + 1))
        original(net, source, target, frame)

    original = Network.arrive
    monkeypatch.setattr(Network, "arrive", arrive)
    assert found(faults=Faults(crashes=20, commit_ms=20)) is not None


def test_a_restart_that_forgets_atoms_is_found(monkeypatch):
    """Counters that begin again after a crash."""
    copied = machine.copied

    def forgetful(part):
        new = copied(part)
        if isinstance(new, ViewAtom):
            new.atom = Atom(part.atom.pair)
        return new

    monkeypatch.setattr(machine, "copied", forgetful)
    assert found(faults=Faults(crashes=20, commit_ms=2)) is not None


def test_delivering_to_a_stranger_is_found(monkeypatch):
    deliver = Network._onward

    def generous(net, node, message, *ways):
        view = net.views.views[message.view]
        stranger = min(name for some in view.groups.values() for name in some)
        seen = net.record.histories.get(stranger, ())
        strange = stranger not in view.groups[message.group] and message.body not in seen
        if strange and not message.last:
            net._note_delivered(stranger, message)
        deliver(net, node, message, *ways)

    monkeypatch.setattr(Network, "_onward", generous)
    assert found(faults=NONE) == MEMBERSHIP


def test_delivering_twice_is_found(monkeypatch):
    note = Network._note_delivered

    def twice(net, name, message):
        note(net, name, message)
        if len(net.record.histories[name]) == 7:
            note(net, name, message)

    monkeypatch.setattr(Network, "_note_delivered", twice)
    assert found(faults=NONE) == EXACTLY_ONCE


def test_losing_a_message_is_found_in_the_liveness_phase(monkeypatch):
    number = Ingress.number

    def skipping(ingress, message):
        if ingress.following == 4:
            ingress.following += 1
        return number(ingress, message)

    monkeypatch.setattr(Ingress, "number", skipping)
    verdict = next(verdict for seed in range(9) if (verdict := run(seed, NONE)).anomaly)
    assert verdict.phase == LIVENESS
    assert verdict.anomaly.name == LIVENESS
    assert "never got" in str(verdict.anomaly)

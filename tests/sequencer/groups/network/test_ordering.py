"""Order from numbers alone, in a network with any delays; and how it breaks without C3 or rings."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sequencer.groups.network.graph import Graph, build, check
from sequencer.groups.network.ordering import (
    DELIVERED,
    DUPLICATE,
    HELD,
    Atom,
    GroupMessage,
    HeldLimitError,
    Ingress,
    Receiver,
)
from sequencer.judging.invariants import ACYCLIC
from tests.sequencer.groups.network.memberships import RING, some_groups
from tests.sequencer.groups.network.network import Network

PAIR = ("G0", "G1")


def runs(seeds, groups_max=5, messages=14):
    for seed in seeds:
        rng = random.Random(seed)
        groups = some_groups(seed, groups=groups_max)
        network = Network(build(groups), groups, rng).run(messages)
        assert network.anomaly() is None, f"seed {seed}: {network.anomaly()}"
        assert not any(receiver.holding for receiver in network.receivers.values())


def test_all_requirements_hold_in_random_runs():
    runs(range(600))


@pytest.mark.slow
def test_all_requirements_hold_in_many_random_runs():
    runs(range(10_000, 40_000), messages=20)


def test_outside_senders_get_everything_but_causality():
    for seed in range(200):
        groups = some_groups(seed, groups=5)
        network = Network(build(groups), groups, random.Random(seed)).run(14, senders=["Z"])
        assert network.anomaly() is None


def test_rings_of_single_overlaps():
    for seed in range(200):
        network = Network(build(RING), RING, random.Random(seed)).run(9)
        assert network.anomaly() is None, seed


def test_double_overlaps_alone_let_a_ring_through():
    """The paper's own rule: no atom here, three subscribers, three pairs of messages, a ring."""
    paper = Graph({}, dict.fromkeys(RING, ()))
    found = [
        anomaly
        for seed in range(200)
        if (anomaly := Network(paper, RING, random.Random(seed)).run(9).order_anomaly())
    ]
    assert found
    assert all(anomaly.name == ACYCLIC for anomaly in found)
    assert min(len(anomaly.witness) for anomaly in found) == 3


def against_the_stream():
    graph = build(RING)
    shortest = min(graph.paths, key=lambda group: (len(graph.paths[group]), group))
    return replace(graph, paths={**graph.paths, shortest: graph.paths[shortest][::-1]})


def test_without_c3_messages_pass_each_other():
    """One path against the others': C1 and C2 hold, and a ring of three messages comes of it."""
    graph = against_the_stream()
    assert {violation.criterion for violation in check(graph, RING)} == {"C3"}
    found = []
    for seed in range(300):
        network = Network(graph, RING, random.Random(seed)).run(9)
        if anomaly := network.order_anomaly():
            found.append(anomaly)
    assert found
    assert min(len(anomaly.witness) for anomaly in found) == 3


def stamped(number, stamp):
    return GroupMessage("G0", "A", number, number, ((PAIR, stamp),))


def test_deliver_hold_and_duplicate():
    receiver = Receiver("A", frozenset({"G0", "G1"}), frozenset({PAIR}))
    late = GroupMessage("G1", "A", "y", 0, ((PAIR, 1),))
    assert receiver.take(stamped(1, 2)) == (HELD, ())
    assert receiver.take(late) == (HELD, ())
    assert receiver.take(late) == (DUPLICATE, ())
    outcome, out = receiver.take(stamped(0, 0))
    assert (outcome, [m.body for m in out]) == (DELIVERED, [0, "y", 1])
    assert receiver.take(stamped(0, 0)) == (DUPLICATE, ())
    assert receiver.holding == 0


def test_a_subscriber_of_one_group_looks_at_the_group_number_only():
    receiver = Receiver("B", frozenset({"G0"}), frozenset())
    assert receiver.take(stamped(0, 17))[0] == DELIVERED


def test_the_limit_of_held_messages_and_one_past_it():
    receiver = Receiver("B", frozenset({"G0"}), frozenset(), held_max=2)
    assert receiver.take(stamped(2, 2))[0] == HELD
    assert receiver.take(stamped(1, 1))[0] == HELD
    with pytest.raises(HeldLimitError, match="offer it again"):
        receiver.take(stamped(3, 3))
    assert [m.body for m in receiver.take(stamped(0, 0))[1]] == [0, 1, 2]
    assert receiver.take(stamped(3, 3))[0] == DELIVERED


def test_refusals():
    with pytest.raises(ValueError, match="was not numbered"):
        Ingress("G0").number(GroupMessage("G1", "A", "x"))
    atom = Atom(PAIR)
    with pytest.raises(ValueError, match="a second time"):
        atom.stamp(atom.stamp(stamped(0, 0)))
    with pytest.raises(ValueError, match="not a numbered message"):
        Receiver("B", frozenset({"G0"}), frozenset()).take(GroupMessage("G1", "A", "x", 0))
    foreign = GroupMessage("G7", "A", "x", 0)
    assert Atom(PAIR).stamp(foreign) is foreign

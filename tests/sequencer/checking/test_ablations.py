"""Each safeguard of the protocols is needed: without it, an anomaly is found and named."""

from functools import cache

import pytest

from sequencer.checking.interleavings import Coverage, Finding, explore
from sequencer.checking.requirements import BUS1, KDBUS, bus1, kdbus, only
from sequencer.checking.scenarios import Dequeued, Destroy, Finished, Scenario, Send
from sequencer.checking.trials import Trial
from sequencer.multicast.protocol.bus import ClockBus, CounterBus
from tests.sequencer.checking import ablations as without

TWO = (Send("A", "P", ("R", "S")), Send("B", "Q", ("R", "S")))
REACTION = (
    Send("A", "Q", ("R", "S")),
    Send("B", "P", ("S",), after=(Dequeued("R", "A"),)),
)
LINE = (Send("A", "P", ("R", "S")), Send("B", "P", ("R", "S")))
LINE_ONE = (Send("A", "P", ("R", "S")), Send("B", "P", ("R",)))
OVERTAKING = (
    Send("A", "P", ("Q", "R")),
    Send("B", "P", ("S",)),
    Send("C", "O", ("Q",), after=(Dequeued("S", "B"),)),
)
REFUSED = (
    Destroy("~n", "n"),
    Send("A", "P", ("Q", "R"), after=(Finished("~n"),)),
    Send("B", "P", ("@n",)),
    Send("C", "O", ("Q",), after=(Finished("B"),)),
)
UNICAST = (
    Send("A", "Q", ("R", "S")),
    Send("B", "P", ("R",)),
    Send("C", "O", ("R",), after=(Finished("A"),)),
)
LATE_UNICAST = (
    Send("A", "Q", ("R", "S")),
    Send("B", "P", ("R",), after=(Dequeued("S", "A"),)),
)
BEHIND = (Send("A", "Q", ("R", "S")), Send("B", "P", ("R", "S"), after=(Finished("A"),)))
NODE = {"n": "O"}
TO_NODE = (Send("A", "P", ("@n", "Q")), Destroy("~n", "n"))
PASSED = (Send("A", "P", ("Q", "S"), ("@n",)), Destroy("~n", "n"))

CLOCK = [
    ("block", {"queue": without.NoBlocks}, TWO, {}, "consistency"),
    (
        "sync before queueing",
        {"transaction": without.SyncWhenQueueing, "queue": without.LateSync},
        REACTION,
        {},
        "causality-side-channel",
    ),
    (
        "sync of the sender",
        {"transaction": without.SenderNotSynced},
        BEHIND,
        {},
        "causality-side-channel",
    ),
    ("tick", {"queue": without.NoTick}, LINE, {}, "consistency"),
    ("sender in the stamp", {"queue": without.NoTieBreak}, TWO, {}, "consistency"),
    ("stamps in turn", {"transaction": without.StampsOutOfTurn}, LINE, {}, "sender-order"),
    (
        "shown in turn",
        {"transaction": without.ShownOutOfTurn},
        OVERTAKING,
        {},
        "causality-side-channel",
    ),
    (
        "refusals in turn",
        {"bus": without.TellsRefusalsAtOnce},
        REFUSED,
        {"n": "S"},
        "causality-side-channel",
    ),
    ("block unless alone", {"transaction": without.AlwaysArrives}, LINE_ONE, {}, "sender-order"),
    (
        "stamp by the destination",
        {"transaction": without.NaiveUnicast, "queue": without.QueueWithoutBlock},
        UNICAST,
        {},
        "stamps",
    ),
    (
        "clock of the destination",
        {"transaction": without.SenderClockUnicast, "queue": without.QueueWithoutBlock},
        LATE_UNICAST,
        {},
        "causality-side-channel",
    ),
    ("block behind what is there", {"queue": without.BlockAtZero}, BEHIND, {}, "starvation"),
    ("memory of notices", {"peer": without.ForgetfulPeer}, PASSED, NODE, "passed-handle"),
    ("wait for the destruction", {"peer": without.HastyPeer}, PASSED, NODE, "passed-handle"),
    (
        "stamp above the destruction",
        {"transaction": without.StampBelowDestruction},
        PASSED,
        {"n": "R"},
        "passed-handle",
    ),
    (
        "blocks before registering",
        {"transaction": without.RegistersFirst},
        PASSED,
        NODE,
        "passed-handle",
    ),
    (
        "nodes judged by the stamp",
        {"peer": without.JudgesNodesAtTheBlock},
        TO_NODE,
        NODE,
        "destination-node",
    ),
    ("owner's queue left alone", {"peer": without.TouchesTheOwner}, PASSED, NODE, "locality"),
]
COUNTER = [
    ("uncommitted front", {"queue": without.LooksPastUncommitted}, TWO, {}, "atomicity"),
    (
        "second step",
        {"transaction": without.OneStep, "peer": without.CopyAndCommit},
        TWO,
        {},
        "atomicity",
    ),
    ("seq_lower", {"transaction": without.NoLowerBound}, BEHIND, {}, "starvation"),
    (
        "numbers in turn",
        {"transaction": without.NumbersOutOfTurn},
        LINE,
        {},
        "local-queue-order",
    ),
    ("new holders", {"counter": without.MissesNewHolders}, PASSED, NODE, "passed-handle"),
]


@cache
def intact(bus_type, sends, nodes):
    """The whole protocol does not show what is found without one of its parts."""
    judge = bus1 if bus_type is ClockBus else kdbus
    return explore(Trial(Scenario(sends, dict(nodes)), bus_type()), judge)


def nothing(_record, _ended):
    return None


def assert_found(scenario, bus, checks, name):
    judge = only(name, checks) if name in checks else nothing
    finding = explore(Trial(scenario, bus), judge)
    assert isinstance(finding, Finding)
    assert finding.anomaly.name == name
    assert finding.schedule
    assert str(finding).startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("_safeguard", "parts", "sends", "nodes", "name"), CLOCK, ids=[case[0] for case in CLOCK]
)
def test_bus1_needs(_safeguard, parts, sends, nodes, name):
    scenario = Scenario(sends, nodes)
    assert isinstance(intact(ClockBus, sends, tuple(nodes.items())), Coverage)
    assert_found(scenario, without.clock_bus(**parts)(), BUS1, name)


@pytest.mark.parametrize(
    ("_safeguard", "parts", "sends", "nodes", "name"), COUNTER, ids=[case[0] for case in COUNTER]
)
def test_kdbus_needs(_safeguard, parts, sends, nodes, name):
    scenario = Scenario(sends, nodes)
    assert isinstance(intact(CounterBus, sends, tuple(nodes.items())), Coverage)
    assert_found(scenario, without.counter_bus(**parts)(), KDBUS, name)

"""Both protocols in all interleavings of small scenarios, and in random ones of larger."""

import random

import pytest

from sequencer.checking.interleavings import (
    Coverage,
    Finding,
    TooManyStatesError,
    explore,
    sample,
)
from sequencer.checking.requirements import BUS1, KDBUS, bus1, kdbus, only
from sequencer.checking.scenarios import Dequeued, Scenario, Send
from sequencer.checking.trials import Trial
from sequencer.multicast.protocol.bus import ClockBus, CounterBus
from tests.sequencer.checking import ablations as without
from tests.sequencer.checking.cases import LONG, QUICK, random_scenario

BUSES = {"clock": (ClockBus, bus1), "counter": (CounterBus, kdbus)}


@pytest.mark.parametrize("order", BUSES)
@pytest.mark.parametrize("name", QUICK)
def test_every_interleaving(order, name):
    bus, judge = BUSES[order]
    result = explore(Trial(QUICK[name], bus()), judge, reduced=True)
    assert isinstance(result, Coverage), str(result)
    assert result.ends > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("order", BUSES)
@pytest.mark.parametrize("name", LONG)
def test_every_interleaving_of_larger_scenarios(order, name):
    bus, judge = BUSES[order]
    result = explore(Trial(LONG[name], bus()), judge, reduced=True)
    assert isinstance(result, Coverage), str(result)


def ends_of(scenario, bus, *, reduced):
    """What the ends look like from outside: histories and outcomes."""
    ends = set()

    def note(evidence, ended):
        if ended:
            histories = tuple(sorted(evidence.histories.items()))
            ends.add((histories, tuple(sorted(evidence.before.items()))))

    result = explore(Trial(scenario, bus), note, reduced=reduced)
    assert isinstance(result, Coverage)
    return ends, result


FEW = ["two senders", "to oneself", "a handle passed on"]


@pytest.mark.parametrize("order", BUSES)
@pytest.mark.parametrize("name", FEW)
def test_the_reduction_loses_no_end(order, name):
    bus, _ = BUSES[order]
    whole, all_states = ends_of(QUICK[name], bus(), reduced=False)
    reduced, fewer_states = ends_of(QUICK[name], bus(), reduced=True)
    assert reduced == whole
    assert fewer_states.states < all_states.states


@pytest.mark.parametrize(
    "bus",
    [
        without.clock_bus(queue=without.NoBlocks),
        without.clock_bus(transaction=without.SyncWhenQueueing, queue=without.LateSync),
        without.counter_bus(queue=without.LooksPastUncommitted),
        without.counter_bus(transaction=without.OneStep, peer=without.CopyAndCommit),
    ],
    ids=["no blocks", "no sync", "past uncommitted", "one step"],
)
def test_the_reduction_loses_no_end_of_a_broken_bus(bus):
    scenario = QUICK["two senders"]
    whole, _ = ends_of(scenario, bus(), reduced=False)
    assert ends_of(scenario, bus(), reduced=True)[0] == whole


def run_random(order, seeds, bus=None):
    protocol, judge = BUSES[order]
    for seed in seeds:
        rng = random.Random(seed)
        result = sample(Trial(random_scenario(rng), (bus or protocol)()), judge, rng)
        if isinstance(result, Finding):
            return f"seed {seed}: {result}"
    return None


@pytest.mark.parametrize("order", BUSES)
def test_random_runs(order):
    assert run_random(order, range(100)) is None


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("order", BUSES)
def test_ten_thousand_random_runs(order):
    assert run_random(order, range(10_000)) is None


def test_random_runs_find_what_is_broken():
    broken = {
        "clock": without.clock_bus(queue=without.NoBlocks),
        "counter": without.counter_bus(queue=without.LooksPastUncommitted),
    }
    for order, bus in broken.items():
        assert "seed" in run_random(order, range(200), bus)


def test_both_buses_show_every_kind_of_end():
    """The cases are not idle: nodes refused and reached, handles valid and invalid, notices."""
    seen = set()

    def note(evidence, ended):
        for outcome in evidence.outcomes.values() if ended else ():
            seen.add("refused" if outcome.refusal else "gone" if outcome.gone else "whole")
        for history in evidence.histories.values() if ended else ():
            for delivery in history:
                known = getattr(delivery, "known", None)
                seen.add({None: "delivery", True: "notice", False: "stray notice"}[known])
                seen.update(["valid"] if getattr(delivery, "handles", ()) else [])
                seen.update(["invalid"] if getattr(delivery, "handles_invalid", ()) else [])

    for name in ("two nodes of one owner, one dies", "all nodes die", "a handle passed on"):
        explore(Trial(QUICK[name], ClockBus()), note, reduced=True)
    outcomes = {"refused", "gone", "whole"}
    assert seen == outcomes | {"delivery", "notice", "stray notice", "valid", "invalid"}


def test_clocks_order_signalled_causes_only_where_they_meet():
    """M is before Z at S and after A at R, and Z caused A; but nobody gets both Z and A."""
    scenario = Scenario(
        (
            Send("M", "M", ("R", "S")),
            Send("Z", "Z", ("S", "Q")),
            Send("A", "A", ("R",), after=(Dequeued("Q", "Z"),)),
        )
    )
    judge = only("one-order", KDBUS)
    finding = explore(Trial(scenario, ClockBus()), judge, reduced=True)
    assert str(finding.anomaly) == (
        "one-order: Z happened before A; R got A (at 0) before M (1); S got M (at 0) before Z (1)"
    )
    assert isinstance(explore(Trial(scenario, CounterBus()), judge, reduced=True), Coverage)


def test_an_exploration_that_is_too_large_says_so():
    with pytest.raises(TooManyStatesError, match="more than 100 states"):
        explore(Trial(QUICK["two senders"], ClockBus()), bus1, states_max=100)


def test_the_requirements_have_the_names_of_the_texts():
    assert {
        *("consistency", "causality", "causality-side-channel", "locality", "sender-order"),
        *("destination-node", "passed-handle", "exactly-once"),
    } <= BUS1.keys()
    assert {
        *("local-queue-order", "local-dequeue-order", "atomicity"),
        *("causality-dequeued", "causality-queued"),
    } <= KDBUS.keys()

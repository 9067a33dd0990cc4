"""The checks of delivered histories against definitions of a few lines."""

import random
import time
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.judging.invariants import (
    Anomaly,
    Caused,
    Got,
    Receipts,
    Sent,
    Stray,
    acyclic,
    causality,
    exactly_once,
    membership,
    sender_order,
    stamp_order,
)
from tests.seeds import examples

MESSAGES = "abcde"
HISTORIES = st.dictionaries(
    st.sampled_from("RSTU"),
    st.lists(st.sampled_from(MESSAGES), unique=True, max_size=5),
    max_size=4,
)
CAUSES = st.lists(
    st.tuples(st.sampled_from(MESSAGES), st.sampled_from(MESSAGES)).filter(lambda e: e[0] < e[1]),
    max_size=5,
)


def before(history):
    return set(combinations(history, 2))


def naive_pairwise(histories):
    return all(
        not any((b, a) in before(h2) for a, b in before(h1))
        for h1, h2 in combinations(histories.values(), 2)
    )


def naive_one_order(histories, causes=()):
    wanted = set(causes).union(*map(before, histories.values()))
    return any(wanted <= before(order) for order in permutations(MESSAGES))


def closure(causes):
    closed = set(causes)
    while True:
        more = {(a, d) for a, b in closed for c, d in closed if b == c} | closed
        if more == closed:
            return closed
        closed = more


def naive_causality(histories, causes):
    return not any((b, a) in closure(causes) for h in histories.values() for a, b in before(h))


def assert_cycle(anomaly, histories, causes):
    """Each fact of the witness is true, and together they lead round."""
    steps = []
    for fact in anomaly.witness:
        if isinstance(fact, Got):
            history = histories[fact.receiver]
            assert history[fact.at] == fact.first
            assert history[fact.then] == fact.second
            assert fact.at < fact.then
            steps.append((fact.first, fact.second))
        else:
            assert (fact.cause, fact.effect) in causes
            steps.append((fact.cause, fact.effect))
    assert [s for _, s in steps] == [f for f, _ in steps[1:] + steps[:1]]


@settings(max_examples=examples(150))
@given(HISTORIES, CAUSES)
def test_acyclic_means_that_one_order_fits_all(histories, causes):
    anomaly = acyclic(histories, causes)
    assert (anomaly is None) == naive_one_order(histories, causes)
    if anomaly:
        assert (anomaly.name == "pairwise-order") == (not naive_pairwise(histories))
        assert anomaly.name == "acyclic" or len(anomaly.witness) == 2
        assert_cycle(anomaly, histories, causes)


@settings(max_examples=examples(150))
@given(HISTORIES, CAUSES)
def test_causality_is_the_definition(histories, causes):
    anomaly = causality(histories, causes)
    assert (anomaly is None) == naive_causality(histories, causes)
    if anomaly:
        assert sum(isinstance(fact, Got) for fact in anomaly.witness) == 1
        assert_cycle(anomaly, histories, causes)


def cycles_of(length, histories):
    wanted = set().union(*map(before, histories.values()))
    return any(
        all(step in wanted for step in zip(chosen, chosen[1:] + chosen[:1], strict=True))
        for chosen in permutations(MESSAGES, length)
    )


@settings(max_examples=examples(150))
@given(HISTORIES)
def test_a_cycle_is_as_short_as_there_is_one(histories):
    anomaly = acyclic(histories)
    if anomaly:
        size = len(anomaly.witness)
        assert cycles_of(size, histories)
        assert not any(cycles_of(smaller, histories) for smaller in range(2, size))


def test_three_receivers_in_a_circle_agree_in_pairs_and_not_together():
    histories = {"R": ["a", "b"], "S": ["b", "c"], "T": ["c", "a"]}
    anomaly = acyclic(histories)
    assert anomaly.name == "acyclic"
    assert str(anomaly) == (
        "acyclic: R got a (at 0) before b (1); S got b (at 0) before c (1); "
        "T got c (at 0) before a (1)"
    )


def test_the_witness_names_places_in_the_whole_history():
    histories = {"R": ["x", "a", "y", "b"], "S": ["b", "z", "a"]}
    assert acyclic(histories) == Anomaly(
        "pairwise-order", (Got("R", "a", "b", 1, 3), Got("S", "b", "a", 0, 2))
    )


def test_causality_runs_through_points_that_are_no_messages():
    histories = {"R": ["c", "a"], "S": ["a"]}
    causes = [("a", ("signal", 1)), (("signal", 1), "b"), ("b", "c")]
    anomaly = causality(histories, causes)
    assert anomaly.witness == (Got("R", "c", "a", 0, 1), *(Caused(f, g) for f, g in causes))
    assert causality({"R": ["c"], "S": ["a"]}, causes) is None


def test_an_effect_before_its_cause_out_of_sight_breaks_the_one_order_only():
    histories = {"R": ["b", "c"], "S": ["c", "a"]}
    causes = [("a", "b")]
    assert causality(histories, causes) is None
    assert acyclic(histories, causes).name == "acyclic"


def test_causes_that_no_order_can_keep_are_refused():
    with pytest.raises(ValueError, match="its own cause"):
        causality({}, [("a", "a")])
    with pytest.raises(ValueError, match="form a cycle"):
        causality({}, [("a", "b"), ("b", "a")])


def test_exactly_once_finds_doubles_and_losses():
    destinations = {"a": {"R", "S"}}
    assert exactly_once({"R": ["a"], "S": ["a"]}, destinations) is None
    double = exactly_once({"R": ["a", "b", "a"], "S": ["a"]}, destinations)
    assert double.witness == (Receipts("R", "a", (0, 2)),)
    lost = exactly_once({"R": ["a"]}, destinations)
    assert lost.witness == (Receipts("S", "a", ()),)
    assert str(lost) == "exactly-once: S never got a"
    assert exactly_once({"R": ["a"]}, destinations, complete=False) is None


def test_membership_finds_what_was_for_others_and_what_nobody_sent():
    assert membership({"R": ["a"]}, {"a": ["R"]}) is None
    assert membership({"S": ["a"]}, {"a": ["R"]}).witness == (Stray("S", "a", 0),)
    assert membership({"R": ["z"]}, {"a": ["R"]}).witness == (Stray("R", "z", 0),)


@given(HISTORIES, st.permutations(MESSAGES))
def test_sender_order_is_the_definition(histories, order):
    sent = {"P": order[:2], "Q": order[2:4]}
    pairs = before(sent["P"]) | before(sent["Q"])
    good = not any((b, a) in pairs for h in histories.values() for a, b in before(h))
    anomaly = sender_order(histories, sent)
    assert (anomaly is None) == good
    if anomaly:
        fact, got = anomaly.witness
        assert isinstance(fact, Sent)
        assert (fact.first, fact.second) in before(sent[fact.sender])
        assert (got.first, got.second) == (fact.second, fact.first)


def test_stamps_rise_strictly():
    stamps = {"a": (1, "P"), "b": (1, "Q"), "c": (1, "Q")}
    assert stamp_order({"R": ["a", "b"]}, stamps) is None
    assert "carries (1, 'P')" in str(stamp_order({"R": ["b", "a"]}, stamps))
    assert stamp_order({"R": ["b", "c"]}, stamps).name == "stamp-order"


def many_histories(deliveries, receivers, rng):
    histories = {r: [] for r in range(receivers)}
    for message in range(deliveries // 4):
        for receiver in rng.sample(range(receivers), 4):
            histories[receiver].append(message)
    return histories


def judge_time(deliveries):
    rng = random.Random(1)
    histories = many_histories(deliveries, 100, rng)
    causes = [(m, m + 1) for m in range(deliveries // 4 - 1)]
    start = time.process_time()
    assert acyclic(histories, causes) is None
    assert causality(histories, causes) is None
    return time.process_time() - start


def test_a_million_deliveries():
    assert judge_time(1_000_000) < 60


def test_one_inversion_is_found_among_many():
    histories = many_histories(40_000, 50, random.Random(2))
    at = next(
        at
        for at in range(len(histories[0]) - 1)
        if any(set(histories[0][at : at + 2]) <= set(h) for r, h in histories.items() if r)
    )
    histories[0][at], histories[0][at + 1] = histories[0][at + 1], histories[0][at]
    anomaly = acyclic(histories)
    assert {fact.receiver for fact in anomaly.witness} > {0}
    assert {anomaly.witness[0].first, anomaly.witness[0].second} == set(histories[0][at : at + 2])


def test_a_large_disorder_still_gets_a_witness_in_time():
    rng = random.Random(3)
    histories = {r: rng.sample(range(5_000), 2_000) for r in range(20)}
    start = time.process_time()
    anomaly = acyclic(histories)
    assert (anomaly.name, len(anomaly.witness)) == ("pairwise-order", 2)
    causes = [(f"s{m}", m) for m in range(5_000)] + [(m, f"s{m + 1}") for m in range(4_999)]
    assert causality(histories, causes).name == "causality"
    assert time.process_time() - start < 10

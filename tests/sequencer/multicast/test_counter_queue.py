"""kdbus' queue against the four cases as they are written, sorted at every call."""

from functools import cmp_to_key
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.multicast.protocol.counter_queue import CounterQueue, Instance
from sequencer.multicast.protocol.words import LimitError, ProtocolError, Stamp
from tests.seeds import examples
from tests.sequencer.multicast.counting import Counted, comparisons


def before(a, b):
    """The text's order; a and b have `seq_lower` and `stamp` (None: seq is not instantiated)."""
    if a.stamp is None and b.stamp is None:
        return a.seq_lower < b.seq_lower
    if a.stamp is None:
        return a.seq_lower < b.stamp.timestamp
    if b.stamp is None:
        return a.stamp.timestamp <= b.seq_lower
    return a.stamp.timestamp < b.stamp.timestamp


def naive_order(instances):
    """By the four cases, ties by arrival."""
    by_arrival = sorted(instances, key=lambda instance: instance.arrival)
    return sorted(by_arrival, key=cmp_to_key(lambda a, b: before(b, a) - before(a, b)))


@st.composite
def histories(draw):
    """Copies and commits as one counter gives them: seq above seq_lower, no number twice."""
    counter, flying, steps = 0, {}, []
    for token in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(["start", "start", "commit", "dequeue", "drop", "load"]))
        if kind == "start":
            flying[token] = counter
            steps.append(("copy", token, counter))
        elif kind in ("commit", "drop") and flying:
            chosen = draw(st.sampled_from(sorted(flying)))
            counter += kind == "commit"
            steps.append((kind, chosen, counter))
            del flying[chosen]
        elif kind in ("dequeue", "load"):
            steps.append((kind, 0, 0))
    return steps


@settings(max_examples=examples(150))
@given(histories(), st.permutations(range(25)))
def test_equals_the_naive_sorted_list(steps, arrivals):
    queue, naive = CounterQueue("D"), []
    for kind, token, number in steps:
        if kind == "copy":
            # Copies arrive in any order: seq_lower does not rise with the arrivals.
            number = min(number, arrivals[token])  # noqa: PLW2901 -- the step's number, as copied
            queue.copy_in(token, number, [token])
            naive.append(Instance(token, number, len(steps) + token, None, (token,)))
        elif kind in ("commit", "drop"):
            at = next(at for at, i in enumerate(naive) if i.token == token)
            old = naive.pop(at)
            if kind == "drop":
                queue.drop(token)
            else:
                stamp = Stamp(number, "P")
                queue.commit(token, stamp, [token, "second"])
                contents = (token, "second")
                naive.append(Instance(token, old.seq_lower, old.arrival, stamp, contents))
        elif kind == "load":
            other = CounterQueue("D")
            other.load(queue.state())
            assert other.state() == queue.state()
            queue = other
        naive = naive_order(naive)
        assert [i.token for i in queue.instances()] == [i.token for i in naive]
        ready = naive and naive[0].stamp is not None
        expected = (naive[0].stamp, naive[0].contents[0]) if ready else None
        assert queue.front() == expected
        if kind == "dequeue":
            assert queue.dequeue() == expected
            if ready and len(naive[0].contents) == 1:
                naive.pop(0)
            elif ready:
                first = naive[0]
                naive[0] = Instance(
                    first.token, first.seq_lower, first.arrival, first.stamp, first.contents[1:]
                )


def test_the_four_cases_are_total_but_for_ties_of_uncommitted():
    uncommitted = [Instance(f"u{n}", n, 0, None, ()) for n in (0, 1, 1, 2, 3)]
    committed = [Instance(f"c{n}", n - 1, 0, Stamp(n, "P"), ()) for n in (1, 2, 3)]
    both = uncommitted + committed
    for a, b in permutations(both, 2):
        tied = a.stamp is None and b.stamp is None and a.seq_lower == b.seq_lower
        assert before(a, b) + before(b, a) == (not tied)
        assert before(a, b) == (a.key()[:2] < b.key()[:2])
    for a, b, c in permutations(both, 3):
        assert not (before(a, b) and before(b, c)) or before(a, c)


def test_a_commit_moves_its_copy_back_and_no_other():
    queue = CounterQueue("D")
    for token, seq_lower in (("a", 0), ("b", 0), ("c", 1)):
        queue.copy_in(token, seq_lower, [token])
    queue.commit("b", Stamp(2, "P"), ["b"])
    assert [i.token for i in queue.instances()] == ["a", "c", "b"]
    queue.commit("a", Stamp(3, "P"), ["a"])
    assert [i.token for i in queue.instances()] == ["c", "b", "a"]


def test_an_uncommitted_front_means_an_empty_queue():
    queue = CounterQueue("D")
    queue.copy_in("a", 0, ["a"])
    queue.copy_in("b", 0, ["b"])
    queue.commit("b", Stamp(1, "P"), ["b"])
    assert queue.front() is None
    assert queue.dequeue() is None
    queue.commit("a", Stamp(2, "P"), ["a"])
    assert [queue.dequeue() for _ in range(3)] == [((1, "P"), "b"), ((2, "P"), "a"), None]


def test_what_starts_after_a_commit_never_stands_before_it():
    queue = CounterQueue("D")
    queue.copy_in("a", 0, ["a"])
    queue.commit("a", Stamp(1, "P"), ["a"])
    for token in range(100):
        queue.copy_in(token, 1, [token])
    assert queue.dequeue() == (Stamp(1, "P"), "a")


def test_steps_that_the_protocol_does_not_have_change_nothing():
    queue = CounterQueue("D", entries_max=2)
    queue.copy_in("a", 3, ["a"])
    queue.copy_in("b", 3, ["b"])
    queue.commit("b", Stamp(4, "P"), ["b"])
    state = queue.state()
    wrong = [
        (ProtocolError, "has a copy here already", lambda: queue.copy_in("a", 3, [])),
        (LimitError, "nothing was added", lambda: queue.copy_in("c", 3, [])),
        (ProtocolError, "has no copy here", lambda: queue.commit("c", Stamp(5, "P"), ["c"])),
        (ProtocolError, "cannot take", lambda: queue.commit("b", Stamp(5, "P"), ["b"])),
        (ProtocolError, "cannot take", lambda: queue.commit("a", Stamp(3, "P"), ["a"])),
        (ProtocolError, "it was kept", lambda: queue.drop("b")),
    ]
    for error, text, call in wrong:
        with pytest.raises(error, match=text):
            call()
        assert queue.state() == state


def most_comparisons(length):
    """Of any single operation on a queue of this length."""
    queue = CounterQueue("D")
    most = 0
    order = [(number * 7919) % length for number in range(length)]
    for number in order:
        low = Counted(number)
        most = max(most, comparisons(lambda n=number, low=low: queue.copy_in(n, low, [n])))
    for seq, number in enumerate(reversed(order)):
        stamp = Stamp(Counted(length + seq), "P")
        most = max(most, comparisons(lambda n=number, s=stamp: queue.commit(n, s, [n])))
    while len(queue):
        most = max(most, comparisons(queue.dequeue))
    return most


def test_an_operation_costs_the_logarithm_of_the_length():
    small, large = most_comparisons(2**6), most_comparisons(2**12)
    assert small > 6
    assert large <= 2.5 * small

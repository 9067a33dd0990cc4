"""A queue with a clock, against a list that is sorted at every call."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.multicast.protocol.clock_queue import TIMESTAMP_MAX, ClockQueue, Entry
from sequencer.multicast.protocol.words import LimitError, ProtocolError, Stamp
from tests.seeds import examples
from tests.sequencer.multicast.counting import Counted, comparisons


class NaiveQueue:
    def __init__(self):
        self.clock = 0
        self.messages = []
        self.blocks = {}

    def sync(self, timestamp):
        self.clock = max(self.clock, timestamp)

    def block(self, token, estimate):
        self.sync(estimate)
        self.blocks[token] = self.clock
        return self.clock

    def queue(self, token, stamp, contents):
        del self.blocks[token]
        self.messages += [(stamp, content) for content in contents]

    def front(self):
        if not self.messages:
            return None
        first = min(self.messages, key=lambda message: message[0])
        held = any(block < first[0].timestamp for block in self.blocks.values())
        return None if held else Entry(*first)

    def dequeue(self):
        front = self.front()
        if front:
            self.messages.remove((front.stamp, front.content))
        return front


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["sync", "tick", "block", "queue_in", "unblock", "arrive", "dequeue", "load"]
        ),
        st.integers(0, 9),
        st.sampled_from("PQR"),
    ),
    max_size=60,
)


class Both:
    """The queue and the naive one, doing the same steps."""

    def __init__(self):
        self.queue, self.naive, self.blocked = ClockQueue("D"), NaiveQueue(), []

    def sync(self, _number, amount, _sender):
        self.queue.sync(amount)
        self.naive.sync(amount)

    def tick(self, _number, _amount, _sender):
        self.naive.sync(self.naive.clock + 1)
        assert self.queue.tick() == self.naive.clock

    def block(self, number, amount, _sender):
        assert self.queue.block(number, amount) == self.naive.block(number, amount)
        self.blocked.append(number)

    def queue_in(self, number, amount, sender):
        if self.blocked:
            token = self.blocked.pop(amount % len(self.blocked))
            # The number makes senders, and so stamps, unique, as the protocol does.
            stamp = Stamp(self.naive.blocks[token] + 1, f"{sender}{number}")
            for one in (self.queue, self.naive):
                one.sync(stamp.timestamp)
                one.queue(token, stamp, [number] * (1 + amount % 2))

    def unblock(self, _number, amount, _sender):
        if self.blocked:
            token = self.blocked.pop(amount % len(self.blocked))
            self.queue.unblock(token)
            del self.naive.blocks[token]

    def arrive(self, number, amount, sender):
        stamp = self.queue.arrive(sender, amount, [number])
        self.naive.sync(amount)
        self.naive.sync(self.naive.clock + 1)
        assert stamp == (self.naive.clock, sender)
        self.naive.messages.append((stamp, number))

    def dequeue(self, _number, _amount, _sender):
        assert self.queue.dequeue() == self.naive.dequeue()

    def load(self, _number, _amount, _sender):
        other = ClockQueue("D")
        other.load(self.queue.state())
        assert other.state() == self.queue.state()
        self.queue = other


@settings(max_examples=examples(200))
@given(STEPS)
def test_equals_the_naive_queue(steps):
    both = Both()
    for number, (step, amount, sender) in enumerate(steps):
        getattr(both, step)(number, amount, sender)
        assert both.queue.propose() == both.naive.clock
        assert len(both.queue) == len(both.naive.messages)
        assert both.queue.front() == both.naive.front()


def test_a_block_holds_back_what_is_above_it_only():
    queue = ClockQueue("D")
    queue.sync(5)
    queue.arrive("P", 0, ["six"])
    queue.block("t", 0)
    queue.arrive("P", 0, ["seven"])
    assert queue.dequeue() == Entry(Stamp(6, "P"), "six")
    assert queue.dequeue() is None
    queue.unblock("t")
    assert queue.dequeue() == Entry(Stamp(7, "P"), "seven")


def test_equal_timestamps_go_by_sender_and_contents_keep_their_order():
    queue = ClockQueue("D")
    queue.block("a")
    queue.block("b")
    queue.sync(1)
    queue.queue("b", Stamp(1, "Q"), ["q1", "q2"])
    queue.queue("a", Stamp(1, "P"), ["p1"])
    assert [queue.dequeue().content for _ in range(3)] == ["p1", "q1", "q2"]


def test_steps_that_the_protocol_does_not_have_change_nothing():
    queue = ClockQueue("D")
    queue.block("t")
    before = queue.state()
    with pytest.raises(ProtocolError, match="has a block here already"):
        queue.block("t", 9)
    with pytest.raises(ProtocolError, match="has no block here"):
        queue.unblock("u")
    with pytest.raises(ProtocolError, match="sync the clock"):
        queue.queue("t", Stamp(1, "P"), ["m"])
    with pytest.raises(ProtocolError, match="no timestamp may reach"):
        queue.sync(TIMESTAMP_MAX)
    assert queue.state() == before
    queue.sync(TIMESTAMP_MAX - 1)
    with pytest.raises(ProtocolError, match="no timestamp may reach"):
        queue.tick()


def test_a_block_reserves_room():
    queue = ClockQueue("D", entries_max=3)
    queue.block("t", 0, room=2)
    queue.arrive("P", 0, ["m"])
    before = queue.state()
    for refused in (lambda: queue.block("u", 9), lambda: queue.arrive("P", 9, ["n"])):
        with pytest.raises(LimitError, match="send again"):
            refused()
    assert queue.state() == before
    queue.queue("t", Stamp(1, "Q"), ["a", "b"])
    assert len(queue) == 3
    with pytest.raises(LimitError):
        queue.arrive("P", 0, ["n"])
    queue.dequeue()
    queue.arrive("P", 0, ["n"])


def most_comparisons(length):
    """Of any single operation on a queue of this length, blocks as many as messages."""
    queue = ClockQueue("D")
    queue.clock = Counted(0)
    most = 0
    for number in range(2 * length):
        queue.block(number)
    order = [(number * 7919) % (2 * length) for number in range(2 * length)]
    for number in order:
        stamp = Stamp(Counted(number + 1), "P")
        queue.sync(stamp.timestamp)
        calls = [lambda n=number, s=stamp: queue.queue(n, s, [n])]
        if len(queue) >= length:
            calls += [queue.front, queue.dequeue]
        for call in [*calls, lambda: queue.block("x"), lambda: queue.unblock("x")]:
            most = max(most, comparisons(call))
    return most


def test_an_operation_costs_the_logarithm_of_the_length():
    small, large = most_comparisons(2**6), most_comparisons(2**12)
    assert small > 6
    # Twice the logarithm, twice the comparisons, and not 64 times.
    assert large <= 2.5 * small

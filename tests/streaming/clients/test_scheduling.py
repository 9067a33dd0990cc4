"""The schedule of a parallel reader against a naive model that keeps everything."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streaming.clients import Limits, Retry
from streaming.clients.scheduling import Schedule
from tests.seeds import examples

PLACES = [("t", 0), ("t", 1)]
LIMITS = Limits(buffer_records=24, buffer_bytes=600, ahead=10, parked=4)
RETRY = Retry(first_s=1, factor=2, longest_s=5)
DELAYS = [1, 2, 4, 5, 5, 5]


class Life:
    """A partition from its coming to its going: all that was read of it, in order."""

    def __init__(self, begin):
        self.position = begin
        self.read = []  # (offset, channel, size)
        self.done = set()
        self.failures = {}  # by channel, of its first unfinished delivery
        self.due = {}
        self.is_leaving = False
        self.is_paused = False
        self.is_known = False  # whether anything was heard of it

    def first(self, channel):
        """The first unfinished offset of a channel."""
        return next((o for o, c, _ in self.read if c == channel and o not in self.done), None)

    @property
    def open(self):
        return [entry for entry in self.read if entry[0] not in self.done]

    @property
    def prefix(self):
        return self.open[0][0] if self.open else self.position

    @property
    def beyond(self):
        return sum(offset >= self.prefix for offset, _, _ in self.read)

    @property
    def parked(self):
        return sum(bool(self.failures.get(channel)) for _, channel, _ in self.open)

    def full(self, part, partitions):
        """Whether one of the limits is reached, by their definition."""
        waits, size = len(self.open), sum(size for _, _, size in self.open)
        return (
            self.parked * part >= LIMITS.parked
            or self.beyond * part >= LIMITS.ahead
            or waits * part * partitions >= LIMITS.buffer_records
            or (waits and size >= LIMITS.buffer_bytes // (part * partitions))
        )


class Model(RuleBasedStateMachine):
    """Readers, handlers, rebalances and time, in any order."""

    def __init__(self):
        super().__init__()
        self.now = 0
        self.schedule = Schedule(LIMITS, RETRY)
        self.lives = {}
        self.running = []  # (life, offset, channel name, item)
        self.begin = dict.fromkeys(PLACES, 0)

    @rule(place=st.sampled_from(PLACES))
    def assign(self, place):
        if place not in self.lives:
            self.schedule.assign(place)
            self.lives[place] = Life(self.begin[place])

    @rule(
        place=st.sampled_from(PLACES),
        channels=st.lists(st.sampled_from("abc"), max_size=8),
        skip=st.integers(0, 2),
        size=st.integers(0, 100),
    )
    def read(self, place, channels, skip, size):
        life = self.lives.get(place)
        for channel in channels:
            if life is None or life.is_paused or life.is_leaving:
                return
            offset = life.position + skip
            life.read.append((offset, channel, size))
            life.position, life.is_known = offset + 1, True
            full = self.schedule.add(place, offset, channel.encode(), size, (place, offset))
            assert full == bool(life.full(1, len(self.lives)))
            if full:
                self.pause()
                return

    @rule(place=st.sampled_from(PLACES), more=st.integers(0, 3))
    def reach_the_end(self, place, more):
        life = self.lives.get(place)
        if life is not None:
            life.position, life.is_known = life.position + more, True
            self.schedule.pass_over(place, life.position)

    @rule()
    def pause(self):
        pause, resume = self.schedule.pauses()
        for place, life in self.lives.items():
            count = len(self.lives)
            if not life.is_paused and life.full(1, count):
                assert pause.pop(place)
                life.is_paused = True
            elif life.is_paused and not life.full(2, count):
                resume.remove(place)
                life.is_paused = False
        assert (pause, resume) == ({}, [])

    @rule(count=st.integers(1, 4))
    def start(self, count):
        for _ in range(count):
            self.start_one()

    def start_one(self):
        item = self.schedule.take(self.now)
        ready = self.startable()
        if item is None:
            assert not ready
            return
        place, offset = item.content
        assert (place, offset) in ready
        life = self.lives[place]
        channel = next(c for o, c, _ in life.read if o == offset)
        self.running.append((life, offset, (place, channel), item))

    def startable(self):
        """All that may run: the first of each channel that does not run, and has waited enough."""
        names = [name for _, _, name, _ in self.running]
        return [
            (place, life.first(channel))
            for place, life in self.lives.items()
            if not life.is_leaving
            for channel in "abc"
            if life.first(channel) is not None
            and (place, channel) not in names
            and life.due.get(channel, 0) <= self.now
        ]

    @precondition(lambda self: self.running)
    @rule(data=st.data(), well=st.booleans())
    def end(self, data, well):
        number = data.draw(st.integers(0, len(self.running) - 1))
        life, offset, (place, channel), item = self.running.pop(number)
        is_here = self.lives.get(place) is life
        if well:
            assert self.schedule.finish(item) == is_here
            life.done.add(offset)
            life.failures[channel] = life.due[channel] = 0
        else:
            assert self.schedule.fail(item, self.now) == is_here
            failures = life.failures.get(channel, 0)
            life.failures[channel] = failures + 1
            life.due[channel] = self.now + DELAYS[min(failures, 5)]

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds):
        self.now += seconds

    @rule(place=st.sampled_from(PLACES), seldom=st.integers(0, 2))
    def leave(self, place, seldom):
        if place in self.lives and not seldom:
            self.schedule.leave([place])
            self.lives[place].is_leaving = True

    @rule(place=st.sampled_from(PLACES), seldom=st.integers(0, 3))
    def lose(self, place, seldom):
        if seldom:
            return
        life = self.lives.pop(place, None)
        runs = {(mine, offset) for mine, offset, _, _ in self.running}
        undone = {
            (place, life.first(channel))
            for channel, failures in (life.failures.items() if life else ())
            if failures and (life, life.first(channel)) not in runs
        }
        assert set(self.schedule.remove([place])) == undone
        if life is not None:
            self.begin[place] = life.prefix  # where the next reader begins

    @invariant()
    def commits_nothing_that_is_not_finished(self):
        known = {place: life.prefix for place, life in self.lives.items() if life.is_known}
        assert self.schedule.committable() == known

    @invariant()
    def counts_what_limits_go_by(self):
        for place, life in self.lives.items():
            partition = self.schedule.partitions[place]
            assert partition.parked == life.parked
            assert partition.unfinished == len(life.open)
            assert partition.size == sum(size for _, _, size in life.open)
            assert len(partition.tail) == life.beyond
            runs = [1 for mine, _, _, _ in self.running if mine is life]
            assert self.schedule.running([place]) == len(runs)

    @invariant()
    def one_of_a_channel_at_a_time(self):
        names = [name for _, _, name, _ in self.running]
        assert len(names) == len(set(names))

    @invariant()
    def parked_channels_are_known(self):
        runs = {name for _, _, name, _ in self.running}
        parked = {
            (place, channel): (life.failures[channel], life.due[channel])
            for place, life in self.lives.items()
            for channel in life.failures
            if life.failures[channel] and (place, channel) not in runs
        }
        found = {
            (item.content[0], item.channel.name[2].decode()): (item.channel.failures, due)
            for due, item, _ in self.schedule.parked()
        }
        assert {name for name, (_, due) in parked.items() if due > self.now} <= found.keys()
        assert all(parked[name] == each for name, each in found.items())
        due = [due for _, due in parked.values() if due > self.now]
        assert not due or self.schedule.next_try_s() <= min(due)

    def teardown(self):
        """Whatever has happened: all that was read can be handled, and then nothing is left."""
        while self.running:
            life, offset, _, item = self.running.pop()
            self.schedule.finish(item)
            life.done.add(offset)
        self.now += 1000
        while (item := self.schedule.take(self.now)) is not None:
            place, offset = item.content
            self.lives[place].done.add(offset)
            self.schedule.finish(item)
        for place, life in self.lives.items():
            if not life.is_leaving:
                assert not life.open, place
                assert self.schedule.partitions[place].prefix in (life.position, None)
                assert not self.schedule.partitions[place].size
                assert not self.schedule.partitions[place].parked


class TestSchedule(Model.TestCase):
    settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)


@pytest.mark.slow
class TestScheduleForLong(Model.TestCase):
    settings = settings(max_examples=5_000, stateful_step_count=80, deadline=None)

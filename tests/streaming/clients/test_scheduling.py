"""The schedule of a parallel reader against a naive model that keeps everything."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streaming.clients import Limits, Retry
from streaming.clients.scheduling import Schedule
from streaming.errors import ConfigError
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


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40), st.randoms())
def test_each_channel_is_handled_in_order_and_once(arrivals, random):
    schedule = Schedule(Limits(), Retry())
    schedule.assign(("t", 0))
    handled, running, now, ahead = {}, [], 0.0, list(enumerate(arrivals))
    while ahead or running or handled.keys() != {c for c, _ in arrivals} or schedule.running([]):
        if ahead and random.random() < 0.5:
            offset, (channel, _) = ahead.pop(0)
            schedule.add(("t", 0), offset, channel.encode(), 1, offset)
        elif running and random.random() < 0.6:
            item = running.pop(random.randrange(len(running)))
            if random.random() < 0.2:
                schedule.fail(item, now)
            else:
                handled.setdefault(arrivals[item.content][0], []).append(item.content)
                schedule.finish(item)
        elif (item := schedule.take(now)) is not None:
            running.append(item)
        now += 1
    while (item := schedule.take(now + 1000)) is not None:
        handled[arrivals[item.content][0]].append(item.content)
        schedule.finish(item)
    for channel in {channel for channel, _ in arrivals}:
        assert handled[channel] == [n for n, (c, _) in enumerate(arrivals) if c == channel]
    assert schedule.committable() == ({("t", 0): len(arrivals)} if arrivals else {})


def test_a_partition_that_comes_back_waits_for_a_handler_of_its_former_life():
    schedule = Schedule(Limits(), Retry())
    schedule.assign(("t", 0))
    schedule.add(("t", 0), 5, b"a", 1, "old")
    old = schedule.take(0)
    schedule.remove([("t", 0)])
    schedule.assign(("t", 0))
    schedule.add(("t", 0), 5, b"a", 1, "new")
    schedule.add(("t", 0), 6, b"b", 1, "other")
    assert schedule.take(0).content == "other"
    assert schedule.take(0) is None, "a channel runs once at a time, whoever began it"
    assert not schedule.finish(old)
    assert schedule.committable() == {("t", 0): 5}, "what it did does not count"
    assert schedule.take(0).content == "new"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Retry(first_s=0),
        lambda: Retry(first_s=2, longest_s=1),
        lambda: Retry(factor=0.5),
        lambda: Retry(tries=0),
        lambda: Limits(buffer_records=0),
        lambda: Limits(buffer_bytes=2**41),
        lambda: Limits(drain_s=-1),
    ],
)
def test_settings_that_cannot_work(wrong):
    with pytest.raises(ConfigError, match="Give"):
        wrong()


def test_the_schedule_of_tries():
    assert [RETRY.delay_s(failures) for failures in range(1, 7)] == DELAYS
    assert Retry(factor=100).delay_s(10**6) == 30


def test_nothing_is_started_of_a_partition_that_leaves():
    schedule = Schedule(Limits(), Retry())
    for place in PLACES:
        schedule.assign(place)
        for offset, channel in enumerate([b"a", b"a", b"b"]):
            schedule.add(place, offset, channel, 1, (place, offset))
    first = schedule.take(0)
    assert first.content == (PLACES[0], 0)
    schedule.leave(PLACES[:1])
    started = [schedule.take(0).content, schedule.take(0).content]
    assert started == [(PLACES[1], 0), (PLACES[1], 2)]
    assert schedule.take(0) is None
    schedule.finish(first)
    assert schedule.take(0) is None
    assert schedule.committable() == {PLACES[0]: 1, PLACES[1]: 0}


def test_what_failed_and_waits_for_its_next_try_is_undone_where_its_partition_goes():
    """What waits was never started, and what runs may yet be finished."""
    schedule = Schedule(Limits(), RETRY)
    schedule.assign(PLACES[0])
    for offset, channel in enumerate([b"a", b"a", b"b", b"c"]):
        schedule.add(PLACES[0], offset, channel, 1, offset)
    failed, again, _ = schedule.take(0), schedule.take(0), schedule.take(0)
    schedule.fail(again, 0)
    again = schedule.take(1)
    assert again.content == 2
    schedule.fail(failed, 1)
    assert schedule.remove(PLACES) == [0]
    assert not schedule.fail(again, 1)
    assert schedule.take(100) is None

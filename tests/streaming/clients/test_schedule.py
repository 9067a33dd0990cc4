"""The schedule of a parallel reader: single stories, and the settings that cannot work."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from streaming.clients import Limits, Retry
from streaming.clients.scheduling import Schedule
from streaming.errors import ConfigError

PLACES = [("t", 0), ("t", 1)]
RETRY = Retry(first_s=1, factor=2, longest_s=5)
DELAYS = [1, 2, 4, 5, 5, 5]


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

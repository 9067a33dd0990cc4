"""When batches begin: seconds of a clock that the tests turn."""

import pytest

from streaming.disciplines.source import SourceRows
from streaming.source import pacing, reader
from streaming.source.pacing import AMONG_SECONDS, IDLE_SECONDS, LONGEST_SECONDS, Pace
from streaming.source.reader import WAKING_TICKS, Ticks


class Clock:
    """`time`, and an event that nobody sets: whoever waits for it turns the clock."""

    def __init__(self):
        self.now = 1_000.0

    def monotonic(self):
        return self.now

    def time(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(pacing, "time", clock)
    return clock


def made(clock, *timers, **more):
    """A pace whose first timer is due at the last of ``timers``, with its ticks."""
    due = [*timers]
    pace = Pace(due_ms=lambda: due[-1], **more)
    pace.ended.wait = clock.wait
    return pace, Ticks(pace), due


def begun(ticks, tick):
    """The offset after the batches that wake the shards."""
    for _ in range(WAKING_TICKS):
        pacing.time.now += 1
        assert ticks.latest(tick) == tick + 1
        assert ticks.rows(tick, tick + 1).here == b""
        tick += 1
    return tick


def test_batches_begin_no_sooner_after_each_other_than_the_trigger_says(clock):
    pace, ticks, _ = made(clock, None, every_ms=300)
    pace.hold()
    assert clock.now == 1_000
    assert ticks.latest(0) == 1
    ticks.rows(0, 1)
    clock.now += 0.1
    pace.hold()
    assert clock.now == pytest.approx(1_000.3)
    pace.hold()
    assert clock.now == pytest.approx(1_000.3)


def test_a_query_wakes_its_shards_twice_then_ticks_when_a_timer_is_due(clock):
    pace, ticks, due = made(clock, None)
    tick = begun(ticks, 0)
    assert ticks.latest(tick) == tick
    assert pace.left(clock.now) == pytest.approx(LONGEST_SECONDS)
    due.append((clock.now + 1.5) * 1000)
    assert pace.left(clock.now) == pytest.approx(1.501)
    clock.now += 1.5
    assert ticks.latest(tick) == tick
    clock.now += 0.002
    assert ticks.latest(tick) == tick + 1
    assert ticks.rows(tick, tick + 1) == SourceRows()


def test_shards_are_woken_once_after_the_clock_was_set_back(clock, monkeypatch):
    monkeypatch.setattr(reader, "time", clock)
    _, ticks, due = made(clock, None)
    tick = begun(ticks, 0)
    due.append(0)
    woken = []
    for seconds in (1, 1, -10, 1.5, 1):
        clock.now += seconds
        assert ticks.latest(tick) in (tick, tick + 1)
        monkeypatch.setattr(ticks._pace, "tick", lambda: True)
        assert ticks.latest(tick) == tick + 1
        given = {ticks.rows(tick, tick + 1).here for _ in range(2)}
        assert len(given) == 1, "Spark may ask again"
        woken += given
        tick += 1
    assert woken == [None, None, b"", None, None]


def test_a_timer_that_stays_due_or_is_not_known_gives_a_batch_a_second(clock):
    _, ticks, due = made(clock, None)
    tick = begun(ticks, 0)
    due.append(0)
    for _ in range(5):
        assert ticks.latest(tick) == tick
        clock.now += 0.6
        assert ticks.latest(tick) == tick
        clock.now += 0.4
        assert ticks.latest(tick) == tick + 1
        tick += 1


def test_a_batch_comes_now_and_then_without_any_timer(clock):
    pace, ticks, _ = made(clock, None)
    tick = begun(ticks, 0)
    clock.now += IDLE_SECONDS - 0.5
    assert ticks.latest(tick) == tick
    assert pace.left(clock.now) == pytest.approx(0.5)
    clock.now += 0.5
    assert ticks.latest(tick) == tick + 1


def test_no_batch_begins_for_time_alone_where_sources_do_not_wait(clock):
    """So with --once, whatever the run loop does meanwhile: what is held stays held."""
    pace = Pace()
    ticks = Ticks(pace)
    assert ticks.latest(ticks.first()) == 0
    assert ticks.rows(0, 0).here == b"", "a new query has a first batch in any case"
    for _ in range(5):
        clock.now += IDLE_SECONDS + 1
        assert ticks.latest(0) == 0
        assert not pace.tick()
        assert pace.left(clock.now) == 0


def test_how_long_a_source_waits(clock):
    pace = Pace(due_ms=lambda: None)
    pace.readers = 1
    assert pace.left(clock.now) == pytest.approx(LONGEST_SECONDS), "without ticks no timer ends it"
    assert pace.left(clock.now - LONGEST_SECONDS) == 0
    pace.readers = 2
    assert pace.left(clock.now) == pytest.approx(AMONG_SECONDS)
    assert pace.looked == clock.now
    pace.ended.set()
    assert pace.left(clock.now) == 0
    assert Pace().left(clock.now) == 0

"""A wall clock that is set back, or ahead, or corrected a little."""

from types import SimpleNamespace

from streaming.spark import wall_clock
from streaming.spark.wall_clock import WallClock


def test_a_clock_that_is_set_back_is_seen_once(monkeypatch):
    now = SimpleNamespace(wall=1_000.0, monotonic=5.0)
    clocks = SimpleNamespace(time=lambda: now.wall, monotonic=lambda: now.monotonic)
    monkeypatch.setattr(wall_clock, "time", clocks)
    clock = WallClock()

    def passed(seconds, wall_seconds):
        now.monotonic += seconds
        now.wall += wall_seconds
        return round(clock.set_back(), 3)

    assert passed(0.2, 0.2) == 0
    assert passed(0.2, -7_199.8) == 7_200
    assert passed(0.2, 0.2) == 0
    assert passed(0.2, 7_200) == 0, "ahead: what is due is due"
    assert passed(10, 9.5) == 0, "a correction"
    assert passed(10, 8.5) == 1.5


def test_a_pause_between_two_looks_is_no_clock_that_was_set_back(monkeypatch):
    now, pauses = SimpleNamespace(value=5.0), [0.0, 30.0, 0.0]

    def wall():
        found = now.value + 1_000
        now.value += pauses.pop(0)
        return found

    monkeypatch.setattr(wall_clock, "time", SimpleNamespace(time=wall, monotonic=lambda: now.value))
    clock = WallClock()
    assert [clock.set_back() for _ in range(2)] == [0.0, 0.0]

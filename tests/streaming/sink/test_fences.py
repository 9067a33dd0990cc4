"""A pipeline that is fenced, and whether it goes on."""

from types import SimpleNamespace

import pytest

from streaming.errors import Fenced, GapTimeout, KafkaUnavailable
from streaming.sink import fences
from streaming.sink.fences import Fences

FENCED = Fenced("Another copy took over.")


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """One that a test moves on."""
    made = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(fences.time, "monotonic", lambda: made.now)
    return made


def test_who_is_alone_outlives_some_fences(clock):
    past = Fences()
    for _ in range(fences.FENCES_MAX):
        failure = past.judged(FENCED, is_alone=True)
        assert isinstance(failure, KafkaUnavailable)
        assert "will be repeated" in str(failure)
        clock.now += fences.TOGETHER_SECONDS
    assert past.judged(FENCED, is_alone=True) is FENCED


def test_late_requests_that_come_together_count_once(clock):
    """As of a network that was away and held them back; another service goes on."""
    past = Fences()
    for _ in range(3 * fences.FENCES_MAX):
        assert isinstance(past.judged(FENCED, is_alone=True), KafkaUnavailable)
        clock.now += 0.3
    ends = 0
    for _ in range(100):
        ends += past.judged(FENCED, is_alone=True) is FENCED
        clock.now += 1
    assert ends > 0


def test_fences_of_long_ago_do_not_count(clock):
    past = Fences()
    for _ in range(3 * fences.FENCES_MAX):
        clock.now += 2 * fences.SECONDS / fences.FENCES_MAX
        assert isinstance(past.judged(FENCED, is_alone=True), KafkaUnavailable)


def test_who_may_not_be_alone_ends():
    assert Fences().judged(FENCED, is_alone=False) is FENCED


def test_other_failures_stay_what_they_are():
    failure = GapTimeout("a gap")
    assert Fences().judged(failure, is_alone=True) is failure

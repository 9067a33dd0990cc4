"""A pipeline that is fenced, and whether it goes on."""

from streaming.errors import Fenced, GapTimeout, KafkaUnavailable
from streaming.sink import fences
from streaming.sink.fences import Fences

FENCED = Fenced("Another copy took over.")


def test_who_is_alone_outlives_some_fences():
    past = Fences()
    for _ in range(fences.FENCES_MAX):
        failure = past.judged(FENCED, is_alone=True)
        assert isinstance(failure, KafkaUnavailable)
        assert "will be repeated" in str(failure)
    assert past.judged(FENCED, is_alone=True) is FENCED


def test_fences_of_long_ago_do_not_count(monkeypatch):
    past = Fences()
    monkeypatch.setattr(fences, "SECONDS", 0.0)
    for _ in range(3 * fences.FENCES_MAX):
        assert isinstance(past.judged(FENCED, is_alone=True), KafkaUnavailable)


def test_who_may_not_be_alone_ends():
    assert Fences().judged(FENCED, is_alone=False) is FENCED


def test_other_failures_stay_what_they_are():
    failure = GapTimeout("a gap")
    assert Fences().judged(failure, is_alone=True) is failure

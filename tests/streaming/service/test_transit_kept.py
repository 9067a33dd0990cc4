"""What was in transit is deleted when nobody can ask for it again, or so much later."""

from types import SimpleNamespace

import pytest

from streaming.errors import KafkaRefused, KafkaUnavailable
from streaming.service import offsets
from streaming.service.checkpoint import Checkpoint
from streaming.service.offsets import TransitCleaner
from streaming.settings.values import Span

YEAR = 365 * 86_400.0


@pytest.fixture
def world(monkeypatch):
    """Deletions, and a steady clock in seconds, before which the wall clock is by ``ahead``."""
    made = SimpleNamespace(now=0.0, ahead=0.0, deleted=[], said=[], fails=None, renewed=0)

    def delete(_config, topic, wanted):
        made.deleted.append((topic, wanted))
        if made.fails:
            raise made.fails("no")

    monkeypatch.setattr(offsets.topics, "delete_before", delete)
    monkeypatch.setattr(offsets.time, "time", lambda: made.now + made.ahead)
    monkeypatch.setattr(offsets.time, "monotonic", lambda: made.now)
    return made


def cleaner(world, kept_ms, noted=None):
    service = SimpleNamespace(transit_kept=Span(kept_ms))
    pipelines = {"p": SimpleNamespace(transit_topic="transit")}

    def renew():
        world.renewed += 1

    config = SimpleNamespace(service=service, pipelines=pipelines, renew=renew)
    return TransitCleaner(config, "p", lambda text, **_: world.said.append(text), noted)


def report(offset):
    return {"sources": [{"startOffset": {"transit": {"0": offset, "1": 0}}}]}


def look(clean, world, seconds, offset):
    world.now += seconds
    clean(report(offset))
    return [wanted[0] for _, wanted in world.deleted]


def test_at_once_by_default(world):
    clean = cleaner(world, 0)
    assert look(clean, world, 0, 0) == []
    assert look(clean, world, 10, 5) == [5]
    assert look(clean, world, 10, 5) == [5], "nothing is deleted twice"
    assert look(clean, world, 10, 8) == [5, 8]


def test_as_much_later_as_it_is_kept(world):
    clean = cleaner(world, 60_000)
    assert look(clean, world, 0, 5) == []
    assert look(clean, world, 30, 8) == []
    assert look(clean, world, 29, 8) == []
    assert look(clean, world, 1, 9) == [5], "60 s after it was behind"
    assert look(clean, world, 29, 9) == [5]
    assert look(clean, world, 1, 9) == [5, 8]
    assert look(clean, world, 600, 9) == [5, 8, 9], "the newest, too, where nothing comes"
    assert look(clean, world, 600, 9) == [5, 8, 9]
    assert len(clean._behind) == 1


def test_a_right_that_is_given_back_is_used(world):
    """A refusal is logged once, and asked again at each look."""
    clean = cleaner(world, 0)
    world.fails = KafkaRefused
    look(clean, world, 0, 5)
    look(clean, world, 10, 9)
    assert len(world.said) == 1
    assert world.renewed == 2, "a password in a file may be another one"
    world.fails = None
    assert look(clean, world, 10, 9)[-1] == 9
    count = len(world.deleted)
    assert len(look(clean, world, 10, 9)) == count, "it worked"


def test_what_passes_is_tried_again_and_told_once_each_time(world):
    clean = cleaner(world, 60_000)
    look(clean, world, 0, 5)
    world.fails = KafkaUnavailable
    assert look(clean, world, 60, 9) == [5]
    assert look(clean, world, 10, 9) == [5, 5], "at the next look"
    assert len(world.said) == 1
    world.fails = None
    assert look(clean, world, 10, 9) == [5, 5, 5]
    assert look(clean, world, 10, 9) == [5, 5, 5], "it worked"
    world.fails = KafkaUnavailable
    assert look(clean, world, 60, 9) == [5, 5, 5, 9]
    look(clean, world, 10, 9)
    assert len(world.said) == 2, "it had worked in between"


def test_a_service_that_is_started_often_deletes_too(world, tmp_path):
    """What was seen, and when, outlives the process; of a topic made again nothing counts."""
    noted = Checkpoint(str(tmp_path), "p").behind
    for start in range(6):
        clean = cleaner(world, 86_400_000, noted)
        for step in range(100):
            look(clean, world, 432, 1 + 100 * start + step)  # twelve hours
            assert len(clean._behind) <= 101
    assert world.deleted[-1][1][0] == pytest.approx(400, abs=5), "a day behind"
    world.deleted.clear()
    look(cleaner(world, 86_400_000, noted), world, 86_400, 7)
    assert not world.deleted


@pytest.mark.parametrize("years", [1, -1])
@pytest.mark.parametrize("kept_ms", [0, 86_400_000])
def test_a_clock_that_is_wrong_for_a_while_changes_nothing(world, tmp_path, kept_ms, years):
    noted = Checkpoint(str(tmp_path), "p").behind
    clean = cleaner(world, kept_ms, noted)
    world.ahead = 1e9
    for hour in range(1, 100):
        world.ahead += (hour == 30) * years * YEAR - (hour == 31) * years * YEAR
        deleted = look(clean, world, 3600, hour)
        behind = hour - kept_ms // 3_600_000
        assert deleted == [*range(1, behind + 1)]
        assert len(clean._behind) <= 101


def test_what_an_earlier_start_noted_under_a_clock_ahead_is_deleted(world, tmp_path):
    noted = Checkpoint(str(tmp_path), "p").behind
    world.ahead = YEAR
    clean = cleaner(world, 86_400_000, noted)
    for hour in range(1, 11):
        look(clean, world, 3600, hour)
    world.ahead = 0
    clean = cleaner(world, 86_400_000, noted)
    for hour in range(11, 200):
        deleted = look(clean, world, 3600, hour)
        assert len(clean._behind) <= 101
    assert deleted[0] == 10, "a day after the second start"
    assert deleted[-1] == 175

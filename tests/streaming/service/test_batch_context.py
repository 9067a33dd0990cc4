"""What a batch is given by the driver, which decides what its tasks do."""

import pytest

from streaming.disciplines.refused import FINDING, RECORDS_READ
from streaming.service import query
from streaming.service.decisions import Decisions
from streaming.sink.sink import Report, Written
from tests.streaming.service.carriers import carrier


def test_a_repeat_has_all_that_killed_attempts_found():
    """So none has fewer runs behind it than what an attempt has said between shards."""
    mine = carrier()
    context = mine._context(4)
    for found in ({"name": ["a"], "detail": "d"}, {"name": ["b"], "detail": "d"}):
        report = Report(0, False, Written(), [(1, '{"read":3}')], refused=[found])
        context = mine._without([report], context)
    again = carrier()
    again.decisions = Decisions(mine.checkpoint)
    assert again._context(4).decisions[FINDING] == context.decisions[FINDING]
    assert len(context.decisions[FINDING]) == 2
    assert context.decisions[RECORDS_READ] == {"0": 3}


@pytest.mark.parametrize(
    ("age_s", "young"), [(0, True), (3_599, True), (3_600, False), (-3_599, True), (-3_600, False)]
)
def test_a_batch_in_doubt_is_young_for_an_hour(monkeypatch, age_s, young):
    mine, now_ms = carrier(), 1_800_000_000_000
    entry = f'v1\n{{"batchTimestampMs":{now_ms - age_s * 1000}}}\n-'
    monkeypatch.setattr(mine.checkpoint, "logged", lambda _batch: entry.encode())
    monkeypatch.setattr(query.time, "time", lambda: now_ms / 1000)
    assert not mine._context(4).young, "it is not in doubt"
    mine.progress.in_doubt = 4
    assert not mine._context(4).young, "Kafka may have forgotten everything"
    mine.progress.remembered = {1, 0}
    assert mine._context(4).young == young
    assert mine._context(4).remembered == [0, 1]


@pytest.mark.parametrize(
    ("once", "ran_ms", "pauses_ms"),
    [
        (True, [20_000, 80_000, 20_000], [0, 0, 0]),
        (False, [20_000, 20_000, 20_000], [70_000, 70_000, 70_000]),
        (False, [20_000, 29_000, 65_000], [70_000, 61_000, 70_000]),  # as if it had run for 20 s
        (False, [80_000, 80_000, 80_000], [88_000, 0, 0]),  # all do: nothing stood still
    ],
)
def test_what_a_batch_took_longer_than_others_is_a_pause(monkeypatch, once, ran_ms, pauses_ms):
    """An executor may have stood still in it.

    With --once the time between two runs counts: each run is shorter than the gap times.
    """
    mine = carrier(still_ms=None if once else 30_000)
    mine.checkpoint.logged = lambda batch: b'v1\n{"batchTimestampMs":%d}' % (1_000 + 90_000 * batch)
    mine.checkpoint.offsets = dict.fromkeys(range(4))
    mine.decisions = Decisions(mine.checkpoint)
    mine.decisions.planned = 0

    def write(_frame, batch):
        contexts.append(mine._context(batch))
        mine.progress.batch = batch
        mine._ran_ms.append([*ran_ms, 0][batch])

    contexts = []
    monkeypatch.setattr(mine, "_write", write)
    mine.begin("q")
    for batch in range(4):
        mine(None, batch)
    every = [[1_000 + 90_000 * batch, ms] for batch, ms in enumerate(pauses_ms)]
    found = [each.decisions.get("pauses", []) for each in contexts]
    assert found == [[each for each in every[:batch] if each[1]] for batch in range(4)]


@pytest.mark.parametrize(
    ("discipline", "times"), [("channel", {"caught_up_ms": 3, "behind_ms": 4}), ("label", {})]
)
def test_what_is_unread_keeps_no_idle_channel_where_no_stop_does(discipline, times):
    """A pipeline that reads its labels has forgotten the channel by then, and expects label 0."""
    mine = carrier(discipline=discipline)
    plan = b'v1\n{"batchTimestampMs":9}\n{"in":{"0":7},"#":{"caught_up_ms":3,"behind_ms":4}}'
    mine.checkpoint.logged = lambda _batch: plan
    mine.begin("q")
    decisions = mine._context(0).decisions
    found = {name: of for name, of in decisions.items() if name in ("caught_up_ms", "behind_ms")}
    assert found == times

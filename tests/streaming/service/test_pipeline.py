"""How a pipeline chooses its pace, and tells how far it has read."""

import json
from dataclasses import fields, replace

from streaming.arrow.totals import Totals
from streaming.config import parse_config
from streaming.config.tables import Service
from streaming.disciplines.discipline import Pace
from streaming.service import offsets
from streaming.service.offsets import offsets_of, reached
from streaming.service.progress import Progress, shards_in, status_of
from streaming.service.speed import Speed

FAST = {"last_records": 10**9, "last_seconds": 1.0}
NONE = {"last_records": 0, "last_seconds": 0.0}


def records(speed, kept=0, last=FAST, **service):
    """Of the next batch."""
    progress = Progress(shards={0: Totals(channels=kept)}, **last)
    return speed.limits(Service(**service), progress).records_now()


def test_inputs_are_read_slowly_while_too_much_waits():
    speed = Speed(Pace(records_max=100, held_high=50, held_low=20))
    assert records(speed, batch_records_max=1_000) == 100
    assert records(speed, batch_records_max=10) == 10
    assert records(speed, kept=10**9) == 100
    steps = [(50, False), (51, True), (51, False), (20, False), (19, True), (19, False)]
    for held, changed in steps:
        assert speed.changes(held) == changed
        if changed:
            assert records(speed, kept=10**9) == (1 if speed.slow else 100)


def test_less_is_read_while_shards_keep_many_bytes():
    progress = Progress(shards={0: Totals()}, kept_bytes={0: 600, 1: 0})
    service = Service(batch_bytes_max=1_000_000)
    limits = Speed(Pace(bytes_max=2_000_000)).limits(service, progress)
    assert limits.size_now() == 1_000_000
    for kept, size in [(1_999_000, 400), (1_999_400, 1), (3_000_000, 1)]:
        progress.kept_bytes[1] = kept
        assert limits.size_now() == size
    progress.kept_bytes.clear()
    assert limits.size_now() == 500_000, "after a start nobody knows how many"
    progress.shards.clear()
    assert limits.size_now() == 1_000_000
    assert Speed(Pace()).limits(service, progress).size_now() == 1_000_000


def test_without_a_pace_the_service_says():
    speed = Speed(Pace())
    assert not speed.changes(10**9)
    assert records(speed, batch_records_max=1_000) == 1_000


def test_a_batch_has_as_many_records_as_the_state_has_entries():
    speed = Speed(Pace())
    assert records(speed) == records(speed, kept=999_999) == 1_000_000
    assert records(speed, kept=1_200_000) == 1_200_000
    assert records(speed, kept=10**9) == 2_000_000
    assert records(speed, kept=10**9, batch_records_max=600_000) == 600_000, "as it was asked for"


def test_entries_of_the_state_are_counted_as_they_are_now():
    progress = Progress(**FAST)
    limits = Speed(Pace()).limits(Service(), progress)
    assert limits.records_now() == 1_000_000
    progress.shards |= {0: Totals(channels=600_000, held=100_000), 1: Totals(channels=350_000)}
    assert limits.records_now() == 1_050_000


def test_a_batch_has_fewer_records_where_those_before_had_many_deliveries():
    """A command made a group of 2,000: the first membership says nothing of it."""
    progress = Progress(shards={0: Totals()})
    speed = Speed(Pace(records_max=300_000, deliveries_max=1_000_000))
    limits = speed.limits(Service(), progress)

    def batch(seen, delivered, expected=None):
        before = progress.counts()
        progress.shards[0] = Totals(seen=before[0] + seen, delivered=before[1] + delivered)
        progress.measure(before, (seen + delivered) / 1e9, expected)
        return limits.records_now()

    assert batch(10, 30) == 300_000
    assert batch(10, 20_000) == 500
    assert batch(0, 0) == 500
    assert batch(10, 0) == 1_000
    assert batch(1, 10**7) == 1
    assert [batch(5, 5) for _ in range(30)][-1] == 300_000
    assert batch(10, 0, (10, 20_000)) == 500, "they come with later batches"
    assert batch(1, 20_000, (1, 2_000)) == 500
    assert speed.limits(Service(batch_records_max=7), progress).records_now() == 7


def test_after_a_damaged_status_a_large_group_on_a_network_is_known_by_what_its_batch_expects():
    """The counts of a shard's first batch are those of all batches before it, too."""
    progress = Progress()
    limits = Speed(Pace(deliveries_max=1_000_000)).limits(Service(), progress)
    progress.shards[0] = Totals(seen=10**8, delivered=10**8)
    progress.measure((0, 0), 1.0, (100, 100 * 10_000))
    assert limits.records_now() == 100


def test_a_status_has_no_field_that_version_1_0_0_does_not_know():
    totals = Totals(seen=1, due_ms=2, expected=[3, 4])
    status = status_of({5: totals})
    later = {"expected", "kept_bytes"}
    assert set(status["5"]) == {each.name for each in fields(Totals)} - later
    assert shards_in({"shards": json.loads(json.dumps(status))}) == {
        5: replace(totals, expected=None)
    }


def test_the_first_batch_is_small_and_the_next_ones_have_what_there_is_time_for():
    progress = Progress(shards={0: Totals()})
    limits = Speed(Pace()).limits(Service(), progress)

    def batch(seconds):
        before, read = progress.counts(), limits.records_now()
        progress.shards[0] = Totals(seen=before[0] + read, delivered=before[1] + read)
        progress.measure(before, seconds, None)
        return read

    assert [batch(0.25), batch(0.5), batch(1.5)] == [50_000, 400_000, 1_000_000]
    assert [batch(10.0), batch(4.0), batch(2.25)] == [1_000_000, 200_000, 100_000], "slower"
    assert [batch(1.0), batch(1.25)] == [88_888, 355_552], "most of it was not the records'"
    assert [batch(2.0), batch(200.0)] == [568_883, 568_883]
    assert batch(1.0) == 50_000, "none is smaller than the first"
    slow = {"last_records": 1, "last_seconds": 9.0}
    assert records(Speed(Pace()), last=slow, kept=80_000) == 80_000, "as the state has entries"
    assert records(Speed(Pace()), last=NONE, kept=10**6) == 50_000, "but for the first"
    assert records(Speed(Pace()), last=NONE, batch_records_max=10**6) == 10**6, "a number stands"


def test_the_first_batch_is_smaller_where_records_may_have_many_deliveries():
    speed = Speed(Pace(deliveries_max=1_000_000))
    assert records(speed, last=NONE) == 1_000, "nobody knows how many"
    assert records(Speed(Pace(records_max=100, deliveries_max=1_000_000)), last=NONE) == 100
    for seen, delivered, first in (
        (10, 0, 1_000),
        (10, 5, 100_000),
        (10, 80, 12_500),
        (1, 10**6, 1),
    ):
        progress = Progress(shards={0: Totals(seen=seen, delivered=delivered)})
        limits = speed.limits(Service(), progress)
        assert limits.records_now() == first
        progress.last_records, progress.last_seconds = FAST.values()
        assert limits.records_now() == min(10**6, 10**6 * seen // max(seen, delivered))


def report(**ends):
    return {
        "sources": [
            {"description": "KafkaV2[Subscribe[a]]", "endOffset": ends},
            {"description": "RateStreamV2[...]", "endOffset": 17},
            {"description": "KafkaV2[Subscribe[t]]", "endOffset": json.dumps({"t": {"0": 5}})},
        ]
    }


def test_ends_of_several_sources():
    assert offsets_of(report(a={"0": 3}), "endOffset") == {"a": {"0": 3}, "t": {"0": 5}}
    assert offsets_of(None, "endOffset") == {}


def test_reached_means_every_partition():
    ends = {("a", 0): 3, ("a", 1): 0, ("t", 0): 5}
    assert reached({"a": {"0": 3}, "t": {"0": 5}}, ends)
    assert not reached({"a": {"0": 3}}, ends)
    assert not reached({"a": {"0": 2, "1": 9}, "t": {"0": 5}}, ends)


def test_nothing_is_reached_before_a_source_was_asked():
    assert not reached({}, {("a", 0): 3})
    assert not reached({}, {("a", 0): 0})
    assert not reached({"b": {"0": 3}}, {("a", 0): 0}), "it may have been made again"
    assert reached({"a": {}}, {("a", 0): 0})


def test_what_is_in_transit_is_asked_for_last(monkeypatch):
    """A batch that reached the inputs' ends may have written some."""
    asked, ends = [], {"n.in": 3, "n.commands": 0, "n.transit": 4}

    def ends_of(_config, names, *, of_most):
        assert of_most, "a broker that is cut off from the others knows ends of before"
        asked.append(names)
        return {(name, 0): ends[name] for name in names}

    monkeypatch.setattr(offsets.topics, "ends", ends_of)
    group = {"discipline": "group", "sequencing": "network", "groups": {"G": ["A", "B"]}}
    config = parse_config({"pipelines": {"n": group}}, {}, "c.toml")
    through = offsets.Through(config, "n")
    assert not through({})
    assert not through({"n.in": {"0": 2}, "n.commands": {}, "n.transit": {"0": 4}})
    assert asked == [("n.in", "n.commands")]
    assert not through({"n.in": {"0": 3}, "n.commands": {}, "n.transit": {"0": 3}})
    assert asked[1:] == [("n.transit",)]
    assert through({"n.in": {"0": 3}, "n.commands": {}, "n.transit": {"0": 4}})

"""How a pipeline chooses its pace, and tells how far it has read."""

import json

from streaming.disciplines.discipline import Pace
from streaming.service.offsets import offsets_of, reached
from streaming.service.pipeline import Speed


def test_inputs_are_read_slowly_while_too_much_waits():
    speed = Speed(Pace(records_max=100, held_high=50, held_low=20))
    assert speed.records_max(1_000) == 100
    assert speed.records_max(10) == 10
    steps = [(50, False), (51, True), (51, False), (20, False), (19, True), (19, False)]
    for held, changed in steps:
        assert speed.changes(held) == changed
        if changed:
            assert speed.records_max(1_000) == (1 if speed.slow else 100)


def test_without_a_pace_the_service_says():
    speed = Speed(Pace())
    assert not speed.changes(10**9)
    assert speed.records_max(1_000) == 1_000


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
    assert reached(report(a={"0": 3}), ends)
    assert not reached(report(a={"0": 2, "1": 9}), ends)
    assert not reached(None, ends)

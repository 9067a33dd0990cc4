"""Events of channels that cannot be read, come twice, or end elsewhere; commands that are no text."""

import json
from dataclasses import replace

import pytest

from sequencer.labels import CyclicLabels
from streaming.verify.channel import Material, judge
from streaming.verify.channel_parts import Feed, judge_in_parts
from streaming.verify.records import Record
from tests.streaming.verify.one_channel import SETTINGS, delivered, gap, sent

CYCLIC = replace(SETTINGS, labels=CyclicLabels(8), window=3)


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b"[]",
        b"5",
        b"\xff",
        b'{"event": "gap"}',
        b'{"event": 5, "id": 1}',
        b'{"event": "fin", "id": "x", "channel": 5}',
        b'{"event": "gap", "id": "x", "channel": "k", "epoch": 0, "incarnation": 9, "count": -1}',
        b'{"event": "started", "id": "x", "channel": "k"}',
        b'{"event": "retired", "id": "x", "channel": "k", "incarnation": "9"}',
        b'{"event": "command-done"}',
    ],
)
def test_what_is_no_event_is_named(value):
    record = Record("events", 0, 7, 0, None, value, ())
    for count in (1, 3):
        verdict, _ = judge_in_parts(SETTINGS, Feed([], [], [record], [], [], []), count)
        assert verdict.counts == {"bad-event": 1}
        assert "events/0@7" in verdict.faults[0].witness


@pytest.mark.parametrize("settings", [SETTINGS, CYCLIC])
def test_events_come_once_and_gaps_end_where_they_say(settings):
    inputs = [sent(0, 0), sent(1, 3), sent(2, 4)]
    event = gap(1, 3)

    def counts(*events, settings=settings):
        return judge(settings, Material(inputs, delivered(*inputs), [], [*events])).counts

    assert counts(event) == {}
    assert counts(event, {**event}) == {"event-repeat": 1}
    assert counts({**event, "to": 4}) == {"wrong-event": 1}
    assert "wrong-event" in counts(event, {**event, "id": "another"})
    repeats = replace(settings, repeats_allowed=True)
    assert counts(event, {**event}, settings=repeats) == {}
    assert counts(event, {**event, "to": 4}, settings=repeats) == {"event-repeat": 1}


def test_two_gaps_that_follow_each_other_do_not_overlap():
    inputs = [sent(0, 0), sent(1, 3)]
    events = [gap(2, 3), gap(1, 2, "operator")]
    verdict = judge(SETTINGS, Material(inputs, delivered(*inputs), [], events))
    assert set(verdict.counts) == {"unasked-gap", "wrong-count"}


@pytest.mark.parametrize(
    "field", [{"epoch": float("inf")}, {"from": [1]}, {"to": {}}, {"channel": 5}]
)
def test_a_command_that_makes_no_sense_ends_nothing(field):
    said = {"not_coming": True, "channel": "k", "epoch": 0, "from": 1, "to": 2, **field}
    command = Record("commands", 0, 0, 0, None, json.dumps(said).encode(), ())
    inputs = [sent(0, 0), sent(1, 2)]
    material = Material(inputs, delivered(*inputs), [], [gap(1, 2, "not-coming")], [command])
    assert set(judge(SETTINGS, material).counts) == {"unanswered", "unasked-gap"}


def passing(*order):
    """Deliveries of labels 0 and 1 and a record without a label, in this order."""
    inputs = [sent(0, 0), sent(1, 1), sent(2, None), sent(3, 2)]
    material = Material(inputs, delivered(*(inputs[at] for at in order)), [], [])
    return judge(replace(SETTINGS, pass_unlabelled=True), material).counts


def test_a_record_without_a_label_does_not_overtake_one_that_waited_for_nothing():
    assert passing(0, 1, 2, 3) == {}
    assert passing(0, 2, 1, 3) == {"overtaken": 1}
    assert passing(2, 0, 1, 3) == {"overtaken": 1}
    assert passing(0, 1, 3, 2) == {"overtaken": 1}


def test_a_record_without_a_label_overtakes_one_that_waits():
    settings = replace(SETTINGS, pass_unlabelled=True)
    inputs = [sent(0, 1), sent(1, None), sent(2, 0), sent(3, 3), sent(4, None)]
    out = [inputs[at] for at in (1, 2, 0, 4, 3)]
    verdict = judge(settings, Material(inputs, delivered(*out), [], [gap(2, 3)]))
    assert verdict.good, verdict.faults

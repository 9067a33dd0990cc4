"""Channels of a service that runs: what its topics have at some moment is no fault."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.verify import run
from streaming.verify.channel import Material, judge
from streaming.verify.channel_parts import Feed, judge_in_parts
from streaming.verify.faults import Verdict
from tests.streaming.disciplines.channels.plans import plan
from tests.streaming.verify.channel_worlds import World
from tests.streaming.verify.one_channel import SETTINGS, delivered, rejected, sent

IN = ("in", 0)


@pytest.mark.parametrize(
    "later",
    [
        [sent(3, 4)],  # it waits like the one before it
        [sent(3, 1)],  # it ends the wait
        [sent(3, 1), sent(4, 3)],
        [sent(3, 0, epoch=1)],
        [sent(3, 0)],  # a duplicate
        [sent(3, None)],  # without a label
    ],
)
@pytest.mark.parametrize("passes", [False, True])
def test_what_came_after_the_outputs_were_read_is_held(later, passes):
    """Label 1 is missing: 2 waits, and nobody knows yet what becomes of the later ones."""
    inputs = [sent(0, 0), sent(2, 2), *later]
    material = Material(inputs, delivered(inputs[0]), [], [])
    settings = replace(SETTINGS, pass_unlabelled=passes)
    verdict = judge(settings, material, due={IN: 3})
    assert verdict.good, verdict.faults
    assert verdict.looked_at["held"] == len(inputs) - 1


def test_what_was_due_and_is_nowhere_is_lost():
    inputs = [sent(0, 0), sent(1, 1), sent(2, 2)]
    material = Material(inputs, delivered(inputs[0]), [], [])
    assert judge(SETTINGS, material, due={IN: 1}).good
    assert judge(SETTINGS, material, due={IN: 2}).counts == {"lost": 1}
    assert judge(SETTINGS, material).counts == {"lost": 2}


def test_a_reject_may_name_a_delivery_that_came_after_the_outputs_were_read():
    inputs = [sent(0, 0), sent(1, 1), sent(2, 0)]
    rejects = [rejected(inputs[2], "duplicate", after=1)]
    material = Material(inputs, delivered(inputs[0]), rejects, [])
    assert judge(SETTINGS, material, due={IN: 1}).good
    assert "wrong-after" in judge(SETTINGS, material, due={IN: 3}).counts


@pytest.mark.parametrize("name", ["unannounced-gap", "unannounced-start", "wrong-gap"])
def test_an_event_that_the_last_part_of_a_batch_brings_gets_its_time(name, monkeypatch):
    """A batch in parts shows its deliveries and rejects before its events."""
    looks = [Verdict("p"), Verdict("p")]
    looks[0].find(name, "out/0@7: the event is not there")
    usual = run.JUDGES["channel"]
    found = replace(usual, judge=lambda _: (looks.pop(0), {}))
    monkeypatch.setitem(run.JUDGES, "channel", found)
    monkeypatch.setattr(run, "RELOOK_SECONDS", 0)

    config = SimpleNamespace(pipelines={"p": SimpleNamespace(discipline="channel")})
    assert run._judge_in_time(run.Subject(config, "p", None, None, ""), wait_s=60).good


def test_a_label_that_was_rejected_meanwhile_may_be_asked_for():
    """Label 5 is beyond the window; then 6 is held, and what lies below it is asked for."""
    records = [
        {"topic": 0, "partition": 0, "offset": offset, "timestamp": 1, "key": b"k"}
        | {"value": b"v", "headers": [{"key": "label", "value": b"%d" % label}]}
        for offset, label in enumerate((0, 5, 1, 2, 6))
    ]
    its = plan(Rules(LinearLabels(), window=3, ask_ms=3))
    given = [(1000, records[:1]), (1010, records[1:]), (1020, [])]
    before, after = World(its, given[:1]), World(its, given)
    assert len(after.topics["wanted"]) == 1
    read = []

    def topic(name):
        """A topic as it is when its reading begins: meanwhile the service goes on."""
        read.append(name)
        yield from (before if len(read) < 3 else after).topics[name]

    names = ("out", "rejects", "events", "commands", "wanted", "in")
    verdict, _ = judge_in_parts(after.settings(), Feed(*map(topic, names)), 1)
    assert "false-wanted" not in verdict.counts, verdict.faults

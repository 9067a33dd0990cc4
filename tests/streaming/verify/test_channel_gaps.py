"""The judge of gap times: nothing in what the operator writes, planted faults by name."""

import dataclasses
import zlib

import pytest

from sequencer.channels import WAIT, Rules, Skip
from sequencer.channels.delays import Quantile
from sequencer.labels import LinearLabels
from streaming.verify.channel import ChannelRule, judge
from streaming.verify.channel_parts import judge_in_parts
from streaming.verify.channel_readings import GapTime
from streaming.verify.records import Record
from tests.streaming.disciplines.channels.plans import plan
from tests.streaming.verify.channel_parts import feed_of
from tests.streaming.verify.channel_worlds import World, batches, history

LABELS = LinearLabels()
OWN = Skip(60)
OF_A = Skip(40, Quantile(0.9, 10, 40))
TIMES = {"*": GapTime(60, 60), "a": GapTime(10, 40), "b": GapTime(None, None)}
"""The rules of the world below: `a` has a time that sets itself, `b` waits for ever."""


def world(seed, count=300):
    own = Rules(LABELS, gap=OWN, window=60)
    others = (("a", dataclasses.replace(own, gap=OF_A)), ("b", dataclasses.replace(own, gap=WAIT)))
    rules = dataclasses.replace(own, others=others)
    return World(plan(rules), batches(history(seed, LABELS, count=count), seed))


def settings(it, **times):
    times = {**TIMES, **times}
    rules = tuple(
        ChannelRule(glob, 60, 10_000, drop_duplicates=False, gap=times[glob]) for glob in "ab"
    )
    return it.settings(gap=times["*"], rules=rules)


def timeouts(material, key):
    return [e for e in material.events if e.get("reason") == "timeout" and e["channel"] == key]


OTHER = {"base64": "/w=="}


@pytest.mark.parametrize("seed", range(4))
def test_what_the_operator_gives_up_was_due(seed):
    it = world(seed)
    verdict = judge(settings(it), it.material())
    assert verdict.good, verdict.faults[:3]
    assert verdict.looked_at["timeouts"] > 3
    assert timeouts(it.material(), "a")


@pytest.mark.parametrize("removed", [True, False])
def test_a_time_that_has_set_itself_is_judged_by_its_least(removed):
    """With a thousand messages, also where Kafka has removed them since."""
    it = world(1)
    material = it.material()
    starts = [1_000] if removed else range(0, 10_000, len(material.inputs))
    inputs = [
        dataclasses.replace(each, offset=each.offset + start)
        for start in starts
        for each in material.inputs
    ]
    many = dataclasses.replace(material, inputs=inputs)
    for waited_ms, found in ((39, 0), (10, 0), (9, 1)):
        timeouts(material, "a")[0]["waited_ms"] = waited_ms
        assert judge(settings(it), many).counts.get("early-gap", 0) == found
        assert judge(settings(it), material).counts["early-gap"] == 1, "there were few"


def test_gap_times_that_nobody_knows_are_not_judged():
    it = world(1)
    assert judge(settings(it, **dict.fromkeys(("*", "a"))), it.material()).good


def shorter(m):
    timeouts(m, OTHER)[0]["waited_ms"] = 59


def before_most(m):
    timeouts(m, "a")[0]["waited_ms"] = 39


def unsaid(m):
    del timeouts(m, "a")[0]["waited_ms"]


def no_number(m):
    timeouts(m, "a")[0]["waited_ms"] = True


def of_one_that_waits(m):
    event = next(e for e in m.events if e.get("event") == "gap" and e["channel"] == "b")
    event["reason"] = "timeout"


@pytest.mark.parametrize("plant", [shorter, before_most, unsaid, no_number, of_one_that_waits])
def test_planted_faults_are_found(plant):
    it = world(2)
    material = it.material()
    plant(material)
    verdict = judge(settings(it), material)
    assert verdict.counts["early-gap"] == 1, verdict.faults


def test_a_longer_time_than_was_waited_for_is_found():
    it = world(2)
    found = judge(settings(it, **{"*": GapTime(10**6, 10**6)}), it.material())
    assert found.counts == {"early-gap": len(timeouts(it.material(), OTHER))}


def others(key, count):
    """This many messages of one channel, from its first label on."""
    return [Record("in", 9, n, 1, key, b"", (("label", b"%d" % n),)) for n in range(count)]


def test_a_rule_s_messages_are_counted_over_all_parts():
    """Those in other parts are neither missing nor removed."""
    it = world(1)
    m = it.material()
    for event in timeouts(m, b"\xff"):
        event["waited_ms"] = 12
    mine = dataclasses.replace(settings(it), gap=GapTime(10, 60))
    busy = next(
        key for key in (b"0", b"1", b"2", b"3") if zlib.crc32(key) % 2 != zlib.crc32(b"\xff") % 2
    )
    m.inputs += others(busy, 5000)
    assert "early-gap" not in judge(mine, m).counts
    assert "early-gap" not in judge_in_parts(mine, feed_of(m), 2)[0].counts

    m = it.material()
    timeouts(m, "a")[0]["waited_ms"] = 39  # its rule had few messages: `most`, 40 ms, holds
    m.inputs += others(b"\xfe", 3000)
    assert judge(settings(it), m).counts["early-gap"] == 1
    assert judge_in_parts(settings(it), feed_of(m), 2)[0].counts["early-gap"] == 1

"""The judge of notices: nothing in what the operator writes, and planted faults by their name."""

import json
from dataclasses import replace

import pytest

from sequencer.channels import Rules, Skip
from sequencer.labels import CyclicLabels, LinearLabels
from streaming.verify.channel import judge
from tests.seeds import seeds
from tests.streaming.disciplines.channels.plans import plan
from tests.streaming.verify.channel_worlds import World, batches, history


def world(seed, labels=None):
    labels = labels or LinearLabels()
    rules = Rules(labels, gap=Skip(15), held_max=6, window=30, notices=True)
    return World(plan(rules), batches(history(seed, labels), seed))


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_right_notices_have_no_fault(seed):
    it = world(seed, CyclicLabels(128) if seed % 3 == 2 else LinearLabels())
    verdict = judge(it.settings(), it.material())
    assert verdict.good, verdict.faults[:3]
    assert verdict.looked_at["notices"] == it.totals.notices > 0
    assert verdict.looked_at["channels"] == it.totals.channels > 1, "as `status` counts them"


def changed(material, word, name, change):
    """The first notice of a word has another header."""
    at, record = next(
        (at, r) for at, r in enumerate(material.outputs) if r.header("notice") == word
    )
    headers = tuple((n, change(v) if n == name else v) for n, v in record.headers)
    material.outputs[at] = replace(record, headers=headers)


def other_word(m):
    changed(m, b"gap", "notice", lambda _: b"fin")


def other_event(m):
    changed(m, b"gap", "detail", lambda v: json.dumps({**json.loads(v), "id": "g"}).encode())


def other_detail(m):
    changed(m, b"gap", "detail", lambda v: json.dumps({**json.loads(v), "count": 77}).encode())


def no_event(m):
    at = next(at for at, r in enumerate(m.outputs) if r.header("notice") == b"epoch")
    name = json.loads(m.outputs[at].header("detail"))["id"]
    m.events[:] = [event for event in m.events if event["id"] != name]


def swap(m, word):
    """A notice and what follows it in its channel change places, each with right numbers."""
    for a, first in enumerate(m.outputs):
        after = [at for at in range(a + 1, len(m.outputs)) if m.outputs[at].key == first.key]
        if first.header("notice") != word or not after:
            continue
        second = m.outputs[after[0]]
        if second.header("incarnation") == first.header("incarnation"):
            m.outputs[a] = replace(second, headers=second.headers[:-2] + first.headers[-2:])
            m.outputs[after[0]] = replace(first, headers=first.headers[:-2] + second.headers[-2:])
            return
    raise AssertionError("there is none")


def late_gap(m):
    swap(m, b"gap")


def late_epoch(m):
    swap(m, b"epoch")


@pytest.mark.parametrize(
    "plant", [other_word, other_event, other_detail, no_event, late_gap, late_epoch]
)
def test_planted_faults_are_found(plant):
    it = world(1)
    material = it.material()
    plant(material)
    counts = judge(it.settings(), material).counts
    assert "wrong-notice" in counts, counts


def test_a_notice_that_is_not_there_is_a_hole():
    it = world(1)
    material = it.material()
    del material.outputs[next(at for at, r in enumerate(material.outputs) if r.value is None)]
    assert "hole" in judge(it.settings(), material).counts


def given(now_ms, *records):
    """A batch of records of one channel: each its offset, label and epoch."""
    return now_ms, [
        {
            "topic": 0, "partition": 0, "offset": offset, "timestamp": now_ms, "key": b"a",
            "value": b"v%d" % offset,
            "headers": [
                {"key": name, "value": b"%d" % number}
                for name, number in (("label", label), ("epoch", epoch or None))
                if number is not None
            ],
        }
        for offset, label, epoch in records
    ]  # fmt: skip


def skip(offset, to):
    """The record of an operator who gives up the channel's labels below one."""
    value = json.dumps({"op": "skip", "channel": "a", "to": to}).encode()
    place = {"topic": 1, "partition": 0, "offset": offset, "timestamp": 0}
    return {**place, "key": None, "value": value, "headers": None}


def test_what_waited_for_a_gap_may_be_overtaken_by_what_has_no_label():
    """A notice says of the gap, so that no label is missing between the deliveries around it."""
    rules = Rules(LinearLabels(), gap=Skip(15), notices=True, pass_unlabelled=True)
    it = World(plan(rules), [given(0, (0, 0, 0), (1, 2, 0), (2, None, 0)), given(20)])
    order = [each.header("notice") or each.value for each in it.topics["out"]]
    assert order == [b"v0", b"v2", b"gap", b"v1"]
    verdict = judge(it.settings(pass_unlabelled=True), it.material())
    assert verdict.good, verdict.faults


def test_a_notice_may_be_the_first_record_of_an_epoch_that_begins_at_any_label():
    rules = Rules(LinearLabels(), gap=Skip(15), notices=True, settle_ms=5)
    first, second = given(0, (0, 10, 0)), given(10, (1, 20, 1), (2, 22, 1))
    it = World(plan(rules), [first, given(5), second, given(20), given(40)])
    order = [each.header("notice") or each.value for each in it.topics["out"]]
    assert order == [b"v0", b"epoch", b"v1", b"gap", b"v2"]
    assert judge(it.settings(first_seen=True), it.material()).good
    missing = it.material()
    missing.events[:] = [event for event in missing.events if event["event"] != "started"]
    assert not judge(it.settings(first_seen=True), missing).good


def test_what_comes_behind_the_notice_of_an_epoch_may_wait_for_its_start():
    rules = Rules(LinearLabels(), notices=True, settle_ms=5)
    it = World(plan(rules), [given(0, (0, 10, 0)), given(10), given(11, (1, 0, 1))])
    assert [each.header("notice") for each in it.topics["out"]] == [None, b"epoch"]
    verdict = judge(it.settings(first_seen=True), it.material())
    assert (verdict.counts, verdict.looked_at["held"]) == ({}, 1), verdict.faults


@pytest.mark.parametrize("labels", [LinearLabels(), CyclicLabels(16)])
def test_what_was_given_up_while_notices_were_off_has_none(labels):
    """No topic says when they were switched on: the channel waits behind a gap without a notice."""
    off = Rules(labels, gap=Skip(15), window=6)
    it = World(plan(off), [given(0, (0, 0, 0)), (1, [skip(0, 2)])])
    it.plan = plan(replace(off, notices=True))
    it.run([given(2, (1, 3, 0)), given(20)])
    assert [each.header("notice") for each in it.topics["out"]] == [None, b"gap", None]
    verdict = judge(it.settings(), it.material())
    assert verdict.good, verdict.faults

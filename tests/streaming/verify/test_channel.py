"""The judge finds nothing in right outputs, and every planted fault by its name."""

from dataclasses import replace

import pytest

from sequencer.labels import CyclicLabels, LinearLabels
from streaming.verify.channel import ChannelRule, ChannelSettings, Material, judge
from streaming.verify.channel_readings import read_all
from streaming.verify.records import Record
from tests.streaming.verify.channel_stories import story
from tests.streaming.verify.places import PARTITIONS, partition_of


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("refuse", [False, True])
def test_right_outputs_have_no_fault(seed, drop, refuse):
    labels = CyclicLabels(1024) if seed % 3 == 2 else LinearLabels()
    settle = 15 if seed % 3 == 1 else None
    settings, material = story(
        seed, labels, drop=drop, refuse=refuse, passes=seed % 2 == 1, settle=settle
    )
    verdict = judge(settings, material)
    assert verdict.good, verdict.faults[:3]
    assert verdict.looked_at["deliveries"] > 200


def unlabelled(m):
    """Deliveries without a label, and those of their channels before them."""
    last = {}
    for at, r in enumerate(m.outputs):
        if not r.has_header("label") and r.key in last:
            yield last[r.key], at
        last[r.key] = at


def overtake(m):
    """A record without a label and the one before it change places, each with right numbers."""
    offset = {r.value: r.offset for r in m.inputs}
    a, b = next(
        (a, b)
        for a, b in unlabelled(m)
        if offset[m.outputs[a].value]
        == max(offset[r.value] for r in m.outputs[: a + 1] if r.key == m.outputs[a].key)
    )
    one, two = m.outputs[a], m.outputs[b]
    m.outputs[a] = replace(two, offset=one.offset, headers=two.headers[:-2] + one.headers[-2:])
    m.outputs[b] = replace(one, offset=two.offset, headers=one.headers[:-2] + two.headers[-2:])


def lose_the_last_unlabelled(m):
    last = max(r.offset for r in m.inputs if not r.has_header("label") and r.key == b"a")
    m.inputs.append(replace(m.inputs[last], offset=400, value=b"one more"))


def reject_as_duplicate(m):
    _, at = next(unlabelled(m))
    rejected = replace(m.outputs[at], headers=m.outputs[at].headers[:-2])
    place = next(r.place for r in m.inputs if r.value == rejected.value)
    added = zip(
        ("reject-reason", "reject-topic", "reject-partition", "reject-offset"),
        (b"duplicate", b"in", b"0", b"%d" % place[2]),
        strict=True,
    )
    m.rejects.append(replace(rejected, topic="rejects", headers=(*rejected.headers, *added)))


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (overtake, "overtaken"),
        (lose_the_last_unlabelled, "lost"),
        (reject_as_duplicate, "wrong-reason"),
    ],
)
def test_faults_of_records_without_a_label_are_found(plant, name):
    settings, material = story(4, LinearLabels(), passes=True)
    plant(material)
    verdict = judge(settings, material)
    assert name in verdict.counts, verdict.counts


def test_a_channel_s_own_rule_says_what_may_be_rejected_or_dropped():
    settings, material = story(3, LinearLabels(), window=3, held_max=2)
    wide = replace(settings, window=50, held_max=20)
    assert {"wrong-reason"} == {*judge(wide, material).counts}
    rules = (ChannelRule("[ab]", 3, 2, False), ChannelRule("*", 3, 2, False))
    assert judge(replace(wide, rules=rules), material).good
    settings, material = story(3, LinearLabels(), drop=True)
    strict = replace(settings, drop_duplicates=False)
    assert {"lost"} == {*judge(strict, material).counts}
    assert judge(replace(strict, rules=(ChannelRule("?", 50, 20, True),)), material).good


def at_start(change):
    """A plant in the event that tells where channel a begins."""

    def plant(m):
        at = next(
            n
            for n, event in enumerate(m.events)
            if (event["event"], event["channel"], event["epoch"]) == ("started", "a", 0)
        )
        m.events[at : at + 1] = [
            {**m.events[at], "label": m.events[at]["label"] + each} for each in change
        ]

    return plant


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (at_start([]), "unannounced-start"),
        (at_start([-1]), "unannounced-gap"),
        (at_start([1]), "disorder"),
    ],
)
def test_faults_of_channels_that_begin_anywhere_are_found(plant, name):
    settings, material = story(4, LinearLabels(), settle=15)
    assert judge(settings, material).good
    plant(material)
    verdict = judge(settings, material)
    assert name in verdict.counts, verdict.counts


def swap(m):
    a = next(i for i in range(len(m.outputs) - 1) if m.outputs[i].key == m.outputs[i + 1].key)
    m.outputs[a], m.outputs[a + 1] = m.outputs[a + 1], m.outputs[a]


def lose(m):
    last = {r.key: i for i, r in enumerate(m.outputs)}
    del m.outputs[last[b"a"]]
    # the rest of the channel is as if nothing was missing
    m.inputs[:] = [r for r in m.inputs if r.key != b"a" or r.offset < 380]


def lose_in_the_middle(m):
    del m.outputs[len(m.outputs) // 2]


def repeat(m):
    m.outputs.insert(5, m.outputs[4])


def other_bytes(m):
    m.outputs[3] = replace(m.outputs[3], value=b"other")


def other_time(m):
    m.outputs[3] = replace(m.outputs[3], timestamp=1)


def other_header(m):
    m.outputs[3] = replace(m.outputs[3], headers=(("x", b"2"), *m.outputs[3].headers[1:]))


def other_partition(m):
    m.outputs[3] = replace(m.outputs[3], partition=(m.outputs[3].partition + 1) % PARTITIONS)


def no_numbers(m):
    m.outputs[3] = replace(m.outputs[3], headers=m.outputs[3].headers[:-1])


def hide_gap(m):
    m.events.pop(0)


def lose_reject(m):
    m.rejects.pop()


def alter_reject(m):
    m.rejects[0] = replace(m.rejects[0], value=b"other")


def double_reject(m):
    m.rejects.append(m.rejects[0])


def retell(m, was, now):
    """The first reject with a reason has another one."""
    at = next(i for i, r in enumerate(m.rejects) if r.header("reject-reason") == was)
    headers = tuple((n, now if n == "reject-reason" else v) for n, v in m.rejects[at].headers)
    m.rejects[at] = replace(m.rejects[at], headers=headers)


def wrong_reason(m):
    retell(m, b"missing-channel", b"duplicate")


def not_outside(m):
    retell(m, b"duplicate", b"outside-window")


def renumber(m):
    """A delivery that takes an earlier one's sequence with its own bytes."""
    at = next(i for i in range(1, len(m.outputs)) if m.outputs[i].key == m.outputs[i - 1].key)
    m.outputs[at] = replace(
        m.outputs[at], headers=m.outputs[at].headers[:-2] + m.outputs[at - 1].headers[-2:]
    )


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (swap, "hole"),
        (swap, "disorder"),
        (lose_in_the_middle, "hole"),
        (lose_in_the_middle, "lost"),
        (repeat, "repeat"),
        (other_bytes, "invented"),
        (other_bytes, "lost"),
        (other_time, "invented"),
        (other_header, "invented"),
        (other_partition, "wrong-partition"),
        (no_numbers, "bad-output"),
        (hide_gap, "unannounced-gap"),
        (lose_reject, "lost"),
        (alter_reject, "reject-altered"),
        (double_reject, "reject-repeat"),
        (wrong_reason, "wrong-reason"),
        (not_outside, "wrong-reason"),
        (renumber, "rewritten"),
    ],
)
def test_planted_faults_are_found(plant, name):
    settings, material = story(4, LinearLabels())
    plant(material)
    verdict = judge(settings, material)
    assert name in verdict.counts, verdict.counts
    assert any(
        (fault.name == name and "@" in fault.witness) or "key" in fault.witness
        for fault in verdict.faults
    )


def test_an_output_that_was_given_partitions_keeps_its_keys_in_place():
    """The new ones stay empty; a key in two partitions, or in a wrong one, is found as before."""
    settings, material = story(4, LinearLabels())
    grown = replace(settings, output_partitions=PARTITIONS + 2)
    assert judge(grown, material).good
    other_partition(material)
    assert "wrong-partition" in judge(grown, material).counts


def hide_refusal(m):
    at = next(i for i, event in enumerate(m.events) if event["reason"] == "too-large")
    del m.events[at]


def other_reason(m):
    retell(m, b"too-large", b"refused")


def lose_refused(m):
    at = next(i for i, r in enumerate(m.rejects) if r.header("reject-reason") == b"too-large")
    del m.rejects[at]


def alter_refused(m):
    at = next(i for i, r in enumerate(m.rejects) if r.header("reject-reason") == b"too-large")
    m.rejects[at] = replace(m.rejects[at], key=b"another")


def leave_out(m):
    m.rejects[0] = replace(m.rejects[0], value=None)


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (hide_refusal, "wrong-reason"),
        (hide_refusal, "unannounced-gap"),
        (other_reason, "wrong-reason"),
        (other_reason, "unfounded-gap"),
        (lose_refused, "unfounded-gap"),
        (lose_refused, "lost"),
        (alter_refused, "reject-altered"),
        (leave_out, "reject-altered"),
    ],
)
def test_faults_about_what_the_output_refused_are_found(plant, name):
    settings, material = story(5, LinearLabels(), refuse=True)
    plant(material)
    assert name in {fault.name for fault in judge(settings, material).faults}


def test_repeats_are_allowed_at_least_once_but_not_with_other_bytes():
    settings, material = story(4, LinearLabels())
    settings = replace(settings, repeats_allowed=True)
    repeat(material)
    double_reject(material)
    assert judge(settings, material).good
    material.outputs.insert(9, replace(material.outputs[4], value=b"other"))
    assert "rewritten" in judge(settings, material).counts


def test_a_higher_epoch_may_be_held_although_nothing_of_it_was_delivered():
    def sent(offset, label, epoch):
        headers = (("label", b"%d" % label), ("epoch", b"%d" % epoch))
        return Record("in", 0, offset, 1, b"k", b"v%d" % offset, headers)

    inputs = [sent(0, 0, 0), sent(1, 1, 1)]
    added = (("sequence", b"0"), ("incarnation", b"9"))
    place = partition_of(b"k")
    out = replace(inputs[0], topic="out", partition=place, headers=inputs[0].headers + added)
    settings = ChannelSettings("p", LinearLabels(), 50, output_partitions=PARTITIONS)
    verdict = judge(settings, Material(inputs, [out], [], []))
    assert verdict.good, verdict.faults
    assert verdict.looked_at["held"] == 1
    late = judge(settings, Material([*inputs, sent(2, 1, 0)], [out], [], []))
    assert set(late.counts) == {"lost"}, "of an epoch that is over"


def test_a_buffer_is_not_full_before_so_many_records_came():
    settings, material = story(3, LinearLabels(), held_max=2)
    assert "buffer-full" in str(material.rejects)
    assert judge(settings, material).good, "there were more than 2"
    assert "wrong-reason" in judge(replace(settings, held_max=1000), material).counts
    settings, material = story(4, LinearLabels())
    retell(material, b"duplicate", b"buffer-full")
    assert {"wrong-reason"} == {*judge(settings, material).counts}, "its label had been delivered"


def test_a_channel_of_which_all_is_held_is_counted_as_status_counts_it():
    held = Record("in", 0, 0, 1, b"k", b"v", (("label", b"1"),))
    settings = ChannelSettings("p", LinearLabels(), 50, output_partitions=PARTITIONS)
    verdict = judge(settings, Material([held], [], [], []))
    assert verdict.looked_at["channels"] == 1


@pytest.mark.parametrize(("first_seen", "reason"), [(False, None), (True, "bad-label")])
def test_the_last_number_is_no_label_of_a_channel_that_settles(first_seen, reason):
    record = Record("in", 0, 0, 0, b"k", b"v", (("label", b"%d" % (2**63 - 1)),))
    settings = ChannelSettings("p", LinearLabels(), 50, first_seen=first_seen)
    assert [each.reason for each in read_all([record], settings)] == [reason]

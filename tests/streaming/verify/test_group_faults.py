"""Every planted fault of discipline `group` is found under its own name, with a witness."""

import json
from dataclasses import replace

import pytest

from streaming.verify.group import GroupSettings, judge
from tests.streaming.verify.group_worlds import Groups
from tests.streaming.verify.market import find, market, require_found, verdict_on
from tests.streaming.verify.plants import (
    Lists,
    append,
    drop,
    insert,
    reason,
    reject_altered,
    reject_doubled,
    reject_lost,
    swap,
    with_header,
    without_header,
)
from tests.streaming.verify.worlds import material_for, settings_for


def change(name, value, key=b"B", group=b"G0", nth=1):
    def plant(m):
        at = find(m, key, group, nth)
        m.outputs[at] = with_header(m.outputs[at], name, value)

    return plant


def everywhere(edit):
    """The same change of one message at all its subscribers."""

    def plant(m):
        for key in (b"A", b"B", b"C"):
            at = find(m, key, b"G0", 1)
            m.outputs[at] = edit(m.outputs[at])

    return plant


def swap_in_group(m):
    swap(m.outputs, find(m, b"B", b"G0", 1), find(m, b"B", b"G0", 2))


def swap_of_pair(m):
    """Neighbours of two groups, which two others get in the other order."""
    mine = m.of_key(b"B")[3:]
    groups = [m.outputs[at].header("group") for at in mine]
    first = next(n for n, group in enumerate(groups) if group != groups[n + 1])
    swap(m.outputs, mine[first], mine[first + 1])


def swap_in_group_everywhere(m):
    """Numbers rise again, so only the other group's messages tell."""
    for key in (b"A", b"B", b"C"):
        one, two = find(m, key, b"G0", 0), find(m, key, b"G0", 1)
        first, second = m.outputs[one], m.outputs[two]
        swap(m.outputs, one, two)
        for at, other in ((one, first), (two, second)):
            number = other.header("group-sequence")
            m.outputs[at] = with_header(m.outputs[at], "group-sequence", number)


def ring(m):
    """K gets z before x, L x before y, M y before z."""
    swap(m.outputs, find(m, b"K", b"X"), find(m, b"K", b"Z"))


def lose_at_one(m):
    drop(m.outputs, find(m, b"B", b"G0", 1))


def lose_at_all(m):
    for key in (b"A", b"B", b"C"):
        drop(m.outputs, find(m, key, b"G0", 1))


def lose_last(m):
    drop(m.outputs, find(m, b"L", b"Y", -1))


def lose_without_renumbering(m):
    del m.outputs[find(m, b"B", b"G0", 1)]


def lose_input(m):
    """A delivery of nothing."""
    place = m.outputs[find(m, b"A", b"G0", 2)]
    m.inputs[:] = [r for r in m.inputs if r.value != place.value]


def repeat(m):
    at = find(m, b"B", b"G0", 1)
    m.outputs.insert(at + 1, m.outputs[at])


def deliver_again(m):
    at = find(m, b"B", b"G0", 1)
    insert(m.outputs, at + 1, m.outputs[at])


def renumbered(m):
    """Another delivery under the same sequence."""
    at = find(m, b"B", b"G0", 1)
    m.outputs[at] = with_header(m.outputs[at], "sequence", m.outputs[at - 1].headers[-2][1])


def to_stranger(m):
    append(m.outputs, m.outputs[find(m, b"A", b"G0", 0)], b"D")


def value(m):
    at = find(m, b"B", b"G0", 1)
    m.outputs[at] = replace(m.outputs[at], value=b"other")


def time(m):
    at = find(m, b"B", b"G0", 1)
    m.outputs[at] = replace(m.outputs[at], timestamp=5)


def partition(m):
    at = find(m, b"B", b"G0", 1)
    m.outputs[at] = replace(m.outputs[at], partition=(m.outputs[at].partition + 1) % 3)


def no_numbers(m):
    at = find(m, b"B", b"G0", 1)
    m.outputs[at] = without_header(m.outputs[at], "incarnation")


def stamps_swapped(m):
    """Two messages of one group change their stamps, everywhere."""
    stamps = [m.outputs[find(m, b"B", b"G0", n)].header("stamps") for n in (0, 1)]
    for key in (b"B", b"C"):
        for n in (0, 1):
            at = find(m, key, b"G0", n)
            m.outputs[at] = with_header(m.outputs[at], "stamps", stamps[1 - n])


def other_stamp(m):
    at = find(m, b"C", b"G0", 1)
    stamps = json.loads(m.outputs[at].header("stamps"))
    stamps[0][2] += 1000
    m.outputs[at] = with_header(m.outputs[at], "stamps", json.dumps(stamps).encode())


def no_stamps(m):
    for key in (b"B", b"C"):
        at = find(m, key, b"G0", 1)
        m.outputs[at] = without_header(m.outputs[at], "stamps")


def strange_stamps(m):
    """Of an overlap that A is not in."""
    at = find(m, b"A", b"G0", 1)
    added = ("stamps", m.outputs[find(m, b"B", b"G0", 1)].header("stamps"))
    headers = m.outputs[at].headers
    m.outputs[at] = replace(m.outputs[at], headers=(*headers[:-2], added, *headers[-2:]))


def sender_overtaken(m):
    """The input's order of two messages of one sender to one group is the other one."""
    mine = [n for n, r in enumerate(m.inputs) if r.key == b"p1" and r.header("group") == b"G0"]
    one, two = (m.inputs[n] for n in mine[:2])
    m.inputs[mine[0]] = replace(two, offset=one.offset)
    m.inputs[mine[1]] = replace(one, offset=two.offset)


def reject_of_nothing(m):
    m.rejects[0] = with_header(m.rejects[0], "reject-offset", b"999")


def reject_of_delivered(m):
    record = m.inputs[0]
    m.rejects[0] = replace(
        m.rejects[0],
        key=record.key,
        value=record.value,
        timestamp=record.timestamp,
        headers=record.headers
        + tuple(
            zip(
                ("reject-reason", "reject-topic", "reject-partition", "reject-offset"),
                (b"removed-group", b"in", b"%d" % record.partition, b"%d" % record.offset),
                strict=True,
            )
        ),
    )


def old_members(m):
    """After its change G2 still goes to A, and not to D."""
    for record in [m.outputs[at] for at in m.of_key(b"D")]:
        if record.header("group") == b"G2":
            append(m.outputs, without_header(record, "stamps"), b"A")
            drop(
                m.outputs,
                m.outputs.index(
                    next(r for r in m.outputs if r.key == b"D" and r.value == record.value)
                ),
            )


@pytest.mark.parametrize(("refused", "name"), [(("A", "B", "C"), None), (("A", "B"), "lost")])
def test_a_message_that_nobody_gets_has_an_event_for_each_member(refused, name):
    """Its copies were refused in several runs of the batch: the first left it to others."""
    m = Lists.of(material_for(market()))
    value = m.outputs[find(m, b"A", b"G0", 1)].value
    lose_at_all(m)
    (record,) = (each for each in m.inputs if each.value == value)
    place = {"topic": "in", "partition": record.partition, "offset": record.offset}
    for number, to in enumerate(refused):
        fields = {"event": "undelivered", "id": to, "at": "2026-01-01T00:00:00.000Z", **place}
        fields |= {"destination": to, "reason": "too-large"}
        m.events.append(
            replace(m.events[0], offset=100 + number, value=json.dumps(fields).encode())
        )
    verdict = verdict_on(m)
    assert verdict.counts.keys() == ({name} if name else set()), verdict.faults


PLANTS = [
    (swap_in_group, "group-order"),
    (swap_in_group, "pairwise-order"),
    (swap_of_pair, "overlap-order"),
    (swap_in_group_everywhere, "overlap-order"),
    (ring, "acyclic"),
    (lose_at_one, "missing-delivery"),
    (lose_at_all, "lost"),
    (lose_last, "unfinished"),
    (lose_without_renumbering, "hole"),
    (lose_input, "invented"),
    (repeat, "repeat"),
    (deliver_again, "delivered-twice"),
    (renumbered, "rewritten"),
    (to_stranger, "membership"),
    (old_members, "membership"),
    (value, "two-contents"),
    (time, "two-contents"),
    (change("x", b"1"), "two-contents"),
    (everywhere(lambda r: replace(r, value=b"other")), "invented"),
    (everywhere(lambda r: replace(r, timestamp=5)), "invented"),
    (everywhere(lambda r: with_header(r, "x", None)), "invented"),
    (everywhere(lambda r: with_header(r, "sender", b"p7")), "invented"),
    (everywhere(lambda r: replace(r, headers=(("y", b""), *r.headers))), "invented"),
    (partition, "wrong-partition"),
    (no_numbers, "bad-output"),
    (change("group-version", b"x"), "bad-output"),
    (change("group-sequence", b"-1"), "bad-output"),
    (change("stamps", b'[["G0","G1"]]'), "bad-output"),
    (change("stamps", b'[["G1","G0",3]]'), "bad-output"),
    (change("group-version", b"77"), "delivered-twice"),
    (change("group-sequence", b"77"), "delivered-twice"),
    (change("sequence", b"77"), "hole"),
    (change("incarnation", b"16"), "disorder"),
    (stamps_swapped, "overlap-order"),
    (other_stamp, "stamps-differ"),
    (no_stamps, "wrong-stamps"),
    (strange_stamps, "wrong-stamps"),
    (sender_overtaken, "sender-order"),
    (reject_lost, "unfinished"),
    (reject_altered, "reject-altered"),
    (reject_doubled, "reject-repeat"),
    (reject_of_nothing, "invented"),
    (reject_of_delivered, "rejected-and-delivered"),
    (reason(b"unknown-group", b"removed-group"), "wrong-reason"),
    (reason(b"unknown-group", b"missing-group"), "wrong-reason"),
    (reason(b"missing-sender", b"unknown-group"), "wrong-reason"),
    (reason(b"missing-group", b"late"), "wrong-reason"),
]


def test_the_market_is_in_order():
    verdict = verdict_on(Lists.of(material_for(market())), across_groups=True)
    assert verdict.good, verdict.faults
    assert verdict.looked_at["rejects"] == 4
    assert verdict.looked_at["commands"] == 8


@pytest.mark.parametrize(("plant", "name"), PLANTS)
def test_planted_faults_are_found(plant, name):
    require_found(plant, name)


def test_where_nothing_changes_the_first_messages_of_an_overlap_are_judged_too():
    world = Groups(1, {"G0": "AB", "G1": "AB"})
    world.send(b"p", b"G0", b"1")
    world.send(b"p", b"G1", b"2")
    m = Lists.of(material_for(world))
    swap(m.outputs, *m.of_key(b"A"))
    verdict = judge(settings_for(GroupSettings, world, groups=world.configured), m.material())
    assert verdict.counts == {"pairwise-order": 1, "overlap-order": 1}

"""Every planted fault of discipline `group` is found under its own name, with a witness."""

import json
from dataclasses import replace

import pytest

from streaming.verify.group import GroupSettings, judge
from tests.streaming.verify.plants import (
    Lists,
    append,
    drop,
    insert,
    reason,
    reject_doubled,
    reject_lost,
    swap,
    with_header,
    without_header,
)
from tests.streaming.verify.worlds import Groups, material_for, settings_for

GROUPS = {
    "G0": ["A", "B", "C"],
    "G1": ["B", "C", "D"],
    "X": ["K", "L"],
    "Y": ["L", "M"],
    "Z": ["M", "K"],
}


def market():
    """A few messages for each group, a group that comes, changes and goes, and rejects."""
    world = Groups(1, GROUPS)

    def some(names):
        for name in names:
            world.clock += 1
            value = b"%d" % world.clock
            world.send(b"p%d" % (world.clock % 3), name.encode(), value, world.clock % 3 % 2)

    some(["G0", "G1", "G0", "G0", "G1", "G1", "G0", "G1"])
    world.send(b"solo", b"X", b"x")
    world.send(b"solo", b"Y", b"y")
    world.send(b"duo", b"Z", b"z")
    world.do({"op": "add", "group": "G2", "members": ["A", "B"], "id": "c1"})
    some(["G2", "G0", "G2", "G1", "G2"])
    world.do({"op": "set", "group": "G2", "members": ["B", "C", "D"], "id": "c2"})
    some(["G2", "G1", "G2", "G0", "G2", "G2"])
    world.do({"op": "add", "group": "G2", "members": ["A"], "id": "c3"})
    world.do({"op": "remove", "group": "G2", "id": "c4"})
    some(["G2", "G0", "G1", "nope", "G0", "G1"])
    world.send(None, b"G0", b"nobody's")
    world.send(b"p1", b"", b"nowhere")
    return world


def find(m, key, group, nth=0):
    """The place of the n-th delivery of a group to a key."""
    return [
        at
        for at, r in enumerate(m.outputs)
        if r.key == key and r.header("group")[1] == group and r.header("sender")[1]
    ][nth]


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
    groups = [m.outputs[at].header("group")[1] for at in mine]
    first = next(n for n, group in enumerate(groups) if group != groups[n + 1])
    swap(m.outputs, mine[first], mine[first + 1])


def swap_in_group_everywhere(m):
    """Numbers rise again, so only the other group's messages tell."""
    for key in (b"A", b"B", b"C"):
        one, two = find(m, key, b"G0", 0), find(m, key, b"G0", 1)
        first, second = m.outputs[one], m.outputs[two]
        swap(m.outputs, one, two)
        for at, other in ((one, first), (two, second)):
            number = other.header("group-sequence")[1]
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
    stamps = [m.outputs[find(m, b"B", b"G0", n)].header("stamps")[1] for n in (0, 1)]
    for key in (b"B", b"C"):
        for n in (0, 1):
            at = find(m, key, b"G0", n)
            m.outputs[at] = with_header(m.outputs[at], "stamps", stamps[1 - n])


def other_stamp(m):
    at = find(m, b"C", b"G0", 1)
    stamps = json.loads(m.outputs[at].header("stamps")[1])
    stamps[0][2] += 1000
    m.outputs[at] = with_header(m.outputs[at], "stamps", json.dumps(stamps).encode())


def no_stamps(m):
    for key in (b"B", b"C"):
        at = find(m, key, b"G0", 1)
        m.outputs[at] = without_header(m.outputs[at], "stamps")


def strange_stamps(m):
    """Of an overlap that A is not in."""
    at = find(m, b"A", b"G0", 1)
    added = ("stamps", m.outputs[find(m, b"B", b"G0", 1)].header("stamps")[1])
    headers = m.outputs[at].headers
    m.outputs[at] = replace(m.outputs[at], headers=(*headers[:-2], added, *headers[-2:]))


def sender_overtaken(m):
    """The input's order of two messages of one sender to one group is the other one."""
    mine = [n for n, r in enumerate(m.inputs) if r.key == b"p1" and r.header("group")[1] == b"G0"]
    one, two = (m.inputs[n] for n in mine[:2])
    m.inputs[mine[0]] = replace(two, offset=one.offset)
    m.inputs[mine[1]] = replace(one, offset=two.offset)


def reject_altered(m):
    m.rejects[0] = replace(m.rejects[0], value=b"other")


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


def test_where_nothing_changes_the_first_messages_of_an_overlap_are_judged_too():
    world = Groups(1, {"G0": "AB", "G1": "AB"})
    world.send(b"p", b"G0", b"1")
    world.send(b"p", b"G1", b"2")
    m = Lists.of(material_for(world))
    swap(m.outputs, *m.of_key(b"A"))
    verdict = judge(settings_for(GroupSettings, world, groups=world.configured), m.material())
    assert verdict.counts == {"pairwise-order": 1, "overlap-order": 1}


def event_at(m, kind, nth=0):
    """The n-th event of a kind, by batch time."""
    found = [(json.loads(r.value)["at"], n) for n, r in enumerate(m.events) if kind in str(r.value)]
    return sorted(found)[nth][1]


def no_answer(m):
    del m.events[event_at(m, "command-done")]


def two_answers(m):
    at = event_at(m, "command-done")
    again = m.events[at].value.replace(b'"id": "e', b'"id": "f')
    m.events.append(replace(m.events[at], value=again, offset=999))


def event_repeated(m):
    m.events.append(m.events[event_at(m, "command-done")])


def answer_to_nothing(m):
    at = event_at(m, "command-done")
    fields = json.loads(m.events[at].value) | {"offset": 999}
    m.events[at] = replace(m.events[at], value=json.dumps(fields).encode())


def done_instead(m):
    at = event_at(m, "command-refused")
    m.events[at] = replace(m.events[at], value=m.events[at].value.replace(b"refused", b"done"))


def refused_without_reason(m):
    at = event_at(m, "command-refused")
    fields = json.loads(m.events[at].value)
    del fields["reason"]
    m.events[at] = replace(m.events[at], value=json.dumps(fields).encode())


def no_change_event(m):
    del m.events[event_at(m, "group-changed")]


def no_removed_event(m):
    del m.events[event_at(m, "group-removed")]


def event_of_nothing(m):
    at = event_at(m, "group-changed")
    m.events[at] = replace(
        m.events[at], key=b"G1", value=m.events[at].value.replace(b"changed", b"removed")
    )


def event_with_other_members(m):
    at = event_at(m, "group-changed")
    fields = json.loads(m.events[at].value) | {"members": ["A", "Q"]}
    m.events[at] = replace(m.events[at], value=json.dumps(fields).encode())


def unreadable_event(m):
    m.events[0] = replace(m.events[0], value=b"{")


def old_members(m):
    """After its change G2 still goes to A, and not to D."""
    for record in [m.outputs[at] for at in m.of_key(b"D")]:
        if record.header("group")[1] == b"G2":
            append(m.outputs, without_header(record, "stamps"), b"A")
            drop(
                m.outputs,
                m.outputs.index(
                    next(r for r in m.outputs if r.key == b"D" and r.value == record.value)
                ),
            )


PLANTS = [
    (swap_in_group, "group-order"),
    (swap_in_group, "pairwise-order"),
    (swap_of_pair, "pairwise-order"),
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
    (no_answer, "unanswered"),
    (two_answers, "answered-twice"),
    (event_repeated, "event-repeat"),
    (answer_to_nothing, "invented-answer"),
    (done_instead, "wrong-answer"),
    (refused_without_reason, "wrong-answer"),
    (no_change_event, "missing-event"),
    (no_removed_event, "missing-event"),
    (event_of_nothing, "invented-event"),
    (event_with_other_members, "wrong-event"),
    (unreadable_event, "bad-event"),
]


def verdict_on(m, **more):
    return judge(settings_for(GroupSettings, market(), groups=groups(), **more), m.material())


def groups():
    return {name: frozenset(members) for name, members in GROUPS.items()}


def test_the_market_is_in_order():
    verdict = verdict_on(Lists.of(material_for(market())), across_groups=True)
    assert verdict.good, verdict.faults
    assert verdict.looked_at["rejects"] == 4
    assert verdict.looked_at["commands"] == 4


@pytest.mark.parametrize(("plant", "name"), PLANTS)
def test_planted_faults_are_found(plant, name):
    m = Lists.of(material_for(market()))
    plant(m)
    verdict = verdict_on(m)
    assert name in verdict.counts, verdict.faults
    witness = next(fault.witness for fault in verdict.faults if fault.name == name)
    assert "@" in witness, witness


def told(kind, key, **fields):
    def edit(m):
        count = len(m.events)
        value = json.dumps({"event": kind, "id": f"x{count}", "at": "", **fields}).encode()
        m.events.append(replace(m.events[0], key=key, value=value, offset=900 + count))

    return edit


@pytest.mark.parametrize("members", [None, ["A", "B", "C"]])
def test_events_of_versions_without_a_change_of_members_are_right(members):
    """The configuration's groups may have one at the start, and those that overlap later on."""
    m = Lists.of(material_for(market()))
    fields = {"members": members} if members else {}
    told("group-added", b"G0", **fields)(m)
    told("group-changed", b"G0", **fields)(m)
    assert verdict_on(m).good


def test_a_set_of_the_same_members_needs_no_event():
    world = market()
    world.do({"op": "set", "group": "X", "members": ["L", "K"], "id": "c9"})
    m = Lists.of(material_for(world))
    assert verdict_on(m).good
    del m.events[event_at(m, "group-changed", 1)]
    assert verdict_on(m).good


def test_events_may_name_versions():
    """Then a version's members are known, whoever got its messages."""
    m = Lists.of(material_for(market()))
    at = find(m, b"D", b"G2")
    version = int(m.outputs[at].header("group-version")[1])
    place = event_at(m, "group-changed")
    fields = json.loads(m.events[place].value) | {"members": ["B", "C", "D"], "version": version}
    m.events[place] = replace(m.events[place], value=json.dumps(fields).encode())
    assert verdict_on(m).good
    m.outputs = [r for r in m.outputs if not (r.key == b"D" and r.header("group")[1] == b"G2")]
    assert "unfinished" in verdict_on(m).counts or "missing-delivery" in verdict_on(m).counts

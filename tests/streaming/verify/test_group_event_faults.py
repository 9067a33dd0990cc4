"""Faults of answers and events of discipline `group`: planted, and found under their own names."""

import json
from dataclasses import replace

import pytest

from tests.streaming.verify.market import find, market, require_found, verdict_on
from tests.streaming.verify.plants import Lists, done_instead, edit, event_at, no_answer
from tests.streaming.verify.worlds import material_for


def two_answers(m):
    at = event_at(m, "command-done")
    again = m.events[at].value.replace(b'"id": "e', b'"id": "f')
    m.events.append(replace(m.events[at], value=again, offset=999))


def event_repeated(m):
    m.events.append(m.events[event_at(m, "command-done")])


def answer_to_nothing(m):
    edit(m, event_at(m, "command-done"), offset=999)


def refused_without_reason(m):
    edit(m, event_at(m, "command-refused"), reason=None)


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
    edit(m, event_at(m, "group-changed"), members=["A", "Q"])


def of_a_join(**more):
    """Another member, or another number of them."""

    def plant(m):
        at = next(n for n, record in enumerate(m.events) if b'"joined"' in record.value)
        edit(m, at, **more)

    return plant


def moved_though_it_was_not(m):
    at = next(n for n, record in enumerate(m.events) if b"version-moved" in record.value)
    edit(m, at, version=0)


def signed(**other):
    """The answer to a command names somebody else, or nobody."""

    def plant(m):
        at = next(n for n, record in enumerate(m.events) if b"she asked" in record.value)
        edit(m, at, **other)

    return plant


def unreadable_event(m):
    m.events[0] = replace(m.events[0], value=b"{")


PLANTS = [
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
    (of_a_join(joined="L"), "wrong-event"),
    (of_a_join(count=2), "wrong-event"),
    (moved_though_it_was_not, "wrong-answer"),
    (signed(by="bob"), "wrong-answer"),
    (signed(why=None), "wrong-answer"),
    (unreadable_event, "bad-event"),
]


@pytest.mark.parametrize(("plant", "name"), PLANTS)
def test_planted_faults_are_found(plant, name):
    require_found(plant, name)


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
    del m.events[next(n for n, each in enumerate(m.events) if each.key == b"X")]
    assert verdict_on(m).good


def test_events_may_name_versions():
    """Then a version's members are known, whoever got its messages."""
    m = Lists.of(material_for(market()))
    at = find(m, b"D", b"G2")
    version = int(m.outputs[at].header("group-version"))
    edit(m, event_at(m, "group-changed"), members=["B", "C", "D"], version=version)
    assert verdict_on(m).good
    m.outputs = [r for r in m.outputs if not (r.key == b"D" and r.header("group") == b"G2")]
    assert "unfinished" in verdict_on(m).counts or "missing-delivery" in verdict_on(m).counts


@pytest.mark.parametrize(
    ("key", "more", "name"),
    [
        (b"X", {"id": ["e"]}, "bad-event"),
        (b"X", {"members": ["\ud800"]}, "bad-event"),
        (b"\xff", {"members": ["K"]}, "invented-event"),
    ],
)
def test_an_event_that_no_service_writes_is_a_fault(key, more, name):
    m = Lists.of(material_for(market()))
    fields = {"event": "group-changed", "id": "strange", "group": "X", "version": 9, **more}
    m.events.append(replace(m.events[-1], key=key, value=json.dumps(fields).encode()))
    assert verdict_on(m).counts == {name: 1}


@pytest.mark.parametrize(
    ("detail", "name"),
    [({"id": ["e"]}, "wrong-notice"), ({"id": "e", "group": "\ud800"}, "bad-output")],
)
def test_a_notice_that_no_service_writes_is_a_fault(detail, name):
    m = Lists.of(material_for(market()))
    last = m.outputs[-1]
    after = (("sequence", b"%d" % (int(last.header("sequence")) + 1)), last.headers[-1])
    headers = (("notice", b"joined"), ("detail", json.dumps(detail).encode()), *after)
    m.outputs.append(replace(last, offset=last.offset + 1, value=None, headers=headers))
    assert verdict_on(m).counts == {name: 1}

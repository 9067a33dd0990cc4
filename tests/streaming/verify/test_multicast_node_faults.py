"""Faults around nodes of discipline `multicast`, their ends and notices: planted, and found."""

import json
from dataclasses import replace

import pytest

from tests.streaming.verify.bus import bus, find, require_found, verdict_on
from tests.streaming.verify.plants import (
    Lists,
    append,
    drop,
    edit,
    event_at,
    insert,
    swap,
    with_header,
)
from tests.streaming.verify.worlds import material_for


def after_destruction(m):
    """What n1 is sent after its end is delivered to its owner, and no event tells of it."""
    record = m.outputs[find(m, b"A", b"7")]
    insert(m.outputs, find(m, b"A", b"7") + 1, with_header(record, "destination", b"@n1"))
    no_undelivered(m)


def before_destruction(m):
    """What n1 was sent in time is told to be undelivered."""
    record = next(r for r in m.inputs if r.value == b"3")
    drop(
        m.outputs,
        next(
            n
            for n, r in enumerate(m.outputs)
            if r.value == b"3" and r.header("destination") == b"@n1"
        ),
    )
    at = event_at(m, "undelivered")
    place = dict(zip(("topic", "partition", "offset"), record.place, strict=True))
    fields = json.loads(m.events[at].value) | place | {"id": "other"}
    m.events.append(replace(m.events[at], offset=99, value=json.dumps(fields).encode()))


def edit_event(kind, **changes):
    def plant(m):
        edit(m, event_at(m, kind), **changes)

    return plant


def no_undelivered(m):
    del m.events[event_at(m, "undelivered")]


def undelivered_twice(m):
    at = event_at(m, "undelivered")
    again = m.events[at].value.replace(b'"id": "e', b'"id": "f')
    m.events.append(replace(m.events[at], offset=99, value=again))


def end_at_message(m):
    """The destruction has the stamp of a message."""
    record = m.outputs[find(m, b"A", b"6")]
    edit_event(
        '"timestamp"',
        **{
            "timestamp": int(record.header("timestamp")),
            "from": record.header("from").decode(),
        },
    )(m)


def notice_of(m, key=b"A"):
    return next(n for n, r in enumerate(m.outputs) if r.key == key and r.value is None)


def no_notice(m):
    drop(m.outputs, notice_of(m))


def notice_at_the_end_of_all(m):
    """Nothing comes after a notice that is missing: it may be on its way."""
    last = [n for n in m.of_key(b"A") if n >= notice_of(m)]
    for at in reversed(last):
        del m.outputs[at]


def notice_to_who_released(m):
    record = with_header(m.outputs[notice_of(m)], "destination", b"C")
    append(m.outputs, record, b"C")


def notice_again(m):
    at = notice_of(m)
    insert(m.outputs, at + 1, m.outputs[at])


def notice_too_late(m):
    at = notice_of(m)
    swap(m.outputs, at, next(n for n in m.of_key(b"A") if n > at))


def notices(edit, keys=(b"A", b"B")):
    def plant(m):
        for key in keys:
            at = notice_of(m, key)
            m.outputs[at] = edit(m.outputs[at])

    return plant


def released_before_it_was_given(m):
    edit_event('"sequence"', sequence=0)(m)


def told_of_a_refused_notice(m):
    """An event says that Kafka did not take the notice for A."""
    done = json.loads(m.events[event_at(m, '"timestamp"')].value)
    place = {name: done[name] for name in ("topic", "partition", "offset")}
    told = {"event": "undelivered", "id": "u", "at": done["at"], **place, "destination": "A"}
    value = json.dumps({**told, "reason": "too-large"}).encode()
    m.events.append(replace(m.events[0], offset=99, value=value))


def test_a_refused_notice_has_an_event():
    m = Lists.of(material_for(bus()))
    no_notice(m)
    told_of_a_refused_notice(m)
    verdict = verdict_on(m)
    assert verdict.good, verdict.faults


def in_a_new_incarnation(m):
    """A gets its notice, and what follows, in another incarnation than the handle."""
    for sequence, at in enumerate(n for n in m.of_key(b"A") if n >= notice_of(m)):
        record = with_header(m.outputs[at], "sequence", b"%d" % sequence)
        m.outputs[at] = with_header(record, "incarnation", b"18")


def after_retirement(m):
    in_a_new_incarnation(m)
    retired = {"event": "retired", "id": "r", "at": "2026-01-01T00:00:00.000Z", "peer": "A"}
    value = json.dumps({**retired, "incarnation": 17}).encode()
    m.events.append(replace(m.events[0], key=b"A", offset=99, value=value))


def test_a_new_incarnation_alone_takes_no_handle():
    """As where repeats were accepted: the peer was not retired."""
    m = Lists.of(material_for(bus()))
    in_a_new_incarnation(m)
    assert {each.name for each in verdict_on(m).faults} <= {"unexplained-restart"}


PLANTS = [
    (told_of_a_refused_notice, "wrong-undelivered"),
    (after_destruction, "delivered-after-destruction"),
    (before_destruction, "undelivered-before-destruction"),
    (no_undelivered, "missing-event"),
    (undelivered_twice, "wrong-undelivered"),
    (edit_event("undelivered", destination="B"), "wrong-undelivered"),
    (edit_event("undelivered", destination="A"), "wrong-undelivered"),
    (edit_event("undelivered", offset=999), "wrong-undelivered"),
    (edit_event("undelivered", reason=None), "wrong-undelivered"),
    (edit_event('"timestamp"', timestamp=None), "wrong-answer"),
    (edit_event('"by"', by="bob"), "wrong-answer"),
    (edit_event('"timestamp"', **{"from": "B"}), "wrong-answer"),
    (edit_event('"timestamp"', timestamp=1), "delivered-after-destruction"),
    (edit_event('"timestamp"', timestamp=999), "undelivered-before-destruction"),
    (end_at_message, "same-stamp"),
    (no_notice, "missing-notice"),
    (notice_at_the_end_of_all, "unfinished"),
    (released_before_it_was_given, "missing-notice"),
    (edit_event('"sequence"', sequence="2"), "wrong-answer"),
    (notice_to_who_released, "wrong-notice"),
    (after_retirement, "wrong-notice"),
    (notice_again, "delivered-twice"),
    (notice_too_late, "stamp-order"),
    (notices(lambda r: with_header(r, "notice", b"n2")), "wrong-notice"),
    (notices(lambda r: with_header(r, "timestamp", b"1000")), "wrong-notice"),
    (notices(lambda r: replace(r, timestamp=5)), "wrong-notice"),
    (notices(lambda r: replace(r, timestamp=5), [b"A"]), "two-contents"),
    (notices(lambda r: replace(r, value=b"")), "bad-output"),
    (notices(lambda r: with_header(r, "destination", b"B"), [b"A"]), "bad-output"),
    (notices(lambda r: with_header(r, "notice", b"")), "bad-output"),
]


@pytest.mark.parametrize(("plant", "name"), PLANTS)
def test_planted_faults_are_found(plant, name):
    require_found(plant, name)

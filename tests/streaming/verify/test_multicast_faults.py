"""Every planted fault of discipline `multicast` is found under its own name, with a witness."""

import json
from dataclasses import replace

import pytest

from streaming.verify.accounts import Settings
from streaming.verify.multicast import judge
from tests.streaming.verify.multicast_worlds import Multicasts
from tests.streaming.verify.plants import (
    Lists,
    append,
    done_instead,
    drop,
    event_at,
    insert,
    no_answer,
    reason,
    reject_altered,
    reject_doubled,
    reject_lost,
    swap,
    with_header,
    without_header,
)
from tests.streaming.verify.worlds import material_for, settings_for


def bus():
    """Messages between three peers, two nodes of which one ends, handles, and rejects.

    All three get handles to the node that ends; C gives its own back before.
    """
    world = Multicasts(1)

    def send(sender, to, handles=...):
        world.clock += 1
        world.send(sender, to, handles, b"%d" % world.clock, int(sender != b"a"))

    world.do({"op": "create-node", "node": "n1", "owner": "A", "id": "c1"})
    world.do({"op": "create-node", "node": "n2", "owner": "B", "id": "c2"})
    send(b"a", b"A,B,C")
    send(b"a", b"A,B", b"@n1")
    send(b"b", b"A,B,C,@n1,@n2", b"@n1,@n2")
    send(b"b", b"B,C", b"")
    send(b"a", b"B,C")
    send(b"a", b"@n1", b"@n2")
    world.do({"op": "release", "node": "n1", "peer": "C", "id": "c5"})
    world.do({"op": "destroy-node", "node": "n1", "id": "c3"})
    world.do({"op": "destroy-node", "node": "n1", "id": "c4"})
    send(b"a", b"A,C,@n1", b"@n1,@n2")
    send(b"b", b"@n1")
    send(b"b", b"A,,B")
    send(b"b", b"A,@nope")
    send(None, b"A,B")
    send(b"b", b"A,B,C")
    send(b"a", b"A,B,C,@n2")
    return world


def find(m, key, value, nth=0):
    return [at for at, r in enumerate(m.outputs) if r.key == key and r.value == value][nth]


def change(name, value, key=b"B", of=b"3"):
    def plant(m):
        at = find(m, key, of)
        m.outputs[at] = with_header(m.outputs[at], name, value)

    return plant


def everywhere(edit, of=b"1"):
    def plant(m):
        for at, record in enumerate(m.outputs):
            if record.value == of:
                m.outputs[at] = edit(record)

    return plant


def swap_at_one(m):
    swap(m.outputs, *m.of_key(b"C")[:2])


def swap_with_stamps(m):
    """The stamps still rise, but the contents are the other way."""
    one, two = m.of_key(b"C")[:2]
    olds = m.outputs[one], m.outputs[two]
    swap(m.outputs, one, two)
    for at, old in zip((one, two), olds, strict=True):
        for name in ("timestamp", "from"):
            m.outputs[at] = with_header(m.outputs[at], name, old.header(name)[1])


def ring(m):
    """Three messages with two destinations each, and everyone begins with another one."""
    world = Multicasts(1)
    for sender, to in ((b"x", b"K,L"), (b"y", b"L,M"), (b"z", b"M,K")):
        world.send(sender, to, ..., sender)
    other = Lists.of(material_for(world))
    swap(other.outputs, *other.of_key(b"K"))
    m.outputs += other.outputs
    m.inputs += [replace(record, topic="in2") for record in other.inputs]


def lose_at_one(m):
    drop(m.outputs, find(m, b"B", b"3"))


def lose_at_all(m):
    for key in (b"A", b"B"):
        drop(m.outputs, find(m, key, b"2"))


def lose_last(m):
    drop(m.outputs, m.of_key(b"C")[-1])


def lose_without_renumbering(m):
    del m.outputs[find(m, b"B", b"3")]


def lose_input(m):
    m.inputs[:] = [r for r in m.inputs if r.value != b"2"]


def repeat(m):
    at = find(m, b"B", b"3")
    m.outputs.insert(at + 1, m.outputs[at])


def deliver_again(m):
    at = find(m, b"B", b"3")
    insert(m.outputs, at + 1, m.outputs[at])


def to_stranger(m):
    append(m.outputs, with_header(m.outputs[find(m, b"A", b"2")], "destination", b"C"), b"C")


def to_other_peer(m):
    """A delivery for A in B's hands."""
    at = find(m, b"A", b"2")
    record = m.outputs[at]
    drop(m.outputs, at)
    append(m.outputs, record, b"C")


def to_other_owner(m):
    at = find(m, b"A", b"6")
    record = m.outputs[at]
    drop(m.outputs, at)
    append(m.outputs, record, b"C")


def value(m):
    at = find(m, b"B", b"3")
    m.outputs[at] = replace(m.outputs[at], value=b"other")


def partition(m):
    at = find(m, b"B", b"3")
    m.outputs[at] = replace(m.outputs[at], partition=(m.outputs[at].partition + 1) % 3)


def no_handles(m):
    """The input's own header is taken for the service's, so something else is missing."""
    for at, record in enumerate(m.outputs):
        if record.value == b"4":
            m.outputs[at] = without_header(record, "handles")


def handles_added(m):
    at = find(m, b"B", b"5")
    headers = m.outputs[at].headers
    added = ("handles", b"")
    m.outputs[at] = replace(m.outputs[at], headers=(*headers[:-2], added, *headers[-2:]))


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
            if r.value == b"3" and r.header("destination")[1] == b"@n1"
        ),
    )
    at = event_at(m, "undelivered")
    place = dict(zip(("topic", "partition", "offset"), record.place, strict=True))
    fields = json.loads(m.events[at].value) | place | {"id": "other"}
    m.events.append(replace(m.events[at], offset=99, value=json.dumps(fields).encode()))


def edit_event(kind, **changes):
    def plant(m):
        at = event_at(m, kind)
        fields = json.loads(m.events[at].value) | changes
        fields = {name: value for name, value in fields.items() if value is not None}
        m.events[at] = replace(m.events[at], value=json.dumps(fields).encode())

    return plant


def no_undelivered(m):
    del m.events[event_at(m, "undelivered")]


def undelivered_twice(m):
    at = event_at(m, "undelivered")
    again = m.events[at].value.replace(b'"id": "e', b'"id": "f')
    m.events.append(replace(m.events[at], offset=99, value=again))


def sender_overtaken(m):
    mine = [n for n, r in enumerate(m.inputs) if r.value in (b"1", b"2")]
    one, two = (m.inputs[n] for n in mine)
    m.inputs[mine[0]] = replace(two, offset=one.offset)
    m.inputs[mine[1]] = replace(one, offset=two.offset)


def end_at_message(m):
    """The destruction has the stamp of a message."""
    record = m.outputs[find(m, b"A", b"6")]
    edit_event(
        '"timestamp"',
        **{
            "timestamp": int(record.header("timestamp")[1]),
            "from": record.header("from")[1].decode(),
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


def reject_of_delivered(m):
    record = next(r for r in m.inputs if r.value == b"2")
    added = m.rejects[0].headers[-4:-1]
    added = (*added[:1], ("reject-topic", b"in"), ("reject-partition", b"%d" % record.partition))
    added = (*added, ("reject-offset", b"%d" % record.offset))
    m.rejects.append(replace(record, topic="rejects", offset=99, headers=record.headers + added))


PLANTS = [
    (swap_at_one, "stamp-order"),
    (swap_at_one, "pairwise-order"),
    (swap_with_stamps, "two-contents"),
    (ring, "acyclic"),
    (lose_at_one, "missing-delivery"),
    (lose_at_all, "lost"),
    (lose_last, "unfinished"),
    (lose_without_renumbering, "hole"),
    (lose_input, "invented"),
    (repeat, "repeat"),
    (deliver_again, "delivered-twice"),
    (to_stranger, "membership"),
    (to_other_peer, "membership"),
    (to_other_owner, "membership"),
    (value, "two-contents"),
    (change("x", b"1"), "two-contents"),
    (everywhere(lambda r: replace(r, value=b"other")), "invented"),
    (everywhere(lambda r: replace(r, timestamp=5)), "invented"),
    (everywhere(lambda r: with_header(r, "x", None)), "invented"),
    (everywhere(lambda r: with_header(r, "from", b"q")), "invented"),
    (partition, "wrong-partition"),
    (change("timestamp", b"1000"), "delivered-twice"),
    (change("timestamp", b"+1"), "bad-output"),
    (change("destination", b""), "bad-output"),
    (change("destination", b"C"), "membership"),
    (change("sequence", b"77"), "hole"),
    (change("incarnation", b"16"), "disorder"),
    (change("handles", b"@n1"), "wrong-handles"),
    (change("handles", b"@n1,@n2,@n3"), "wrong-handles"),
    (change("handles", b"@n1,@n2", b"C", b"7"), "wrong-handles"),
    (change("handles-invalid", b"@n2", b"C", b"7"), "wrong-handles"),
    (no_handles, "invented"),
    (handles_added, "wrong-handles"),
    (after_destruction, "delivered-after-destruction"),
    (before_destruction, "undelivered-before-destruction"),
    (no_undelivered, "missing-event"),
    (undelivered_twice, "wrong-undelivered"),
    (edit_event("undelivered", destination="B"), "wrong-undelivered"),
    (edit_event("undelivered", destination="A"), "wrong-undelivered"),
    (edit_event("undelivered", offset=999), "wrong-undelivered"),
    (edit_event("undelivered", reason=None), "wrong-undelivered"),
    (edit_event('"timestamp"', timestamp=None), "wrong-answer"),
    (edit_event('"timestamp"', timestamp=1), "delivered-after-destruction"),
    (edit_event('"timestamp"', timestamp=999), "undelivered-before-destruction"),
    (end_at_message, "same-stamp"),
    (no_notice, "missing-notice"),
    (notice_at_the_end_of_all, "unfinished"),
    (released_before_it_was_given, "missing-notice"),
    (edit_event('"sequence"', sequence="2"), "wrong-answer"),
    (notice_to_who_released, "wrong-notice"),
    (notice_again, "delivered-twice"),
    (notice_too_late, "stamp-order"),
    (notices(lambda r: with_header(r, "notice", b"n2")), "wrong-notice"),
    (notices(lambda r: with_header(r, "timestamp", b"1000")), "wrong-notice"),
    (notices(lambda r: replace(r, timestamp=5)), "wrong-notice"),
    (notices(lambda r: replace(r, timestamp=5), [b"A"]), "two-contents"),
    (notices(lambda r: replace(r, value=b"")), "bad-output"),
    (notices(lambda r: with_header(r, "destination", b"B"), [b"A"]), "bad-output"),
    (notices(lambda r: with_header(r, "notice", b"")), "bad-output"),
    (sender_overtaken, "sender-order"),
    (reject_lost, "unfinished"),
    (reject_altered, "reject-altered"),
    (reject_doubled, "reject-repeat"),
    (reject_of_delivered, "rejected-and-delivered"),
    (reason(b"destroyed-node", b"bad-destination"), "wrong-reason"),
    (reason(b"destroyed-node", b"missing-sender"), "wrong-reason"),
    (reason(b"bad-destination", b"destroyed-node"), "wrong-reason"),
    (reason(b"missing-sender", b"bad-destination"), "wrong-reason"),
    (no_answer, "unanswered"),
    (done_instead, "wrong-answer"),
]


def test_the_bus_is_in_order():
    world = bus()
    verdict = judge(settings_for(Settings, world), material_for(world))
    assert verdict.good, verdict.faults
    looked = verdict.looked_at
    assert (looked["rejects"], looked["undelivered"], looked["commands"]) == (4, 1, 5)
    assert looked["notices"] == 2


@pytest.mark.parametrize(("plant", "name"), PLANTS)
def test_planted_faults_are_found(plant, name):
    world = bus()
    m = Lists.of(material_for(world))
    plant(m)
    verdict = judge(settings_for(Settings, world), m.material())
    assert name in verdict.counts, verdict.faults
    witness = next(fault.witness for fault in verdict.faults if fault.name == name)
    assert "@" in witness, witness

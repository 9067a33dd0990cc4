"""Every planted fault of discipline `multicast` is found under its own name, with a witness."""

import json
from dataclasses import replace

import pytest

from streaming.verify.accounts import Settings
from streaming.verify.multicast import judge
from tests.streaming.verify.bus import bus, find, require_found, verdict_on
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
            m.outputs[at] = with_header(m.outputs[at], name, old.header(name))


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


def sender_overtaken(m):
    mine = [n for n, r in enumerate(m.inputs) if r.value in (b"1", b"2")]
    one, two = (m.inputs[n] for n in mine)
    m.inputs[mine[0]] = replace(two, offset=one.offset)
    m.inputs[mine[1]] = replace(one, offset=two.offset)


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
    verdict = verdict_on(Lists.of(material_for(bus())))
    assert verdict.good, verdict.faults
    looked = verdict.looked_at
    assert (looked["rejects"], looked["undelivered"], looked["commands"]) == (4, 1, 5)
    assert looked["notices"] == 2


@pytest.mark.parametrize(("plant", "name"), PLANTS)
def test_planted_faults_are_found(plant, name):
    require_found(plant, name)


@pytest.mark.parametrize(
    ("refused", "name"), [(("A", "C"), None), (("A",), "lost"), (("A", "C", "@n1"), None)]
)
def test_a_message_that_nobody_gets_has_an_event_for_each_destination(refused, name):
    m = Lists.of(material_for(bus()))
    for key in (b"A", b"C"):
        drop(m.outputs, find(m, key, b"7"))
    at = event_at(m, "undelivered")  # of the node
    event = m.events[at]
    for number, to in enumerate(refused):
        fields = json.loads(event.value) | {"destination": to, "reason": "too-large", "id": to}
        told = replace(event, offset=100 + number, value=json.dumps(fields).encode())
        if to == "@n1":
            m.events[at] = told
        else:
            m.events.append(told)
    verdict = verdict_on(m)
    assert verdict.counts.keys() == ({name} if name else set()), verdict.faults


@pytest.mark.parametrize(("said", "is_right"), [(r"B\xff", True), ("B", False), ("\ud800", False)])
def test_a_refused_copy_for_a_peer_whose_name_is_not_utf_8_has_its_event(said, is_right):
    world = Multicasts(1)
    world.send(b"a", b"A,B\xff", ..., b"large")
    place = {"topic": "in", "partition": 0, "offset": 5}
    world.event("undelivered", "a", **place, destination=said, reason="too-large")
    m = Lists.of(material_for(world))
    drop(m.outputs, find(m, b"B\xff", b"large"))
    verdict = judge(settings_for(Settings, world), m.material())
    assert verdict.good == is_right, verdict.faults
    assert is_right or verdict.counts.keys() & {"wrong-undelivered", "bad-event"}

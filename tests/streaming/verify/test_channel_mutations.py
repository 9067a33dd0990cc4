# ruff: noqa: ARG001  (all mutations take the same arguments)
"""Random histories of channels: right ones pass, and no change of them does."""

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.labels import CyclicLabels, LinearLabels
from streaming.verify.channel import Material, judge
from tests.streaming.verify.channel_stories import story
from tests.streaming.verify.mutations import changed
from tests.streaming.verify.plants import drop, insert, swap, with_header

KINDS = []
"""Each takes a source of chance, the topics, and the place of a delivery; False: not possible."""


def kind(function):
    KINDS.append(function)
    return function


def of_key(m, key):
    return [at for at, record in enumerate(m.outputs) if record.key == key]


@kind
def lose(rng, m, at):
    drop(m.outputs, at)


@kind
def lose_the_last(rng, m, at):
    for one in reversed(of_key(m, m.outputs[at].key)[-rng.randrange(1, 6) :]):
        del m.outputs[one]


@kind
def double(rng, m, at):
    record = m.outputs[at]
    insert(m.outputs, rng.choice([n for n in of_key(m, record.key) if n >= at]), record)


@kind
def swap_two(rng, m, at):
    """Of labelled ones: a record without a label may have come anywhere between them."""
    mine = [n for n in of_key(m, m.outputs[at].key) if m.outputs[n].has_header("label")]
    other = rng.choice(mine)
    if at not in mine or other == at:
        return False
    swap(m.outputs, at, other)
    return True


@kind
def other_bytes(rng, m, at):
    m.outputs[at] = changed(rng, m.outputs[at], "x", b"7")


@kind
def other_key(rng, m, at):
    m.outputs[at] = replace(m.outputs[at], key=rng.choice([b"d", b""]))


@kind
def other_partition(rng, m, at):
    m.outputs[at] = replace(m.outputs[at], partition=(m.outputs[at].partition + 1) % 3)


@kind
def other_numbers(rng, m, at):
    name, by = rng.choice([("sequence", 1), ("sequence", -1), ("incarnation", 1)])
    record = m.outputs[at]
    number = int(record.header(name)) + by
    if number < 0 or (name == "incarnation" and len(of_key(m, record.key)) == 1):
        return False
    m.outputs[at] = with_header(record, name, b"%d" % number)
    return True


@kind
def another_run(rng, m, at):
    """From some delivery on, a channel begins anew."""
    mine = of_key(m, m.outputs[at].key)
    if mine[0] == at:
        return False
    for sequence, one in enumerate(mine[mine.index(at) :]):
        record = with_header(m.outputs[one], "sequence", b"%d" % sequence)
        m.outputs[one] = with_header(record, "incarnation", b"%d" % 10**6)
    return True


@kind
def reject(rng, m, at):
    """A delivery becomes a reject, with every reason that channels know but what Kafka refuses."""
    reasons = "missing-channel missing-label bad-label bad-epoch stale-epoch after-fin reset"
    reasons = [*reasons.split(), "outside-window", "late", "duplicate", "buffer-full"]
    record, mine = m.outputs[at], of_key(m, m.outputs[at].key)
    own = replace(record, headers=record.headers[:-2])
    source = next(each for each in m.inputs if each.content == own.content)
    place = (b"in", b"0", b"%d" % source.offset)
    names = ("reason", "topic", "partition", "offset")
    said = [*zip(names, (rng.choice(reasons).encode(), *place), strict=True)]
    if mine[0] != at:
        numbers = m.outputs[mine[mine.index(at) - 1]].headers[-2:]
        said.append(("after", b"%s/%s" % (numbers[1][1], numbers[0][1])))
    headers = tuple((f"reject-{name}", value) for name, value in said)
    drop(m.outputs, at)
    m.rejects.append(replace(own, topic="rejects", offset=10**6, headers=own.headers + headers))


@kind
def double_a_reject(rng, m, at):
    if not m.rejects:
        return False
    m.rejects.append(replace(rng.choice(m.rejects), offset=10**6))
    return True


@kind
def invent(rng, m, at):
    insert(m.outputs, at, replace(m.outputs[at], value=b"nobody sent this"))


@kind
def lose_a_gap(rng, m, at):
    if not any(event["event"] == "gap" for event in m.events):
        return False
    m.events.remove(rng.choice([event for event in m.events if event["event"] == "gap"]))
    return True


@kind
def double_an_event(rng, m, at):
    if not m.events:
        return False
    m.events.append({**rng.choice(m.events)})
    return True


def copied(m):
    lists = m.inputs, m.outputs, m.rejects, m.events
    return Material(*map(list, lists))


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_no_change_of_a_history_passes(seed, data):
    cyclic = data.draw(st.booleans(), "cyclic")
    labels = CyclicLabels(1024) if cyclic else LinearLabels()
    ways = {name: data.draw(st.booleans(), name) for name in ("drop", "passes", "refuse")}
    window = data.draw(st.sampled_from([10, 50]), "window")
    its, m = story(seed, labels, window=window, **ways)
    assert judge(its, m).good
    for kind in KINDS:
        changed_one, rng = copied(m), random.Random(seed)
        if kind(rng, changed_one, rng.randrange(len(m.outputs))) is False:
            continue
        assert not judge(its, changed_one).good, kind.__name__

"""Groups that change often, and many groups: what the judge takes grows with the records alone."""

import json
import random
from itertools import combinations_with_replacement, pairwise

import pytest

from streaming.verify.accounts import Material
from streaming.verify.columns import Column
from streaming.verify.group import GroupSettings, judge
from streaming.verify.memberships import Group
from streaming.verify.records import Record
from streaming.verify.versions import HARD, Version, _cost, assign

KEYS = [b"a", b"b", b"c", b"d"]


def version(store, members, count, rng=None):
    """A version with some messages, which all members got, or by chance some of them."""
    made = Version(store)
    for n in range(count):
        made.take(n, n)
    for key in sorted(members):
        got = count if rng is None or rng.random() < 0.8 else rng.randrange(count + 1)
        made.got.update({key: got} if got else {})
    return made


def some_versions(rng):
    """Memberships, versions of which some have no message, and what events name."""
    memberships = [
        frozenset(rng.sample(KEYS, rng.randrange(1, 4))) for _ in range(rng.randrange(1, 6))
    ]
    store, versions, last, pinned = Column(), {}, {}, {}
    indexes = sorted(rng.randrange(len(memberships)) for _ in range(rng.randrange(1, 6)))
    for number, index in enumerate(indexes):
        if rng.random() < 0.5:
            is_right = rng.random() < 0.95
            pinned[number] = memberships[index] if is_right else frozenset(rng.sample(KEYS, 2))
        if number not in pinned and rng.random() < 0.2:
            continue
        versions[number] = version(store, memberships[index], rng.randrange(1, 4), rng)
        last |= {key: (number, got - 1) for key, got in versions[number].got.items()}
    return Group(memberships, configured=True), versions, last, pinned


@pytest.mark.parametrize("seed", range(300))
def test_no_order_of_memberships_explains_the_versions_better(seed):
    group, versions, last, pinned = some_versions(random.Random(seed))
    memberships = group.memberships

    def cost(indexes):
        costs = 0
        for number, index in zip(sorted(versions), indexes, strict=True):
            members = memberships[index]
            is_wrong = members != pinned.get(number, members)
            costs += _cost(number, versions[number], members, last) + HARD * HARD * is_wrong
        return costs

    chosen = assign(versions, group, last, pinned)
    indexes = [chosen[number] for number in sorted(versions)]
    assert all(one <= other for one, other in pairwise(indexes))
    every = combinations_with_replacement(range(len(memberships)), len(versions))
    assert cost(indexes) == min(map(cost, every))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("period", [1, 10, 20_000])
def test_changes_that_events_name_are_followed_in_one_pass(period):
    count, store = 20_000, Column()
    memberships = [frozenset({b"a", b"m%d" % (n % period)}) for n in range(count)]
    versions = {n: version(store, members, 1) for n, members in enumerate(memberships)}
    last = {key: (n, 0) for n, members in enumerate(memberships) for key in members}
    pinned = dict(enumerate(memberships))
    for unknown in (0, count - 1):
        del pinned[unknown]
    chosen = assign(versions, Group(memberships, configured=True), last, pinned)
    assert [memberships[chosen[n]] for n in versions] == memberships


@pytest.mark.timeout(30)
def test_many_groups_of_a_few_are_judged():
    count = 30_000
    groups = {f"G{n}": frozenset({f"s{n}", f"s{n + 1}"}) for n in range(count)}
    inputs, outputs, sequences = [], [], {}
    for n, (name, members) in enumerate(groups.items()):
        own = (("group", name.encode()),)
        inputs.append(Record("in", 0, n, 1_000, b"p", b"%d" % n, own))
        for member in sorted(members):
            sequences[member] = sequences.get(member, -1) + 1
            added = [("sender", b"p"), ("group-sequence", b"0"), ("group-version", b"0")]
            added += [("sequence", b"%d" % sequences[member]), ("incarnation", b"17")]
            record = Record(
                "out", 0, len(outputs), 1_000, member.encode(), b"%d" % n, (*own, *added)
            )
            outputs.append(record)
    settings = GroupSettings(
        pipeline="p", output="out", partitions={"out": 1}, groups=groups, by_batch=True
    )
    verdict = judge(settings, Material(outputs, (), (), (), inputs))
    assert verdict.good, verdict.faults[:3]
    assert verdict.looked_at["groups"] == count


@pytest.mark.timeout(60)
def test_a_group_that_comes_and_goes_is_judged():
    count, inputs, outputs, events = 8_000, [], [], []

    def ask(op, **fields):
        value = json.dumps({"group": "G", **fields}).encode()
        place = {"topic": "in", "partition": 0, "offset": len(inputs)}
        inputs.append(Record("in", 0, len(inputs), 1, b"p", value, (("op", op.encode()),)))
        event("command-done", command=None, **place)
        return place

    def event(kind, **fields):
        fields = {"event": kind, "id": f"e{len(events)}", "at": f"{len(events):06}", **fields}
        key = b"G" if kind != "command-done" else b""
        events.append(Record("events", 0, len(events), 1, key, json.dumps(fields).encode(), ()))

    for n in range(count):
        place = ask("add", members=["A"])
        event("group-added", group="G", version=2 * n, members=["A"], **place)
        own = (("group", b"G"),)
        inputs.append(Record("in", 0, len(inputs), 1, b"p", b"%d" % n, own))
        added = (("sender", b"p"), ("group-sequence", b"0"), ("group-version", b"%d" % (2 * n)))
        added += (("sequence", b"%d" % n), ("incarnation", b"17"))
        outputs.append(Record("out", 0, n, 1, b"A", b"%d" % n, (*own, *added)))
        place = ask("remove")
        event("group-removed", group="G", version=2 * n + 1, **place)
    settings = GroupSettings(
        pipeline="p",
        output="out",
        partitions={"out": 1},
        groups={},
        by_batch=True,
        input_commands=("add", "remove"),
    )
    verdict = judge(settings, Material(outputs, (), events, (), inputs))
    assert verdict.good, verdict.faults[:3]
    assert verdict.looked_at["messages"] == count

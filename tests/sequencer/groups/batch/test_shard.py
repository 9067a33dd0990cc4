"""One shard: numbers and deliveries of slices, against counting one message at a time."""

import json
import random

import numpy as np
import pytest

from sequencer.groups.batch import shard as module
from sequencer.groups.batch.directory import Directory, First
from sequencer.groups.batch.shard import BatchShard
from sequencer.groups.batch.subscribers import Subscribers

NAMES = [f"s{n}" for n in range(9)]


def make(groups, *, mine=lambda _: True, stamped=True):
    names = sorted(groups)
    members = [np.array(sorted(groups[name]), np.int64) for name in names]
    directory = Directory.begin(First(NAMES, names, members), 100)

    def own(some):
        return np.array([mine(each) for each in some], np.bool_)

    return BatchShard(directory, Subscribers.fresh(own(NAMES)), own, stamped)


def deliveries(shard, groups, now_ms):
    """All of them as (message, subscriber, number, version, stamps, sequence, incarnation)."""
    numbers = np.array([shard.directory.number(name) for name in groups], np.int64)
    for part in shard.take(numbers, now_ms):
        stamps = part.stamps.to_pylist() if part.stamps is not None else [None] * len(part.message)
        for at, message in enumerate(part.message.tolist()):
            yield (
                part.first + message,
                shard.directory.subscribers[part.who[part.place[at]]],
                int(part.number[message]),
                int(part.version[message]),
                stamps[at] and json.loads(stamps[at]),
                int(part.sequence[at]),
                int(part.incarnation[at]),
            )


def overlapping(members, before):
    """The overlaps that there are, with their numbers: those that were there go on."""
    names = sorted(members)
    pairs = [(one, two) for one in names for two in names if one < two]
    return {
        (one, two): before.get((one, two), 0)
        for one, two in pairs
        if len(members[one] & members[two]) > 1
    }


@pytest.mark.parametrize("slice_max", [3, 40, 500_000])
@pytest.mark.parametrize("seed", range(6))
def test_messages_counted_one_at_a_time(seed, slice_max, monkeypatch):
    monkeypatch.setattr(module, "SLICE_MAX", slice_max)
    rng = random.Random(seed)
    members = {f"G{n}": set(rng.sample(range(9), rng.randrange(1, 8))) for n in range(6)}
    shard = make(members, mine=lambda name: name != "s3")
    counts, sequences, begun = dict.fromkeys(members, 0), {}, {}
    starts, versions = dict.fromkeys(members, 0), dict.fromkeys(members, 0)
    overlaps = overlapping(members, {})
    for batch in range(8):
        if batch % 3 == 2:
            name = rng.choice(sorted(members))
            members[name] = set(rng.sample(range(9), rng.randrange(1, 8)))
            shard.change("set", name, [NAMES[each] for each in members[name]], batch)
            starts[name] = counts[name]
            versions[name] += 1
            overlaps = overlapping(members, overlaps)
        sent = [rng.choice(sorted(members)) for _ in range(rng.randrange(12))]
        expected = []
        for at, name in enumerate(sent):
            for who in sorted(members[name] - {3}):
                stamps = [
                    [*pair, number]
                    for pair, number in overlaps.items()
                    if name in pair and all(who in members[each] for each in pair)
                ]
                begun.setdefault(who, batch)
                number = counts[name] - starts[name]
                place = sequences.get(who, 0)
                sequences[who] = place + 1
                told = (at, NAMES[who], number, versions[name], sorted(stamps) or None)
                expected.append((*told, place, begun[who]))
            counts[name] += 1
            for pair in overlaps:
                overlaps[pair] += name in pair
        assert list(deliveries(shard, sent, batch)) == expected


def test_a_group_that_is_larger_than_a_slice(monkeypatch):
    monkeypatch.setattr(module, "SLICE_MAX", 2)
    shard = make({"G0": range(7), "G1": range(7)})
    found = list(deliveries(shard, ["G0", "G1"], 1))
    assert [(message, who) for message, who, *_ in found] == [
        (message, who) for message in (0, 1) for who in NAMES[:7]
    ]
    assert [each[4][0][2] for each in found] == [0] * 7 + [1] * 7


def test_without_stamps_there_are_overlaps_all_the_same():
    shard = make({"G0": range(7), "G1": range(7)}, stamped=False)
    assert {each[4] for each in deliveries(shard, ["G0", "G1"], 1)} == {None}
    assert shard.overlaps() == [("G0", "G1", 2)]


def test_an_overlap_begins_at_0_and_again_when_it_comes_back():
    shard = make({"G0": [0, 1], "G1": [1, 2], "G2": [7, 8]})

    def numbers(*groups):
        return [json.dumps(each[4]) for each in deliveries(shard, groups, 1) if each[1] == "s1"]

    assert numbers("G0", "G1", "G0") == ["null"] * 3
    shard.change("join", "G1", ["s0"], 2)
    assert numbers("G0", "G1") == ['[["G0", "G1", 0]]', '[["G0", "G1", 1]]']
    shard.change("join", "G1", ["s8"], 2)  # a version of G1, and the overlap goes on
    assert numbers("G1", "G0") == ['[["G0", "G1", 2]]', '[["G0", "G1", 3]]']
    shard.change("set", "G1", ["s1", "s2"], 2)
    assert (numbers("G0"), shard.overlaps()) == (["null"], [])
    shard.change("set", "G1", ["s0", "s1"], 2)
    assert numbers("G1") == ['[["G0", "G1", 0]]']
    shard.change("remove", "G0", [], 3)
    shard.change("add", "G0", ["s0", "s1", "s7"], 3)
    assert numbers("G1", "G0") == ['[["G0", "G1", 0]]', '[["G0", "G1", 1]]']
    assert shard.compacted(np.empty(0, np.int64)).overlaps() == shard.overlaps()


def test_overlaps_are_listed_by_name_and_so_many():
    shard = make({f"G{n}": range(3) for n in range(4)})
    list(deliveries(shard, ["G3", "G0"], 1))
    listed = [
        ("G0", "G1", 1), ("G0", "G2", 1), ("G0", "G3", 2),
        ("G1", "G2", 0), ("G1", "G3", 1), ("G2", "G3", 1),
    ]  # fmt: skip
    assert shard.overlaps() == listed
    assert shard.overlaps(4) == listed[:4]


def test_names_as_json_has_them():
    shard = make({'a"b': [0, 1], "ä\n": [0, 1], "A,": [0, 1]})
    (_, _, _, _, stamps, _, _), *_ = deliveries(shard, ["ä\n"], 1)
    assert stamps == [["A,", "ä\n", 0], ['a"b', "ä\n", 0]]


def test_compacted_it_goes_on_as_before():
    results = []
    for compact in (False, True):
        shard = make({"G0": [0, 1], "G1": [1, 2]})
        list(deliveries(shard, ["G0", "G1"], 1))
        shard.change("remove", "G0", [], 2)
        shard.change("add", "G2", ["s1", "s2", "new"], 2)
        if compact:
            assert shard.unneeded(3).tolist() == [3, 4, 5, 6, 7, 8]
            shard = shard.compacted(shard.unneeded(3))
            assert len(shard.directory.subscribers) == 4
        shard.change("add", "G0", ["s8", "s1"], 3)
        results.append(list(deliveries(shard, ["G0", "G1", "G2"], 4)))
    assert results[0] == results[1]


def test_circles_of_the_past_do_not_pile_up(monkeypatch):
    """For months a worker keeps the shard, and members come and go."""
    monkeypatch.setattr(module, "CIRCLES_IDLE_MAX", 0)
    rng, shard = random.Random(1), make({f"G{n}": range(9) for n in range(12)})
    for turn in range(300):
        op = rng.choice(["join", "leave"])
        shard.change(op, f"G{rng.randrange(12)}", [NAMES[rng.randrange(1, 9)]], turn)
        assert len(shard.circles.lists) <= 2 * len(NAMES)

"""One shard: numbers and deliveries of slices, against counting one message at a time."""

import json
import random

import numpy as np
import pytest

from sequencer.groups import shard as module
from sequencer.groups.directory import Directory, First
from sequencer.groups.shard import Shard
from sequencer.groups.subscribers import Subscribers

NAMES = [f"s{n}" for n in range(9)]


def make(groups, *, mine=lambda _: True, stamped=True):
    names = sorted(groups)
    members = [np.array(sorted(groups[name]), np.int64) for name in names]
    directory = Directory.begin(First(NAMES, names, members), 100)

    def own(some):
        return np.array([mine(each) for each in some], np.bool_)

    return Shard(directory, Subscribers.fresh(own(NAMES)), own, stamped)


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


@pytest.mark.parametrize("slice_max", [3, 40, 500_000])
@pytest.mark.parametrize("seed", range(6))
def test_messages_counted_one_at_a_time(seed, slice_max, monkeypatch):
    monkeypatch.setattr(module, "SLICE_MAX", slice_max)
    rng = random.Random(seed)
    members = {f"G{n}": set(rng.sample(range(9), rng.randrange(1, 8))) for n in range(6)}
    shard = make(members, mine=lambda name: name != "s3")
    counts, sequences, begun = dict.fromkeys(members, 0), {}, {}
    starts, versions = dict.fromkeys(members, 0), dict.fromkeys(members, 0)
    for batch in range(8):
        if batch % 3 == 2:
            name = rng.choice(sorted(members))
            members[name] = set(rng.sample(range(9), rng.randrange(1, 8)))
            shard.change("set", name, [NAMES[each] for each in members[name]], batch)
            starts[name] = counts[name]
            versions[name] += 1
        sent = [rng.choice(sorted(members)) for _ in range(rng.randrange(12))]
        expected = []
        for at, name in enumerate(sent):
            for who in sorted(members[name] - {3}):
                stamps = [
                    [*sorted((name, other)), counts[name] + counts[other]]
                    for other, theirs in members.items()
                    if other != name and who in theirs and len(theirs & members[name]) > 1
                ]
                begun.setdefault(who, batch)
                number = counts[name] - starts[name]
                place = sequences.get(who, 0)
                sequences[who] = place + 1
                told = (at, NAMES[who], number, versions[name], sorted(stamps) or None)
                expected.append((*told, place, begun[who]))
            counts[name] += 1
        assert list(deliveries(shard, sent, batch)) == expected


def test_a_group_that_is_larger_than_a_slice(monkeypatch):
    monkeypatch.setattr(module, "SLICE_MAX", 2)
    shard = make({"G0": range(7), "G1": range(7)})
    found = list(deliveries(shard, ["G0", "G1"], 1))
    assert [(message, who) for message, who, *_ in found] == [
        (message, who) for message in (0, 1) for who in NAMES[:7]
    ]
    assert [each[4][0][2] for each in found] == [0] * 7 + [1] * 7


def test_without_stamps_nothing_is_known_of_overlaps():
    shard = make({"G0": range(7), "G1": range(7)}, stamped=False)
    assert shard.circles is None
    assert {each[4] for each in deliveries(shard, ["G0", "G1"], 1)} == {None}


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

"""The arrays of multicast in the order of the batch, against loops over lists and sets."""

import random

import numpy as np
import pyarrow as pa
import pytest

from sequencer.multicast.batch import (
    Holders,
    MessageLimits,
    Messages,
    Node,
    Peers,
    read_lists,
)
from sequencer.multicast.batch import messages as module

NODES = {b"n1": Node(1, b"ann", destroyed=False), b"n2": Node(2, b"bob", destroyed=True)}
LIMITS = MessageLimits(destinations=4, handles=2, name_bytes=8)


def binary(values):
    return pa.array(values, pa.binary())


@pytest.mark.parametrize("seed", range(20))
def test_lists_are_those_of_a_split(seed):
    rng = random.Random(seed)
    texts = [
        rng.choice([None, b"", b",".join(rng.choices([b"a", b"b", b"", b"\xff"], k=5))])
        for _ in range(rng.randrange(9))
    ]
    for empty_is_none in (False, True):
        lists = read_lists(binary(texts), empty_is_none=empty_is_none)
        names = lists.names.to_pylist()
        found = [
            [names[n] for n in lists.name[lists.starts[each] : lists.starts[each + 1]]]
            for each in lists.of
        ]
        assert found == [
            [] if empty_is_none and not text else list(dict.fromkeys((text or b"").split(b",")))
            for text in texts
        ]


def messages(*rows):
    senders, to, handles = zip(*rows, strict=True)
    return Messages(binary(senders), binary(to), binary(handles), NODES.get, LIMITS)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((b"s", b"a,b,c,d,a", b"@n1,@n2"), ""),
        ((None, b"", b""), "missing-sender"),
        ((b"s", None, None), "bad-destination"),
        ((b"s", b"a,", None), "bad-destination"),
        ((b"s", b"123456789", None), "bad-destination"),
        ((b"s", b"a,b,c,d,e", None), "too-many-destinations"),
        ((b"s", b"a,b,c,d,@no", b"@n1,@n2,@n3"), "too-many-destinations"),
        ((b"s", b"@no", b"@n1,@n2,@n3"), "too-many-handles"),
        ((b"s", b"@no", None), "bad-destination"),
        ((b"s", b"a", b"n1"), "bad-destination"),
        ((b"s", b"a", b"@n1,"), "bad-destination"),
        ((b"s", b"@n2", b"@n1"), "destroyed-node"),
        ((b"s", b"@n2,@n1", None), ""),
    ],
)
def test_the_first_reason_counts(row, reason):
    found = messages((b"s", b"a", None), row)
    assert [module.REASONS[each] for each in found.reason] == ["", reason]


@pytest.mark.parametrize("pairs_max", [1, 3, 1000])
def test_copies_and_handles(monkeypatch, pairs_max):
    monkeypatch.setattr(module, "PAIRS_MAX", pairs_max)
    found = messages(
        (b"s", b"a,@n1,ann", b"@n1,@n2"),
        (None, b"a", None),
        (b"s", b"b,@n2", b"@n1"),
        (b"s", b"a,@n1,ann", b"@n1,@n2"),
    )
    peers = found.names.peers.to_pylist()
    copies = found.copies(np.array([name != b"b" for name in peers]))
    names = found.to.names.to_pylist()
    record, name = copies.of(0, 4)
    got = [(r, names[n]) for r, n in zip(record.tolist(), name.tolist(), strict=True)]
    assert got == [(r, n) for r in (0, 3) for n in (b"a", b"@n1", b"ann")]
    assert copies.counts.tolist() == [3, 0, 0, 3]
    held = {(peers[p], n) for some in copies.handles() for p, n in zip(*some, strict=True)}
    assert held == {(b"a", 1), (b"ann", 1)}
    record, name = found.undelivered(np.array([True, True, True, False]))
    assert [(r, names[n]) for r, n in zip(record, name, strict=True)] == [(2, b"@n2")]
    assert found.valid.texts().to_pylist() == [b"@n1", b"", b"@n1"]
    assert found.invalid.texts().to_pylist() == [b"@n2", b"", b""]


@pytest.mark.parametrize("seed", range(20))
def test_holders_are_a_set_of_pairs(seed):
    rng = random.Random(seed)
    holders, model, rows = Holders.of(np.zeros(0, np.int64)), set(), 8
    for _ in range(60):
        node, row = rng.randrange(4), rng.randrange(rows)
        kind = rng.randrange(4)
        if kind == 0:
            some = {(rng.randrange(4), rng.randrange(rows)) for _ in range(rng.randrange(1, 6))}
            both = np.array(sorted(some), np.int64).T
            holders.settle()
            holders.add(both[0], both[1])
            model |= some
        elif kind == 1:
            holders.release(node, row)
            model.discard((node, row))
        elif kind == 2:
            expected = sorted(r for n, r in model if n == node)
            assert holders.destroy(node).tolist() == expected
            model = {each for each in model if each[0] != node}
        elif rows > 2:
            holders.settle()
            holders.keep(np.arange(rows) != row)
            model = {(n, r - (r > row)) for n, r in model if r != row}
            rows -= 1
        holders.settle()
        found = set(zip(*(part.tolist() for part in holders.nodes_of()), strict=True))
        assert found == {(r, n) for n, r in model}


def test_peers_count_their_deliveries():
    peers = Peers.empty()
    rows = peers.rows_or_new(binary([b"a", b"b"]), 5)
    assert peers.number(rows[[0, 1, 0]], 6).tolist() == [0, 0, 1]
    again = peers.rows_or_new(binary([b"c", b"a"]), 7)
    assert peers.number(again, 8).tolist() == [0, 2]
    peers.keep(np.array([True, False, True]))
    assert peers.keys.to_pylist() == [b"a", b"c"]
    assert peers.rows(binary([b"b", b"c", b"a"])).tolist() == [-1, 1, 0]
    assert (peers.incarnation.tolist(), peers.last_ms.tolist()) == ([5, 7], [8, 8])

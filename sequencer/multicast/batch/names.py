"""What names stand for: a peer, or a node with an owner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sequencer.multicast.batch.lists import Bools, Int64s

PEER = -1


class Node(NamedTuple):
    """A node that is or was: its number, which no other has, and its owner's name."""

    number: int
    owner: bytes
    destroyed: bool


@dataclass(frozen=True, slots=True)
class Names:
    """Distinct names, and what they stand for in one batch; parallel arrays but for ``peers``.

    ``node``: the node's number, PEER where it is a peer's name. ``known``: whether somebody has the
    name; ``alive``: whether what is sent there is delivered. ``peer``: place in ``peers`` (distinct
    binary names) of who gets it.
    """

    node: Int64s
    known: Bools
    alive: Bools
    peer: Int64s
    peers: pa.Array


def resolve(names: pa.Array, find: Callable[[bytes], Node | None]) -> Names:
    """What distinct names (binary) stand for; `@n1` is the node n1, asked for with ``find``."""
    nodes = np.flatnonzero(pc.starts_with(names, "@").to_numpy(zero_copy_only=False))
    node = np.full(len(names), PEER, np.int64)
    known, alive = np.ones(len(names), np.bool_), np.ones(len(names), np.bool_)
    if not len(nodes):
        return Names(node, known, alive, np.arange(len(names)), names)
    owners: list[bytes | None] = []
    for at, name in zip(nodes.tolist(), names.take(pa.array(nodes)).to_pylist(), strict=True):
        named_node = find(name[1:])
        owners.append(None if named_node is None else named_node.owner)
        known[at] = named_node is not None
        alive[at] = named_node is not None and not named_node.destroyed
        if named_node is not None:
            node[at] = named_node.number
    mask = np.zeros(len(names), np.bool_)
    mask[nodes] = True
    replaced = pc.replace_with_mask(names, pa.array(mask), pa.array(owners, names.type))
    coded = pc.fill_null(replaced, b"").dictionary_encode()
    peer = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return Names(node, known, alive, peer, coded.dictionary)

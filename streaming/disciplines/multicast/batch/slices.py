"""Slices of deliveries in the order of the batch, as the sink wants them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sequencer.multicast.batch import Messages, Peers
from sequencer.slices import slices
from streaming.arrow.columns import Bools, Int64s
from streaming.disciplines.multicast.nodes import raw
from streaming.disciplines.multicast.records import copied, delivered, notices_sent

SLICE_MAX = 500_000
"""Deliveries that are made at a time."""


class End(NamedTuple):
    """A node's destruction: its place in the order, its command's time.

    ``rows``: the holders', with the ``sequence`` of the notice to each.
    """

    node: str
    owner: str
    stamp: int
    time_ms: int
    rows: Int64s
    sequence: Int64s


class Passed:
    """The headers `handles` and `handles-invalid` of deliveries."""

    def __init__(self, messages: Messages, has_handles: Bools) -> None:
        self.given = has_handles
        self.invalid = has_handles & (messages.invalid.sizes > 0)[messages.invalid.of]
        self.of = messages.handles.of
        none = pa.nulls(1, pa.binary())
        self.none = len(messages.handles.starts) - 1
        self.texts = pa.concat_arrays([messages.valid.texts(), none])
        self.invalid_texts = pa.concat_arrays([messages.invalid.texts(), none])

    def headers(self, record: Int64s) -> dict[str, Any]:
        """Of deliveries of these records; no column where no record has the header."""
        columns = {}
        if self.given[record].any():
            at = np.where(self.given[record], self.of[record], self.none)
            columns["handles"] = copied(self.texts, at)
        if self.invalid[record].any():
            at = np.where(self.invalid[record], self.of[record], self.none)
            columns["handles-invalid"] = copied(self.invalid_texts, at)
        return columns


def deliveries(
    messages: Messages, sent: pa.Table, record: Int64s, name: Int64s, added: dict[str, Any]
) -> pa.Table:
    """A slice of deliveries; what they share is there once."""
    present, which = _present(record, len(sent))
    names, destination = _present(name, len(messages.to.names))
    peers, peer = _present(messages.names.peer[name], len(messages.names.peers))
    return delivered(
        sent.take(pa.array(present)),
        which,
        (messages.names.peers.take(pa.array(peers)), peer),
        (messages.to.names.take(pa.array(names)), destination),
        added,
    )


def notices(ends: Sequence[End], peers: Peers) -> Iterator[pa.Table]:
    """Slices of records for each holder of a destroyed node."""
    counts = np.array([len(end.rows) for end in ends], np.int64)
    for first, stop in slices(counts, SLICE_MAX):
        part = ends[first:stop]
        rows = np.concatenate([end.rows for end in part])
        which = np.repeat(np.arange(len(part)), counts[first:stop])
        sent = notices_sent(
            [raw(end.owner) for end in part],
            [end.stamp for end in part],
            [end.time_ms for end in part],
        )
        present, peer = np.unique(rows, return_inverse=True)
        to = (peers.keys.take(pa.array(present)), peer)
        nodes = pa.array([end.node.encode() for end in part], pa.binary())
        added = {
            "notice": copied(nodes, which),
            "sequence": np.concatenate([end.sequence for end in part]),
            "incarnation": peers.incarnation[rows],
        }
        yield delivered(sent, which, to, to, added)


def _present(codes: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """The codes (below ``count``) that occur, ascending, and each code's place among them."""
    there = np.zeros(count, np.bool_)
    there[codes] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[codes]

"""Slices of deliveries in the order of the batch, as the sink wants them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.multicast.batch import Messages
from streaming.arrow.columns import Bools, Int64s
from streaming.disciplines.multicast.records import copied, delivered


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


def _present(codes: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """The codes (below ``count``) that occur, ascending, and each code's place among them."""
    there = np.zeros(count, np.bool_)
    there[codes] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[codes]

"""The messages of a batch: which are rejected and why, who gets the others, with which handles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sequencer.multicast.batch.lists import Bools, Int64s, Lists, read_lists
from sequencer.multicast.batch.names import PEER, Node, resolve
from sequencer.slices import slices

GOOD = 0
REASONS = (
    "",
    "missing-sender",
    "bad-destination",
    "too-many-destinations",
    "too-many-handles",
    "bad-destination",
    "destroyed-node",
)
"""Why a record is rejected, the first that fits: nobody sent it; a name is empty or too long; too
many names; a node is none; no destination is left."""

PAIRS_MAX = 2_000_000
"""New handles that are worked out at a time."""


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """Of one message, and of a name."""

    destinations: int
    handles: int
    name_bytes: int


class Messages:
    """The records of a batch as messages.

    ``reason`` (records): place in REASONS. ``to`` and ``handles``: the lists of all records;
    ``names`` and ``passed``: what they stand for. ``valid`` and ``invalid``: the lists of handles,
    divided.
    """

    def __init__(
        self,
        senders: pa.Array,
        to: pa.Array,
        handles: pa.Array,
        find: Callable[[bytes], Node | None],
        limits: MessageLimits,
    ) -> None:
        self.to, self.handles = read_lists(to), read_lists(handles, empty_is_none=True)
        self.names = resolve(self.to.names, find)
        self.passed = resolve(self.handles.names, find)
        self.reason = self._reasons(senders, limits)
        alive = self.passed.alive[self.handles.name]
        self.valid, self.invalid = self.handles.only(alive), self.handles.only(~alive)

    def _reasons(self, senders: pa.Array, limits: MessageLimits) -> Int64s:
        size = pc.binary_length(self.to.names).to_numpy(zero_copy_only=False)
        unnameable = (size == 0) | (size > limits.name_bytes)
        nodes = self.passed.known & (self.passed.node != PEER)
        to, handles = self.to.of, self.handles.of
        unknown = (self.to.counts(~self.names.known) > 0)[to]
        unknown |= (self.handles.counts(~nodes) > 0)[handles]
        faults = [
            senders.is_null().to_numpy(zero_copy_only=False),
            (self.to.counts(unnameable) > 0)[to],
            (self.to.sizes > limits.destinations)[to],
            (self.handles.sizes > limits.handles)[handles],
            unknown,
            (self.to.counts(self.names.alive) == 0)[to],
        ]
        return np.asarray(np.select(faults, range(1, len(faults) + 1), GOOD).astype(np.int64))

    @property
    def good(self) -> Bools:
        """Which records are messages."""
        return np.asarray(self.reason == GOOD)

    def copies(self, wanted: Bools) -> Copies:
        """The deliveries to some peers (a mask over `names.peers`)."""
        return Copies(
            self, self.to.only((self.names.alive & wanted[self.names.peer])[self.to.name])
        )

    def undelivered(self, which: Bools) -> tuple[Int64s, Int64s]:
        """Destinations of messages (a mask over records) that are destroyed: records and names."""
        dead = self.to.only((self.names.known & ~self.names.alive)[self.to.name])
        counts = np.where(which & self.good, dead.sizes[dead.of], 0)
        record, at = _entries(dead, counts, 0, len(counts))
        return record, dead.name[at]


class Copies:
    """The deliveries to the peers of one shard; ``counts`` (records) of each message."""

    def __init__(self, messages: Messages, to: Lists) -> None:
        self.messages = messages
        self.to = to
        self.counts = np.where(messages.good, to.sizes[to.of], 0)

    def names(self) -> Bools:
        """Which names (a mask over `Messages.to.names`) get any."""
        lists = np.zeros(len(self.to.starts) - 1, np.bool_)
        lists[self.to.of[self.counts > 0]] = True
        named = np.zeros(len(self.to.names), np.bool_)
        named[self.to.name[lists[self.to.list_of_name()]]] = True
        return named

    def of(self, first: int, stop: int) -> tuple[Int64s, Int64s]:
        """Those of records from ``first`` to ``stop``, in order: the record and the name of each.

        The name is a place in `Messages.to.names`.
        """
        record, at = _entries(self.to, self.counts, first, stop)
        return record, self.to.name[at]

    def handles(self) -> Iterator[tuple[Int64s, Int64s]]:
        """Who gets a valid handle: places in `Messages.names.peers`, and numbers of nodes."""
        valid, messages = self.messages.valid, self.messages
        which = np.flatnonzero((self.counts > 0) & (valid.sizes[valid.of] > 0))
        width = max(len(valid.starts), 1)
        # The same destinations with the same handles bring nothing new.
        to, passed = np.divmod(np.unique(self.to.of[which] * width + valid.of[which]), width)
        counts = self.to.sizes[to] * valid.sizes[passed]
        for first, stop in slices(counts, PAIRS_MAX):
            pair, inside = _expanded(counts[first:stop])
            one, other = np.divmod(inside, valid.sizes[passed[first:stop]][pair])
            name = self.to.name[self.to.starts[to[first:stop]][pair] + one]
            handle = valid.name[valid.starts[passed[first:stop]][pair] + other]
            yield messages.names.peer[name], messages.passed.node[handle]


def _entries(lists: Lists, counts: Int64s, first: int, stop: int) -> tuple[Int64s, Int64s]:
    """The records of a stretch, each as often as its count, and the places of its names."""
    records, inside = _expanded(counts[first:stop])
    return records + first, lists.starts[lists.of[first:stop]][records] + inside


def _expanded(counts: Int64s) -> tuple[Int64s, Int64s]:
    """Each place as often as its count, and 0, 1, 2 … within each."""
    index = np.repeat(np.arange(len(counts)), counts)
    begin = np.cumsum(counts) - counts
    return index, np.arange(len(index)) - begin[index]

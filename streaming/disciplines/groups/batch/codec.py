"""A shard of groups as bytes: the directory, what it has counted, its subscribers.

The directory is encoded anew only where a command changed it. It has what differs from the plan's
first membership says: so the state of groups that never change is small however many they are.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.groups.batch.directory import Directory, First, Group, Removed
from sequencer.groups.batch.overlaps import Overlaps
from sequencer.groups.batch.subscribers import Subscribers
from sequencer.ragged import Ints
from streaming.arrow.ipc import from_state, to_state

_HEAD = struct.Struct(">III")
_MEMBERS = [("name", pa.string()), ("count", pa.int32())]
_GROUP = pa.struct(
    [*_MEMBERS, ("version", pa.int64()), ("start", pa.int64()), ("first", pa.bool_())]
)
_REMOVED = pa.struct(
    [("name", pa.string()), *((each, pa.int64()) for each in ("at_ms", "version", "count"))]
)
_OVERLAP = pa.struct([("one", pa.int32()), ("other", pa.int32()), ("begun", pa.int64())])
_NAMES = pa.list_(pa.string())
_STEPS = pa.list_(pa.int32())
"""Members of one group after the other, each as its distance from the one before."""

FIRST = pa.schema([("subscribers", _NAMES), ("groups", pa.list_(pa.struct(_MEMBERS)))])
FIRST = FIRST.append(pa.field("members", _STEPS))
DIRECTORY = pa.schema(
    [
        ("subscribers", _NAMES),
        ("groups", pa.list_(_GROUP)),
        ("members", _STEPS),
        ("removed", pa.list_(_REMOVED)),
        ("floors", pa.list_(pa.int64())),
        ("overlaps", pa.list_(_OVERLAP)),
    ]
)
COUNTS = pa.schema([("count", pa.int64())])
_NUMBERS = ("sequence", "incarnation", "last_ms")
SUBSCRIBERS = pa.schema([(name, pa.int64()) for name in _NUMBERS])


def encode_first(groups: Mapping[str, Collection[str]]) -> bytes:
    """A first membership for the plan, which goes to every task of every batch."""
    subscribers = sorted({member for members in groups.values() for member in members})
    places = {name: at for at, name in enumerate(subscribers)}
    members = [
        np.array(sorted(places[joined] for joined in set(groups[name]))) for name in sorted(groups)
    ]
    rows = [
        {"name": name, "count": len(members_of)}
        for name, members_of in zip(sorted(groups), members, strict=True)
    ]
    return _encoded(FIRST, [subscribers, rows, _steps(members)])


@lru_cache(maxsize=4)
def decode_first(data: bytes) -> First:
    """Return the inverse of :func:`encode_first`; nobody changes what it gives."""
    subscribers, groups, steps = _decoded(data, FIRST)
    rows = groups.to_pylist()
    members = _members(steps, [row["count"] for row in rows])
    return First(subscribers.to_pylist(), [row["name"] for row in rows], members)


def encode_directory(directory: Directory, first: First) -> bytes:
    """The directory without what is counted."""
    groups = directory.groups.items()
    rows = [
        {
            "name": name,
            "count": 0 if group.first else len(group.members),
            "version": int(directory.version[group.number]),
            "start": int(directory.start[group.number]),
            "first": group.first,
        }
        for name, group in groups
    ]
    gone = [
        {"name": name, "at_ms": removal.at_ms, "version": removal.version, "count": removal.count}
        for name, removal in directory.removed.items()
    ]
    new = directory.subscribers[len(first.subscribers) :]
    steps = _steps([group.members for _, group in groups if not group.first])
    floors = [directory.versions_floor, directory.counts_floor]
    places = {number: index for index, number in enumerate(directory.numbers().tolist())}
    overlaps = [
        {"one": one, "other": other, "begun": begun}
        for (one, other), begun in directory.overlaps.renumbered(places).rows()
    ]
    return _encoded(DIRECTORY, [new, rows, steps, gone, floors, overlaps])


def decode_directory(data: bytes, first: First, remember_ms: int) -> Directory:
    """Return the inverse of :func:`encode_directory`."""
    new, groups, steps, gone, floors, overlaps = _decoded(data, DIRECTORY)
    rows = groups.to_pylist()
    there = dict(zip(first.groups, first.members, strict=True))
    changed = iter(_members(steps, [row["count"] for row in rows if not row["first"]]))
    one, other, begun = (field.to_pylist() for field in overlaps.flatten())
    directory_groups = {}
    for number, row in enumerate(rows):
        members = there[row["name"]] if row["first"] else next(changed)
        directory_groups[row["name"]] = Group(number, members, row["first"])
    return Directory(
        remember_ms,
        groups=directory_groups,
        removed={removal.pop("name"): Removed(**removal) for removal in gone.to_pylist()},
        subscribers=[*first.subscribers, *new.to_pylist()],
        names=list(directory_groups),
        version=np.array([row["version"] for row in rows], np.int64),
        count=np.zeros(len(rows), np.int64),
        start=np.array([row["start"] for row in rows], np.int64),
        overlaps=Overlaps(dict(zip(zip(one, other, strict=True), begun, strict=True))),
        versions_floor=floors[0].as_py(),
        counts_floor=floors[1].as_py(),
    )


def encode(data: bytes, directory: Directory, subscribers: Subscribers) -> bytes:
    """A shard's state; ``data`` is the encoded directory, empty for the first membership."""
    counts = _batch(COUNTS, [directory.count[directory.numbers()]])
    own = np.flatnonzero(subscribers.mine)
    mine_counted = _batch(SUBSCRIBERS, [getattr(subscribers, name)[own] for name in _NUMBERS])
    parts = (data, to_state(counts), to_state(mine_counted))
    head = _HEAD.pack(*map(len, parts))
    return b"".join((head, *parts))


def parts(state: bytes) -> tuple[bytes, bytes, bytes]:
    """The encoded directory, counts and subscribers of a state."""
    lengths = _HEAD.unpack_from(state)
    ends = np.cumsum([_HEAD.size, *lengths]).tolist()
    first, second, third = (state[a:b] for a, b in pairwise(ends))
    return first, second, third


def load_counts(directory: Directory, data: bytes) -> None:
    """Put the counts of messages into a directory."""
    directory.count[directory.numbers()] = from_state(data, COUNTS).column(0).to_numpy()


def load_subscribers(subscribers: Subscribers, data: bytes) -> None:
    """Put what is counted of subscribers into fresh ones."""
    own = np.flatnonzero(subscribers.mine)
    for name, column in zip(_NUMBERS, from_state(data, SUBSCRIBERS).columns, strict=True):
        getattr(subscribers, name)[own] = column.to_numpy()


def _batch(schema: pa.Schema, columns: Sequence[Ints]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=schema)


def _encoded(schema: pa.Schema, lists: Sequence[Any]) -> bytes:
    """One row of lists."""
    columns = []
    for field, values in zip(schema, lists, strict=True):
        flat = pa.array(values, field.type.value_type)
        bounds = pa.array([0, len(flat)], pa.int32())
        columns.append(pa.ListArray.from_arrays(bounds, flat, type=field.type))
    return to_state(pa.RecordBatch.from_arrays(columns, schema=schema))


def _decoded(data: bytes, schema: pa.Schema) -> list[pa.Array]:
    return [column.flatten() for column in from_state(data, schema).columns]


def _steps(members: Sequence[Ints]) -> Ints:
    every = np.concatenate([np.empty(0, np.int64), *members])
    return np.diff(every, prepend=0).astype(np.int32)


def _members(steps: pa.Array, counts: Sequence[int]) -> list[Ints]:
    every = np.cumsum(steps.to_numpy(), dtype=np.int64)
    return np.split(every, np.cumsum(counts)[:-1]) if counts else []

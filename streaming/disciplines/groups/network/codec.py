"""Messages of groups on their way between shards, and a shard's state, as bytes."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.groups.network.hops import Hops
from sequencer.groups.network.shard import GroupShard
from sequencer.ragged import Ragged
from streaming.arrow.columns import flat
from streaming.arrow.ipc import from_ipc, to_ipc
from streaming.arrow.payload import ROW_BYTES, cuts, fits, own, row_sizes
from streaming.arrow.schemas import PAYLOAD
from streaming.disciplines.shards import Count

STAMP_BYTES = 16
_LENGTH = struct.Struct(">I")


def chunks(hops: Hops, rows: pa.Table) -> list[bytes]:
    """The messages with what they carry, cut where a chunk grows too large."""
    whole = to_ipc(_table(hops, rows))
    if fits(whole):
        return [whole]
    stretches = cuts(_sizes(hops, rows).tolist())
    return [to_ipc(_table(hops.take(np.arange(a, b)), rows)) for a, b in stretches]


def unchunk(arrived: Sequence[tuple[int, bytes]]) -> tuple[Hops, pa.Table]:
    """Messages of all chunks in order, and a table of what they carry (rows 0, 1, …)."""
    parts = [from_ipc(chunk) for _, chunk in arrived]
    if not parts:
        return Hops.empty(), PAYLOAD.empty_table()
    table = pa.concat_tables(parts, promote_options="default").combine_chunks()
    hops = _hops(table)
    rows = own(table.filter(pa.array(~hops.last)))
    numbered = np.where(hops.last, -1, np.cumsum(~hops.last) - 1)
    return hops.with_rows(numbered), rows


def dump(
    net: GroupShard,
    directory: bytes,
    records: pa.Table,
    known: Mapping[str, Count],
    more: Mapping[str, Sequence[Any]],
) -> bytes:
    """A shard's state between steps; ``directory`` is encoded already, ``more`` fit for JSON."""
    arrays = net.arrays()
    names = sorted(known)
    counts = [known[name] for name in names]
    numbers = [(count.sequence, count.incarnation, count.last_ms) for count in counts]
    held = net.receivers.held
    blob = to_ipc(_table(held, records)) if len(held) else b""
    meta = {
        "arrays": [[name, len(values)] for name, values in arrays.items()],
        "known": names,
        "directory": len(directory),
        **more,
    }
    head = json.dumps(meta, ensure_ascii=False, separators=(",", ":")).encode()
    integers = np.concatenate(
        [
            *(array.astype(np.int64) for array in arrays.values()),
            np.array(numbers, np.int64).ravel(),
        ]
    )
    size = _LENGTH.pack(len(head)) + _LENGTH.pack(len(integers))
    return b"".join((size, head, integers.tobytes(), directory, blob))


def load(
    net: GroupShard, state: bytes
) -> tuple[bytes, pa.Table, dict[str, Count], Mapping[str, Any]]:
    """Put a shard into the state; the encoded directory, held records, subscribers, and more."""
    head_size, count = (_LENGTH.unpack_from(state, at)[0] for at in (0, 4))
    meta = json.loads(state[8 : 8 + head_size])
    at = 8 + head_size
    integers = np.frombuffer(state, np.int64, count, at)
    at += 8 * count
    directory = state[at : at + meta["directory"]]
    held_blob = state[at + meta["directory"] :]
    arrays: dict[str, NDArray[np.int64]] = {}
    index = 0
    for name, length in meta["arrays"]:
        arrays[name] = integers[index : index + length].copy()
        index += length
    counts = [Count(*numbers) for numbers in integers[index:].reshape(-1, 3).tolist()]
    held, records = Hops.empty(), PAYLOAD.empty_table()
    if held_blob:
        table = from_ipc(held_blob).combine_chunks()
        held = _hops(table)
        records = own(table.filter(pa.array(~held.last)))
        held = held.with_rows(np.where(held.last, -1, np.cumsum(~held.last) - 1))
    net.load(zlib.decompress(directory).decode(), arrays, held)
    known = dict(zip(meta["known"], counts, strict=True))
    return directory, records, known, meta


def _table(hops: Hops, rows: pa.Table) -> pa.Table:
    """Messages and what they carry side by side; a last message carries nothing."""
    carried = rows.take(pa.array(hops.row, mask=hops.last))
    columns = {
        "last": pa.array(hops.last),
        "line": pa.array(hops.line),
        "number": pa.array(hops.number),
        "position": pa.array(hops.position),
        "atom": _lists(hops.atom),
        "stamp": _lists(hops.stamp),
    }
    return pa.table({**columns, **{name: carried[name] for name in rows.column_names}})


def _hops(table: pa.Table) -> Hops:
    """The messages of a table; rows are 0, 1, …, or -1."""
    last = flat(table["last"]).to_numpy(zero_copy_only=False)
    line, number, position = (
        flat(table[name]).to_numpy() for name in ("line", "number", "position")
    )
    row = np.where(last, -1, np.arange(len(last)))
    atom, stamp = (_ragged(flat(table[name])) for name in ("atom", "stamp"))
    return Hops(row, line, number, position, atom, stamp)


def _lists(ragged: Ragged) -> pa.Array:
    return pa.ListArray.from_arrays(
        pa.array(ragged.bounds.astype(np.int32)), pa.array(ragged.values)
    )


def _ragged(lists: pa.Array) -> Ragged:
    bounds = lists.offsets.to_numpy().astype(np.int64)
    values = lists.values.to_numpy()[bounds[0] : bounds[-1]]
    return Ragged(bounds - bounds[0], values)


def _sizes(hops: Hops, rows: pa.Table) -> NDArray[np.int64]:
    """About how many bytes each message takes in a chunk."""
    sizes = np.full(len(hops), ROW_BYTES, np.int64)
    sizes[~hops.last] = row_sizes(rows)[hops.row[~hops.last]]
    return sizes + STAMP_BYTES * hops.atom.lengths

"""Records of discipline `multicast`: what the headers `to` and `handles` say, what goes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.multicast import Delivery, Destination, Message, Notice
from streaming.arrow import output
from streaming.arrow.columns import Int64s, flat, last_headers
from streaming.arrow.schemas import HEADERS
from streaming.disciplines.multicast.nodes import Nodes, bare, latin, raw

MISSING_SENDER = "missing-sender"
BAD_DESTINATION = "bad-destination"
TOO_MANY_DESTINATIONS = "too-many-destinations"
TOO_MANY_HANDLES = "too-many-handles"
DESTINATIONS_MAX = 10_000
HANDLES_MAX = 1_000
PEER_BYTES_MAX = 10_000
"""The most bytes of a peer's name: a delivery has it twice more than the input."""


class Reader:
    """Makes messages of records; destinations are made once.

    ``since``: by the number of a node that was created while messages waited, the number of the
    first message that can name it.
    """

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.peers: dict[str, Destination] = {}
        self.since: dict[int, int] = {}

    def read(
        self, rows: pa.Table, numbers: Sequence[int], now_ms: int
    ) -> tuple[list[Message], dict[int, str]]:
        """Return the records' messages, with these numbers; for the others, a reason by row."""
        headers = flat(rows["headers"])
        (to, _), (handles, _) = last_headers(headers, ["to", "handles"])
        passed = handles.to_pylist() if handles.null_count < len(handles) else [None] * len(to)
        messages: list[Message] = []
        bad: dict[int, str] = {}
        fields = zip(numbers, flat(rows["key"]).to_pylist(), to.to_pylist(), passed, strict=True)
        for at, (number, sender, names, carried) in enumerate(fields):
            message = self._message(number, sender, names, carried, now_ms)
            if isinstance(message, str):
                bad[at] = message
            else:
                messages.append(message)
        return messages, bad

    def _message(
        self,
        number: int,
        sender: bytes | None,
        to: bytes | None,
        handles: bytes | None,
        now_ms: int,
    ) -> Message | str:
        """Return a message, or the reason for its rejection."""
        if sender is None:
            return MISSING_SENDER
        names = dict.fromkeys(latin(to or b"").split(","))
        if "" in names or max(map(len, names)) > PEER_BYTES_MAX:
            return BAD_DESTINATION
        if len(names) > DESTINATIONS_MAX:
            return TOO_MANY_DESTINATIONS
        destinations = [self._destination(name, number, now_ms) for name in names]
        passed = dict.fromkeys(latin(handles).split(",")) if handles else {}
        if len(passed) > HANDLES_MAX:
            return TOO_MANY_HANDLES
        lives = [self._life(name, number, now_ms) for name in passed]
        if None in destinations or None in lives:
            return BAD_DESTINATION
        ids = tuple(life.id for life in lives)
        owners = tuple(life.owner for life in lives)
        return Message(number, latin(sender), tuple(destinations), ids, owners)  # type: ignore[arg-type]

    def _destination(self, name: str, number: int, now_ms: int) -> Destination | None:
        if name[0] == "@":
            life = self._life(name, number, now_ms)
            return None if life is None else Destination(life.owner, life.id)
        known = self.peers.get(name)
        if known is None:
            if len(self.peers) >= KEPT_MAX:
                self.peers.clear()
            known = self.peers[name] = Destination(name)
        return known

    def _life(self, name: str, number: int, now_ms: int) -> Any:
        life = self.nodes.find(name[1:], now_ms) if name[:1] == "@" else None
        if life is not None and self.since and number < self.since.get(life.number, 0):
            return None
        return life


KEPT_MAX = 100_000


def written(destination: Destination) -> bytes:
    """Return a destination in the form that senders write."""
    return raw(destination.peer) if destination.node is None else b"@" + raw(bare(destination.node))


SENT = ("key", "value", "headers", "timestamp", "stamp")


def copied(column: Any, which: Int64s) -> pa.DictionaryArray:
    """Return ``which`` rows of a column as a dictionary, which goes to the sink once."""
    return pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), flat(column))


def delivered(
    sent: pa.Table,
    which: Int64s,
    to: tuple[pa.Array, Int64s],
    destinations: tuple[pa.Array, Int64s],
    added: Mapping[str, Any],
) -> pa.Table:
    """Return one record for each delivery, for the sink.

    ``sent`` are the messages (SENT: the sender, `stamp` its timestamp); ``which``: the message of
    each delivery. ``to`` and ``destinations``: names (binary), and an index into them for each
    delivery: the peer, and the destination that it is addressed as. ``added``: columns of further
    headers, in order. A column `origin` of ``sent`` is the last one.
    """
    origin = {"origin": copied(sent["origin"], which)} if "origin" in sent.column_names else {}
    return pa.table(
        {
            "key": copied(*to),
            **{name: copied(sent[name], which) for name in ("value", "headers", "timestamp")},
            "from": copied(sent["key"], which),
            "destination": copied(*destinations),
            "header:timestamp": copied(sent["stamp"], which),
            **added,
            **origin,
        }
    )


def notices_sent(
    owners: Sequence[bytes], stamps: Sequence[int], times_ms: Sequence[int]
) -> pa.Table:
    """Return destructions as messages (SENT) of the nodes' owners, without a value."""
    return pa.table(
        {
            "key": pa.array(owners, pa.binary()),
            "value": pa.nulls(len(owners), pa.binary()),
            "headers": pa.nulls(len(owners), HEADERS),
            "timestamp": pa.array(times_ms, pa.int64()),
            "stamp": pa.array(stamps, pa.int64()),
        }
    )


def deliveries(
    got: Sequence[tuple[str, Delivery | Notice]],
    rows: pa.Table,
    index: Mapping[int, int],
    counts: tuple[NDArray[np.int64], NDArray[np.int64]],
    inputs: Sequence[str] = (),
) -> pa.Table:
    """Return one record for each delivery and notice, for the sink.

    ``rows`` are the messages, and the commands of destructions, under the numbers in ``index``.
    ``counts``: `sequence` and `incarnation`. ``inputs``: topics, if deliveries name their record.
    """
    peers: dict[str, int] = {}
    places: dict[tuple[str, str | None], int] = {}
    messages: dict[int, Delivery | Notice] = {}
    for _, delivery in got:
        messages.setdefault(delivery.message, delivery)  # type: ignore[arg-type]
    order = {number: at for at, number in enumerate(messages)}
    who = [peers.setdefault(peer, len(peers)) for peer, _ in got]
    where = [places.setdefault((peer, _as(delivery)), len(places)) for peer, delivery in got]
    what = np.array([order[delivery.message] for _, delivery in got], np.int64)  # type: ignore[index]
    sent = rows.take(pa.array([index[number] for number in messages], pa.int64()))
    sent = output.with_origin(sent, sent, inputs).combine_chunks()
    sent = _sent(sent, list(messages.values()))
    added: dict[str, Any] = {}
    ((_, has_handles),) = last_headers(flat(sent["headers"]), ["handles"])
    if has_handles.any():
        added |= _handles(got, has_handles[what].tolist())
    notices = [raw(bare(o.node)) if isinstance(o, Notice) else None for o in messages.values()]
    if any(notices):
        added["notice"] = copied(pa.array(notices, pa.binary()), what)
    added |= {"sequence": counts[0], "incarnation": counts[1]}
    names = pa.array([raw(peer) for peer in peers], pa.binary())
    to = pa.array([written(Destination(*place)) for place in places], pa.binary())
    return delivered(sent, what, (names, np.array(who)), (to, np.array(where)), added)


def _as(delivery: Delivery | Notice) -> str | None:
    """Return the node that a delivery is for; None if it is for the peer itself."""
    return delivery.node if isinstance(delivery, Delivery) else None


def _sent(rows: pa.Table, messages: Sequence[Delivery | Notice]) -> pa.Table:
    """Return the records; a destruction's command becomes the owner's message (SENT)."""
    stamps = [message.stamp.timestamp for message in messages]
    named = [name for name in ("origin",) if name in rows.column_names]
    sent = rows.append_column("stamp", pa.array(stamps, pa.int64())).select([*SENT, *named])
    ends = [at for at, queued in enumerate(messages) if isinstance(queued, Notice)]
    if not ends:
        return sent
    owners = [raw(messages[at].stamp.sender) for at in ends]
    times = rows["timestamp"].take(pa.array(ends)).to_pylist()
    notices = notices_sent(owners, [stamps[at] for at in ends], times)
    place = np.arange(len(sent))
    place[ends] = len(sent) + np.arange(len(ends))
    joined = pa.concat_tables([sent, notices], promote_options="default")
    return joined.take(pa.array(place)).combine_chunks()


def _handles(
    got: Sequence[tuple[str, Delivery | Notice]], has_handles: Sequence[bool]
) -> dict[str, pa.Array]:
    """Return the handles that are valid at each delivery, and the others."""
    valid: list[bytes | None] = []
    invalid: list[bytes | None] = []
    for (_, delivery), there in zip(got, has_handles, strict=True):
        passed = isinstance(delivery, Delivery)
        valid.append(_list(delivery.handles) if passed and there else None)  # type: ignore[union-attr]
        invalid.append(_list(delivery.handles_invalid) or None if passed else None)  # type: ignore[union-attr]
    columns = {"handles": pa.array(valid, pa.binary())}
    if any(invalid):
        columns["handles-invalid"] = pa.array(invalid, pa.binary())
    return columns


def _list(nodes: Sequence[str]) -> bytes:
    return b",".join(b"@" + raw(bare(node)) for node in nodes)

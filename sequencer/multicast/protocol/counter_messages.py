"""The steps of kdbus' protocol as requests to the counter and to peers, and their replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sequencer.multicast.protocol.words import Parcel, Reply, Request

if TYPE_CHECKING:
    from sequencer.multicast.protocol.words import Stamp

COUNTER = ""
"""Stands for the counter where a request or reply names a peer; no peer has an empty name."""


@dataclass(frozen=True, slots=True)
class Read(Request):
    """To the counter: tell the value. These nodes must be known; `destroys` begins to die."""

    nodes: tuple[str, ...]
    destroys: str | None


@dataclass(frozen=True, slots=True)
class CopyIn(Request):
    """To a destination: put a copy in, not committed."""

    seq_lower: int
    parcels: tuple[Parcel, ...]


@dataclass(frozen=True, slots=True)
class Increment(Request):
    """To the counter: all copies are in; increment it and assign the value.

    `nodes` are the destination nodes, `plain` says whether there is a destination besides them.
    `receivers` have copies: for a message, they become holders of the `handles` that are alive;
    for the destruction of `destroys`, every holder must be among them.
    """

    nodes: tuple[str, ...]
    plain: bool
    handles: tuple[str, ...]
    receivers: tuple[str, ...]
    destroys: str | None


@dataclass(frozen=True, slots=True)
class Commit(Request):
    """To a destination: the copy's number, and what is to be given out; nothing removes it."""

    stamp: Stamp
    parcels: tuple[Parcel, ...]
    dead: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drop(Request):
    """To a destination: remove the copy; the message was refused."""


@dataclass(frozen=True, slots=True)
class Value(Reply):
    """To `Read`: the counter; for a destruction, the holders so far."""

    value: int
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assigned(Reply):
    """To `Increment`: the number, destination nodes and handles that were destroyed before it.

    No stamp: either `missing` holders of a node to be destroyed have no copy yet (copy there and
    ask again), or no destination is left. The counter was not incremented.
    """

    stamp: Stamp | None
    gone: tuple[str, ...]
    dead: tuple[str, ...]
    missing: tuple[str, ...]

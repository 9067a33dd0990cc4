"""The steps of bus1's protocol as requests to a peer, and what it replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sequencer.multicast.protocol.words import Parcel, Reply, Request

if TYPE_CHECKING:
    from sequencer.multicast.protocol.words import Stamp


@dataclass(frozen=True, slots=True)
class Probe(Request):
    """To the sender: tell the clock, as an estimate of the timestamp to come."""


@dataclass(frozen=True, slots=True)
class Block(Request):
    """To a destination: announce a message with this estimate, these nodes and handles."""

    estimate: int
    parcels: tuple[Parcel, ...]


@dataclass(frozen=True, slots=True)
class Register(Request):
    """To the owner of a passed node: `holders` may get a handle to it."""

    node: str
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Begin(Request):
    """To the owner, which is the sender: start to destroy `node`."""

    node: str


@dataclass(frozen=True, slots=True)
class Tick(Request):
    """To the sender: sync to `maximum` and tick; the node that dies at this stamp, if any."""

    maximum: int
    destroys: str | None


@dataclass(frozen=True, slots=True)
class Sync(Request):
    """To a destination, or to the sender: sync the clock to the message's stamp.

    The reply says which of `nodes` were destroyed before that stamp, once and for all.
    """

    stamp: Stamp
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Enqueue(Request):
    """To a destination: queue these parcels and remove the block.

    `dead` are those of the handles that were destroyed when the message registered them.
    """

    stamp: Stamp
    parcels: tuple[Parcel, ...]
    dead: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cancel(Request):
    """To a destination: remove the block; nothing of the message comes here.

    `registered` are those of the handles that its owner knows of.
    """

    handles: tuple[str, ...]
    registered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arrive(Request):
    """To the only destination: stamp and queue at once (a unicast, without a block)."""

    estimate: int
    parcels: tuple[Parcel, ...]
    destroys: str | None


@dataclass(frozen=True, slots=True)
class Clock(Reply):
    """To `Probe` and `Block`: the clock; `gone`: nodes that are destroyed already."""

    clock: int
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Registered(Reply):
    """To `Register`: noted, or dead since the stamp. Sent late if the stamp was not known yet."""

    node: str
    destroyed: Stamp | None


@dataclass(frozen=True, slots=True)
class Begun(Reply):
    """Answers `Begin` with the peers to notify, besides the owner."""

    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stamped(Reply):
    """To `Tick` and `Arrive`: the message's stamp; None if no node was left to arrive at."""

    stamp: Stamp | None
    gone: tuple[str, ...] = ()

"""The words that peers exchange in bus1's protocol: requests to a peer, and its replies.

A transaction lives with its sender and asks; a peer answers for its queue, its nodes and its
handles. All are plain values: whether a request is carried out by a call in the same process or
travels between shards as a record makes no difference to the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sequencer.clock_queue import Stamp


class TransactionId(NamedTuple):
    """Names one transaction: the sender and the number of the transaction there, from 0."""

    sender: str
    serial: int


class Refusal(StrEnum):
    """Why a message was refused as a whole; nobody got it."""

    BAD_DESTINATION = "bad-destination"  # a destination, or a handle, names no node that ever was
    DESTROYED_NODE = "destroyed-node"  # no destination is left
    NO_ROOM = "no-room"  # a queue, a node or a handle table is at its limit


@dataclass(frozen=True, slots=True)
class Destination:
    """A peer, or a node that `peer` owns."""

    peer: str
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """What a sender hands in. Destinations or handles named twice count once."""

    id: Hashable
    sender: str
    destinations: tuple[Destination, ...]
    handles: tuple[str, ...] = ()
    handle_owners: tuple[str, ...] = ()
    payload: Hashable = None

    def __post_init__(self) -> None:
        if not self.destinations:
            raise ValueError(f"message {self.id!r} has no destination")
        if len(self.handles) != len(self.handle_owners):
            raise ValueError(f"message {self.id!r} must give one owner for each handle")
        owners = dict(zip(self.handles, self.handle_owners, strict=True))
        object.__setattr__(self, "destinations", tuple(dict.fromkeys(self.destinations)))
        object.__setattr__(self, "handles", tuple(owners))
        object.__setattr__(self, "handle_owners", tuple(owners.values()))


@dataclass(frozen=True, slots=True)
class Destruction:
    """An owner's wish to destroy its node; the notice of it is a message with this id."""

    id: Hashable
    sender: str
    node: str


@dataclass(frozen=True, slots=True)
class Parcel:
    """One delivery of a message, as it lies in a queue. `dead`: handles destroyed before it."""

    message: Hashable
    node: str | None
    handles: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    payload: Hashable = None


@dataclass(frozen=True, slots=True)
class NoticeParcel:
    """The notice of a destruction, as it lies in a queue."""

    message: Hashable
    node: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that a peer dequeued, for itself or for its `node`."""

    message: Hashable
    stamp: Stamp
    node: str | None
    handles: tuple[str, ...]
    handles_invalid: tuple[str, ...]
    payload: Hashable


@dataclass(frozen=True, slots=True)
class Notice:
    """A destruction that a peer dequeued. Not `known`: it never had the handle; to be dropped."""

    message: Hashable
    stamp: Stamp
    node: str
    known: bool


@dataclass(frozen=True, slots=True)
class Request:
    """A step for `peer` to carry out; the reply goes to the sender of the transaction."""

    transaction: TransactionId
    peer: str


@dataclass(frozen=True, slots=True)
class Probe(Request):
    """To the sender: tell the clock, as an estimate of the timestamp to come."""


@dataclass(frozen=True, slots=True)
class Block(Request):
    """To a destination: announce a message with this estimate, these nodes and handles."""

    estimate: int
    parcels: tuple[Parcel | NoticeParcel, ...]


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
    """To a destination: queue these parcels and remove the block."""

    stamp: Stamp
    parcels: tuple[Parcel | NoticeParcel, ...]
    announced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cancel(Request):
    """To a destination: remove the block; nothing of the message comes here."""

    announced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arrive(Request):
    """To the only destination: stamp and queue at once (a unicast, without a block)."""

    estimate: int
    parcels: tuple[Parcel | NoticeParcel, ...]
    destroys: str | None


@dataclass(frozen=True, slots=True)
class Reply:
    """What `peer` answers to a request of `transaction`."""

    transaction: TransactionId
    peer: str


@dataclass(frozen=True, slots=True)
class Told(Reply):
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
    """To `Begin`: who is to be notified besides the owner."""

    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stamped(Reply):
    """To `Tick` and `Arrive`: the message's stamp; None if no node was left to arrive at."""

    stamp: Stamp | None
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Done(Reply):
    """To `Sync`, `Enqueue` and `Cancel`; `gone`: nodes destroyed before the stamp synced to."""

    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused(Reply):
    """To `Block`, `Register`, `Begin` and `Arrive`: not done, nothing was changed here."""

    reason: Refusal
    detail: str
    node: str | None = None

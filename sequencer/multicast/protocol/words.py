"""The words of multicast: what is sent, what lies in a queue, what is delivered, who asks whom.

A *node* is an addressable object of a peer here (in `overlaps` it hosts atoms). A transaction lives
with its sender and asks peers for steps; a peer answers. All are plain
values: whether a request is carried out by a call in the same process or travels between shards
as a record makes no difference to the protocols.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable


ENTRIES_MAX = 1_000_000
NODES_MAX = 100_000
HOLDERS_MAX = 10_000
HANDLES_MAX = 100_000
IN_FLIGHT_MAX = 100_000


Part = TypeVar("Part")


def clone(part: Part) -> Part:
    """Another object of the same class with the same attributes; containers are shared."""
    other = object.__new__(type(part))
    other.__dict__.update(part.__dict__)
    return other


@dataclass(frozen=True, slots=True)
class Limits:
    """What one party keeps at most; what goes beyond is refused before it takes effect.

    `entries_max`: in one queue, room reserved by blocks included; notices of destructions find room
    beyond it. `nodes_max`: of one owner, destroyed ones included until they are forgotten.
    `holders_max`: of one node. `handles_max`: of one peer, those on the way to it included.
    `in_flight_max`: messages of one sender.
    """

    entries_max: int = ENTRIES_MAX
    nodes_max: int = NODES_MAX
    holders_max: int = HOLDERS_MAX
    handles_max: int = HANDLES_MAX
    in_flight_max: int = IN_FLIGHT_MAX


class ProtocolError(ValueError):
    """A step that the protocol does not have here. Nothing was changed; the caller has a fault."""


class LimitError(RuntimeError):
    """A limit is reached. Nothing was changed; the step can be tried again when there is room."""


class Stamp(NamedTuple):
    """What orders messages: stamps compare by timestamp, then by the sender's name."""

    timestamp: int
    sender: str


class TransactionId(NamedTuple):
    """The name of one transaction: the sender, and its number there, from 0."""

    sender: str
    serial: int


class Refusal(StrEnum):
    """Why a message was refused as a whole; nobody got it."""

    BAD_DESTINATION = "bad-destination"  # a name that no node has or had
    DESTROYED_NODE = "destroyed-node"  # no destination is left
    NO_ROOM = "no-room"  # a queue, a node or a handle table is at its limit


@dataclass(frozen=True, slots=True)
class Destination:
    """A peer, or a node: an addressable object that `peer` owns."""

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
        owners = self.owners()
        object.__setattr__(self, "destinations", tuple(dict.fromkeys(self.destinations)))
        object.__setattr__(self, "handles", tuple(owners))
        object.__setattr__(self, "handle_owners", tuple(owners.values()))

    def owners(self) -> dict[str, str]:
        """The passed nodes and who owns each."""
        return dict(zip(self.handles, self.handle_owners, strict=True))


@dataclass(frozen=True, slots=True)
class Destruction:
    """An owner's wish to destroy its node; the notice of it is a message with this id."""

    id: Hashable
    sender: str
    node: str


@dataclass(frozen=True, slots=True)
class Release:
    """A sender's wish that `peer` gives back its handle to `node`.

    It is placed like a message to that peer: what the peer dequeues before it, it holds no more;
    what comes behind it may bring the handle again.
    """

    id: Hashable
    sender: str
    peer: str
    node: str


Task = Message | Destruction | Release
"""What a sender's line takes."""


class Kind(IntEnum):
    """What a parcel is: a delivery, a destruction's notice, or the wish to give back a handle."""

    MESSAGE = 0
    NOTICE = 1
    RELEASE = 2


@dataclass(frozen=True, slots=True)
class Parcel:
    """What lies in a queue; `node` is what a message is for, what is destroyed or given back."""

    message: Hashable
    node: str | None
    handles: tuple[str, ...] = ()
    payload: Hashable = None
    kind: Kind = Kind.MESSAGE

    @property
    def destination(self) -> str | None:
        """The node that it is delivered to; it must not be destroyed before."""
        return self.node if self.kind is Kind.MESSAGE else None


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
class Released:
    """A wish to give back a handle that a peer dequeued; it has none to `node` from now on.

    `count`: the registrations that the node's keeper may take back (`let_go`).
    """

    message: Hashable
    stamp: Stamp
    node: str
    count: int


Dequeued = Delivery | Notice | Released
"""What a peer takes out of its queue."""


@dataclass(frozen=True, slots=True)
class Request:
    """A step for `peer` to carry out; the reply goes to the sender of the transaction."""

    transaction: TransactionId
    peer: str


@dataclass(frozen=True, slots=True)
class LetGo(Request):
    """To the keeper of `node`: a peer has no handle to it any more, and none is on its way there.

    The peer is the transaction's sender; there is no such transaction, and no reply. `count`: the
    registrations for the peer that this takes back. Others, of messages that the peer does not
    know of yet, stay, so it does not matter when this is carried out. `clock`: the peer's, above
    which the node's destruction must have its stamp, as messages with the handle are below it.
    """

    node: str
    count: int
    clock: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What `peer` answers to a request of `transaction`."""

    transaction: TransactionId
    peer: str


def let_go(peer: str, keeper: str, node: str, count: int, clock: int = 0) -> tuple[LetGo, ...]:
    """What a peer that gave a handle back has to tell the node's keeper, if anything."""
    return (LetGo(TransactionId(peer, -1), keeper, node, count, clock),) if count else ()


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

"""What a shard of discipline `multicast` does in one step, as it comes together."""

from __future__ import annotations

from dataclasses import dataclass, field

from sequencer.multicast import Delivery, Message, Notice, Reply, Request
from sequencer.multicast.protocol.words import LetGo
from streaming.arrow.output import Event


@dataclass(slots=True)
class Turn:
    """What comes together in one step of a shard.

    ``read``: messages that have not started. ``bad`` and ``refused``: why records of the batch, by
    row, and messages are rejected; ``lost``: why messages will be when their turn comes, and their
    destinations. ``let_go``: what keepers of nodes are told of handles that were given back.
    """

    ms: int
    events: list[Event] = field(default_factory=list)
    read: dict[int, Message] = field(default_factory=dict)
    bad: dict[int, str] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    lost: dict[int, tuple[str, int]] = field(default_factory=dict)
    outgoing: list[Request | Reply] = field(default_factory=list)
    got: list[tuple[str, Delivery | Notice]] = field(default_factory=list)
    let_go: tuple[LetGo, ...] = ()

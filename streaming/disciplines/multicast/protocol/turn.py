"""What a shard of discipline `multicast` does in one step, as it comes together."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from sequencer.multicast import Delivery, Message, Notice, Reply, Request
from sequencer.multicast.protocol.words import LetGo
from streaming.arrow.output import Event


@dataclass(slots=True)
class Turn:
    """What comes together in one step of a shard.

    ``rows``: records to keep, with their numbers. ``read``: messages that have not started.
    ``bad``: records that are rejected, and why; ``refused``: why messages are, ``lost``: why they
    will be when their turn comes, and their destinations. ``got``: what peers dequeued, ``counts``
    its `sequence` and `incarnation`. ``let_go``: steps for the keepers of nodes whose handles
    were given back.
    """

    ms: int
    events: list[Event] = field(default_factory=list)
    read: dict[int, Message] = field(default_factory=dict)
    bad: list[tuple[pa.Table, list[str]]] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    lost: dict[int, tuple[str, int]] = field(default_factory=dict)
    outgoing: list[Request | Reply] = field(default_factory=list)
    got: list[tuple[str, Delivery | Notice]] = field(default_factory=list)
    counts: list[tuple[int, int]] = field(default_factory=list)
    rows: list[tuple[pa.Table, list[int]]] = field(default_factory=list)
    let_go: tuple[LetGo, ...] = ()

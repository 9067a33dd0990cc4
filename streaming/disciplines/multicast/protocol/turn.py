"""The results of one step of a shard of discipline `multicast`, as they are collected."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from sequencer.multicast import Delivery, Message, Notice, Reply, Request
from sequencer.multicast.protocol.words import LetGo
from streaming.arrow.output import Event


@dataclass(slots=True)
class Turn:
    """Collects the results of one step of a shard.

    ``rows``: records to keep, with their numbers. ``read``: messages that have not started.
    ``bad``: rejected records, with reasons; ``refused``: rejected messages, with reasons; ``lost``:
    messages to be rejected when their turn comes, with reasons and destinations. ``got``: what
    peers dequeued, ``counts`` the `sequence` and `incarnation` of each. ``let_go``: steps for the
    keepers of nodes whose handles were released. ``batch_ms``: see `ShardWork`.
    """

    ms: int
    batch_ms: int
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

"""A shard's peers and senders: objects while messages are in flight, else a line of text each.

A peer's text is written when a step has touched it and parsed when it is next needed, so that idle
peers cost a batch nothing but their text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from sequencer.multicast import Bus
from sequencer.multicast.protocol.party import Party
from sequencer.multicast.protocol.words import Limits
from streaming.disciplines.multicast.nodes import shown
from streaming.disciplines.multicast.protocol.codec import dumps
from streaming.disciplines.multicast.protocol.orders import ORDERS
from streaming.disciplines.multicast.protocol.state import line_fields, load_line
from streaming.disciplines.shards import Count
from streaming.disciplines.waiting import Wait

LIMITS = Limits(entries_max=2**40, nodes_max=2**40, in_flight_max=2**40)
"""Not a limit: what a shard lets start (`IN_FLIGHT_MAX`) bounds queues and lines."""


class Peers:
    """The peers of one shard. Names are Latin-1, one character for each byte of a key.

    ``bus`` has the live ones; a peer is made live before the bus uses it. ``bus_type``: replaces
    the order's own. ``renewed_ms``: see `Core.renew`.
    """

    def __init__(self, order: str, bus_type: type[Bus] | None = None) -> None:
        self.order = ORDERS[order]
        self.bus = (bus_type or self.order.bus_type)(LIMITS, self.touch)
        self.texts: dict[str, str] = {}
        self.counts: dict[str, Count] = {}
        self.last: dict[str, int] = {}
        self.queued: dict[str, tuple[int, ...]] = {}
        self.busy: dict[str, Wait] = {}
        self.renewed_ms = 0
        self._touched: dict[str, None] = {}
        self._moved: set[str] = set()
        """Peers that got a delivery in this step."""

    def count(self, name: str, now_ms: int) -> Count:
        """Return a peer's count, begun now if there is none."""
        self.touch(name)
        return self.counts.setdefault(name, Count(0, now_ms, now_ms))

    def place(self, name: str) -> dict[str, int]:
        """Return a peer's next numbers in the form of answers; empty if it got nothing yet."""
        if name not in self.texts and name not in self.counts:
            return {}
        self.touch(name)
        count = self.counts[name]
        return {"incarnation": count.incarnation, "sequence": count.sequence}

    def number(self, name: str, now_ms: int) -> tuple[int, int]:
        """Return `sequence` and `incarnation` of a peer's next delivery."""
        count = self.count(name, now_ms)
        count.sequence += 1
        self._moved.add(name)
        return count.sequence - 1, count.incarnation

    def touch(self, name: str) -> None:
        """Make a peer live; its text is written when the step ends."""
        if name in self._touched:
            return
        self._touched[name] = None
        if name in self.texts and name not in self.counts:
            self._thaw(name)

    def touched_parties(self) -> list[Any]:
        """Return the parties that this step touched."""
        return [self.bus.parties[name] for name in self._touched if name in self.bus.parties]

    def settle(self, now_ms: int) -> None:
        """Write the texts of all peers that were touched."""
        for name in self._touched:
            count = self.counts.setdefault(name, Count(0, now_ms, now_ms))
            count.last_ms = self.last[name] = now_ms
            party, line = self.bus.parties.get(name), self.bus.lines.get(name)
            self._note(name, party, now_ms)
            self.texts[name] = dumps(
                [
                    count.sequence,
                    count.incarnation,
                    None if party is None else self.order.party_fields(name, party),
                    None
                    if line is None or not line.serial
                    else line_fields(line, self.order.note_fields),
                ]
            )
        self._touched, self._moved = {}, set()

    def retire(
        self, due_ms: int, owners: Collection[str], let_go: Callable[[str, str, int], None]
    ) -> Iterator[tuple[str, Count]]:
        """Forget peers that were last active before ``due_ms`` and have nothing to keep.

        Call it before a step; the others then count as active. ``owners`` are the peers with
        a node. ``let_go`` is called with the name, each handle that it releases, and the
        registration.
        """
        for name in [name for name, last in self.last.items() if last < due_ms]:
            self.touch(name)
            party, line = self.bus.parties.get(name), self.bus.lines.get(name)
            if name in self.busy or name in owners or (line is not None and line.flying):
                continue
            if party is not None:
                if party.needed:
                    continue
                for node, registered in party.release_all():
                    let_go(name, node, registered)
            self.bus.forget(name)
            del self.texts[name], self.last[name], self._touched[name]
            yield name, self.counts.pop(name)

    def dump(self) -> str:
        """Encode all peers; equal peers give equal text."""
        heads = [
            self.bus.floor,
            list(self.texts),
            list(self.last.values()),
            list(self.busy.items()),
        ]
        queued = [[name, ids] for name, ids in self.queued.items()]
        return "\n".join([dumps([*heads, queued]), *self.texts.values()])

    def load(self, text: str) -> None:
        """Restore the peers from ``text``."""
        head, *texts = text.split("\n")
        self.bus.floor, names, last, busy, queued = json.loads(head)
        self.texts = dict(zip(names, texts, strict=True))
        self.last = dict(zip(names, last, strict=True))
        self.busy = {name: Wait(*wait) for name, wait in busy}
        self.queued = {name: tuple(ids) for name, ids in queued}

    def _thaw(self, name: str) -> None:
        sequence, incarnation, party, line = json.loads(self.texts[name])
        self.counts[name] = Count(sequence, incarnation, self.last[name])
        self.counts[name].renew(self.renewed_ms)
        if party is not None:
            self.order.load_party(name, self.bus.party(name), party)
        if line is not None:
            load_line(self.bus.line(name), line, self.order.notes)

    def _note(self, name: str, party: Party | None, now_ms: int) -> None:
        """Note whether something waits for a peer, and the messages in its queue."""
        queued: Iterable[Any] = () if party is None else party.queued()
        ids = tuple(dict.fromkeys(parcel.message for parcel in queued))
        if ids:
            self.queued[name] = ids
        else:
            self.queued.pop(name, None)
        awaited = None if party is None else party.awaited
        if ids or awaited is not None:
            goes_on = name in self.busy and name not in self._moved
            since_ms = self.busy[name].since_ms if goes_on else now_ms
            self.busy[name] = Wait(since_ms, shown(awaited or ""), len(ids))
        else:
            self.busy.pop(name, None)

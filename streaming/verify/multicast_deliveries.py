"""The deliveries of discipline `multicast`: read once, each held against those before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from typing import NamedTuple

from sequencer.judging.invariants import STAMP_ORDER
from streaming.verify.added import number
from streaming.verify.columns import Column, Strand, paced
from streaming.verify.evidence import find_two_contents
from streaming.verify.faults import Verdict
from streaming.verify.histories import Histories, History, text
from streaming.verify.logs import Log, Names, Values
from streaming.verify.nodes import Stamp
from streaming.verify.records import Record

HANDLES = ("handles-invalid", "handles")
NOTICE = "notice"
RUN = 100_000
"""Messages that are sorted at a time."""


@dataclass(frozen=True, slots=True)
class Added:
    """What the service added to a delivery; ``count`` headers. Handles: None where missing.

    ``notice``: the node (`@name`) whose destruction the record announces; then it has nothing else.
    """

    stamp: Stamp
    destination: bytes
    valid: bytes | None
    invalid: bytes | None
    sequence: int
    incarnation: int
    count: int
    notice: bytes = b""


class Held(NamedTuple):
    """A delivery with handles for a peer (``given``), or a notice of a node's end (``notice``)."""

    incarnation: int
    sequence: int
    message: int
    given: bytes
    notice: bytes


class MulticastDeliveries:
    """All deliveries: messages under numbers, each named by its stamp (timestamp, from).

    A destruction of which holders have notices has a number, too, and its node in ``notices``, with
    the first of them. ``handles``: those of a message, each with the first delivery that has them.
    Most have none: of these there is ``bare``, by message partition and offset of the first
    delivery without handles, or -1.
    """

    def __init__(self, verdict: Verdict, histories: Histories, output: str, prefix: str) -> None:
        self.verdict = verdict
        self.histories = histories
        self.output = output
        self.prefix = prefix
        self.stamps: Names[Stamp] = Names(Column(), Values())
        self.contents = Column()
        self.copies = _Copies()
        self.highest: dict[bytes, int] = {}
        self.handles: Names[tuple[int, bytes | None, bytes | None]]
        self.handles = Names(Column(), Values(), Values())
        self.bare = Column(), Column()
        self.notices: dict[int, tuple[bytes, Record]] = {}
        self._handles_at = Log()
        self._held: dict[bytes, Strand] = {}
        self._held_log, self._held_store = Log(), Column()
        self._same: dict[bytes, bytes] = {}
        self._sorted = Column()

    def name(self, message: int) -> str:
        """A message for people."""
        timestamp, sender = self.stamps[message]
        kind = "destruction" if message in self.notices else "message"
        return f"{kind} {timestamp} from {text(sender)}"

    def take(self, record: Record) -> None:
        """Hold a delivery against all before it."""
        key = record.key
        added = read_added(record, self.prefix)
        if key is None or added is None:
            self.verdict.find("bad-output", f"{record} lacks headers of the service, or they err")
            return
        key = self._same.setdefault(key, key)
        history = self.histories.take(record, key, added.sequence, added.incarnation)
        if history is None:
            return
        original = record.headers[: len(record.headers) - added.count]
        content = hash((added.stamp[1], record.value, original, record.timestamp))
        if added.notice:
            content = hash((content, added.notice))
        message = self._message(record, added, content)
        if self._rises(record, history, added, message):
            destination = self._same.setdefault(added.destination, added.destination)
            self.copies.append(message, destination, key)
            self.histories.note(history, record, message)
            self._note_handles(key, added, message)
        if not added.notice:
            self._take_handles(record, added, message)

    def finish(self) -> None:
        """After the last delivery: sort the messages by stamp, some of them at a time."""
        store = Column()
        runs = []
        for start in range(0, len(self.stamps), RUN):
            messages = range(start, min(start + RUN, len(self.stamps)))
            run = Strand(store)
            for message in sorted(messages, key=self.stamps.__getitem__):
                run.append(message)
            runs.append(run)
        for message in paced(merge(*runs, key=self.stamps.__getitem__)):
            self._sorted.append(message)

    def _take_handles(self, record: Record, added: Added, message: int) -> None:
        """Keep what handles a message has, once for all who have the same."""
        if added.valid is None is added.invalid:
            partitions, offsets = self.bare
            if offsets[message] < 0:
                partitions[message], offsets[message] = record.partition, record.offset
            return
        handles = (message, added.valid, added.invalid)
        if self.handles.find(handles) < 0:
            self.handles.append(handles)
            self._handles_at.append(str(record))

    def all_handles(self) -> Iterator[tuple[int, bytes | None, bytes | None, str]]:
        """Yield messages, their handles that are valid and those that are not, and a witness."""
        for handles, (_, where) in zip(self.handles, self._handles_at, strict=True):
            yield *handles, where
        for message, (partition, offset) in enumerate(zip(*self.bare, strict=True)):
            if offset >= 0:
                yield message, None, None, f"{self.output}/{partition}@{offset}"

    def _note_handles(self, key: bytes, added: Added, message: int) -> None:
        if added.valid or added.notice:
            valid = added.valid or b""
            if key not in self._held:
                self._held[key] = Strand(self._held_store)
            held = (added.incarnation, added.sequence, message, valid, added.notice)
            self._held[key].append(self._held_log.append(held))

    def holders(self) -> Iterator[bytes]:
        """Yield the peers that have `held`."""
        yield from self._held

    def held(self, peer: bytes) -> Iterator[Held]:
        """Yield what a peer's handles come from, in the order of its stream."""
        for position in self._held.get(peer, ()):
            yield Held(*self._held_log[position])

    def _message(self, record: Record, added: Added, content: int) -> int:
        message = self.stamps.find(added.stamp)
        if message < 0:
            message = self.stamps.append(added.stamp)
            self.contents.append(content)
            for each in self.bare:
                each.append(-1)
            if added.notice:
                self.notices[message] = (added.notice, record)
        elif self.contents[message] != content:
            find_two_contents(self.verdict, self.histories, record, message, self.name(message))
        return message

    def _rises(self, record: Record, history: History, added: Added, message: int) -> bool:
        """Whether a peer's messages come in the order of stamps; no destination a second time."""
        key, before = history.key, self.highest.get(history.key, message)
        if self.copies.has(message, added.destination):
            self.verdict.find(
                "delivered-twice",
                lambda: (
                    f"{record}: {self.name(message)} was delivered to {text(added.destination)} "
                    f"before; {self.histories.first_place(message)}"
                ),
            )
            return False
        if added.stamp < self.stamps[before]:
            self.verdict.find(
                STAMP_ORDER,
                lambda: (
                    f"{record}: {text(key)} got {self.name(message)} after {self.name(before)} "
                    f"({self.histories.where(key, before)})"
                ),
            )
        else:
            self.highest[key] = message
        return True

    def in_order(self) -> Iterator[int]:
        """Yield all messages by (timestamp, from), without destructions."""
        return (message for message in self._sorted if message not in self.notices)


class _Copies:
    """Who got each message, by destination: a chain of copies for each message."""

    def __init__(self) -> None:
        self._copies: Names[tuple[int, bytes]] = Names(Column(), Values())
        self._keys = Values()
        self._last = Column()
        self._before = Column()

    def append(self, message: int, destination: bytes, key: bytes) -> None:
        """Note that a key got a message for a destination that has none yet."""
        while len(self._last) <= message:
            self._last.append(-1)
        self._before.append(self._last[message])
        self._last[message] = self._copies.append((message, destination))
        self._keys.append(key)

    def has(self, message: int, destination: bytes) -> bool:
        """Return whether there is a copy for a destination."""
        return self._copies.find((message, destination)) >= 0

    def of(self, message: int) -> dict[bytes, bytes]:
        """Return by destination who got a message, in the order in which the copies were read."""
        copies = []
        copy = self._last[message] if message < len(self._last) else -1
        while copy >= 0:
            copies.append((self._copies[copy][1], self._keys[copy]))
            copy = self._before[copy]
        return dict(reversed(copies))


def read_added(record: Record, prefix: str) -> Added | None:
    """The headers of the service at the end of a delivery; None where they are not as they must."""
    names = ["sequence", "incarnation"]
    end = len(record.headers) - 2
    for name in (NOTICE, *HANDLES):
        if end > 0 and record.headers[end - 1][0] == prefix + name:
            names.insert(0, name)
            end -= 1
            if name == NOTICE:
                break
    names[:0] = ["from", "destination", "timestamp"]
    end -= 3
    if end < 0 or any(
        name != prefix + wanted
        for (name, _), wanted in zip(record.headers[end:], names, strict=True)
    ):
        return None
    values = dict(zip(names, (value for _, value in record.headers[end:]), strict=True))
    sender, destination = values["from"], values["destination"]
    timestamp, sequence, incarnation = (
        number(values[name]) for name in ("timestamp", "sequence", "incarnation")
    )
    if sender is None or not destination or min(timestamp, sequence, incarnation) < 0:
        return None
    if any(values[name] is None for name in HANDLES if name in values):
        return None
    notice = b""
    if NOTICE in values:
        notice = b"@" + (values[NOTICE] or b"")
        if end or record.value is not None or destination != record.key or notice == b"@":
            return None
    return Added(
        (timestamp, sender),
        destination,
        values.get("handles"),
        values.get("handles-invalid"),
        sequence,
        incarnation,
        len(names),
        notice,
    )

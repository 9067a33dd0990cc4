"""The deliveries of discipline `multicast`: read once, each held against those before it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sequencer.judging.invariants import STAMP_ORDER
from streaming.verify.added import number
from streaming.verify.evidence import find_two_contents
from streaming.verify.faults import Verdict
from streaming.verify.histories import Histories, History, text
from streaming.verify.nodes import Stamp
from streaming.verify.records import Record

HANDLES = ("handles-invalid", "handles")
NOTICE = "notice"


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
    the first of them. ``held``: what a peer's handles come from, in the order of its stream.
    ``handles``: those of a message, with the first delivery that has them. Most have none: of these
    there is ``bare``, by message partition and offset of the first delivery without handles, or -1.
    """

    def __init__(self, verdict: Verdict, histories: Histories, output: str, prefix: str) -> None:
        self.verdict = verdict
        self.histories = histories
        self.output = output
        self.prefix = prefix
        self.numbers: dict[Stamp, int] = {}
        self.stamps: list[Stamp] = []
        self.contents = array("q")
        self.got: list[dict[bytes, bytes]] = []
        self.highest: dict[bytes, int] = {}
        self.handles: dict[tuple[int, bytes | None, bytes | None], str] = {}
        self.bare = array("i"), array("q")
        self.notices: dict[int, tuple[bytes, Record]] = {}
        self.held: dict[bytes, list[Held]] = {}
        self._same: dict[bytes, bytes] = {}

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
            self.got[message][destination] = key
            self.histories.note(history, record, message)
            self._note_handles(key, added, message)
        if not added.notice:
            self._take_handles(record, added, message)

    def finish(self) -> None:
        """Compare what can be compared when all have been taken: nothing here."""

    def _take_handles(self, record: Record, added: Added, message: int) -> None:
        """Keep what handles a message has, once for all who have the same."""
        if added.valid is None is added.invalid:
            partitions, offsets = self.bare
            if offsets[message] < 0:
                partitions[message], offsets[message] = record.partition, record.offset
            return
        handles = (message, added.valid, added.invalid)
        if handles not in self.handles:
            self.handles[handles] = str(record)

    def all_handles(self) -> Iterator[tuple[int, bytes | None, bytes | None, str]]:
        """Yield messages, their handles that are valid and those that are not, and a witness."""
        for (message, valid, invalid), where in self.handles.items():
            yield message, valid, invalid, where
        for message, (partition, offset) in enumerate(zip(*self.bare, strict=True)):
            if offset >= 0:
                yield message, None, None, f"{self.output}/{partition}@{offset}"

    def _note_handles(self, key: bytes, added: Added, message: int) -> None:
        if added.valid or added.notice:
            valid = added.valid or b""
            held = Held(added.incarnation, added.sequence, message, valid, added.notice)
            self.held.setdefault(key, []).append(held)

    def _message(self, record: Record, added: Added, content: int) -> int:
        message = self.numbers.get(added.stamp)
        if message is None:
            timestamp, sender = added.stamp
            stamp = (timestamp, self._same.setdefault(sender, sender))
            message = self.numbers[stamp] = len(self.stamps)
            self.stamps.append(stamp)
            self.contents.append(content)
            self.got.append({})
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
        if added.destination in self.got[message]:
            self.verdict.find(
                "delivered-twice",
                lambda: (
                    f"{record}: {self.name(message)} was delivered to {text(added.destination)} "
                    f"before; {self.histories.first_place(message)}"
                ),
            )
            return False
        if self.stamps[message] < self.stamps[before]:
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

    def in_order(self) -> list[int]:
        """All messages by (timestamp, from), without destructions."""
        messages = (n for n in range(len(self.stamps)) if n not in self.notices)
        return sorted(messages, key=self.stamps.__getitem__)


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

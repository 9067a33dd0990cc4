"""The deliveries of discipline `group`: read once, each held against those before it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streaming.verify.added import NUMBER_MAX, number
from streaming.verify.columns import Column
from streaming.verify.evidence import find_two_contents
from streaming.verify.faults import Verdict
from streaming.verify.group_notices import WORDS, Given, allows
from streaming.verify.histories import Histories, History, text
from streaming.verify.logs import Names, Values
from streaming.verify.notices import Notice, read_notice
from streaming.verify.overlap_numbers import OverlapNumbers, Pair, Stamps
from streaming.verify.records import Record
from streaming.verify.versions import Version

NAMES = ("sender", "group-sequence", "group-version", "stamps", "sequence", "incarnation")
SUBSCRIBER = "{subscriber}"


@dataclass(frozen=True, slots=True)
class Added:
    """What the service added to a delivery; ``count`` headers."""

    group: bytes
    sender: bytes
    number: int
    version: int
    stamps: Stamps
    sequence: int
    incarnation: int
    count: int


class GroupDeliveries:
    """All deliveries: messages under numbers, each named by (group, version, group-sequence)."""

    def __init__(self, verdict: Verdict, histories: Histories, output: str, prefix: str) -> None:
        self.verdict = verdict
        self.histories = histories
        self.output = output
        self.prefix = prefix
        self.names: Names[tuple[bytes, int, int]] = Names(Values(), Column(), Column())
        self.senders = Values()
        self.contents = Column()
        self.versions: dict[bytes, dict[int, Version]] = {}
        self.last: dict[bytes, dict[bytes, tuple[int, int]]] = {}
        self.shapes: dict[tuple[bytes, int, bytes, tuple[Pair, ...]], str] = {}
        self.overlaps = OverlapNumbers(verdict, self.name)
        self.notices: list[Given] = []
        self.notice_of: dict[tuple[bytes, bytes], Notice] = {}
        self._same: dict[bytes, bytes] = {}
        self._store = Column()

    def name(self, message: int) -> str:
        """A message for people."""
        group, version, at = self.names[message]
        return f"{text(group)} {at} of version {version} (from {text(self.senders[message])})"

    def take(self, record: Record) -> None:
        """Hold a delivery against all before it."""
        key = record.key
        if key is None or not self._at_home(record, key):
            self.verdict.find("bad-output", f"{record} is not in the topic of its subscriber")
            return
        key = self._same.setdefault(key, key)
        if (notice := read_notice(record, self.prefix, WORDS)) is not None:
            counts = (notice.sequence, notice.incarnation)
            if self.histories.take(record, key, *counts) is not None:
                group = str(notice.detail.get("group")).encode()
                before = self.last.get(group, {}).get(key, (-1, -1))[0]
                self.notices.append(Given(key, notice, str(record), before))
                self.notice_of[key, group] = notice
            return
        added = read_added(record, self.prefix)
        if added is None:
            self.verdict.find("bad-output", f"{record} lacks headers of the service, or they err")
            return
        history = self.histories.take(record, key, added.sequence, added.incarnation)
        if history is None:
            return
        original = record.headers[: len(record.headers) - added.count]
        content = hash((added.sender, record.value, original, record.timestamp))
        message = self._message(record, added, content)
        if not self._rises(record, history, added, message):
            return
        notice = self.notice_of.get((key, added.group))
        if notice is not None and not allows(notice, added.version):
            witness = f"{record}: version {added.version} after the notice {notice.word}"
            self.verdict.find("wrong-notice", f"{witness} of {notice.detail.get('version')}")
        self._follow_stamps(record, key, added, message)
        self.histories.note(history, record, message)
        got = self.versions[added.group][added.version].got
        got[key] = got.get(key, 0) + 1

    def _at_home(self, record: Record, key: bytes) -> bool:
        home = self.output.replace(SUBSCRIBER, key.decode(errors="replace"))
        return record.topic == home

    def _message(self, record: Record, added: Added, content: int) -> int:
        """The number of the delivered message; its bytes must be those that others got."""
        name = (added.group, added.version, added.number)
        message = self.names.find(name)
        if message < 0:
            message = self.names.append(name)
            self.senders.append(added.sender)
            self.contents.append(content)
            versions = self.versions.setdefault(added.group, {})
            if added.version not in versions:
                versions[added.version] = Version(self._store)
            versions[added.version].take(added.number, message)
        elif self.contents[message] != content:
            find_two_contents(self.verdict, self.histories, record, message, self.name(message))
        return message

    def _rises(self, record: Record, history: History, added: Added, message: int) -> bool:
        """Whether a group's messages come in the order of (version, number); no second time."""
        mine = self.last.setdefault(added.group, {})
        now = (added.version, added.number)
        before = mine.get(history.key)
        if before is None or now > before:
            mine[history.key] = now
            return True
        key = history.key
        if self.histories.has(key, message):
            self.verdict.find(
                "delivered-twice",
                lambda: (
                    f"{record}: {text(key)} got {self.name(message)} before, "
                    f"at {self.histories.where(key, message)}"
                ),
            )
            return False
        behind = self.names.find((added.group, *before))
        self.verdict.find(
            "group-order",
            lambda: (
                f"{record}: {text(key)} got {self.name(message)} after {self.name(behind)} "
                f"({self.histories.where(key, behind)})"
            ),
        )
        return True

    def _follow_stamps(self, record: Record, key: bytes, added: Added, message: int) -> None:
        """Keep which overlaps the stamps of a version are of, and their numbers."""
        pairs = tuple((first, second) for first, second, _ in added.stamps)
        shape = (added.group, added.version, key, pairs)
        if shape not in self.shapes:
            self.shapes[shape] = str(record)
        self.overlaps.take(record, key, shape[:2], message, added.stamps)

    def finish(self) -> None:
        """After the last delivery: versions sorted."""
        for versions in self.versions.values():
            for version in versions.values():
                version.finish()

    def in_order(self) -> Iterator[int]:
        """Yield all messages by group, version and number."""
        for _, versions in sorted(self.versions.items()):
            for _, version in sorted(versions.items()):
                yield from version.messages


def read_added(record: Record, prefix: str) -> Added | None:
    """The headers of the service at the end of a delivery; None where they are not as they must."""
    headers = record.headers
    names: tuple[str, ...] = NAMES
    if len(headers) < len(names) or headers[-3][0] != prefix + "stamps":
        names = tuple(name for name in NAMES if name != "stamps")
    if len(headers) < len(names):
        return None
    last = headers[-len(names) :]
    if any(header[0] != prefix + name for header, name in zip(last, names, strict=True)):
        return None
    values: Mapping[str, bytes | None] = dict(zip(names, (v for _, v in last), strict=True))
    group: bytes | None = None
    for name, value in headers[: -len(names)]:
        if name == "group":
            group = value
    sender = values["sender"]
    at, version, sequence, incarnation = (
        number(values[name])
        for name in ("group-sequence", "group-version", "sequence", "incarnation")
    )
    if not group or sender is None or min(at, version, sequence, incarnation) < 0:
        return None
    stamps: Stamps | None = ()
    if "stamps" in values:
        stamps = _stamps(values["stamps"], group)
    if stamps is None:
        return None
    return Added(group, sender, at, version, stamps, sequence, incarnation, len(names))


def _stamps(value: bytes | None, group: bytes) -> Stamps | None:
    """The parsed header `stamps`: not empty, sorted, each overlap one of the group's."""
    try:
        listed = json.loads(value or b"")
        group_name = group.decode()
    except (ValueError, RecursionError):
        return None
    if not isinstance(listed, list) or not listed:
        return None
    before = ("", "")
    for shown in listed:
        if not _is_stamp(shown) or group_name not in shown[:2] or (shown[0], shown[1]) <= before:
            return None
        before = (shown[0], shown[1])
    return tuple((first, second, stamp) for first, second, stamp in listed)


def _is_stamp(shown: Any) -> bool:
    """Return whether this is two names, sorted, and a number."""
    if not (isinstance(shown, list) and len(shown) == 3 and type(shown[2]) is int):
        return False
    first, second, stamp = shown
    names = isinstance(first, str) and isinstance(second, str)
    return names and first < second and 0 <= stamp <= NUMBER_MAX

"""Overlaps in groups' deliveries: one number for a message, and how it rises at subscribers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from streaming.verify.columns import Column, paced
from streaming.verify.faults import Verdict
from streaming.verify.logs import Names, Values
from streaming.verify.records import Record

Pair = tuple[str, str]
"""An overlap: the names of two groups, sorted."""

Stamps = tuple[tuple[str, str, int], ...]


@dataclass(slots=True)
class _Line:
    """One overlap's numbers as a subscriber gets them: the last, and all versions that had one.

    ``is_over``: a later message of the subscriber has none.
    """

    message: int
    last: int
    ever: set[tuple[bytes, int]] = field(default_factory=set)
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Beginning:
    """A number of a subscriber's overlap that is not above its last one, or comes after an end.

    ``in_version``: the message's version had numbers before.
    """

    pair: Pair
    key: bytes
    group: bytes
    number: int
    last: int
    in_version: bool
    witness: str


class OverlapNumbers:
    """By message its number in each overlap, the same at all who get it.

    ``lowest``: by overlap its lowest number, with the message and who got it.
    """

    def __init__(self, verdict: Verdict, name: Callable[[int], str]) -> None:
        self.verdict = verdict
        self.name = name
        self.beginnings: list[Beginning] = []
        self.lowest: dict[Pair, tuple[int, int, bytes]] = {}
        self._named: Names[tuple[int, Pair]] = Names(Column(), Values())
        self._stamps = Column()
        self._lines: dict[tuple[bytes, Pair], _Line] = {}
        self._listed: dict[tuple[bytes, bytes], tuple[Pair, ...]] = {}

    def take(
        self, where: Record, key: bytes, version: tuple[bytes, int], message: int, stamps: Stamps
    ) -> None:
        """Take the stamps of a delivery; ``version``: the message's group, and which of it."""
        pairs = tuple((first, second) for first, second, _ in stamps)
        listed = self._listed.get((key, version[0]), ())
        if listed != pairs:
            for pair in set(listed).difference(pairs):
                self._lines[key, pair].is_over = True
            self._listed[key, version[0]] = pairs
        if not pairs:
            return
        for first, second, stamp in stamps:
            pair = (first, second)
            known = self._known(message, pair, stamp)
            if known != stamp:
                witness = f"{where}: {self.name(message)} has {stamp} of overlap {first} {second}"
                self.verdict.find("stamps-differ", f"{witness}, and {known} at others")
            self._follow(where, key, pair, version, message, stamp)

    def _known(self, message: int, pair: Pair, stamp: int) -> int:
        """Note a message's number; return the one that was there before, else this one."""
        entry = self._named.find((message, pair))
        if entry >= 0:
            return self._stamps[entry]
        self._named.append((message, pair))
        self._stamps.append(stamp)
        return stamp

    def _follow(
        self,
        where: Record,
        key: bytes,
        pair: Pair,
        version: tuple[bytes, int],
        message: int,
        stamp: int,
    ) -> None:
        line = self._lines.get((key, pair))
        if line is None:
            line = self._lines[key, pair] = _Line(message, -1)
        if pair not in self.lowest or stamp < self.lowest[pair][0]:
            self.lowest[pair] = (stamp, message, key)
        if stamp <= line.last or line.is_over:
            witness = f"{where}: {self.name(message)} with number {stamp} comes after"
            witness = f"{witness} {self.name(line.message)} with {line.last} of their overlap"
            known = version in line.ever
            self.beginnings.append(
                Beginning(pair, key, version[0], stamp, line.last, known, witness)
            )
        line.ever.add(version)
        line.last, line.message, line.is_over = stamp, message, False

    def shared(
        self,
        one_line: Callable[[Pair, bytes, int], object],
        name: Callable[[int], tuple[bytes, int, int]],
    ) -> Iterator[tuple[int, int]]:
        """Yield pairs of messages that have one number in one line of an overlap.

        ``one_line`` names the line of a message, given the overlap and the message's group and
        version; None: its numbers may come again. ``name``: of a message.
        """
        lines_of: dict[object, int] = {}
        seen: Names[tuple[int, int]] = Names(Column(), Column())
        latest = Column()
        for (message, pair), stamp in paced(zip(self._named, self._stamps, strict=True)):
            group, version, _ = name(message)
            line = one_line(pair, group, version)
            if line is None:
                continue
            number = (lines_of.setdefault((pair, line), len(lines_of)), stamp)
            at = seen.find(number)
            if at < 0:
                seen.append(number)
                latest.append(message)
                continue
            yield latest[at], message
            latest[at] = message

"""Overlaps in groups' deliveries: one number for a message, and how it rises at subscribers."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from streaming.verify.faults import Verdict

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
        self.stamps: dict[int, dict[Pair, int]] = {}
        self.beginnings: list[Beginning] = []
        self.lowest: dict[Pair, tuple[int, int, bytes]] = {}
        self._lines: dict[tuple[bytes, Pair], _Line] = {}
        self._listed: dict[tuple[bytes, bytes], tuple[Pair, ...]] = {}

    def take(
        self, where: str, key: bytes, version: tuple[bytes, int], message: int, stamps: Stamps
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
        known = self.stamps.setdefault(message, {})
        for first, second, stamp in stamps:
            pair = (first, second)
            if known.setdefault(pair, stamp) != stamp:
                witness = f"{where}: {self.name(message)} has {stamp} of overlap {first} {second}"
                self.verdict.find("stamps-differ", f"{witness}, and {known[pair]} at others")
            self._follow(where, key, pair, version, message, stamp)

    def _follow(
        self,
        where: str,
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
        self, one_line: Callable[[Pair, bytes, int], object], names: list[tuple[bytes, int, int]]
    ) -> Iterator[tuple[int, int]]:
        """Yield pairs of messages that have one number in one line of an overlap.

        ``one_line`` names the line of a message, given the overlap and the message's group and
        version; None: its numbers may come again. ``names``: of messages.
        """
        messages, lines, stamps = array("q"), array("q"), array("q")
        lines_of: dict[object, int] = {}
        for message, stamped in self.stamps.items():
            group, version, _ = names[message]
            for pair, stamp in stamped.items():
                line = one_line(pair, group, version)
                if line is not None:
                    messages.append(message)
                    lines.append(lines_of.setdefault((pair, line), len(lines_of)))
                    stamps.append(stamp)
        line_, number = np.array(lines, np.int64), np.array(stamps, np.int64)
        order = np.lexsort((number, line_))
        same = (np.diff(line_[order]) == 0) & (np.diff(number[order]) == 0)
        for at in np.flatnonzero(same).tolist():
            yield messages[int(order[at])], messages[int(order[at + 1])]

"""What a producer remembers of what it sent, for when it is asked for it.

Messages have numbers: the places of their labels in their channel, which ascend without end. Of a
number below the next one a producer knows one of three things: the message is kept; it never will
be sent; or neither: it was sent once, is no longer kept, and may still come.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from streaming.clients.deliveries import Header

KEPT_BYTES_MAX = 256 * 2**20
"""All that a producer keeps; beyond it the oldest message goes, of whatever channel."""
MESSAGE_BYTES = 780
"""What keeping a message costs besides its bytes."""
AHEAD_MAX = 100_000
"""How far ahead labels are looked for in a sequence that is known by its next function alone."""
UNSENT_MAX = 100_000
"""Ranges of numbers that a producer remembers as never sent; beyond it the oldest are forgotten."""


@dataclass(slots=True, eq=False)
class Sent:
    """A message as it was sent; ``in_flight`` until Kafka has answered.

    ``is_doubtful``: Kafka refused the record batch that it was in, perhaps for other messages.
    """

    channel: bytes
    number: int
    value: bytes | None
    headers: list[Header]
    timestamp: int
    in_flight: bool = True
    is_doubtful: bool = False

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return MESSAGE_BYTES + len(self.channel) + len(self.value or b"") + headers


@dataclass(slots=True)
class Kept:
    """The last messages of each channel: ``each`` of them at most, and ``bytes_max`` in all.

    Has no lock: its owner holds one (`LabelledProducer`).
    """

    each: int
    bytes_max: int = KEPT_BYTES_MAX
    size: int = 0
    _messages: OrderedDict[tuple[bytes, int], Sent] = field(default_factory=OrderedDict)
    """Of a dict, finding the oldest takes the longer the more have gone."""
    _numbers: dict[bytes, deque[int]] = field(default_factory=dict)
    _unsent: dict[bytes, deque[tuple[int, int]]] = field(default_factory=dict)
    _oldest: deque[bytes] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self._messages)

    def keep(self, sent: Sent) -> None:
        """Keep a message behind those before it; again, where an interrupt came in between."""
        size, place = sent.size, (sent.channel, sent.number)
        numbers = self._numbers.setdefault(sent.channel, deque())
        if not numbers or numbers[-1] < sent.number:
            numbers.append(sent.number)
        if place not in self._messages:
            self._messages[place] = sent
            self.size += size
        while len(numbers) > self.each:
            self._forget_first(sent.channel)
        while self.size > self.bytes_max:
            channel, _ = next(iter(self._messages))
            self._forget_first(channel)

    def drop(self, sent: Sent) -> None:
        """Kafka refused a message for good: it counts as never sent."""
        place = sent.channel, sent.number
        if self._messages.get(place) is sent:
            self._forget(place)
            self._numbers[sent.channel].remove(sent.number)
            self._tidy(sent.channel)
            self.skip(sent.channel, sent.number, sent.number + 1)

    def skip(self, channel: bytes, first: int, stop: int) -> None:
        """Note numbers that never will be sent."""
        ranges = self._unsent.setdefault(channel, deque())
        if ranges and ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], stop)
            return
        ranges.append((first, stop))
        self._oldest.append(channel)
        if len(self._oldest) > UNSENT_MAX:
            oldest = self._oldest.popleft()
            self._unsent[oldest].popleft()
            if not self._unsent[oldest]:
                del self._unsent[oldest]

    def sent(self, channel: bytes, first: int, stop: int) -> Iterator[Sent]:
        """The kept messages of a range, that Kafka has answered for."""
        for number in [each for each in self._numbers.get(channel, ()) if first <= each < stop]:
            sent = self._messages.get((channel, number))
            if sent is not None and not sent.in_flight:
                yield sent

    def unsent(self, channel: bytes, first: int, stop: int) -> list[tuple[int, int]]:
        """What of a range never will be sent."""
        ranges = self._unsent.get(channel, ())
        cut = ((max(first, begin), min(stop, end)) for begin, end in ranges)
        return [(begin, end) for begin, end in cut if begin < end]

    def _forget_first(self, channel: bytes) -> None:
        """Forget a channel's oldest message; an interrupt may leave its number to the next time."""
        numbers = self._numbers[channel]
        self._forget((channel, numbers[0]))
        numbers.popleft()
        self._tidy(channel)

    def _forget(self, place: tuple[bytes, int]) -> None:
        size = self._messages[place].size if place in self._messages else 0
        if place in self._messages:  # no call in between, in which Python handles signals
            del self._messages[place]
            self.size -= size

    def _tidy(self, channel: bytes) -> None:
        if not self._numbers[channel]:
            del self._numbers[channel]


def numbers_of(labels: Any, first: Any, stop: Any, following: int) -> tuple[int, int] | None:
    """The numbers that labels ``first`` up to ``stop`` have; None where these are no labels.

    In a cycle ``stop`` is the last such number below ``following``, the number of the next message.
    """
    try:
        begin, end = (int(labels.position(label, following + 1)) for label in (first, stop))
    except (TypeError, ValueError):
        return None
    if begin < 0 or end < 0:
        return None
    if labels.cycle is not None:
        length = (end - begin) % labels.cycle
        end = following - 1 - (following - 1 - end) % labels.cycle
        begin = end - length
    return begin, end


def number_ahead(labels: Any, label: Any, following: int | None) -> int | None:
    """The number of a label to be sent next or later; None where it is none, or was passed.

    ``following``: the number of the next message, None for the first one.
    """
    try:
        position = int(labels.position(label, (following or 0) + AHEAD_MAX))
    except (AttributeError, TypeError, ValueError):
        return None
    if position < 0 or following is None:
        return position if position >= 0 else None
    if labels.cycle is not None:
        ahead = (position - following) % int(labels.cycle)
        return following + ahead if ahead <= labels.cycle // 2 else None
    return position if position >= following else None

"""An edge that keeps its order over a carrier that loses, repeats and reorders.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 3.1: an atom has an output
retransmission buffer for each next atom, emptied by acknowledgments, and a buffer for what it
receives from previous atoms. Numbers of a link have nothing to do with those of groups and atoms.
Both ends live as long as the link: an end that forgets its numbers needs a new link.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


class LinkFullError(RuntimeError):
    """Too much is unacknowledged; the payload was not taken: offer it after an acknowledgment."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A payload under its number on the link, from 0."""

    number: int
    payload: Any


@dataclass(frozen=True, slots=True)
class Ack:
    """All frames with numbers below `below` have arrived."""

    below: int


@dataclass(slots=True)
class Output:
    """The sending end. Times are in milliseconds, of any clock that does not go back.

    At most `window_max` frames are unacknowledged. A frame is sent again after `retry_ms`, then
    after twice that time, and so on up to `retry_max_ms`; for ever, as a lost message would stop
    its receivers for ever.
    """

    window_max: int = 1024
    retry_ms: int = 200
    retry_max_ms: int = 10_000
    following: int = 0
    waiting: dict[int, _Waiting] = field(default_factory=dict)

    def send(self, payload: Any, now_ms: int) -> Frame:
        """The frame to send. LinkFullError at the limit: no number is used up then."""
        if len(self.waiting) >= self.window_max:
            raise LinkFullError(
                f"{len(self.waiting)} frames are unacknowledged, the limit: the payload was not "
                "taken; offer it again after the next acknowledgment"
            )
        frame = Frame(self.following, payload)
        self.following += 1
        self.waiting[frame.number] = _Waiting(frame, now_ms + self.retry_ms, self.retry_ms)
        return frame

    def acknowledge(self, ack: Ack) -> int:
        """Drop what has arrived; returns how many frames that are. Old ones do nothing.

        ValueError for frames that were never sent: the acknowledgment is of another link.
        """
        if ack.below > self.following:
            raise ValueError(
                f"acknowledged below {ack.below}, sent below {self.following}: nothing was "
                "dropped; connect the ends of one link only"
            )
        arrived = [number for number in self.waiting if number < ack.below]
        for number in arrived:
            del self.waiting[number]
        return len(arrived)

    def tick(self, now_ms: int) -> tuple[Frame, ...]:
        """The frames to send again now, in order."""
        return tuple(self._due(now_ms))

    def next_due_ms(self) -> int | None:
        """When `tick` has something to do, if nothing is acknowledged; None if never."""
        return min((waiting.due_ms for waiting in self.waiting.values()), default=None)

    def _due(self, now_ms: int) -> Iterator[Frame]:
        for waiting in self.waiting.values():
            if waiting.due_ms <= now_ms:
                waiting.pause_ms = min(2 * waiting.pause_ms, self.retry_max_ms)
                waiting.due_ms = now_ms + waiting.pause_ms
                yield waiting.frame


@dataclass(slots=True)
class Input:
    """The receiving end; it keeps up to `window_max` frames that came before their turn."""

    window_max: int = 1024
    following: int = 0
    early: dict[int, Any] = field(default_factory=dict)

    def receive(self, frame: Frame) -> tuple[tuple[Any, ...], Ack]:
        """The payloads whose turn has come, in order, and what to answer.

        A frame past the window is dropped: it is not acknowledged, so it comes again.
        """
        if self.following <= frame.number < self.following + self.window_max:
            self.early[frame.number] = frame.payload
        out: list[Any] = []
        while self.following in self.early:
            out.append(self.early.pop(self.following))
            self.following += 1
        return tuple(out), Ack(self.following)


@dataclass(slots=True)
class _Waiting:
    frame: Frame
    due_ms: int
    pause_ms: int

"""When a query's next batch begins: as soon as a record has come, or a timer is due.

Spark asks its sources for what is new, one after the other, and asks again as soon as none has
anything. So a source that has nothing new answers late: it waits at its brokers
(`streaming.source.waiting`), until there is something, or a timer is due.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from streaming.source.positions import Offsets

LONGEST_SECONDS = 2.0
"""A source says at the latest then that it has nothing new."""
AMONG_SECONDS = 0.1
"""The same where a query has several sources that wait for brokers: one after the other does."""
TICK_SECONDS = 1.0
"""This long after a batch without records another one may follow, and does if a timer is due."""
IDLE_SECONDS = 10.0
"""The longest pause between two such batches."""
STILL_SECONDS = 3 * IDLE_SECONDS
"""Without a batch for longer than this and its trigger, a query stood still."""
UNKNOWN = 0
"""When the first timer is due, where not every shard has said when its own is."""


class Pace:
    """What the sources of one query share; times are of `time.monotonic`, timers are Unix ms.

    ``every_ms``: the least time between the beginnings of two batches. ``due_ms`` returns when the
    first timer is due, None where there is none; without it (``--once``), sources do not wait, and
    no batch begins for time alone. ``looked``: when a source was asked last (Unix time). ``done``:
    behind which offsets sources were asked for more, so all batches up to there are done.
    ``readers``: how many of its sources wait. ``ticks``: whether it has `reader.Ticks`;
    ``is_waking``: whether these are to come without a timer, too.

    The sources of a query are asked by its one thread; the run loop sets ``ended`` and reads
    ``looked`` and ``done``.
    """

    def __init__(self, every_ms: int = 0, due_ms: Callable[[], int | None] | None = None) -> None:
        self.every_s = every_ms / 1000
        self.due_ms = due_ms or (lambda: None)
        self.waits = due_ms is not None
        self.ended = threading.Event()
        self.looked = 0.0
        self.done: Offsets = {}
        self.readers = 0
        self.ticks = self.is_waking = False
        self._began = self._ticked = -math.inf

    @property
    def still_ms(self) -> int | None:
        """Return from when on a time without a batch is a pause; None: it never is.

        With ``--once`` the time between two runs counts, as no run waits for timers.
        """
        return round((self.every_s + STILL_SECONDS) * 1000) if self.waits else None

    def hold(self) -> None:
        """Wait until the next batch may begin, or the query ends."""
        self.ended.wait(max(0.0, self._began + self.every_s - time.monotonic()))
        self.looked = time.time()

    def note_done(self, read: Offsets) -> None:
        """Note that a source is asked for what is behind these offsets."""
        self.done = {**self.done, **read}

    def begin(self) -> None:
        """Note that a batch begins."""
        self._began = time.monotonic()

    def tick(self) -> bool:
        """Return whether a batch is to begin without a record; it begins then."""
        is_due = self.waits and self._seconds_left() <= 0
        if is_due:
            self._ticked = time.monotonic()
        return is_due

    def left(self, asked: float) -> float:
        """Return how long a source may still wait that was asked at this time; 0 for not at all."""
        if not self.waits or self.ended.is_set():
            return 0.0
        self.looked = time.time()
        longest = AMONG_SECONDS if self.readers > 1 else LONGEST_SECONDS
        return max(0.0, min(asked + longest - time.monotonic(), self._seconds_left()))

    def _seconds_left(self) -> float:
        """Return how long it is until a batch without records is due."""
        if not self.ticks:
            return math.inf
        since = time.monotonic() - self._ticked
        due_ms = UNKNOWN if self.is_waking else self.due_ms()
        if due_ms is None:
            return IDLE_SECONDS - since
        # Spark's timers fire in batches that are later than they.
        seconds = (due_ms + 1) / 1000 - time.time()
        return min(IDLE_SECONDS - since, max(TICK_SECONDS - since, seconds))

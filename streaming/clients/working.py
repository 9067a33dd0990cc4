"""Threads that call a handler, one delivery after another of each channel."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, RLock, Thread
from typing import Any, Generic, TypeVar

from streaming.clients.deliveries import Delivery
from streaming.clients.followed import FollowedLines
from streaming.clients.limits import Limits, Retry
from streaming.clients.rejecting import Rejects, required
from streaming.clients.scheduling import Item, Schedule
from streaming.errors import SequencerError
from streaming.places import StreamPoint

HANDLER_FAILED = "handler-failed"
ERROR_CHARACTERS_MAX = 500
LOG_SECONDS = 1.0

logger = logging.getLogger("streaming.clients")

D = TypeVar("D", bound=Delivery)


@dataclass(slots=True, eq=False)
class Work(Generic[D]):
    """A delivery and its record (``message``), and what is known once its handler was called.

    ``before``: the last place of its key then; ``failures`` of the handler; ``error``: the last
    one, or what `resume` or the like raised.
    """

    delivery: D
    message: Any
    is_started: bool = False
    before: StreamPoint | None = None
    failures: int = 0
    error: str = ""


class Workers(Generic[D]):
    """Takes deliveries from the schedule, which is only touched under ``lock``.

    ``changed`` wakes workers: there is something to do; ``ended``: a handler has returned. Handlers
    run without the lock, in the workers' threads; the reading thread adds deliveries and commits.
    """

    def __init__(
        self, limits: Limits, retry: Retry, lines: FollowedLines, rejects: Rejects | None
    ) -> None:
        self.lock = RLock()
        self.changed = Condition(self.lock)
        self.ended = Condition(self.lock)
        self.schedule: Schedule[Work[D]] = Schedule(limits, retry)
        self.at_work: set[Item[Work[D]]] = set()
        self.is_stopping = False
        self.fatal: BaseException | None = None
        self._lines = lines
        self._retry = retry
        self._rejects = rejects
        self._log_s = 0.0
        self._unlogged = 0

    def start(self, count: int, handle: Callable[[D], object]) -> None:
        """Start the threads; they end with the process, if not before."""
        for number in range(count):
            name = f"handler-{number}"
            Thread(target=self._work, args=(handle,), name=name, daemon=True).start()

    def stop(self) -> None:
        """Start no more handlers. Takes no lock, as a signal's handler may call it."""
        self.is_stopping = True

    def reject(self, delivery: D, reason: str, detail: str) -> None:
        """Write a delivery that is being handled to the topic of rejects."""
        rejects = required(self._rejects)
        with self.lock:
            running = (each for each in self.at_work if not each.partition.is_gone)
            place = delivery.place
            item = next((each for each in running if each.content.delivery.place == place), None)
            if item is None:
                raise SequencerError(
                    f"{delivery.place} is not being handled here.",
                    "It was not rejected.",
                    "Reject a delivery within its handler; one whose partition another reader has "
                    "now comes again there.",
                )
        rejects.write(item.content.message, reason, detail)

    def _work(self, handle: Callable[[D], object]) -> None:
        try:
            while (item := self._next()) is not None:
                self._end(item, self._handle(item, handle))
        except BaseException as error:  # noqa: BLE001  (the reader is to end, and raises it)
            self.fatal = error
            self.stop()

    def _handle(self, item: Item[Work[D]], handle: Callable[[D], object]) -> BaseException | None:
        """Call the handler; what it raised, or None where the delivery is finished."""
        is_handled = False
        try:
            if self._is_due(item.content):
                is_handled = True
                handle(item.content.delivery)
        except Exception as error:  # noqa: BLE001  (whatever a handler raises parks its channel)
            return self._rejected(item, error) if is_handled else error
        except BaseException as error:  # noqa: BLE001  (SystemExit: the reader is to end)
            self.fatal = error
            self.stop()
            return error
        return None

    def _next(self) -> Item[Work[D]] | None:
        """Wait for the next delivery that may be handled; None where the reader stops."""
        with self.lock:
            while not self.is_stopping:
                now_s = time.monotonic()
                item = self.schedule.take(now_s)
                if item is not None:
                    self.at_work.add(item)
                    return item
                due_s = self.schedule.next_try_s()
                self.changed.wait(None if due_s is None else max(0.0, due_s - now_s))
        return None

    def _is_due(self, work: Work[D]) -> bool:
        """Whether a delivery is to be handled: it is tried again, or it is no repeat."""
        if work.is_started:
            return True
        before, is_certain = self._lines.asked(work.delivery)
        work.before, work.is_started = before, True
        return self._lines.follow(work.delivery, before, is_certain)

    def _rejected(self, item: Item[Work[D]], error: Exception) -> Exception | None:
        """Reject a delivery whose last try failed; None where that is done, else the error."""
        item.content.failures += 1
        with self.lock:
            failures, is_gone = item.content.failures, item.partition.is_gone
        if self._retry.tries is None or failures < self._retry.tries or is_gone:
            return error
        text = _text(error)
        try:
            required(self._rejects).write(item.content.message, HANDLER_FAILED, text)
        except SequencerError as failure:
            return failure
        logger.warning(
            "%s was rejected after %d tries: %s", item.content.delivery.place, failures, text
        )
        return None

    def _end(self, item: Item[Work[D]], error: BaseException | None) -> None:
        """The handler has returned, or failed."""
        work, text = item.content, _text(error)
        with self.lock:
            self.at_work.remove(item)
            if error is None:
                if not self.schedule.finish(item):
                    self._lines.doubt_key(work.delivery)
            else:
                work.error = text
                if not self.schedule.fail(item, time.monotonic()) and work.is_started:
                    self._lines.set_back(work.delivery, work.before)
                self.changed.notify_all()  # the time of the next try has changed
            self.ended.notify_all()
        if error is not None:
            self._log(item, text)

    def _log(self, item: Item[Work[D]], error: str) -> None:
        """Log a failed handler, one of all in a second."""
        with self.lock:
            now_s, unlogged = time.monotonic(), self._unlogged
            if now_s < self._log_s:
                self._unlogged += 1
                return
            self._log_s, self._unlogged = now_s + LOG_SECONDS, 0
        logger.warning(
            "The handler failed for %s of channel %r: %s. Its channel waits, others go on.%s",
            item.content.delivery.place,
            item.channel.name[2],
            error,
            f" {unlogged} more failed since the last such line." if unlogged else "",
        )


def _text(error: BaseException | None) -> str:
    """An exception in one line."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  (its own __str__ may fail)
        text = type(error).__name__
    return " ".join(text.split())[:ERROR_CHARACTERS_MAX]

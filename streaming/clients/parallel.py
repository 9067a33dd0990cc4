"""Handling deliveries in several threads: channels side by side, each in order.

The thread that calls `run` reads, commits and answers Kafka's rebalances; workers (`working`) call
the handler. What may run and what may be committed is decided in `scheduling`. Only the reading
thread commits, and only for partitions that the reader has.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from inspect import iscoroutinefunction
from threading import Event, get_ident
from typing import Any, Generic, TypeVar

from streaming.clients.committing import Commits
from streaming.clients.deliveries import Delivery
from streaming.clients.followed import FollowedLines
from streaming.clients.limits import Limits, Retry
from streaming.clients.rejecting import Rejects, required
from streaming.clients.working import HANDLER_FAILED, Work, Workers
from streaming.errors import ConfigError
from streaming.places import TopicPartition

WORKERS_MAX = 1_000
TURN_RECORDS = 500
POLL_SECONDS = 0.1
POLL_SECONDS_PAUSED = 0.01
RECORD_BYTES = 200
"""What a record takes besides its key and value, about."""

logger = logging.getLogger("streaming.clients")

D = TypeVar("D", bound=Delivery)


@dataclass(frozen=True, slots=True)
class Parked(Generic[D]):
    """A channel whose handler failed; ``delivery`` is retried ``next_try_s`` from now.

    ``waiting`` deliveries of the channel were read and are not finished, this one included.
    """

    delivery: D
    failures: int
    next_try_s: float
    error: str
    waiting: int


@dataclass(frozen=True, slots=True)
class Lent(Generic[D]):
    """What OrderedConsumer lends to its parallel form.

    ``read`` returns the delivery that a message is, or, where it is none for this reader, the next
    offset; ``lose_all`` notes that the consumer is out of its group; ``leave`` closes it.
    """

    consumer: Any
    lines: FollowedLines
    read: Callable[[Any], D | int]
    lose_all: Callable[[], None]
    leave: Callable[[], None]


class ParallelConsumer(Generic[D]):
    """Calls a handler for each delivery, in several threads (`OrderedConsumer.parallel`).

    Deliveries of one channel (in other disciplines: of one key) are handled one after another, in
    order, each when the one before it is finished; channels side by side. A delivery is finished
    when its handler has returned. For each partition the offset is committed below which all is
    finished: after a crash, or where a partition goes to another reader, what was finished beyond
    it comes again.

    A handler that raises an exception parks its channel, and is called again with the same delivery
    after a while (``retry``); other channels go on. With ``rejects``, a delivery that failed
    ``retry.tries`` times is written there, and its channel goes on. At a limit (``limits``) a
    partition pauses; :attr:`paused` and :attr:`parked`, and the logger "streaming.clients", say so.

    Threads cannot be ended from outside: a handler that never returns keeps its thread and its
    channel, and holds up the commits of its partition. Give its calls time limits of their own.
    """

    def __init__(
        self, lent: Lent[D], workers: int, limits: Limits, retry: Retry, rejects: Rejects | None
    ) -> None:
        if not 1 <= workers <= WORKERS_MAX:
            raise ConfigError(
                f"{workers} workers cannot be.", "Nothing was read.", f"Give 1 to {WORKERS_MAX:,}."
            )
        if retry.tries is not None:
            required(rejects)
        self.limits = limits
        self._lent = lent
        self._count = workers
        self._rejects = rejects
        self._workers: Workers[D] = Workers(limits, retry, lent.lines, rejects)
        self._lock = self._workers.lock
        self._schedule = self._workers.schedule
        self._commits = Commits(lent.consumer, limits.commit_s)
        self._new: list[TopicPartition] = []
        self._thread: int | None = None
        self._is_closed = False
        self._ended = Event()

    # ---- for users

    def run(self, handle: Callable[[D], object]) -> None:
        """Read, and call ``handle`` for each delivery, until :meth:`stop`; then close the reader.

        Whatever ends it (also Ctrl-C, or an error), running handlers are waited for, for
        ``limits.drain_s``, and what is finished is committed. Raises what OrderedConsumer.poll
        raises, and what a handler raises that is no Exception (SystemExit).
        """
        if iscoroutinefunction(handle):
            raise ConfigError(
                "The handler is a coroutine function.", "Nothing was read.", "Use run_async()."
            )
        if self._thread is not None or self._is_closed:
            raise ConfigError("This reader has run.", "Nothing was read.", "Make a new one.")
        self._thread = get_ident()
        try:
            self._workers.start(self._count, handle)
            while not self._workers.is_stopping:
                self._turn()
        finally:
            self.close()
        if self._workers.fatal is not None:
            raise self._workers.fatal

    async def run_async(self, handle: Callable[[D], Coroutine[Any, Any, object]]) -> None:
        """Do what :meth:`run` does, with a coroutine function, on the running event loop.

        As many handlers run at once as there are workers. Where the task is cancelled, running
        handlers are waited for like at any end. A handler rejects with
        ``await asyncio.to_thread(parallel.reject, delivery, …)``.
        """
        loop = asyncio.get_running_loop()

        def call(delivery: D) -> object:
            return asyncio.run_coroutine_threadsafe(handle(delivery), loop).result()

        reading = loop.run_in_executor(None, self.run, call)
        try:
            await asyncio.shield(reading)
        except asyncio.CancelledError:
            self.stop()
            await reading
            raise

    def stop(self) -> None:
        """Let :meth:`run` end; from any thread, a handler, or a signal's handler."""
        self._workers.stop()

    def close(self) -> None:
        """Wait for running handlers, commit what is finished, and leave the group.

        Handlers that run longer than ``limits.drain_s`` are abandoned: their threads end with the
        process, and their deliveries come again. A handler calls :meth:`stop` instead, as it would
        wait for itself.
        """
        self.stop()
        if self._thread not in (None, get_ident()):
            self._ended.wait()  # the thread that reads does it
        elif not self._is_closed:
            self._is_closed = True
            with self._lock:
                self._workers.changed.notify_all()
            try:
                self._let_go(list(self._schedule.partitions), self.limits.drain_s)
            finally:
                self._lent.leave()
                self._ended.set()

    def reject(self, delivery: D, reason: str = HANDLER_FAILED, detail: str = "") -> None:
        """Write a delivery to the rejects topic; its handler calls this, and then returns.

        It is the record as it was read, with the headers `reject-reason`, `reject-topic`,
        `reject-partition`, `reject-offset` and, if given, `reject-detail`, and it is there when
        this returns. Raises SequencerError for a delivery that no handler has now, or whose
        partition is another reader's; KafkaUnavailable where Kafka did not take it; ConfigError
        without a topic.
        """
        self._workers.reject(delivery, reason, detail)

    @property
    def parked(self) -> list[Parked[D]]:
        """Channels whose handler fails, by the time of their next try."""
        now_s = time.monotonic()
        with self._lock:
            return [
                Parked(
                    item.content.delivery,
                    item.channel.failures,
                    max(0.0, due_s - now_s),
                    item.content.error,
                    waiting,
                )
                for due_s, item, waiting in self._schedule.parked()
            ]

    @property
    def paused(self) -> dict[TopicPartition, str]:
        """Paused partitions, each with the limit that it reached."""
        with self._lock:
            found = {
                partition: each.paused for partition, each in self._schedule.partitions.items()
            }
        return {partition: why for partition, why in found.items() if why}

    @property
    def running(self) -> list[D]:
        """Deliveries whose handlers run now."""
        with self._lock:
            return [each.content.delivery for each in self._workers.at_work]

    # ---- for OrderedConsumer

    def positions(self) -> dict[TopicPartition, int | None]:
        """Return, by partition, the offset below which everything is finished; None: not known."""
        with self._lock:
            return {partition: each.prefix for partition, each in self._schedule.partitions.items()}

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Begin to read partitions that were assigned."""
        with self._lock:
            for partition in partitions:
                self._forget([partition])
                self._schedule.assign(partition)
            self._new += partitions

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions go to others: wait for what runs, commit, forget."""
        self._let_go(partitions, 0 if self._is_closed else self.limits.drain_s)
        self.lost(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Others have these partitions already: forget them, and commit nothing."""
        with self._lock:
            self._forget(partitions)

    def committed(self, error: Any, topic_partitions: list[Any]) -> None:
        """Take Kafka's answer to a commit."""
        with self._lock:
            for topic, partition, offset in self._commits.answered(error, topic_partitions):
                self._schedule.note_committed((topic, partition), offset)

    # ---- the thread that reads

    def _turn(self) -> None:
        """Read what is there, pause and resume, commit."""
        with self._lock:
            is_paused = any(each.paused for each in self._schedule.partitions.values())
        timeout_s = POLL_SECONDS_PAUSED if is_paused else POLL_SECONDS
        for _ in range(TURN_RECORDS):
            message = self._lent.consumer.poll(timeout_s)
            if message is None or self._take(message) or self._workers.is_stopping:
                break
            timeout_s = 0
        self._pause()
        with self._lock:
            moved = self._schedule.committable()
        self._commits.begin(moved, time.monotonic())

    def _take(self, message: Any) -> bool:
        """Give a message to the schedule; whether its partition has to pause now."""
        from confluent_kafka import KafkaError  # noqa: PLC0415  (a cheap import of this package)

        error = message.error()
        if error and error.code() == KafkaError._MAX_POLL_EXCEEDED:  # noqa: SLF001  (its name)
            logger.warning("This process did not run for a while, and lost its partitions.")
            self._lent.lose_all()
            return False
        found = self._lent.read(message)
        partition = (message.topic(), message.partition())
        with self._lock:
            if partition not in self._schedule.partitions:
                return False  # no longer ours
            if isinstance(found, int):
                self._schedule.pass_over(partition, found)
                return False
            position = self._schedule.partitions[partition].position
            if position is not None and found.offset < position:
                logger.warning("%s/%d is read again from offset %d on", *partition, found.offset)
                self._forget([partition])
                self._schedule.assign(partition)
            size = len(found.key or b"") + len(found.value or b"") + RECORD_BYTES
            name = self._lent.lines.channel_of(found)
            is_full = self._schedule.add(partition, found.offset, name, size, Work(found, message))
            self._workers.changed.notify()
            return is_full

    def _pause(self) -> None:
        from confluent_kafka import TopicPartition as Assigned  # noqa: PLC0415  (a cheap import)

        with self._lock:
            new, self._new = self._new, []
            pause, resume = self._schedule.pauses()
            begun = [each for each in new if each in self._schedule.partitions]
        consumer = self._lent.consumer
        consumer.resume([Assigned(*partition) for partition in {*resume, *begun} - pause.keys()])
        consumer.pause([Assigned(*partition) for partition in pause])
        for partition, why in pause.items():
            level = logging.DEBUG if why.endswith(" wait") else logging.WARNING
            logger.log(level, "%s/%d pauses: %s.", *partition, why)

    def _let_go(self, partitions: Collection[TopicPartition], limit_s: float) -> None:
        """Start nothing more of these partitions, wait for what runs, commit what is finished."""
        deadline = time.monotonic() + limit_s
        with self._lock:
            self._schedule.leave(partitions)
            while count := self._schedule.running(partitions):
                rest_s = deadline - time.monotonic()
                if rest_s <= 0:
                    if limit_s:
                        logger.warning("%d handlers run on; their deliveries come again.", count)
                    break
                self._workers.ended.wait(min(rest_s, 1.0))
            moved = self._schedule.committable()
        moved = {
            partition: offset for partition, offset in moved.items() if partition in partitions
        }
        committed = self._commits.now(moved)
        with self._lock:
            for partition, offset in committed.items():
                self._schedule.note_committed(partition, offset)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions; deliveries whose handlers failed are no repeats when read again."""
        for work in self._schedule.remove(partitions):
            if work.is_started:
                self._lent.lines.set_back(work.delivery, work.before)

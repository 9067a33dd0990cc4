"""The clients for asyncio: each works in a thread of its own, one call after another.

librdkafka waits in C, so a call that waits would hold up the event loop. A client's thread takes
its calls in the order in which they were made; while one waits, coroutines of others run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar

from streaming.clients.deliveries import Delivery
from streaming.clients.reading import OrderedConsumer
from streaming.clients.sending import SECONDS_MAX
from streaming.errors import ConfigError, SequencerError

POLL_SECONDS = 0.2
"""The longest that one call of the thread reads, as others wait behind it."""

D = TypeVar("D", bound=Delivery)
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class Sends(Protocol[P, R_co]):
    """A LabelledProducer, a GroupPublisher or a MulticastSender."""

    def send(self, *args: P.args, **more: P.kwargs) -> R_co:
        """Send a message."""

    def flush(self, limit_s: float = SECONDS_MAX) -> None:
        """Wait until Kafka has everything."""

    def __exit__(self, *_: object) -> None: ...


class AsyncSender(Generic[P, R]):
    """A producer for asyncio: ``AsyncSender(LabelledProducer(kafka, "orders.in"))``.

    Use it in an `async with`, which flushes (and closes) the producer at its end. The producer is
    called in a thread of its own, this class from one event loop.
    """

    def __init__(self, sender: Sends[P, R]) -> None:
        self.sender = sender
        self._thread = ThreadPoolExecutor(1, "sender")
        self._is_closed = False

    async def send(self, *args: P.args, **more: P.kwargs) -> R:
        """Do what the producer's `send` does, and return what it returns.

        Messages go out in the order of the calls, also of several tasks. It returns when librdkafka
        has the message, which takes long only where Kafka is slow; :meth:`flush` waits for Kafka.
        Where the task is cancelled, the message may be sent nevertheless.
        """
        return await self.run(self.sender.send, *args, **more)

    async def flush(self, limit_s: float = SECONDS_MAX) -> None:
        """Wait until Kafka has everything, or raise KafkaUnavailable."""
        await self.run(self.sender.flush, limit_s)

    async def run(self, call: Callable[..., T], *args: Any, **more: Any) -> T:
        """Call something else of the producer, in turn: ``s.run(publisher.barrier, "G0")``."""
        if self._is_closed:
            what, effect = "This producer is closed.", "Nothing was sent."
            raise SequencerError(what, effect, "Make a new one.")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: call(*args, **more))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        try:
            await self.run(self.sender.__exit__, kind, error, where)
        finally:
            self._is_closed = True
            self._thread.shutdown(wait=False)


class AsyncConsumer(Generic[D]):
    """A reader for asyncio: ``AsyncConsumer(OrderedConsumer(kafka, ["orders.out"], group="g"))``.

    Use it in an `async with`, which leaves the group at its end. `resume`, `on_hole` and
    `on_disorder` of the reader are called in its thread, and this class from one event loop. To
    handle channels side by side: `OrderedConsumer.parallel` and its `run_async`.
    """

    def __init__(self, reader: OrderedConsumer[D]) -> None:
        self.reader = reader
        self._thread = ThreadPoolExecutor(1, "reader")
        self._polling: asyncio.Future[D | None] | None = None
        self._turn = asyncio.Lock()
        self._call = asyncio.Lock()  # fair: a commit comes before the next part of a poll
        self._is_closed = False

    async def poll(self, timeout_s: float = 1.0) -> D | None:
        """Return the next delivery, or None if none arrives in time.

        Nothing is lost where the task is cancelled meanwhile: the next call returns what came.
        """
        deadline, loop = time.monotonic() + timeout_s, asyncio.get_running_loop()
        async with self._turn:
            while True:
                left_s = max(0.0, min(POLL_SECONDS, deadline - time.monotonic()))
                async with self._call:
                    if self._polling is None:
                        self._require_open()
                        self._polling = loop.run_in_executor(self._thread, self.reader.poll, left_s)
                    polling = self._polling
                    await asyncio.wait([polling])  # which a cancelled task does not end
                    self._polling = None
                    found = polling.result()
                if found is not None or time.monotonic() >= deadline:
                    return found

    async def commit(self) -> bool:
        """Commit what was read so far; return whether that was done.

        It is not where a poll that was cancelled has read a delivery that nobody was given yet.
        """
        async with self._call:
            self._require_open()
            polling = self._polling
            if polling is not None:
                await asyncio.wait([polling])
                if polling.exception() is not None or polling.result() is not None:
                    return False  # the next poll returns or raises it
                self._polling = None
            await asyncio.get_running_loop().run_in_executor(self._thread, self.reader.commit)
        return True

    async def close(self) -> None:
        """Leave the group; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, self.reader.close)
            finally:
                self._thread.shutdown(wait=False)

    async def __aiter__(self) -> AsyncIterator[D]:
        while True:
            delivery = await self.poll()
            if delivery is not None:
                yield delivery

    def _require_open(self) -> None:
        if self._is_closed:
            what, effect = "This reader is closed.", "Nothing was read or committed."
            raise ConfigError(what, effect, "Make a new one.")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

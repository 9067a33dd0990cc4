"""What producers share, and those of groups and multicasts; over confluent-kafka's producer."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import call
from typing import Any, Self

from streaming.clients.barriers import BARRIER, Barrier
from streaming.clients.connecting import Refusals, connected, is_fatal
from streaming.clients.deliveries import Delivery, Header, to_bytes
from streaming.clients.reading import OrderedConsumer
from streaming.errors import ConfigError, KafkaUnavailable, SequencerError
from streaming.kafka.header_names import is_header_name
from streaming.kafka.interruptible import as_interrupt
from streaming.kafka.record_sizes import BATCH_BYTES

DESTINATIONS_MAX = 10_000
HANDLES_MAX = 1_000
NAME_BYTES_MAX = 10_000
SECONDS_MAX = 60
NOT_SENT = "The message of this call was not sent either."
HEADER_NAMES = "Names are text (str) that UTF-8 can write, without NUL."


class Sender:
    """What the producers share: messages go out in order; what Kafka does not take is reported.

    ``kafka`` are librdkafka's properties (``bootstrap.servers`` at least).
    """

    lost = ("They are missing; those sent after them may be there.", "Send them again.")
    """What it means that Kafka did not take a message, and what to do."""

    def __init__(self, kafka: dict[str, Any], topic: str) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415  (a cheap import of this package)

        settings = {"enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 5}
        self._refusals = Refusals()
        self._producer = connected(Producer, {**BATCH_BYTES, **settings, **kafka}, self._refusals)
        self._topic = topic
        self._failed: list[str] = []

    def flush(self, limit_s: float = SECONDS_MAX) -> None:
        """Wait until Kafka has everything, or raise KafkaUnavailable."""
        left = self._producer.flush(limit_s)
        self._raise_failures()
        if left:
            refused = self._refusals.recent()
            raise KafkaUnavailable(
                f"Kafka has not taken {left} messages within {limit_s} s"
                + (f", since TLS or authentication fails: {refused}." if refused else "."),
                "They are still being sent.",
                "Check user, password and certificates; to change them, make a new producer."
                if refused
                else "Call flush() again when Kafka answers.",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def _produce(  # noqa: PLR0913  (what a message can have, each with its name)
        self,
        key: bytes,
        value: bytes | str | None,
        headers: list[Header],
        timestamp: int | None,
        effect: str = "It was not sent.",
        *,
        topic: str = "",
        partition: int | None = None,
        on_delivery: Callable[[Any, Any], None] | None = None,
        taken: list[None] | None = None,
    ) -> None:
        """Give a message to librdkafka. ``effect``: what it means that this cannot be done.

        Without ``partition`` the key decides. ``topic``: another one than the producer's.
        ``on_delivery``: takes Kafka's answer. ``taken`` gets an element where librdkafka has the
        message, also if an interrupt follows.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415

        _require_names(headers, effect)
        more: dict[str, Any] = {} if timestamp is None else {"timestamp": timestamp}
        more["on_delivery"] = on_delivery or self._note
        if partition is not None:
            more["partition"] = partition
        arguments = (topic or self._topic, value, key)
        produce = partial(self._producer.produce, *arguments, headers=headers, **more)
        taken = [] if taken is None else taken
        self._producer.poll(0)  # before: what the user's callbacks raise is of a message not sent
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                taken.extend(map(call, (produce,)))  # at once: no signal's handler runs in between
            except BufferError:
                if time.monotonic() > deadline:
                    raise KafkaUnavailable("Kafka takes no messages.", effect) from None
                self._producer.poll(0.1)
            except TypeError as error:
                raise as_interrupt(error) from None
            except KafkaException as error:
                remedy = "Make a new producer: this one sends no more." * is_fatal(error.args[0])
                raise SequencerError(
                    f"The message cannot be sent: {error.args[0].str()}.", effect, remedy
                ) from error
            else:
                return

    def _note(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(error.str())

    def _raise_failures(self, own: str = "") -> None:
        """Raise what Kafka did not take; ``own``: what it means for what is to be sent now."""
        if self._failed:
            count, first = len(self._failed), self._failed[0]
            self._failed.clear()
            (effect, remedy), what = self.lost, f"Kafka did not take {count} messages: {first}."
            raise KafkaUnavailable(what, f"{effect} {own}".rstrip(), remedy)


def _require_names(headers: list[Header], effect: str) -> None:
    for name, *_ in headers:
        if not is_header_name(name):
            raise SequencerError(f"{name!r} is not the name of a header.", effect, HEADER_NAMES)


class CausalSender(Sender):
    """A sender that says what it had read before it sent, where it is given a consumer.

    ``reads`` is that consumer: each message names the last delivery that it gave of each key, in
    the header ``causes``. The service does not look at it; `sequencer verify --causes` does.
    """

    def __init__(
        self,
        kafka: dict[str, Any],
        topic: str,
        sender: bytes | str,
        *,
        reads: OrderedConsumer[Any] | None = None,
        causes: str = "causes",
    ) -> None:
        if not sender:
            raise ConfigError("A sender needs a name.", "Nothing was connected.", "Name it.")
        super().__init__(kafka, topic)
        self.sender = to_bytes(sender)
        self._reads = reads
        self._causes = causes

    def _send(
        self,
        value: bytes | str | None,
        headers: list[Header],
        timestamp: int | None,
        after: Iterable[Delivery],
    ) -> None:
        self._raise_failures(NOT_SENT)
        causes = [*(self._reads.causes() if self._reads else ()), *(read.place for read in after)]
        if causes:
            headers.append((self._causes, ",".join(dict.fromkeys(causes)).encode()))
        self._produce(self.sender, value, headers, timestamp)

    def _barrier(self, header: Header) -> Barrier:
        """Send a barrier, each copy with ``header``, which says where it goes."""
        self._raise_failures("No barrier was sent.")
        token = secrets.token_hex(16).encode()
        partitions = self._partitions()
        for partition in range(partitions):
            headers: list[Header] = [header, (BARRIER, token)]
            self._produce(self.sender, None, headers, None, partition=partition)
        self.flush()
        return Barrier(token, self.sender, partitions)

    def _partitions(self) -> int:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            found = self._producer.list_topics(self._topic, SECONDS_MAX).topics[self._topic]
        except KafkaException as error:
            raise KafkaUnavailable(
                f"Kafka does not say which partitions {self._topic} has: {error.args[0].str()}.",
                "No barrier was sent.",
            ) from error
        if not found.partitions:
            raise KafkaUnavailable(f"There is no topic {self._topic}.", "No barrier was sent.")
        return len(found.partitions)


class GroupPublisher(CausalSender):
    """Publishes to groups as one sender; all its messages keep their order.

    `sender` becomes the key, so that all it sends lies in one input partition. See CausalSender
    for `reads` and `causes`. Raises SequencerError for a message that cannot be sent,
    KafkaUnavailable where Kafka did not take one.
    """

    def send(
        self,
        group: str,
        value: bytes | str | None,
        headers: Sequence[Header] = (),
        *,
        timestamp: int | None = None,
        after: Iterable[Delivery] = (),
    ) -> None:
        """Send a message to a group.

        ``after``: deliveries of which the sender heard from others. ``timestamp`` in ms.
        """
        if not group:
            raise SequencerError("A message needs a group.", "It was not sent.", "Name one.")
        self._send(value, [*headers, ("group", group.encode())], timestamp, after)

    def barrier(self, group: str) -> Barrier:
        """Send a message to oneself through a group to which this sender subscribes.

        Its copies have no value; the group's other subscribers get them, too. With `sequencing =
        "batch"` everything that was sent to any group before comes before it, with "network"
        everything that was sent to ``group`` and had come back to who sent it.
        """
        if not group:
            raise SequencerError("A barrier needs a group.", "It was not sent.", "Name one.")
        return self._barrier(("group", group.encode()))


class MulticastSender(CausalSender):
    """Sends to any peers and nodes as one sender; all its messages keep their order.

    ``sender`` becomes the key, so that all it sends lies in one input partition. See CausalSender
    for `reads` and `causes`. Raises SequencerError for a message that cannot be sent,
    KafkaUnavailable where Kafka did not take one.
    """

    def send(
        self,
        to: Sequence[bytes | str],
        value: bytes | str | None,
        headers: Sequence[Header] = (),
        *,
        handles: Sequence[str] | None = None,
        timestamp: int | None = None,
        after: Iterable[Delivery] = (),
    ) -> None:
        """Send a message to peers by name and nodes as ``@name``.

        ``handles``: names of nodes whose handles go along; ``timestamp`` in ms; ``after``:
        deliveries of which the sender heard from somebody else.
        """
        more: list[Header] = [("to", _listed(to, "destination", 1, DESTINATIONS_MAX))]
        if handles is not None:
            names = [handles] if isinstance(handles, str) else handles
            nodes = [f"@{name.removeprefix('@')}" for name in names]
            more.append(("handles", _listed(nodes, "handle", 0, HANDLES_MAX)))
        self._send(value, [*headers, *more], timestamp, after)

    def barrier(self) -> Barrier:
        """Send a message to oneself, the peer with this sender's name.

        Its copies have no value. With `order = "batch"` everything that was sent to this peer
        before comes before it, with "clock" and "counter" everything of which its sender knew that
        it was ordered (a barrier of its own had passed).
        """
        return self._barrier(("to", _listed([self.sender], "destination", 1, 1)))


def _listed(names: Sequence[bytes | str], what: str, least: int, most: int) -> bytes:
    """Names as a header lists them; SequencerError where they cannot be written so."""
    if isinstance(names, (bytes, str)):
        names = [names]
    found = [to_bytes(name) for name in names]
    wrong = next((name for name in found if name in {b"", b"@"} or b"," in name), None)
    long = next((name for name in found if len(name) > NAME_BYTES_MAX), None)
    if wrong is not None:
        problem, remedy = (
            f"{wrong!r} is not the name of a {what}",
            "Names are not empty, and have no comma.",
        )
    elif long is not None:
        problem = f"{long[:20]!r}… is too long for a {what}"
        remedy = f"A name has at most {NAME_BYTES_MAX:,} bytes."
    elif not least <= len(found) <= most:
        problem = f"A message cannot have {len(found):,} {what}s"
        remedy = f"Between {least} and {most:,} are allowed."
    else:
        return b",".join(found)
    raise SequencerError(f"{problem}.", "The message was not sent.", remedy)

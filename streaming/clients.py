"""Clients for users of the service: a producer that labels, a consumer that trusts nobody."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

from sequencer.labels import LinearLabels
from sequencer.proxy import LabelProxy
from streaming.errors import KafkaUnavailable, SequencerError

CHANNELS_MAX = 1_000_000
SECONDS_MAX = 60

Header = tuple[str, bytes | None]


class LabelledProducer:
    """Labels what it sends: a label proxy for each channel, over confluent-kafka's producer.

    ``kafka`` are librdkafka's properties (``bootstrap.servers`` at least). Labels begin anew with
    each instance, under ``epoch``: by default the time (ms) at which it was made, so that a sender
    that starts again takes over from its former life. Epoch 0 writes no epoch header. One instance
    is the sender of its channels: two at once on one channel would use the same labels.

    Raises SequencerError for more than 1,000,000 channels, KafkaUnavailable where a message was not
    taken: its label is then missing, and the channel waits for it, so make a new instance (a new
    epoch) and send again.
    """

    def __init__(
        self,
        kafka: dict[str, Any],
        topic: str,
        *,
        labels: Any = None,
        epoch: int | None = None,
    ) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415  (a cheap import of this package)

        settings = {"enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 5}
        self._producer = Producer({**settings, **kafka})
        self._topic = topic
        self._labels = labels or LinearLabels()
        self.epoch = int(time.time() * 1000) if epoch is None else epoch
        self._proxies: dict[bytes, LabelProxy[Any, dict[str, Any]]] = {}
        self._failed: list[str] = []

    def send(
        self,
        channel: bytes | str,
        value: bytes | str | None,
        headers: Sequence[Header] = (),
        *,
        timestamp: int | None = None,
        fin: bool = False,
    ) -> Any:
        """Send the next message of a channel; its label. ``timestamp`` in ms; ``fin``: the last."""
        self._raise_failures()
        key = channel.encode() if isinstance(channel, str) else channel
        proxy = self._proxies.get(key)
        if proxy is None:
            if len(self._proxies) >= CHANNELS_MAX:
                raise SequencerError(
                    f"This producer has labelled {CHANNELS_MAX:,} channels.",
                    "The message was not sent.",
                    "Spread the channels over several producers.",
                )
            proxy = self._proxies[key] = LabelProxy(self._produce, self._labels)
        more = {} if timestamp is None else {"timestamp": timestamp}
        label = proxy.label
        proxy({"key": key, "value": value, "headers": headers, "fin": fin, **more})
        self._producer.poll(0)
        return label

    def flush(self, limit_s: float = SECONDS_MAX) -> None:
        """Wait until Kafka has everything; KafkaUnavailable where it has not."""
        left = self._producer.flush(limit_s)
        self._raise_failures()
        if left:
            raise KafkaUnavailable(f"Kafka has not taken {left} messages within {limit_s} s.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def _produce(self, labelled: tuple[Any, dict[str, Any]]) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        label, message = labelled
        headers = [*message.pop("headers"), ("label", str(label).encode())]
        if self.epoch:
            headers.append(("epoch", b"%d" % self.epoch))
        if message.pop("fin"):
            headers.append(("fin", b""))
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                self._producer.produce(
                    self._topic, headers=headers, on_delivery=self._note, **message
                )
            except BufferError:
                if time.monotonic() > deadline:
                    raise KafkaUnavailable("Kafka takes no messages.") from None
                self._producer.poll(0.1)
            except KafkaException as error:
                raise SequencerError(
                    f"The message cannot be sent: {error.args[0].str()}.",
                    f"The label {label} was not used; the next message of the channel has it.",
                ) from error
            else:
                return

    def _note(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(error.str())

    def _raise_failures(self) -> None:
        if self._failed:
            count, first = len(self._failed), self._failed[0]
            self._failed.clear()
            raise KafkaUnavailable(
                f"Kafka did not take {count} messages: {first}.",
                "Their labels are missing; the service holds what follows them.",
                "Make a new LabelledProducer (it begins a new epoch) and send again.",
            )


@dataclass(frozen=True, slots=True)
class Delivery:
    """An ordered record; ``headers`` without those that the service added, ``timestamp`` in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    sequence: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class Hole:
    """Deliveries of a channel that are missing: ``expected`` up to, but without, ``found``.

    ``key`` is the channel's name.
    """

    key: bytes | None
    incarnation: int
    expected: int
    found: int


class OrderedConsumer:
    """Reads ordered topics: committed records only, repeats dropped, holes reported.

    A repeat has an (incarnation, sequence) of its key that is not above the last one. Holes are
    kept in :attr:`holes` and given to ``on_hole``. What a key had last is remembered for 1,000,000
    keys; after that, and after a restart in the middle, the first record of a key sets its place.
    Iterate, or call :meth:`poll`; :meth:`commit` notes what was read for ``group``.

    ``channel``: where a pipeline's `channel` is not the record's key, sequences count a channel's
    deliveries, and this function has to tell the channel of a delivery; otherwise records of
    several channels with one key would look like repeats of each other.
    """

    def __init__(
        self,
        kafka: dict[str, Any],
        topics: Sequence[str],
        *,
        group: str,
        from_beginning: bool = True,
        header_prefix: str = "",
        on_hole: Callable[[Hole], None] | None = None,
        channel: Callable[[Delivery], bytes | None] = attrgetter("key"),
    ) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415  (a cheap import of this package)

        settings = {
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest" if from_beginning else "latest",
        }
        self._consumer = Consumer({**kafka, **settings})
        self._consumer.subscribe(list(topics), on_revoke=self._forget, on_lost=self._forget)
        self._names = (f"{header_prefix}sequence", f"{header_prefix}incarnation")
        self._last: OrderedDict[tuple[str, int, bytes | None], tuple[int, int]] = OrderedDict()
        self._on_hole = on_hole
        self._channel = channel
        self.holes: list[Hole] = []

    def poll(self, timeout_s: float = 1.0) -> Delivery | None:
        """The next delivery, None where none comes within the time. Repeats are passed over."""
        deadline = time.monotonic() + timeout_s
        while True:
            message = self._consumer.poll(max(0.0, deadline - time.monotonic()))
            if message is None:
                return None
            if message.error():
                raise KafkaUnavailable(f"Reading failed: {message.error().str()}.")
            delivery = self._delivery(message)
            if self._is_next(delivery):
                return delivery

    def __iter__(self) -> Iterator[Delivery]:
        while True:
            delivery = self.poll()
            if delivery is not None:
                yield delivery

    def commit(self) -> None:
        """Note what was read so far; the group goes on from there."""
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _delivery(self, message: Any) -> Delivery:
        headers = tuple(message.headers() or ())
        own, added = headers[:-2], headers[-2:]
        if tuple(name for name, _ in added) != self._names:
            raise SequencerError(
                f"{message.topic()}/{message.partition()}@{message.offset()} has no "
                f"{' and '.join(self._names)}: this is no output of the service.",
                remedy="Check topic and header_prefix.",
            )
        return Delivery(
            message.topic(),
            message.partition(),
            message.offset(),
            message.timestamp()[1],
            message.key(),
            message.value(),
            own,
            int(added[0][1]),
            int(added[1][1]),
        )

    def _is_next(self, delivery: Delivery) -> bool:
        """Whether the delivery is no repeat; notes holes."""
        name = (delivery.topic, delivery.partition, channel := self._channel(delivery))
        last = self._last.pop(name, None)
        here = (delivery.incarnation, delivery.sequence)
        if last is not None and here <= last:
            self._last[name] = last
            return False
        self._last[name] = here
        if len(self._last) > CHANNELS_MAX:
            self._last.popitem(last=False)
        if last is None:
            return True
        expected = last[1] + 1 if delivery.incarnation == last[0] else 0
        if delivery.sequence > expected:
            hole = Hole(channel, delivery.incarnation, expected, delivery.sequence)
            self.holes.append(hole)
            if self._on_hole is not None:
                self._on_hole(hole)
        return True

    def _forget(self, _consumer: Any, places: list[Any]) -> None:
        gone = {(place.topic, place.partition) for place in places}
        for name in [name for name in self._last if name[:2] in gone]:
            del self._last[name]

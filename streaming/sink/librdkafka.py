"""librdkafka's producer, record by record: for connections that nobody else can make."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streaming.arrow.columns import flat
from streaming.arrow.record_batch import Batch
from streaming.disciplines.plan import Plan
from streaming.kafka.choice import COMPRESSION, TRANSACTION_TIMEOUT_MS
from streaming.kafka.connection import flush, is_fenced, quiet
from streaming.sink import failures
from streaming.sink.objects import each, objects, texts, with_headers

if TYPE_CHECKING:
    from confluent_kafka import Producer

KAFKA_SECONDS_MAX = 60
QUEUE_MAX = 500_000
ID_CHARACTERS = 36
PROGRESS = re.compile(r"\S+ \S* (all|[0-9a-f.-]+/)")
CONNECTION = (
    *("bootstrap", "security", "sasl", "ssl", "enable.ssl", "enable.sasl", "https"),
    *("client", "socket"),
)
PRODUCER = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": QUEUE_MAX,
    "message.max.bytes": 100_000_000,  # what is too large is the topics' to say
    "queue.buffering.max.kbytes": 256 * 1024,
    "delivery.report.only.error": True,
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    "retry.backoff.ms": 20,  # a commit's markers take a few ms; by default the next waits 100
}

_spares: dict[str, Any] = {}
"""A connected producer for each transactional id that this worker has used, ready to take over: the
next batch of a partition may come back to this worker after another one had it."""

_progress: dict[str, Any] = {}
"""This worker's consumers by progress group: they ask for committed offsets, and join nothing."""


def noted_id(place: Any) -> str:
    """The id that was committed with an offset: a UUID, of a length that is known."""
    return _noted(place)[:ID_CHARACTERS]


def _noted(place: Any) -> str:
    """What was committed with an offset, and perhaps more.

    librdkafka copies it without an end, so Python gets what lies behind it in memory, too, or fails
    to read that as text.
    """
    try:
        text = place.metadata or ""
    except UnicodeDecodeError as error:
        text = error.object.decode(errors="replace")
    return str(text)


class RecordProducer:
    """Writes for one state partition; methods in the order of `streaming.sink.sink`'s steps."""

    is_reusable = True

    def abort(self) -> None:
        """Leave it to the successor."""

    def __init__(self, plan: Plan, partition: int) -> None:
        self.plan = plan
        self.partition = partition
        self.undelivered: list[str] = []
        self.group: Any = None
        self.transactional = plan.delivery == "exactly-once"
        settings: dict[str, Any] = {**PRODUCER, **plan.producer}
        if not any(name in plan.producer for name in COMPRESSION):
            settings["compression.type"] = "lz4"
        name = plan.transactional_id(partition)
        if self.transactional:
            settings["transactional.id"] = name
        self.spare = (name, settings)
        self.producer: Producer

    def begin_session(self) -> None:
        """Fence whoever had the transactional id; what they left open is aborted."""
        name, settings = self.spare
        self.producer = _spares.pop(name, None) or _connected(settings, self.plan.events)
        if self.transactional:
            self.producer.init_transactions(KAFKA_SECONDS_MAX)

    def progress(self) -> tuple[int, str]:
        """The offset that the group committed, and its metadata; below 0 where there is none."""
        consumer = self._progress_consumer()
        self.group = consumer.consumer_group_metadata()
        place = committed(consumer, self.plan.events)
        found = PROGRESS.match(_noted(place))
        return int(place.offset), found[0] if found else ""

    def begin(self) -> None:
        """Begin a transaction."""
        self.undelivered.clear()
        if self.transactional:
            self.producer.begin_transaction()

    def put(self, topic: str, encoded: Iterable[Batch]) -> None:  # noqa: ARG002
        """TypeError: who encodes batches for it did not ask `choice`."""
        raise TypeError(f"librdkafka takes rows, and {topic} was given batches")

    def write(
        self,
        topic: str,
        table: pa.Table,
        partitions: NDArray[np.int32],
        added: Sequence[tuple[str, pa.Array]],
    ) -> None:
        """Produce rows, in order. Waits where the producer's queue is full."""
        columns = {name: flat(table[name]) for name in table.column_names}
        produce = self.producer.produce
        report = None if self.transactional else self._note
        timed = "timestamp" in columns
        for key, value, header, timestamp, partition in zip(
            each(columns["key"], objects),
            each(columns["value"], objects),
            with_headers(columns["headers"], [(name, each(c, texts)) for name, c in added]),
            each(columns["timestamp"], objects) if timed else [0] * len(table),
            partitions.tolist(),
            strict=True,
        ):
            try:
                produce(topic, value, key, partition, report, report, timestamp, header)
            except BufferError:
                self._make_room()
                produce(topic, value, key, partition, report, report, timestamp, header)

    def send_progress(self, batch: int, metadata: str) -> None:
        """Commit the batch's number, within the transaction."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition  # noqa: PLC0415

        place = [TopicPartition(self.plan.events, 0, batch, metadata=metadata)]
        try:
            self.producer.send_offsets_to_transaction(place, self.group, KAFKA_SECONDS_MAX)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError._STATE:  # noqa: SLF001  (librdkafka's own name)
                raise
            # A record was refused meanwhile; asked again, librdkafka says why.
            self.producer.send_offsets_to_transaction(place, self.group, KAFKA_SECONDS_MAX)

    def finish(self) -> None:
        """Commit the transaction; where there are none, wait until all is acknowledged."""
        if self.transactional:
            self.producer.commit_transaction(KAFKA_SECONDS_MAX)
            if self.spare[0] not in _spares:
                threading.Thread(target=self._keep_spare, daemon=True).start()
            return
        left = flush(self.producer, KAFKA_SECONDS_MAX)
        if left or self.undelivered:
            errors = self.undelivered or [f"{left} messages were not acknowledged"]
            raise failures.unavailable("write a batch", errors[0], transactional=False)

    def close(self) -> None:
        """Give up the producer; what it did not commit is aborted by its successor."""
        with contextlib.suppress(Exception):  # a fenced producer refuses even this
            self.producer.purge()
            self.producer.flush(1)

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Kafka's errors as ours, with what they mean for the batch."""
        with translated(doing, transactional=self.transactional):
            yield

    def _keep_spare(self) -> None:
        name, settings = self.spare
        with contextlib.suppress(Exception):  # without one, the next session takes longer
            _spares[name] = _connected(settings, self.plan.events)

    def _progress_consumer(self) -> Any:
        from confluent_kafka import Consumer  # noqa: PLC0415

        group = self.plan.progress_group(self.partition)
        if group not in _progress:
            settings = {
                name: value
                for name, value in self.plan.producer.items()
                if name.startswith(CONNECTION)
            }
            settings["group.id"] = group
            settings["isolation.level"] = "read_committed"
            settings["enable.auto.commit"] = False
            _progress[group] = Consumer(settings, logger=quiet())
        return _progress[group]

    def _make_room(self) -> None:
        deadline = time.monotonic() + KAFKA_SECONDS_MAX
        while len(self.producer) >= QUEUE_MAX // 2:
            self.producer.poll(0.05)
            if time.monotonic() > deadline:
                why = f"it took no message for {KAFKA_SECONDS_MAX} s"
                raise failures.unavailable("write a batch", why, transactional=self.transactional)

    def _note(self, error: Any, _message: Any) -> None:
        if error is not None:
            self.undelivered.append(str(error))


@contextlib.contextmanager
def translated(doing: str, *, transactional: bool) -> Iterator[None]:
    """Kafka's errors as ours, with what they mean for the batch."""
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    try:
        yield
    except KafkaException as failure:
        error = failure.args[0]
        if is_fenced(error):
            raise failures.fenced() from failure
        large = error.code() == KafkaError.MSG_SIZE_TOO_LARGE or "too large" in error.str()
        raise failures.unavailable(
            doing, error.str(), transactional=transactional, too_large=large
        ) from failure


def _connected(settings: dict[str, Any], topic: str) -> Any:
    """A producer that has a connection.

    Without one, init_transactions waits half a second before it tries again.
    """
    from confluent_kafka import Producer  # noqa: PLC0415  (workers only)

    producer = Producer(settings, logger=quiet())
    producer.list_topics(topic, KAFKA_SECONDS_MAX)
    return producer


def committed(consumer: Any, topic: str) -> Any:
    """The offset that the consumer's group committed for a topic's first partition.

    While the group's coordinator moves or loads, librdkafka gives up at once: ask again.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicPartition  # noqa: PLC0415

    moving = (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    )
    deadline = time.monotonic() + KAFKA_SECONDS_MAX
    while True:
        try:
            place = consumer.committed([TopicPartition(topic, 0)], KAFKA_SECONDS_MAX)[0]
            error = place.error
        except KafkaException as failure:
            error = failure.args[0]
        if error is None:
            return place
        if error.code() not in moving or time.monotonic() > deadline:
            raise KafkaException(error)
        time.sleep(0.1)

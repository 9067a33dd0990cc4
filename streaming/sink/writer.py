"""Writing to Kafka: one producer for a state partition, kept between batches where that is safe."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from streaming.crashes import crash_point
from streaming.disciplines.plan import BatchContext, Plan
from streaming.errors import Fenced, KafkaUnavailable, ProgressMissing

if TYPE_CHECKING:
    from confluent_kafka import Producer


KAFKA_SECONDS_MAX = 60
NEVER = -2
TOO_LARGE = (
    "A record with its added headers is larger than the topic takes, or was compressed in the "
    "input: raise max.message.bytes of the pipeline's output, rejects, events and transit topics."
)
QUEUE_MAX = 500_000
CONNECTION = ("bootstrap", "security", "sasl", "ssl", "enable.ssl", "client", "socket")
PRODUCER = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": QUEUE_MAX,
    "message.max.bytes": 100_000_000,  # what is too large is the topics' to say
    "queue.buffering.max.kbytes": 256 * 1024,
    "delivery.report.only.error": True,
    "transaction.timeout.ms": 60_000,
    "retry.backoff.ms": 20,  # a commit's markers take a few ms; by default the next waits 100
}

_writers: dict[str, Writer] = {}
"""This worker's producers by transactional id. One is used again only for the batch after its own:
if another worker wrote in between, that one has fenced this."""

_spares: dict[str, Any] = {}
"""A connected producer for each transactional id that this worker has used, ready to take over: the
next batch of a partition may come back to this worker after another one had it."""

_found: dict[str, int] = {}
"""Partitions of topics that were looked up, as a plan does not know them."""

_progress: dict[str, Any] = {}
"""This worker's consumers by progress group: they ask for committed offsets, and join nothing."""


class Writer:
    """A producer of one state partition. Use :meth:`batch` around what belongs to one batch."""

    def __init__(self, plan: Plan, partition: int) -> None:
        self.plan = plan
        self.partition = partition
        self.last_batch = -1
        self.errors: list[str] = []
        self.group: Any = None
        self.transactional = plan.delivery == "exactly-once"
        settings: dict[str, Any] = {**PRODUCER, **plan.producer}
        name = plan.transactional_id(partition)
        if self.transactional:
            settings["transactional.id"] = name
        self.producer: Producer = _spares.pop(name, None) or _connected(settings, plan.events)
        self.spare = (name, settings)

    def begin_session(self, query: str) -> int | None:
        """Step 3, first half: fence others, then the last batch written; None if unknown.

        Progress counts only where it was written for ``query``: another checkpoint under the same
        service name has batches of its own.
        """
        consumer = self._progress_consumer()
        with _kafka("begin a session"):
            self.producer.init_transactions(KAFKA_SECONDS_MAX)
            crash_point("3-init")
            self.group = consumer.consumer_group_metadata()
            place = committed(consumer, self.plan.events)
        return int(place.offset) if place.offset >= 0 and place.metadata == query else None

    @contextlib.contextmanager
    def batch(self, batch: int, query: str) -> Iterator[None]:
        """Everything produced inside becomes visible together, with the batch as progress."""
        self.errors.clear()
        try:
            with _kafka("write a batch"):
                if self.transactional:
                    self.producer.begin_transaction()
                    yield
                    crash_point("3-4")
                    self._send_progress(batch, query)
                    crash_point("4-sent")
                    self.producer.commit_transaction(KAFKA_SECONDS_MAX)
                else:
                    yield
                    self._flush()
        except BaseException:
            _writers.pop(self.plan.transactional_id(self.partition), None)
            self.close()
            raise
        self.last_batch = batch
        crash_point("4-5")
        if self.transactional and self.spare[0] not in _spares:
            threading.Thread(target=self._keep_spare, daemon=True).start()

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; a missing one is created where the plan says so.

        Raises KafkaUnavailable where it is missing and stays so.
        """
        count = self.plan.partitions.get(topic) or _found.get(topic)
        if count is None:
            with _kafka(f"look up the topic {topic}"):
                count = _found[topic] = self._look_up(topic)
        return count

    def _look_up(self, topic: str) -> int:
        from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415

        deadline = time.monotonic() + KAFKA_SECONDS_MAX
        admin = AdminClient(dict(self.plan.producer), logger=_quiet())
        told = False
        while time.monotonic() < deadline:
            there = admin.list_topics(timeout=KAFKA_SECONDS_MAX).topics
            if topic in there and there[topic].partitions:
                return len(there[topic].partitions)
            if not self.plan.create_topics:
                break
            if not told:
                with contextlib.suppress(Exception):  # whoever was first; else the time runs out
                    made = admin.create_topics([NewTopic(topic, 1)], operation_timeout=30)
                    made[topic].result(KAFKA_SECONDS_MAX)
                told = True
            time.sleep(0.1)
        raise KafkaUnavailable(
            f"The topic {topic} is missing"
            + ("." if not self.plan.create_topics else " and could not be created."),
            "The batch is not written and will be repeated.",
            "Create it; the job goes on by itself then.",
        )

    def produce_all(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Any],
        timestamps: Sequence[int],
        partitions: Sequence[int],
    ) -> None:
        """Produce parallel columns, in order. Waits where the producer's queue is full."""
        produce = self.producer.produce
        report = None if self.transactional else self._note
        for key, value, header, timestamp, partition in zip(
            keys, values, headers, timestamps, partitions, strict=True
        ):
            try:
                produce(topic, value, key, partition, report, report, timestamp, header)
            except BufferError:
                self._make_room()
                produce(topic, value, key, partition, report, report, timestamp, header)

    def close(self) -> None:
        """Give up the producer; what it did not commit is aborted by its successor."""
        with contextlib.suppress(Exception):  # a fenced producer refuses even this
            self.producer.purge()
            self.producer.flush(1)

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
            _progress[group] = Consumer(settings, logger=_quiet())
        return _progress[group]

    def _send_progress(self, batch: int, query: str) -> None:
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        place = TopicPartition(self.plan.events, 0, batch, metadata=query)
        self.producer.send_offsets_to_transaction([place], self.group, KAFKA_SECONDS_MAX)

    def _make_room(self) -> None:
        deadline = time.monotonic() + KAFKA_SECONDS_MAX
        while len(self.producer) >= QUEUE_MAX // 2:
            self.producer.poll(0.05)
            if time.monotonic() > deadline:
                raise KafkaUnavailable(
                    f"Kafka took no message for {KAFKA_SECONDS_MAX} s.",
                    "The batch is not written and will be repeated.",
                    "Look at the brokers.",
                )

    def _flush(self) -> None:
        left = self.producer.flush(KAFKA_SECONDS_MAX)
        if left or self.errors:
            what = self.errors[0] if self.errors else f"{left} messages were not acknowledged"
            raise KafkaUnavailable(
                f"Writing to Kafka failed: {what}.",
                "Part of the batch may be written; it will be repeated.",
                "Look at the brokers.",
            )

    def _note(self, error: Any, _message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))


def writer_for(
    plan: Plan, partition: int, context: BatchContext, *, in_doubt: bool
) -> Writer | None:
    """The partition's writer, ready for the context's batch; None if the batch is written already.

    Raises ProgressMissing where an earlier run may have written the batch and Kafka has forgotten.
    """
    name = plan.transactional_id(partition)
    kept = _writers.pop(name, None)
    if kept is not None and kept.last_batch == context.wrote.get(partition, NEVER):
        _writers[name] = kept
        return kept
    if kept is not None:
        kept.close()
    writer = Writer(plan, partition)
    if writer.transactional:
        progress = writer.begin_session(context.query)
        crash_point("3-progress")
        if progress is not None and progress >= context.batch:
            writer.close()
            return None
        if progress is None and in_doubt:
            writer.close()
            raise ProgressMissing(
                f"Batch {context.batch} of pipeline {plan.pipeline!r} may have been written before "
                "the last stop, and Kafka no longer knows: its progress (the committed offset of "
                f"group {plan.progress_group(partition)!r}) is gone; Kafka forgets it after "
                "offsets.retention.minutes without the service.",
                "Nothing was written.",
                "Look at the end of the output topic, then start with --accept-repeats: the batch "
                "is written again if need be, with the same (key, incarnation, sequence).",
            )
    _writers[name] = writer
    return writer


def _connected(settings: dict[str, Any], topic: str) -> Any:
    """A producer that has a connection.

    Without one, init_transactions waits half a second before it tries again.
    """
    from confluent_kafka import Producer  # noqa: PLC0415  (workers only)

    producer = Producer(settings, logger=_quiet())
    with _kafka("connect"):
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


@contextlib.contextmanager
def _kafka(doing: str) -> Iterator[None]:
    """Kafka's errors as ours, with what they mean for the batch."""
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    try:
        yield
    except KafkaException as failure:
        error = failure.args[0]
        fenced = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)  # noqa: SLF001  (librdkafka's own name)
        if error.code() in fenced:
            raise Fenced(
                "Another copy of this service took over its transactional ids.",
                "The batch of this copy is not written.",
                "Run one copy for each service name; stop one of the two.",
            ) from failure
        too_large = error.code() == KafkaError.MSG_SIZE_TOO_LARGE or "too large" in error.str()
        raise KafkaUnavailable(
            f"Kafka failed to {doing}: {error.str()}.",
            "The batch is not written and will be repeated.",
            TOO_LARGE if too_large else "Look at the brokers, and at the rights of this user.",
        ) from failure


def _quiet() -> logging.Logger:
    """Librdkafka's own log lines, for whoever turns them on."""
    logger = logging.getLogger("streaming.librdkafka")
    logger.setLevel(logging.ERROR)
    return logger

"""One driver for a checkpoint where no lock can say so: Kafka fences whoever had it before.

The driver of a pipeline has a transactional id of its own. To take it fences the driver that had
it; before each batch is written the driver commits a transaction, which only the last one can. With
it goes a token, by which a driver that starts again after a failure knows whether it is the last.
"""

from __future__ import annotations

import uuid
from typing import Any

from streaming.disciplines.plan import Plan
from streaming.kafka.connection import quiet, without_producer_settings
from streaming.sink import failures
from streaming.sink.librdkafka import KAFKA_SECONDS_MAX, committed, noted_id, translated


class Claim:
    """A driver's hold on its pipeline's checkpoint; raises Fenced once another has taken it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.id = plan.driver_id
        self.token = str(uuid.uuid4())
        self.taken = False
        self._producer: Any = None
        self._consumer: Any = None

    def take(self) -> None:
        """Fence whoever has it; a second time, Fenced where another has taken it meanwhile.

        KafkaUnavailable where Kafka does not let us. What Kafka says to who is fenced is not always
        that (its transaction may be ending just then), so who starts again may be.
        """
        from confluent_kafka import Consumer, Producer  # noqa: PLC0415  (a quick --help)

        connection = without_producer_settings(self.plan.producer)
        consumer = {**connection, "group.id": self.id, "enable.auto.commit": False}
        with translated("take the checkpoint", transactional=True):
            self._consumer = Consumer(consumer, logger=quiet())
            if self.taken and noted_id(committed(self._consumer, self.plan.events)) != self.token:
                raise failures.fenced()
            producer = {**self.plan.producer, "transactional.id": self.id}
            self._producer = Producer(producer, logger=quiet())
            self._producer.init_transactions(KAFKA_SECONDS_MAX)
        self.renew(0)
        self.taken = True

    def renew(self, batch: int) -> None:
        """Make sure that it is still ours. Raises Fenced where it is not."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        place = TopicPartition(self.plan.events, 0, batch, self.token)
        with translated("keep the checkpoint", transactional=True):
            self._producer.begin_transaction()
            self._producer.send_offsets_to_transaction(
                [place], self._consumer.consumer_group_metadata(), KAFKA_SECONDS_MAX
            )
            self._producer.commit_transaction(KAFKA_SECONDS_MAX)

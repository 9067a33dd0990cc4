"""One driver for a checkpoint where no lock can say so: Kafka fences whoever had it before.

The driver of a pipeline has a transactional id of its own. To take it fences the driver that had
it; before each batch is written the driver commits a transaction, which only the last one can. With
it goes a token, by which a driver that starts again after a failure knows whether it is the last.
"""

from __future__ import annotations

import uuid

from streaming.disciplines.plan import Plan
from streaming.kafka.choice import own_settings
from streaming.sink import failures
from streaming.sink.producer import BatchProducer


class Claim:
    """A driver's hold on its pipeline's checkpoint; raises Fenced once another has taken it."""

    def __init__(self, plan: Plan) -> None:
        self.token = str(uuid.uuid4())
        self.taken = False
        self._producer = BatchProducer(
            own_settings(plan.producer),
            transactional_id=plan.driver_id,
            group=plan.driver_id,
            events=plan.events,
            user=plan.pipeline,
        )

    def take(self) -> None:
        """Fence whoever has it; a second time, Fenced where another has taken it meanwhile.

        KafkaUnavailable where Kafka does not let us. What Kafka says to who is fenced is not always
        that (its transaction may be ending just then), so who starts again may be.
        """
        with self._producer.errors("take the checkpoint"):
            if self.taken and self._producer.progress()[1] != self.token:
                raise failures.fenced()
            self._producer.begin_session()
        self.renew(0)
        self.taken = True

    def renew(self, batch: int) -> None:
        """Make sure that it is still ours. Raises Fenced where it is not."""
        with self._producer.errors("keep the checkpoint"):
            self._producer.begin()
            self._producer.send_progress(batch, self.token)
            self._producer.finish()

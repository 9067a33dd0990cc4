"""One driver for a checkpoint where no lock can say so: Kafka fences the one that had it before.

The driver of a pipeline has a transactional id of its own. To take it fences the driver that had
it; before each batch is written the driver commits a transaction, which only the last one can. With
it goes a token, by which a driver that starts again after a failure knows whether it is the last.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from kafka.errors import UnstableOffsetCommitError

from streaming.disciplines.plan import Plan
from streaming.errors import Fenced
from streaming.kafka.choice import own_settings
from streaming.sink import failures
from streaming.sink.producer import BatchProducer

TRIES_MAX = 3
"""A late request of ours may fence what we have just begun."""


class Claim:
    """A driver's hold on its pipeline's checkpoint; raises Fenced once another has taken it.

    ``holder``: the token of who had it when this driver began ("": nobody); None before.
    """

    def __init__(self, plan: Plan) -> None:
        self.token = str(uuid.uuid4())
        self.holder: str | None = None
        self._producer = BatchProducer(
            own_settings(plan.producer),
            transactional_id=plan.driver_id,
            group=plan.driver_id,
            events=plan.events,
            user=plan.pipeline,
        )

    def take(self) -> None:
        """Fence the driver that has it; Fenced where another has taken it since the first call.

        KafkaUnavailable where Kafka does not let us. What Kafka says to who is fenced is not always
        that (its transaction may be ending just then), so who starts again may be. Nor is it
        another driver each time: after an outage requests of our own come late for as long as it
        was. So who has not committed has not taken it; where that goes on, it is tried again later.
        """
        for _ in range(TRIES_MAX):
            with self._producer.errors("take the checkpoint"), suppress(UnstableOffsetCommitError):
                if self.holder is not None:
                    self._require_untaken(self._producer.progress_of_others()[1])
            try:
                self._take()
            except Fenced as error:
                failure = error
            else:
                return
        raise failures.fenced_by_nobody() from failure

    def _require_untaken(self, holder: str) -> None:
        """Fenced where another committed last; after an idle week Kafka does not know who did."""
        if self.holder is not None and holder not in ("", self.holder, self.token):
            raise failures.fenced()

    def _take(self) -> None:
        with self._producer.errors("take the checkpoint"):
            self._producer.begin_session()
            _, holder = self._producer.progress()
            if self.holder is None:
                self.holder = holder
            self._require_untaken(holder)
        self._commit(0)

    def renew(self, batch: int) -> None:
        """Make sure that it is still ours. Raises Fenced where it is not."""
        if self._producer.is_reusable:
            self._commit(batch)
        else:
            self.take()

    def _commit(self, batch: int) -> None:
        with self._producer.errors("keep the checkpoint"):
            self._producer.begin()
            self._producer.send_progress(batch, self.token)
            self._producer.finish()

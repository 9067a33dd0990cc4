"""One driver for a checkpoint where no lock says so for sure: Kafka fences the one before.

The driver of a pipeline has a transactional id of its own. To take it fences the driver that had
it; before each batch is written the driver commits a transaction, which only the last one can. With
it goes its session: a producer id and an epoch. Of one id Kafka counts the epochs up, so a driver
that starts again after a failure knows whether another began behind it. A new id (when the epochs
are used up, or Kafka has forgotten the transactional id) may be lower than the last, as each broker
has a block of ids of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress

from kafka.errors import UnstableOffsetCommitError

from streaming.disciplines.plan import Plan
from streaming.errors import Fenced
from streaming.kafka.choice import own_settings
from streaming.sink import failures
from streaming.sink.producer import BatchProducer
from streaming.spark.cluster import DEFAULT_MASTER, is_local_master

TRIES_MAX = 3
"""A late request of ours may fence what we have just begun."""
OWN_MAX = 100
"""How many of its last sessions a driver remembers as its own."""
NO_PRODUCER = -1

ProducerSession = tuple[int, int]
"""A producer id and its epoch."""


class Claim:
    """A driver's hold on its pipeline's checkpoint; raises Fenced once another has taken it."""

    _first: ProducerSession | None = None
    """Its first session."""
    _id_before: int | None = None
    """The producer id of the holder before this driver; NO_PRODUCER: there was none. Not known
    before it has taken the checkpoint."""
    _has_taken = False

    def __init__(self, plan: Plan) -> None:
        self._own: deque[ProducerSession] = deque(maxlen=OWN_MAX)
        self._producer = _producer_of(plan)

    @staticmethod
    def is_needed(plan: Plan, spark: Mapping[str, str], *, lockable: bool) -> bool:
        """Whether a lock does not keep a second driver out, by Spark's properties.

        A folder that hosts mount has its locks on a server, which gives them away when a host
        stands still for long, or each host has locks of its own. (At least once, that lock has to
        do: who writes without transactions need not have the right to them.)
        """
        is_one_host = is_local_master(spark.get("spark.master", DEFAULT_MASTER))
        return not lockable or (plan.delivery == "exactly-once" and not is_one_host)

    def connect_as(self, plan: Plan) -> None:
        """Use this plan's settings of connections from the next :meth:`take` on.

        A password that its file had when the claim was made may have been renewed since.
        """
        if own_settings(plan.producer) is not self._producer.settings:
            self._producer = _producer_of(plan)

    def take(self) -> None:
        """Fence the driver that has it; Fenced where another has begun since the first call.

        KafkaUnavailable where Kafka does not let us. What Kafka says to who is fenced is not always
        that (its transaction may be ending just then), so who starts again may be. Nor is it
        another driver each time: after an outage requests of our own come late for as long as it
        was. So who has not committed has not taken it; where that goes on, it is tried again later.
        """
        for _ in range(TRIES_MAX):
            with self._producer.errors("take the checkpoint"), suppress(UnstableOffsetCommitError):
                if self._first is not None:
                    self._require_untaken(self._producer.progress_of_others()[1])
            try:
                self._take()
            except Fenced as error:
                failure = error
            else:
                return
        raise failures.fenced_by_nobody() from failure

    def _require_untaken(self, noted: str) -> None:
        """Fenced where a session committed last that is not ours, and began behind our first.

        After an idle week Kafka does not know who did. A coordinator that is deposed, and does not
        know, names an older one: of the same producer id, or of the one that was there before us.
        """
        session = _session_in(noted)
        if session is None:  # of a version that noted something else
            is_newer = bool(noted) and self._has_taken
        elif self._first is None or session[0] == self._first[0]:
            is_newer = self._first is not None and session > self._first
        else:
            is_newer = self._id_before not in (None, session[0])
        if session is not None and session in self._own:
            self._own.append(session)  # others that never committed must not push it out
        elif is_newer:
            raise failures.fenced()

    def _take(self) -> None:
        with self._producer.errors("take the checkpoint"):
            self._producer.begin_session()
            self._first = self._first or self._producer.producer
            noted = self._producer.progress()[1]
            self._own.append(self._producer.producer)  # asking may have begun another session
            self._require_untaken(noted)
        self._commit(0)  # only the coordinator in charge takes it: before, who answered may not be
        if not self._has_taken:
            self._id_before = (_session_in(noted) or (NO_PRODUCER, 0))[0]
        self._has_taken = True

    def renew(self, batch: int) -> None:
        """Make sure that it is still ours. Raises Fenced where it is not."""
        if self._producer.is_reusable:
            self._commit(batch)
        else:
            self.take()

    def _commit(self, batch: int) -> None:
        with self._producer.errors("keep the checkpoint"):
            self._producer.send_progress(batch, "{}/{}".format(*self._producer.producer))
            self._producer.finish()


def _producer_of(plan: Plan) -> BatchProducer:
    return BatchProducer(
        own_settings(plan.producer),
        transactional_id=plan.driver_id,
        group=plan.driver_id,
        events=plan.events,
        user=plan.pipeline,
    )


def _session_in(noted: str) -> ProducerSession | None:
    """The session that a driver noted."""
    producer, _, epoch = noted.partition("/")
    is_session = producer.isdecimal() and epoch.isdecimal()
    return (int(producer), int(epoch)) if is_session else None

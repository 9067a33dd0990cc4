"""A producer of finished record batches, with Kafka's idempotence and transactions.

The requests and their order are those of Kafka's protocol for transactions (KIP-98) as every broker
since 2.5 knows them: InitProducerId (which fences the last holder of the transactional id, and ends
what it left open), AddPartitionsToTxn, Produce, AddOffsetsToTxn, TxnOffsetCommit, EndTxn.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from kafka.errors import (
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFencedError,
    RecordListTooLargeError,
    UnstableOffsetCommitError,
)
from numpy.typing import NDArray

from streaming.disciplines.refused import Refusal
from streaming.kafka.choice import ProducerSettings, brokers_of
from streaming.places import TopicPartition
from streaming.sink import failures
from streaming.sink.outbox import Outbox
from streaming.sink.refusals import RecordsRefused
from streaming.wire import transactions
from streaming.wire.admin import reason
from streaming.wire.brokers import GROUP, LOOK_AGAIN_SECONDS, SECONDS_MAX, TRANSACTION
from streaming.wire.record_batch import RecordBatch, batches
from streaming.wire.transactions import Question, Session

ABORT_SECONDS_MAX = 3.0
"""Readers wait while a failed batch's transaction is open; the repeated batch, for this."""

LEFT_OPEN_SECONDS = 1.0
"""A transaction that is open after that, without its service, is nobody's."""

ENDED_SECONDS_MAX = 10.0
"""The markers of a transaction that was fenced are there by then, unless brokers are away."""

NODE_SECONDS_MAX = 5.0
"""A broker that was in charge just now is asked for no longer."""

KEPT_SECONDS_MAX = 60.0
"""Who wrote nothing for longer begins another session: after a week Kafka has forgotten the one."""

SENT_BYTES_MIN = 256 * 2**10
"""Fewer, of all partitions together, wait for more, or for the end of the batch."""

WAITING_BYTES_MAX = 16 * 2**20
"""Compressed, and not acknowledged yet; beyond it the sink waits."""

TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)


class BatchProducer:
    """Writes batches, in transactions where it has an id for them.

    Methods in the order of `streaming.sink.sink`'s steps. ``group``: its committed offset of the
    topic ``events`` is the progress. ``user``: of the connections (`brokers_of`).
    """

    def __init__(
        self,
        settings: ProducerSettings,
        transactional_id: str | None,
        group: str,
        events: str,
        user: str = "",
    ) -> None:
        self.brokers = brokers_of(settings, user)
        self.settings = settings
        self.group = group
        self.events = events
        self.id = transactional_id
        self.transactional = transactional_id is not None
        self.producer = (-1, -1)
        self.outbox: Outbox
        self.added: set[TopicPartition] = set()
        self.is_open = False  # whether Kafka may know a transaction of ours that has not ended
        self.began = 0.0
        self.unanswered = 0  # when the session began
        self.used = time.monotonic()
        self.found: tuple[int, str] | None = None
        """The progress that was read, until a broker that takes another one has confirmed it."""
        self.ends: dict[TopicPartition, int] = {}
        """The offsets behind what was written."""
        self.refusals: list[Refusal] = []
        """Records that Kafka refused for good, in earlier sessions too: nothing is committed."""
        self.in_charge: int | None = None
        """The broker that took the transaction."""

    @property
    def is_reusable(self) -> bool:
        """Whether the next transaction may be of the same session.

        A request without an answer may still arrive, one that ends a transaction in the middle of
        the next one (KAFKA-17754). In a new session it is one of an older epoch, which is refused.
        """
        is_young = time.monotonic() - self.used < KEPT_SECONDS_MAX
        return not self.transactional or (is_young and self._all_answered())

    def begin_session(self) -> None:
        """Fence the last holder of the transactional id; what it left open is aborted."""
        answer = self._ask(
            transactions.begin_session(self.id, self.settings.transaction_timeout_ms)
        )
        self.producer = (answer.producer_id, answer.producer_epoch)
        self.added.clear()
        self.is_open = False
        self.unanswered = self.brokers.unanswered
        self.used = time.monotonic()
        self.outbox = Outbox(
            self.brokers, self.producer, self.id, ends=self.ends, refusals=self.refusals
        )

    def progress(self) -> tuple[int, str]:
        """The offset that the group committed, and its metadata; below 0 where there is none.

        In a session of one's own. Older brokers (3.3) take a late TxnOffsetCommit of the session
        before, open a transaction for it that nobody ends, and say nothing from then on: so one
        that has nothing but the group is ended.
        """
        try:
            self.found = self._progress(stable=True, seconds=ENDED_SECONDS_MAX)
        except KafkaError as error:
            if not error.retriable:
                raise
            if isinstance(error, UnstableOffsetCommitError):
                self._ask(transactions.add_group(self._session, self.group))
                self._end(committed=False)
                if not self._all_answered():  # what had no answer may end the next transaction
                    self.begin_session()
            self.found = self._progress(stable=True)
        return self.found

    def progress_of_others(self) -> tuple[int, str]:
        """The same, without a session."""
        return self._progress(stable=True)

    def progress_left(self) -> tuple[int, str]:
        """The progress that a service has left which has ended.

        A transaction that it left open is ended: Kafka says nothing before that, and would wait for
        as long as it may take. Not at once, as its last request may be on its way.
        """
        for seconds in (LEFT_OPEN_SECONDS, ENDED_SECONDS_MAX, SECONDS_MAX):
            try:
                return self._progress(stable=True, seconds=seconds)
            except UnstableOffsetCommitError:
                break
            except KafkaError as error:
                if not error.retriable or seconds == SECONDS_MAX:
                    raise
        self.begin_session()
        return self.progress()

    def _progress(
        self, *, stable: bool, seconds: float = SECONDS_MAX, node: int | None = None
    ) -> tuple[int, str]:
        question = transactions.committed_offset(self.group, self.events, stable=stable)
        coordinator = (GROUP, self.group) if node is None else None
        answer = self.brokers.ask(*question, coordinator, node=node, seconds=seconds)
        return transactions.offset_in(answer)

    def write(
        self,
        topic: str,
        table: pa.Table,
        partitions: NDArray[np.int32],
        added: Sequence[tuple[str, pa.Array]],
    ) -> None:
        """Send rows to a topic (see `record_batch.batches`). Waits where many are on their way."""
        now_ms = round(time.time() * 1000)
        encoded = batches(table, partitions, added, now_ms)
        self.put(topic, (batch.compressed(self.settings.compression) for batch in encoded))

    def put(self, topic: str, encoded: Iterable[RecordBatch]) -> None:
        """Send batches to a topic. Waits where many are on their way."""
        for batch in encoded:
            self.outbox.put(topic, batch)
            if self.outbox.waiting_bytes >= SENT_BYTES_MIN:
                self._send()
            if self.outbox.waiting_bytes > WAITING_BYTES_MAX:
                self.outbox.wait(WAITING_BYTES_MAX // 2)

    def send_progress(self, batch: int, metadata: str) -> None:
        """Commit the batch's number, within the transaction."""
        self._send()
        self._commit_offset(batch, metadata)
        if self.found is not None:
            self._require_newest()

    def confirm_progress(self) -> None:
        """Retriable KafkaError where the progress that was read is not the newest; it aborts."""
        if self.found is not None:
            self._send()
            self.outbox.wait()
            self._commit_offset(0, "")
            self._require_newest()
            self._give_up()

    def newest_progress(self) -> tuple[int, str]:
        """The progress, surely the newest, by a transaction that is aborted."""
        self._commit_offset(0, "")
        newest = self._newest()
        if self._all_answered():
            self._end(committed=False)
        else:  # older brokers (3.6) would take a late TxnOffsetCommit of this epoch
            self.begin_session()
        return newest

    def _commit_offset(self, batch: int, metadata: str) -> None:
        self._add_to_transaction(transactions.add_group(self._session, self.group))
        question = transactions.commit_offset(
            self._session, self.group, self.events, batch, metadata
        )
        self.brokers.ask(*question, (GROUP, self.group))

    def _newest(self) -> tuple[int, str]:
        """What the broker that took an offset just now has committed before.

        A broker that lost its group to another one, and does not know, gives progress that is
        older than what was committed since, but takes none.
        """
        node = self.brokers.coordinators[GROUP, self.group]
        return self._progress(stable=False, node=node, seconds=NODE_SECONDS_MAX)

    def _require_newest(self) -> None:
        """Raise a retriable KafkaError where the progress that was read is an older one."""
        if self._newest() != self.found:
            raise CoordinatorNotAvailableError("what gave the progress was no longer in charge")
        self.found = None

    def finish(self) -> None:
        """Wait until all is acknowledged; commit the transaction, if there is one.

        Raises RecordsRefused, and gives it up, where Kafka refused records for good.
        """
        self._send()
        self.outbox.wait()
        if self.refusals:
            self._give_up()
            raise RecordsRefused([*self.refusals])
        if self.transactional:
            self._end(committed=True)

    def close(self) -> None:
        """Give up what was not committed; connections are shared."""
        self.outbox.clear()

    def abort(self) -> None:
        """Give up an open transaction: until then nobody reads what others write behind it."""
        if not self.is_open:
            return
        with contextlib.suppress(KafkaError):
            deadline = time.monotonic() + ABORT_SECONDS_MAX
            while self.outbox.in_flight and time.monotonic() < deadline:
                self.brokers.turn(LOOK_AGAIN_SECONDS)
            if not self.outbox.in_flight:
                self._give_up(ABORT_SECONDS_MAX)

    def _give_up(self, seconds: float = SECONDS_MAX) -> None:
        """End the transaction, if there is one, as aborted, where each request has an answer.

        What arrived behind the end would open one that nobody ends, if brokers do not check that
        (KIP-890). So the next session, with an epoch that keeps it out, ends this one.
        """
        if self.transactional and self._all_answered():
            self._end(committed=False, seconds=seconds)

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Kafka's errors as ours, with what they mean for the batch."""
        try:
            yield
        except (InvalidProducerEpochError, ProducerFencedError) as failure:
            open_ms = (time.monotonic() - self.began) * 1000
            if self.added and open_ms >= self.settings.transaction_timeout_ms:
                raise failures.too_slow(self.settings.transaction_timeout_ms) from failure
            raise failures.fenced() from failure
        except KafkaError as failure:
            self.abort()
            self.brokers.reset()
            raise failures.unavailable(
                doing,
                reason(failure),
                transactional=self.transactional,
                too_large=isinstance(failure, TOO_LARGE),
            ) from failure

    def _all_answered(self) -> bool:
        return self.brokers.unanswered == self.unanswered and not self.outbox.unanswered

    def _send(self) -> None:
        """Begin to send what waits; a transaction learns first which partitions it writes to."""
        new = {
            partition for partition, waiting in self.outbox.waiting.items() if waiting
        } - self.added
        if self.transactional and new:
            self._add(new)
        self.outbox.poll()

    def _add(self, partitions: set[TopicPartition]) -> None:
        if not self.added:
            self.began = time.monotonic()
        self._add_to_transaction(transactions.add_partitions(self._session, partitions))
        self.added |= partitions

    def _add_to_transaction(self, question: Question) -> None:
        self.is_open = True
        self._ask(question)
        self.in_charge = self._coordinator

    def _end(self, *, committed: bool, seconds: float = SECONDS_MAX) -> None:
        """End the transaction; there is none then.

        A broker that lost the transactional id to another one, and does not know, takes no new
        transaction; but that one is committed, it says of the one before. So the one that took this
        has to say so: a retriable KafkaError where not, and its successor asks for the progress.
        """
        self._ask(transactions.end(self._session, committed=committed), seconds)
        self.added.clear()
        self.is_open = False
        self.used = time.monotonic()
        if committed and self._coordinator != self.in_charge:
            raise CoordinatorNotAvailableError("what committed was not what took the transaction")

    def _ask(self, question: Question, seconds: float = SECONDS_MAX) -> Any:
        """Ask the transaction's coordinator; without transactions, any broker."""
        coordinator = None if self.id is None else (TRANSACTION, self.id)
        return self.brokers.ask(*question, coordinator, seconds=seconds)

    @property
    def _coordinator(self) -> int | None:
        """The broker that answered last as the transaction's coordinator."""
        return None if self.id is None else self.brokers.coordinators.get((TRANSACTION, self.id))

    @property
    def _session(self) -> Session:
        return Session(self.id, *self.producer)

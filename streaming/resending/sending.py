"""Sending rejects back, each once, in numbered steps.

1. `init_transactions` under one id for all who send back the rejects of one topic: the process that
had it is fenced, and what it left open is aborted. The run notes itself in the ledger. 2. The
ledger is read: since step 1 nobody else adds to it. 3. Rejects that are chosen and not in the
ledger are sent, some at a time in a transaction; 4. when Kafka has acknowledged them with their
offsets, the ledger's records of them follow in the same transaction, and it is committed. A crash
between any two leaves rejects either sent and noted, or neither; the next run goes on with the
rest.

Each transaction, also that of the note, has a session of its own, so a late request of one cannot
end the next in its midst (KAFKA-17754). To begin it fences a newer run, too: a run that finds in
the ledger what another one has noted since sends no more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from streaming.config import Config
from streaming.crashes import crash_point
from streaming.errors import ConfigError, Fenced, KafkaUnavailable, SequencerError, TopicsMissing
from streaming.kafka import client_settings, connection, limits, topics
from streaming.kafka.interruptible import as_interrupt
from streaming.kafka.record_sizes import OF_ANY_SIZE
from streaming.places import Place
from streaming.resending import ledger
from streaming.resending.choice import Choice, Reject

BATCH_RECORDS = 5_000
BATCH_BYTES = 4 * 2**20
TRANSACTION_TIMEOUT_MS = 30_000
SECONDS_MAX = 60
ABORT_SECONDS_MAX = 10
TELL_EVERY = 10_000

Report = Callable[[Any, Any], None]
"""What librdkafka calls when it knows what became of a message."""


@dataclass(slots=True)
class Count:
    """What became of the rejects with one reason.

    ``chosen`` by reason and condition; of these ``sent`` now, ``before`` (an earlier time),
    ``came_back`` (they had been sent back, and were rejected again).
    """

    rejects: int = 0
    chosen: int = 0
    sent: int = 0
    before: int = 0
    came_back: int = 0


@dataclass(slots=True)
class Resending:
    """One run of `sequencer resend` over a pipeline's rejects; ``tell`` gets its progress."""

    config: Config
    pipeline: str
    choice: Choice
    tell: Callable[[str], None]
    counts: defaultdict[str, Count] = field(default_factory=lambda: defaultdict(Count))
    _producer: Any = None
    _targets: list[str] = field(default_factory=list)
    _ledger: ledger.Ledger = field(default_factory=ledger.Ledger)
    _waiting: list[Reject] = field(default_factory=list)
    _bytes: int = 0
    _begun: int = -1
    _noted: int | None = None
    """Behind the last record in the ledger, once this run has written one."""

    def run(self, *, dry: bool) -> dict[str, Count]:
        """Send what is chosen, or with ``dry`` only count it; counts by reason.

        Raises ConfigError where a topic is missing, or where one must not be written to, Fenced
        where another run took over, KafkaUnavailable where Kafka does not take the records.
        """
        settings = self.config.pipelines[self.pipeline]
        self._targets = self._topics_to_write()
        self._require_targets()
        book = ledger.ledger_of(settings.rejects)
        begun = None
        if not dry:
            ledger.make(self.config, book)
            begun = self._begin(book)
        self._ledger = ledger.read(self.config, book, begun)
        rejects = ledger.records(self.config, settings.rejects)
        for number, record in enumerate(rejects, start=1):
            reject = Reject.of(record, self.config.service.header_prefix)
            if reject is not None and self._is_due(reject):
                self._waiting.append(reject)
                self._bytes += len(reject.value or b"")
            if len(self._waiting) >= BATCH_RECORDS or self._bytes >= BATCH_BYTES:
                self._send(book, dry=dry)
            if number % TELL_EVERY == 0:
                self.tell(f"{number:,} rejects read, {self._sent():,} sent")
        self._send(book, dry=dry)
        return dict(sorted(self.counts.items()))

    def _topics_to_write(self) -> list[str]:
        """The topics that may be written to: the input's, or the one that was named.

        ConfigError where a pipeline writes one, if rejects are chosen; else it is left out, since
        they are only counted.
        """
        settings = self.config.pipelines[self.pipeline]
        to = settings.input if self.choice.to is None else [self.choice.to]
        pipelines = self.config.pipelines.items()
        written = {topic: name for name, each in pipelines for topic in each.topics_written()}
        closed = [topic for topic in to if topic in written]
        if closed and self.choice.reasons:
            raise ConfigError(
                f"{closed[0]} is written by pipeline {written[closed[0]]}: a record that is sent "
                "there would look like a repeat to its readers.",
                "Nothing was sent.",
                "Send to a topic that no pipeline writes, with --to TOPIC.",
            )
        return [topic for topic in to if topic not in closed]

    def _require_targets(self) -> None:
        try:
            topics.partitions(self.config, self._targets)
        except TopicsMissing as missing:
            there = "Create it with Kafka's tools, or name another one."
            remedy = missing.remedy if self.choice.to is None else there
            raise TopicsMissing(missing.message, "Nothing was sent.", remedy) from None

    def _is_due(self, reject: Reject) -> bool:
        """Return whether to send a reject now; counts it."""
        count = self.counts[reject.reason]
        count.rejects += 1
        if not self.choice.wants(reject):
            return False
        count.chosen += 1
        to = reject.origin[0] if self.choice.to is None else self.choice.to
        if to not in self._targets:
            if to in (*self.config.pipelines[self.pipeline].input, self.choice.to):
                return False  # a pipeline writes there
            raise ConfigError(
                f"A reject came from {reject.origin[0]}, which is not an input of {self.pipeline}.",
                f"{self._sent():,} rejects were sent back and noted.",
                "Send it elsewhere with --to TOPIC, or leave it out with --where.",
            )
        if reject.origin in self._ledger.sent:
            count.before += 1
            return False
        if reject.origin in self._ledger.now:
            count.came_back += 1
            if not self.choice.again:
                return False
        most = self.choice.most
        if most is not None and self._sent() + len(self._waiting) >= most:
            return False
        self._ledger.sent.add(reject.origin)  # an at-least-once service may have it twice
        return True

    def _sent(self) -> int:
        return sum(count.sent for count in self.counts.values())

    def _begin(self, book: str) -> int:
        """Fence other runs; where in the ledger it is noted, by the broker that has it."""
        from confluent_kafka import Producer  # noqa: PLC0415  (a quick --help)

        takes = limits.read(self.config, {*self._targets, book}).values()
        bytes_max = min(each.bytes_max for each in [*takes, limits.Limits()])
        settings = {
            "transactional.id": book,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "delivery.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "partitioner": "murmur2_random",
            **OF_ANY_SIZE,
            "batch.size": min(OF_ANY_SIZE["batch.size"], bytes_max),
        }

        def begin_session() -> None:
            self._producer = connection.client(
                Producer, client_settings.confluent(self.config, **settings)
            )
            self._ask("begin", self._producer.init_transactions, SECONDS_MAX)

        offsets: list[int] = []
        begin_session()
        self._ask("begin", partial(self._note_run, offsets=offsets), book)
        ledger.wait_for(self.config, book, offsets[0])
        self._begun = offsets[0]
        self._require_alone(book, self._begun + 1)  # before another run is fenced in vain
        begin_session()
        return self._begun

    def _require_alone(self, book: str, least: int) -> None:
        """Fenced where another run is noted behind this one. ``least``: where the ledger ends."""
        ledger.wait_for(self.config, book, least - 1)
        behind = ledger.records(self.config, book, self._begun + 1, least=least)
        if next(behind, None) is not None:
            raise self._fenced()

    def _note_run(self, book: str, offsets: list[int]) -> None:
        failed: list[tuple[Any, str]] = []

        def noted(error: Any, message: Any) -> None:
            if error is not None:
                failed.append((error, message.topic()))
            else:
                offsets.append(message.offset())

        self._producer.begin_transaction()
        self._producer.produce(book, b"", ledger.RUN, on_delivery=noted)
        self._flush(failed)
        self._producer.commit_transaction(SECONDS_MAX)

    def _send(self, book: str, *, dry: bool) -> None:
        """Send what waits, in one transaction."""
        if self._waiting and not dry:
            if self._noted is not None:
                self._begin_again(book, self._noted)
            self._ask("send", self._write, book)
        for reject in self._waiting:
            self.counts[reject.reason].sent += 1
        self._waiting.clear()
        self._bytes = 0

    def _begin_again(self, book: str, noted: int) -> None:
        begun = self._begin(book)
        first = next(ledger.records(self.config, book, noted), None)
        if first is None:
            raise ledger.older(book)
        if first.offset != begun:
            raise self._fenced()

    def _write(self, book: str) -> None:
        producer, places, failed = self._producer, {}, []
        producer.begin_transaction()

        def noted(number: int) -> Report:
            def note(error: Any, message: Any) -> None:
                if error is not None:
                    topic, partition, offset = self._waiting[number].origin
                    place = f"{topic}/{partition}@{offset}"
                    failed.append((error, f"{message.topic()} (the reject of {place})"))
                else:
                    places[number] = (message.topic(), message.partition(), message.offset())

            return note

        for number, reject in enumerate(self._waiting):
            topic, partition, _ = reject.origin
            home = {"partition": partition} if self.choice.to is None else {}
            producer.produce(
                self.choice.to or topic,
                reject.value,
                reject.key,
                headers=list(reject.headers),
                timestamp=reject.timestamp,
                on_delivery=noted(number),
                **home,
            )
        self._flush(failed)
        crash_point("resend-sent")
        for number, reject in enumerate(self._waiting):
            self._note(book, reject, places[number], noted(number))
        self._flush(failed)
        # Of a broker that has what this session has written, as its leader has.
        self._require_alone(book, min(at for topic, _, at in places.values() if topic == book))
        crash_point("resend-noted")
        producer.commit_transaction(SECONDS_MAX)
        self._noted = 1 + max(offset for _, _, offset in places.values())
        crash_point("resend-committed")

    def _note(self, book: str, reject: Reject, now: Place, noted: Report) -> None:
        entry = ledger.record(reject.origin, reject.reason, now)
        self._producer.produce(book, **entry, on_delivery=noted)
        self._ledger.note(reject.origin, now)

    def _flush(self, failed: list[tuple[Any, str]]) -> None:
        from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

        unsent = connection.flush(self._producer, SECONDS_MAX)
        if failed:
            raise KafkaException(*failed[0])
        if unsent:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001

    def _ask(self, doing: str, call: Callable[[Any], Any], argument: Any) -> None:
        """Call something of the producer's; its errors as ours."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        effect = self._effect()
        try:
            call(argument)
        except (KafkaException, BufferError) as failure:
            error = failure.args[0] if isinstance(failure, KafkaException) else None
            if error is not None and connection.is_fenced(error):
                raise self._fenced() from failure
            self._abort()
            why = error.str() if error is not None else "its queue is full"
            where = f" to {failure.args[1]}" if len(failure.args) > 1 else ""
            raise KafkaUnavailable(
                self.config.hide(f"Kafka failed to {doing}{where}: {why}."),
                effect,
                "Look at the brokers and at this user's rights (docs/operations.md), then run it "
                "again: it goes on where it stopped.",
            ) from failure
        except TypeError as error:
            self._abort()
            raise as_interrupt(error) from None
        except (KeyboardInterrupt, SystemExit, SequencerError):
            self._abort()
            raise

    def _abort(self) -> None:
        """Abort what is open: else readers would wait until Kafka does it."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        with suppress(KafkaException):
            self._producer.abort_transaction(ABORT_SECONDS_MAX)

    def _fenced(self) -> Fenced:
        return Fenced(
            "Another `sequencer resend` of these rejects took over.",
            self._effect(),
            "Let it finish, if it still runs. Run this one again if anything is left.",
        )

    def _effect(self) -> str:
        return f"{self._sent():,} rejects were sent back and noted; of the others none."

"""Read ordered topics, and check everything that their numbers show."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Generic, Literal, Self, TypedDict, TypeVar, Unpack, cast, overload

from streaming.clients.connecting import (
    COOPERATIVE,
    ENDED,
    LEFT,
    NOT_READ,
    connected,
    is_fatal,
    reader_settings,
)
from streaming.clients.deliveries import (
    ChangeNotice,
    Delivery,
    GroupDelivery,
    MulticastDelivery,
    Notice,
    keys_of,
    read,
    require_known,
    to_bytes,
)
from streaming.clients.followed import FollowedLines
from streaming.clients.limits import PASSING_SECONDS_MAX, Limits, Retry
from streaming.clients.lines import Disorder, Hole
from streaming.clients.membership import Membership, pairs
from streaming.clients.parallel import Lent, ParallelConsumer
from streaming.clients.progress import Completeness
from streaming.clients.rejecting import Rejects
from streaming.clients.waiting import Waiting
from streaming.errors import ConfigError, KafkaUnavailable
from streaming.kafka.header_names import headers_of
from streaming.places import StreamPoint, TopicPartition

D = TypeVar("D", bound=Delivery)


class Options(TypedDict, total=False):
    """What every OrderedConsumer takes."""

    from_beginning: bool
    header_prefix: str
    keys: Collection[bytes | str] | None
    resume: Callable[[Delivery], StreamPoint | None] | None
    on_hole: Callable[[Hole], None] | None
    on_disorder: Callable[[Disorder], None] | None
    channel: Callable[[Delivery], bytes | None]
    progress: Mapping[str, str]


class OrderedConsumer(Generic[D]):
    """Reads ordered topics: committed records only, repeats dropped, holes and disorder reported.

    ``discipline`` is that of the pipeline: deliveries of ``"channel"`` are Delivery (of
    ``"label"`` too, with `label` and `epoch` among the record's own headers), of ``"group"``
    GroupDelivery, both or ChangeNotice, those of ``"multicast"`` MulticastDelivery or
    Notice. Iterate, or call :meth:`poll`; :meth:`commit` notes for ``group`` what was read.

    A repeat has an (incarnation, sequence) of its key that is not above the last one. Holes, and
    deliveries that come against the order which their numbers tell, are given to ``on_hole`` and
    ``on_disorder``; the last 10,000 of each are kept in :attr:`holes` and :attr:`disorders`. What a
    key had last is remembered for 1,000,000 keys, also while its partition is another reader's;
    after that, and after a restart in the middle, the first record of a key sets its place, unless
    ``resume`` returns it.

    Readers of one ``group`` share the partitions. Those that a reader keeps when another comes or
    goes are read on without a break (Kafka's cooperative assignment; all readers of a group need
    the same ``partition.assignment.strategy``). A partition that comes back begins where the group
    committed last: what this reader gave before is dropped as a repeat. What another one gave and
    did not commit is given again; what it gave and committed is no hole.

    ``resume``: for exactly-once towards a store of your own. It is asked once for each key, at its
    first delivery and at the first after its partition was another reader's: the (incarnation,
    sequence) which the store has as the last one, or None. Write them there in the transaction that
    writes what the delivery does, and write nothing unless they are larger than what is there: a
    reader that stood still may be given what another one has written meanwhile.

    ``from_beginning``: where the group reads a partition of which it has committed nothing, or of
    which that is deleted: from its beginning. False: from its end, also of one that is added.

    ``keys``: only deliveries of these subscribers or peers; others are passed over.

    ``channel``: where a pipeline's `channel` is not the record's key, sequences count a channel's
    deliveries, and this function has to tell the channel of a delivery; otherwise records of
    several channels with one key would look like repeats of each other.

    ``progress``: the topics of progress marks by output topic, for :meth:`complete_until`; those of
    `trades.out` are in `trades.progress`.

    Raises ConfigError for a discipline that there is not, KafkaUnavailable where reading fails,
    SequencerError at a record that is not an output of such a pipeline.
    """

    @overload
    def __init__(
        self: OrderedConsumer[Delivery | ChangeNotice],
        kafka: dict[str, Any],
        topics: Sequence[str],
        *,
        discipline: Literal["channel", "label"] = ...,
        group: str,
        **more: Unpack[Options],
    ) -> None: ...

    @overload
    def __init__(
        self: OrderedConsumer[GroupDelivery | ChangeNotice],
        kafka: dict[str, Any],
        topics: Sequence[str],
        *,
        discipline: Literal["group"],
        group: str,
        **more: Unpack[Options],
    ) -> None: ...

    @overload
    def __init__(
        self: OrderedConsumer[MulticastDelivery | Notice],
        kafka: dict[str, Any],
        topics: Sequence[str],
        *,
        discipline: Literal["multicast"],
        group: str,
        **more: Unpack[Options],
    ) -> None: ...

    def __init__(  # noqa: PLR0913  (what a reader can choose, each with its name)
        self,
        kafka: dict[str, Any],
        topics: Sequence[str],
        *,
        discipline: str = "channel",
        group: str,
        from_beginning: bool = True,
        header_prefix: str = "",
        keys: Collection[bytes | str] | None = None,
        resume: Callable[[Delivery], StreamPoint | None] | None = None,
        on_hole: Callable[[Hole], None] | None = None,
        on_disorder: Callable[[Disorder], None] | None = None,
        channel: Callable[[Delivery], bytes | None] = attrgetter("key"),
        progress: Mapping[str, str] | None = None,
    ) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415  (a cheap import of this package)

        require_known(discipline, topics)
        self._keys = keys_of(keys)
        self._on_commit = kafka.get("on_commit")
        given = reader_settings(kafka, group, from_beginning=from_beginning)
        given["on_commit"] = self._committed
        self._consumer = connected(Consumer, given)
        self._kafka = kafka
        self._parallel: ParallelConsumer[D] | None = None
        self._has_polled = False
        self._fatal = ""
        self._is_closed = False
        self._discipline = discipline
        self._prefix = header_prefix
        self._lines = FollowedLines(discipline, resume, on_hole, on_disorder, channel)
        self._completeness = Completeness(kafka, progress or {})
        self._waiting: Waiting[D] = Waiting(self._lines, self._read, self._completeness)
        cooperative = given.get("partition.assignment.strategy", COOPERATIVE) == COOPERATIVE
        self._membership = Membership(self._consumer, topics, self._doubt, cooperative=cooperative)

    def poll(self, timeout_s: float = 1.0) -> D | None:
        """Return the next delivery, or None if none arrives in time. Repeats are skipped.

        Skipping takes a second more than ``timeout_s`` at most. Where a function of the user's
        raises, the next call has the delivery, which is no repeat; where a record is no delivery,
        the next call goes on behind it. Where a signal's handler raises (Ctrl-C), the next call has
        what came meanwhile; until then no commit passes it.
        """
        self._require_own_polls()
        self._has_polled = True
        self._require_alive()
        deadline = time.monotonic() + timeout_s
        while time.monotonic() <= deadline + PASSING_SECONDS_MAX:
            if self._waiting.delivery is None:
                left_s = max(0.0, deadline - time.monotonic())
                taken = self._waiting.take(self._consumer, left_s)
                if taken is None:
                    return None
                if isinstance(taken, int):
                    continue
            found, is_next = self._waiting.judged()
            if is_next:
                return found
        return None

    def parallel(
        self,
        workers: int,
        *,
        rejects: str | None = None,
        retry: Retry = Retry(),  # noqa: B008  (frozen)
        limits: Limits = Limits(),  # noqa: B008
    ) -> ParallelConsumer[D]:
        """Let ``workers`` threads handle deliveries: channels in parallel, each in order.

        Takes the place of :meth:`poll` and :meth:`commit`. ``rejects``: a topic for deliveries
        that cannot be handled. ``resume``, ``on_hole`` and ``on_disorder`` are called by the
        workers, a channel's in order. ConfigError for what cannot work.
        """
        self._require_own_polls()
        limits.require_below(self._kafka.get("max.poll.interval.ms"))
        if self._has_polled:
            raise ConfigError(
                "This reader has polled before.", "Nothing more was read.", "Make a new one."
            )
        written = Rejects(self._kafka, rejects, self._prefix) if rejects else None
        lose_all = self._membership.lose_all
        lent = Lent(self._consumer, self._lines, self._read, lose_all, self._leave)
        self._parallel = ParallelConsumer(lent, workers, limits, retry, written)
        self._membership.parallel = self._parallel
        return self._parallel

    def __iter__(self) -> Iterator[D]:
        while True:
            delivery = self.poll()
            if delivery is not None:
                yield delivery

    def complete_until(self) -> int | None:
        """Return the record time (ms) until which :meth:`poll` has returned everything.

        Of all partitions that are read here, by progress marks (`progress = true`, else
        ConfigError); None while it is not known. A promise only if inputs have LogAppendTime.
        """
        if self._parallel is None:
            self._require_own_polls()
            self._waiting.count_given()
            return self._completeness.until(pairs(self._consumer.assignment()))
        positions = self._parallel.positions()  # another thread has the consumer
        for place, position in positions.items():
            if position is not None:
                self._completeness.read(*place, position)
        return self._completeness.until(positions)

    def causes(self) -> list[str]:
        """What was read, as `sequencer verify --causes` expects it: ``topic/partition@offset``.

        The last delivery of each key, as those before it come first anyway; of the 1,000 keys that
        were read last.
        """
        return self._lines.places_read()

    def handles(self, peer: bytes | str) -> frozenset[str]:
        """The nodes whose handles a peer holds, by the deliveries read of its last incarnation."""
        return self._lines.handles(to_bytes(peer))

    def released(self, peer: bytes | str, node: str) -> None:
        """Record that a peer gave a handle back (command `release`); no delivery shows it."""
        self._lines.released(to_bytes(peer), node)

    @property
    def holes(self) -> list[Hole]:
        """The last 10,000 holes."""
        return self._lines.holes

    @property
    def disorders(self) -> list[Disorder]:
        """The last 10,000 deliveries that were not in order."""
        return self._lines.disorders

    def commit(self) -> None:
        """Commit what was read so far; the group continues from there."""
        self._require_own_polls()
        self._waiting.commit(self._consumer)

    def close(self) -> None:
        """Leave the group; a parallel reader first waits for its running handlers."""
        if self._parallel is not None:
            self._parallel.close()
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _leave(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._consumer.close()
            self._completeness.close()

    def _require_own_polls(self) -> None:
        if self._is_closed:
            what, effect = "This reader is closed.", "Nothing was read or committed."
            raise ConfigError(what, effect, "Make a new one.")
        if self._parallel is not None:
            raise ConfigError(
                "This reader works in parallel.",
                "Nothing was read or committed.",
                "Its run() calls the handler and commits; make another reader for poll().",
            )

    def _require_alive(self) -> None:
        if self._fatal:
            raise KafkaUnavailable(self._fatal, *ENDED)

    def _read(self, message: Any) -> D | int:
        """The delivery that a message is; the next offset where it is none for this reader."""
        from confluent_kafka import KafkaError  # noqa: PLC0415  (a cheap import of this package)

        error = message.error()
        if error and error.code() == KafkaError._MAX_POLL_EXCEEDED:  # noqa: SLF001  (its name)
            self._membership.lose_all()
            raise KafkaUnavailable(f"Reading failed: {error.str()}.", *LEFT)
        if error and is_fatal(error):
            self._fatal = f"Reading failed: {error.str()}."
            self._require_alive()
        if error and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
            raise KafkaUnavailable(f"Reading failed: {error.str()}.", *NOT_READ)
        if error or not self._membership.has((message.topic(), message.partition())):
            return int(message.offset())
        if self._keys is not None and message.key() not in self._keys:
            return int(message.offset()) + 1
        record = {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": message.timestamp()[1],
            "key": message.key(),
            "value": message.value(),
        }
        headers = headers_of(message)
        return cast("D", read(self._discipline, record, headers, self._prefix))

    def _committed(self, error: Any, places: list[Any]) -> None:
        if self._parallel is not None:
            self._parallel.committed(error, places)
        if self._on_commit is not None:
            self._on_commit(error, places)

    def _doubt(self, partitions: set[TopicPartition]) -> None:
        """Others read these partitions from now on: their keys' places are at least what is known.

        Handles that a peer holds are not known any more.
        """
        if partitions:
            self._completeness.forget(partitions)
            self._lines.doubt(partitions)

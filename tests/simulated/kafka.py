"""Brokers of a cluster: who leads, who coordinates, what they answer."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from types import SimpleNamespace as Answer

from tests.simulated.coordinators import Coordinators
from tests.simulated.logs import Log
from tests.simulated.network import DELAYS, no_fate

OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, LOADING, NOT_COORDINATOR = 1, 3, 6, 14, 16
BAD_STATE = 48
LATEST = -1
LOOK_SECONDS = 0.02


@dataclass(slots=True)
class Broker:
    """One; ``loading_until``: when its coordinators answer again."""

    number: int
    up: bool = True
    loading_until: float = 0.0


class Kafka:
    """The cluster; ``topics`` gives the number of partitions of each."""

    def __init__(self, world, topics, brokers=3):
        self.world = world
        self.brokers = [Broker(number) for number in range(brokers)]
        self.topics = topics
        self.logs = {
            (topic, number): Log(topic, number, world.rng.randrange(brokers))
            for topic, count in topics.items()
            for number in range(count)
        }
        self.coordinators = Coordinators(world, self.logs)
        self.homes = {}
        self.faults = []
        self.delay = world.rng.choice(DELAYS)
        self.verifies = world.rng.random() < 0.5
        """Whether leaders ask the coordinator about the first batch of a transaction (KIP-890)."""

    def fate(self, connection, request):
        """What the faults of now do to a request."""
        fate = no_fate()
        for fault in self.faults:
            fault(connection, request, fate)
        return fate

    def move_leader(self, place, node=None):
        """Have another broker lead a partition."""
        log = self.logs[place]
        others = [b.number for b in self.brokers if b.up and b.number != log.leader]
        if others:
            log.leader = self.world.rng.choice(others) if node is None else node
            log.leader_epoch += 1
            self.world.note(f"broker {log.leader} leads {place[0]}-{place[1]}")

    def stop(self, number):
        """Take a broker down; others take its place."""
        broker = self.brokers[number]
        broker.up = False
        self.world.note(f"broker {number} is down")
        for place, log in self.logs.items():
            if log.leader == number:
                self.move_leader(place)
        for key, home in list(self.homes.items()):
            if home == number:
                self.move_coordinator(key)

    def start(self, number):
        """Bring it back."""
        self.brokers[number].up = True
        self.world.note(f"broker {number} is up")

    def move_coordinator(self, key):
        """Have another broker coordinate."""
        up = [b for b in self.brokers if b.up]
        if up:
            home = self.world.rng.choice(up)
            self.homes[key] = home.number
            home.loading_until = self.world.now + self.world.rng.random() * 0.3

    def handle(self, broker, request, answered):
        """Do what a request asks; ``answered`` gets the answer, perhaps later."""
        kind = type(request).__name__.removesuffix("Request")
        getattr(self, "_" + kind)(broker, request, answered)

    def _home(self, key):
        if key not in self.homes:
            self.homes[key] = self.world.rng.choice([b.number for b in self.brokers if b.up])
        return self.homes[key]

    def _wrong(self, broker, key):
        """Why a broker does not coordinate, 0 where it does."""
        if self._home(key) != broker.number:
            return NOT_COORDINATOR
        return LOADING if broker.loading_until > self.world.now else 0

    def _Metadata(self, _broker, request, answered):  # noqa: N802  (Kafka's names)
        names = [each.name for each in request.topics]
        topics = []
        for name in names:
            there = [log for (topic, _), log in self.logs.items() if topic == name]
            partitions = [
                Answer(
                    error_code=0,
                    partition_index=log.partition,
                    leader_id=log.leader if self.brokers[log.leader].up else -1,
                    leader_epoch=log.leader_epoch,
                )
                for log in there
            ]
            code = 0 if there else UNKNOWN_TOPIC
            topics.append(
                Answer(error_code=code, name=name, partitions=partitions, topic_id=id_of(name))
            )
        answered(Answer(topics=topics, brokers=[]))

    def _FindCoordinator(self, _broker, request, answered):  # noqa: N802
        answered(Answer(error_code=0, node_id=self._home((request.key_type, request.key))))

    def _InitProducerId(self, broker, request, answered):  # noqa: N802
        name = request.transactional_id
        code = self._wrong(broker, (1, name)) if name is not None else 0
        producer, epoch = -1, -1
        if not code:
            expected = (request.producer_id, request.producer_epoch)
            expected = expected if None not in expected else (-1, -1)
            code, producer, epoch = self.coordinators.init(
                name, request.transaction_timeout_ms, expected
            )
        answered(Answer(error_code=code, producer_id=producer, producer_epoch=epoch))

    def _AddPartitionsToTxn(self, broker, request, answered):  # noqa: N802
        name = request.v3_and_below_transactional_id
        producer = (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        topics = request.v3_and_below_topics
        places = [(topic.name, number) for topic in topics for number in topic.partitions]
        code = self._wrong(broker, (1, name))
        code = code or self.coordinators.add(name, producer, places)
        results = [
            Answer(
                name=topic.name,
                results_by_partition=[
                    Answer(partition_index=number, partition_error_code=code)
                    for number in topic.partitions
                ],
            )
            for topic in topics
        ]
        answered(Answer(results_by_topic_v3_and_below=results))

    def _AddOffsetsToTxn(self, broker, request, answered):  # noqa: N802
        producer = (request.producer_id, request.producer_epoch)
        code = self._wrong(broker, (1, request.transactional_id))
        code = code or self.coordinators.add(
            request.transactional_id, producer, group=request.group_id
        )
        answered(Answer(error_code=code))

    def _TxnOffsetCommit(self, broker, request, answered):  # noqa: N802
        code = self._wrong(broker, (0, request.group_id))
        ((topic, (place,)),) = [(each.name, each.partitions) for each in request.topics]
        if not code:
            code = self.coordinators.commit_offset(
                request.transactional_id,
                (request.producer_id, request.producer_epoch),
                request.group_id,
                place.committed_offset,
                place.committed_metadata,
            )
        partitions = [Answer(partition_index=0, error_code=code)]
        answered(Answer(topics=[Answer(name=topic, partitions=partitions)]))

    def _OffsetFetch(self, broker, request, answered):  # noqa: N802
        code = self._wrong(broker, (0, request.group_id))
        inner, offset, metadata = (
            (0, -1, "") if code else self.coordinators.offset(request.group_id)
        )
        partition = Answer(
            partition_index=0, committed_offset=offset, metadata=metadata, error_code=inner
        )
        topic = Answer(name=request.topics[0].name, partitions=[partition])
        answered(Answer(error_code=code, topics=[topic]))

    def _EndTxn(self, broker, request, answered):  # noqa: N802
        producer = (request.producer_id, request.producer_epoch)
        code = self._wrong(broker, (1, request.transactional_id))
        code = code or self.coordinators.end(
            request.transactional_id, producer, commit=request.committed
        )
        answered(Answer(error_code=code))

    def _Produce(self, broker, request, answered):  # noqa: N802
        responses = []
        for topic in request.topic_data:
            parts = []
            for part in topic.partition_data:
                log = self.logs[topic.name, part.index]
                code, offset = self._append(broker, log, request.transactional_id, part.records)
                parts.append(
                    Answer(
                        index=part.index,
                        error_code=code,
                        base_offset=offset,
                        error_message=None,
                        record_errors=[],
                    )
                )
            responses.append(Answer(name=topic.name, partition_responses=parts))
        answered(Answer(responses=responses))

    def _append(self, broker, log, transactional_id, data):
        if log.leader != broker.number:
            return NOT_LEADER, -1
        if transactional_id is not None and self.verifies:
            place = (log.topic, log.partition)
            producer = producer_of(data)
            known = producer[0] in log.open
            if not known and not self.coordinators.is_open(transactional_id, producer, place):
                return BAD_STATE, -1
        return log.append(data)

    def _ListOffsets(self, broker, request, answered):  # noqa: N802
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                log = self.logs[topic.name, part.partition_index]
                code = 0 if log.leader == broker.number else NOT_LEADER
                offset = log.stable if part.timestamp == LATEST else 0
                parts.append(
                    Answer(
                        partition_index=log.partition,
                        error_code=code,
                        offset=-1 if code else offset,
                        timestamp=-1,
                        leader_epoch=log.leader_epoch,
                    )
                )
            topics.append(Answer(name=topic.name, partitions=parts))
        answered(Answer(topics=topics))

    def _OffsetForLeaderEpoch(self, broker, request, answered):  # noqa: N802
        """Logs are never cut back: they end where they end, whatever the epoch."""
        topics = []
        for topic in request.topics:
            logs = [self.logs[topic.topic, part.partition] for part in topic.partitions]
            parts = [
                Answer(
                    partition=log.partition,
                    error_code=0 if log.leader == broker.number else NOT_LEADER,
                    end_offset=log.end,
                )
                for log in logs
            ]
            topics.append(Answer(topic=topic.topic, partitions=parts))
        answered(Answer(topics=topics))

    def _Fetch(self, broker, request, answered, until=None):  # noqa: N802
        until = self.world.now + request.max_wait_ms / 1000 if until is None else until
        responses, some = [], False
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                log = self.logs[topic.topic, part.partition]
                data, aborted, code = b"", [], 0
                if log.leader != broker.number:
                    code = NOT_LEADER
                elif part.fetch_offset > log.end:
                    code = OUT_OF_RANGE
                else:
                    data, aborted = log.read(part.fetch_offset, part.partition_max_bytes)
                some = some or bool(data) or bool(code)
                parts.append(
                    Answer(
                        partition_index=log.partition,
                        error_code=code,
                        records=data,
                        aborted_transactions=[
                            Answer(producer_id=p, first_offset=first) for p, first in aborted
                        ],
                        high_watermark=log.end,
                        last_stable_offset=log.stable,
                        log_start_offset=0,
                    )
                )
            responses.append(Answer(topic="", topic_id=topic.topic_id, partitions=parts))
        if not some and self.world.now < until:
            self.world.at(LOOK_SECONDS, lambda: self._Fetch(broker, request, answered, until))
            return
        answered(Answer(error_code=0, responses=responses))


def id_of(topic):
    """A topic's id, which answers to Fetch name."""
    return uuid.uuid5(uuid.NAMESPACE_OID, topic)


def producer_of(data):
    """The producer id and epoch in a batch's head."""
    return int.from_bytes(data[43:51], "big", signed=True), int.from_bytes(data[51:53], "big")

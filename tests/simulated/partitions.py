"""What brokers answer about partitions: who leads, where logs begin and end, records in and out."""

from __future__ import annotations

import uuid
from types import SimpleNamespace as Answer

from tests.simulated.logs import Log

OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, TIMED_OUT = 1, 3, 6, 7
BAD_STATE, FENCED_EPOCH, UNKNOWN_EPOCH, UNKNOWN_ID = 48, 74, 75, 100
DENIED_TOPIC, NOT_YET = 29, 78
LATEST = -1
LOOK_SECONDS = 0.02
REPLICATION_SECONDS = 5.0


class View:
    """What a broker that is cut off from the others has of a partition: a copy of its own.

    What others delete or compact there since, it still has.
    """

    read, behind = Log.read, None

    def __init__(self, log):
        self.topic, self.partition = log.topic, log.partition
        self.entries, self.aborted = list(log.entries), list(log.aborted)
        self.leader, self.leader_epoch = log.leader, log.leader_epoch
        self.first, self.end, self.stable = log.first, log.end, log.stable
        self.epochs = list(log.epochs)

    def epoch_end(self, epoch):
        """Where the log ends that was written up to an epoch."""
        return next((at for each, at in self.epochs if each > epoch), self.end)


class Partitions:
    """The part of `Kafka` that is about partitions."""

    def view(self, broker, place):
        """A partition as a broker knows it; None where it knows none."""
        return (broker.cut_off or self.logs).get(place)

    def known_ids(self, broker):
        """The topics' ids as a broker knows them."""
        return broker.ids if broker.cut_off else self.ids

    def _judged(self, broker, place, epoch):
        """A partition, and why this broker does not answer about it (0: it does)."""
        log = self.view(broker, place)
        if log is None:
            return None, UNKNOWN_TOPIC
        if epoch > log.leader_epoch:
            return log, UNKNOWN_EPOCH
        if 0 <= epoch < log.leader_epoch:
            return log, FENCED_EPOCH
        return log, 0 if log.leader == broker.number else NOT_LEADER

    def _Metadata(self, broker, request, answered):  # noqa: N802  (Kafka's names)
        topics = []
        for name in [each.name for each in request.topics]:
            known = broker.cut_off or self.logs
            there = [log for (topic, _), log in sorted(known.items()) if topic == name]
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
            given = self.known_ids(broker).get(name)
            topics.append(Answer(error_code=code, name=name, partitions=partitions, topic_id=given))
        nodes = [Answer(node_id=each.number) for each in self.brokers]
        answered(Answer(topics=topics, brokers=nodes))

    def _Produce(self, broker, request, answered):  # noqa: N802
        responses = []
        for topic in request.topic_data:
            parts = []
            for part in topic.partition_data:
                log, code = self._judged(broker, (topic.name, part.index), -1)
                code, offset = code or (TIMED_OUT if broker.cut_off else 0), -1
                code, named = DENIED_TOPIC if "topics" in self.denied else code, []
                limit = self.narrowed.get(topic.name) or self.limits.get(topic.name)
                if not code and limit:
                    code, named, refused = limit.refusal(part.records, broker.number)
                    self.refused += [(topic.name, each.key, each.value) for each in refused]
                if not code:
                    code, offset = self._append(log, request.transactional_id, part.records)
                parts.append(
                    Answer(
                        index=part.index,
                        error_code=code,
                        base_offset=offset,
                        error_message=None,
                        record_errors=[
                            Answer(batch_index=at, batch_index_error_message=None) for at in named
                        ],
                    )
                )
            responses.append(Answer(name=topic.name, partition_responses=parts))
        delay = REPLICATION_SECONDS if broker.cut_off else 0.0
        self.world.at(delay, lambda: answered(Answer(responses=responses)))

    def _append(self, log, transactional_id, data):
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
                place = (topic.name, part.partition_index)
                log, code = self._judged(broker, place, part.current_leader_epoch)
                offset = epoch = -1
                if part.timestamp == LATEST and not request.isolation_level and not code:
                    code, latest = (0, log.end) if log.behind is None else (NOT_YET, -1)
                else:
                    latest = -1 if log is None else log.stable
                if not code:
                    offset = latest if part.timestamp == LATEST else log.first
                    epoch = log.leader_epoch
                parts.append(
                    Answer(
                        partition_index=place[1],
                        error_code=code,
                        offset=offset,
                        timestamp=-1,
                        leader_epoch=epoch,
                    )
                )
            topics.append(Answer(name=topic.name, partitions=parts))
        answered(Answer(topics=topics))

    def _OffsetForLeaderEpoch(self, broker, request, answered):  # noqa: N802
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                place = (topic.topic, part.partition)
                log, code = self._judged(broker, place, part.current_leader_epoch)
                end = -1 if code else log.epoch_end(part.leader_epoch)
                parts.append(Answer(partition=place[1], error_code=code, end_offset=end))
            topics.append(Answer(topic=topic.topic, partitions=parts))
        answered(Answer(topics=topics))

    def _Fetch(self, broker, request, answered, until=None):  # noqa: N802
        until = self.world.now + request.max_wait_ms / 1000 if until is None else until
        names = {of: name for name, of in self.known_ids(broker).items()}
        responses, some = [], False
        for topic in request.topics:
            name = names.get(topic.topic_id)
            parts = [self._fetched(broker, name, part) for part in topic.partitions]
            some = some or any(part.records or part.error_code for part in parts)
            responses.append(Answer(topic="", topic_id=topic.topic_id, partitions=parts))
        if not some and self.world.now < until:
            self.world.at(LOOK_SECONDS, lambda: self._Fetch(broker, request, answered, until))
            return
        answered(Answer(error_code=0, responses=responses))

    def _fetched(self, broker, name, part):
        data, aborted, log, code = b"", [], None, UNKNOWN_ID
        if name is not None:
            log, code = self._judged(broker, (name, part.partition), part.current_leader_epoch)
        if code == NOT_LEADER:
            code = OUT_OF_RANGE if self.followers_lag else 0  # KIP-392: followers answer, too
        if "topics" in self.denied:
            code = DENIED_TOPIC
        if not code and not log.first <= part.fetch_offset <= log.end:
            code = OUT_OF_RANGE
        if not code:
            data, aborted = log.read(part.fetch_offset, part.partition_max_bytes, log.stable)
            data = self._cut(data) if self.cuts and data else data
        return Answer(
            partition_index=part.partition,
            error_code=code,
            records=data,
            preferred_read_replica=-1,
            aborted_transactions=[Answer(producer_id=p, first_offset=at) for p, at in aborted],
            high_watermark=-1 if log is None else log.end,
            last_stable_offset=-1 if log is None else log.stable,
            log_start_offset=-1 if log is None else log.first,
        )

    def _cut(self, data):
        """Records as an answer has them that ends anywhere behind its first batch."""
        whole = 12 + int.from_bytes(data[8:12], "big")
        return data[: self.world.rng.randrange(whole, len(data) + 1)]


def new_id(rng):
    """An id for a topic, by which requests for records name it."""
    return uuid.UUID(int=rng.getrandbits(128))


def producer_of(data):
    """The producer id and epoch in a batch's head."""
    return int.from_bytes(data[43:51], "big", signed=True), int.from_bytes(data[51:53], "big")

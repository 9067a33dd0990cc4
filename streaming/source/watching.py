"""What is there now of some topics, and whether it is what was read before."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping

from kafka.errors import UnknownTopicOrPartitionError

from streaming.places import TopicPartition
from streaming.source.losses import CUT_BACK, DELETED, MADE_AGAIN, Loss
from streaming.source.positions import Log, Offsets, Position, logs_in, offsets_in, position
from streaming.wire.bounds import EARLIEST, LATEST, Bound, Bounds, BoundsReader, epoch_ends
from streaming.wire.brokers import Brokers

REFRESH_SECONDS = 1.0
"""So often a look asks who leads, and where logs begin."""
NOWHERE = Bound(-1, -1)


class TopicWatch:
    """Looks at topics again and again, over the connections ``brokers``.

    KafkaError where brokers do not answer.
    """

    def __init__(self, brokers: Brokers, topics: Iterable[str]) -> None:
        self.brokers = brokers
        self._bounds = BoundsReader(brokers, topics)
        self._firsts: Bounds = {}
        self._due = 0.0
        self._checked: dict[TopicPartition, tuple[int, int]] = {}
        """Which offset of a partition was compared with a leader of which epoch."""

    def first(self) -> Position:
        """Return where the topics begin."""
        return self._position(self._bounds(EARLIEST))

    def last(self) -> Position:
        """Return where the topics end."""
        return self._position(self._bounds(LATEST))

    def look(self, start: Position) -> tuple[Position, list[Loss]] | None:
        """Return where the topics end, and what was lost of them; None where nothing is new.

        Who leads, and where logs begin, is asked now and then, and who leads once more where
        something is new: a topic that was made again before its end was seen has another id then.
        """
        offsets, logs = offsets_in(start), logs_in(start)
        for topic, log in logs.items():
            epochs = {int(at): epoch for at, epoch in log.epochs.items()}
            self.brokers.topology.require(topic, log.id, epochs)
        while True:
            ends = self._bounds(LATEST)
            is_due = time.monotonic() >= self._due
            is_new = any(
                end.offset != offsets.get(topic, {}).get(str(partition))
                for topic, of in ends.items()
                for partition, end in of.items()
            )
            if not is_due and not is_new:
                return None
            is_grown = any(of.keys() - self._firsts.get(t, {}).keys() for t, of in ends.items())
            if is_due or is_grown:
                self._firsts = self._bounds(EARLIEST)
                self._due = time.monotonic() + REFRESH_SECONDS
            if not self._bounds.refresh():
                losses = self._losses(start, ends)
                lost = {(each.topic, each.partition) for each in losses}
                return self._position(_not_before(ends, offsets, logs, lost)), losses

    def look_closely(self) -> None:
        """Ask everything at the next look."""
        self._due = 0.0

    def _losses(self, start: Position, ends: Bounds) -> list[Loss]:
        offsets, logs = offsets_in(start), logs_in(start)
        read = {
            (topic, int(at)): offset for topic, of in offsets.items() for at, offset in of.items()
        }
        cut = self._cut_back(read, logs, ends)
        found = [
            Loss(topic, at, DELETED, 0, first.offset)  # of a partition that the topic was given
            for topic, of in self._firsts.items()
            for at, first in of.items()
            if offsets.get(topic) and (topic, at) not in read and first.offset > 0
        ]
        for partition, offset in read.items():
            topic = partition[0]
            was, now = logs.get(topic, Log()).id, self.brokers.topology.ids.get(topic, "")
            first, end = _bound(self._firsts, partition).offset, _bound(ends, partition).offset
            if was and now and was != now:
                found.append(Loss(*partition, MADE_AGAIN, offset, max(first, 0)))
            elif was and was == now and partition[1] not in ends.get(topic, {}):
                why = f"{topic} partition {partition[1]}: a broker does not know of it yet"
                raise UnknownTopicOrPartitionError(why)
            elif partition in cut or (end < offset and not self._has_all(partition, offset)):
                found.append(
                    Loss(*partition, CUT_BACK, offset, max(cut.get(partition, end), first, 0))
                )
            elif first > offset:
                found.append(Loss(*partition, DELETED, offset, first))
        return found

    def _cut_back(
        self, read: dict[TopicPartition, int], logs: dict[str, Log], ends: Bounds
    ) -> dict[TopicPartition, int]:
        """Ask leaders that are newer than what was read, or show less, where that ends with them.

        Returned are those where that is before what was read.
        """
        epochs = {}
        for partition, offset in read.items():
            log, (end, newest) = logs.get(partition[0], Log()), _bound(ends, partition)
            epoch = log.epochs.get(str(partition[1]), newest)
            is_same = log.id == self.brokers.topology.ids.get(partition[0], "")
            is_unsure = epoch < newest or end < offset
            is_checked = self._checked.get(partition) == (offset, newest)
            if 0 <= epoch <= newest and is_unsure and is_same and not is_checked:
                epochs[partition] = epoch
        found = {}
        for partition, end in (epoch_ends(self.brokers, epochs) if epochs else {}).items():
            if 0 <= end < read[partition]:
                found[partition] = end
            else:
                self._checked[partition] = (read[partition], _bound(ends, partition).epoch)
        return found

    def _has_all(self, partition: TopicPartition, offset: int) -> bool:
        """Whether a leader was asked, and said that its log has all of what was read.

        What of it is committed, which is where it ends for readers, it knows a moment later.
        """
        return self._checked.get(partition, (-1, -1))[0] == offset

    def _position(self, bounds: Bounds) -> Position:
        ids = self.brokers.topology.ids
        offsets, logs = {}, {}
        for topic, of in sorted(bounds.items()):
            each = {str(at): bound for at, bound in sorted(of.items())}
            offsets[topic] = {at: bound.offset for at, bound in each.items()}
            logs[topic] = Log(ids[topic], {at: bound.epoch for at, bound in each.items()})
        return position(offsets, logs)


def _not_before(
    ends: Bounds, offsets: Offsets, logs: Mapping[str, Log], lost: Container[TopicPartition]
) -> Bounds:
    """Return ends, but where one is before what was read, and not lost, where that ended.

    Its epoch stays as well, so the next look asks about the same one.
    """
    found = {topic: dict(of) for topic, of in ends.items()}
    for topic, of in offsets.items():
        epochs = logs.get(topic, Log()).epochs
        for at, offset in of.items():
            partition = (topic, int(at))
            if _bound(ends, partition).offset < offset and partition not in lost:
                found.setdefault(topic, {})[partition[1]] = Bound(offset, epochs.get(at, -1))
    return found


def _bound(bounds: Bounds, partition: TopicPartition) -> Bound:
    return bounds.get(partition[0], {}).get(partition[1], NOWHERE)

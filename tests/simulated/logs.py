"""A partition's log as its leader keeps it: batches, producers' sequences, transactions."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field

import google_crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

HEAD = struct.Struct(">qiibIhiqqqhii")
TRANSACTIONAL, CONTROL = 0x10, 0x20
MARKER_KEY = struct.Struct(">hh")
OUT_OF_ORDER, DUPLICATE, OLD_EPOCH = 45, 46, 47
KEPT_BATCHES = 5
"""Of each producer, by which a repeated batch is known (as Kafka's brokers do)."""


@dataclass(slots=True)
class Entry:
    """A batch; ``kind`` is "data", "commit" or "abort".

    ``epoch``: the leader's epoch in which it was written. ``cut_epoch``: the first one that does not
    have it, where an unclean election lost it.
    """

    first: int
    last: int
    data: bytes
    producer: int
    kind: str
    epoch: int
    cut_epoch: float = math.inf


@dataclass(slots=True)
class ProducerState:
    """What a leader knows of a producer: its epoch and the last batches (first, last sequence)."""

    epoch: int
    batches: list = field(default_factory=list)


class Log:
    """One partition; ``leader`` is a broker's number."""

    def __init__(self, topic, partition, leader):
        self.topic, self.partition = topic, partition
        self.leader, self.leader_epoch = leader, 0
        self.entries, self.first, self.end = [], 0, 0
        self.lost, self.epochs = [], [(0, 0)]
        self.behind = None
        """What the leader takes for committed as long as it is new: an offset, if it is less."""
        self.producers = {}
        self.open = {}
        self.aborted = []

    def lead(self, broker):
        """Have a broker lead, in an epoch of its own."""
        self.leader = broker
        self.leader_epoch += 1
        self.epochs.append((self.leader_epoch, self.end))

    def epoch_end(self, epoch):
        """Where the log ends that was written up to an epoch."""
        return next((at for each, at in self.epochs if each > epoch), self.end)

    def delete_before(self, offset):
        """Delete batches that end before an offset."""
        while self.entries and self.entries[0].last < min(offset, self.decided):
            entry = self.entries.pop(0)
            self.lost.append(entry)
            self.first = entry.last + 1

    def forget_before(self, offset):
        """Begin at an offset that is decided, as somebody asks for."""
        self.delete_before(offset)
        self.first = max(self.first, min(offset, self.decided))

    def cut_back(self, offset, read):
        """Lose what lies from an offset on, as in an unclean election.

        What lies before ``read`` was read, or may still be. Return what is lost, in its order.
        The log that is left ends with a record: who never had a later one did not compact it.
        """
        gone = []
        while self.entries and self.entries[-1].first >= offset:
            entry = self.entries.pop()
            self.end = entry.first
            gone.insert(0, entry)
            if entry.first < read:
                entry.cut_epoch = self.leader_epoch + 1
                self.lost.append(entry)
        if gone:
            self.end = self.entries[-1].last + 1 if self.entries else self.first
        self.epochs = [(each, min(at, self.end)) for each, at in self.epochs]
        return gone

    def between(self, first, stop):
        """The users' batches from an offset to another one, which compaction may remove."""
        own = (each for each in self.entries[:-1] if each.kind == "data")  # never the newest
        return [each for each in own if first <= each.first and each.last < min(stop, self.decided)]

    def append(self, data):
        """Take a producer's batch: an error code, and the offset it got."""
        _, _, _, _, _, attributes, delta, _, _, producer, epoch, sequence, count = HEAD.unpack_from(
            data
        )
        if producer >= 0:
            state = self.producers.setdefault(producer, ProducerState(epoch))
            if epoch < state.epoch:
                return OLD_EPOCH, -1
            if epoch > state.epoch:
                if sequence:
                    return OUT_OF_ORDER, -1
                state.epoch, state.batches = epoch, []
            for first, last, offset in state.batches:
                if (first, last) == (sequence, sequence + count - 1):
                    return 0, offset
            expected = state.batches[-1][1] + 1 if state.batches else 0
            if sequence != expected:
                old = state.batches and sequence < state.batches[0][0]
                return (DUPLICATE if old else OUT_OF_ORDER), -1
            state.batches.append((sequence, sequence + count - 1, self.end))
            del state.batches[:-KEPT_BATCHES]
            if attributes & TRANSACTIONAL:
                self.open.setdefault(producer, self.end)
        offset = self.end
        self._add(bytes(data), delta, producer, "data")
        return 0, offset

    def end_transaction(self, producer, epoch, *, commit):
        """Write a marker."""
        state = self.producers.setdefault(producer, ProducerState(epoch))
        if epoch < state.epoch:
            return
        if epoch > state.epoch:
            state.epoch, state.batches = epoch, []
        first = self.open.pop(producer, None)
        if first is not None and not commit:
            self.aborted.append((producer, first, self.end))
        kind = "commit" if commit else "abort"
        self._add(marker(producer, epoch, commit=commit), 0, producer, kind)

    def fill(self, records, transaction=None):
        """Take a user's records: (timestamp, key, value, headers).

        ``transaction``: the user's producer, and whether it commits or aborts.
        """
        producer = transaction[0] if transaction else -1
        state = self.producers.get(producer)
        first = state.batches[-1][1] + 1 if transaction and state and state.batches else 0
        epoch = 0 if transaction else -1
        sequence = first if transaction else -1
        builder = DefaultRecordBatchBuilder(
            2, 0, bool(transaction), producer, epoch, sequence, 1 << 20
        )
        for number, (timestamp, key, value, headers) in enumerate(records):
            builder.append(number, timestamp, key, value, headers)
        self.append(bytes(builder.build()))
        if transaction:
            self.end_transaction(producer, 0, commit=transaction[1])

    @property
    def stable(self):
        """The last stable offset, as readers are told."""
        return self.decided if self.behind is None else min(self.behind, self.decided)

    @property
    def decided(self):
        """The last stable offset."""
        return min(self.open.values(), default=self.end)

    def read(self, offset, bytes_max, stop):
        """Batches below an offset, at least one, and the aborted transactions."""
        found, size = [], 0
        for entry in self.entries:
            if entry.last < offset or entry.first >= stop:
                continue
            if found and size + len(entry.data) > bytes_max:
                break
            found.append(entry)
            size += len(entry.data)
        last = found[-1].last if found else offset
        aborted = [(p, first) for p, first, end in self.aborted if end >= offset and first <= last]
        return b"".join(entry.data for entry in found), aborted

    def committed(self, *, lost=False):
        """The data of committed batches, each with its first offset, in order; ``lost`` ones first."""
        there = [entry for entry in self.entries if entry.first < self.decided]
        for entry in [*self.lost, *there] if lost else there:
            if entry.kind != "data":
                continue
            if any(p == entry.producer and a <= entry.first < z for p, a, z in self.aborted):
                continue
            yield entry

    def _add(self, data, delta, producer, kind):
        data = struct.pack(">q", self.end) + data[8:]
        self.entries.append(
            Entry(self.end, self.end + delta, data, producer, kind, self.leader_epoch)
        )
        self.end += delta + 1


def marker(producer, epoch, *, commit):
    """A control batch."""
    key, value = MARKER_KEY.pack(0, int(commit)), struct.pack(">hi", 0, 0)
    record = bytes([0, 0, 0, 2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
    body = bytes([2 * len(record)]) + record
    checked = struct.pack(">hiqqqhii", TRANSACTIONAL | CONTROL, 0, 0, 0, producer, epoch, -1, 1)
    checksum = google_crc32c.value(checked + body)
    length = HEAD.size - 12 + len(body)
    return struct.pack(">qiibI", 0, length, 0, 2, checksum) + checked + body

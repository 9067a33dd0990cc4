"""Coordinators of transactions and groups, as KIP-98 and the brokers since 2.5 have them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

NONE, CONCURRENT, BAD_STATE, OLD_EPOCH, FENCED, UNSTABLE = 0, 51, 48, 47, 90, 88
BAD_MAPPING = 49
EPOCH_MAX = 32_767
EPOCHS_LEFT = 4
"""A transactional id has had nearly all that its producer has, when the history begins."""
MARKER_SECONDS = 0.004


@dataclass(slots=True)
class Transaction:
    """What the coordinator knows of a transactional id; ``state`` in Kafka's words."""

    producer: int
    epoch: int
    timeout_s: float = 60.0
    state: str = "Empty"
    partitions: set = field(default_factory=set)
    groups: set = field(default_factory=set)
    number: int = 0


class Coordinators:
    """All of them; what they know outlives a broker.

    ``verifies``: whether groups ask about the transaction of an offset (KIP-890). Where not, they
    take one that comes late, unless they have heard of a newer epoch.
    """

    def __init__(self, world, logs, *, verifies=True):
        self.world, self.logs, self.verifies = world, logs, verifies
        self.transactions, self.offsets, self.pending, self.heard = {}, {}, {}, {}
        self.producers = 1_000

    def init(self, name, timeout_ms, expected=(-1, -1)):
        """InitProducerId: an error code, the producer and its epoch."""
        if name is None:
            self.producers += 1
            return NONE, self.producers, 0
        each = self.transactions.get(name)
        if each is None:
            self.producers += 1
            each = self.transactions[name] = Transaction(self.producers, EPOCH_MAX - EPOCHS_LEFT)
        if expected[0] >= 0 and (each.producer, each.epoch) != tuple(expected):
            return FENCED, -1, -1
        if each.state.startswith("Prepare"):
            return CONCURRENT, -1, -1
        if each.state == "Ongoing":
            each.epoch += 1
            self._end(each, commit=False)
            return CONCURRENT, -1, -1
        each.epoch += 1
        each.timeout_s = timeout_ms / 1000
        each.state = "Empty"
        if each.epoch >= EPOCH_MAX:
            self.producers += 1
            for pending in self.pending.values():  # what comes late now nothing would ever end
                pending.pop(each.producer, None)
            each.producer, each.epoch = self.producers, 0
        return NONE, each.producer, each.epoch

    def add(self, name, producer, partitions=(), group=None):
        """AddPartitionsToTxn and AddOffsetsToTxn: an error code."""
        each, error = self._known(name, producer)
        if error:
            return error
        if each.state.startswith("Prepare"):
            return CONCURRENT
        if each.state != "Ongoing":
            each.state, each.number = "Ongoing", each.number + 1
            each.partitions, each.groups = set(), set()
            number = each.number
            self.world.at(each.timeout_s, lambda: self._timed_out(name, number))
        each.partitions |= set(partitions)
        if group is not None:
            each.groups.add(group)
        return NONE

    def known(self):
        """What a broker goes on to know that is cut off: ids, and what ran or ended last."""
        return {
            name: replace(each, partitions=set(each.partitions), groups=set(each.groups))
            for name, each in self.transactions.items()
        }

    def is_open(self, name, producer, place):
        """Whether the transaction that runs has a partition."""
        each, error = self._known(name, producer)
        return not error and each.state == "Ongoing" and place in each.partitions

    def end(self, name, producer, *, commit):
        """EndTxn: an error code."""
        each, error = self._known(name, producer)
        if error:
            return error
        wanted = "Commit" if commit else "Abort"
        if each.state == "Ongoing":
            self._end(each, commit=commit)
            return NONE
        if each.state == "Complete" + wanted:
            return NONE
        return CONCURRENT if each.state == "Prepare" + wanted else BAD_STATE

    def commit_offset(self, name, producer, group, offset, metadata):
        """TxnOffsetCommit: an error code."""
        each, error = self._known(name, producer)
        if each is None or (error and self.verifies):
            return OLD_EPOCH
        if producer[1] < self.heard.get((group, producer[0]), 0):
            return OLD_EPOCH
        if self.verifies and (each.state != "Ongoing" or group not in each.groups):
            return BAD_STATE
        self.heard[group, producer[0]] = producer[1]
        self.pending.setdefault(group, {})[producer[0]] = (offset, metadata)
        return NONE

    def offset(self, group, *, stable):
        """OffsetFetch, of ``stable`` offsets: an error code, the offset, its metadata."""
        if stable and self.pending.get(group):
            return UNSTABLE, -1, ""
        return NONE, *self.offsets.get(group, (-1, ""))

    def _known(self, name, producer):
        each = self.transactions.get(name)
        if each is None or each.producer != producer[0]:
            return None, BAD_MAPPING
        return each, (NONE if each.epoch == producer[1] else FENCED)

    def _timed_out(self, name, number):
        each = self.transactions.get(name)
        if each is not None and each.state == "Ongoing" and each.number == number:
            self.world.note(f"Kafka aborts {name}, open for too long")
            each.epoch += 1
            self._end(each, commit=False)

    def _end(self, each, *, commit):
        each.state = "PrepareCommit" if commit else "PrepareAbort"
        left = [*sorted(each.partitions), *sorted(each.groups)]
        delays = [self.world.rng.expovariate(1 / MARKER_SECONDS) for _ in left]
        for place, delay in zip(left, delays, strict=True):
            self.world.at(delay, lambda place=place: self._mark(each, place, commit=commit))
        self.world.at(max(delays, default=0) + 1e-4, lambda: self._ended(each, commit=commit))

    def _mark(self, each, place, *, commit):
        if isinstance(place, tuple):
            self.logs[place].end_transaction(each.producer, each.epoch, commit=commit)
            return
        self.heard[place, each.producer] = each.epoch
        found = self.pending.get(place, {}).pop(each.producer, None)
        if found is not None and commit:
            self.offsets[place] = found

    def _ended(self, each, *, commit):
        each.state = "CompleteCommit" if commit else "CompleteAbort"

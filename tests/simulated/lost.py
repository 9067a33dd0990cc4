"""What batches wrote that were lost with a checkpoint, and repeated: without it all has to be right.

A transaction tells its batch by the progress that it commits; whoever accepts repeats takes back the
progress of what is lost. What was lost counts again where a backup that has it is put back later.
"""

from __future__ import annotations

from dataclasses import replace

from streaming.sink.progress import BatchProgress


class Written:
    """Which transaction wrote what, and for which batches."""

    def __init__(self, history):
        self.storage, self.logs = history.storage, history.kafka.logs
        self.coordinators = history.kafka.coordinators
        self.committed, self.spans, self.backs = [], {}, []
        self._end = self.coordinators._end
        self.coordinators._end = self._noted

    def _noted(self, each, *, commit):
        if commit:
            pending = self.coordinators.pending
            progress = {
                group: BatchProgress.from_text(*pending[group][each.producer])
                for group in each.groups
                if each.producer in pending.get(group, {})
            }
            for place in each.partitions:
                first = self.logs[place].open.get(each.producer)
                if first is not None:
                    span = (each.producer, first, self.logs[place].end, len(self.committed))
                    self.spans.setdefault(place, []).append(span)
            self.committed.append((progress, self.storage.done()))
        self._end(each, commit=commit)

    def valid(self):
        """The transactions that count now."""
        return frozenset(range(len(self.committed))) - self.lost()

    def went_back(self, valid):
        """A backup was put back, from when these transactions counted."""
        self.backs.append((len(self.committed), valid))

    def lost(self):
        """The transactions of batches that were taken back later, by their numbers."""
        gone, backs = set(), [*self.backs]
        first, valid = 0, frozenset()
        for number, (progress, done) in enumerate(self.committed):
            while backs and backs[0][0] <= number:
                first, valid = backs.pop(0)
            for group, found in progress.items():
                if found is None or not found.is_taken_back:
                    continue
                for before, (earlier, _) in enumerate(self.committed[:number]):
                    was = earlier.get(group)
                    if was is None or was.is_taken_back:
                        continue
                    if was.batch > done or (before < first and before not in valid):
                        gone.add(before)
                    elif before in valid:
                        gone.discard(before)
        return gone

    def is_lost(self, place, entry, gone):
        """Whether a batch of records is of one of these transactions."""
        return any(
            producer == entry.producer and first <= entry.first < stop and number in gone
            for producer, first, stop, number in self.spans.get(place, ())
        )


def as_one_life(records):
    """Deliveries of channels whose `sequence` goes on where an incarnation ended."""
    counts, found = {}, []
    for each in records:
        number = counts.get(each.key, 0)
        counts[each.key] = number + 1
        found.append(replace(each, headers=(*each.headers, ("sequence", b"%d" % number))))
    return found

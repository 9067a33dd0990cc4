"""A checkpoint: Spark's logs, the state store, the service's own files, and what a disk has of them.

A disk has for certain what was synced. A power cut leaves of the rest any part: entries of logs that
are not there or torn, files without content, names that were removed.
"""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from streaming.arrow.totals import Totals
from streaming.disciplines.channels import shard_files
from streaming.errors import JobFailed, SequencerError, StorageUnavailable
from streaming.spark.spark_files import torn_entries
from tests.simulated.disk import LOST_SHARE, Disk
from tests.simulated.world import current, wait

FLUSHED_SECONDS = 5.0
"""What is older is on the disk, synced or not."""
TORN = "torn"
SYNCING_SECONDS = (0.001, 0.001, 0.05)
"""On the average; one of them in each history."""


class Storage:
    """What outlives processes.

    ``state``: by partition, version and name, which each task gives its own. ``commits``: the names
    that count, by partition, of each batch that is done.

    ``ever``: begin and end of each batch that was planned, but for those of which an older
    checkpoint that was put back knows nothing: nobody can tell whether their input is gone.

    ``whole``: what files had in them that were damaged.

    ``lockable``: a folder, else an object store, where Kafka keeps two copies apart. ``synced``:
    whether the service has its disk write what later steps rest on. ``retained``: how many entries
    of its logs Spark keeps; ``purged``: those of `offsets` that it removed. ``takes_decisions``:
    whether a power cut may take what the service decided. ``noted``: the batch of the status.
    """

    retained = None
    takes_decisions = False

    def __init__(self, world, folder, *, lockable, synced):
        self.world, self.folder = world, Path(folder)
        self.lockable, self.synced = lockable, synced
        self.offsets, self.commits, self.state = {}, {}, {}
        self.totals, self.noted = {}, -1
        self.named_states, self.whole = 0, {}
        self.kept = self.kept_before = "{}"
        self.purged = {}
        self.written = {}
        self.named = {}
        self.ever = []
        self.broken_until = 0.0
        self.at_sync, self.at_decision = [], []
        self.disk = Disk(self.folder)
        self.syncing_s = world.rng.choice(SYNCING_SECONDS)

    # --- What the service asks (`streaming.service.checkpoint.Checkpoint`).

    def query(self):
        """The id of the query; empty where none was started."""
        return self.named.get(0, "")

    @property
    def is_begun(self):
        """Whether a query was started, whose name is whole."""
        return self.query() not in ("", TORN)

    def planned(self):
        """The last batch that was planned."""
        return max(self.offsets, default=-1)

    def done(self):
        """The last batch that is logged as done."""
        return max(self.commits, default=-1)

    def batch_in_doubt(self):
        """The batch that was planned but not logged as done."""
        return self.planned() if self.planned() > self.done() else -1

    def entry(self, batch):
        """What the log has of a batch that was planned."""
        if (
            batch not in self.offsets
        ):  # an older checkpoint was put back, or another copy removed it
            raise StorageUnavailable(f"offsets/{batch} is missing")
        return self.offsets[batch]

    def logged(self, batch):
        """A batch's ends and time, as Spark writes them."""
        entry = self.entry(batch)
        if entry == TORN:
            return b""
        end, now_ms = entry
        return f'v1\n{{"batchTimestampMs":{now_ms}}}\n{json.dumps(end)}'.encode()

    def logged_if_kept(self, batch):
        """The same; None where it is not there."""
        return self.logged(batch) if batch in self.offsets else None

    def newest_ms(self):
        """The largest time of a planned batch."""
        return max((now_ms for _, now_ms in self.offsets.values()), default=0)

    def decisions(self):
        """What was written last."""
        if self.kept == TORN:
            raise SequencerError("decisions.json is damaged")
        return json.loads(self.kept)

    def write_decisions(self, values):
        """As a whole or not at all: a file of another name takes the place of the old one.

        The disk has its content before, and its name behind that.
        """
        self._need_disk()
        is_slow = self.takes_decisions and self.lockable
        if is_slow and self.synced:
            wait(self.world.rng.expovariate(1 / self.syncing_s))
        if is_slow and ("decisions", 0) not in self.written:
            self.kept_before = self.kept
        self.kept = json.dumps(values)
        if is_slow:
            self.written["decisions", 0] = self.world.now
            for _ in range(min(1, len(self.at_decision))):
                self.at_decision.pop()()
            if self.synced:
                wait(self.world.rng.expovariate(1 / self.syncing_s))
            self._sync("decisions")

    def status(self):
        """The status, as far as it has the counts of shards; empty where none was written."""
        shards = {s: asdict(Totals.from_json(text)) for s, text in self.totals.items()}
        return {"shards": shards} if self.noted >= 0 else {}

    def note(self, progress):
        """Write the status: figures of shards, and the batch that they are of."""
        self.totals = {s: t.to_json() for s, t in progress.shards.items()}
        self.noted = progress.batch

    def ends(self, batch):
        """Where a planned batch ends."""
        return self.offsets[batch][0] if batch >= 0 else {}

    def forget_planned(self):
        """Another batch takes the number of the one in doubt."""
        self.forget_later_state()
        self.offsets.pop(self.batch_in_doubt(), None)  # another copy may have done so

    def forget_later_state(self):
        """Remove the state behind the last batch that is done."""
        for place in [*self.state]:
            if place[1] > self.done() + 1:
                del self.state[place]

    def mend(self):
        """Remove what is torn, and what rests on it, as `SparkFiles` does."""
        torn = self._torn()
        is_short = len(self.offsets) - sum(log == "offsets" for log, _ in torn) < 2
        if torn and 0 not in self.offsets and is_short:
            raise JobFailed("no two batches are left that are whole")
        for log, batch in torn:
            self.commits.pop(batch, None)
            self.forget_later_state()
            if log == "offsets":
                del self.offsets[batch]
        names = [log for log, _ in torn]
        if self.named.get(0) == TORN:
            self.named.clear()
            names.append("named")
        return names

    def _torn(self):
        return torn_entries(
            self.offsets, self.commits, lambda log, batch: getattr(self, log)[batch] != TORN
        )

    def left(self):
        """The last batch that is done, and the last one planned, when what is torn is removed."""
        logs = [(log, batch) for log in ("commits", "offsets") for batch in getattr(self, log)]
        torn = self._torn()
        gone = {*torn, *(("commits", batch) for log, batch in torn if log == "offsets")}
        left = [each for each in logs if each not in gone]
        return (
            max((batch for each, batch in left if each == log), default=-1)
            for log in ("commits", "offsets")
        )

    def sync_logs(self):
        """Have the disk write the logs."""
        self._sync("offsets", "commits", "old", "decisions")
        if self.lockable:
            self._sync_query()

    def sync_state(self):
        """Have the disk write the state."""
        self._sync("state")

    # --- What Spark does.

    def begin(self):
        """A driver begins; what an earlier one left of the state is synced with the logs."""
        self.written = {
            (("old", *key[1:]) if key[0] == "state" else key): at
            for key, at in self.written.items()
        }

    def name_query(self, name):
        """The query starts; it has a name if it started before."""
        if not self.named:
            self._need_disk()
            self.named[0] = name
            self.written["named", 0] = self.world.now
        if self.named[0] == TORN:
            raise StorageUnavailable("metadata is torn")
        return self.query()

    def log_offsets(self, batch, entry):
        """Plan a batch; who comes second fails."""
        self._log("offsets", self.offsets, batch, entry)
        start, _ = self.offsets.get(batch - 1, ({}, 0))
        self.ever.append((start, entry[0]))
        if self.retained is not None and batch > self.retained:
            self._purge(batch - self.retained)

    def _purge(self, first):
        """Remove what lies before a batch, as Spark does when it has planned one."""
        for batch in [each for each in self.offsets if each < first]:
            self.purged[batch] = self.offsets.pop(batch)
            self.commits.pop(batch, None)
            for log in ("offsets", "commits"):
                self.written.pop((log, batch), None)
        for place in [each for each in self.state if each[1] < first]:
            del self.state[place]
            for kind in ("state", "old"):
                self.written.pop((kind, *place), None)

    def log_commit(self, batch, names):
        """Note that a batch is done, and which states count."""
        self._log("commits", self.commits, batch, names)

    def require_whole(self):
        """Refuse a start where what a logged batch needs is missing, as `Checkpoint` does.

        What is torn is there: `mend` comes behind it.
        """
        planned, done = self.planned(), self.done()
        if max(planned, done) < 0:
            return
        last = max(done, 0, *(batch for batch in self.offsets if batch <= done + 1))
        for batch in (last, last - 1):
            if batch >= 0 and batch not in self.offsets:
                raise JobFailed(f"offsets/{batch} is missing")
        if done >= 0 and self.kept == "{}":
            raise SequencerError("decisions.json is missing, though batches are logged")
        if not self.named and (done >= 0 or not self.lockable):
            raise JobFailed("metadata is missing, though batches are logged")

    def read_last(self, batch):
        """Read the last entries of the logs, as Spark does."""
        for name, at in (("offsets", batch), ("offsets", batch - 1), ("commits", batch)):
            if getattr(self, name).get(at) == TORN:
                raise StorageUnavailable(f"{name}/{at} is torn")
        if batch > 0 and batch - 1 not in self.offsets:
            raise JobFailed(f"offsets/{batch - 1} is missing")

    def commit_state(self, partition, version, rows):
        """Keep a partition's state after a batch; its name."""
        self._need_disk()
        self.named_states += 1
        place = (partition, version, self.named_states)
        self.state[place] = rows
        self.written["state", *place] = self.world.now
        return self.named_states

    def load_state(self, partition, version):
        """The state before a batch."""
        names = self.commits.get(version - 1, {})
        place = (partition, version, names.get(partition))
        if version and place not in self.state:
            raise StorageUnavailable(f"state {place} is missing")
        return self.state.get(place, {})

    def last_state(self):
        """The rows of all partitions that count after the last batch that is done."""
        done = self.done()
        return {p: self.load_state(p, done + 1) for p in self.commits.get(done, {})}

    def due_ms(self):
        """When the first of the shards' timers is due."""
        rows = self.last_state().values()
        times = [due_ms for each in rows for _, due_ms in each.values() if due_ms is not None]
        return min(times, default=math.inf)

    def waits(self, within_ms):
        """Whether a shard's timer is due within this time of the last batch."""
        return self.due_ms() < self.offsets[self.done()][1] + within_ms

    # --- What happens to disks.

    def cut_power(self, rng):
        """Lose some of what was not synced."""
        after = self.world.now - FLUSHED_SECONDS
        for name, *place in sorted(k for k, at in self.written.items() if at > after):
            fate = rng.choice(["kept", "lost", "torn"])
            if fate == "kept":
                continue
            if name == "decisions":  # what is renamed is whole, where it was synced
                is_torn = fate == "torn" and not self.synced
                self.kept = TORN if is_torn else self.kept_before
            elif name in ("state", "old"):
                self.state.pop(tuple(place), None)
            else:
                log = getattr(self, name)
                log.update({place[0]: TORN}) if fate == "torn" else log.pop(place[0], None)
            self.world.note(f"{name} {place} is {fate}")
        self.written.clear()
        self.disk.cut_power(rng)

    def _sync(self, *names):
        self._need_disk()
        if self.synced:
            self.written = {key: at for key, at in self.written.items() if key[0] not in names}

    def _sync_query(self):
        """Whether or not the service waits for its disk."""
        self.written.pop(("named", 0), None)

    def _log(self, name, log, batch, entry):
        self._need_disk()
        if batch in log:
            raise SequencerError("Another copy of this service wrote the checkpoint's log.")
        log[batch] = entry
        self.written[name, batch] = self.world.now

    def _need_disk(self):
        if self.world.now < self.broken_until and self.world.rng.random() < LOST_SHARE:
            raise StorageUnavailable("No space left on device")

    def sync(self, path):
        """Stand in for `streaming.durable.sync`; what is in ``at_sync`` happens meanwhile, once."""
        if self.at_sync:
            self.at_sync.pop()(current().process)
        wait(self.world.rng.expovariate(1 / self.syncing_s))
        if self.world.now < self.broken_until and self.world.rng.random() < LOST_SHARE:
            raise OSError(28, "No space left on device")
        self.disk.sync(Path(path))


@contextmanager
def simulated_disk(storage):
    """Have files of held records synced by this storage."""
    before, shard_files.sync = shard_files.sync, storage.sync
    try:
        yield
    finally:
        shard_files.sync = before

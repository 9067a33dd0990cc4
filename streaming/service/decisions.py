"""The decisions of a pipeline: what its batches do by more than records, state and time.

Rules in the file, a topic's limits or Kafka's refusals may have changed when a batch is repeated;
partitions that had committed it keep what they wrote. So whatever a batch decides by them is in the
checkpoint (`decisions.json`, synced) before its first transaction, and a repeated batch uses that.

**A standing decision** holds from a batch on, until another one replaces it. A plan names them:
`Plan.decisions()` returns them as JSON has them, and `Plan.under(decisions)` returns the plan with
these in place of its own. (To make a field of a plan a decision, add its name to `decided`.) What
the file and the topics say now counts from the first batch that was not planned before the query
started.

**A finding** holds for one batch: what was found out while it was written, such as a record that
Kafka refuses. The driver notes it with :meth:`Decisions.add`, has the batch fail, and the batch is
run again with it. Partitions that had committed it without the finding skip it: a finding must not
change what another partition writes. (So the digest of a batch covers its standing decisions only.)

The driver gives both to the tasks of a batch in one dictionary, `BatchContext.decisions`: the
standing ones, and findings under names of their own. In a task, `batch_context()` returns the
context, wherever the code runs (source, operator, sink):

    plan = self.plan.under(batch_context().decisions)
    refused = batch_context().decisions.get("refused", [])
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from streaming.sink.progress import hashed
from streaming.spark.spark_files import batch_ms, unread

Values = dict[str, Any]
"""Decisions by name, as JSON has them."""

PINNED = "pinned"
"""Among the standing decisions of a batch: what a start has to have as it was (`Plan.pinned`)."""
AWAY_MS = 1_000
"""Shorter stops of the service are no pauses."""
PAUSES_MAX = 100
"""The most that are kept: what was sent in an earlier one was read long ago."""
CHANGED = "changed"
"""The finding that a repeated batch has other records than what is written of it."""


class BatchCheckpoint(Protocol):
    """What a batch needs of its pipeline's checkpoint (`streaming.service.checkpoint`)."""

    def batch_in_doubt(self) -> int:
        """The batch that was planned but not logged as done, -1 if there is none."""

    def logged(self, batch: int) -> bytes:
        """A planned batch as Spark's offset log has it: the ends of all sources, and its time."""

    def logged_if_kept(self, batch: int) -> bytes | None:
        """The same; None where Spark has removed it, as old ones are."""

    def newest_ms(self) -> int:
        """The largest time of the batches that the offset log still has, 0 if it has none."""

    def decisions(self) -> Values:
        """What :meth:`write_decisions` wrote last; empty where nothing was."""

    def write_decisions(self, values: Values) -> None:
        """Replace them."""

    def sync_logs(self) -> None:
        """Have the disk write Spark's logs, before the batch that they plan runs."""

    def sync_state(self) -> None:
        """Have the disk write the state after a batch, before the log says that it is done."""


class Decisions:
    """Reads and writes a checkpoint's decisions; one for each start of a query, in the driver.

    ``planned``: the batch that was planned and not done when it started, -1 for none. ``entries``:
    standing decisions, each with the batch from which they hold, in order. ``found``: a batch (its
    number, and what the offset log has of it, hashed), and its findings. ``renewals``: when all
    keys got a new incarnation, each time with the first batch after that. ``schemas``: of values,
    packed, by their ids (`streaming.service.schemas`); written with the next findings. ``peak_ms``:
    the largest time of a batch behind which the clock was set back, 0 for none: shards stay there.
    ``pauses``: times in which nothing was read (`Rules.pauses`), standing as renewals are.
    ``before``: the query from which the state was moved here; ``batches_before``: how many batches
    there were until then, behind which those of ``renewals`` are counted. ``hold``: called before
    findings are written; raises where another copy has taken the checkpoint, whose decisions they
    would replace.
    """

    def __init__(
        self, checkpoint: BatchCheckpoint, hold: Callable[[int], None] = lambda _batch: None
    ) -> None:
        self.checkpoint = checkpoint
        self.hold = hold
        self.planned = checkpoint.batch_in_doubt()
        self._kept = kept = checkpoint.decisions()
        self.entries: list[tuple[int, Values]] = [tuple(each) for each in kept.get("standing", [])]
        self.renewals: list[tuple[int, int]] = [tuple(each) for each in kept.get("renewals", [])]
        self.found: tuple[int, str, Values] = tuple(kept.get("found", (-1, "", {})))
        self.schemas: dict[str, str] = dict(kept.get("schemas", {}))
        self.peak_ms: int = kept.get("peak_ms", 0)
        self.pauses: list[tuple[int, int]] = [tuple(each) for each in self.last().get("pauses", [])]
        self.before: str = kept.get("before", "")
        self.batches_before: int = kept.get("batches_before", 0)
        self._read: dict[int, bytes] = {}
        self._is_running = False

    def standing(self, batch: int, wanted: Mapping[str, Any]) -> Values:
        """Return what stands for a batch: ``wanted`` if it was not planned before the start."""
        entries = self._until(batch)
        known = entries[-1][1] if entries else None
        new = self._renewed(json.loads(json.dumps(wanted)))
        if known is not None and (batch <= self.planned or known == new):
            return known
        self.entries = [*entries[-1:], (batch, new)]
        self._write()
        return new

    def renew(self, now_ms: int, batch: int) -> None:
        """Give all keys a new incarnation from this batch on, also where it was planned before.

        What others wrote of the batches that come now may have had other content. It begins after
        all that there is, also where the clock was ahead once. (Keys that were new in a batch that
        an earlier renewal held for may have begun a millisecond after that.)
        """
        earlier = [self.peak_ms, *(at_ms + 1 for at_ms, _ in self.renewals)]
        at_ms = max(now_ms, self.checkpoint.newest_ms(), *earlier) + 1
        self.renewals.append((at_ms, self.batches_before + batch))
        if known := self._until(self.planned) or self.entries:
            self.entries = [(max(self.planned, known[-1][0]), self._renewed(known[-1][1]))]
        self._write()

    def last(self) -> Values:
        """Return the newest standing decisions; empty where no batch was planned yet."""
        return self.entries[-1][1] if self.entries else {}

    def findings(self, batch: int) -> Values:
        """Return what was found while this batch was written before."""
        is_its = batch >= 0 and self.found[0] == batch and self.found[:2] == self._name(batch)
        return self.found[2] if is_its else {}

    def add(self, batch: int, findings: Mapping[str, Any]) -> None:
        """Note findings of a batch, synced; a name that is there already gets the new value."""
        self.hold(batch)
        self.found = (*self._name(batch), {**self.findings(batch), **findings})
        self._write()

    def forget_findings(self) -> None:
        """Have the batch in doubt begin without findings; written with the next decision."""
        self.found = (-1, "", {})

    def pinned(self) -> dict[str, str]:
        """Return what the batch in doubt was planned with; empty where none is."""
        known = self._until(self.planned)
        found: dict[str, str] = known[-1][1].get(PINNED, {}) if known else {}
        return found

    def are_kept(self) -> bool:
        """Whether the checkpoint has what was read or written here last; another copy may write."""
        return self.checkpoint.decisions() == self._kept

    def keep(self, batch: int) -> None:
        """Write what stands here once more where a copy that was overtaken has replaced it, late.

        Not before the batch that was planned first is done: what that copy found of it counts.
        """
        if batch > self.planned and not self.are_kept():
            self.hold(batch)
            self._write()

    def pin(self, values: Mapping[str, str]) -> None:
        """Have the batch in doubt be planned with these: nothing counts that is written of it."""
        if known := self._until(self.planned):
            self.entries = [(self.planned, {**known[-1][1], PINNED: {**values}})]
            self._write()

    def planned_digest(self) -> str:
        """Return the digest of the batch in doubt; empty where it had not begun to be written."""
        known = self._until(self.planned)
        return self.digest(self.planned, known[-1][1]) if known else ""

    def digest(self, batch: int, standing: Values) -> str:
        """Return a name for what the batch is made from: `<offsets and time>.<decisions>`."""
        decided = json.dumps(standing, sort_keys=True).encode()
        return f"{hashed(self._logged(batch))}.{hashed(decided)}"

    def note_clock(self, batch: int) -> None:
        """Note how far the clock was where it was set back before this batch: the log forgets."""
        before = self._before_ms(batch)
        if self.time_ms(batch) < before and before > self.peak_ms:
            self.peak_ms = before
            self._write()

    def note_pause(self, batch: int, ran_ms: int, least_ms: int) -> None:
        """Note for how long nothing was read before this batch; that stands from it on.

        ``ran_ms``: how long the batch before ran in this process. ``least_ms``: shorter times are
        no pause; for the first batch that was not planned before, AWAY_MS.
        """
        if batch <= self.planned:
            return
        before = max(self._before_ms(batch), self.peak_ms)
        # A batch that is planned anew (`SparkFiles.mend`) has one pause before it, not two.
        self.pauses = [pause for pause in self.pauses if pause[0] < before]
        length = max(self.time_ms(batch), self.peak_ms) - before - ran_ms
        least_ms, self._is_running = (least_ms if self._is_running else AWAY_MS), True
        if before and length >= least_ms:
            self.pauses.append((before, length))
        self.pauses = self.pauses[-PAUSES_MAX:]

    def time_ms(self, batch: int) -> int:
        """Return the time of the batch that runs."""
        return batch_ms(self._logged(batch))

    def unread(self, batch: int) -> Values:
        """Return what `Rules` have of a batch that leaves records unread, as its plan has it."""
        return unread(self._logged(batch))

    def newest_ms(self, batch: int) -> int:
        """Return the largest incarnation that this batch, or one before it, may give."""
        renewed = [at_ms + 1 for at_ms, _ in self.renewals[-1:]]
        return max(self.time_ms(batch), self.peak_ms, *renewed)

    def _before_ms(self, batch: int) -> int:
        """The time of the batch before, 0 where there is none."""
        if batch - 1 not in self._read:
            self._read[batch - 1] = self.checkpoint.logged_if_kept(batch - 1) or b""
        return batch_ms(self._read[batch - 1])

    def _until(self, batch: int) -> list[tuple[int, Values]]:
        """The standing decisions up to those that hold for a batch."""
        return [entry for entry in self.entries if entry[0] <= batch]

    def _logged(self, batch: int) -> bytes:
        """What the log has of the batch that runs, read once: storage may be far away."""
        if batch not in self._read:
            before = {at: entry for at, entry in self._read.items() if at == batch - 1}
            self._read = {**before, batch: self.checkpoint.logged(batch)}
        return self._read[batch]

    def _name(self, batch: int) -> tuple[int, str]:
        """Its number may have been another batch's, in a checkpoint that was put back."""
        return batch, hashed(self.checkpoint.logged(batch))

    def _write(self) -> None:
        values: Values = {"standing": self.entries, "found": self.found, "renewals": self.renewals}
        if self.schemas:
            values["schemas"] = self.schemas
        if self.peak_ms:
            values["peak_ms"] = self.peak_ms
        if self.before:
            values["before"] = self.before
        if self.batches_before:
            values["batches_before"] = self.batches_before
        self.checkpoint.write_decisions(values)
        self._kept = json.loads(json.dumps(values))

    def _renewed(self, values: Values) -> Values:
        renewals = {"renewals": [[*each] for each in self.renewals]} if self.renewals else {}
        pauses = {"pauses": [[*each] for each in self.pauses]} if self.pauses else {}
        before = {"batches_before": self.batches_before} if self.batches_before else {}
        return {**values, **renewals, **pauses, **before}

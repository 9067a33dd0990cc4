"""Plants that show where tasks run again, logs are pruned, rules change, or marks are written."""

from __future__ import annotations

from dataclasses import replace

from streaming.service import marks, standing
from streaming.service.decisions import Decisions
from streaming.sink.progress import same_input
from streaming.sink.writer import PartitionWriter
from streaming.wire.brokers import Brokers
from tests.simulated.planting import plant_in
from tests.simulated.storage import Storage


@plant_in(needs="loses sight of", kind="retries")
def only_a_batch_in_doubt_is_looked_for(put):
    """What an attempt wrote since the query started is not found by the next one."""
    begin_session = PartitionWriter.begin_session

    def wrong(self, context):
        found = begin_session(self, context)
        self.part = self.part if context.in_doubt else None
        return found if context.in_doubt else None

    put(PartitionWriter, "begin_session", wrong)


@plant_in("channel", needs="kill the driver", kind="purged")
def what_the_log_forgot_is_unknown(put):
    """Progress counts only where its batch is in the log still."""

    def wrong(progress, checkpoint):
        logged = checkpoint.logged_if_kept(progress.batch)
        return progress.is_taken_back or (
            logged is not None and same_input(progress.digest, logged)
        )

    put(standing, "is_known", wrong)


@plant_in(needs="kill", kind="rules")
def a_repeated_batch_has_the_rules_of_now(put):
    """What the file says counts for a batch that was begun under other rules, whose name it has."""
    standing_of, digest = Decisions.standing, Decisions.digest

    def wrong(self, batch, wanted):
        known = standing_of(self, batch, wanted)
        return {**known, **wanted} if batch <= self.planned else known

    put(Decisions, "standing", wrong)
    put(Decisions, "digest", lambda self, batch, _standing: digest(self, batch, {}))


@plant_in("asking", needs="kill")
def only_the_start_behind_a_pause_knows_it(put):
    """A batch that is repeated counts waits in another way than the partitions that wrote it."""
    standing_of, digest = Decisions.standing, Decisions.digest

    def wrong(self, batch, wanted):
        pauses, self.pauses = self.pauses, []
        known = standing_of(self, batch, wanted)
        self.pauses = pauses
        return {**known, "pauses": [[*each] for each in pauses]}

    put(Decisions, "standing", wrong)
    put(Decisions, "digest", lambda self, batch, _standing: digest(self, batch, {}))


@plant_in("changing", needs="power cut when", folder=True, kind="decisions")
def decisions_are_left_in_memory(put):
    """`decisions.json` is written, and its disk not waited for."""
    sync = Storage._sync

    def wrong(self, *names):
        sync(self, *(name for name in names if name != "decisions"))

    put(Storage, "_sync", wrong)


@plant_in(kind="marks")
def a_mark_forgets_what_is_held(put):
    """What is held, or on its way between shards, holds no mark back."""
    done_by = marks.done_by

    def wrong(*arguments):
        done = done_by(*arguments)
        return None if done is None else replace(done, oldest_ms={})

    put(marks, "done_by", wrong)


@plant_in(needs="a deposed leader of outputs", kind="marks")
def a_mark_asks_one_broker_for_leaders(put):
    """It may be one that is cut off from the others, and led the outputs."""
    find = Brokers.find_leaders
    put(Brokers, "find_leaders", lambda self, topics, **_of_most: find(self, topics))

"""Plants that show where a backup is put back, or where a pipeline reads what another one writes."""

from __future__ import annotations

from streaming.disciplines.exchange import Links
from streaming.service import histories
from streaming.wire import fetched
from tests.simulated.planting import plant_in

PUT_BACK = "a backup is put back"


@plant_in("network", needs=PUT_BACK)
def what_lost_batches_sent_is_taken(put):
    """Messages between shards have no history."""
    put(Links, "_is_lost", lambda _self, _since_ms, _batch: False)


@plant_in("owned clock", needs=PUT_BACK)
def what_the_first_lost_batch_sent_is_taken(put):
    """The batch behind the last one that is done counts as known."""

    def wrong(self, since_ms, batch):
        return any(since_ms < at_ms and batch > first for at_ms, first in self.renewals)

    put(Links, "_is_lost", wrong)


@plant_in("owned counter", needs="two backups are put back")
def what_an_unknown_history_sent_is_taken(put):
    """Where an older backup was put back first, its batches count as those of the newer one."""

    def wrong(self, since_ms, batch):
        return any(since_ms < at_ms and batch >= first for at_ms, first in self.renewals)

    put(Links, "_is_lost", wrong)


@plant_in("joined", needs=PUT_BACK)
def one_partition_takes_its_progress_back(put):
    """The others' progress is that of lost batches."""
    take_back = histories._take_back

    def wrong(plan, partitions, progress):
        take_back(plan, partitions[:1], progress)

    put(histories, "_take_back", wrong)


@plant_in("group", needs=PUT_BACK)
def a_restored_checkpoint_goes_on_behind_what_was_planned(put):
    """What was planned counts as done, though its output is taken back."""
    accept = histories._accept_repeats

    def wrong(plan, checkpoint, *arguments, **more):
        accept(plan, checkpoint, *arguments, **more)
        planned = checkpoint.batch_in_doubt()
        if planned > 0:
            checkpoint.offsets[planned - 1] = checkpoint.offsets[planned]
            checkpoint.forget_planned()

    put(histories, "_accept_repeats", wrong)


# --- Chains of pipelines ---


@plant_in(kind="a chain", needs="kill")
def who_aborted_once_is_passed_over(put):
    """What a producer commits behind a transaction that it aborted counts as aborted."""
    put(fetched, "_is_abort", lambda _part, _head: False)

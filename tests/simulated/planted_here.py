"""Plants in batches of few records, which are read where they are stepped."""

from __future__ import annotations

import pickle

from streaming.arrow.pack import share_in
from streaming.arrow.totals import Totals
from streaming.disciplines.shards import NEVER_MS, ShardOperator
from streaming.source import reader
from tests.simulated import world
from tests.simulated.planting import plant, plant_in


def instead_of_packs(put, of_share):
    """Have ``of_share(operator, key, share row, packs)`` give a shard's packs of what it reads itself."""
    packs = ShardOperator.packs

    def wrong(self, key, row):
        if share_in(row) is None:
            return packs(self, key, row)
        return of_share(self, key, row, packs)

    put(ShardOperator, "packs", wrong)


@plant
def what_is_read_here_is_given_twice(put):
    """A task reads a share for each of its shards, and keeps what it has."""
    instead_of_packs(put, lambda self, key, row, packs: packs(self, key, row) * 2)


@plant_in("channel")
def what_is_read_here_is_for_one_shard(put):
    """The first shard that asks takes all of it."""

    def wrong(self, key, row, packs):
        found = packs(self, key, row)
        self._shared = {place: {} for place in self._shared}
        return found

    instead_of_packs(put, wrong)


@plant
def what_was_read_here_is_kept_for_the_next_batch(put):
    """A worker does not ask whether it is the same share."""

    def wrong(self, key, row, packs):
        kept = vars(world.current().process).setdefault("read_here", {})
        if key not in kept:
            kept[key] = packs(self, key, row)
        return kept[key]

    instead_of_packs(put, wrong)


@plant_in("channel")
def partitions_keep_the_shards_of_others(put):
    """Keys are divided in runs, and stand in the state by turns."""

    def wrong(self, key, row, packs):
        partitions = self.plan.state_partitions
        at, size = self.keys.index(key), len(self.keys) // partitions
        found = packs(self, key, row)
        return found if at // size == at % partitions else []

    instead_of_packs(put, wrong)


@plant
def only_the_first_partition_is_read_here(put):
    """What is to be read has one range."""
    share_row = reader.share_row

    def wrong(share):
        there, repeated = pickle.loads(share)
        return share_row(pickle.dumps((there[:1], repeated)))

    put(reader, "share_row", wrong)


@plant_in("asking")
def a_shard_that_gets_nothing_forgets_its_timer(put):
    """Its state does not say when it is due."""
    keep = ShardOperator.keep
    put(ShardOperator, "keep", lambda self, key, core, _due_ms: keep(self, key, core, NEVER_MS))


@plant_in("asking")
def a_timer_is_that_of_the_batch_before(put):
    """The state has the totals that it had."""
    take, keep = ShardOperator.take, ShardOperator.keep
    before = {}

    def wrong_take(self, key, row):
        before[key] = Totals.from_json(row.totals).due_ms
        return take(self, key, row)

    def wrong_keep(self, key, core, _due_ms=None):
        return keep(self, key, core, before[key] or NEVER_MS)

    put(ShardOperator, "take", wrong_take)
    put(ShardOperator, "keep", wrong_keep)

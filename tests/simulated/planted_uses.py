"""Plants that show where rules are any, commands come among messages, or a state is moved."""

from __future__ import annotations

from streaming.service import rescale
from streaming.service.query import Carrier
from streaming.service.schemas import SchemaKeeper
from streaming.values.schemas import UNKNOWN
from tests.simulated.planting import plant_in

MOVED = "the state is moved"


@plant_in("ruled")
def nobody_adds_up_what_all_shards_answer(put):
    """A command to all that wait has no answer: each shard knows its part of it."""
    put(Carrier, "_answer", lambda _self, _news, _context: [])


@plant_in("owned", needs=MOVED)
def a_moved_checkpoint_has_the_counts_of_one_shard(put):
    """The counts of the others stay behind, and nobody compares the sums."""
    carry = rescale._carry_status

    def wrong(old, new, moved):
        carry(old, new, moved)
        (key, state), *others = moved.rows
        moved.rows[:] = [(key, state._replace(totals="{}")), *others]

    put(rescale, "_carry_status", wrong)


@plant_in("ruled", needs="kill the driver")
def what_no_registry_knew_is_asked_again(put):
    """A batch that is repeated may read values that it could not read before."""
    find = SchemaKeeper.find

    def wrong(self, ids, batch):
        found = find(self, ids, batch)
        self.decisions.add(batch, {UNKNOWN: []})
        return found

    put(SchemaKeeper, "find", wrong)

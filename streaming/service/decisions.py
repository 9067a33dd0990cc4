"""The decisions of a pipeline: what its batches do by more than records, state and time.

Rules in the file, a topic's limits or Kafka's refusals may have changed when a batch is repeated;
partitions that had committed it keep what they wrote. So whatever a batch decides by them is in the
checkpoint (`decisions.json`, synced) before its first transaction, and a repeated batch uses that.

**A standing decision** holds from a batch on, until another one replaces it. A plan names them:
`Plan.decisions()` returns them as JSON has them, and `Plan.under(decisions)` returns the plan with
these in place of its own. To make a setting a decision, add it to both. What the file and the
topics say now counts from the first batch that was not planned before the query started.

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

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streaming.service.checkpoint import Checkpoint

Values = dict[str, Any]
"""Decisions by name, as JSON has them."""


class Decisions:
    """Reads and writes a checkpoint's decisions; one for each start of a query, in the driver.

    ``planned``: the last batch that was planned before the start, -1 for none.
    """

    def __init__(self, checkpoint: Checkpoint, planned: int) -> None:
        self.checkpoint = checkpoint
        self.planned = planned

    def standing(self, batch: int, wanted: Mapping[str, Any]) -> Values:
        """Return what stands for a batch; ``wanted`` is that for batches not planned before."""
        raise NotImplementedError

    def findings(self, batch: int) -> Values:
        """Return what was found while this batch was written before."""
        raise NotImplementedError

    def add(self, batch: int, findings: Mapping[str, Any]) -> None:
        """Note findings of a batch, synced; a name that is there already gets the new value."""
        raise NotImplementedError

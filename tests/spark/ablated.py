"""The service without a safeguard of each multicast protocol, or with low limits."""

from contextlib import AbstractContextManager
from unittest.mock import patch

from streaming.disciplines import multicast
from streaming.disciplines.discipline import Pace
from streaming.disciplines.multicast.protocol import core
from tests.sequencer.checking import ablations

BUSES = {
    "clock": ablations.clock_bus(queue=ablations.NoBlocks),
    "counter": ablations.counter_bus(queue=ablations.LooksPastUncommitted),
}


class Ablated(core.MulticastOperator):
    """Peers whose queues do not wait for messages that have announced themselves."""

    def core(self, shard):
        return core.MulticastCore(self.plan, shard, BUSES[self.plan.order])


def unsafe() -> AbstractContextManager[object]:
    """For tests of the judge."""
    return patch.object(core, "MulticastOperator", Ablated)


def narrow() -> AbstractContextManager[object]:
    """A backlog of multicasts is larger than what the state should keep."""
    low = Pace(records_max=100, held_high=1_500, held_low=500)
    return patch.object(multicast, "WAITING_PACE", low)

"""`sequencer` as tests want it: without a safeguard of each multicast protocol, or with low limits.

python -c 'from tests.spark.ablated import unsafe; unsafe()' run CONFIG --once
"""

from streaming.cli import main as sequencer
from streaming.disciplines import multicast
from streaming.disciplines.discipline import Pace
from streaming.disciplines.multicast import operator
from streaming.disciplines.multicast.peers import LIMITS
from tests.sequencer.checking import ablations

BUSES = {
    "clock": ablations.clock_bus(queue=ablations.NoBlocks),
    "counter": ablations.counter_bus(queue=ablations.LooksPastUncommitted),
}


class Ablated(operator.MulticastOperator):
    """Peers whose queues do not wait for messages that have announced themselves."""

    def core(self, shard):
        return operator.MulticastCore(self.plan, shard, BUSES[self.plan.order](LIMITS))


def unsafe():
    """For tests of the judge."""
    operator.MulticastOperator = Ablated
    sequencer()


def narrow():
    """A backlog of multicasts is larger than what the state should keep."""
    multicast.WAITING_PACE = Pace(records_max=100, held_high=1_500, held_low=500)
    sequencer()

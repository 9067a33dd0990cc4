"""`sequencer` with a safeguard of each multicast protocol switched off, for tests of the judge.

python -c 'from tests.spark.ablated import main; main()' run CONFIG --once
"""

from streaming import query
from streaming.cli import main as sequencer
from streaming.multicast.operator import MulticastCore, MulticastOperator
from streaming.multicast.peers import LIMITS
from tests.sequencer.checking import ablations

BUSES = {
    "clock": ablations.clock_bus(queue=ablations.NoBlocks),
    "counter": ablations.counter_bus(queue=ablations.LooksPastUncommitted),
}


class Ablated(MulticastOperator):
    """Peers whose queues do not wait for messages that have announced themselves."""

    def core(self, shard):
        return MulticastCore(self.plan, shard, BUSES[self.plan.order](LIMITS))


def main():
    query.MulticastOperator = Ablated
    sequencer()

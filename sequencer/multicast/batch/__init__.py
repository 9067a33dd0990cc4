"""Multicast in the order of a batch that everybody knows: no clocks, no counter, no trips.

Every shard is given every record of a batch in one order, so a message's place is its number, and
each shard works out alone what its own peers get. All of it on arrays, with no step for each
delivery. `lists` what senders write, `names` what it stands for, `messages` who gets what,
`peers` each peer's counts, `holders` the handles and their holders.
"""

from sequencer.multicast.batch.holders import Holders
from sequencer.multicast.batch.lists import Lists, read_lists
from sequencer.multicast.batch.messages import REASONS, Copies, MessageLimits, Messages
from sequencer.multicast.batch.names import Names, Node, resolve
from sequencer.multicast.batch.peers import Peers

__all__ = [
    "REASONS",
    "Copies",
    "Holders",
    "Lists",
    "MessageLimits",
    "Messages",
    "Names",
    "Node",
    "Peers",
    "read_lists",
    "resolve",
]

"""Multicast by bus1's clocks or kdbus' counter: one order that every receiver agrees with.

`words` what is said, `clock_queue` and `counter_queue` the queues, `nodes` nodes and handles,
`clock_peer` and `counter_peer` who answers, `transaction` and its two protocols who asks,
`sender_line` several messages of one sender on their way, `bus` all of it in one process,
`shard` a part of it, exchanging messages with the others.
"""

from sequencer.multicast.bus import Bus, ClockBus, CounterBus
from sequencer.multicast.clock_queue import ClockQueue, Entry
from sequencer.multicast.counter_messages import COUNTER
from sequencer.multicast.counter_queue import CounterQueue
from sequencer.multicast.shard import Pumped, Shard
from sequencer.multicast.transaction import Transaction
from sequencer.multicast.words import (
    Delivery,
    Destination,
    Destruction,
    LimitError,
    Limits,
    Message,
    Notice,
    ProtocolError,
    Refusal,
    Refused,
    Reply,
    Request,
    Stamp,
    TransactionId,
)

__all__ = [
    "COUNTER",
    "Bus",
    "ClockBus",
    "ClockQueue",
    "CounterBus",
    "CounterQueue",
    "Delivery",
    "Destination",
    "Destruction",
    "Entry",
    "LimitError",
    "Limits",
    "Message",
    "Notice",
    "ProtocolError",
    "Pumped",
    "Refusal",
    "Refused",
    "Reply",
    "Request",
    "Shard",
    "Stamp",
    "Transaction",
    "TransactionId",
]

"""Multicast: one order that every receiver agrees with.

`batch`: in the order of the batch. `protocol`: by bus1's clocks or kdbus' counter; its main
names are here.
"""

from sequencer.multicast.protocol.bus import Bus, ClockBus, CounterBus
from sequencer.multicast.protocol.clock_queue import ClockQueue, Entry
from sequencer.multicast.protocol.counter_messages import COUNTER
from sequencer.multicast.protocol.counter_queue import CounterQueue
from sequencer.multicast.protocol.shard import Pumped, Shard
from sequencer.multicast.protocol.transaction import Transaction
from sequencer.multicast.protocol.words import (
    Delivery,
    Dequeued,
    Destination,
    Destruction,
    LimitError,
    Limits,
    Message,
    Notice,
    ProtocolError,
    Refusal,
    Refused,
    Release,
    Released,
    Reply,
    Request,
    Stamp,
    Task,
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
    "Dequeued",
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
    "Release",
    "Released",
    "Reply",
    "Request",
    "Shard",
    "Stamp",
    "Task",
    "Transaction",
    "TransactionId",
]

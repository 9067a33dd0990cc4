"""What is there of a topic, in 64 bits, and a broker for threads that rests on it (catkit2).

`word` the 64 bits and their transitions, `atomic` a cell with compare-and-swap, `concurrent` the
word that many threads share; `ring` one topic, `drafts` the writing side, `subscription` the
reading side, `broker` all of it.
"""

from sequencer.availability.broker import IdTaken, LocalBroker
from sequencer.availability.concurrent import Availability
from sequencer.availability.drafts import Draft, DraftSettled
from sequencer.availability.subscription import BrokerClosed, Mode, Received, Subscription
from sequencer.availability.word import Result

__all__ = [
    "Availability",
    "BrokerClosed",
    "Draft",
    "DraftSettled",
    "IdTaken",
    "LocalBroker",
    "Mode",
    "Received",
    "Result",
    "Subscription",
]

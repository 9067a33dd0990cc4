"""Clients for users of the service: producers that number and name, a consumer that trusts nobody.

`labelled` has the producer of channels (`keeping`: what it remembers, `asked`: what it is asked
for, `refusals`: what Kafka never takes, `configured`: what it takes from the service's file),
`sending` those of groups and multicasts, `reading` the consumer, `membership` its part in its
group, `deliveries` what it gives, `lines` and `followed` what it holds each delivery against,
`progress` until when it is complete. `parallel` handles deliveries in several threads: `scheduling`
decides which may run and what may be committed, `working` calls the handler, `rejecting` writes
what it gives up, `committing` commits, `limits` are the settings. `barriers` sends messages to
oneself.
`asynchronous` has them all for asyncio.
"""

from streaming.clients.asynchronous import AsyncConsumer, AsyncSender
from streaming.clients.barriers import Barrier
from streaming.clients.deliveries import (
    ChangeNotice,
    Delivery,
    GroupDelivery,
    MulticastDelivery,
    Notice,
)
from streaming.clients.labelled import LabelledProducer
from streaming.clients.limits import Limits, Retry
from streaming.clients.lines import Disorder, Hole
from streaming.clients.parallel import ParallelConsumer, Parked
from streaming.clients.reading import OrderedConsumer
from streaming.clients.sending import GroupPublisher, MulticastSender

__all__ = [
    "AsyncConsumer",
    "AsyncSender",
    "Barrier",
    "ChangeNotice",
    "Delivery",
    "Disorder",
    "GroupDelivery",
    "GroupPublisher",
    "Hole",
    "LabelledProducer",
    "Limits",
    "MulticastDelivery",
    "MulticastSender",
    "Notice",
    "OrderedConsumer",
    "ParallelConsumer",
    "Parked",
    "Retry",
]

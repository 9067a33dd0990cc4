"""Clients for users of the service: producers that number and name, a consumer that trusts nobody.

`sending` has the producers of the three disciplines, `reading` the consumer, `deliveries` what it
gives, `lines` what it holds each delivery against, `barriers` messages to oneself.
"""

from streaming.clients.barriers import Barrier
from streaming.clients.deliveries import (
    ChangeNotice,
    Delivery,
    GroupDelivery,
    MulticastDelivery,
    Notice,
)
from streaming.clients.lines import Disorder, Hole
from streaming.clients.reading import OrderedConsumer
from streaming.clients.sending import GroupPublisher, LabelledProducer, MulticastSender

__all__ = [
    "Barrier",
    "ChangeNotice",
    "Delivery",
    "Disorder",
    "GroupDelivery",
    "GroupPublisher",
    "Hole",
    "LabelledProducer",
    "MulticastDelivery",
    "MulticastSender",
    "Notice",
    "OrderedConsumer",
]

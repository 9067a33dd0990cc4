"""The service: Spark jobs, Kafka, configuration, command line, metrics; and clients for users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streaming.clients import (
        GroupPublisher,
        LabelledProducer,
        MulticastSender,
        OrderedConsumer,
    )

__all__ = ["GroupPublisher", "LabelledProducer", "MulticastSender", "OrderedConsumer"]


def __getattr__(name: str) -> Any:
    """Import the clients when they are asked for: the command line starts without them."""
    if name in __all__:
        from streaming import clients  # noqa: PLC0415

        return getattr(clients, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

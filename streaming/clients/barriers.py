"""Barriers: messages to oneself, which say that everything sent before them has been read.

Source: the kdbus text on message ordering, "Respect causality": a peer that heard of a message
by other means sends a message to itself, and acts when it reads it.

A barrier is one copy in each partition of the input topic. What was in a partition before its copy
is ordered before that copy, so the last copy comes after all of it, from all senders::

    partition 0   a  b  [copy]  c        delivered: a b [copy] d [copy] c e
    partition 1   d  [copy]  e                                     └ passed: a, b and d were read
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

from streaming.clients.deliveries import Delivery
from streaming.clients.reading import OrderedConsumer
from streaming.errors import KafkaUnavailable

BARRIER = "barrier"
"""The header of a copy: the barrier's token."""

D = TypeVar("D", bound=Delivery)


class Barrier:
    """Wait until a reader has received all copies of a barrier.

    ``token`` is in the header ``barrier`` of its copies, ``reader`` the key of the stream in which
    they are delivered, ``copies`` their number. It has `passed` when all of them were taken.
    """

    def __init__(self, token: bytes, reader: bytes, copies: int) -> None:
        self.token = token
        self._reader = reader
        self._copies = copies
        self._taken: set[tuple[int, int]] = set()
        """(incarnation, sequence) of the copies, as a repeated delivery is no further copy."""

    @property
    def passed(self) -> bool:
        """Whether the reader has received everything that came before the barrier."""
        return len(self._taken) >= self._copies

    def take(self, delivery: Delivery) -> bool:
        """Look at a delivery; return whether it is a copy of this barrier, for its reader."""
        is_copy = delivery.key == self._reader and delivery.header(BARRIER) == self.token
        if is_copy:
            self._taken.add((delivery.incarnation, delivery.sequence))
        return is_copy

    def before(self, consumer: OrderedConsumer[D], limit_s: float = 60.0) -> Iterator[D]:
        """Yield the consumer's deliveries, without copies of the barrier, until it has passed.

        Raises KafkaUnavailable where it has not passed within ``limit_s`` seconds.
        """
        deadline = time.monotonic() + limit_s
        while not self.passed:
            remaining_s = deadline - time.monotonic()
            delivery = consumer.poll(remaining_s) if remaining_s > 0 else None
            if delivery is None:
                raise KafkaUnavailable(
                    f"The barrier has not passed within {limit_s:g} s.",
                    "It may still come; all that was given is in order.",
                    "Is the pipeline running, and does this consumer read "
                    f"{self._reader.decode(errors='replace')!r}?",
                )
            if not self.take(delivery):
                yield delivery

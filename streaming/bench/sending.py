"""Producing as fast as librdkafka can: where its queue is full, wait for room."""

from __future__ import annotations

from typing import Any


def send(producer: Any, topic: str, key: bytes, value: bytes, label: int) -> None:
    """Send a labelled message."""
    while True:
        try:
            producer.produce(topic, value, key, headers=[("label", b"%d" % label)])
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def send_again(producer: Any, topic: str, message: Any) -> None:
    """Send a message that was read, to a partition of the same number."""
    while True:
        try:
            producer.produce(
                topic,
                message.value(),
                message.key(),
                partition=message.partition(),
                timestamp=message.timestamp()[1],
                headers=message.headers(),
            )
        except BufferError:
            producer.poll(0.1)
        else:
            return

"""How many partitions a topic has that a plan does not know."""

from __future__ import annotations

import contextlib
import time

from streaming.disciplines.plan import Plan
from streaming.sink import failures

KAFKA_SECONDS_MAX = 60

_found: dict[str, int] = {}


def look_up(plan: Plan, topic: str) -> int:
    """The number of partitions; a missing topic is created where the plan says so.

    Raises KafkaUnavailable where it is missing and stays so.
    """
    from streaming.sink.librdkafka import translated  # noqa: PLC0415  (seldom needed)

    if topic not in _found:
        doing = f"look up the topic {topic}"
        with translated(doing, transactional=plan.delivery == "exactly-once"):
            _found[topic] = _ask(plan, topic)
    return _found[topic]


def _ask(plan: Plan, topic: str) -> int:
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415

    from streaming.kafka.connection import quiet  # noqa: PLC0415

    deadline = time.monotonic() + KAFKA_SECONDS_MAX
    admin = AdminClient(dict(plan.producer), logger=quiet())
    warned = False
    while time.monotonic() < deadline:
        there = admin.list_topics(timeout=KAFKA_SECONDS_MAX).topics
        if topic in there and there[topic].partitions:
            return len(there[topic].partitions)
        if not plan.create_topics:
            break
        if not warned:
            with contextlib.suppress(Exception):  # whoever was first; else the time runs out
                new = NewTopic(topic, 1, config=plan.new_topics)
                made = admin.create_topics([new], operation_timeout=30)
                made[topic].result(KAFKA_SECONDS_MAX)
            warned = True
        time.sleep(0.1)
    raise failures.missing_topic(topic, create=plan.create_topics)

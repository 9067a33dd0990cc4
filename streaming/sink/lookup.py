"""How many partitions a topic has that a plan does not know."""

from __future__ import annotations

import time

from kafka.errors import KafkaError

from streaming.disciplines.plan import Plan
from streaming.kafka import choice
from streaming.sink import failures
from streaming.wire import admin

SECONDS_MAX = 60
LOOK_AGAIN_SECONDS = 0.1

_found: dict[str, int] = {}


def look_up(plan: Plan, topic: str) -> int:
    """Return the number of partitions; a missing topic is created where the plan says so.

    Raises KafkaUnavailable where it is missing and stays so.
    """
    if topic not in _found:
        try:
            _found[topic] = _ask(plan, topic)
        except KafkaError as error:
            raise failures.unavailable(
                f"look up the topic {topic}",
                admin.reason(error),
                transactional=plan.delivery == "exactly-once",
            ) from error
    return _found[topic]


def _ask(plan: Plan, topic: str) -> int:
    deadline = time.monotonic() + SECONDS_MAX
    with choice.opened(plan.producer) as brokers:
        refusal = None
        there = admin.cluster_of(brokers).topics
        if topic not in there and plan.create_topics:
            new = admin.NewTopic(topic, 1, plan.new_topics)
            refusal = admin.create(brokers, [new])[topic]  # or somebody was first
            while topic not in there and time.monotonic() < deadline:
                time.sleep(LOOK_AGAIN_SECONDS)
                there = admin.cluster_of(brokers).topics
    if topic not in there:
        why = "" if refusal is None else admin.reason(refusal)
        raise failures.missing_topic(topic, why, create=plan.create_topics)
    return there[topic]

"""Over how many partitions the keys of a topic are spread that a plan does not know.

That is a subscriber's own topic. It has one key, which stays where it is if the topic is given
partitions: who reads it would find its order in two places.
"""

from __future__ import annotations

import time

from kafka.errors import KafkaError, TopicAlreadyExistsError

from streaming.arrow.partitioner import partition_of
from streaming.disciplines.plan import Plan
from streaming.kafka import choice
from streaming.settings.values import SUBSCRIBER
from streaming.sink import failures
from streaming.wire import admin
from streaming.wire.bounds import LATEST, BoundsReader
from streaming.wire.brokers import Brokers

SECONDS_MAX = 60
LOOK_AGAIN_SECONDS = 0.1

_found: dict[str, int] = {}


def look_up(plan: Plan, topic: str) -> int:
    """Return the number of partitions, or the one that its key was spread over before.

    A missing topic is created where the plan says so.

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
        if topic not in there:
            brokers.find_leaders([topic])  # KafkaError where this user may not see it
        if topic not in there and plan.create_topics:
            new = admin.NewTopic(topic, 1, plan.new_topics)
            refusal = admin.create(brokers, [new])[topic]  # or somebody was first
            is_coming = refusal is None or isinstance(refusal, TopicAlreadyExistsError)
            while is_coming and topic not in there and time.monotonic() < deadline:
                time.sleep(LOOK_AGAIN_SECONDS)
                there = admin.cluster_of(brokers).topics
        if topic in there:
            return _kept(brokers, plan, topic, there[topic])
    why = "" if refusal is None else admin.reason(refusal)
    raise failures.missing_topic(topic, why, create=plan.create_topics)


def _kept(brokers: Brokers, plan: Plan, topic: str, count: int) -> int:
    """How many partitions a subscriber's topic had when something was written to it first.

    Or as many as give the same place; ``count`` where nothing was, or nobody can tell.
    """
    before, name, behind = plan.output.partition(SUBSCRIBER)
    if count == 1 or not name:
        return count
    reader = BoundsReader(brokers, [topic], committed=False)
    reader.refresh()
    used = [at for at, end in reader(LATEST)[topic].items() if end.offset > 0]
    key = topic[len(before) : len(topic) - len(behind)].encode()
    counts = range(count, 0, -1)
    return next((each for each in counts if used == [partition_of(key, each)]), count)
